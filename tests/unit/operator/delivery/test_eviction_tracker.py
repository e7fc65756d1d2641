"""Evictions on their way: none twice, none for nobody, none again at once where it was refused."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.cluster.pod_deleter import EvictionEnd
from kai_sched.model.objects import Namespace, Pod
from kai_sched.model.read.kinds import POD, POD_GROUP, QUEUE
from kai_sched.model.store import Store
from kai_sched.operator.delivery import eviction_tracker
from kai_sched.operator.delivery.eviction_tracker import BACKOFF
from kai_sched.operator.delivery.node_check import node_problem
from kai_sched.plan.effects import Bind
from tests.unit.operator.cycle.test_loop import next_cycle, running, until
from tests.unit.operator.worlds import NODE, World, raw, raw_group, raw_node, raw_pod

LEAVING = {"deletionTimestamp": "2027-01-15T08:00:00Z"}
GANG = {"annotations": {"pod-group-name": "gang"}}


def lent(name: str, version: int = 1, **metadata: Any) -> bytes:
    """A pod of the queue that was promised nothing."""
    return raw_pod(name, version, node="n1", labels={"kai.scheduler/queue": "borrower"}, phase="Running", **metadata)


def shares(name: str, quota: float) -> bytes:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    return raw(name, 1, spec={"resources": {"cpu": free, "memory": free, "gpu": free | {"quota": quota}}})


@pytest.fixture
def world() -> World:
    """Two GPUs, both lent; the owner of both asks for them with a gang."""
    world = World()
    world.put(QUEUE, shares("team", 2), shares("borrower", 0))
    world.put(NODE, raw_node("n1", gpus=2))
    world.put(POD, lent("v0"), lent("v1"))
    world.put(POD_GROUP, raw_group("gang", 2))
    world.put(POD, *(raw_pod(name, **GANG) for name in "ab"))
    return world


def victims(world: World) -> list[str]:
    return sorted(each.pod for each in world.hands.victims)


async def decided(world: World) -> None:
    """Wait for both evictions to be decided."""
    await until(lambda: victims(world) == ["ml/v0", "ml/v1"])


def end(world: World, how: EvictionEnd, *names: str) -> None:
    """These evictions end so."""
    for each in [each for each in world.hands.victims if each.pod in names]:
        world.hands.victims.remove(each)
        world.evictions.ended(each, how, "by the test")


async def test_nobody_is_evicted_twice_and_the_winner_waits_for_the_room(world: World) -> None:
    async with running(world):
        await decided(world)
        await next_cycle(world)
        assert victims(world) == ["ml/v0", "ml/v1"]
        assert [(len(plan.evictions), len(plan.winners)) for plan in world.plans] == [(2, 2)]
        end(world, EvictionEnd.EVICTED, "ml/v0", "ml/v1")
        assert sorted(world.evicted) == ["ml/v0", "ml/v1"]
        world.put(POD, lent("v0", 2, **LEAVING))
        await next_cycle(world)
        world.sink.deleted(POD, lent("v1", 2))
        await next_cycle(world)
        assert (victims(world), world.hands.groups) == ([], [])
        world.sink.deleted(POD, lent("v0", 3))
        await until(lambda: len(world.hands.groups) == 1)
        assert set(world.hands.groups[0]) == {Bind("ml/a", "a", "n1"), Bind("ml/b", "b", "n1")}
        assert len(world.plans) == 1


async def test_a_victim_made_anew_is_another_pod(world: World) -> None:
    async with running(world):
        await decided(world)
        end(world, EvictionEnd.EVICTED, "ml/v0", "ml/v1")
        borrower = {"kai.scheduler/queue": "borrower"}
        world.put(POD, *(raw_pod(name, 2, uid=f"{name}-anew", labels=borrower) for name in ("v0", "v1")))
        await until(lambda: sorted(world.hands.pods) == ["ml/a", "ml/b"])
        await next_cycle(world)
        assert victims(world) == []


CHECKS = {
    "pod ml/v0 is gone": lambda world: world.sink.deleted(POD, lent("v0", 2)),
    "pod ml/v0 is being deleted already": lambda world: world.put(POD, lent("v0", 2, **LEAVING)),
    "pod ml/a, which was to get the room, is gone": lambda world: world.put(POD, raw_pod("a", 2, **GANG, **LEAVING)),
    "pod ml/b, which was to get the room, is gone": lambda world: world.sink.deleted(POD, raw_pod("b", 2, **GANG)),
    "the pods of ml/gang, which were to get the room, have nodes already": lambda world: world.put(
        POD, *(raw_pod(name, 2, node="n2", **GANG) for name in "ab")
    ),
    "node n1 was cordoned": lambda world: world.put(NODE, raw_node("n1", 2, gpus=2, unschedulable=True)),
}


@pytest.mark.parametrize("why", CHECKS)
async def test_an_eviction_makes_sense_until_victim_winner_or_node_changes(world: World, why: str) -> None:
    async with running(world):
        await decided(world)
    (first,) = [each for each in world.hands.victims if each.pod == "ml/v0"]
    assert world.evictions.check(first) == ""
    CHECKS[why](world)
    assert world.evictions.check(first) == why


async def test_what_a_plan_depends_on_is_looked_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again where it has changed; not for each of its evictions, and not for what else the store hears of."""
    looks: list[str] = []

    def noting(store: Store, node: str) -> str:
        looks.append(node)
        return node_problem(store, node)

    monkeypatch.setattr(eviction_tracker, "node_problem", noting)
    async with running(world):
        await decided(world)
    for n in range(20):
        assert [world.evictions.check(each) for each in world.hands.victims] == ["", ""]
        world.store.put(Namespace(f"other-{n}"))
    assert looks == ["n1"]
    world.put(NODE, raw_node("n1", 2, gpus=3))
    assert [world.evictions.check(each) for each in world.hands.victims] == ["", ""]
    assert looks == ["n1", "n1"]
    world.put(NODE, raw_node("n1", 3, gpus=3, unschedulable=True))
    assert [world.evictions.check(each) for each in world.hands.victims] == ["node n1 was cordoned"] * 2
    world.put(NODE, raw_node("n1", 4, gpus=3))
    assert [world.evictions.check(each) for each in world.hands.victims] == ["", ""]


