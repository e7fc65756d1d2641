"""What the operator holds does not grow with the pods that have been there."""

from __future__ import annotations

import asyncio
import logging
import sys
import tracemalloc
from collections.abc import Iterator

import pytest
import structlog

from kai_sched.cluster import writing
from kai_sched.lowering import cache
from kai_sched.model import store
from kai_sched.model.recent import SIZE_MAX, Recent
from tests.unit.operator.traffic import Traffic, collect, resident_bytes

MEGABYTE = 1e6
FEW, MORE = 1_000, 2_000
BLOCKS_A_POD = 0.1  # one that is never given back would be 1
SERIES_MORE = 20
SETTLED, ALL, STEP = 50_000, 250_000, 25_000
GROWTH_MAX_MB = 20.0


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Each pod that cannot be used is told in the log: this is for reading only."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.configure(**before)


def blocks() -> int:
    """How many pieces of memory Python's objects take."""
    collect()
    return sys.getallocatedblocks()


def where(first: tracemalloc.Snapshot, then: tracemalloc.Snapshot, pods: int) -> str:
    """The lines whose objects have become more."""
    own = [tracemalloc.Filter(True, "*/kai_sched/*")]
    lines = then.filter_traces(own).compare_to(first.filter_traces(own), "lineno")
    return "\n".join(f"{line.count_diff / pods:.2f} for each pod: {line}" for line in lines[:15])


@pytest.mark.slow
@pytest.mark.usefixtures("hundredths")
async def test_nothing_is_kept_of_pods_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is bounded is full when counting begins.
    monkeypatch.setattr(store, "JOURNAL_LENGTH", 500)
    monkeypatch.setattr(cache, "SPARE_NUMBERS", 100)
    monkeypatch.setattr(writing, "EVENTS_MAX", 100)
    monkeypatch.setattr(Recent.__init__, "__defaults__", (200, SIZE_MAX))
    traffic = Traffic(monkeypatch, settle_s=0.2)
    async with traffic.run():
        await traffic.come_and_go(FEW)
        await traffic.go()
        before, series = blocks(), traffic.series()
        await traffic.come_and_go(MORE)
        await traffic.go()
        grown = (blocks() - before) / MORE
        assert traffic.server.evicted > MORE / 100, "series of evictions came and went as well"
        more = traffic.series() - series
        if grown > BLOCKS_A_POD:  # where, is found out by more of the same, with every object looked at
            tracemalloc.start()
            await traffic.go()
            first = tracemalloc.take_snapshot()
            await traffic.come_and_go(FEW)
            await traffic.go()
            collect()
            told = where(first, tracemalloc.take_snapshot(), FEW)
            tracemalloc.stop()
            pytest.fail(f"{grown:.2f} objects of each pod are kept\n{told}")
        assert more <= SERIES_MORE


@pytest.mark.slow
@pytest.mark.long
async def test_memory_stays_over_250_000_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the 50,000th pod on 20 MB more at the most, though each one is like no other."""
    traffic = Traffic(monkeypatch)
    held_mb: dict[int, float] = {}
    async with traffic.run():
        while traffic.pods < ALL:
            await traffic.come_and_go(STEP - traffic.pods % STEP)
            await traffic.go()
            held_mb[traffic.pods // STEP * STEP] = resident_bytes() / MEGABYTE
            print(f"{traffic.pods} pods: {held_mb[traffic.pods // STEP * STEP]:.1f} MB, {traffic.series()} lines")
            await asyncio.sleep(0)
    assert max(mb for pods, mb in held_mb.items() if pods > SETTLED) - held_mb[SETTLED] <= GROWTH_MAX_MB, held_mb
