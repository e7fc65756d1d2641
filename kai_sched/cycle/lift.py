"""Lifting: the rows of a solution become a ``CycleResult`` in names. The counterpart of ``lowering.lower``.

Effects and queues are made at once. Pods, groups and nodes, which are as many as in the cluster, are made when they are
first read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from kai_sched.cycle.explain import ACTION_NAMES, SharedFacts, explain_group
from kai_sched.lowering.lower import Lowered
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.plan.effects import Bind, Effect, Evict, Pipeline, Side
from kai_sched.plan.result import CycleResult, GroupState, NodeState, PodState, QueueState
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import RESTS, Help, Status
from kai_sched.solver.eviction.pipelined_room import FREE
from kai_sched.solver.eviction.validate import diverge
from kai_sched.solver.pipeline import Solution

Value = TypeVar("Value")

STATUS_NAMES: dict[int, str] = {
    Status.SUCCEEDED: "Succeeded",
    Status.UNKNOWN: "Unknown",
    Status.GATED: "Gated",
    Status.PENDING: "Pending",
    Status.PIPELINED: "Pipelined",
    Status.ALLOCATED: "Binding",
    Status.BINDING: "Binding",
    Status.BOUND: "Bound",
    Status.RUNNING: "Running",
    Status.RELEASING: "Releasing",
    Status.STUCK_IN_RELEASING: "StuckInReleasing",
}


class Lifted(Mapping[str, Value]):
    """A mapping that is computed when it is first read."""

    def __init__(self, make: Callable[[], dict[str, Value]]) -> None:
        self._make = make
        self._made: dict[str, Value] | None = None

    def _table(self) -> dict[str, Value]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, key: str) -> Value:
        return self._table()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table())

    def __len__(self) -> int:
        return len(self._table())


def lift(lowered: Lowered, solution: Solution) -> CycleResult:
    """The result of a cycle in names, without the durations and the next deadline, which ``cycle.run`` adds."""
    return CycleResult(
        (*_evictions(lowered, solution), *_effects(lowered, solution)),
        _evicted(lowered, solution),
        Lifted(partial(_pods, lowered, solution)),
        Lifted(partial(_groups, lowered, solution)),
        _queues(lowered, solution),
        Lifted(partial(_nodes, lowered, solution)),
        frozenset(group.key for group in lowered.groups[solution.decisions.free == FREE]),
        searches=_searches(lowered, solution),
        leaving=_leaving(lowered, solution),
    )


def _leaving(lowered: Lowered, solution: Solution) -> dict[str, tuple[str, ...]]:
    """By node on which a pod waits: the pods that leave it, that is, pods being deleted, evicted or moved."""
    was, status, node = lowered.snapshot.tasks.node, solution.state.task.status, solution.state.task.node
    waits = status == Status.PIPELINED
    leaves = (was != NULL) & ((status == Status.RELEASING) | waits)
    leaves &= np.isin(was, node[waits])
    found: dict[str, list[str]] = {}
    for t in np.flatnonzero(leaves):
        found.setdefault(lowered.nodes[was[t]].name, []).append(lowered.pods[t].key)
    return {name: tuple(sorted(keys)) for name, keys in sorted(found.items())}


def _searches(lowered: Lowered, solution: Solution) -> dict[str, tuple[int, ...]]:
    """What the evicting actions found for each group, if some search was cut short or deferred; else nothing.

    For a group that got room from another action, a search that was cut short does not count.
    """
    found, rests = solution.decisions.help, lowered.snapshot.jobs.waits_until == RESTS
    if not (found == Help.TOO_LONG).any() and not rests.any():
        return {}
    found = np.where((found == Help.HELPED).any(axis=1, keepdims=True) & (found == Help.TOO_LONG), 0, found)
    rows = np.flatnonzero(found.any(axis=1) & ~rests)
    return {lowered.groups[j].key: tuple(found[j].tolist()) for j in rows}


def _effects(lowered: Lowered, solution: Solution) -> tuple[Effect, ...]:
    decisions = solution.decisions
    count = int(decisions.length[0])
    effects: list[Effect] = []
    columns = (decisions.task, decisions.node, decisions.waits)
    for t, n, waits in zip(*(column[:count].tolist() for column in columns), strict=True):
        if t == NULL:
            continue
        pod = lowered.pods[t]
        make = Pipeline if waits else Bind
        effects.append(make(pod.key, pod.uid, lowered.nodes[n].name))
    return tuple(effects)


def _evicted(lowered: Lowered, solution: Solution) -> tuple[str, ...]:
    decisions = solution.decisions
    return tuple(lowered.pods[t].key for t in decisions.eviction[: int(decisions.length[1]), 0].tolist())


def _evictions(lowered: Lowered, solution: Solution) -> tuple[Effect, ...]:
    """The evictions in the order of the decisions."""
    decisions, state, tasks = solution.decisions, solution.state, lowered.snapshot.tasks
    count = int(decisions.length[1])
    key_of = _group_key(lowered)
    effects: list[Effect] = []
    for row, (t, action, cause, n, moved) in enumerate(decisions.eviction[:count].tolist()):
        pod, j = lowered.pods[t], int(tasks.job[t])
        moves = state.task.status[t] == Status.PIPELINED
        victim, winner = int(lowered.snapshot.jobs.queue[j]), NULL
        if cause != NULL:
            winner = int(lowered.snapshot.jobs.queue[cause])
            if victim not in (NULL, winner):
                victim, winner = (int(q) for q in diverge(victim, winner, lowered.snapshot.queues.parent))
        sides = [
            _side(q, decisions.sides[row, at : at + 3].tolist(), lowered, solution)
            for q, at in ((victim, 0), (winner, 3))
            if q != NULL
        ]
        effects.append(
            Evict(
                pod.key,
                pod.uid,
                pod.node if n == NULL else lowered.nodes[n].name,
                ACTION_NAMES[action],
                key_of(cause) if cause != NULL else "",
                key_of(j),
                pod.shape.request,
                lowered.nodes[state.task.node[t]].name if moves else "",
                bool(moved),
                tuple(sides[:1] if victim == winner else sides),
            )
        )
    return tuple(effects)


def _side(q: int, held: list[float], lowered: Lowered, solution: Solution) -> Side:
    queue, book = lowered.queues.queues[q], solution.state.book
    quota, fair = book.quota[q].tolist(), book.fair[q].tolist()
    return Side(
        queue.name,
        queue.priority,
        (held[0], held[1], held[2]),
        (quota[0], quota[1], quota[2]),
        (fair[0], fair[1], fair[2]),
    )


def _never_ran(lowered: Lowered, solution: Solution) -> list[bool]:
    """(T,) whether the pending task got a node in this cycle and lost it again, so that it is pending as before."""
    was, status = lowered.snapshot.tasks.status, solution.state.task.status
    found: list[bool] = ((was == Status.PENDING) & (status == Status.RELEASING)).tolist()
    return found


def _pods(lowered: Lowered, solution: Solution) -> dict[str, PodState]:
    found: dict[str, PodState] = {}
    state = solution.state
    columns = (state.task.status.tolist(), state.task.node.tolist(), _never_ran(lowered, solution))
    for pod, status, n, waits in zip(lowered.pods, *columns, strict=True):
        if waits:
            status, n = Status.PENDING, NULL
        node = (pod.node or pod.expected_node) if n == NULL else lowered.nodes[n].name
        found[pod.key] = PodState(STATUS_NAMES[status], node)
    for pod, status in zip(lowered.omitted_pods, lowered.omitted_status.tolist(), strict=True):
        found[pod.key] = PodState(STATUS_NAMES[status], pod.node)
    return dict(sorted(found.items()))


def _group_key(lowered: Lowered) -> Callable[[int], str]:
    """The key in the result of each group, by row. The key of a bare pod is marked if a PodGroup has the same key."""
    groups, bare = lowered.groups, lowered.bare
    taken = {group.key for group in groups[~bare]} if bare.any() else frozenset[str]()

    def key_of(j: int) -> str:
        key: str = groups[j].key
        return bare_pod_group_key(key) if bare[j] and key in taken else key

    return key_of


def _groups(lowered: Lowered, solution: Solution) -> dict[str, GroupState]:
    jobs, state = lowered.snapshot.jobs, solution.state
    found: dict[str, GroupState] = {}
    shared = SharedFacts()
    status, node = state.task.status.copy(), state.task.node.copy()
    waits = np.array(_never_ran(lowered, solution), bool)
    status[waits], node[waits] = Status.PENDING, NULL
    key_of = _group_key(lowered)
    for j in range(len(lowered.groups)):
        key = key_of(j)
        first, end = int(jobs.task_ptr[j]), int(jobs.task_ptr[j + 1])
        counts: dict[str, int] = {}
        nodes: dict[str, int] = {}
        for t in range(first, end):
            name = STATUS_NAMES[int(status[t])]
            counts[name] = counts.get(name, 0) + 1
            if node[t] != NULL:
                name = lowered.nodes[node[t]].name
                nodes[name] = nodes.get(name, 0) + 1
        group = lowered.groups[j]
        pending = counts.keys() & {"Pending", "Gated"}
        found[key] = GroupState(
            key,
            group.queue,
            int(jobs.priority[j]),
            bool(jobs.preemptible[j]),
            _needed(lowered, j),
            dict(sorted(counts.items())),
            dict(sorted(nodes.items())),
            explain_group(j, lowered, solution, shared) if pending else None,
        )
    return dict(sorted(found.items()))


def _needed(lowered: Lowered, j: int) -> int:
    """The sum of the minimums of all pod sets; that some sub-groups may be optional is ignored."""
    layout = lowered.layouts[j]
    return sum(layout.minimum[row] for row in layout.pod_sets.values())


def _queues(lowered: Lowered, solution: Solution) -> tuple[QueueState, ...]:
    rows = lowered.queues.queues
    book = solution.state.book
    shares = (book.quota, book.limit, book.fair, book.held, book.held_fixed, book.asked)
    columns = [column.tolist() for column in shares]
    found: list[QueueState] = []
    stack = [(q, 0) for q in reversed(_children(lowered, len(rows)))]
    while stack:
        q, depth = stack.pop()
        quota, limit, fair, allocated, fixed, requested = (tuple(column[q]) for column in columns)
        queue = rows[q]
        found.append(
            QueueState(queue.name, queue.parent, depth, queue.priority, quota, limit, fair, allocated, fixed, requested)
        )
        stack.extend((child, depth + 1) for child in reversed(_children(lowered, q)))
    return tuple(found)


def _children(lowered: Lowered, q: int) -> list[int]:
    table = lowered.snapshot.queues
    children: list[int] = table.child[table.child_ptr[q] : table.child_ptr[q + 1]].tolist()
    return children


def _nodes(lowered: Lowered, solution: Solution) -> dict[str, NodeState]:
    allocatable = lowered.snapshot.nodes.allocatable
    idle, releasing = solution.state.idle, solution.state.releasing
    return {
        node.name: NodeState(
            dict(zip(lowered.resources, allocatable[n].tolist(), strict=True)),
            dict(zip(lowered.resources, idle[n].tolist(), strict=True)),
            dict(zip(lowered.resources, releasing[n].tolist(), strict=True)),
        )
        for n, node in enumerate(lowered.nodes)
    }
