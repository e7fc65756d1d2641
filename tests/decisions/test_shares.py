"""Queues get their shares and keep them: nobody waits behind others for ever, and no room goes to and fro."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kai_sched import Config, Store, run_cycle
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model import objects as o
from kai_sched.plan.effects import Evict

NOW_NS = 1_800_000_000 * 10**9
STEP_NS = 10 * 10**9
ANY = o.Share(-1.0, -1.0, 1.0)


def queue(
    name: str, quota: float, weight: float, parent: str = "all", limit: float = -1.0, priority: int = 100
) -> o.Queue:
    gpu = o.Share(quota, limit, weight)
    return o.Queue(
        name=name, uid=name, created_ns=NOW_NS, parent=parent, priority=priority, cpu=ANY, memory=ANY, gpu=gpu
    )


def gang(
    name: str, queue: str, count: int, gpus: float, least: int, node: str = "", fixed: bool = False
) -> list[o.Object]:
    group = o.PodGroup(
        namespace="ml", name=name, uid=name, created_ns=NOW_NS, queue=queue, min_member=least, preemptible=not fixed
    )
    shape = o.Shape(request=(("cpu", 1000.0), ("gpu", gpus), ("pods", 1.0)))
    phase = o.Phase.RUNNING if node else o.Phase.PENDING
    pods = [
        o.Pod(
            namespace="ml",
            name=f"{name}-{k}",
            shape=shape,
            uid=f"{name}-{k}",
            created_ns=NOW_NS,
            group=name,
            scheduler="kai-scheduler",
            node=node,
            phase=phase,
        )
        for k in range(count)
    ]
    return [group, *pods]


@pytest.mark.parametrize("quota", [0.0, 4.0])
def test_a_gang_does_not_push_another_queue_below_its_quota_to_lose_the_room_again(quota: float) -> None:
    """It needs all that is not held for good; the queue that holds some of that is above its share, and has a quota.

    Before, it was promised the room in each second cycle, and lost it in the one after; a pod restarted each time.
    """
    store = Store()
    capacity = {"cpu": 64_000.0, "gpu": 20.0, "pods": 110.0}
    for item in [
        o.Node("n0", "n0", {}, capacity),
        queue("all", 1.0, 1.0, parent=""),
        queue("training", quota, 1.0),
        queue("serving", 2.0, 0.0, limit=2.0),
        queue("notebooks", 2.0, 0.0, priority=50),
        *gang("large", "training", 12, 1.0, least=12),
        *gang("server", "serving", 8, 1.0, least=1, node="n0", fixed=True),
        *gang("small", "notebooks", 5, 2.0, least=1),
        *gang("medium", "notebooks", 5, 1.0, least=3),
    ]:
        store.put(item)
    tracker, world = HintTracker(), World(STEP_NS, revives=True)
    evicted: list[str] = []
    for number in range(12):
        cluster, now_ns = store.cluster(), NOW_NS + number * STEP_NS
        result = run_cycle(cluster, Config(), now_ns, hints=tracker.next_hints())
        tracker.record(cluster, result, Config())
        evicted += [each.pod for each in result.effects if isinstance(each, Evict)]
        advance(store, cluster, result, now_ns, world)
    assert result.effects == (), "still no rest"
    assert len(evicted) == len(set(evicted)), "somebody was restarted twice"


def test_another_victim_is_found_where_the_first_would_take_the_room_back() -> None:
    """The gang is the first to go, by the priority of its queue; a pod of the same queue would fit its quota then."""
    store = Store()
    for item in [
        o.Node("n0", "n0", {}, {"cpu": 64_000.0, "gpu": 4.0, "pods": 110.0}),
        o.Node("n1", "n1", {}, {"cpu": 64_000.0, "gpu": 1.0, "pods": 110.0}),
        o.Node("n2", "n2", {}, {"cpu": 64_000.0, "gpu": 1.0, "pods": 110.0}),
        queue("training", 2.0, 1.0, parent=""),
        queue("notebooks", 2.0, 0.0, parent="", priority=50),
        queue("scratch", 0.0, 0.0, parent=""),
        *gang("trains", "training", 2, 1.0, least=1, node="n0"),
        *gang("next", "training", 1, 1.0, least=1),
        *gang("gang", "notebooks", 3, 1.0, least=3, node="n0"),
        *gang("waits", "notebooks", 1, 2.0, least=1),
        *gang("single", "scratch", 1, 1.0, least=1, node="n0"),
    ]:
        if isinstance(item, o.Pod) and item.name in ("gang-1", "gang-2"):
            item = replace(item, node=f"n{item.name[-1]}")
        store.put(item)
    result = run_cycle(store.cluster(), Config(), NOW_NS)
    assert [each.pod for each in result.effects if isinstance(each, Evict)] == ["ml/single-0"]


def test_nobody_waits_behind_a_gang_that_looks_like_him() -> None:
    """A gang and a group of single pods have pods of one kind; that the gang cannot be helped says nothing of these."""
    store = Store()
    for item in [
        o.Node("n0", "n0", {}, {"cpu": 64_000.0, "gpu": 2.0, "pods": 110.0}),
        queue("training", 4.0, 1.0, parent=""),
        queue("notebooks", 1.0, 1.0, parent=""),
        *gang("a-gang", "training", 4, 1.0, least=4),
        *gang("singles", "training", 4, 1.0, least=1),
        *gang("running", "notebooks", 2, 1.0, least=1, node="n0"),
    ]:
        store.put(item)
    result = run_cycle(store.cluster(), Config(), NOW_NS)
    assert [(each.pod, each.cause) for each in result.effects if isinstance(each, Evict)] == [
        ("ml/running-1", "ml/singles")
    ]


@pytest.mark.parametrize("kept", ["running-0", "running-1"])
def test_a_pod_goes_though_others_of_its_group_with_less_could_go_first(kept: str) -> None:
    """One of the group has the GPU that is asked for, the other has none: it stays, and is the minimum then."""
    store = Store()
    for item in [
        o.Node("n0", "n0", {}, {"cpu": 64_000.0, "gpu": 1.0, "pods": 110.0}),
        queue("training", 1.0, 1.0, parent=""),
        queue("notebooks", 0.0, 0.0, parent=""),
        *gang("single", "training", 1, 1.0, least=1),
        *gang("running", "notebooks", 3, 1.0, least=1),
    ]:
        if isinstance(item, o.Pod) and item.name in ("running-0", "running-1"):
            gpus = 0.0 if item.name == kept else 1.0
            shape = o.Shape(request=(("cpu", 1000.0), ("gpu", gpus), ("pods", 1.0)))
            item = replace(item, shape=shape, node="n0", phase=o.Phase.RUNNING)
        store.put(item)
    result = run_cycle(store.cluster(), Config(), NOW_NS)
    gone = [each.pod for each in result.effects if isinstance(each, Evict)]
    assert len(gone) == 1
    assert gone != [f"ml/{kept}"]


@pytest.mark.parametrize(
    ("first", "second", "victim"),
    [
        ((100.0, o.GpuShare(2, 0.3)), (100.0, o.GpuShare(1, 0.7)), (100.0, o.GpuShare(1, 0.9))),
        ((100.0, o.GpuShare(2, 0.3)), (2000.0, o.GpuShare(1, 0.1)), (2000.0, o.GpuShare(1, 0.1))),
    ],
    ids=["devices", "cores"],
)
def test_nobody_waits_behind_a_pod_that_asks_for_less_of_something_and_more_of_another(
    first: tuple[float, o.GpuShare], second: tuple[float, o.GpuShare], victim: tuple[float, o.GpuShare]
) -> None:
    """The first asks for two devices, of which there is one, and cannot be helped; the second needs one victim.

    Before, the second was skipped for ever: as a sum it asked for more of one resource.
    """

    def pod(name: str, priority: str, asks: tuple[float, o.GpuShare | None], node: str = "") -> list[o.Object]:
        whole = () if asks[1] else (("gpu", 1.0),)
        shape = o.Shape(request=tuple(sorted((("cpu", asks[0]), ("pods", 1.0), *whole))), share=asks[1])
        phase = o.Phase.RUNNING if node else o.Phase.PENDING
        known: dict[str, Any] = {"node": node, "phase": phase, "gpu_groups": ("shared",) if node and asks[1] else ()}
        return [
            o.PodGroup("ml", name, name, NOW_NS, "q", priority, preemptible=True, min_member=1),
            o.Pod("ml", name, shape, uid=name, created_ns=NOW_NS, group=name, scheduler="kai-scheduler", **known),
        ]

    store = Store()
    for item in [
        o.Node("n0", "n0", {"nvidia.com/gpu.memory": "16384"}, {"cpu": 2200.0, "gpu": 2.0, "pods": 110.0}),
        o.PriorityClass("low", 50),
        o.PriorityClass("high", 75),
        queue("q", 4.0, 1.0, parent=""),
        *pod("a-first", "high", first),
        *pod("b-second", "high", second),
        *pod("holder", "high", (100.0, None), "n0"),
        *pod("victim", "low", victim, "n0"),
    ]:
        store.put(item)
    result = run_cycle(store.cluster(), Config(), NOW_NS)
    assert [(each.pod, each.cause) for each in result.effects if isinstance(each, Evict)] == [
        ("ml/victim", "ml/b-second")
    ]
