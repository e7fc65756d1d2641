"""What may be changed about a cluster to see what becomes of it: queues, nodes, workloads. Each change is applied to a
store, and has the flag of the command line that applies it.

Names that do not exist and values that do not fit raise FieldError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kai_sched.answers.goal import group_pods
from kai_sched.answers.words import exact
from kai_sched.cycle.world.claims import settle_claims
from kai_sched.model.claims.objects import ResourceSlice
from kai_sched.model.constraints import NodeSelector, Requirement, Taint
from kai_sched.model.field_errors import FieldError
from kai_sched.model.numa import NodeZones
from kai_sched.model.objects import UNLIMITED, Node, Object, Phase, Pod, PodGroup, Queue
from kai_sched.model.problems import near
from kai_sched.model.selectors import NODE_NAME, admits
from kai_sched.model.storage import NodeVolumes, StorageCapacity
from kai_sched.model.store import Cluster, Store

HOSTNAME = "kubernetes.io/hostname"
SHARES = ("gpu", "cpu", "memory")
SHARE_FIELDS = ("quota", "limit", "weight")
_STATE_TAINTS = "node.kubernetes.io/"  # set by the control plane while a node is cordoned or not ready
NODES_MAX = 10_000


class Change(Protocol):
    """A change of a cluster."""

    def apply(self, store: Store) -> None:
        """Change the objects of the store. Raises FieldError."""

    @property
    def flag(self) -> str:
        """The flag of ``kai-sched simulate`` that makes the change."""


@dataclass(frozen=True, slots=True)
class SetQueue:
    """One amount of a queue: ``share`` is one of SHARES, ``field`` of SHARE_FIELDS, ``value`` in scheduler units."""

    queue: str
    share: str
    field: str
    value: float

    def apply(self, store: Store) -> None:
        queue = store.get(Queue, self.queue)
        if queue is None:
            raise unknown("queue", self.queue, store.all(Queue), self.flag)
        shares = {self.share: replace(getattr(queue, self.share), **{self.field: self.value})}
        store.put(replace(queue, **shares))

    @property
    def flag(self) -> str:
        return f"--set queue/{self.queue}.{self.share}.{self.field}={self._value()}"

    def _value(self) -> str:
        if self.value == UNLIMITED:
            return "unlimited"
        if self.share == "cpu" and self.field != "weight":
            cores = self.value / 1000.0
            return exact(cores) if cores.is_integer() else f"{exact(self.value)}m"
        if self.share == "memory" and self.field != "weight":
            gi = self.value / 2**30
            return f"{exact(gi)}Gi" if gi.is_integer() else exact(self.value)
        return exact(self.value)


@dataclass(frozen=True, slots=True)
class AddNodes:
    """``count`` new nodes like ``like``: with its capacity, labels, taints, devices and zones, its attach limits, and
    what drivers can make on it now; ready and empty."""

    count: int
    like: str

    def apply(self, store: Store) -> None:
        node = store.get(Node, self.like)
        if node is None:
            raise unknown("node", self.like, store.all(Node), "--add-nodes")
        if not 1 <= self.count <= NODES_MAX:
            raise FieldError("--add-nodes", f"{self.count} is not a number of nodes: give 1 to {NODES_MAX:,}")
        slices = [each for each in store.all(ResourceSlice).values() if any(d.node == self.like for d in each.devices)]
        zones, number, made = store.get(NodeZones, self.like), 0, 0
        while made < self.count:
            number += 1
            name = f"{self.like}-new-{number}"
            if store.get(Node, name) is None:
                made += 1
                store.put(new := _copy(node, name))
                _copy_storage(node, new, store)
                for each in slices:
                    store.put(_copy_devices(each, self.like, name))
                if zones is not None:
                    store.put(_copy_zones(zones, name))

    @property
    def flag(self) -> str:
        return f"--add-nodes {self.count}:like={self.like}"


def _copy(node: Node, name: str) -> Node:
    own = {node.name, node.labels.get(HOSTNAME)}
    labels = {key: name if key == HOSTNAME or value in own else value for key, value in node.labels.items()}
    return _usable(replace(node, name=name, uid=name, labels=labels))


def _copy_devices(found: ResourceSlice, like: str, name: str) -> ResourceSlice:
    devices = tuple(replace(each, node=name) for each in found.devices if each.node == like)
    # A pool that belongs to the node becomes a pool of the new one; names of slices are unique in a cluster.
    return replace(found, name=f"{found.name}-{name}", pool=name, devices=devices, count=1)


def _copy_storage(like: Node, new: Node, store: Store) -> None:
    """Give the new node the attach limits of the other one, and segments of its own where that one has such."""
    limits = store.get(NodeVolumes, like.name)
    if limits is not None:
        store.put(replace(limits, name=new.name))
    here: NodeSelector = ((Requirement(NODE_NAME, "In", (new.name,)),),)
    for each in list(store.all(StorageCapacity).values()):
        if admits(each.nodes, like) and not admits(each.nodes, new):
            store.put(replace(each, name=f"{each.name}-{new.name}", nodes=here))


def _copy_zones(found: NodeZones, name: str) -> NodeZones:
    empty = tuple(replace(zone, available=zone.allocatable) for zone in found.zones)
    return replace(found, name=name, uid=name, zones=empty)


def _usable(node: Node) -> Node:
    taints = tuple(each for each in node.taints if not each.key.startswith(_STATE_TAINTS))
    return replace(node, unschedulable=False, bad_conditions=(), taints=taints)


@dataclass(frozen=True, slots=True)
class Uncordon:
    """The node accepts pods again: it is schedulable, and ready."""

    node: str

    def apply(self, store: Store) -> None:
        store.put(_usable(_node(store, self.node, "--uncordon")))

    @property
    def flag(self) -> str:
        return f"--uncordon {self.node}"


@dataclass(frozen=True, slots=True)
class Drain:
    """The node is cordoned. The pods of the scheduler on it are created again and wait; those that leave are gone."""

    node: str
    scheduler: str

    def apply(self, store: Store) -> None:
        store.put(replace(_node(store, self.node, "--drain"), unschedulable=True))
        gone = [
            pod
            for pod in store.all(Pod).values()
            if pod.node == self.node and pod.scheduler == self.scheduler and not pod.has_ended
        ]
        again = [replace(pod, node="", phase=Phase.PENDING, gpu_groups=()) for pod in gone if not pod.deleted_ns]
        _replace_pods(store, gone, again)

    @property
    def flag(self) -> str:
        return f"--drain {self.node}"


@dataclass(frozen=True, slots=True)
class Remove:
    """The group is gone with all its pods, as if it had ended. ``group`` is its key, also that of a bare pod."""

    group: str

    def apply(self, store: Store) -> None:
        if store.get(PodGroup, self.group) is not None:
            store.remove(PodGroup, self.group)
        _replace_pods(store, pods_of(store, self.group), [])

    @property
    def flag(self) -> str:
        return f"--remove {self.group}"


@dataclass(frozen=True, slots=True, eq=False)
class Override:
    """These objects replace those of the same kind and name, or are new. ``path`` is where they are from."""

    path: str
    objects: tuple[Object, ...]

    def apply(self, store: Store) -> None:
        for each in self.objects:
            store.put(each)

    @property
    def flag(self) -> str:
        return f"--override {self.path}"


def changed(cluster: Cluster, changes: Iterable[Change]) -> Store:
    """A new store with the objects of the cluster, changed. Raises FieldError."""
    store = Store.of(cluster)
    for each in changes:
        each.apply(store)
    return store


def pods_of(store: Store, group: str) -> list[Pod]:
    """The pods of the group with this key, by key; the one pod where it is that of a bare pod."""
    return group_pods(store.all(Pod), store.all(PodGroup), group)


def unknown(kind: str, name: str, known: Iterable[str], field: str) -> FieldError:
    """The error about a name that no object has, with the name that is most like it."""
    return FieldError(field, f"there is no {kind} {name!r}{near(name, known)}")


def taint_keys(taints: Iterable[Taint]) -> list[str]:
    """The keys of taints that keep pods away, without those that the control plane sets by itself."""
    return sorted({each.key for each in taints if not each.key.startswith(_STATE_TAINTS)})


def _node(store: Store, name: str, flag: str) -> Node:
    node = store.get(Node, name)
    if node is None:
        raise unknown("node", name, store.all(Node), flag)
    return node


def _replace_pods(store: Store, gone: Sequence[Pod], again: Sequence[Pod]) -> None:
    """Take pods off their nodes, with what their claims hold."""
    before = store.cluster()
    for pod in gone:
        store.remove(Pod, pod.key)
    for pod in again:
        store.put(pod)
    settle_claims(store, before, (), store.cluster().pods)
