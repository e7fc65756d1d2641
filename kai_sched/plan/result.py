"""What one cycle decided, in names: the only thing that callers see of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.model.objects import Object
from kai_sched.plan.effects import Effect
from kai_sched.plan.reasons import Reason

# The three resources that queues are about, in the order of every triple below: millicores, bytes, devices.
QUEUE_RESOURCES = ("cpu", "memory", "gpu")


@dataclass(frozen=True, slots=True)
class PodState:
    """Where a pod stands at the end of the cycle: Pending, Gated, Binding, Pipelined, Bound, Running, ..."""

    status: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue at the end of the cycle. Triples follow QUEUE_RESOURCES; infinity means unlimited."""

    name: str
    parent: str
    depth: int
    priority: int
    quota: tuple[float, float, float]
    limit: tuple[float, float, float]
    fair_share: tuple[float, float, float]
    allocated: tuple[float, float, float]
    allocated_non_preemptible: tuple[float, float, float]
    requested: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class GroupState:
    """A pod group at the end of the cycle.

    ``counts`` maps a pod status to how many of its pods have it; ``nodes`` maps a node to how many of its pods are or
    will be there; ``reason`` is None where nothing is pending.
    """

    key: str  # "namespace/name"
    queue: str
    priority: int
    preemptible: bool
    min_member: int
    counts: Mapping[str, int]
    nodes: Mapping[str, int]
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class NodeState:
    """Room left at the end of the cycle, by resource name in scheduler units ("gpu" for devices)."""

    allocatable: Mapping[str, float]
    idle: Mapping[str, float]
    releasing: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CycleResult:
    """All of it. The mappings are lifted from the solver's arrays when they are read, in canonical order.

    ``next_ns`` is when time alone may change what is decided (nanoseconds since the epoch), 0 where it will not.
    ``promised`` are the groups with a place that is free already, and yet not bound, as a search found it: later
    cycles are to be told (``Turns``).
    ``searches``, where the search for some group was cut or had to wait: what each action that evicts found for each
    group that waits (``snapshot.tables.Help``), those left out that had to wait.
    ``leaving``, by node: the pods that are leaving it at the end of the cycle, for nodes on which somebody waits.
    ``left_out`` are objects without which it was decided, and what the cycle raises with each of them.
    Seconds are 0 for a cycle without a timer: of the solver, of all up to the first action, of each action by its name.
    """

    effects: tuple[Effect, ...]
    evicted: tuple[str, ...]
    pods: Mapping[str, PodState]
    groups: Mapping[str, GroupState]
    queues: tuple[QueueState, ...]  # depth first, siblings by age and uid
    nodes: Mapping[str, NodeState]
    promised: frozenset[str] = frozenset()
    solver_s: float = 0.0
    open_s: float = 0.0
    actions_s: Mapping[str, float] = field(default_factory=dict)
    next_ns: int = 0
    left_out: Mapping[tuple[type[Object], str], str] = field(default_factory=dict)
    searches: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    leaving: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