async def test_a_winner_that_is_bound_before_the_others_is_not_gone(world: World) -> None:
    async with running(world):
        await decided(world)
    world.put(POD, raw_pod("a", 2, node="n2", **GANG))
    assert [world.evictions.check(each) for each in world.hands.victims] == ["", ""]


async def test_evictions_for_a_group_that_is_gone_are_dropped(world: World) -> None:
    async with running(world):
        await decided(world)
        for name in "ab":
            world.sink.deleted(POD, raw_pod(name, 2, **GANG))
        assert all(world.evictions.check(each) for each in world.hands.victims)
        end(world, EvictionEnd.OBSOLETE, "ml/v0", "ml/v1")
        await next_cycle(world)
        assert (victims(world), world.evicted) == ([], [])
        assert [pod.deleted_ns for pod in world.store.cluster().pods.values()] == [0, 0]


async def test_what_was_refused_waits_longer_each_time_and_the_rest_of_its_plan_with_it(world: World) -> None:
    async with running(world):
        for wait_s in (1.0, 2.0, 4.0):
            await decided(world)
            end(world, EvictionEnd.REFUSED, "ml/v1")
            end(world, EvictionEnd.OBSOLETE, "ml/v0")
            world.time += wait_s - 0.001
            await next_cycle(world)
            assert victims(world) == []
            world.time += 0.002
            world.trigger.request()
        await decided(world)
        assert len(world.plans) == 4


async def test_a_pod_that_nobody_may_delete_does_not_keep_others_from_room() -> None:
    """The cheapest victim would be chosen for ever; the group gets the room of the next one."""
    world = World()
    world.put(QUEUE, shares("team", 1), shares("borrower", 0))
    world.put(NODE, raw_node("n1", gpus=2))
    world.put(POD, lent("v0"), lent("v1"), raw_pod("own"))
    async with running(world):
        await until(lambda: len(victims(world)) == 1)
        (cheapest,) = victims(world)
        other = {"ml/v0": "ml/v1", "ml/v1": "ml/v0"}[cheapest]
        end(world, EvictionEnd.REFUSED, cheapest)
        await next_cycle(world)
        assert victims(world) == [], "a single refusal may not be for good"
        world.time += 1.001
        await next_cycle(world)
        assert victims(world) == [cheapest]
        end(world, EvictionEnd.REFUSED, cheapest)
        await until(lambda: victims(world) == [other])
        end(world, EvictionEnd.EVICTED, other)
        world.sink.deleted(POD, lent(other.removeprefix("ml/"), 2))
        await until(lambda: world.hands.pods == ["ml/own"])


