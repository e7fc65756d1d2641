"""Telling: collected in the event loop, computed in a thread, written in slices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import structlog

from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Pod, PodGroup
from kai_sched.model.read.kinds import POD, POD_GROUP, QUEUE
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.reporting import batch, status_reporter
from kai_sched.operator.reporting.observations import Observations, observe_all
from kai_sched.operator.reporting.status_reporter import StatusReporter
from kai_sched.plan.effects import Bind, Effect, Emit, Evict, Pipeline, Plan, SetCondition, Write
from kai_sched.reconcile.status.pod_conditions import PodCondition
from kai_sched.reconcile.status.reconciler import StatusReconciler
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.builders import Intake, observer_of
from tests.unit.operator.worlds import raw_group, raw_pod, raw_queue
from tests.unit.reconcile.cases import NO_ROOM, cluster, decided, pod, pod_group, state


class Taken:
    """Stands where the writer does."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.slices: list[int] = []
        self.pending = 0

    def submit(self, writes: Iterable[Write]) -> None:
        found = list(writes)
        self.slices.append(len(found))
        self.writes += found

    def events(self, reason: str) -> list[str]:
        return [write.message for write in self.writes if isinstance(write, Emit) and write.reason == reason]


class Bench:
    """A telling whose clock stands where tests put it."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.busy = False
        self.store = Store()
        self.news = Observations()
        config = Config()
        observing = observer_of(config, LiveSettings(config, "default"), self.news)
        self.sink = Intake(self.store, config, observer=observing).sink
        clock = Clock(lambda: self.time, lambda: round(self.time * 1e9))
        self.metrics, self.taken = Metrics(), Taken()
        self.telling = StatusReporter(
            self.store,
            self.news,
            self.metrics,
            config,
            lambda: self.busy,
            lambda: True,
            self.taken,  # type: ignore[arg-type]
            clock,
        )

    def add(self, item: Pod | PodGroup | Node) -> None:
        self.store.put(item)
        if isinstance(item, Pod):
            self.news.observe_pod(item.key, item.uid, None)
        elif isinstance(item, PodGroup):
            self.news.observe_pod_group(item.key, item.uid, b"{}")

    def decide(self, *effects: Effect, groups: Any = ()) -> DecidedCycle:
        found = DecidedCycle(self.store.cluster(), decided(groups, effects=effects), 0.01, Config())
        self.telling.acted(found)
        return found

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(10):
            while not done():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)


@pytest.fixture
async def bench() -> Any:
    bench = Bench()
    running = asyncio.create_task(bench.telling.run())
    yield bench
    running.cancel()


async def test_statuses_are_computed_in_a_thread_of_their_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    compute = StatusReconciler.writes

    def seen(self: StatusReconciler, *args: Any) -> Any:
        threads.add(threading.current_thread().name)
        return compute(self, *args)

    monkeypatch.setattr(StatusReconciler, "writes", seen)
    bench.add(pod("a"))
    bench.decide(groups=[state("ml/a", {"Pending": 1}, NO_ROOM)])
    await bench.until(lambda: len(bench.taken.writes) == 2)
    assert [type(write) for write in bench.taken.writes] == [Emit, SetCondition]
    assert {name.rpartition("_")[0] for name in threads} == {"status"}


@pytest.mark.alone
@pytest.mark.slow
async def test_many_writes_are_handed_over_in_slices(bench: Bench) -> None:
    count = 3 * status_reporter.WRITES_AT_A_TIME
    keys = [f"p{n}" for n in range(count // 2)]
    for key in keys:
        bench.add(pod(key))
    bench.decide(groups=[state(f"ml/{key}", {"Pending": 1}, NO_ROOM) for key in keys])
    while len(bench.taken.writes) < count:
        before = len(bench.taken.writes)
        await bench.until(lambda before=before: len(bench.taken.writes) > before)
        await bench.until(lambda: bench.telling._due is not None or len(bench.taken.writes) == count)
        bench.time += 1.0
        bench.telling._planned.set()
    assert len(bench.taken.writes) == count
    assert max(bench.taken.slices) <= status_reporter.SLICE


async def test_statuses_wait_while_binds_do_but_not_for_ever(bench: Bench) -> None:
    bench.add(pod("a"))
    bench.telling._computed_at = bench.time
    bench.busy = True
    bench.decide(groups=[state("ml/a", {"Pending": 1}, NO_ROOM)])
    bench.time += 4.0
    bench.telling._planned.set()
    await asyncio.sleep(0.05)
    assert bench.taken.writes == []
    bench.time += 2.0
    bench.telling._planned.set()
    await bench.until(lambda: bench.taken.writes)


async def test_a_fault_in_one_computation_keeps_nothing_from_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("oh")

    bench.add(pod("a"))
    groups = [state("ml/a", {"Pending": 1}, NO_ROOM)]
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as told:
        patched.setattr(batch.StatusReconciler, "writes", fails)
        bench.decide(groups=groups)
        await bench.until(lambda: any(line["event"] == "fault.unexpected" for line in told))
    bench.time += 2.0
    bench.decide(groups=groups)
    await bench.until(lambda: len(bench.taken.writes) == 2)


async def test_a_computation_that_fails_is_repeated_without_a_cycle(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an idle cluster there is none that would ask for it; each time it waits longer."""
    begun: list[float] = []
    compute = StatusReconciler.writes

    def fails_at_first(self: StatusReconciler, *args: Any) -> Any:
        begun.append(bench.time)
        if len(begun) < 4:
            raise KeyError("oh")
        return compute(self, *args)

    monkeypatch.setattr(StatusReconciler, "writes", fails_at_first)
    bench.add(pod("a"))
    start = bench.time
    bench.decide(groups=[state("ml/a", {"Pending": 1}, NO_ROOM)])
    for count in range(1, 4):
        await bench.until(lambda count=count: len(begun) == count and bench.telling._due is not None)
        assert bench.telling._due is not None
        bench.time = bench.telling._due
        bench.telling._planned.set()
    await bench.until(lambda: len(bench.taken.writes) == 2)
    assert begun == [start, start + 1.0, start + 3.0, start + 7.0]


