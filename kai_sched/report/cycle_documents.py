"""The document that answers ``simulate``: cycles with what is decided for each pod.

Amounts here are in scheduler units: millicores, bytes, devices; unlimited is -1. Only ``summary`` and ``reasons`` have
the units of ``report.documents``. The first keys of a cycle are the form in which scenarios are checked; plain clusters
have more keys after them.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from kai_sched.report.documents import API_VERSION, AnswerDocument, OverviewDocument
from kai_sched.report.reason_documents import ReasonDocument


class PodDocument(AnswerDocument, kw_only=True):
    """The state of a pod.

    Attributes
    ----------
    status
        Pending, Gated, Binding, Pipelined, Bound, Running, Releasing, StuckInReleasing, Succeeded, Failed or Unknown.
    node
        Where it is; "" for nowhere.
    gpu_groups
        The groups of GPUs that it shares.
    resource_claims
        By ResourceClaim that this cycle allocates: ``status.allocation`` of resource.k8s.io/v1.
    """

    status: str
    node: str
    gpu_groups: list[str] | UnsetType = UNSET
    resource_claims: dict[str, dict[str, Any]] | UnsetType = UNSET


class NodeGpusDocument(AnswerDocument, kw_only=True):
    """The whole GPUs of a node at the end of the cycle, in devices.

    Attributes
    ----------
    idle_gpus
        Free now.
    releasing_gpus
        Free once pods that are leaving have left.
    """

    idle_gpus: float = field(name="idleGPUs")
    releasing_gpus: float = field(name="releasingGPUs")


class CodeDocument(AnswerDocument, kw_only=True):
    """Why a pod group waits.

    Attributes
    ----------
    reason
        The code (docs/pending.md).
    message
        The reason in one line.
    """

    reason: str
    message: str


class PartDocument(AnswerDocument, kw_only=True):
    """The part of a GPU that a pod has, as its annotations say it: one of both keys.

    Attributes
    ----------
    fraction
        A part of the device.
    memory_mib
        Memory of the device, in MiB.
    """

    fraction: float | UnsetType = UNSET
    memory_mib: int | UnsetType = field(name="memoryMiB", default=UNSET)


class SharedGpuDocument(AnswerDocument, kw_only=True):
    """A GPU that pods share.

    Attributes
    ----------
    gpu_group
        The name of the group of its pods.
    held
        What of the device they hold, in devices.
    pods
        By pod: its part.
    """

    gpu_group: str
    held: float
    pods: dict[str, PartDocument]


class ClaimedDeviceDocument(AnswerDocument, kw_only=True):
    """A device that a ResourceClaim holds.

    Attributes
    ----------
    driver
        The driver that offers it.
    pool
        Its pool.
    device
        Its name in the pool.
    claim
        Key of the claim.
    gpus
        GPUs that it counts for, in devices.
    admin_access
        Whether it is held for administration, beside others; missing for no.
    consumed_capacity
        By capacity of the device that the claim uses a part of: a Kubernetes quantity.
    pods
        By pod that uses the claim: its status.
    """

    driver: str
    pool: str
    device: str
    claim: str
    gpus: float
    admin_access: bool | UnsetType = UNSET
    consumed_capacity: dict[str, str] | UnsetType = UNSET
    pods: dict[str, str]


class UnitsDocument(AnswerDocument, kw_only=True):
    """An amount of each resource of a queue in scheduler units; -1 is unlimited.

    Attributes
    ----------
    cpu
        CPU, in millicores.
    memory
        Memory, in bytes.
    gpu
        GPUs, in devices.
    """

    cpu: float
    memory: float
    gpu: float


class CycleQueueDocument(AnswerDocument, kw_only=True):
    """A queue at the end of the cycle.

    Attributes
    ----------
    parent
        The queue above it; "" for a queue at the top.
    priority
        The higher one gets what is over the quotas first.
    quota
        What it is guaranteed.
    limit
        What it can hold at most.
    fair_share
        What it is entitled to.
    allocated
        What its pods hold.
    allocated_non_preemptible
        What of that belongs to workloads that cannot be evicted.
    requested
        What its pods hold and ask for.
    """

    parent: str
    priority: int
    quota: UnitsDocument
    limit: UnitsDocument
    fair_share: UnitsDocument
    allocated: UnitsDocument
    allocated_non_preemptible: UnitsDocument
    requested: UnitsDocument


class GroupDocument(AnswerDocument, kw_only=True):
    """A pod group at the end of the cycle.

    Attributes
    ----------
    queue
        Its queue.
    priority
        The value of its priority class.
    preemptible
        Whether it can be evicted.
    min_member
        How many pods have to start together.
    counts
        By status: the number of its pods.
    nodes
        By node: the number of its pods.
    """

    queue: str
    priority: int
    preemptible: bool
    min_member: int
    counts: dict[str, int]
    nodes: dict[str, int]


class EvictionDocument(AnswerDocument, kw_only=True):
    """A pod that is evicted.

    Attributes
    ----------
    pod
        Key of the pod.
    pod_group
        Key of its group.
    action
        The action that evicts it.
    cause
        Key of the group that gets the room; "" for a gang that is below its minimum for too long.
    node
        Where it runs.
    moves_to
        Where it has a place already; "" for nowhere.
    freed
        By resource, what it held: millicores of CPU, bytes of memory, devices of others.
    message
        All of this in words, and a line for each queue that was compared.
    """

    pod: str
    pod_group: str
    action: str
    cause: str = field(name="for")
    node: str
    moves_to: str
    freed: dict[str, float]
    message: str


class CycleDocument(AnswerDocument, kw_only=True):
    """One cycle. The keys from ``summary`` on are there for plain clusters, not for scenarios.

    Attributes
    ----------
    decided
        By pod: its state as the cycle decides it.
    settled
        By pod: its state once the effects of the cycle have taken place.
    evicted
        Keys of the pods that are evicted, in the order of the decisions.
    moved
        Keys of the pods that are evicted and have a place elsewhere already.
    nodes
        By node: its whole GPUs.
    pod_groups
        By group that waits: why.
    summary
        The state of the cluster as people read it.
    reasons
        By group that waits: the reason as data.
    shared_gpus
        By node: the GPUs that pods share.
    claimed_devices
        By node: the devices that claims hold.
    queues
        By name: the queues.
    groups
        By key: the pod groups.
    evictions
        The evictions, in the order of the decisions.
    """

    decided: dict[str, PodDocument]
    settled: dict[str, PodDocument]
    evicted: list[str]
    moved: list[str]
    nodes: dict[str, NodeGpusDocument]
    pod_groups: dict[str, CodeDocument]
    summary: OverviewDocument | UnsetType = UNSET
    reasons: dict[str, ReasonDocument] | UnsetType = UNSET
    shared_gpus: dict[str, list[SharedGpuDocument]] | UnsetType = field(name="sharedGPUs", default=UNSET)
    claimed_devices: dict[str, list[ClaimedDeviceDocument]] | UnsetType = UNSET
    queues: dict[str, CycleQueueDocument] | UnsetType = UNSET
    groups: dict[str, GroupDocument] | UnsetType = UNSET
    evictions: list[EvictionDocument] | UnsetType = UNSET


class ProblemDocument(AnswerDocument, kw_only=True):
    """A warning about the input.

    Attributes
    ----------
    source
        The file, and the document and item in it; "" for none.
    subject
        The object; "" for none.
    field
        The path of the field; "" for none.
    message
        What is wrong, and what to do about it.
    """

    source: str
    subject: str
    field: str
    message: str


class SimulationDocument(AnswerDocument, kw_only=True):
    """The answer of ``simulate`` for one input.

    Attributes
    ----------
    api_version
        The version of the form.
    kind
        What the document is.
    file
        The file as it was named; the first one, if several form the cluster.
    name
        Of the scenario; "cluster" for plain objects.
    cycles
        The cycles in their order.
    problems
        Warnings about the input; missing for scenarios.
    """

    api_version: Literal["kai-sched.io/v1"] = API_VERSION
    kind: Literal["Simulation"] = "Simulation"
    file: str
    name: str
    cycles: list[CycleDocument]
    problems: list[ProblemDocument] | UnsetType = UNSET
