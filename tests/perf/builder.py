"""Objects of one cluster of the benchmark, made one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kai_sched.model.objects import Node, Object, Phase, Pod, PodGroup, PriorityClass, Queue, Shape, Share

GPUS_PER_NODE = 8
HOSTNAME = "kubernetes.io/hostname"
UNLIMITED = Share(-1.0, -1.0, 1.0)
NOW_NS = 1_767_268_800_000_000_000
AGE_NS = 60_000_000_000


class Builder:
    """Objects of one cluster. Equal pods share one shape, as they do when they are read from an API server."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.objects: list[Object] = [PriorityClass("train", 50)]
        self._shapes: dict[int, Shape] = {}

    def nodes(self, count: int, racks: int = 0, named: bool = False) -> None:
        plain = {"nvidia.com/gpu.count": str(GPUS_PER_NODE), "nvidia.com/gpu.memory": "81920"}
        allocatable = {"cpu": 128_000.0, "memory": 1e12, "gpu": float(GPUS_PER_NODE), "pods": 110.0}
        for n in range(count):
            labels = plain | {"rack": f"{self.prefix}rack-{n % racks}"} if racks else plain
            labels = labels | {HOSTNAME: self.node(n)} if named else labels
            self.objects.append(Node(self.node(n), f"{self.prefix}node-uid-{n:05}", labels, allocatable))

    def node(self, n: int) -> str:
        return f"{self.prefix}node-{n:05}"

    def queue(self, name: str, parent: str, gpus: float, age: int, weight: float = 1.0) -> str:
        gpu = Share(gpus, -1.0, weight)
        full = f"{self.prefix}{name}"
        above = f"{self.prefix}{parent}" if parent else ""
        created = NOW_NS - AGE_NS * 1000 + age * AGE_NS
        self.objects.append(Queue(full, f"{full}-uid", created, above, cpu=UNLIMITED, memory=UNLIMITED, gpu=gpu))
        return full

    def tree(self, leaves: int, departments: int, total: float) -> list[str]:
        """Leaves under departments, leaf i under department i mod departments, all shares equal."""
        for d in range(departments):
            self.queue(f"dep-{d:03}", "", total / departments, d)
        return [
            self.queue(f"queue-{q:03}", f"dep-{q % departments:03}", total / leaves, departments + q)
            for q in range(leaves)
        ]

    def shape(self, gpus: int) -> Shape:
        if gpus not in self._shapes:
            self._shapes[gpus] = Shape(request=(("cpu", 1000.0), ("gpu", float(gpus)), ("memory", 1e9), ("pods", 1.0)))
        return self._shapes[gpus]

    def job(
        self,
        j: int,
        queue: str,
        gpus: int = 1,
        pods: int = 1,
        node: str = "",
        priority: str = "train",
        preemptible: bool | None = None,
        shape: Shape | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        name = f"{self.prefix}job-{j:06}"
        created = NOW_NS - AGE_NS + j * 1000
        self.objects.append(
            PodGroup(
                "ml",
                name,
                f"{name}-uid",
                created,
                queue,
                priority,
                preemptible,
                min_member=pods,
                last_start_ns=created if node else 0,
            )
        )
        phase = Phase.RUNNING if node else Phase.PENDING
        for p in range(pods):
            pod = Pod(
                "ml",
                f"{name}-{p}",
                shape or self.shape(gpus),
                f"{name}-{p}-uid",
                created,
                labels or {"app": "train"},
                name,
                "",
                queue,
            )
            self.objects.append(replace(pod, scheduler="kai-scheduler", priority_class="train", node=node, phase=phase))
