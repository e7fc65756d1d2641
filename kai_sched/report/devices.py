"""Who shares which GPU at the end of a cycle: the pods on each device that is given away in parts, and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.api import names
from kai_sched.model.objects import GpuShare
from kai_sched.model.resources import gpu_memory_mib
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult, PodState


@dataclass(frozen=True, slots=True)
class Sharer:
    """A pod with a part of a device. ``status`` is as in PodState."""

    pod: str  # "namespace/name"
    status: str
    share: GpuShare


@dataclass(slots=True)
class SharedDevice:
    """A GPU that pods share. ``group`` is its name, "" where its only pod names none; ``memory_mib`` 0: not known."""

    node: str
    group: str
    memory_mib: int
    sharers: list[Sharer] = field(default_factory=list)

    @property
    def held(self) -> float:
        """The part of the device that its pods have, those that are leaving included; memory as its part, if known."""
        return sum(part_of(sharer.share, self.memory_mib) for sharer in self.sharers)


def part_of(share: GpuShare, memory_mib: int) -> float:
    """The part of one device with so much memory; 0 for memory of a device whose size is not known."""
    if share.memory_mib:
        return share.memory_mib / memory_mib if memory_mib else 0.0
    return share.portion


def shared_devices(
    cluster: Cluster, result: CycleResult, states: Mapping[str, PodState] | None = None
) -> list[SharedDevice]:
    """The devices by node, those of a node by the first of their pods.

    ``states`` are those of the result unless others are given. A pod that is pipelined has no device yet.
    """
    named = {effect.pod: effect.gpu_groups for effect in result.effects if isinstance(effect, Bind)}
    found: dict[tuple[str, str], SharedDevice] = {}
    for key, state in sorted((result.pods if states is None else states).items()):
        pod = cluster.pods.get(key)
        if pod is None or pod.shape.share is None or not state.node or state.status in ("Pipelined", "Succeeded"):
            continue
        share, groups = pod.shape.share, named.get(key) or pod.gpu_groups
        node = cluster.nodes.get(state.node)
        memory = gpu_memory_mib(node.labels.get(names.GPU_MEMORY_LABEL, "")) if node else 0
        own = [""] * (share.devices if not groups else 0)
        for place, group in enumerate((*groups, *own)):
            at = (state.node, group or f"{key}/{place}")
            device = found.setdefault(at, SharedDevice(state.node, group, memory))
            device.sharers.append(Sharer(key, state.status, share))
    return sorted(found.values(), key=lambda device: (device.node, device.sharers[0].pod, device.group))