async def test_who_was_bound_is_one_line_a_group_and_one_event_a_pod(bench: Bench) -> None:
    bench.add(pod_group("g"))
    for n in range(3):
        bench.add(pod(f"g-{n}", "g"))
    bench.busy = True
    with structlog.testing.capture_logs() as told:
        for n in range(3):
            bench.telling.bound(Bind(f"ml/g-{n}", f"uid-g-{n}", f"node-{n % 2}"), 0.01)
        bench.busy = False
        bench.time += 1.0
        bench.telling._planned.set()
        await bench.until(lambda: len(bench.taken.writes) == 3)
    assert len(bench.taken.events("Scheduled")) == 3
    (line,) = [line for line in told if line["event"] == "group.bound"]
    facts = {name: line[name] for name in ("group", "queue", "pods", "nodes")}
    assert facts == {"group": "ml/g", "queue": "team", "pods": 3, "nodes": "node-0, node-1"}


async def test_who_was_evicted_for_whom_is_one_line_a_group(bench: Bench) -> None:
    bench.add(pod_group("g"))
    victims = []
    for n in range(2):
        bench.add(pod(f"g-{n}", "g", "node-1"))
        freed = (("gpu", 1.0),)
        victims.append(Evict(f"ml/g-{n}", f"uid-g-{n}", "node-1", "reclaim", "ml/w", "ml/g", freed, "", False, ()))
    plan, view = Plan(tuple(victims), ()), bench.store.cluster()
    with structlog.testing.capture_logs() as told:
        for victim in victims:
            bench.telling.evicted(victim, plan, view)
        await bench.until(lambda: len(bench.taken.writes) == 4)
    (line,) = [line for line in told if line["event"] == "group.evicted"]
    facts = {name: line[name] for name in ("group", "pods", "for", "action", "why", "nodes")}
    assert facts == {
        "group": "ml/g",
        "pods": 2,
        "for": "ml/w",
        "action": "reclaim",
        "why": "reclaims the share of its queue",
        "nodes": "node-1",
    }
    assert "\n" not in "".join(bench.taken.events("Evict"))
    assert b'pod_group_evicted_pods_total{podgroup="g"' in bench.metrics.render()


async def test_idle_cycles_are_debug_with_a_sign_of_life_now_and_then(bench: Bench) -> None:
    bench.add(pod("a"))
    promise = Pipeline("ml/a", "uid-a", "node-1")
    with structlog.testing.capture_logs() as told:
        bench.decide()
        bench.decide()
        bench.decide(Bind("ml/a", "uid-a", "node-1"))
        bench.decide(promise)
        bench.decide(promise)
        bench.decide()
        bench.time += status_reporter.HEARTBEAT_S
        bench.decide()
    levels = [line["log_level"] for line in told if line["event"] == "cycle.done"]
    assert levels == ["info", "debug", "info", "info", "debug", "info", "info"]


