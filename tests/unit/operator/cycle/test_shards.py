"""Several shards in one loop: each is decided by itself, and the fault of one is its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from kai_sched.cluster.backoff import Backoff
from kai_sched.cycle.run import run_cycle
from kai_sched.model.claims.selectors import SelectorQuestion
from kai_sched.model.config import CLUSTER, Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.objects import Namespace
from kai_sched.model.read.kinds import POD, QUEUE
from kai_sched.operator.cycle import health as cycle_health
from kai_sched.plan.result import CycleResult
from tests.unit.operator.cycle.test_loop import next_cycle, running, until
from tests.unit.operator.worlds import NODE, World, raw_node, raw_pod, raw_queue

LABEL = Config().node_pool_label
A, B = Config(node_pool="a"), Config(node_pool="b")


def of_pool(pool: str, name: str) -> bytes:
    return raw_pod(name, labels={LABEL: pool, "kai.scheduler/queue": "team"})


def world_of(*configs: Config) -> World:
    """A node in each pool, and a queue, which with shares of the cluster is one of both."""
    world = World()
    world.settings.shards = {config.node_pool: config for config in configs}
    world.settings.config = replace(configs[0], node_pool="", node_pools=tuple(world.settings.shards))
    for config in configs:
        world.put(NODE, raw_node(f"n-{config.node_pool}", gpus=2, labels={LABEL: config.node_pool}))
    return world


@pytest.fixture
def world() -> World:
    return world_of(*(replace(each, fair_share=CLUSTER) for each in (A, B)))


async def test_each_pool_gets_its_pods(world: World) -> None:
    async with running(world):
        world.put(POD, of_pool("a", "x"), of_pool("b", "y"))
        await until(lambda: sorted(world.hands.pods) == ["ml/x", "ml/y"])
        assert {bind.pod: bind.node for group in world.hands.groups for bind in group} == {"ml/x": "n-a", "ml/y": "n-b"}
    last = world.decided[-1]
    assert last.config is world.settings.config
    assert last.result.pods.keys() >= {"ml/x", "ml/y"}


async def test_a_shard_that_fails_stops_no_other_and_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle_health, "BACKOFF", Backoff(1.0, 1.0))
    fails = True

    def run(cluster: Any, config: Config, *rest: Any) -> CycleResult:
        if fails and config.node_pool == "a":
            raise ValueError("by the test")
        return run_cycle(cluster, config, *rest)

    world.run = run
    with capture_logs() as lines:
        async with running(world):
            world.put(POD, of_pool("a", "x"), of_pool("b", "y"))
            await until(lambda: world.hands.pods == ["ml/y"])
            assert world.health.failure() == ""
            world.time += 1.1
            world.put(POD, of_pool("b", "z"))
            await until(lambda: "ml/z" in world.hands.pods)
            await next_cycle(world)
            assert "cycles of SchedulingShard a in a row have failed: ValueError: by the test" in world.health.failure()
            fails = False
            world.time += 1.1
            await next_cycle(world)
            await until(lambda: "ml/x" in world.hands.pods)
            assert world.health.failure() == ""
    told = [line["shard"] for line in lines if line["event"] == "cycle.failed"]
    assert set(told) == {"a"}


async def test_a_shard_that_is_not_ready_waits_alone(world: World) -> None:
    """It is decided once somebody asks for a cycle; till then the loop rests, whatever it had to be decided for."""
    world.unready = {"b"}
    async with running(world):
        world.put(POD, of_pool("a", "x"), of_pool("b", "y"))
        await until(lambda: world.hands.pods == ["ml/x"])
        _, b = world.loop._shards.current()
        b.due, b.retry_at, b.again_at = world.time - 1.0, world.time - 1.0, world.time - 1.0
        await next_cycle(world)
        await until(lambda: b.next_end() is None)
        assert world.hands.pods == ["ml/x"]
        world.unready = set()
        world.trigger.request()
        await until(lambda: sorted(world.hands.pods) == ["ml/x", "ml/y"])


async def test_the_only_shard_waits_until_it_is_ready() -> None:
    world = World()
    world.unready = {""}
    world.put(NODE, raw_node("n"))
    world.put(POD, raw_pod("x"))
    async with running(world):
        await until(lambda: world.loop._leads)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await next_cycle(world)
        assert world.hands.pods == []
        world.unready = set()
        world.trigger.lead()
        await until(lambda: world.hands.pods == ["ml/x"])


def test_the_process_ends_only_once_all_shards_fail() -> None:
    world = world_of(A, B)
    health = world.health
    health.serve({"a", "b"})
    for shard in ("a", "b"):
        for _ in range(20):
            health.failed(ValueError("by the test"), shard)
        world.time += 100.0
        assert bool(health.problem()) == (shard == "b")
    health.succeeded(0.0, "a")
    assert health.problem() == ""


async def test_shards_come_and_go(world: World) -> None:
    both = dict(world.settings.shards)
    world.settings.shards = {"a": both["a"]}
    async with running(world):
        world.put(POD, of_pool("a", "x"), of_pool("b", "y"))
        await until(lambda: world.hands.pods == ["ml/x"])
        world.settings.shards = both
        await next_cycle(world)
        await until(lambda: sorted(world.hands.pods) == ["ml/x", "ml/y"])
        world.settings.shards = {"b": both["b"]}
        world.put(POD, of_pool("a", "late"))
        await next_cycle(world)
        assert sorted(world.hands.pods) == ["ml/x", "ml/y"]


async def test_with_shares_of_the_cluster_a_shard_hears_what_the_others_have(world: World) -> None:
    heard: dict[str, SchedulingHints] = {}

    def run(cluster: Any, config: Config, now_ns: int, cache: Any, timer: Any, hints: SchedulingHints) -> CycleResult:
        heard[config.node_pool] = hints
        return run_cycle(cluster, config, now_ns, cache, timer, hints)

    world.run = run
    async with running(world):
        world.put(POD, of_pool("a", "x"))
        await until(lambda: world.hands.pods == ["ml/x"])
        await next_cycle(world)
    assert heard["a"].elsewhere.capacity[2] == heard["b"].elsewhere.capacity[2] == 2.0
    assert heard["b"].elsewhere.queues["team"].held[2] == 1.0
    assert heard["a"].elsewhere.queues["team"].held[2] == 0.0


async def test_with_shares_of_their_own_they_hear_nothing() -> None:
    world, heard = world_of(A, B), list[SchedulingHints]()

    def run(cluster: Any, config: Config, now_ns: int, cache: Any, timer: Any, hints: SchedulingHints) -> CycleResult:
        heard.append(hints)
        return run_cycle(cluster, config, now_ns, cache, timer, hints)

    world.run = run
    world.put(QUEUE, raw_queue("team"))
    async with running(world):
        await next_cycle(world)
    assert heard
    assert all(each.elsewhere == SchedulingHints().elsewhere for each in heard)


async def test_a_shard_sees_what_those_before_it_bound(world: World) -> None:
    """Each takes a view of its own, so that devices and volumes that pools share are given away once."""
    seen: dict[str, set[str]] = {}

    def run(cluster: Any, config: Config, now_ns: int, cache: Any, timer: Any, hints: SchedulingHints) -> CycleResult:
        if hints != NO_HINTS and "ml/x" in cluster.pods:
            seen.setdefault(config.node_pool, {key for key, pod in cluster.pods.items() if pod.node})
        return run_cycle(cluster, config, now_ns, cache, timer, hints)

    world.run = run
    async with running(world):
        world.put(POD, of_pool("a", "x"), of_pool("b", "y"))
        await until(lambda: sorted(world.hands.pods) == ["ml/x", "ml/y"])
    assert seen == {"a": set(), "b": {"ml/x"}}


async def test_the_awaited_devices_are_those_of_the_view(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the watches show while a thread counts or decides: such a device would be in neither, and look free."""
    seen: list[tuple[str, int, frozenset[tuple[str, str]]]] = []
    in_thread = world.loop._in_thread

    async def news_meanwhile(work: Any) -> Any:
        done = await in_thread(work)
        world.store.put(Namespace(f"late-{world.store.serial}"))
        return done

    def run(cluster: Any, config: Config, now_ns: int, cache: Any, timer: Any, hints: SchedulingHints) -> CycleResult:
        if hints != NO_HINTS:
            seen.append((config.node_pool, cluster.serial, hints.awaited_devices))
        return run_cycle(cluster, config, now_ns, cache, timer, hints)

    world.run = run
    world.binds.retries.awaited_devices = lambda: frozenset({("as of", str(world.store.serial))})
    monkeypatch.setattr(world.loop, "_in_thread", news_meanwhile)
    async with running(world):
        world.put(POD, of_pool("a", "x"), of_pool("b", "y"))
        await until(lambda: sorted(world.hands.pods) == ["ml/x", "ml/y"])
        await next_cycle(world)
    assert {pool for pool, _, _ in seen} == {"a", "b"}
    assert [awaited for _, _, awaited in seen] == [frozenset({("as of", str(serial))}) for _, serial, _ in seen]


