"""The fields of the domain objects (Pod, Node, Queue, PodGroup, claims and others) as the scheduler sees them: frozen,
in scheduler units, independent of the wire.

Units everywhere in the domain: CPU in millicores, memory in bytes, GPUs in devices, pods in slots, any other
resource as ``model.resources`` says. Times are nanoseconds since the epoch, 0 where the object has none.
Durations are seconds. ``UNLIMITED`` (-1) stands for "no bound" in queue quotas and limits; lowering turns it into
infinity.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kai_sched.model.claims.objects import Allocation, ClaimObject, ContainerDevices, PodClaim
from kai_sched.model.constraints import HostPort, NodeSelector, PodTerm, Taint, Term, Toleration, WeightedPodTerm
from kai_sched.model.keys import GroupKey, ObjectKey, group_key, object_key
from kai_sched.model.numa import NO_PLACEMENT, NodeZones, NumaRequest, Placement
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from kai_sched.model.topology import Topology as Topology
from kai_sched.model.topology import TopologyConstraint as TopologyConstraint

UNLIMITED = -1.0
NO_LABELS: Mapping[str, str] = {}


class Phase(enum.IntEnum):
    """A pod's phase as its kubelet reports it (``status.phase``)."""

    PENDING = 0
    RUNNING = 1
    SUCCEEDED = 2
    FAILED = 3
    UNKNOWN = 4


@dataclass(frozen=True, slots=True)
class Share:
    """One resource of a queue: its quota, its limit, and its weight in the division of what is over quota."""

    quota: float = 0.0
    limit: float = 0.0
    weight: float = 0.0


class UsedShares(NamedTuple):
    """Which parts of the cluster's CPU, memory and GPUs were a queue's over the time that counts (semantics 2.7)."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0


NOTHING_USED = UsedShares()


@dataclass(frozen=True, slots=True)
class Queue:
    """A Queue (scheduling.run.ai/v2). Without ``resources`` every share is zero, the limit too (semantics 1.4).

    ``usage`` is not in the object: whoever keeps accounts of the past says it.
    """

    name: str
    uid: str = ""
    created_ns: int = 0
    parent: str = ""
    display_name: str = ""
    priority: int = 100
    cpu: Share = Share()
    memory: Share = Share()
    gpu: Share = Share()
    preempt_min_runtime_s: float | None = None
    reclaim_min_runtime_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    usage: UsedShares = NOTHING_USED

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Node:
    """A Node. ``allocatable`` is in scheduler units by resource name (``resources.amount``)."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, float] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    # Empty when the node is ready; else the conditions that say otherwise, such as "NotReady" or "MemoryPressure".
    bad_conditions: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.name

    @property
    def takes_pods(self) -> bool:
        """Whether it is neither cordoned nor in a bad condition."""
        return not self.unschedulable and not self.bad_conditions