async def test_a_cycle_says_how_long_it_took_and_how_much_cpu_time_it_used(bench: Bench) -> None:
    """So that a CPU that others took is told from a slow decision."""
    with structlog.testing.capture_logs() as told:
        bench.telling.acted(DecidedCycle(bench.store.cluster(), decided(), 0.5, Config(), cpu_s=0.02))
    assert [(line["ms"], line["cpu_ms"]) for line in told if line["event"] == "cycle.done"] == [(500.0, 20.0)]


async def test_who_has_a_place_is_told_once_who_leaves_it(bench: Bench) -> None:
    """And anew where it has another place."""
    bench.add(pod("a"))
    first, second = Pipeline("ml/a", "uid-a", "node-1"), Pipeline("ml/a", "uid-a", "node-2")
    view, result = bench.store.cluster(), replace(decided((), effects=(first,)), leaving={"node-1": ("ml/x",)})
    bench.telling.acted(DecidedCycle(view, result, 0.01, Config()))
    bench.telling.acted(DecidedCycle(view, result, 0.01, Config()))
    bench.decide(second)
    await bench.until(lambda: len(bench.taken.events("Pipelined")) == 2)
    assert bench.taken.events("Pipelined") == [
        "pod ml/a has a place on node node-1 and waits until ml/x has left it",
        "pod ml/a has a place on node node-2, which no pod is leaving; the next cycle decides whether it is bound",
    ]


async def test_the_end_tells_of_what_is_bound_and_no_statuses(bench: Bench) -> None:
    bench.add(pod("a"))
    bench.busy = True
    bench.decide(groups=[state("ml/a", {"Pending": 1}, NO_ROOM)])
    bench.telling.bound(Bind("ml/a", "uid-a", "node-1"), 0.01)
    await bench.telling.finish()
    assert [type(write) for write in bench.taken.writes] == [Emit]
    await bench.telling.finish()
    assert len(bench.taken.writes) == 1


def test_news_are_the_latest_of_each_object_and_no_more() -> None:
    bench = Bench()
    for version in range(1, 50):
        bench.sink.changed(QUEUE, raw_queue("team", version))
    bench.sink.changed(POD_GROUP, raw_group("g", 2))
    bench.sink.changed(POD, raw_pod("a", 1))
    bench.sink.changed(POD, raw_pod("bound", 1, node="node-1"))  # was never told of, so that nothing is forgotten
    found = bench.news.take()
    assert sorted(found) == [("Pod", "ml/a"), ("PodGroup", "ml/g"), ("Queue", "team")]
    assert bench.news.take() == {}
    bench.sink.changed(POD, raw_pod("a", 2, node="node-1"))
    assert bench.news.take() == {("Pod", "ml/a"): None}


def test_observations_reach_the_reconciler_even_if_a_status_is_malformed() -> None:
    heard: list[Any] = []

    class Ear(StatusReconciler):
        def observe_pod(self, key: str, uid: str, condition: PodCondition | None) -> None:
            super().observe_pod(key, uid, condition)
            heard.append((key, condition))

        def observe_queue(self, name: str, uid: str, raw_status: bytes, fault: str = "") -> None:
            super().observe_queue(name, uid, raw_status, fault)
            heard.append((name, raw_status, fault))

    news = Observations()
    news.observe_queue("q", "u", b"[1]", "spec: no")
    news.observe_pod_group("ml/g", "u", b'"text"')
    news.observe_pod("ml/a", "u", PodCondition("False", "Unschedulable", "no room"))
    observe_all(news.take(), Ear(Config()))
    assert heard == [("q", b"", "spec: no"), ("ml/a", PodCondition("False", "Unschedulable", "no room"))]


def test_node_pools_that_no_shard_has_are_told_in_order_and_up_to_a_bound() -> None:
    """Each once until there is one: whoever may create pods could fill the log with made-up labels."""
    config = Config(node_pools=("",))
    computer = batch.StatusComputer(config, Metrics())

    def told(*pools: str) -> list[str]:
        pods = (pod(each, labels={config.node_pool_label: each}) for each in pools)
        cycle = DecidedCycle(cluster(*pods), decided(), 0.01, config)
        with structlog.testing.capture_logs() as logs:
            computer.compute(batch.Batch(statuses=cycle, most=100))
        return [each["pool"] for each in logs if each["event"] == "pool.not_served"]

    many = [f"p{n:02}" for n in range(13)]
    assert told(*reversed(many)) == [*many[:10], "..."]
    assert told(*many, "q") == []
    assert told(*many[1:]) == ["p10"], "it is one of the first now"
    assert told() == []
    assert told("p01") == ["p01"]
