"""Reasons that list the nodes by name (``detailedFitErrors``, semantics 3.9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model.constraints import HostPort, Requirement, Taint
from kai_sched.model.objects import GpuShare, Node, Object, Phase, Pod, PodGroup, Queue, Shape, Share
from kai_sched.plan.node_reasons import LIST_MAX, listed
from kai_sched.plan.reasons import Reason

BY_NODE = Config(actions=("allocate",), detailed_fit_errors=True)
OPEN = Share(-1, -1, 1)
ROOM = {"cpu": 8000.0, "memory": 2.0**34, "pods": 110.0, "gpu": 4.0}
ONE_GPU = Shape((("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))


def pod(name: str, shape: Shape = ONE_GPU, node: str = "", devices: tuple[str, ...] = ()) -> Pod:
    phase = Phase.RUNNING if node else Phase.PENDING
    return Pod("ml", name, shape, group="g", scheduler="kai-scheduler", node=node, phase=phase, gpu_groups=devices)


def reason(*objects: Object, config: Config = BY_NODE) -> Reason:
    group = PodGroup("ml", "g", queue="q", min_member=1)
    cluster = Cluster.of([Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), group, *objects])
    found = run_cycle(cluster, config, 0).groups["ml/g"].reason
    assert found is not None
    return found


def test_each_node_has_what_it_lacks() -> None:
    nodes = [
        Node("full", allocatable=ROOM | {"gpu": 1.0}),
        Node("small", allocatable=ROOM | {"cpu": 500.0, "gpu": 0.0}),
        Node("sick", allocatable=ROOM, bad_conditions=("NotReady",)),
        Node("tainted", allocatable=ROOM, taints=(Taint("dedicated", "infra", "NoSchedule"),)),
    ]
    found = reason(*nodes, pod("runs", node="full"), pod("waits"))
    assert found.message.startswith(
        "no node for pod ml/waits: "
        "full: lacks the 1 GPU that the pod asks for (0 free); "
        "sick: not ready; "
        "small: lacks the 1 CPU core that the pod asks for (0.5 free) and lacks the 1 GPU that the pod asks for (0 "
        "free); "
        "tainted: taint not tolerated (dedicated=infra). Free in all: 4 of 5 GPUs"
    )
    counted = reason(*nodes, pod("runs", node="full"), pod("waits"), config=replace(BY_NODE, detailed_fit_errors=False))
    assert "full: " not in counted.message
    assert counted.code == found.code
    assert counted.facts == replace(found.facts, listed="") if found.facts else False


def test_a_selector_that_does_not_hold() -> None:
    wants = Shape(ONE_GPU.request, node_selector=(("disk", "fast"),))
    nodes = [Node("fast", labels={"disk": "fast"}, allocatable=ROOM | {"gpu": 0.0}), Node("slow", allocatable=ROOM)]
    assert "slow: node selector or node affinity not matched" in reason(*nodes, pod("waits", wants)).message
    either = Shape(ONE_GPU.request, node_affinity=((), (Requirement("disk", "In", ("fast",)),)))
    message = reason(*nodes, pod("waits", either)).message
    assert "fast: lacks the 1 GPU" in message
    assert "slow: node selector or node affinity not matched" in message


def test_a_node_that_holds_more_than_it_has() -> None:
    nodes = [Node("over", allocatable=ROOM | {"gpu": 1.0, "memory": 10.0}), Node("other", allocatable={"gpu": 1.0})]
    heavy = pod("heavy", Shape((("memory", 20.0), ("pods", 1.0))), "over")
    assert "over: its pods hold more memory than it has" in reason(*nodes, heavy, pod("waits")).message


def test_what_only_the_number_of_nodes_is_known_of() -> None:
    """Ports and devices are judged pod by pod in the solver; where one verdict is left, it is that of all others."""
    port = Shape((("cpu", 1000.0), ("pods", 1.0)), host_ports=(HostPort(80),))
    nodes = [Node(name, allocatable=ROOM) for name in ("a", "b")]
    running = [pod(f"on-{name}", port, name) for name in ("a", "b")]
    assert "a: host port taken; b: host port taken" in reason(*nodes, *running, pod("waits", port)).message


def test_parts_of_gpus() -> None:
    labels = {"nvidia.com/gpu.memory": "81920"}
    nodes = [Node(name, labels=labels, allocatable=ROOM | {"gpu": 1.0}) for name in ("a", "b")]
    half, most = (Shape((("cpu", 1.0), ("pods", 1.0)), share=GpuShare(1, part)) for part in (0.5, 0.75))
    held = [pod(f"on-{name}", half, name, (name,)) for name in ("a", "b")]
    message = reason(*nodes, *held, pod("waits", most)).message
    assert "a: lacks a GPU with 0.75 free; b: lacks a GPU with 0.75 free" in message


def test_where_no_node_refuses_it_any_more_the_message_is_the_usual_one() -> None:
    """Two pods of a gang of three have room: each fits alone, and the third finds none after them."""
    group = PodGroup("ml", "g", queue="q", min_member=3)
    gang = [pod(f"p{i}", Shape((("gpu", 1.0), ("pods", 1.0)))) for i in range(3)]
    objects = [Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN), group, Node("a", allocatable=ROOM | {"gpu": 2.0}), *gang]
    texts = []
    for config in (BY_NODE, Config(actions=("allocate",))):
        found = run_cycle(Cluster.of(objects), config, 0).groups["ml/g"].reason
        assert found is not None
        texts.append(found.message)
    assert texts[0] == texts[1]


def test_the_list_is_cut_with_how_many_are_left_out() -> None:
    nodes = [Node(f"node-{i:04}", allocatable=ROOM | {"gpu": 0.0}) for i in range(1000)]
    nodes.append(Node("z", allocatable={"gpu": 1.0}))
    message = reason(*nodes, pod("waits")).message
    assert len(message.encode()) < LIST_MAX + 1000
    shown = message.count("lacks the 1 GPU")
    assert 100 < shown < 1000
    assert f"and {1001 - shown} more of 1001 nodes that refuse it" in message


@pytest.mark.parametrize("length", [1, LIST_MAX - 6, LIST_MAX - 5, LIST_MAX, 2 * LIST_MAX])
def test_no_text_makes_the_list_longer(length: int) -> None:
    text = listed(iter([("a", "x" * length), ("b", "y")]), 2)
    assert len(text) <= LIST_MAX + 60
    assert text.endswith(("b: y", "nodes that refuse it"))
