"""One walk over all pods: what the pods of each group and of each queue hold and ask for.

A pod counts as it does in the solver's books: what it holds from the moment it has a node until it begins to leave,
what it asks for while it waits without gates of its own, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.api import names
from kai_sched.model.checks import DEFAULT_SET, pod_sets
from kai_sched.model.config import Config, in_pool
from kai_sched.model.objects import Phase, Pod, PodGroup, Shape
from kai_sched.model.priorities import default_priority, is_preemptible
from kai_sched.model.resources import GPU, PODS, quantity_text
from kai_sched.model.store import Cluster

Amounts = dict[str, float]  # by resource, in scheduler units
_LIVE = frozenset({Phase.PENDING, Phase.RUNNING})


@dataclass(slots=True)
class Counts:
    """How many pods of each shape (by ``id``) hold a node, and how many hold or wait for one."""

    held: dict[int, int] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)

    def add(self, shape: int, holds: bool) -> None:
        """One more pod of the shape."""
        self.asked[shape] = self.asked.get(shape, 0) + 1
        if holds:
            self.held[shape] = self.held.get(shape, 0) + 1


@dataclass(slots=True)
class GroupTally:
    """The pods of one pod group. ``used`` counts those on nodes, leaving ones included, by sub-group."""

    queue: str
    preemptible: bool
    sets: frozenset[str]
    counts: Counts = field(default_factory=Counts)
    used: dict[str, int] = field(default_factory=dict)
    finished: bool = False


class Tally:
    """``groups`` has every pod group of the node pool by "namespace/name", ``binding`` the node of each pod that a bind
    request of the original's is about to give one.
    """

    def __init__(self, cluster: Cluster, config: Config) -> None:
        classes = cluster.priority_classes
        default = default_priority(classes)
        self.groups = {
            key: GroupTally(group.queue, is_preemptible(group, classes, default), pod_sets(group))
            for key, group in cluster.pod_groups.items()
            if in_pool(group.labels, config)
        }
        self.binding = {
            request.pod_key: request.node
            for _, request in sorted(cluster.bind_requests.items(), reverse=True)  # of two for a pod the first counts
            if request.is_live and request.node in cluster.nodes
        }
        self._queues: dict[tuple[str, bool], Counts] = {}
        self._shapes: dict[int, Shape] = {}
        self._prices: dict[int, list[tuple[str, float]]] = {}
        bare_classes: dict[str, bool] = {}
        for pod in cluster.pods.values():
            if pod.group:
                group = self.groups.get(f"{pod.namespace}/{pod.group}")
                if group is not None:
                    self._add(pod, cluster, group, group.counts)
            elif pod.scheduler == config.scheduler_name and in_pool(pod.labels, config):
                name = pod.priority_class
                if name not in bare_classes:
                    bare_classes[name] = is_preemptible(PodGroup("", "", priority_class=name), classes, default)
                self._add(pod, cluster, None, self._counts(pod.queue or names.DEFAULT_QUEUE, bare_classes[name]))
        for group in self.groups.values():
            _join(self._counts(group.queue, group.preemptible), group.counts)

    def _add(self, pod: Pod, cluster: Cluster, group: GroupTally | None, counts: Counts) -> None:
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
            if node not in cluster.nodes:
                return
        elif pod.gates:
            return
        if pod.deleted_ns:
            return
        shape = id(pod.shape)
        self._shapes[shape] = pod.shape
        counts.add(shape, bool(node))

    def _counts(self, queue: str, preemptible: bool) -> Counts:
        return self._queues.setdefault((queue, preemptible), Counts())

    def queue_amounts(self, queue: str) -> tuple[Amounts, Amounts, Amounts]:
        """Held, held by non-preemptible work and asked for by the groups in exactly this queue."""
        elastic = self._queues.get((queue, True)) or Counts()
        fixed = self._queues.get((queue, False)) or Counts()
        fixed_amounts = self.amounts(fixed.held)
        held, asked = self.amounts(elastic.held), self.amounts(elastic.asked)
        add_amounts(held, fixed_amounts)
        add_amounts(asked, self.amounts(fixed.asked))
        return held, fixed_amounts, asked

    def amounts(self, counts: Mapping[int, int]) -> Amounts:
        """What so many pods of these shapes ask for together, by the units that limits are compared in."""
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
    if shape.shared_quota:
        price.append((GPU, shape.shared_quota))
    return price


def _join(total: Counts, more: Counts) -> None:
    for into, counts in ((total.held, more.held), (total.asked, more.asked)):
        for shape, count in counts.items():
            into[shape] = into.get(shape, 0) + count


def add_amounts(total: Amounts, more: Mapping[str, float]) -> None:
    """Add ``more`` to ``total`` in place."""
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0.0) + amount


def resource_list(amounts: Mapping[str, float]) -> dict[str, str]:
    """The amounts as a Kubernetes ResourceList; the scheduler's one GPU resource goes by the name of NVIDIA's."""
    wire = {names.NVIDIA_GPU if name == GPU else name: quantity_text(name, value) for name, value in amounts.items()}
    return dict(sorted(wire.items()))