async def test_refusals_far_apart_are_first_ones(world: World) -> None:
    async with running(world):
        for _ in range(3):
            await decided(world)
            end(world, EvictionEnd.REFUSED, "ml/v1")
            end(world, EvictionEnd.OBSOLETE, "ml/v0")
            assert world.evictions.refused_victims() == frozenset()
            world.time += 1.0 + BACKOFF.last_s
            await next_cycle(world)
        await decided(world)
        end(world, EvictionEnd.REFUSED, "ml/v1")
        world.time += 1.0
        assert world.evictions.refused_victims() == frozenset()
        end(world, EvictionEnd.OBSOLETE, "ml/v0")
        await next_cycle(world)
        await decided(world)
        end(world, EvictionEnd.REFUSED, "ml/v1")
        assert world.evictions.refused_victims() == {"ml/v1"}
        world.time += 2.0
        assert world.evictions.refused_victims() == frozenset(), "it is tried again"


async def test_an_eviction_that_takes_long_is_no_time_without_a_refusal(world: World) -> None:
    """Behind a webhook that hangs an eviction is answered after more than a minute."""
    async with running(world):
        for _ in range(2):
            await decided(world)
            world.time += 2.0 + BACKOFF.last_s
            await next_cycle(world)
            end(world, EvictionEnd.REFUSED, "ml/v1")
            end(world, EvictionEnd.OBSOLETE, "ml/v0")
            refused = world.evictions.refused_victims()
            world.time += 1.0
            await next_cycle(world)
        assert refused == {"ml/v1"}


async def test_the_refusal_of_a_pod_that_is_gone_is_forgotten(world: World) -> None:
    async with running(world):
        await decided(world)
        end(world, EvictionEnd.REFUSED, "ml/v1")
        end(world, EvictionEnd.OBSOLETE, "ml/v0")
        world.put(POD, lent("v1", 2, uid="anew"))
        await decided(world)
        assert {each.uid for each in world.hands.victims} == {"v0", "anew"}


async def test_a_pod_on_its_way_to_a_node_can_be_a_victim(world: World) -> None:
    """Its bind is not sent any more, and it goes."""
    world = World()
    world.put(QUEUE, shares("team", 1), shares("borrower", 0))
    world.put(NODE, raw_node("n1", gpus=1))
    async with running(world):
        world.put(POD, raw_pod("v", labels={"kai.scheduler/queue": "borrower"}))
        await until(lambda: world.hands.pods == ["ml/v"])
        world.put(POD, raw_pod("own"))
        await until(lambda: victims(world) == ["ml/v"])
        assert world.binds.check(world.hands.groups[0][0]) == "pod ml/v is being deleted"
        assert isinstance(world.store.get(Pod, "ml/v"), Pod)


async def test_a_grace_that_ends_starts_a_cycle_by_itself() -> None:
    world = World()
    world.put(NODE, raw_node("n1", gpus=2))
    world.wall_ns = 1_800_000_000 * 10**9
    stale = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2027-01-15T08:00:00Z"}}
    async with running(world):
        world.put(POD_GROUP, raw("gang", 1, "ml", metadata=stale, spec={"queue": "team", "minMember": 2}))
        world.put(POD, raw_pod("a", node="n1", phase="Running", **GANG))
        await next_cycle(world)
        assert victims(world) == []
        world.wall_ns += 59_999 * 10**6
        await next_cycle(world)
        cycles = len(world.decided)
        world.wall_ns += 2 * 10**6
        world.time += 0.1
        await until(lambda: victims(world) == ["ml/a"])
        assert len(world.decided) == cycles + 1
        assert world.plans[0].winners == ()
        assert world.evictions.check(world.hands.victims[0]) == ""


async def test_a_refused_pod_that_goes_leaves_nothing_behind(world: World) -> None:
    async with running(world):
        await decided(world)
        end(world, EvictionEnd.REFUSED, "ml/v1")
        end(world, EvictionEnd.OBSOLETE, "ml/v0")
        assert world.evictions._refused.keys() == {"v1"}
        for name in "ab":
            world.sink.deleted(POD, raw_pod(name, 2, **GANG))
        world.sink.deleted(POD, lent("v1", 3))
        await next_cycle(world)
        assert world.evictions._refused == {}


async def test_a_failure_of_the_reporter_does_not_stop_an_eviction(world: World) -> None:
    """Its victims count as leaving already."""

    def raising(*_: object) -> None:
        raise ZeroDivisionError("by the test")

    world.reports.planned = raising
    async with running(world):
        await decided(world)
        assert victims(world) == ["ml/v0", "ml/v1"]
