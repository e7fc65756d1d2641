"""The fields of ``CycleResult``: what the operator, the reports and programs see of a cycle, in names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.model.claims.selectors import SelectorQuestion
from kai_sched.model.hints import NO_POOLS, PoolAmounts
from kai_sched.model.objects import Object
from kai_sched.plan.effects import Effect
from kai_sched.plan.reasons import Reason

# The resources of queues, in the order of every triple below. Units: millicores, bytes, devices.
QUEUE_RESOURCES = ("cpu", "memory", "gpu")


@dataclass(frozen=True, slots=True)
class PodState:
    """The status and the node of a pod at the end of the cycle.

    ``status`` is one of Pending, Gated, Binding, Pipelined, Bound, Running, Releasing, StuckInReleasing, Succeeded and
    Unknown.
    """

    status: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue at the end of the cycle. Triples are in the order of QUEUE_RESOURCES; infinity means unlimited."""

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

    ``counts`` has the number of its pods by status, ``nodes`` by node, placed pods included. ``reason`` says why pods
    are pending; it is None where none is.
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
    """The room of a node at the end of the cycle, in scheduler units by resource name ("gpu" for GPU devices).

    ``idle`` and ``releasing`` count whole GPUs; ``shared`` is what is left of those that pods share, once leaving pods
    have left.
    """

    allocatable: Mapping[str, float]
    idle: Mapping[str, float]
    releasing: Mapping[str, float]
    shared: float = 0.0


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The result of one scheduling cycle, in names.

    ``pods``, ``groups`` and ``nodes`` are computed when they are first read. All mappings are in canonical order.

    Attributes
    ----------
    effects
        What is to be done: evictions in the order of the decisions, then binds and pipelined pods.
    evicted
        Keys of the evicted pods, in the order of the decisions.
    pods, groups, nodes
        The state at the end of the cycle, by key.
    queues
        The queues depth first, siblings by age and uid.
    pipelined_free
        Groups that are pipelined onto room that is free already: a search for victims placed them there, and other
        placements changed after it. The next cycle needs to know them (``SchedulingHints``).
    solver_s, open_s, actions_s
        Seconds that the solver took, all steps before the first action, and each action by its name. 0 for a cycle
        without a timer.
    next_deadline_ns
        The next time at which the same cluster may give another result, in nanoseconds since the epoch; 0 for never.
    left_out
        Objects that the cycle was computed without, and the error that each of them causes.
    tried
        By evicting action that ran: for how many groups it found what (``snapshot.tables.Help``), by the name of that.
    simulated
        By such an action: how many sets of victims it simulated.
    searches
        Empty unless the search for victims of some group was cut short or deferred. Else, by pending group, what each
        evicting action found (``snapshot.tables.Help``); groups whose search was deferred are missing.
    hard_claims
        Pending groups whose search for the devices of their claims was cut.
    leaving
        By node on which a pod waits for room: the pods that are leaving the node.
    line
        Groups that wait, by key, in the order in which the next cycle tries them: the place of each, from 0.
    questions
        Selectors of devices that some pod waits for and that are not evaluated yet (``Cluster.selector_answers``).
    pool
        With fair shares of the whole cluster, what the node pool brings to the next division.
    """

    effects: tuple[Effect, ...]
    evicted: tuple[str, ...]
    pods: Mapping[str, PodState]
    groups: Mapping[str, GroupState]
    queues: tuple[QueueState, ...]
    nodes: Mapping[str, NodeState]
    pipelined_free: frozenset[str] = frozenset()
    solver_s: float = 0.0
    open_s: float = 0.0
    actions_s: Mapping[str, float] = field(default_factory=dict)
    next_deadline_ns: int = 0
    left_out: Mapping[tuple[type[Object], str], str] = field(default_factory=dict)
    tried: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    simulated: Mapping[str, int] = field(default_factory=dict)
    hard_claims: frozenset[str] = frozenset()
    searches: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    leaving: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    line: Mapping[str, int] = field(default_factory=dict)
    questions: tuple[SelectorQuestion, ...] = ()
    pool: PoolAmounts = NO_POOLS
