"""Pages of two clusters: a small one with a case of everything, names that are meant to run script among them, and one
of 1,000 nodes and 20,000 pods.
"""

from __future__ import annotations

from kai_sched.answers.overview import overview
from kai_sched.answers.workloads import workloads_of
from kai_sched.cycle.run import run_cycle
from kai_sched.model.config import Config
from kai_sched.model.objects import GpuShare, Node, Object, Phase, Pod, PodGroup, PriorityClass, Queue, Shape, Share
from kai_sched.model.store import Cluster
from kai_sched.report.page.content import PageInput
from kai_sched.report.page.node_map import node_map

NOW_NS = 1_767_268_800_000_000_000
HOUR_NS = 3_600_000_000_000
CONFIG = Config()
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e"
OPEN = Share(-1.0, -1.0, 1.0)
_GPUS = {gpus: Shape((("cpu", 1000.0), ("gpu", float(gpus)), ("memory", 1e9), ("pods", 1.0))) for gpus in (1, 2, 4, 8)}
_HALF = Shape((("cpu", 1000.0), ("memory", 1e9), ("pods", 1.0)), share=GpuShare(1, 0.5))


def node(name: str, unschedulable: bool = False, gpus: int = 8) -> Node:
    """A node with so many GPUs."""
    room = {"cpu": 128_000.0, "memory": 1e12, "gpu": float(gpus), "pods": 110.0}
    labels = {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.memory": "81920"}
    return Node(name, f"{name}-uid", labels, room, unschedulable=unschedulable)


def queue(name: str, parent: str, quota: float) -> Queue:
    """A queue without limits."""
    return Queue(
        name, f"{name}-uid", NOW_NS - 100 * HOUR_NS, parent, cpu=OPEN, memory=OPEN, gpu=Share(quota, -1.0, 1.0)
    )


def job(name: str, in_queue: str, pods: int, shape: Shape, node_name: str = "", **fields: object) -> list[Object]:
    """A group of equal pods; on the node, or waiting."""
    group = PodGroup("ml", name, f"{name}-uid", NOW_NS - HOUR_NS, in_queue, "train", True, pods)
    found: list[Object] = [group]
    for number in range(pods):
        phase = Phase.RUNNING if node_name else Phase.PENDING
        pod = Pod(
            "ml",
            f"{name}-{number}",
            shape,
            f"{name}-{number}-uid",
            NOW_NS - HOUR_NS,
            group=name,
            queue=in_queue,
            scheduler=CONFIG.scheduler_name,
            node=node_name,
            phase=phase,
            **fields,  # type: ignore[arg-type]
        )
        found.append(pod)
    return found


def small_objects() -> list[Object]:
    """Three nodes with GPUs, one of them cordoned, and one without; shared, whole, leaving and free GPUs."""
    found: list[Object] = [
        PriorityClass("train", 50),
        node("node-1"),
        node("node-2"),
        node("node-3", unschedulable=True),
        node("node-cpu", gpus=0),
        queue("research", "", 8),
        queue("nlp", "research", 4),
        queue(HOSTILE, "research", 4),
    ]
    found += job("llama", "nlp", 1, _GPUS[4], "node-1")
    found += job("half-a", "nlp", 1, _HALF, "node-1", gpu_groups=("g1",))
    found += job("half-b", HOSTILE, 1, _HALF, "node-1", gpu_groups=("g1",))
    found += job("leaving", HOSTILE, 1, _GPUS[2], "node-1", deleted_ns=NOW_NS - 1)
    found += job(f"run{HOSTILE}", HOSTILE, 1, _GPUS[8], "node-2")
    found += job(f"wait{HOSTILE}", "nlp", 4, _GPUS[8])
    found += job("starts", "nlp", 1, _GPUS[1])
    return found


def large_objects(nodes: int = 1000, pods: int = 20_000) -> list[Object]:
    """Nodes that are full, as many single pods as it takes, and the rest of the pods waiting or without GPUs."""
    found: list[Object] = [PriorityClass("train", 50), queue("all", "", 8.0 * nodes)]
    queues = [queue(f"team-{number:02}", "all", 8.0 * nodes / 40) for number in range(40)]
    found += [*queues, *(node(f"ip-10-20-{number // 250}-{number % 250}.example.internal") for number in range(nodes))]
    names = [each.name for each in found if isinstance(each, Node)]
    running = min(pods * 3 // 4, 8 * nodes)
    cpu_only = Shape((("cpu", 1000.0), ("memory", 1e9), ("pods", 1.0)))
    for number in range(pods):
        in_queue = queues[number % len(queues)].name
        shape = _GPUS[1] if number < running or number >= pods * 9 // 10 else cpu_only
        at = names[number % nodes] if number < pods * 9 // 10 else ""
        found += job(f"training-experiment-{number:05}", in_queue, 1, shape, at)
    return found


def page_input(objects: list[Object], **more: object) -> PageInput:
    """The page of a cycle on these objects."""
    cluster = Cluster.of(objects)
    result = run_cycle(cluster, CONFIG, NOW_NS)
    return PageInput(
        overview(cluster, result, CONFIG, NOW_NS),
        node_map(cluster, result, CONFIG, workloads_of(cluster)),
        "as of noon",
        **more,  # type: ignore[arg-type]
    )
