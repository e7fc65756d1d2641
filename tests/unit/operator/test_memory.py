"""What the operator holds does not grow with the pods that have been there."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from kai_sched.cluster import write_queue
from kai_sched.lowering import crowding
from kai_sched.model import store
from kai_sched.model.read.parse_cache import SIZE_MAX, Recent
from kai_sched.operator import cycle_trigger
from kai_sched.operator.cycle import loop
from kai_sched.operator.reporting import status_reporter
from tests.unit.operator.traffic import Traffic, trimmed_bytes

MEGABYTE = 1e6
PODS, ROUNDS = 300, 2
READINGS, NEXT_TO_NOTHING = 3, 100
A_POD = 1.0  # objects; a pod brings dozens. What is less than that is found by the test of 250,000.
TRIES = 3  # what is kept for good is kept each time; what only goes late is not
SERIES_MORE = 20
SETTLED, ALL, STEP = 50_000, 250_000, 25_000
GROWTH_MAX_MB = 20.0


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """No log of each pod that cannot be used; and how garbage is looked for is afterwards as it was."""
    thresholds = gc.get_threshold()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.fixture
def caches() -> list[Any]:
    """All caches of the standard library that are bounded: what they hold is no leak."""
    found = (item for item in gc.get_objects() if isinstance(item, functools._lru_cache_wrapper))
    return [item for item in found if item.cache_parameters()["maxsize"] is not None]


async def another_round(traffic: Traffic, monkeypatch: pytest.MonkeyPatch, caches: list[Any]) -> int:
    """Pods come and go; how many pieces of memory Python's objects take afterwards, once all that goes has gone."""
    await traffic.come_and_go(PODS)
    await traffic.go()
    with monkeypatch.context() as now:
        now.setattr(crowding, "SPARE_NUMBERS", -sys.maxsize)  # the cache begins anew, as it does from time to time
        return await least_held(traffic, caches)


async def least_held(traffic: Traffic, caches: list[Any]) -> int:
    """The number of pieces, once it does not become less any more."""
    least, same = sys.maxsize, 0
    while same < READINGS:
        await traffic.idle()
        for found in caches:
            found.cache_clear()
        gc.collect()
        held = sys.getallocatedblocks()
        same = 0 if held < least - NEXT_TO_NOTHING else same + 1
        least = min(least, held)
    return least


async def where(traffic: Traffic, monkeypatch: pytest.MonkeyPatch, caches: list[Any]) -> str:
    """More of the same, with every object looked at: the lines whose objects have become more."""
    own = [tracemalloc.Filter(True, "*/kai_sched/*")]
    tracemalloc.start()
    await another_round(traffic, monkeypatch, caches)
    first = tracemalloc.take_snapshot().filter_traces(own)
    await another_round(traffic, monkeypatch, caches)
    lines = tracemalloc.take_snapshot().filter_traces(own).compare_to(first, "lineno")
    tracemalloc.stop()
    lines.sort(key=lambda line: -line.count_diff)
    return "\n".join(f"{line.count_diff / PODS:.2f} for each pod: {line}" for line in lines[:15])


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.usefixtures("hundredths")
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "standby"])
async def test_nothing_is_kept_of_pods_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, caches: list[Any], leads: bool
) -> None:
    # What is bounded is full when counting begins.
    monkeypatch.setattr(store, "JOURNAL_LENGTH", 500)
    monkeypatch.setattr(write_queue, "EVENTS_MAX", 100)
    monkeypatch.setattr(Recent.__init__, "__defaults__", (200, SIZE_MAX))
    for module, name in (
        (status_reporter, "STATUS_PERIOD_S"),
        (status_reporter, "BUSY_PERIOD_S"),
        (cycle_trigger, "LAZY_S"),
        (loop, "STANDBY_S"),
    ):
        monkeypatch.setattr(module, name, 0.05)  # until then what the last cycle saw is kept
    traffic = Traffic(settle_s=0.1, leads=leads)
    async with traffic.run():
        await another_round(traffic, monkeypatch, caches)
        series = traffic.series()
        for _ in range(TRIES):
            pods = traffic.pods
            held = [await another_round(traffic, monkeypatch, caches) for _ in range(2 * ROUNDS)]
            grown = (min(held[ROUNDS:]) - min(held[:ROUNDS])) / ((traffic.pods - pods) / 2)
            if grown <= A_POD:
                break
        told = await where(traffic, monkeypatch, caches) if grown > A_POD else ""
    assert grown <= A_POD, f"{grown:.1f} objects of each pod are kept: {held}\n{told}"
    assert not leads or traffic.server.evicted > traffic.pods / 100, "series of evictions came and went as well"
    assert traffic.series() - series <= SERIES_MORE


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.long
async def test_memory_stays_over_250_000_pods() -> None:
    """From the 50,000th pod on 20 MB more at the most, though each one is like no other."""
    traffic = Traffic()
    held_mb: dict[int, float] = {}
    async with traffic.run():
        while traffic.pods < ALL:
            await traffic.come_and_go(STEP - traffic.pods % STEP)
            await traffic.go()
            held_mb[traffic.pods // STEP * STEP] = trimmed_bytes() / MEGABYTE
            print(f"{traffic.pods} pods: {held_mb[traffic.pods // STEP * STEP]:.1f} MB, {traffic.series()} lines")
            await asyncio.sleep(0)
    assert max(mb for pods, mb in held_mb.items() if pods > SETTLED) - held_mb[SETTLED] <= GROWTH_MAX_MB, held_mb
