"""A small decided cluster, made by hand."""

from __future__ import annotations

import math

from kai_sched.model.objects import Node, Phase, Pod, PodGroup, Queue, Shape, Share
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind
from kai_sched.plan.reasons import Reason
from kai_sched.plan.result import CycleResult, GroupState, NodeState, PodState, QueueState

INF = math.inf
OURS = "kai-scheduler"
LONG_NAME = "a-name-that-is-much-longer-than-the-line-is-wide-and-goes-on-and-on"
WHY = Reason(
    "PodSchedulingErrors", "no node for pod ml/large-0: 1 of 1 nodes lack the 8 GPUs it asks for (most free on one: 6)"
)


def queue(name: str, parent: str, depth: int, gpus: tuple[float, float, float, float]) -> QueueState:
    quota, fair, allocated, requested = gpus
    return QueueState(
        name,
        parent,
        depth,
        100,
        (INF, INF, quota),
        (INF, INF, INF),
        (4000.0, 8e9, fair),
        (4000.0, 8e9, allocated),
        (0.0, 0.0, 0.0),
        (6000.0, 12e9, requested),
    )


def sample() -> tuple[Cluster, CycleResult]:
    """One node with 8 GPUs, two queues; one group is bound, one waits, one has failed."""
    share = Share(-1, -1, 2)
    cluster = Cluster.of(
        [
            Node("node-1"),
            Queue("dep", cpu=share, memory=share, gpu=share),
            Queue("team-a", parent="dep", cpu=share, memory=share, gpu=share),
            PodGroup("ml", "small", queue="team-a"),
            PodGroup("ml", "large", queue="team-a"),
            Pod("ml", "small-0", Shape(), group="small", scheduler=OURS, gpu_groups=("g1",)),
            Pod("ml", "large-0", Shape(), group="large", scheduler=OURS),
            Pod("ml", "broken-0", Shape(), group="broken", node="node-1", phase=Phase.FAILED),
        ]
    )
    result = CycleResult(
        (Bind("ml/small-0", "", "node-1"),),
        (),
        {"ml/large-0": PodState("Pending"), "ml/small-0": PodState("Binding", "node-1")},
        {
            "ml/large": GroupState("ml/large", "team-a", 50, True, 1, {"Pending": 1}, {}, WHY),
            "ml/small": GroupState("ml/small", "team-a", 50, True, 1, {"Binding": 1}, {"node-1": 1}, None),
        },
        (queue("dep", "", 0, (INF, 8, 2, 10)), queue("team-a", "dep", 1, (1, 16 / 3, 2, 10))),
        {"node-1": NodeState({"gpu": 8.0}, {"gpu": 6.0}, {"gpu": 0.0})},
        0.0,
    )
    return cluster, result
