"""Whatever a tenant writes, in whatever numbers: others' pods are bound, and a cycle costs in proportion to its size.

What is counted are calls of Python functions while a warm cache lowers, and the entries of the tables that the solver
gets; with all sizes that the API server takes, time and memory are measured as well.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kai_sched.cycle.run
from kai_sched import Cache, Store, run_cycle
from kai_sched.api.podgroup import SUB_GROUPS_MAX
from kai_sched.lowering.lower import Lowered
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.read.kinds import Reader
from kai_sched.plan.effects import Bind
from kai_sched.selectors.answer_book import AnswerBook, evaluated
from kai_sched.selectors.worker_process import WorkerProcess
from tests.answered import lower_offline
from tests.properties.hostile_work import (
    FAMILIES,
    Object,
    cluster,
    falling_gangs,
    pod,
    put,
    running,
    tenants,
    written,
)

CONFIG = Config()
NODES, WAITING = 8, 12
FEW_BYTES, ALL_BYTES = 60_000, 10_000_000
CALLS_PER_BYTE, ENTRIES_PER_BYTE = 1.0, 4.0
SOME = settings(max_examples=max(8, settings().max_examples // 4), suppress_health_check=[*HealthCheck], deadline=None)


def sizes(table: object) -> Iterator[int]:
    """The sizes of all arrays of a table and the tables in it."""
    if isinstance(table, np.ndarray):
        yield table.size
    elif isinstance(table, tuple):
        for each in table:
            yield from sizes(each)


def lowered_warm(objects: list[Object]) -> tuple[Lowered, int, int]:
    """Lowered again, after one more pod of others has come; how many calls that took; and the size of the objects."""
    store, reader, cache = Store(), Reader(CONFIG), Cache()
    put(store, reader, cluster(NODES, WAITING))
    size = put(store, reader, objects)
    lower_offline(store.cluster(), CONFIG, 0, cache)
    put(store, reader, [pod("late", {}, "sane")])
    profile = cProfile.Profile()
    found = profile.runcall(lower_offline, store.cluster(), CONFIG, 0, cache)
    return found, pstats.Stats(profile).total_calls, size  # type: ignore[attr-defined]


BASE_LOWERED, BASE_CALLS, _ = lowered_warm([])
BASE_ENTRIES = sum(sizes(BASE_LOWERED.snapshot))


def check_lowering(objects: list[Object]) -> None:
    """The tables and the calls of a warm cache are at most in proportion to the size of the objects."""
    found, calls, size = lowered_warm(objects)
    assert calls <= BASE_CALLS + CALLS_PER_BYTE * size
    assert sum(sizes(found.snapshot)) <= BASE_ENTRIES + ENTRIES_PER_BYTE * size


def others_bound(store: Store, cache: Cache) -> set[str]:
    result = run_cycle(store.cluster(), CONFIG, 0, cache)
    return {each.pod for each in result.effects if isinstance(each, Bind) and each.pod.startswith("sane/")}


@given(tenants(FEW_BYTES))
@SOME
def test_lowering_costs_in_proportion_to_what_is_written(objects: list[Object]) -> None:
    check_lowering(objects)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("length", [2, 100])
@pytest.mark.parametrize("family", FAMILIES)
def test_each_list_that_is_read_costs_in_proportion(family: str, length: int, shared: bool) -> None:
    objects = written(family, length, shared, FEW_BYTES)
    assert objects
    check_lowering(objects)


@pytest.mark.slow
@given(tenants(FEW_BYTES), st.randoms(use_true_random=False))
@SOME
def test_the_pods_of_others_are_bound(objects: list[Object], rng: st.Randoms) -> None:  # type: ignore[name-defined]
    store = Store()
    mixed = [*cluster(NODES, WAITING), *objects]
    rng.shuffle(mixed)
    put(store, Reader(CONFIG), mixed)
    assert others_bound(store, Cache()) == {f"sane/sane{i}" for i in range(WAITING)}


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("length", [1, 33, 1000, 20_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_megabytes_of_a_tenant_take_neither_time_nor_memory(family: str, length: int, shared: bool) -> None:
    """On 100 nodes with 200 waiting pods of others, with the compiled solver: a warm cycle within a second.

    Selectors are evaluated between cycles, as the operator does; time that the machine takes for others does not count.
    """
    with closing(Cycles()) as cycles:
        put(cycles.store, cycles.reader, cluster(100, 200))
        cycles.others_bound()
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        objects = written(family, length, shared, ALL_BYTES)
        if family == "sub-groups" and length > SUB_GROUPS_MAX:
            with pytest.raises(FieldError, match=r"spec\.subGroups"):
                put(cycles.store, cycles.reader, objects)
            objects = []
        put(cycles.store, cycles.reader, objects)
        assert cycles.others_bound() == 200
        assert cycles.warm_s(3) < 1.0
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 300 * 1024


@pytest.mark.long
@pytest.mark.parametrize("each", [1, 5, 50, 20_000])
def test_gangs_that_all_ask_for_less_end_within_a_cycle(each: int) -> None:
    """20,000 pods that could take the place of 1,800 running ones of others, each with another request."""
    with closing(Cycles()) as cycles:
        put(cycles.store, cycles.reader, [*cluster(100, 200), *running(100, 18)])
        cycles.others_bound()
        put(cycles.store, cycles.reader, falling_gangs(20_000, each))
        assert cycles.others_bound() == 200
        assert cycles.warm_s(5) < 1.0


class Cycles:
    """Cycles of one store, and answers about selectors between them."""

    def __init__(self) -> None:
        self.store, self.reader, self._cache = Store(), Reader(CONFIG), Cache()
        self._book, self._worker = AnswerBook(), WorkerProcess()
        self.answering_s = 0.0  # process time since the last cycle ended

    def close(self) -> None:
        """End the process that evaluates."""
        self._worker.close()

    def others_bound(self) -> int:
        """Run a cycle, and then answer what it asked; returns how many pods of others were bound."""
        cluster = replace(self.store.cluster(), selector_answers=self._book.answers)
        result = kai_sched.cycle.run.run_cycle(cluster, CONFIG, 0, self._cache)
        began = time.process_time()
        self._book.ask(result.questions)
        while jobs := self._book.next_jobs(time.monotonic()):
            for job, reply, seconds in evaluated(jobs, self._worker.ask, time.monotonic):
                self._book.take(job, reply, seconds, time.monotonic())
        self.answering_s = time.process_time() - began
        return sum(isinstance(each, Bind) and each.pod.startswith("sane/") for each in result.effects)

    def warm_s(self, rounds: int) -> float:
        """The processor time of the quickest of so many cycles, each with a pod of others more, all of them bound."""
        seconds = []
        for n in range(rounds):
            put(self.store, self.reader, [pod(f"late{n}", {}, "sane")])
            began = time.process_time()
            assert self.others_bound() == 201 + n
            seconds.append(time.process_time() - began - self.answering_s)
        return min(seconds)