async def test_what_a_shard_said_stands_while_its_cycles_fail(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queues and pods are not reported as gone, and what it did is not told again."""
    monkeypatch.setattr(cycle_health, "BACKOFF", Backoff(1.0, 1.0))
    fails = False

    def run(cluster: Any, config: Config, *rest: Any) -> CycleResult:
        if fails and config.node_pool == "b":
            raise ValueError("by the test")
        return run_cycle(cluster, config, *rest)

    world.run = run
    async with running(world):
        world.put(POD, of_pool("b", "y"))
        await until(lambda: world.hands.pods == ["ml/y"])
        await next_cycle(world)
        fails = True
        world.put(POD, of_pool("a", "x"))
        await until(lambda: "ml/x" in world.hands.pods)
        await next_cycle(world)
    last = world.decided[-1].result
    assert last.nodes.keys() == {"n-a", "n-b"}
    assert last.pods["ml/y"].node == "n-b"
    assert all(effect.pod != "ml/y" for effect in last.effects)


async def test_a_shard_whose_first_cycle_fails_begins_to_lead_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for gangs that an earlier leader has left in part once it can be decided."""
    monkeypatch.setattr(cycle_health, "BACKOFF", Backoff(1.0, 1.0))
    fails, asked = True, list[str]()

    def run(cluster: Any, config: Config, now_ns: int, cache: Any, timer: Any, hints: SchedulingHints) -> CycleResult:
        if fails and config.node_pool == "a":
            raise ValueError("by the test")
        if hints == NO_HINTS:
            asked.append(config.node_pool)
        return run_cycle(cluster, config, now_ns, cache, timer, hints)

    world.run = run
    async with running(world):
        world.put(POD, of_pool("b", "y"))
        await until(lambda: world.hands.pods == ["ml/y"])
        assert "a" not in asked
        fails = False
        world.time += 1.1
        world.put(POD, of_pool("a", "x"))
        await until(lambda: "ml/x" in world.hands.pods)
    assert "a" in asked


async def test_the_questions_of_all_shards_are_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one that asks nothing do not take the place of another one's."""
    question, asked = SelectorQuestion("device.driver == 1"), list[list[SelectorQuestion]]()
    monkeypatch.setattr(world.selectors, "ask", lambda found: asked.append(list(found)))

    def run(cluster: Any, config: Config, *rest: Any) -> CycleResult:
        result = run_cycle(cluster, config, *rest)
        return replace(result, questions=(question,)) if config.node_pool == "a" else result

    world.run = run
    async with running(world):
        await next_cycle(world)
    assert asked
    assert all(each == [question] for each in asked)
