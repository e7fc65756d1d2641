"""The loop: decides when there is news, acts while it leads, and gives each group its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.failure import NOT_LEADER
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.run import run_cycle
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.read.kinds import POD, POD_GROUP
from kai_sched.operator import cycle_trigger
from kai_sched.operator.cycle import health as cycle_health
from kai_sched.operator.delivery.group_retries import BACKOFF_MAX_S, GroupRetries
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult
from kai_sched.snapshot.tables import Help
from tests.unit.operator.worlds import NODE, World, raw, raw_group, raw_node, raw_pod

DAY_NS = 86_400 * 10**9
REFUSED = BindFailure("InternalError", "by the test", 500)
GANG = {"annotations": {"pod-group-name": "gang"}}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true; raises TimeoutError."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - conditions are of any kind
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.loop.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def next_cycle(world: World) -> None:
    """Let a cycle run that sees all that was put before."""
    before = len(world.decided)
    world.trigger.request()
    await until(lambda: len(world.decided) > before)
    before = len(world.decided)
    world.trigger.request()
    await until(lambda: len(world.decided) > before)


@pytest.fixture
def world() -> World:
    world = World()
    world.put(NODE, raw_node("n1", gpus=2))
    return world


async def test_what_is_on_its_way_is_not_decided_again(world: World) -> None:
    async with running(world):
        world.put(POD, raw_pod("a"))
        await until(lambda: world.hands.pods == ["ml/a"])
        await next_cycle(world)
        assert world.hands.groups == [[Bind("ml/a", "a", "n1")]]
        assert world.binds.check(world.hands.groups[0][0]) == ""


async def test_a_gang_is_handed_over_together(world: World) -> None:
    async with running(world):
        world.put(POD_GROUP, raw_group("gang", 2))
        world.put(POD, raw_pod("a", **GANG))
        await next_cycle(world)
        assert world.hands.groups == []
        world.put(POD, raw_pod("b", **GANG))
        await until(lambda: len(world.hands.groups) == 1)
        assert sorted(world.hands.pods) == ["ml/a", "ml/b"]


async def fail(world: World, failure: BindFailure = REFUSED) -> None:
    """All binds that are on their way fail."""
    binds = [bind for group in world.hands.groups for bind in group]
    world.hands.groups.clear()
    for bind in binds:
        world.binds.failed(bind, failure)


async def test_a_failed_bind_waits_longer_each_time_whatever_the_wall_clock_does(world: World) -> None:
    async with running(world):
        world.put(POD, raw_pod("a"))
        for wait_s, jump_ns in ((1.0, DAY_NS), (2.0, -2 * DAY_NS), (4.0, 400 * DAY_NS)):
            await until(lambda: world.hands.pods == ["ml/a"])
            await fail(world)
            assert world.failures[-1][2] == world.time + wait_s
            world.wall_ns += jump_ns
            world.time += wait_s - 0.001
            await next_cycle(world)
            assert world.hands.pods == []
            world.time += 0.002
            world.trigger.request()
        await until(lambda: world.hands.pods == ["ml/a"])


async def test_the_loop_wakes_by_itself_when_a_group_has_waited_long_enough(world: World) -> None:
    async with running(world):
        world.put(POD, raw_pod("a"))
        await until(lambda: world.hands.pods == ["ml/a"])
        await fail(world)
        await next_cycle(world)
        cycles = len(world.decided)
        world.time += 1.0
        await until(lambda: world.hands.pods == ["ml/a"])
        assert len(world.decided) == cycles + 1


async def test_while_one_waits_others_get_the_room(world: World) -> None:
    async with running(world):
        world.put(POD, raw_pod("a", gpus=2))
        await until(lambda: world.hands.pods == ["ml/a"])
        await fail(world)
        world.put(POD, raw_pod("b", gpus=2))
        await until(lambda: world.hands.pods == ["ml/b"])


async def test_what_the_cluster_overtook_is_decided_anew_at_once(world: World) -> None:
    async with running(world):
        world.put(POD, raw_pod("a"))
        for reason in (OBSOLETE, NOT_LEADER):
            await until(lambda: world.hands.pods == ["ml/a"])
            await fail(world, BindFailure(reason, "by the test"))
            assert world.failures[-1][2] is None
        await until(lambda: world.hands.pods == ["ml/a"])


async def test_the_rest_of_a_torn_gang_goes_before_others(world: World) -> None:
    world.put(NODE, raw_node("n1", version=2, gpus=3))
    async with running(world):
        world.put(POD_GROUP, raw_group("gang", 3))
        world.put(POD, *(raw_pod(name, **GANG) for name in "abc"))
        await until(lambda: len(world.hands.pods) == 3)
        taken, lost = world.hands.groups[0][0], world.hands.groups[0][1:]
        world.binds.bound(taken, 0.1)
        world.put(POD, raw_pod(taken.uid, version=2, node="n1", **GANG))
        world.put(POD, *(raw_pod(f"rival-{n}", creationTimestamp="2001-01-01T00:00:00Z") for n in range(3)))
        world.hands.groups.clear()
        for bind in lost:
            world.binds.failed(bind, BindFailure(OBSOLETE, "by the test"))
        await until(lambda: len(world.hands.pods) == 2)
        assert sorted(world.hands.pods) == sorted(bind.pod for bind in lost)


async def test_a_gang_that_a_previous_leader_bound_in_part_is_bound_first(world: World) -> None:
    world.put(POD_GROUP, raw_group("gang", 2))
    world.put(POD, raw_pod("a", node="n1", **GANG), raw_pod("b", **GANG))
    world.put(POD, raw_pod("rival", creationTimestamp="2001-01-01T00:00:00Z"))
    async with running(world):
        await until(lambda: bool(world.hands.pods))
        assert world.hands.pods == ["ml/b"]


async def test_a_standby_decides_and_does_nothing_until_it_leads(world: World) -> None:
    world.leads, cycles = False, []

    def counted(*arguments: Any) -> Any:
        cycles.append(1)
        return run_cycle(*arguments)

    world.run = counted
    world.put(POD, raw_pod("a"))
    async with running(world):
        await until(lambda: bool(cycles))
        world.put(POD, raw_pod("b"))
        assert (world.hands.groups, world.decided) == ([], [])
        world.leads = True
        world.trigger.lead()
        await until(lambda: sorted(world.hands.pods) == ["ml/a", "ml/b"])


def before_the_result(world: World, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do this in the event loop while the solver computes, once."""
    events, done = asyncio.get_running_loop(), []

    def run(*arguments: Any) -> Any:
        result = run_cycle(*arguments)
        if result.effects and not done:
            done.append(1)
            asyncio.run_coroutine_threadsafe(act(), events).result(30)
        return result

    world.run = run


