"""Who holds each GPU at the end of a cycle, node by node, in a compact form that a page can draw.

Which of its GPUs a pod got is known of parts only, so the GPUs of a node are in an order of their own: those that are
shared, those that pods have as a whole, those of pods that the scheduler does not know, free ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.model.config import Config, in_pool
from kai_sched.model.objects import Node
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult, NodeState
from kai_sched.report.claims import claimed_devices
from kai_sched.report.devices import part_of, shared_devices
from kai_sched.report.text import plain

FREE, OTHERS = -1, -2
# A GPU whose pod is leaving: LEAVING - (the place of its workload).
LEAVING = -3
_LEAVES = frozenset({"Releasing", "StuckInReleasing"})


@dataclass(frozen=True, slots=True)
class MapNode:
    """A node with GPUs.

    ``state`` says why it accepts no pods, "" where it does. Each of ``gpus`` is the place of a workload in the map,
    FREE, OTHERS, ``LEAVING - place``, or for a shared GPU a list of places and the parts that they hold, in turn.
    """

    name: str
    state: str
    gpus: tuple[int | tuple[float, ...], ...]


@dataclass(slots=True)
class NodeMap:
    """All nodes with GPUs.

    Attributes
    ----------
    queues
        Names of the leaf queues in the order of the queue tree; then those of holders that are no leaf queue.
    holders
        (workload, place of its queue) of those that hold GPUs.
    nodes
        By name.
    without
        How many nodes have no GPUs.
    """

    queues: list[str] = field(default_factory=list)
    holders: list[tuple[Workload, int]] = field(default_factory=list)
    nodes: list[MapNode] = field(default_factory=list)
    without: int = 0

    def data(self) -> dict[str, Any]:
        """As plain data, names with what is hidden in them escaped."""
        return {
            "queues": [plain(name) for name in self.queues],
            "workloads": [[plain(f"{work.namespace}/{work.name}"), queue] for work, queue in self.holders],
            "nodes": [[plain(each.name), plain(each.state), each.gpus] for each in self.nodes],
        }


class _Holders:
    """The workloads that hold GPUs, numbered as they are met."""

    def __init__(self, cluster: Cluster, workloads: Workloads, found: NodeMap) -> None:
        self._cluster = cluster
        self._workloads = workloads
        self._found = found
        self._places: dict[str, int] = {}
        self._queues = {name: place for place, name in enumerate(found.queues)}

    def place(self, pod_key: str) -> int:
        """The place of the workload of a pod."""
        group = self._workloads.pods.get(pod_key, "")
        place = self._places.get(group)
        if place is None:
            place = self._places[group] = len(self._found.holders)
            self._found.holders.append((self._workloads.of(group), self._queue(group, pod_key)))
        return place

    def _queue(self, group: str, pod_key: str) -> int:
        known = self._cluster.pod_groups.get(group)
        name = known.queue if known is not None else self._cluster.pods[pod_key].queue
        if name not in self._queues:
            self._queues[name] = len(self._found.queues)
            self._found.queues.append(name)
        return self._queues[name]


def node_map(cluster: Cluster, result: CycleResult, config: Config, workloads: Workloads) -> NodeMap:
    """The map of a cycle."""
    parents = {queue.parent for queue in result.queues}
    found = NodeMap(queues=[queue.name for queue in result.queues if queue.name not in parents])
    holders = _Holders(cluster, workloads, found)
    shared = _shared(cluster, result, holders)
    whole = _whole(cluster, result, holders)
    for name, node in sorted(cluster.nodes.items()):
        state = result.nodes.get(name)
        count = round(state.allocatable.get("gpu", 0.0)) if state is not None else 0
        if state is None or not count:
            found.without += in_pool(node.labels, config)
            continue
        known = [*shared.get(name, ()), *sorted(whole.get(name, ()), key=lambda each: (each < 0, abs(each)))]
        found.nodes.append(MapNode(name, _state(node), _gpus(count, known, state)))
    return found


def _gpus(count: int, known: list[int | tuple[float, ...]], state: NodeState) -> tuple[int | tuple[float, ...], ...]:
    """What is known, then what others hold, then what is free."""
    free = round(state.idle.get("gpu", 0.0))
    others = max(0, count - len(known) - free)
    return tuple([*known, *[OTHERS] * others, *[FREE] * count][: max(count, len(known))])


def _shared(cluster: Cluster, result: CycleResult, holders: _Holders) -> dict[str, list[tuple[float, ...]]]:
    """By node: for each shared GPU the holders and their parts."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for device in shared_devices(cluster, result):
        parts: list[float] = []
        for sharer in device.sharers:
            parts += (holders.place(sharer.pod), round(part_of(sharer.share, device.memory_mib), 3))
        found.setdefault(device.node, []).append(tuple(parts))
    return found


def _whole(cluster: Cluster, result: CycleResult, holders: _Holders) -> dict[str, list[int]]:
    """By node: a number for each GPU that a pod has as a whole."""
    found: dict[str, list[int]] = {}
    for key, node, count, leaves in _takers(cluster, result):
        place = holders.place(key)
        found.setdefault(node, []).extend([LEAVING - place if leaves else place] * count)
    return found


def _takers(cluster: Cluster, result: CycleResult) -> Iterator[tuple[str, str, int, bool]]:
    """(pod, node, whole GPUs, whether it is leaving): of the requests of pods, then of their claims."""
    for key, state in result.pods.items():
        pod = cluster.pods.get(key)
        if pod is None or state.status in ("Pending", "Gated", "Succeeded"):
            continue
        moves = state.status == "Pipelined"  # such a pod may still be on the node that it leaves
        node = pod.node if moves else state.node
        count = round(dict(pod.shape.request).get("gpu", 0.0))
        if node and count and pod.shape.share is None:
            yield key, node, count, moves or state.status in _LEAVES
    for device in claimed_devices(cluster, result):
        pods: Iterable[str] = device.pods
        if device.gpus and device.node and (first := next(iter(pods), "")):
            yield first, device.node, device.gpus, all(status in _LEAVES for status in device.pods.values())


def _state(node: Node) -> str:
    """Why a node accepts no pods."""
    return "cordoned" if node.unschedulable else ", ".join(node.bad_conditions)
