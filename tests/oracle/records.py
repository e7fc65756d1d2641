"""The cluster in plain mutable records (semantics 0.1 to 0.4), which ``world`` fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched import Config
from kai_sched.model.numa import NodeZones
from kai_sched.model.objects import Node, Pod, PodGroup, Queue, Share, Topology, TopologyConstraint
from tests.oracle.devices import held, holds, unreserved

RESOURCES = ("cpu", "memory", "gpu")
ALLOCATED = {"Allocated", "Binding", "Bound", "Running"}
ACTIVE = ALLOCATED | {"Pipelined"}
USED = ACTIVE | {"Releasing", "StuckInReleasing"}


@dataclass(eq=False)
class Task:
    """A pod. ``virtual``: evicted by what is being tried; ``before``: its status when it was evicted.

    ``start`` is its status when the cycle began. ``shadow`` stands for an evicted pod on the node that it has to
    leave, once it has got a place elsewhere. ``devices`` are those of its node that it shares, ``first_devices`` those
    that it shared at first. The GPUs that count for queues are what is asked for (``price``), the least that it may be
    (``least``), and what it is on a node (``price_on``). ``part`` is the least that it takes of all GPUs of a node.
    """

    pod: Pod
    status: str
    node: str
    job: Job | None = None
    virtual: bool = False
    before: str = ""
    start: str = ""
    shadow: Task | None = None
    devices: tuple[int, ...] = ()
    first_devices: tuple[int, ...] = ()
    zones: list[dict[str, int]] = field(default_factory=list)  # what it holds of each NUMA zone of its node
    first_zones: list[dict[str, int]] = field(default_factory=list)  # and what it held at first
    reserves: bool = False
    price: float = 0.0
    least: float = 0.0
    price_on: dict[str, float] = field(default_factory=dict)
    part: float = 0.0

    def asks(self, resource: str) -> float:
        """What it takes of its node, parts of GPUs left out."""
        return 0.0 if self.reserves and resource == "gpu" else dict(self.pod.shape.request).get(resource, 0.0)

    def leaves(self, resource: str) -> float:
        """The most that its node has more of once it has left: parts of GPUs, and slots of reservation pods."""
        if resource == "gpu":
            return self.part
        share = self.pod.shape.share
        return self.asks(resource) + (share.devices if share and resource == "pods" else 0)

    def costs(self, resource: str) -> float:
        """What counts as asked for in its queue."""
        return self.price if resource == "gpu" else self.asks(resource)

    def cost_here(self, resource: str) -> float:
        """What counts as held in its queue, where it is."""
        return self.price_on.get(self.node, self.price) if resource == "gpu" else self.asks(resource)

    @property
    def age(self) -> tuple[int, str]:
        return self.pod.created_ns, self.pod.uid


@dataclass(eq=False)
class PodSet:
    name: str
    minimum: int
    tasks: list[Task] = field(default_factory=list)
    constraint: TopologyConstraint | None = None

    @property
    def active(self) -> int:
        return sum(task.status in ACTIVE for task in self.tasks)

    @property
    def pending(self) -> list[Task]:
        """What can be given a place: what waits, and what is only evicted by way of trial."""
        return [
            task for task in self.tasks if task.status == "Pending" or (task.status == "Releasing" and task.virtual)
        ]


@dataclass(eq=False)
class GroupSet:
    """A sub-group set: satisfied with ``minimum`` satisfied members."""

    name: str
    wanted: int | None = None
    members: list[GroupSet | PodSet] = field(default_factory=list)
    constraint: TopologyConstraint | None = None

    @property
    def tasks(self) -> list[Task]:
        return [task for member in self.members for task in member.tasks]

    @property
    def minimum(self) -> int:
        return len(self.members) if self.wanted is None else self.wanted


@dataclass(eq=False)
class Job:
    """A pod group. ``chunk`` is what it asks for where that does not follow from its pods (part of a larger gang)."""

    group: PodGroup
    name: str
    queue: str
    priority: int
    preemptible: bool
    age: tuple[int, str]
    root: GroupSet
    pod_sets: dict[str, PodSet]
    chunk: list[Task] | None = None
    background: bool = False

    @property
    def tasks(self) -> list[Task]:
        return [task for pod_set in self.pod_sets.values() for task in pod_set.tasks]


@dataclass(eq=False)
class Machine:
    node: Node
    idle: dict[str, float]
    releasing: dict[str, float]
    tasks: list[Task] = field(default_factory=list)
    reserved: frozenset[int] = frozenset()  # devices for which there is a reservation pod
    closed: frozenset[int] = frozenset()  # devices that their pods do not name: nobody joins them
    has_legacy: bool = False  # there are pods that ask for MIG devices in the legacy way
    zones: NodeZones | None = None  # None: it has none that count
    offered: list[dict[str, int]] = field(default_factory=list)  # what of each zone the pods below may hold together

    def room(self, resource: str, later: bool) -> float:
        """Idle, or with ``later`` what will be idle once the releasing pods have left; of GPUs whole ones."""
        room = self._unshared(resource, later)
        if resource == "gpu":
            return room - len(held(self, later)) if resource in self.idle else room
        return room - unreserved(self, later) if resource == "pods" else room

    def loose(self, resource: str, later: bool) -> float:
        """The same with parts of GPUs, whatever devices they are on."""
        if resource != "gpu" or resource not in self.idle:
            return self.room(resource, later)
        parts = [task.part for task in self.tasks if task.pod.shape.share and holds(task, later)]
        return self._unshared(resource, later) - sum(parts)

    def _unshared(self, resource: str, later: bool) -> float:
        idle = self.idle.get(resource, 0.0)
        return idle + self.releasing.get(resource, 0.0) if later else idle


@dataclass(eq=False)
class Account:
    """A queue and what it holds; vectors in the order of RESOURCES."""

    queue: Queue
    children: list[Account] = field(default_factory=list)
    parent: Account | None = None
    request: list[float] = field(default_factory=lambda: [0.0] * 3)
    allocated: list[float] = field(default_factory=lambda: [0.0] * 3)
    fixed: list[float] = field(default_factory=lambda: [0.0] * 3)
    fair: list[float] = field(default_factory=lambda: [0.0] * 3)
    steady: float = 0.0  # GPUs by weight, whoever asks for them; 0 where the setting is off
    keep: float = 0.0  # GPUs that it does not lose to a queue that has less than its own
    held_elsewhere: list[float] = field(default_factory=lambda: [0.0] * 3)  # in other pools that share
    fixed_elsewhere: list[float] = field(default_factory=lambda: [0.0] * 3)

    def share(self, r: int) -> Share:
        return (self.queue.cpu, self.queue.memory, self.queue.gpu)[r]

    @property
    def age(self) -> tuple[int, str]:
        return self.queue.created_ns, self.queue.uid

    def lineage(self) -> list[Account]:
        """This queue and its ancestors, leaf first."""
        return [self] + (self.parent.lineage() if self.parent else [])


@dataclass(eq=False)
class Elsewhere:
    """What another pool has to share: its capacity, and by queue what is held, held for good, and requested there."""

    capacity: list[float]
    held: dict[str, list[float]] = field(default_factory=dict)
    fixed: dict[str, list[float]] = field(default_factory=dict)
    request: dict[str, list[float]] = field(default_factory=dict)


@dataclass(eq=False)
class World:
    """``total`` is divided; ``own`` is what of it is the capacity of this pool."""

    machines: dict[str, Machine]
    tasks: list[Task]
    jobs: list[Job]
    accounts: dict[str, Account]
    total: list[float]
    config: Config = field(default_factory=Config)
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    own: list[float] = field(default_factory=list)