async def test_a_lease_lost_during_the_cycle_ends_it_without_effect(world: World) -> None:
    lost = asyncio.Event()

    async def lose() -> None:
        world.leads = False
        lost.set()

    before_the_result(world, lose)
    async with running(world):
        world.put(POD, raw_pod("a"))
        await lost.wait()
        world.leads = True
        world.trigger.lead()
        await until(lambda: bool(world.decided))
        assert world.hands.groups == [[Bind("ml/a", "a", "n1")]]


async def test_of_a_gang_that_lost_a_pod_during_the_cycle_nothing_is_bound(world: World) -> None:
    async def delete() -> None:
        world.sink.deleted(POD, raw_pod("b", version=5, **GANG))

    before_the_result(world, delete)
    async with running(world):
        world.put(POD_GROUP, raw_group("gang", 2))
        world.put(POD, *(raw_pod(name, **GANG) for name in "ab"))
        await next_cycle(world)
        assert world.hands.groups == []
        world.put(POD, raw_pod("c", **GANG))
        await until(lambda: sorted(world.hands.pods) == ["ml/a", "ml/c"])


@pytest.mark.slow
async def test_a_cycle_that_fails_is_run_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle_health, "BACKOFF", Backoff(0.01, 30.0))
    failures = iter([MemoryError(), MemoryError()])

    def run(*arguments: Any) -> Any:
        for failure in failures:
            raise failure
        return run_cycle(*arguments)

    world.run = run
    async with running(world):
        world.put(POD, raw_pod("a"))
        await until(lambda: world.hands.pods == ["ml/a"])
        assert world.loop.busy_since is None


def not_ready(status: str, *pressures: str) -> bytes:
    """What a node's controller writes when its kubelet is not heard of, or is in trouble."""
    conditions = [{"type": "Ready", "status": status}, *({"type": name, "status": "True"} for name in pressures)]
    return raw("n1", 2, status={"allocatable": {"cpu": "64", "pods": "110"}, "conditions": conditions})


CHECKS: dict[str, Callable[[World], None]] = {
    "pod ml/a is gone": lambda world: world.sink.deleted(POD, raw_pod("a", 2)),
    "pod ml/a was deleted and created again": lambda world: world.put(POD, raw_pod("a", 2, uid="other")),
    "pod ml/a is being deleted": lambda world: world.put(
        POD, raw_pod("a", 2, deletionTimestamp="2026-01-01T00:00:00Z")
    ),
    "pod ml/a is on node n2 already": lambda world: world.put(POD, raw_pod("a", 2, node="n2")),
    "pod ml/a is decided again": lambda world: world.intake.overlay.forget("ml/a", "a"),
    "node n1 is gone": lambda world: world.sink.deleted(NODE, raw_node("n1", 2)),
    "node n1 is NotReady": lambda world: world.put(NODE, not_ready("False")),
    "node n1 is NotReady, MemoryPressure": lambda world: world.put(NODE, not_ready("Unknown", "MemoryPressure")),
    "node n1 was cordoned": lambda world: world.put(NODE, raw_node("n1", 2, unschedulable=True)),
}


