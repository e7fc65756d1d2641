"""The scheduler as a library: schedule a cluster that lives in memory. Run it with ``python examples/library.py``."""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched import Cluster, Config, CycleResult, run_cycle
from kai_sched.model.objects import Node, Object, Pod, PodGroup, PriorityClass, Queue, Shape, Share

GB = 1e9
NOON_NS = 1_767_268_800_000_000_000  # 2026-01-01T12:00:00Z
UNBOUNDED = Share(quota=-1, limit=-1, weight=1)


def objects() -> Iterator[Object]:
    """Two nodes with 8 GPUs each, one queue, a gang that fits, and one that does not."""
    for name in ("node-1", "node-2"):
        yield Node(name, allocatable={"cpu": 128_000.0, "memory": 1000 * GB, "gpu": 8.0, "pods": 110.0})
    yield Queue("team-a", cpu=UNBOUNDED, memory=UNBOUNDED, gpu=Share(quota=8, limit=-1, weight=1))
    yield PriorityClass("train", 50)
    yield from gang("small", pods=2, gpus=4, age=2)
    yield from gang("large", pods=3, gpus=8, age=1)


def gang(name: str, pods: int, gpus: int, age: int) -> Iterator[Object]:
    """A pod group that starts with all its pods or not at all. The older one is looked at first."""
    created_ns = NOON_NS - age * 1_000_000_000
    yield PodGroup("ml", name, created_ns=created_ns, queue="team-a", priority_class="train", min_member=pods)
    # Sorted by resource; millicores, bytes, devices; every pod takes one pod slot.
    shape = Shape(request=(("cpu", 8000.0), ("gpu", float(gpus)), ("memory", 64 * GB), ("pods", 1.0)))
    for number in range(pods):
        yield Pod("ml", f"{name}-{number}", shape, group=name, queue="team-a", scheduler="kai-scheduler")


def show(result: CycleResult) -> None:
    """Print what is to be done, and why the rest is not."""
    for effect in result.effects:
        print(f"{type(effect).__name__.lower()} {effect.pod} to {effect.node}")
    for group in result.groups.values():
        if group.reason is not None:
            print(f"{group.key} waits ({group.reason.code}): {group.reason.message}")


if __name__ == "__main__":
    show(run_cycle(Cluster.of(objects()), Config(), NOON_NS))
