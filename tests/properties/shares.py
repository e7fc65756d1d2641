"""Random pods that share GPU devices or ask for MIG devices, and what of their nodes they take.

Portions, memory and devices are such that prices are multiples of a quarter, so that sums of them are exact. What
``odd`` shares take of a device is no quarter all the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from kai_sched.model import objects as o

MEMORY_LABEL = "nvidia.com/gpu.memory"
MIG_SMALL, MIG_LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
RESERVATION = "kai-resource-reservation"
GIB = 1024
MEMORIES = (16 * GIB, 32 * GIB, 32 * GIB, 32 * GIB * 2**20)
ODD_MEMORIES = (10_000, 20_000)
PORTIONS, ODD_PORTIONS = (0.25, 0.5, 0.5, 0.75, 1.0), (0.2451, 0.2549, 0.25, 0.4951, 0.5049, 0.7451, 0.7549, 0.995)
AMOUNTS, ODD_AMOUNTS = (8 * GIB, 16 * GIB, 24 * GIB), (4_950, 5_000, 9_901, 10_000)


@dataclass(frozen=True)
class Sharing:
    """What pods ask for: parts of GPUs, or, on some nodes, MIG devices, too; ``odd``: parts that are no quarters."""

    mig: bool = False
    odd: bool = False


def device_memory(node: o.Node) -> int:
    """The memory of a device in MiB, or parts in a million."""
    value = int(node.labels.get(MEMORY_LABEL, "1000000"))
    return value // 2**20 if value >= 2**20 else value


def size_on(share: o.GpuShare, node: o.Node) -> int:
    """What the share takes of each of its devices."""
    return share.memory_mib or max(1, int(share.portion * device_memory(node) + 1e-6))


def label_node(rng: random.Random, node: o.Node, sharing: Sharing) -> o.Node:
    """The node with the memory of its devices on a label, mostly; some with MIG devices."""
    labels, capacity = dict(node.labels), dict(node.allocatable)
    if rng.random() < 0.9:
        labels[MEMORY_LABEL] = str(rng.choice(ODD_MEMORIES if sharing.odd else MEMORIES))
    if rng.random() < 0.15:
        capacity["pods"] = 6.0
    if sharing.mig and rng.random() < 0.4:
        capacity[MIG_SMALL], capacity[MIG_LARGE] = float(rng.choice((1, 2, 4))), float(rng.choice((0, 1, 2)))
        if rng.random() < 0.7:
            labels["nvidia.com/mig.strategy"] = rng.choice(("single", "mixed", "mixed", "none"))
    return replace(node, labels=labels, allocatable={name: amount for name, amount in capacity.items() if amount})


def share_of(rng: random.Random, shape: o.Shape, sharing: Sharing) -> o.Shape:
    """The shape with a share of devices, or with MIG devices, instead of its GPUs."""
    request = tuple((name, amount) for name, amount in shape.request if name != "gpu")
    if sharing.mig and rng.random() < 0.4:
        if rng.random() < 0.15:
            return replace(shape, request=request, legacy_mig=True)
        asked = (rng.choice((MIG_SMALL, MIG_SMALL, MIG_LARGE)), float(rng.choice((1, 1, 2))))
        return replace(shape, request=tuple(sorted((*request, asked))))
    devices = rng.choice((1, 1, 1, 1, 2, 3))
    if rng.random() < 0.3:
        memory = rng.choice(ODD_AMOUNTS if sharing.odd else AMOUNTS)
        return replace(shape, request=request, share=o.GpuShare(devices, 0.0, memory))
    portion = rng.choice(ODD_PORTIONS if sharing.odd else PORTIONS)
    return replace(shape, request=request, share=o.GpuShare(devices, portion))


@dataclass
class Rooms:
    """What is free on each node while a cluster is filled; ``used``: the memory that is held of each device in use."""

    nodes: list[o.Node]
    free: dict[tuple[str, str], float] = field(default_factory=dict)
    used: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = {(node.name, name): amount for node in self.nodes for name, amount in node.allocatable.items()}
        self.used = {node.name: {} for node in self.nodes}

    def place(self, rng: random.Random, pod: o.Pod) -> tuple[str, tuple[str, ...]] | None:
        """A node with room for the pod, and the groups of its devices there; None where there is none."""
        found = [(node, groups) for node in self.nodes if (groups := self._fits(rng, pod, node)) is not None]
        if not found:
            return None
        node, groups = rng.choice(found)
        self.put(pod, node, groups)
        return node.name, groups

    def put(self, pod: o.Pod, node: o.Node, groups: tuple[str, ...]) -> None:
        """Let the pod take what it asks for."""
        for name, amount in pod.shape.request:
            self.free[node.name, name] = self.free.get((node.name, name), 0.0) - amount
        for group in groups:
            if group not in self.used[node.name]:
                self.free[node.name, "gpu"] -= 1
                self.free[node.name, "pods"] -= 1
            assert pod.shape.share
            held = self.used[node.name].get(group, 0)
            self.used[node.name][group] = held + size_on(pod.shape.share, node)

    def _fits(self, rng: random.Random, pod: o.Pod, node: o.Node) -> tuple[str, ...] | None:
        """The groups of devices that it could have on the node, () for a pod without a share."""
        share, name = pod.shape.share, node.name
        if any(amount > self.free.get((name, asked), 0.0) for asked, amount in pod.shape.request):
            return None
        if share is None:
            return None if pod.shape.legacy_mig and MIG_SMALL in node.allocatable else ()
        wanted, memory = size_on(share, node), device_memory(node)
        known = share.portion > 0 or MEMORY_LABEL in node.labels
        if wanted > memory or not known or MIG_SMALL in node.allocatable:
            return None
        joins = [group for group, held in self.used[name].items() if held + wanted <= memory]
        joins = rng.sample(joins, min(len(joins), rng.randint(0, share.devices)))
        opens = share.devices - len(joins)
        room = min(self.free.get((name, "gpu"), 0.0), self.free.get((name, "pods"), 0.0) - 1)
        return (*joins, *(f"{name}-{pod.name}-{k}" for k in range(opens))) if opens <= room else None

    def reservations(self, rng: random.Random) -> list[o.Pod]:
        """The pods that reserve devices in use: all of them, some, or none yet."""
        chance = rng.choice((0.0, 0.5, 1.0, 1.0))
        groups = [(name, group) for name, used in self.used.items() for group in used]
        return [reservation(name, group) for name, group in groups if rng.random() < chance]


def reservation(node: str, group: str) -> o.Pod:
    """The pod that reserves a device for those that share it."""
    shape = o.Shape((("gpu", 1.0), ("pods", 1.0)))
    return o.Pod(
        RESERVATION,
        f"reserves-{group}",
        shape,
        f"uid-{group}",
        labels={"app": RESERVATION},
        node=node,
        phase=o.Phase.RUNNING,
        gpu_groups=(group,),
    )
