"""The machine's clock may be wrong, and be put right: nobody goes early, and nobody waits long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.read.kinds import POD, POD_GROUP
from kai_sched.operator.clock import Clock, SteadyWall
from kai_sched.operator.cycle.shard import DEADLINE_MAX_S
from kai_sched.plan.effects import Bind
from tests.unit.operator.cycle.test_loop import next_cycle, running, until
from tests.unit.operator.worlds import NODE, World, raw_group, raw_node, raw_pod

HOUR_NS = 3600 * 10**9
START_NS = 1_800_000_000 * 10**9
STALE = "kai.scheduler/stale-podgroup-timestamp"


class Machine:
    """Both clocks of a machine: ``pass_s`` lets time go by, ``wall_ns`` may be set."""

    def __init__(self) -> None:
        self.monotonic_s = 500.0
        self.wall_ns = START_NS
        self.steady = SteadyWall(lambda: self.monotonic_s, lambda: self.wall_ns)

    def pass_s(self, seconds: float) -> int:
        self.monotonic_s += seconds
        self.wall_ns += int(seconds * 1e9)
        return self.steady()


def test_it_is_the_wall_clock_where_that_is_sane() -> None:
    machine = Machine()
    for seconds in (0.0, 0.25, 1.0, 3600.0):
        assert machine.pass_s(seconds) == machine.wall_ns
    machine.wall_ns += 10_000_000
    assert machine.pass_s(1.0) == machine.wall_ns, "what a time server puts right bit by bit"


@pytest.mark.parametrize("leap_ns", [HOUR_NS, -HOUR_NS])
def test_after_a_leap_it_catches_up(leap_ns: int) -> None:
    machine = Machine()
    before = machine.pass_s(1.0)
    machine.wall_ns += leap_ns
    assert 0.5e9 <= machine.pass_s(1.0) - before <= 2e9
    for _ in range(7200):
        machine.pass_s(1.0)
    assert machine.steady() == machine.wall_ns


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(-2 * HOUR_NS, 2 * HOUR_NS))))
def test_it_never_leaps(steps: list[tuple[float, int]]) -> None:
    machine = Machine()
    before = machine.steady()
    for seconds, leap_ns in steps:
        machine.wall_ns += leap_ns
        now = machine.pass_s(seconds)
        assert 0.5 * seconds * 1e9 - 2 <= now - before <= 2 * seconds * 1e9 + 2
        before = now


def world_on(machine: Machine) -> World:
    world = World()
    clock = Clock(lambda: machine.monotonic_s, machine.steady)
    world.loop._clock = world.binds._clock = world.evictions._clock = clock
    world.put(NODE, raw_node("n1", gpus=2))
    return world


def put_a_stale_gang(world: World, since: str) -> None:
    """One of two runs, since then; the grace is the default, a minute."""
    group = raw_group("gang", 2).replace(
        b'"metadata": {', b'"metadata": {"annotations": {"%s": "%s"}, ' % (STALE.encode(), since.encode())
    )
    world.put(POD_GROUP, group)
    world.put(POD, raw_pod("a", node="n1", phase="Running", annotations={"pod-group-name": "gang"}))


@pytest.mark.parametrize("leap_ns", [HOUR_NS, -HOUR_NS])
async def test_a_gang_has_its_grace_whatever_the_clock_does(leap_ns: int) -> None:
    machine = Machine()
    world = world_on(machine)
    put_a_stale_gang(world, "2027-01-15T08:00:00Z")  # START_NS
    async with running(world):
        await next_cycle(world)
        machine.wall_ns += leap_ns
        machine.pass_s(20.0)
        await next_cycle(world)
        assert world.hands.victims == [], "not before half of the grace"
        machine.pass_s(130.0)
        await next_cycle(world)
        assert [victim.pod for victim in world.hands.victims] == ["ml/a"], "nor later than twice the grace"


@pytest.mark.parametrize("leap_ns", [HOUR_NS, -HOUR_NS])
async def test_pods_are_bound_once_whatever_the_clock_does(leap_ns: int) -> None:
    machine = Machine()
    world = world_on(machine)
    async with running(world):
        for sign, name in ((1, "a"), (-1, "b")):
            world.put(POD, raw_pod(name))
            await until(lambda name=name: f"ml/{name}" in world.hands.pods)
            machine.wall_ns += sign * leap_ns
            machine.pass_s(1.0)
            await next_cycle(world)
        assert world.hands.groups == [[Bind("ml/a", "a", "n1")], [Bind("ml/b", "b", "n1")]]
        assert world.hands.victims == []


@pytest.mark.parametrize("leap_ns", [HOUR_NS, -HOUR_NS])
async def test_the_loop_neither_hurries_nor_sleeps_when_the_wall_clock_leaps(leap_ns: int) -> None:
    """A raw wall clock, as the worst case: it looks again within a minute, and not all the time."""
    world = World()
    world.wall_ns = START_NS
    put_a_stale_gang(world, "2027-01-15T08:00:00Z")
    async with running(world):
        await next_cycle(world)
        before = len(world.decided)
        world.wall_ns += leap_ns
        await next_cycle(world)
        assert len(world.decided) <= before + 3
        (shard,) = world.loop._shards.current()
        due = shard.due
        assert due is None or world.time < due <= world.time + DEADLINE_MAX_S + 1.0