@pytest.mark.parametrize("why", CHECKS)
async def test_a_bind_makes_sense_until_its_pod_or_node_changes(world: World, why: str) -> None:
    async with running(world):
        world.put(POD, raw_pod("a"))
        await until(lambda: world.hands.pods == ["ml/a"])
    bind = world.hands.groups[0][0]
    assert world.binds.check(bind) == ""
    CHECKS[why](world)
    assert world.binds.check(bind) == why


def test_backoff_grows_to_its_bound_and_counts_a_gang_once() -> None:
    setbacks, now = GroupRetries(), 0.0
    waits = []
    for _ in range(9):
        until_s = setbacks.add("g", now)
        assert setbacks.add("g", now) == until_s  # a second pod of the same gang
        assert setbacks.next_hints(now, HintTracker()).deferred == {"g"}
        assert setbacks.next_end(now) == until_s
        waits.append(until_s - now)
        now = until_s
        assert setbacks.next_hints(now, HintTracker()).deferred == frozenset()
        assert setbacks.next_end(now) is None
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, BACKOFF_MAX_S, BACKOFF_MAX_S, BACKOFF_MAX_S]


def test_failures_far_apart_are_first_ones() -> None:
    """An elastic group has pods that wait all the time, so that no cycle shows that it has recovered."""
    setbacks = GroupRetries()
    for hour in range(9):
        now = hour * 3600.0
        assert setbacks.next_hints(now, HintTracker()).deferred == frozenset()
        assert setbacks.add("g", now) - now == 1.0
    setbacks.next_hints(now + BACKOFF_MAX_S, HintTracker())
    assert setbacks.timers
    setbacks.next_hints(now + 1.0 + BACKOFF_MAX_S, HintTracker())
    assert not setbacks.timers


async def test_an_attempt_that_lasts_longer_than_the_backoff_is_no_recovery(world: World) -> None:
    """As where volumes are not made: each attempt takes two minutes, in which other cycles are decided."""
    waits = []
    async with running(world):
        world.put(POD, raw_pod("a"))
        for _ in range(4):
            await until(lambda: len(world.hands.groups) == 1)
            [[bind]] = world.hands.groups
            world.hands.groups.clear()
            for _ in range(4):
                world.time += 30.0
                await next_cycle(world)
            world.binds.failed(bind, BindFailure("VolumeBinding", "by the test"))
            waits.append(world.binds.retries.timers["ml/a"].until - world.time)
            world.time += waits[-1] + 0.001
            await next_cycle(world)
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_a_node_where_no_device_could_be_reserved_is_closed_for_a_while() -> None:
    setbacks = GroupRetries()
    setbacks.close_node("n1", 0.0)
    assert setbacks.next_hints(29.0, HintTracker()).closed_nodes == {"n1"}
    assert setbacks.next_end(29.0) == 30.0
    assert setbacks.next_hints(30.0, HintTracker()).closed_nodes == frozenset()
    setbacks.close_node("n1", 30.0)
    assert setbacks.next_hints(89.0, HintTracker()).closed_nodes == {"n1"}
    setbacks.open_node("n1")
    assert setbacks.next_hints(89.0, HintTracker()).closed_nodes == frozenset()
    setbacks.close_node("gone", 0.0)
    assert setbacks.next_hints(1000.0, HintTracker()).closed_nodes == frozenset()
    assert setbacks.nodes == {}


async def test_a_promise_on_free_room_is_kept_without_news(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consolidation gives ``b`` the room that ``a`` was to have, and ``a`` other room, in every cycle."""
    monkeypatch.setattr(cycle_trigger, "LAZY_S", 0.05)
    world.put(NODE, raw_node("n2", gpus=1, taints=[{"key": "only", "value": "others", "effect": "NoSchedule"}]))
    world.put(NODE, raw_node("n1", version=2, gpus=1))
    async with running(world):
        world.put(POD, raw_pod("a", tolerations=[{"operator": "Exists"}]), raw_pod("b"))
        await until(lambda: sorted(world.hands.pods) == ["ml/a", "ml/b"])
    assert {bind.pod: bind.node for group in world.hands.groups for bind in group} == {"ml/a": "n2", "ml/b": "n1"}


async def test_searches_that_were_cut_go_on_at_once(world: World) -> None:
    """Without news, until each group has had its turn; then it is quiet."""
    told: list[SchedulingHints] = []

    def cut(*arguments: Any) -> CycleResult:
        told.append(arguments[-1])
        waiting = {f"ml/{name}" for name in "abc"} - told[-1].searched.keys()
        found = dict.fromkeys(sorted(waiting), (0, 0, int(Help.TOO_LONG), 0))
        done = min(waiting, default="")
        return replace(run_cycle(*arguments), searches=found | ({done: (0, 0, int(Help.NOT_FOUND), 0)} if done else {}))

    async with running(world):
        await next_cycle(world)
        world.run = cut
        world.trigger.request()
        await until(lambda: len(told) == 3)
        await asyncio.sleep(0.05)
    assert [sorted(hints.searched) for hints in told] == [[], ["ml/a"], ["ml/a", "ml/b"]]
