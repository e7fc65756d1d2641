"""Cycles that fail: who is told what, how long it takes until the next one, and what is left out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from kai_sched.cluster.backoff import Backoff
from kai_sched.cycle.run import run_cycle
from kai_sched.model.objects import Pod
from kai_sched.model.read.kinds import POD
from kai_sched.model.store import Cluster
from kai_sched.operator.cycle import health as cycle_health
from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.plan.effects import Bind, Emit, Ref
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.cycle.test_loop import next_cycle, running, until
from tests.unit.operator.worlds import NODE, World, raw_node, raw_pod
from tests.unit.telemetry.test_metrics import values

pytestmark = pytest.mark.usefixtures("logs")  # tracebacks are long to write

LEASE = Ref("coordination.k8s.io/v1", "Lease", "kai", "kai-scheduler")


class Ear:
    """Troubles, and all that is told of them."""

    def __init__(self, time: Callable[[], float]) -> None:
        self.metrics = Metrics()
        self.events: list[Emit] = []
        self.leads = True
        lease = (LEASE.namespace, LEASE.name)
        self.troubles = CycleHealth(self.metrics, self.events.extend, lambda: self.leads, lease, time)


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


@pytest.fixture
def world() -> World:
    world = World()
    world.put(NODE, raw_node("n1", gpus=2))
    return world


@pytest.fixture
def ear(world: World) -> Ear:
    ear = Ear(lambda: world.time)
    world.loop._health = ear.troubles
    return ear


def failing(name: str) -> ValueError:
    try:
        raise ValueError(name)
    except ValueError as error:
        return error


def test_failures_wait_longer_each_time_and_are_told_with_their_traceback_once(logs: list[Any]) -> None:
    ear = Ear(lambda: 0.0)
    waits = [ear.troubles.failed(failing(f"fault {n}")) for n in range(7)]
    ear.troubles.succeeded(5.0)
    assert ear.troubles.failed(failing("again")) == 1.0
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    failures = [entry for entry in logs if entry["event"] == "cycle.failed"]
    assert [bool(entry["exc_info"]) for entry in failures] == [True] + 7 * [False], "the line of code is the same"
    assert failures[3]["problem"] == "ValueError: fault 3"
    assert values(ear.metrics, "kai_cycle_failures_total") == {(): 8.0}
    assert values(ear.metrics, "kai_last_successful_cycle_timestamp_seconds") == {(): 5.0}
    assert {event.ref for event in ear.events} == {LEASE}
    assert ear.events[0].type == "Warning"
    assert "fault 0" in ear.events[0].message
    told, ear.leads = len(ear.events), False
    ear.troubles.failed(failing("on a standby"))
    assert len(ear.events) == told


def test_a_process_whose_cycles_fail_counts_as_dead_in_the_end() -> None:
    time = [0.0]
    ear = Ear(lambda: time[0])
    assert ear.troubles.problem() == ""
    for _ in range(12):
        ear.troubles.failed(failing("x"))
    assert ear.troubles.problem() == "", "a bad moment"
    time[0] = 61.0
    assert "12 cycles in a row have failed, for 61 s: ValueError: x" in ear.troubles.problem()
    ear.troubles.succeeded(0.0)
    assert ear.troubles.problem() == ""
    for _ in range(9):
        ear.troubles.failed(failing("x"))
        time[0] += 30.0
    assert ear.troubles.problem() == "", "fewer than ten"


def break_with(world: World, breaks: Callable[[Cluster], bool]) -> list[int]:
    """Let cycles raise while that holds; returns a list that grows with each cycle."""
    runs: list[int] = []

    def run(view: Cluster, *arguments: Any) -> Any:
        runs.append(1)
        if breaks(view):
            raise ArithmeticError("by the test")
        return run_cycle(view, *arguments)

    world.run = run
    return runs


async def test_a_pod_that_breaks_cycles_is_left_out_and_told_once(world: World, ear: Ear, logs: list[Any]) -> None:
    break_with(world, lambda view: "ml/bad" in view.pods and view.pods["ml/bad"].created_ns == 0)
    async with running(world):
        world.put(POD, raw_pod("bad"), raw_pod("good"))
        await until(lambda: world.hands.pods == ["ml/good"])
        await next_cycle(world)
        await next_cycle(world)
        told = [event for event in ear.events if event.ref == Ref("v1", "Pod", "ml", "bad", "bad")]
        assert [(event.type, event.reason) for event in told] == [("Warning", "LeftOutOfScheduling")]
        assert "ArithmeticError: by the test" in told[0].message
        assert values(ear.metrics, "kai_quarantined_objects") == {(("kind", "Pod"),): 1.0}
        reason = world.decided[-1].result.groups["ml/bad"].reason
        assert reason is not None
        assert reason.code == "SchedulerError"
        world.put(POD, raw_pod("bad", version=2, creationTimestamp="2026-01-01T00:00:00Z"))
        await until(lambda: sorted(world.hands.pods) == ["ml/bad", "ml/good"])
        assert values(ear.metrics, "kai_quarantined_objects") == {(("kind", "Pod"),): 0.0}
    lines = [(entry["object"], bool(entry["exc_info"])) for entry in logs if entry["event"] == "object.quarantined"]
    assert lines == [("ml/bad", True)]
    assert values(ear.metrics, "kai_cycle_failures_total") == {(): 0.0}


async def test_what_is_left_out_is_tried_again_without_news(world: World) -> None:
    broken = [True]
    break_with(world, lambda view: broken[0] and "ml/bad" in view.pods)
    async with running(world):
        world.put(POD, raw_pod("bad"), raw_pod("good"))
        await until(lambda: world.hands.pods == ["ml/good"])
        await next_cycle(world)
        broken[0] = False
        await next_cycle(world)
        assert world.hands.pods == ["ml/good"]
        world.time += 301.0
        world.trigger.request(matters=False)
        await until(lambda: sorted(world.hands.pods) == ["ml/bad", "ml/good"])


async def test_the_room_of_a_pod_that_breaks_cycles_is_not_given_away(world: World) -> None:
    """The node is full, and stays so: in the failed cycle, in the ones after it, and after a restart."""
    break_with(world, lambda view: bool(getattr(view.pods.get("ml/holder"), "labels", None)))
    for _ in range(2):
        world.put(POD, raw_pod("holder", gpus=2, node="n1", scheduler="other", phase="Running"))
        world.put(POD, raw_pod("new", gpus=2))
        async with running(world):
            await next_cycle(world)
            await next_cycle(world)
            assert world.hands.pods == []
            assert isinstance(world.store.get(Pod, "ml/holder"), Pod)
        world = World()
        world.put(NODE, raw_node("n1", gpus=2))


async def test_a_lease_lost_during_the_search_ends_it_without_effect(world: World) -> None:
    def breaks(view: Cluster) -> bool:
        world.leads = world.leads and "ml/bad" not in view.pods
        return "ml/bad" in view.pods

    runs = break_with(world, breaks)
    async with running(world):
        await next_cycle(world)
        world.put(POD, raw_pod("bad"), raw_pod("good"))
        before = len(runs)
        await until(lambda: len(runs) > before + 2)
        await until(lambda: world.loop.busy_since is None)
        assert world.hands.pods == []
        world.leads = True
        world.trigger.lead()
        await until(lambda: world.hands.pods == ["ml/good"])


async def test_what_is_raised_while_acting_counts_as_failure(
    world: World, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle_health, "BACKOFF", Backoff(0.001, 0.001))

    world.hands.raises = ArithmeticError("by the test")
    async with running(world):
        world.put(POD, raw_pod("a"))
        await until(lambda: values(ear.metrics, "kai_cycle_failures_total")[()] >= 1.0)
        world.hands.raises = None
        world.intake.overlay.forget("ml/a", "a")
        world.trigger.request()
        await until(lambda: world.hands.groups == [[Bind("ml/a", "a", "n1")]])
        await until(lambda: bool(values(ear.metrics, "kai_last_successful_cycle_timestamp_seconds")[()]))
