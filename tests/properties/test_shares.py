"""Properties of clusters where pods share GPU devices or have MIG devices: the twin decides the same, and no device
holds more than it has."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config, CycleResult, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.config import ACTIONS, OPERATOR_PLUGINS
from kai_sched.plan.effects import Bind
from tests.oracle.allocate import allocate
from tests.oracle.world import UNLIMITED
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import by_scheduler, by_twin, check_allocated, cycles, plan_of
from tests.properties.plans import text_of
from tests.properties.shares import MEMORY_LABEL, Sharing, device_memory, size_on
from tests.properties.test_evictions import decided

MIXED, ODD = Sharing(mig=True), Sharing(odd=True)
LOOSE = st.one_of(clusters(Spice(sharing=MIXED)), clusters(Spice(sharing=ODD)))
CROWDED = st.one_of(
    *(
        crowds(crowd, (1, 4), (1, 5), (1, 12))
        for sharing in (Sharing(), MIXED, ODD)
        for crowd in (
            Crowd(flat=True, sharing=sharing),
            Crowd(movable=True, sharing=sharing),
            Crowd(tight=True, movable=True, sharing=sharing),
            Crowd(times=True, sub_groups=True, picky=True, limits=True, torn=True, sharing=sharing),
        )
    )
)


def plugins_with(*gpu: str) -> dict[str, dict[str, str]]:
    """The plugins of the operator, but of those that order devices only these."""
    kept = {name: dict(given) for name, given in OPERATOR_PLUGINS.items() if not name.startswith("gpu")}
    if gpu == ("gpuspread",):
        kept["nodeplacement"] = {"gpu": "spread", "cpu": "binpack"}
    return kept | {name: {} for name in gpu}


ORDERS = st.sampled_from(
    [
        plugins_with("gpupack", "gpusharingorder"),
        plugins_with("gpupack", "gpusharingorder"),
        plugins_with("gpuspread"),
        plugins_with("gpupack", "gpuspread", "gpusharingorder"),
        plugins_with(),
    ]
)
VICTIMS = st.sampled_from(["minimal", "original"])
ACTIVE_SETS = st.sampled_from(
    [ACTIONS, ACTIONS, ("reclaim",), ("preempt",), ("consolidation",), ("reclaim", "preempt")]
)
CONFIGS = st.builds(
    Config,
    actions=ACTIVE_SETS,
    plugins=ORDERS,
    max_consolidation_preemptees=st.sampled_from([-1, 1, 2, 16]),
    allow_consolidating_reclaim=st.sampled_from([True, True, False]),
    use_scheduling_signatures=st.booleans(),
    victims=VICTIMS,
)
ALLOCATE = st.builds(Config, actions=st.just(("allocate",)), plugins=ORDERS, victims=VICTIMS)
MORE = settings(max_examples=4 * settings().max_examples)


@MORE
@given(st.one_of(LOOSE, CROWDED), ALLOCATE)
def test_allocate_equals_the_twin(objects: list[o.Object], config: Config) -> None:
    """The same pods on the same nodes in the same order, and the same shares and whole devices left."""
    result = run_cycle(Cluster.of(objects), config, NOW_NS)
    expected = allocate(Cluster.of(objects), config, NOW_NS)
    check_allocated(result, expected)


@MORE
@given(st.one_of(LOOSE, CROWDED), CONFIGS)
def test_equals_the_twin(objects: list[o.Object], config: Config) -> None:
    """The same pods end in the same places, and the same ones are evicted for the same groups in turn."""
    ours, theirs = (decider(Cluster.of(objects), config, NOW_NS) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


@given(CROWDED, VICTIMS)
def test_equals_the_twin_for_cycles(objects: list[o.Object], victims: str) -> None:
    """In each of some cycles as the scheduler decides them, as only it says which devices pods share."""
    config, now_ns = Config(victims=victims), NOW_NS
    for cluster, plan in cycles(objects, by_scheduler, config, 4):
        assert decided(plan) == decided(by_twin(cluster, config, now_ns))
        now_ns += 10**10


@MORE
@given(st.one_of(LOOSE, CROWDED), CONFIGS)
def test_no_device_holds_more_than_it_has(objects: list[o.Object], config: Config) -> None:
    """Counted anew from the pods: the memory of each device, whole GPUs, and different devices for each share."""
    cluster = Cluster.of(objects)
    check_devices(cluster, run_cycle(cluster, config, NOW_NS))


@given(CROWDED, VICTIMS)
def test_no_device_ever_holds_more_than_it_has(objects: list[o.Object], victims: str) -> None:
    """Cycle after cycle."""
    config, now_ns = Config(victims=victims), NOW_NS
    for cluster, _ in cycles(objects, by_scheduler, config, 5):
        check_devices(cluster, run_cycle(cluster, config, now_ns))
        now_ns += 10**10


@st.composite
def limited(draw: st.DrawFn) -> list[o.Object]:
    """Nodes with small and with large devices, and a queue with a limit below another one. Pods of low priority run
    with shares by memory, which cost more on small devices; others wait."""
    free, at_most = o.Share(-1.0, -1.0, 1.0), st.sampled_from([-1.0, 1.5, 2.5, 3.5])
    found: list[o.Object] = [
        o.Queue("all", uid="all", cpu=free, memory=free, gpu=o.Share(-1.0, draw(at_most), 1.0)),
        o.Queue("q", uid="q", parent="all", cpu=free, memory=free, gpu=o.Share(-1.0, draw(at_most), 1.0)),
        o.PriorityClass("low", 50),
        o.PriorityClass("high", 75),
    ]
    names = [f"n{number}" for number in range(draw(st.integers(1, 3)))]
    for name in names:
        room = {"cpu": 64_000.0, "pods": 110.0, "gpu": float(draw(st.integers(1, 4)))}
        found.append(o.Node(name, name, {MEMORY_LABEL: draw(st.sampled_from(["16384", "24576"]))}, room))
    shares = st.builds(o.GpuShare, st.sampled_from([1, 2, 4]), st.just(0.0), st.sampled_from([5406, 8193, 12287]))
    for number in range(draw(st.integers(2, 6))):
        name, node, share = f"g{number}", draw(st.sampled_from(["", *names])), draw(st.none() | shares)
        value = draw(st.sampled_from(["low", "low", "high"]))
        found.append(o.PodGroup("ml", name, name, NOW_NS + number, "q", value, preemptible=True, min_member=1))
        gpus = () if share else (("gpu", float(draw(st.integers(1, 2)))),)
        shape = o.Shape(tuple(sorted((("cpu", 1000.0), ("pods", 1.0), *gpus))), share=share)
        on_node: dict[str, Any] = {}
        if node:
            groups = tuple(f"{name}-{k}" for k in range(share.devices)) if share else ()
            on_node = {"node": node, "phase": o.Phase.RUNNING, "gpu_groups": groups}
        found.append(o.Pod("ml", name, shape, uid=name, scheduler="kai-scheduler", group=name, **on_node))
    return found


@MORE
@given(limited(), ACTIVE_SETS)
def test_no_queue_ever_passes_its_limit(objects: list[o.Object], actions: tuple[str, ...]) -> None:
    """Cycle after cycle: nobody holds more than a limit, or more than before, where that was above it already."""
    config, now_ns = Config(actions=actions, victims="minimal", max_consolidation_preemptees=-1), NOW_NS
    for cluster, _ in cycles(objects, by_scheduler, config, 3):
        before = {queue.name: queue for queue in run_cycle(cluster, replace(config, actions=()), now_ns).queues}
        for queue in run_cycle(cluster, config, now_ns).queues:
            for r, limit in enumerate(queue.limit):
                most = max(limit, before[queue.name].allocated[r])
                assert limit == UNLIMITED or queue.allocated[r] <= most + 1e-6, (queue.name, r)
        now_ns += 10**10


def test_a_victim_does_not_return_where_its_memory_costs_too_much() -> None:
    """8193 MiB of four devices are 2.04 GPUs on small and 1.36 on large ones: the limit allows 2.5, and one is taken.

    The gates of the chunk ask for the least price.
    """
    free, gpu = o.Share(-1.0, -1.0, 1.0), o.Share(-1.0, 2.5, 1.0)
    room = {"cpu": 64_000.0, "pods": 110.0}
    victim = o.Shape((("cpu", 1000.0), ("pods", 1.0)), share=o.GpuShare(4, 0.0, 8193))
    objects: list[o.Object] = [
        o.Queue("q", uid="q", cpu=free, memory=free, gpu=gpu),
        o.PriorityClass("low", 50),
        o.PriorityClass("high", 75),
        o.Node("small", "small", {MEMORY_LABEL: "16384"}, {**room, "gpu": 4.0}),
        o.Node("large", "large", {MEMORY_LABEL: "24576"}, {**room, "gpu": 1.0}),
        o.PodGroup("ml", "victim", "victim", NOW_NS, "q", "low", min_member=1),
        o.PodGroup("ml", "next", "next", NOW_NS, "q", "high", min_member=1),
    ]
    groups = ("a", "b", "c", "d")
    running: dict[str, Any] = {"node": "small", "phase": o.Phase.RUNNING, "gpu_groups": groups, "group": "victim"}
    objects.append(o.Pod("ml", "victim", victim, uid="v", scheduler="kai-scheduler", **running))
    whole = o.Shape((("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))
    objects.append(o.Pod("ml", "next", whole, uid="n", scheduler="kai-scheduler", group="next"))
    (queue,) = run_cycle(Cluster.of(objects), Config(), NOW_NS).queues
    assert queue.allocated[2] == 1.0


def check_devices(cluster: Cluster, result: CycleResult) -> None:
    """What holds of nodes where somebody is bound, with all who are there at present, whoever is leaving."""
    bound = {effect.pod: effect for effect in result.effects if isinstance(effect, Bind)}
    memory: dict[str, Counter[str]] = defaultdict(Counter)
    whole: Counter[str] = Counter()
    for key, pod in cluster.pods.items():
        node = bound[key].node if key in bound else pod.node
        share = pod.shape.share
        if not node or result.pods[key].status in ("Succeeded", "Unknown"):
            continue
        if share is not None and pod.scheduler != "kai-scheduler":
            continue
        if share is None:
            whole[node] += int(dict(pod.shape.request).get("gpu", 0)) * (pod.labels.get("app") != pod.namespace)
            continue
        groups = bound[key].gpu_groups if key in bound else pod.gpu_groups
        groups = groups or tuple(f"{key} {k}" for k in range(share.devices))
        assert len(set(groups)) == share.devices, f"{key} has {groups}"
        for group in groups:
            memory[node][group] += size_on(share, cluster.nodes[node])
    for node in {effect.node for effect in bound.values()}:
        gpus = cluster.nodes[node].allocatable.get("gpu", 0)
        assert whole[node] + len(memory[node]) <= gpus or not gpus, f"{node} has not so many devices"
        assert all(held <= device_memory(cluster.nodes[node]) for held in memory[node].values()), node


@given(st.one_of(LOOSE, CROWDED), CONFIGS, st.randoms(use_true_random=False))
def test_order_of_the_input_does_not_matter(objects: list[o.Object], config: Config, rng: random.Random) -> None:
    """The same objects in any order give the same result, byte for byte."""
    first = text_of(run_cycle(Cluster.of(objects), config, NOW_NS))
    shuffled = objects.copy()
    rng.shuffle(shuffled)
    assert text_of(run_cycle(Cluster.of(shuffled), config, NOW_NS)) == first


@given(CROWDED, CONFIGS)
def test_nobody_is_evicted_in_vain(objects: list[o.Object], config: Config) -> None:
    """Minimal victims: each has somebody to make room for, who has got a place."""
    cluster = Cluster.of(objects)
    plan = plan_of(cluster, run_cycle(cluster, replace(config, victims="minimal"), NOW_NS))
    waiting = {node for status, node in plan.stands.values() if status == "Pipelined"}
    for left in plan.evictions:
        if left.action != "stalegangeviction":
            assert plan.places(left.cause) or cluster.pods[left.pod].node in waiting, f"{left} made room for nobody"
