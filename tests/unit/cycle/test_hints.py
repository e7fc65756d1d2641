"""Groups that go first, and groups that must wait (``SchedulingHints``)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Cache, Config, Store, run_cycle
from kai_sched.model.hints import ALL_PODS, SchedulingHints
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, PodGroup, Queue, Shape, Share
from kai_sched.plan.effects import Evict

UNLIMITED = Share(-1.0, -1.0, 1.0)
GPU = Shape((("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))


@pytest.fixture
def store() -> Store:
    """Two GPUs; ``old`` and ``new`` are gangs of two in different queues, ``new`` has one pod running already."""
    store = Store()
    for queue in ("a", "b"):
        store.put(Queue(queue, cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    for node in ("n1", "n2", "n3"):
        store.put(Node(node, allocatable={"cpu": 8000.0, "memory": 1e12, "gpu": 1.0, "pods": 110.0}))
    store.put(PodGroup("ml", "old", "u1", 1, queue="a", min_member=2))
    store.put(PodGroup("ml", "new", "u2", 2, queue="b", min_member=2))
    for name, created in (("old-0", 1), ("old-1", 1), ("new-1", 2)):
        store.put(Pod("ml", name, GPU, name, created, group=name[:3], scheduler="kai-scheduler"))
    store.put(Pod("ml", "new-0", GPU, "new-0", 2, group="new", node="n1", phase=Phase.RUNNING))
    return store


def bound(store: Store, hints: SchedulingHints, cache: Cache | None = None) -> list[str]:
    return [effect.pod for effect in run_cycle(store.cluster(), Config(), 0, cache, hints=hints).effects]


def test_without_turns_fairness_decides(store: Store) -> None:
    assert bound(store, SchedulingHints()) == ["ml/old-0", "ml/old-1"]


def test_the_first_goes_before_all_others(store: Store) -> None:
    assert bound(store, SchedulingHints(first={"ml/new": ALL_PODS})) == ["ml/new-1"]


def test_who_must_wait_is_not_tried(store: Store) -> None:
    result = run_cycle(store.cluster(), Config(), 0, hints=SchedulingHints(deferred=frozenset({"ml/old"})))
    assert [effect.pod for effect in result.effects] == ["ml/new-1"]
    reason = result.groups["ml/old"].reason
    assert reason is not None
    assert reason.code == "NotTried"


def test_waiting_wins_over_going_first(store: Store) -> None:
    assert bound(store, SchedulingHints({"ml/new": ALL_PODS}, frozenset({"ml/new"}))) == ["ml/old-0", "ml/old-1"]


def test_a_warm_cache_keeps_no_turns(store: Store) -> None:
    cache = Cache()
    assert bound(store, SchedulingHints(first={"ml/new": ALL_PODS}), cache) == ["ml/new-1"]
    assert bound(store, SchedulingHints(), cache) == ["ml/old-0", "ml/old-1"]


def test_a_closed_node_gets_no_pods_that_share_gpus_but_all_others() -> None:
    store = Store()
    store.put(Queue("a", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    for node in ("n1", "n2"):
        store.put(Node(node, allocatable={"cpu": 8000.0, "memory": 1e12, "gpu": 1.0, "pods": 110.0}))
    half = Shape((("cpu", 1000.0), ("pods", 1.0)), share=GpuShare(1, 0.5))
    for name, shape in (("half-0", half), ("half-1", half), ("half-2", half), ("whole", GPU)):
        store.put(PodGroup("ml", name, name, 1, queue="a"))
        store.put(Pod("ml", name, shape, name, 1, group=name, scheduler="kai-scheduler"))
    result = run_cycle(store.cluster(), Config(), 0, hints=SchedulingHints(closed_nodes=frozenset({"n1"})))
    nodes = {effect.pod: effect.node for effect in result.effects}
    assert nodes == {"ml/half-0": "n2", "ml/half-1": "n2", "ml/whole": "n1"}
    reason = result.groups["ml/half-2"].reason
    assert reason is not None
    assert "a GPU could not be reserved for sharing there lately" in reason.message


def crowded(*names: str) -> Store:
    """Each GPU is lent to a pod of these names; the owner of them all asks for one."""
    store = Store()
    store.put(Queue("a", cpu=UNLIMITED, memory=UNLIMITED, gpu=Share(2.0, -1.0, 1.0)))
    store.put(Queue("b", cpu=UNLIMITED, memory=UNLIMITED, gpu=Share(0.0, -1.0, 1.0)))
    size = {"cpu": 8000.0, "memory": 1e12, "gpu": float(len(names)), "pods": 110.0}
    store.put(Node("n1", allocatable=size))
    for name in names:
        store.put(PodGroup("ml", name, name, 1, queue="b"))
        store.put(Pod("ml", name, GPU, name, 1, group=name, node="n1", phase=Phase.RUNNING, scheduler="kai-scheduler"))
    store.put(PodGroup("ml", "own", "own", 2, queue="a"))
    store.put(Pod("ml", "own", GPU, "own", 2, group="own", scheduler="kai-scheduler"))
    return store


@pytest.mark.parametrize("victims", ["minimal", "original"])
def test_who_cannot_be_evicted_is_no_victim(victims: str) -> None:
    store, config, cache = crowded("v0", "v1"), replace(Config(), victims=victims), Cache()

    def evicted(*refused: str) -> list[str]:
        hints = SchedulingHints(refused_victims=frozenset(refused))
        result = run_cycle(store.cluster(), config, 0, cache, hints=hints)
        assert result.pods["ml/v0"].node == result.pods["ml/v1"].node == "n1"
        return [effect.pod for effect in result.effects if isinstance(effect, Evict)]

    (first,) = evicted()
    other = {"ml/v0": "ml/v1", "ml/v1": "ml/v0"}[first]
    assert evicted(first) == [other]
    assert evicted(first, other) == []
    assert evicted("ml/gone") == [first], "and a warm cache keeps none of this"


def test_a_pod_that_could_not_be_evicted_and_waits_gets_a_node() -> None:
    store = crowded("v0")
    hints = SchedulingHints(refused_victims=frozenset({"ml/own"}))
    store.remove(Pod, "ml/v0")
    assert bound(store, hints) == ["ml/own"]
