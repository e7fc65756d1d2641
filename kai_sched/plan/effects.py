"""What a cycle wants done, as data. Nothing here acts; the operator's executor and the offline world do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kai_sched.model.keys import object_key


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind this pod (and no other of the same name: ``uid``) to the node now."""

    pod: str  # "namespace/name"
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pod has a place, but it or its group has to wait: for others who are leaving, or for the next cycle.

    Nothing is sent; the next cycle decides anew.
    """

    pod: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Side:
    """A queue that was weighed when somebody had to go: what it held before, and what it was entitled to.

    Triples are CPU (milli), memory (bytes), GPU (devices); infinity means unlimited.
    """

    queue: str
    priority: int
    allocated: tuple[float, float, float]
    quota: tuple[float, float, float]
    fair_share: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete this pod (and no other of the same name: ``uid``), with the facts for those who ask why.

    ``action`` is the rule: consolidation, reclaim, preempt or stalegangeviction. ``cause`` is the key of the pod group
    for which it goes ("" for stale gangs), ``freed`` what it leaves on ``node``, ``moves_to`` the node where it has a
    place once it is made anew ("" where it has none). ``moved``: it had one when it was evicted; somebody else may have
    got it later in the cycle. ``sides``: the victim's queue and the other's, or those above
    them that are siblings; one for a stale gang.
    """

    pod: str
    uid: str
    node: str
    action: str
    cause: str
    group: str  # the victim's
    freed: tuple[tuple[str, float], ...]
    moves_to: str
    moved: bool
    sides: tuple[Side, ...]


Effect = Bind | Pipeline | Evict


@dataclass(frozen=True, slots=True)
class Plan:
    """The evictions that one action decided for one group (or of one stale gang), which only make sense together.

    ``winners`` are the pods that get the room; a stale gang has none.
    """

    evictions: tuple[Evict, ...]
    winners: tuple[Pipeline, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """One object of the cluster, and no other of the same name where ``uid`` is given."""

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
    """Merge ``status`` into the object's status; a None removes the field."""

    ref: Ref
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Annotate:
    """Set annotations; a None removes one."""

    ref: Ref
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Set one condition of a pod. ``changes_status``: it had another status before, or was not there."""

    ref: Ref
    type: str
    status: str  # "True" or "False"
    reason: str
    message: str
    changes_status: bool = True


@dataclass(frozen=True, slots=True)
class Emit:
    """Tell people about the object by an Event."""

    ref: Ref
    type: str  # "Normal" or "Warning"
    reason: str
    message: str
    annotations: Mapping[str, str] = field(default_factory=dict)


Write = PatchStatus | Annotate | SetCondition | Emit


@dataclass(frozen=True, slots=True)
class ClaimVolume:
    """Reserve a free PersistentVolume for a claim; Kubernetes then binds the two. Both as they were decided on."""

    volume: Ref
    claim: Ref


@dataclass(frozen=True, slots=True)
class SelectNode:
    """Have a volume made for the claim where this node can use it."""

    claim: Ref
    node: str


VolumeWrite = ClaimVolume | SelectNode