@dataclass(frozen=True, slots=True)
class SubGroup:
    """One entry of ``spec.subGroups``. ``None`` means that the field is not there."""

    name: str
    parent: str = ""  # lower-cased; empty = directly under the root
    min_member: int | None = None
    min_sub_group: int | None = None
    topology: TopologyConstraint | None = None


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup (scheduling.run.ai/v2alpha2): the unit that is scheduled whole or not at all."""

    namespace: str
    name: str
    uid: str = ""
    created_ns: int = 0
    queue: str = ""
    priority_class: str = ""
    preemptible: bool | None = None  # None: by priority
    min_member: int | None = None
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    topology: TopologyConstraint | None = None
    preemption_delay_s: float = 0.0
    staleness_grace_s: float | None = None
    mark_unschedulable: bool = True
    scheduling_backoff: int = -1
    given_up_in: str = ""  # the node pool in which it is not tried again, as its backoff says
    stale_since_ns: int = 0
    last_start_ns: int = 0
    last_eviction_ns: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    # The workload that users wrote, its first owner; empty for a group that somebody made by hand.
    owner_kind: str = ""
    owner_name: str = ""

    @property
    def key(self) -> ObjectKey:
        return object_key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class GpuShare:
    """A part of each of some GPU devices (annotations gpu-fraction, gpu-memory and gpu-fraction-num-devices).

    ``portion`` is the part of each device, above 0 and at most 1. It is 0 where the part is given as memory:
    ``memory_mib`` of each device. ``limit_mib`` is the most that the container may use of it where that is more than
    what the pod requests, else 0; nothing but the container hears of it.
    """

    devices: int = 1
    portion: float = 0.0
    memory_mib: int = 0
    limit_mib: int = 0

    @property
    def quota(self) -> float:
        """GPUs that count for the queue (semantics 0.2); 0 for memory, whose price depends on the device."""
        hundredths = max(1, int(self.portion * 100 + 0.5)) if self.portion else 0
        return hundredths * self.devices / 100


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Shape:
    """All that placement needs to know of a pod. The reader returns equal shapes as one object.

    ``request`` has (resource, amount) sorted by resource, without zeros; ``pods`` is always 1. ``unsupported`` names
    the features that the pod uses and this version does not support, each text with the field first.
    """

    request: tuple[tuple[str, float], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodTerm, ...] = ()
    claims: tuple[str, ...] = ()  # PersistentVolumeClaims as "namespace/name"
    config_maps: tuple[str, ...] = ()  # required ConfigMaps as "namespace/name"
    unsupported: tuple[str, ...] = ()
    share: GpuShare | None = None  # the part of GPUs that the pod asks for
    n_claims: int = 0  # claims for devices (``Pod.claims``)
    legacy_mig: bool = False  # MIG devices are asked for in the legacy way: no device plugin serves it
    # What the containers alone request, where annotations add to ``request``; else None.
    containers: tuple[tuple[str, float], ...] | None = None
    numa: NumaRequest | None = None  # what is aligned to NUMA zones; None without the plugin


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    shape: Shape
    uid: str = ""
    created_ns: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    group: str = ""  # annotation pod-group-name
    sub_group: str = ""  # label kai.scheduler/subgroup-name
    queue: str = ""  # label kai.scheduler/queue
    scheduler: str = ""
    priority_class: str = ""
    node: str = ""
    nominated_node: str = ""
    expected_node: str = ""  # where a scenario file has a pod that is still to be placed; shown, and nothing else
    phase: Phase = Phase.PENDING
    deleted_ns: int = 0
    gates: tuple[str, ...] = ()
    gpu_groups: tuple[str, ...] = ()  # devices shared with others, from the labels runai-gpu-group*
    reserved_device: str = ""  # the device that a reservation pod reports
    device_map: str = ""  # the ConfigMap from which the container with the share reads its devices
    claims: tuple[PodClaim, ...] = ()  # for devices, in the order of the pod
    extended: tuple[ContainerDevices, ...] = ()  # extended resources of its containers, in their order
    zones: Placement = NO_PLACEMENT  # what it holds of NUMA zones, as its annotations say
    zones_observed: bool = False  # somebody has seen that, and not only predicted it
    safe_to_consolidate: bool = True  # consolidation may move it

    @property
    def key(self) -> ObjectKey:
        return object_key(self.namespace, self.name)

    @property
    def has_ended(self) -> bool:
        """Whether it has succeeded or failed, and holds nothing any more."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def group_key(self) -> GroupKey:
        """The key of the group that the pod is in: its PodGroup; for a bare pod the key of the pod."""
        return group_key(self.namespace, self.group or self.name)


@dataclass(frozen=True, slots=True)
class BindRequest:
    """A BindRequest (scheduling.run.ai/v1alpha2): a placement that the binder of the original has yet to carry out."""

    namespace: str
    name: str
    pod: str  # its name, in the same namespace
    node: str
    is_live: bool = True  # neither carried out nor given up
    gpu_groups: tuple[str, ...] = ()  # devices that the pod will share
    claims: tuple[tuple[str, Allocation], ...] = ()  # what claims of the pod, by their names in the pod, will have
    zones: Placement = NO_PLACEMENT  # what the pod will hold of NUMA zones

    @property
    def key(self) -> ObjectKey:
        return object_key(self.namespace, self.name)

    @property
    def pod_key(self) -> ObjectKey:
        return object_key(self.namespace, self.pod)


@dataclass(frozen=True, slots=True)
class PriorityClass:
    name: str
    value: int
    global_default: bool = False

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim. ``volume`` is the PersistentVolume that it is bound to, if it is."""

    namespace: str
    name: str
    phase: str = ""
    volume: str = ""
    storage_class: str = ""
    deleted: bool = False
    access_modes: tuple[str, ...] = ()
    size_bytes: float = 0.0
    uid: str = ""
    selected_node: str = ""  # the node for which a volume is being made
    selector: Term = ()  # on the labels of volumes; empty: all
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    pod_uid: str = ""  # of the pod with which it is deleted

    @property
    def key(self) -> ObjectKey:
        return object_key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume: where it can be used from, and, for static binding, what it offers and to whom."""

    name: str
    node_affinity: NodeSelector | None = None
    storage_class: str = ""
    claim: str = ""  # "namespace/name" of the claim that holds it
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    size_bytes: float = 0.0
    uid: str = ""
    claim_uid: str = ""  # empty where an administrator keeps the volume for a claim
    labels: Mapping[str, str] = field(default_factory=dict)
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    deleted: bool = False
    driver: str = ""  # its CSI driver, and what the driver calls it
    handle: str = ""

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class StorageClass:
    name: str
    wait_for_first_consumer: bool = False
    provisioner: str = ""
    allowed_topologies: NodeSelector | None = None

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap. Only its existence matters to scheduling."""

    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        return object_key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.name


Object = (
    Queue
    | Node
    | PodGroup
    | Pod
    | BindRequest
    | PriorityClass
    | VolumeClaim
    | Volume
    | StorageClass
    | StorageDriver
    | StorageCapacity
    | NodeVolumes
    | Topology
    | NodeZones
    | ConfigMap
    | Namespace
    | ClaimObject
)
