"""The fields of effects, what is to be done as plain data: binds, pipelined pods, evictions, and writes of statuses,
conditions, Events and volumes.

A scheduling cycle gives binds, pipelined pods and evictions; ``reconcile`` gives writes of statuses, conditions and
events. Nothing here acts: ``cluster`` turns effects into requests, ``cycle.world`` applies them offline. Every effect
names the uid of its object, so that it never hits another object of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kai_sched.model.claims.objects import Allocation, ExtendedRequests
from kai_sched.model.keys import object_key
from kai_sched.model.numa import NO_PLACEMENT, Placement


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A ResourceClaim that a pod uses: its key and uid, and what is allocated to it; ``is_new``: not yet in the API.

    ``made``: the claim is made for the pod's extended resources, with these requests, and goes with a failed bind. Its
    uid is empty while it is not there.
    """

    claim: str
    uid: str
    allocation: Allocation
    is_new: bool
    made: ExtendedRequests | None = None


class Bind(NamedTuple):
    """Bind the pod with this uid to the node now; ``gpu_groups`` are the devices of which it gets a share, ``claims``
    the claims for devices that it uses. ``volumes`` has the PersistentVolume for each PersistentVolumeClaim
    ("namespace/name") that free volumes serve or that pods share; "" for one that is to be made. ``zones`` are what it
    is to hold of NUMA zones, as far as these count on the node."""

    pod: str  # "namespace/name"
    uid: str
    node: str
    gpu_groups: tuple[str, ...] = ()
    claims: tuple[ClaimUse, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    zones: Placement = NO_PLACEMENT


class Pipeline(NamedTuple):
    """The pod has a node, but waits: for pods that are leaving the node, or for the rest of its group.

    Nothing is sent to the cluster. The next cycle places the pod again. ``claims`` have the devices that it waits for.
    """

    pod: str
    uid: str
    node: str
    claims: tuple[ClaimUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """A queue that was compared for an eviction: what it held before it, and what it is entitled to.

    Triples are CPU (millicores), memory (bytes), GPU (devices); infinity means unlimited.
    """

    queue: str
    priority: int
    allocated: tuple[float, float, float]
    quota: tuple[float, float, float]
    fair_share: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict (delete) the pod with this uid, with the facts that explain why.

    Attributes
    ----------
    action
        The action that evicts: consolidation, reclaim, preempt, stalegangeviction or backgroundpods.
    cause
        The key of the pod group that gets the room; "" for stale gangs and background pods.
    group
        The key of the victim's pod group.
    freed
        (resource, amount in scheduler units) that the pod frees on ``node``.
    moves_to
        The node that the pod gets once its controller has created it again; "" for none.
    moved
        Whether the pod had such a node when it was evicted; another group may have taken it later in the cycle.
    sides
        The victim's queue and that of ``cause``, or their ancestors that are siblings; one side for a stale gang.
    """

    pod: str
    uid: str
    node: str
    action: str
    cause: str
    group: str
    freed: tuple[tuple[str, float], ...]
    moves_to: str
    moved: bool
    sides: tuple[Side, ...]


Effect = Bind | Pipeline | Evict


@dataclass(frozen=True, slots=True)
class Plan:
    """All evictions of one action for one group, or of one stale gang: none of them is of use without the others.

    ``winners`` are the pods that get the room; a stale gang has none.
    """

    evictions: tuple[Evict, ...]
    winners: tuple[Pipeline, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to an object of the cluster; with ``uid``, to no other object of the same name."""

    api_version: str
    kind: str
    namespace: str  # empty for what lives in no namespace
    name: str
    uid: str = ""

    @property
    def key(self) -> str:
        """ "namespace/name", or the name alone."""
        return object_key(self.namespace, self.name) if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Merge ``status`` into the object's status; None removes a field."""

    ref: Ref
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Annotate:
    """Set annotations of the object; None removes one."""

    ref: Ref
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Set one condition of a pod. ``changes_status``: the condition is new or had another status."""

    ref: Ref
    type: str
    status: str  # "True" or "False"
    reason: str
    message: str
    changes_status: bool = True


@dataclass(frozen=True, slots=True)
class Emit:
    """Create or repeat an Event about the object."""

    ref: Ref
    type: str  # "Normal" or "Warning"
    reason: str
    message: str
    annotations: Mapping[str, str] = field(default_factory=dict)


Write = PatchStatus | Annotate | SetCondition | Emit


@dataclass(frozen=True, slots=True)
class ClaimVolume:
    """Reserve a free PersistentVolume for a claim; Kubernetes then binds the two. Both have the uids of the view."""

    volume: Ref
    claim: Ref


@dataclass(frozen=True, slots=True)
class SelectNode:
    """Let the provisioner create a volume for the claim that this node can use."""

    claim: Ref
    node: str


VolumeWrite = ClaimVolume | SelectNode
