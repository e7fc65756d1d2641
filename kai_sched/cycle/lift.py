"""Numbers to names: the solver's rows become a result that people and programs can read.

Effects and queues are made at once; the rest, which is as long as the cluster, is made when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from kai_sched.cycle.explain import Known, explain_group
from kai_sched.lowering.lower import Lowered
from kai_sched.plan.effects import Bind, Effect, Pipeline
from kai_sched.plan.result import CycleResult, GroupState, NodeState, PodState, QueueState
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.solver.pipeline import Solution
from kai_sched.solver.state import ASKED, FAIR, HELD, HELD_FIXED, LIMIT, NODE, QUOTA, STATUS

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
    """A mapping that is made on the first look at it."""

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


def lift(lowered: Lowered, solution: Solution, solver_s: float) -> CycleResult:
    """The result of a cycle in names."""
    return CycleResult(
        _effects(lowered, solution),
        (),
        Lifted(partial(_pods, lowered, solution)),
        Lifted(partial(_groups, lowered, solution)),
        _queues(lowered, solution),
        Lifted(partial(_nodes, lowered, solution)),
        solver_s,
    )


def _effects(lowered: Lowered, solution: Solution) -> tuple[Effect, ...]:
    decisions = solution.decisions
    count = int(decisions.length[0])
    effects: list[Effect] = []
    columns = (decisions.task, decisions.node, decisions.waits)
    for t, n, waits in zip(*(column[:count].tolist() for column in columns), strict=True):
        pod = lowered.pods[t]
        make = Pipeline if waits else Bind
        effects.append(make(pod.key, pod.uid, lowered.nodes[n].name))
    return tuple(effects)


def _pods(lowered: Lowered, solution: Solution) -> dict[str, PodState]:
    found: dict[str, PodState] = {}
    state = solution.state
    for pod, status, n in zip(lowered.pods, state.task[:, STATUS].tolist(), state.task[:, NODE].tolist(), strict=True):
        found[pod.key] = PodState(STATUS_NAMES[status], pod.node if n == NULL else lowered.nodes[n].name)
    for pod, status in zip(lowered.spare, lowered.spare_status.tolist(), strict=True):
        found[pod.key] = PodState(STATUS_NAMES[status], pod.node)
    return dict(sorted(found.items()))


def group_keys(lowered: Lowered) -> list[str]:
    """The key of each group in the result: "namespace/name".

    A pod without a group is one of its own name, marked where a real group has that name.
    """
    taken = {group.key for group, bare in zip(lowered.groups, lowered.bare, strict=True) if not bare}
    keys = []
    for group, bare in zip(lowered.groups, lowered.bare, strict=True):
        keys.append(f"pod:{group.key}" if bare and group.key in taken else group.key)
    return keys


def _groups(lowered: Lowered, solution: Solution) -> dict[str, GroupState]:
    jobs, state = lowered.snapshot.jobs, solution.state
    found: dict[str, GroupState] = {}
    known = Known()
    for j, key in enumerate(group_keys(lowered)):
        first, end = int(jobs.task_ptr[j]), int(jobs.task_ptr[j + 1])
        counts: dict[str, int] = {}
        nodes: dict[str, int] = {}
        for t in range(first, end):
            name = STATUS_NAMES[int(state.task[t, STATUS])]
            counts[name] = counts.get(name, 0) + 1
            if state.task[t, NODE] != NULL:
                node = lowered.nodes[state.task[t, NODE]].name
                nodes[node] = nodes.get(node, 0) + 1
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
            explain_group(j, lowered, solution, known) if pending else None,
        )
    return dict(sorted(found.items()))


def _needed(lowered: Lowered, j: int) -> int:
    """Pods that the group needs at the least, optional sub-groups left out of account."""
    layout = lowered.layouts[j]
    return sum(layout.minimum[row] for row in layout.pod_sets.values())


def _queues(lowered: Lowered, solution: Solution) -> tuple[QueueState, ...]:
    rows = lowered.queues.queues
    book = solution.state.book
    columns = [book[:, column : column + 3].tolist() for column in (QUOTA, LIMIT, FAIR, HELD, HELD_FIXED, ASKED)]
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
