"""GPU devices that pods may share: the rows of the ledger, and which pods have a share of which device (semantics 8).

A shared device is known by the name of its group, which its pods and its reservation pod carry as a label. Each node
gets a row for each of its devices: first the groups that are in use there, by name, then devices without a name. A pod
on a node that does not say which devices it shares has some of its own, which nobody joins: the group that a pod would
get is another device.

Cost: one step for each pod with a share that is on a node. A cluster without such pods has no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kai_sched.api import names
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.holdings import Holdings
from kai_sched.model.config import Config
from kai_sched.model.gpu_memory import memory_price, usable_memory_mib
from kai_sched.model.objects import GpuShare, Node, Pod
from kai_sched.model.resources import GPU
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.gpu_kinds import ROUNDING, UNKNOWN_MEMORY
from kai_sched.snapshot.tables import Devices, Flags, Ints, Longs

PART_UNIT = 2.0**20  # parts of GPUs are multiples of 1 / PART_UNIT, so that sums of them are exact


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The ledger of devices, and what its rows stand for.

    Attributes
    ----------
    table
        The rows of the devices, by node.
    share_ptr, device
        (T + 1,) and (X,): ``Tasks.share_ptr`` and ``Tasks.device``.
    groups
        (G,) the name of the group of each device; "" for devices that are not in use.
    """

    table: Devices
    share_ptr: Ints
    device: Ints
    groups: list[str]


def device_memory(node: Node, config: Config) -> int:
    """The memory of one GPU device of the node in MiB, less what is kept for the driver (semantics 0.3).

    UNKNOWN_MEMORY where the label is missing or no number above 0.
    """
    return usable_memory_mib(node, config) or UNKNOWN_MEMORY


def device_memories(nodes: Sequence[Node], cache: Cache, config: Config) -> Longs:
    """(N,) ``device_memory`` of the nodes, kept until a node changes."""
    return cache.column("memory", lambda: _memories(nodes, config))


def _memories(nodes: Sequence[Node], config: Config) -> Longs:
    """(N,) ``device_memory`` of the nodes, in MiB; computed once for each value of the label.

    All nodes with one kind of GPU have the same label, and a cluster has few kinds.
    """
    labels = [node.labels.get(names.GPU_MEMORY_LABEL) for node in nodes]
    examples = dict(zip(labels, nodes, strict=True))
    memory = {label: device_memory(node, config) for label, node in examples.items()}
    return np.array([memory[label] for label in labels], np.int64)


def part_of(share: GpuShare, sizes: Sequence[int]) -> float:
    """The part of one device that a pod with this share takes at least, a multiple of 1 / PART_UNIT, rounded down.

    ``sizes`` has the memory of the devices of all nodes, in MiB. A portion takes whole MiB, rounded down
    (``kernels.devices.size_of``), so that there may be room for more pods than portions add up to. GPU memory is its
    part of the largest known device; 0 where no node says how large it is.
    """
    known = [size for size in sizes if size != UNKNOWN_MEMORY or not share.memory_mib]
    part = min((size_of(share, size) / size for size in known), default=0.0)
    return int(part * PART_UNIT) / PART_UNIT


def size_of(share: GpuShare, memory: int) -> int:
    """What the share takes of each device with so much memory, in MiB, as ``kernels.devices.size_of`` has it."""
    return share.memory_mib or max(1, int(share.portion * memory + ROUNDING))


def memory_prices(share: GpuShare, smallest: int, largest: int) -> tuple[float, float]:
    """The most and the least GPUs that a request for GPU memory may cost (semantics 2.2, 3.4): by the smallest and by
    the largest device of all nodes, each rounded up to a hundredth; 0 where no node says how large it is."""
    return memory_price(share, smallest), memory_price(share, largest)


def lower_devices(
    nodes: Sequence[Node],
    pods: npt.NDArray[np.object_],
    node: Ints,
    holdings: Holdings,
    shares: Ints,
) -> DeviceRows:
    """The devices of the nodes, and the shares of the tasks.

    Parameters
    ----------
    nodes
        (N,) the nodes in canonical order.
    pods
        (T,) the pod of each task.
    node
        (T,) the node of the task, or NULL.
    holdings
        What the pods on nodes have.
    shares
        (T,) of how many devices the task has a share.
    """
    share_ptr = np.zeros(shares.size + 1, np.int32)
    np.cumsum(shares, out=share_ptr[1:])
    device = np.full(int(share_ptr[-1]), NULL, np.int32)
    if not device.size:
        none = Devices(np.zeros(len(nodes) + 1, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.uint8))
        return DeviceRows(none, share_ptr, device, [])
    counts, hosts, starts = shares.tolist(), node.tolist(), share_ptr.tolist()
    holders = {
        t: groups if len(groups) == counts[t] else _with_unnamed(pods[t], groups, counts[t])
        for t, groups in holdings.groups.items()
        if counts[t]
    }
    rows = {name: n for n, name in enumerate(each.name for each in nodes)}
    used: dict[int, set[str]] = {}
    for name, group in holdings.reserved:
        if name in rows:
            used.setdefault(rows[name], set()).add(group)
    for t, groups in holders.items():
        used.setdefault(hosts[t], set()).update(groups)
    in_use = {n: sorted(groups, key=_named_first) for n, groups in used.items()}
    # Besides the devices in use at the start there are as many as the node has: while the former are being left, nobody
    # holds yet what is promised of the latter, and a device that is free now must not be taken for one of them.
    lengths = [int(each.allocatable.get(GPU, 0.0)) + len(in_use.get(n, ())) for n, each in enumerate(nodes)]
    ptr = np.zeros(len(nodes) + 1, np.int32)
    np.cumsum(lengths, out=ptr[1:])
    groups_of_rows = [""] * int(ptr[-1])
    held: Flags = np.zeros(int(ptr[-1]), np.uint8)
    closed: Flags = np.zeros(int(ptr[-1]), np.uint8)
    row_of: dict[tuple[int, str], int] = {}
    for n, listed in in_use.items():
        for place, group in enumerate(listed):
            row = row_of[n, group] = int(ptr[n]) + place
            closed[row] = group[0] == UNNAMED
            groups_of_rows[row] = "" if closed[row] else group
            held[row] = (nodes[n].name, group) in holdings.reserved
    places = [starts[t] + k for t, groups in holders.items() for k in range(len(groups))]
    device[places] = [row_of[hosts[t], group] for t, groups in holders.items() for group in groups]
    return DeviceRows(Devices(ptr, held, closed), share_ptr, device, groups_of_rows)


UNNAMED = "\0"  # begins the name of a device of which no group is known


def _named_first(group: str) -> tuple[bool, str]:
    return group[0] == UNNAMED, group


def _with_unnamed(pod: Pod, groups: tuple[str, ...], count: int) -> tuple[str, ...]:
    """These groups, and names for further devices that the pod shares, as many as it asks for."""
    return *groups, *(f"{UNNAMED}{pod.key} {place:04}" for place in range(len(groups), count))
