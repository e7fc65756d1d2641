"""Changes of one workload that its user can make: less GPUs or pods, fewer demands on nodes, another class or queue.

Only pods that have no node yet change. A group is named by its key; a bare pod by that of the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kai_sched.answers.changes import pods_of
from kai_sched.answers.goal import pod_gpus
from kai_sched.answers.words import exact
from kai_sched.api.names import PREEMPTIBILITY_LABEL
from kai_sched.model.constraints import Toleration
from kai_sched.model.numa import at_most
from kai_sched.model.objects import GpuShare, Phase, Pod, PodGroup, Shape, TopologyConstraint
from kai_sched.model.resources import GPU
from kai_sched.model.store import Store

# What placement asks of nodes, and of other pods, that can be left out.
DEMANDS = ("nodeSelector", "nodeAffinity", "podAffinity", "podAntiAffinity", "topologyConstraint", "numaAlignment")


@dataclass(frozen=True, slots=True)
class PodGpus:
    """Each pod asks for at most ``gpus`` whole GPUs, or, where it asks for a part of one, for that part.

    A part changes no pod that asks for whole GPUs, as these cannot be divided.
    """

    group: str
    gpus: float

    def apply(self, store: Store) -> None:
        _reshape(store, self.group, self._less)

    def _less(self, shape: Shape) -> Shape:
        if shape.share is not None:
            return replace(shape, share=_smaller(shape.share, self.gpus))
        most = max(1.0, self.gpus)
        request = tuple((name, min(amount, most) if name == GPU else amount) for name, amount in shape.request)
        return replace(shape, request=request, numa=at_most(shape.numa, GPU, most) if shape.numa else None)

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.gpus={exact(self.gpus)}"


def _smaller(share: GpuShare, portion: float) -> GpuShare:
    return replace(share, portion=min(share.portion, portion)) if share.portion else share


@dataclass(frozen=True, slots=True)
class PodCount:
    """The group has ``pods`` pods, and needs no more than these: the last of its pods that wait are left out."""

    group: str
    pods: int

    def apply(self, store: Store) -> None:
        alive = [pod for pod in pods_of(store, self.group) if not pod.has_ended]
        waiting = sorted((pod for pod in alive if not pod.node), key=_size)
        surplus = waiting[: max(0, len(alive) - self.pods)]
        for pod in surplus:
            store.remove(Pod, pod.key)
        group = store.get(PodGroup, self.group)
        if group is not None:
            store.put(_needs_at_most(group, surplus, alive))

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.pods={self.pods}"


def _size(pod: Pod) -> tuple[float, str, str]:
    """Pods with most GPUs are left out first, the workers and not the one that leads them; then the last by name."""
    return -pod_gpus(pod), pod.sub_group, "".join(chr(0x10FFFF - ord(sign)) for sign in pod.name)


def _needs_at_most(group: PodGroup, surplus: list[Pod], alive: list[Pod]) -> PodGroup:
    gone = {pod.key for pod in surplus}
    left = [pod for pod in alive if pod.key not in gone]
    if not group.sub_groups:
        minimum = min(1 if group.min_member is None else group.min_member, len(left))
        return replace(group, min_member=max(1, minimum))
    sub_groups = tuple(
        each
        if each.min_member is None
        else replace(each, min_member=min(each.min_member, sum(pod.sub_group == each.name for pod in left)))
        for each in group.sub_groups
    )
    return replace(group, sub_groups=sub_groups)


@dataclass(frozen=True, slots=True)
class Minimum:
    """The group, or its sub-group of that name, needs only so many of its pods to start."""

    group: str
    minimum: int
    sub_group: str = ""

    def apply(self, store: Store) -> None:
        group = store.get(PodGroup, self.group)
        if group is None:
            return
        if not self.sub_group:
            store.put(replace(group, min_member=self.minimum))
            return
        sub_groups = tuple(
            replace(each, min_member=self.minimum) if each.name == self.sub_group else each for each in group.sub_groups
        )
        store.put(replace(group, sub_groups=sub_groups))

    @property
    def flag(self) -> str:
        of = f".{self.sub_group}" if self.sub_group else ""
        return f"--set workload/{self.group}{of}.minMember={self.minimum}"


@dataclass(frozen=True, slots=True)
class WithoutDemand:
    """The pods do without one of DEMANDS."""

    group: str
    demand: str

    def apply(self, store: Store) -> None:
        if self.demand == "topologyConstraint":
            _constrain(store, self.group, lambda _: None)
        else:
            _reshape(store, self.group, self._without)

    def _without(self, shape: Shape) -> Shape:
        match self.demand:
            case "nodeSelector":
                return replace(shape, node_selector=())
            case "nodeAffinity":
                return replace(shape, node_affinity=None)
            case "podAffinity":
                return replace(shape, affinity=())
            case "numaAlignment":
                return replace(shape, numa=None)
            case _:
                return replace(shape, anti_affinity=())

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.{self.demand}=none"


@dataclass(frozen=True, slots=True)
class RequiredLevel:
    """The group and its sub-groups require this level where they require one; "": they prefer it instead."""

    group: str
    level: str

    def apply(self, store: Store) -> None:
        _constrain(store, self.group, self._at_level)

    def _at_level(self, old: TopologyConstraint) -> TopologyConstraint:
        if not old.required_level:
            return old
        if self.level:
            return replace(old, required_level=self.level)
        return replace(old, required_level="", preferred_level=old.preferred_level or old.required_level)

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.requiredTopologyLevel={self.level or 'none'}"


@dataclass(frozen=True, slots=True)
class Tolerate:
    """The pods tolerate all taints with this key."""

    group: str
    key: str

    def apply(self, store: Store) -> None:
        toleration = Toleration(self.key, "Exists")
        _reshape(store, self.group, lambda shape: replace(shape, tolerations=(*shape.tolerations, toleration)))

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.tolerations={self.key}"


@dataclass(frozen=True, slots=True)
class Preemptible:
    """The group may be evicted (``spec.preemptibility: preemptible``)."""

    group: str

    def apply(self, store: Store) -> None:
        def labelled(pod: Pod) -> Pod:
            return replace(pod, labels={**pod.labels, PREEMPTIBILITY_LABEL: "preemptible"})

        _put(store, self.group, lambda group: replace(group, preemptible=True), labelled)

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.preemptibility=preemptible"


@dataclass(frozen=True, slots=True)
class InClass:
    """The group has this priority class."""

    group: str
    priority_class: str

    def apply(self, store: Store) -> None:
        name = self.priority_class
        _put(
            store,
            self.group,
            lambda group: replace(group, priority_class=name),
            lambda pod: replace(pod, priority_class=name),
        )

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.priorityClassName={self.priority_class}"


@dataclass(frozen=True, slots=True)
class InQueue:
    """The group is in this queue."""

    group: str
    queue: str

    def apply(self, store: Store) -> None:
        name = self.queue
        _put(store, self.group, lambda group: replace(group, queue=name), lambda pod: replace(pod, queue=name))

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.queue={self.queue}"


@dataclass(frozen=True, slots=True)
class InPool:
    """The group is in this node pool, by its ``label``; "": in none."""

    group: str
    pool: str
    label: str

    def apply(self, store: Store) -> None:
        _put(
            store,
            self.group,
            lambda group: replace(group, labels=self._labels(group.labels)),
            lambda pod: replace(pod, labels=self._labels(pod.labels)),
        )

    def _labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        others = {key: value for key, value in labels.items() if key != self.label}
        return {**others, self.label: self.pool} if self.pool else others

    @property
    def flag(self) -> str:
        return f"--set workload/{self.group}.nodePool={self.pool or 'none'}"


def waits(pod: Pod) -> bool:
    """Whether the pod has no node yet."""
    return not pod.node and pod.phase == Phase.PENDING and not pod.deleted_ns


def _put(store: Store, key: str, of_group: Callable[[PodGroup], PodGroup], of_pod: Callable[[Pod], Pod]) -> None:
    """Change the PodGroup with this key; where there is none, what its pods say themselves."""
    group = store.get(PodGroup, key)
    if group is not None:
        store.put(of_group(group))
        return
    for pod in pods_of(store, key):
        store.put(of_pod(pod))


def constraints_of(group: PodGroup) -> list[TopologyConstraint]:
    """The topology constraints of the group and its sub-groups."""
    return [each for each in (group.topology, *(sub.topology for sub in group.sub_groups)) if each is not None]


def _constrain(store: Store, key: str, change: Callable[[TopologyConstraint], TopologyConstraint | None]) -> None:
    """Change the topology constraints of the PodGroup and its sub-groups, where there are any."""
    group = store.get(PodGroup, key)
    if group is not None:
        sub_groups = tuple(
            replace(each, topology=change(each.topology)) if each.topology else each for each in group.sub_groups
        )
        topology = change(group.topology) if group.topology else None
        store.put(replace(group, topology=topology, sub_groups=sub_groups))


def _reshape(store: Store, group: str, change: Callable[[Shape], Shape]) -> None:
    """Change the shapes of the group's pods that wait; equal shapes stay one object."""
    made: dict[int, Shape] = {}
    for pod in pods_of(store, group):
        if waits(pod):
            shape = made.get(id(pod.shape))
            if shape is None:
                shape = made[id(pod.shape)] = change(pod.shape)
            store.put(replace(pod, shape=shape))
