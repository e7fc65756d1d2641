"""What the pods of each group and of each queue hold and request, for the statuses of both; which pods count.

A pod counts as in the books of the solver: it holds from when it has a node until its deletion begins; it requests what
it holds, and also while it waits, unless it has scheduling gates. Memory of GPUs is held as a part of them, and
requested as memory. GPUs of claims for devices count from when the claim is there, whether it is allocated or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kai_sched.api import names
from kai_sched.model.checks import DEFAULT_SET, pod_sets
from kai_sched.model.config import Config, in_pool
from kai_sched.model.gpu_memory import memory_price, usable_memory_mib
from kai_sched.model.objects import BindRequest, GpuShare, Node, Phase, Pod, PodGroup, PriorityClass, Shape
from kai_sched.model.priorities import default_priority, is_preemptible
from kai_sched.model.resources import GPU, PODS, mig_gpus, quantity_text
from kai_sched.model.store import Change, Cluster
from kai_sched.reconcile.status.claim_usage import CLASS_PREFIX, ClaimAmounts, ClaimUsage

Amounts = dict[str, float]  # by resource, in scheduler units
_LIVE = frozenset({Phase.PENDING, Phase.RUNNING})
SPARE_SHAPES = 1_000


@dataclass(slots=True)
class ShapeCounts:
    """How many pods of each shape (by ``id``) hold a node, and how many hold one or wait for one."""

    held: dict[int, int] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)

    def add(self, asked: int, held: int | None, count: int = 1) -> None:
        """Add ``count`` pods that ask for one shape and hold another, or none; a negative count removes pods."""
        _add(self.asked, asked, count)
        if held is not None:
            _add(self.held, held, count)


@dataclass(slots=True)
class GroupUsage:
    """The pods of one pod group. ``used`` counts those on nodes, leaving ones included, by sub-group."""

    queue: str
    preemptible: bool
    sets: frozenset[str]
    counts: ShapeCounts = field(default_factory=ShapeCounts)
    used: dict[str, int] = field(default_factory=dict)
    finished: bool = False


class QueueUsage:
    """The usage of the pod groups and queues of a node pool.

    ``groups`` are the pod groups by "namespace/name". ``binding`` is the node of each pod that has a live
    BindRequest. ``members`` are the pods by the group that they name, even if that PodGroup does not exist.
    """

    def __init__(self, cluster: Cluster, config: Config) -> None:
        self._config = config
        self._begin(cluster)

    def _begin(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._default = default_priority(cluster.priority_classes)
        self.groups: dict[str, GroupUsage] = {}
        self.members: dict[str, dict[str, None]] = {}
        self.binding = {
            request.pod_key: request.node
            for _, request in sorted(cluster.bind_requests.items(), reverse=True)  # of two for a pod the first counts
            if request.is_live and request.node in cluster.nodes
        }
        self._queues: dict[tuple[str, bool], ShapeCounts] = {}
        self._shapes: dict[int, Shape] = {}
        self._most_shapes = SPARE_SHAPES
        self._prices: dict[int, list[tuple[str, float]]] = {}
        # By the shape that is asked for, the memory of a device and what claims add: that shape, and what is counted.
        self._priced: dict[tuple[int, int, ClaimAmounts], tuple[Shape, Shape]] = {}
        self._claims = ClaimUsage(cluster)
        self._bare_classes: dict[str, bool] = {}
        for key, pod in cluster.pods.items():
            self._claims.note(pod)
            if pod.group:
                self.members.setdefault(pod.group_key, {})[key] = None
            else:
                self._count_bare(pod, 1)
        for key in cluster.pod_groups:
            self._count_group(key)

    def update(self, cluster: Cluster, changes: Iterable[Change]) -> Iterable[str] | None:
        """Go on to a later view that differs by these objects.

        Return the groups whose usage may have changed, including those that are gone; None if any may have.
        """
        changed = sorted(changes, key=lambda change: (change[0].__name__, change[1]))
        if any(self._matters_to_all(kind, key, cluster) for kind, key in changed):
            self._begin(cluster)
            return None
        before, self._cluster = self._cluster, cluster
        if self._claims.follow(cluster, changed):
            self._begin(cluster)
            return None
        touched = {key: None for kind, key in changed if kind is PodGroup}
        for key in (key for kind, key in changed if kind is Pod):
            if (pod := before.pods.get(key)) is not None:
                if pod.group:
                    touched[pod.group_key] = None
                    self.members.get(pod.group_key, {}).pop(key, None)
                else:
                    self._count_bare(pod, -1)
                self._claims.drop(pod)
            if (pod := cluster.pods.get(key)) is not None:
                self._claims.note(pod)
                if pod.group:
                    touched[pod.group_key] = None
                    self.members.setdefault(pod.group_key, {})[key] = None
                else:
                    self._count_bare(pod, 1)
        for pod in self._claims.differing(before, changed):
            if pod.group:
                touched[pod.group_key] = None
                self._claims.note(pod)
            else:
                self._count_bare(pod, -1)
                self._claims.note(pod)
                self._count_bare(pod, 1)
        for key in touched:
            self._count_group(key)
            if not self.members.get(key, True):
                del self.members[key]
        self._forget_shapes()
        return touched

    def _matters_to_all(self, kind: type, key: str, cluster: Cluster) -> bool:
        """Whether the change may affect how any pod counts."""
        if kind is Node:
            before, after = self._cluster.nodes.get(key), cluster.nodes.get(key)
            if before is None or after is None:
                return before is not after
            return usable_memory_mib(before, self._config) != usable_memory_mib(after, self._config)
        return kind in (PriorityClass, BindRequest)

    def _count_group(self, key: str) -> None:
        """Count the pods of the group again."""
        before = self.groups.pop(key, None)
        if before is not None:
            _join(self._counts(before.queue, before.preemptible), before.counts, -1)
        group = self._cluster.pod_groups.get(key)
        if group is None or not in_pool(group.labels, self._config):
            return
        preemptible = is_preemptible(group, self._cluster.priority_classes, self._default)
        usage = self.groups[key] = GroupUsage(group.queue, preemptible, pod_sets(group))
        pods = self._cluster.pods
        for member in self.members.get(key, ()):
            self._add(pods[member], usage, usage.counts, 1)
        _join(self._counts(usage.queue, usage.preemptible), usage.counts, 1)

    def _count_bare(self, pod: Pod, count: int) -> None:
        """A pod without a group was added (1) or removed (-1)."""
        if pod.scheduler != self._config.scheduler_name or not in_pool(pod.labels, self._config):
            return
        name = pod.priority_class
        if name not in self._bare_classes:
            alone = PodGroup("", "", priority_class=name)
            self._bare_classes[name] = is_preemptible(alone, self._cluster.priority_classes, self._default)
        self._add(pod, None, self._counts(pod.queue or names.DEFAULT_QUEUE, self._bare_classes[name]), count)

    def _add(self, pod: Pod, group: GroupUsage | None, counts: ShapeCounts, count: int) -> None:
        if group is not None and (pod.sub_group or DEFAULT_SET) not in group.sets:
            return
        if pod.phase not in _LIVE:
            if group is not None and pod.phase == Phase.SUCCEEDED:
                group.finished = True
            return
        node = pod.node or (self.binding.get(pod.key, "") if self.binding and not pod.deleted_ns else "")
        if node:
            if group is not None:
                name = pod.sub_group or DEFAULT_SET
                group.used[name] = group.used.get(name, 0) + 1
            if node not in self._cluster.nodes:
                return
        elif pod.gates:
            return
        if pod.deleted_ns:
            return
        claimed = self._claims.amounts(pod)
        asked = self._counted(pod.shape, 0, claimed)
        held = asked
        if node and pod.shape.share is not None and pod.shape.share.memory_mib:
            held = self._counted(pod.shape, usable_memory_mib(self._cluster.nodes[node], self._config), claimed)
        for shape in (asked, held):
            self._shapes[id(shape)] = shape
        counts.add(id(asked), id(held) if node else None, count)

    def _counted(self, shape: Shape, memory: int, claimed: ClaimAmounts) -> Shape:
        """The shape with what claims add. Memory of GPUs is a part of devices with ``memory`` MiB, if that is known
        (semantics 8.1)."""
        if not memory and not claimed:
            return shape
        at = (id(shape), memory, claimed)
        if at not in self._priced:
            counted = replace(shape, request=(*shape.request, *claimed))
            if memory and shape.share is not None:
                portion = memory_price(shape.share, memory) / shape.share.devices
                counted = replace(counted, share=GpuShare(shape.share.devices, portion))
            self._priced[at] = shape, counted
        return self._priced[at][1]

    def _counts(self, queue: str, preemptible: bool) -> ShapeCounts:
        return self._queues.setdefault((queue, preemptible), ShapeCounts())

    def _forget_shapes(self) -> None:
        """Forget shapes that no pod has any more, once they may be the majority."""
        if len(self._shapes) > self._most_shapes:
            used = {shape for counts in self._queues.values() for part in (counts.asked, counts.held) for shape in part}
            self._priced = {at: shapes for at, shapes in self._priced.items() if id(shapes[1]) in used}
            self._shapes = {shape: self._shapes[shape] for shape in used}
            self._prices = {shape: price for shape, price in self._prices.items() if shape in used}
            self._queues = {key: counts for key, counts in self._queues.items() if counts.asked}
            self._most_shapes = 2 * len(used) + SPARE_SHAPES

    def queue_amounts(self, queue: str) -> tuple[Amounts, Amounts, Amounts]:
        """Return what the groups in this queue, not below it, hold, hold without being preemptible, and request."""
        elastic = self._queues.get((queue, True)) or ShapeCounts()
        fixed = self._queues.get((queue, False)) or ShapeCounts()
        fixed_amounts = self.amounts(fixed.held)
        held, asked = self.amounts(elastic.held), self.amounts(elastic.asked)
        add_amounts(held, fixed_amounts)
        add_amounts(asked, self.amounts(fixed.asked))
        return held, fixed_amounts, asked

    def amounts(self, counts: Mapping[int, int]) -> Amounts:
        """Return what these numbers of pods by shape request together, in the units of limits."""
        total: Amounts = {}
        for shape, count in counts.items():
            price = self._prices.get(shape)
            if price is None:
                price = self._prices[shape] = _price(self._shapes[shape])
            for resource, amount in price:
                total[resource] = total.get(resource, 0.0) + amount * count
        return total


def _price(shape: Shape) -> list[tuple[str, float]]:
    price = [(resource, amount) for resource, amount in shape.request if resource != PODS]
    gpus = sum(mig_gpus(resource) * amount for resource, amount in price)
    if shape.share:
        gpus += shape.share.quota
        if shape.share.memory_mib:
            price.append((names.GPU_MEMORY_RESOURCE, 1000.0 * shape.share.memory_mib * shape.share.devices))
    return [*price, (GPU, gpus)] if gpus else price


def _add(counts: dict[int, int], shape: int, count: int) -> None:
    left = counts.get(shape, 0) + count
    if left:
        counts[shape] = left
    else:
        counts.pop(shape, None)


def _join(total: ShapeCounts, more: ShapeCounts, sign: int) -> None:
    for into, counts in ((total.held, more.held), (total.asked, more.asked)):
        for shape, count in counts.items():
            _add(into, shape, sign * count)


def add_amounts(total: Amounts, more: Mapping[str, float]) -> None:
    """Add ``more`` to ``total`` in place."""
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0.0) + amount


def resource_list(amounts: Mapping[str, float]) -> dict[str, str]:
    """The amounts as a Kubernetes ResourceList; the scheduler's one GPU resource goes by the name of NVIDIA's."""
    wire = {_wire_name(name): quantity_text(name, value) for name, value in amounts.items()}
    return dict(sorted(wire.items()))


def _wire_name(resource: str) -> str:
    return names.NVIDIA_GPU if resource == GPU else resource.removeprefix(CLASS_PREFIX)
