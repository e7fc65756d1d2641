"""How parts of GPUs are told: as they were asked for, although the books round them down."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched.cycle.run import run_cycle
from kai_sched.model.config import Config
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, PodGroup, PriorityClass, Queue, Shape, Share
from kai_sched.model.read.kinds import POD, Reader
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.receipts import notice

OPEN = Share(-1, -1, 1)
ROOM = {"cpu": 8000.0, "memory": 2.0**34, "pods": 110.0, "gpu": 1.0}
MEMORY = {"nvidia.com/gpu.memory": "81920"}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.from_regex(r"\A ?[-+]?[0-2]?[.,]?[0-9]{0,3}(Mi|e1)?\Z")


def shape(share: GpuShare) -> Shape:
    return Shape((("cpu", 100.0), ("pods", 1.0)), share=share)


def pod(name: str, share: GpuShare, **more: object) -> Pod:
    return Pod("ml", name, shape(share), group=name, scheduler="kai-scheduler", **more)  # type: ignore[arg-type]


def cluster(*pods: Pod, nodes: int = 1, groups: tuple[PodGroup, ...] = ()) -> Cluster:
    found = groups or tuple(PodGroup("ml", name, queue="q", min_member=1) for name in {each.group for each in pods})
    classes = [PriorityClass("train", 50), PriorityClass("high", 90)]
    made = [Node(f"n{i}", labels=MEMORY, allocatable=ROOM) for i in range(nodes)]
    return Cluster.of([Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), *classes, *made, *found, *pods])


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (GpuShare(1024, 0.1), "asks for 102.4 GPUs; the largest node has 1 GPU"),
        (GpuShare(3, 0.7), "asks for 2.1 GPUs; the largest node has 1 GPU"),
        (GpuShare(4, 0.0, 40960), "asks for 2 GPUs; the largest node has 1 GPU"),
    ],
)
def test_what_a_pod_asks_for(share: GpuShare, words: str) -> None:
    result = run_cycle(cluster(pod("a", share)), Config(), 0)
    reason = result.groups["ml/a"].reason
    assert reason is not None
    assert words in reason.message


def test_while_sharing_is_off_the_remedy_is_told_and_running_pods_keep_their_device() -> None:
    running = pod("old", GpuShare(1, 0.5), node="n0", phase=Phase.RUNNING, gpu_groups=("g",))
    whole = Pod("ml", "w", Shape((("gpu", 1.0), ("pods", 1.0))), group="w", scheduler="kai-scheduler")
    result = run_cycle(cluster(running, pod("new", GpuShare(1, 0.1)), whole), Config(gpu_sharing=False), 0)
    reason = result.groups["ml/new"].reason
    assert reason is not None
    assert reason.code == "NotSupported"
    assert "GPU sharing is off" in reason.message
    assert "spec.global.gpuSharing" in reason.message
    assert result.pods["ml/old"].status == "Running"
    assert result.pods["ml/w"].status == "Pending", "half of the only device is not free"


def test_memory_is_told_as_its_part_of_the_smallest_gpu() -> None:
    small = Node("small", labels={"nvidia.com/gpu.memory": "24576"}, allocatable=ROOM)
    held = pod("held", GpuShare(1, 0.25), node="small", phase=Phase.RUNNING, gpu_groups=("g",))
    cordoned = Node("large", labels=MEMORY, allocatable={}, unschedulable=True)
    view = cluster(pod("a", GpuShare(1, 0.0, 20480)), held, nodes=0)
    kept = (view.queues, view.pods, view.pod_groups, view.priority_classes)
    view = Cluster.of([small, cordoned, *(each for table in kept for each in table.values())])
    reason = run_cycle(view, Config(actions=("allocate",)), 0).groups["ml/a"].reason
    assert reason is not None
    assert "the 0.84 GPUs it asks for (most free on one of them: 0.75)" in reason.message


def test_what_a_gang_asks_for_in_all() -> None:
    gang = [Pod("ml", f"a-{i:04}", shape(GpuShare(1, 0.9)), group="a", scheduler="kai-scheduler") for i in range(1001)]
    group = PodGroup("ml", "a", queue="q", min_member=1001)
    result = run_cycle(cluster(*gang, nodes=20, groups=(group,)), Config(actions=("allocate",)), 0)
    reason = result.groups["ml/a"].reason
    assert reason is not None
    assert "900.9 GPUs" in reason.message


@pytest.mark.parametrize(
    ("share", "words"),
    [(GpuShare(1, 0.6), "frees 0.1 CPU cores, 0.6 GPUs on n0"), (GpuShare(1, 0.0, 61440), "0.75 GPUs on n0")],
)
def test_what_an_eviction_frees(share: GpuShare, words: str) -> None:
    victim = pod("low", share, node="n0", phase=Phase.RUNNING, gpu_groups=("g",))
    groups = (
        PodGroup("ml", "low", queue="q", min_member=1, priority_class="train"),
        PodGroup("ml", "top", queue="q", min_member=1, priority_class="high"),
    )
    result = run_cycle(cluster(victim, pod("top", GpuShare(1, 0.9)), groups=groups), Config(), 0)
    (eviction,) = [effect for effect in result.effects if isinstance(effect, Evict)]
    assert words in notice(eviction)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([None, None], "2 of 2 nodes: GPU memory not known (no label nvidia.com/gpu.memory)"),
        (
            ["lots", "80Gi"],
            "2 of 2 nodes: GPU memory not known (label nvidia.com/gpu.memory is no whole number of MiB above 0: "
            "'lots' on n0, '80Gi' on n1; correct it)",
        ),
        (
            [None, "0"],
            "2 of 2 nodes: GPU memory not known (no label nvidia.com/gpu.memory, or one that is no whole number of MiB "
            "above 0: '0' on n1; correct it)",
        ),
    ],
)
def test_a_label_that_cannot_be_read_is_told(labels: list[str | None], text: str) -> None:
    made = [
        Node(f"n{i}", labels={} if value is None else {"nvidia.com/gpu.memory": value}, allocatable=ROOM)
        for i, value in enumerate(labels)
    ]
    group = PodGroup("ml", "a", queue="q", min_member=1)
    objects = [Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), *made, group, pod("a", GpuShare(1, 0.0, 4000))]
    reason = run_cycle(Cluster.of(objects), Config(), 0).groups["ml/a"].reason
    assert reason is not None
    assert text in reason.message


@pytest.mark.parametrize(
    "asks",
    [shape(GpuShare(1, 0.8)), Shape((("gpu", 1.0), ("pods", 1.0)))],
    ids=["a part", "a whole GPU"],
)
def test_what_is_left_of_shared_devices_is_free(asks: Shape) -> None:
    """A quarter is held, by memory on a device that is smaller than the largest; what is leaving counts as free."""
    small = Node("small", labels={"nvidia.com/gpu.memory": "16000"}, allocatable=ROOM)
    large = Node("large", labels=MEMORY, allocatable={**ROOM, "gpu": 0.0})
    held = pod("a", GpuShare(1, 0.0, 4000), node="small", phase=Phase.RUNNING, gpu_groups=("g",))
    going = pod("c", GpuShare(1, 0.5), node="small", phase=Phase.RUNNING, gpu_groups=("g",), deleted_ns=1)
    waits = Pod("ml", "b", asks, group="b", scheduler="kai-scheduler")
    groups = [PodGroup("ml", each, queue="q", min_member=1) for each in "abc"]
    objects = [Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), small, large, *groups, held, going, waits]
    result = run_cycle(Cluster.of(objects), Config(actions=("allocate",)), 2)
    reason = result.groups["ml/b"].reason
    assert reason is not None
    assert "Free in all: 0.75 of 1 GPU (0.75 left of shared ones)" in reason.message
    assert result.nodes["small"].shared == 0.75


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (GpuShare(1, 0.0, 81921), "2 of 2 nodes lack a GPU with 81,921 MiB free (the largest has 81,920 MiB)"),
        (GpuShare(1, 0.0, 900000), "pod ml/a asks for a GPU with 900,000 MiB free; the largest has 81,920 MiB"),
        (GpuShare(2, 0.0, 10000), "2 of 2 nodes lack 2 GPUs with 10,000 MiB free of each (most free of one GPU: 1)"),
        (GpuShare(2, 0.25), "2 of 2 nodes lack 2 GPUs with 0.25 free of each (most free of one GPU: 1)"),
    ],
)
def test_what_no_single_sum_of_gpus_says(share: GpuShare, text: str) -> None:
    """The sum of the parts is less than what is free of one device: it says nothing."""
    two = [Node(f"n{i}", labels=MEMORY, allocatable=ROOM | {"gpu": 2.0}) for i in range(2)]
    held = [pod(f"held-{i}", GpuShare(1, 0.9), node=f"n{i}", phase=Phase.RUNNING) for i in range(2)]
    groups = [PodGroup("ml", each.name, queue="q", min_member=1) for each in (*held, pod("a", share))]
    view = [Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), *two, *groups, *held, pod("a", share)]
    reason = run_cycle(Cluster.of(view), Config(actions=("allocate",)), 0).groups["ml/a"].reason
    assert reason is not None
    assert text in reason.message


def test_the_most_that_is_free_of_one_device_is_no_sum_of_several() -> None:
    """Of three devices 0.4 is free each, 1.2 in all."""
    node = Node("n", labels=MEMORY, allocatable=ROOM | {"gpu": 3.0})
    held = [pod(f"held-{i}", GpuShare(1, 0.6), node="n", phase=Phase.RUNNING, gpu_groups=(f"g{i}",)) for i in range(3)]
    waits = pod("a", GpuShare(3, 0.5))
    groups = [PodGroup("ml", each.name, queue="q", min_member=1) for each in (*held, waits)]
    view = [Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), node, *groups, *held, waits]
    reason = run_cycle(Cluster.of(view), Config(actions=("allocate",)), 0).groups["ml/a"].reason
    assert reason is not None
    assert "1 of 1 nodes lack 3 GPUs with 0.5 free of each (most free of one GPU: 0.4)" in reason.message


@given(TEXTS, st.sampled_from(["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "mps"]))
@settings(max_examples=50, deadline=None)
def test_a_pod_that_asks_for_a_part_is_never_bound_without_a_gpu(text: str, key: str) -> None:
    """Whatever the annotation says, the pod gets a device, or waits with a reason that names the annotation."""
    wire = {"metadata": {"name": "a", "namespace": "ml", "annotations": {key: text, "pod-group-name": "a"}}}
    raw = msgspec.json.encode({**wire, "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]}})
    waits = Reader(Config()).read(POD, raw, lambda *_: None)
    node = Node("n", labels=MEMORY, allocatable=ROOM)
    group = PodGroup("ml", "a", queue="q", min_member=1)
    view = Cluster.of([Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), node, group, waits])
    result = run_cycle(view, Config(actions=("allocate",)), 0)
    bound = {bind.pod: bind for bind in result.effects if isinstance(bind, Bind)}
    if key == "mps" and text != "true":
        assert "ml/a" in bound
    elif "ml/a" in bound:
        assert bound["ml/a"].gpu_groups
    else:
        reason = result.groups["ml/a"].reason
        assert reason is not None
        assert reason.code == "NotSupported"
        assert f"annotation {key}" in reason.message


def test_memory_that_the_reserve_of_the_driver_leaves_to_nobody_is_told() -> None:
    reserve = Config(actions=("allocate",), gpu_memory_reserve_percent=10.0)
    reason = run_cycle(cluster(pod("a", GpuShare(1, 0.0, 80000))), reserve, 0).groups["ml/a"].reason
    assert reason is not None
    assert "asks for a GPU with 80,000 MiB free; the largest has 73,728 MiB, without gpuMemoryReserve" in reason.message


def test_nobody_joins_a_pod_that_does_not_say_which_device_it_has() -> None:
    """The group that the new pod would get is another device, and the node would have one too many."""
    running = pod("a", GpuShare(1, 0.5), node="n0", phase=Phase.RUNNING)
    result = run_cycle(cluster(running, pod("c", GpuShare(1, 0.5))), Config(), 0)
    assert result.pods["ml/c"].status == "Pending"
    reason = result.groups["ml/c"].reason
    assert reason is not None
    assert "Free in all: 0 of 1 GPU" in reason.message
    named = replace(running, gpu_groups=("g",))
    (bind,) = run_cycle(cluster(named, pod("c", GpuShare(1, 0.5))), Config(), 0).effects
    assert isinstance(bind, Bind)
    assert bind.gpu_groups == ("g",)
