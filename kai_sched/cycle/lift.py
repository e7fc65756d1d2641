"""From rows of a solution to a ``CycleResult`` in names: effects, and the states of pods, groups, queues and nodes.

Effects and queues are made at once. Pods, groups and nodes, which are as many as in the cluster, are made when they are
first read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import TypeVar

import numpy as np

from kai_sched.cycle.claim_uses import claim_uses, freed_gpus
from kai_sched.cycle.explain.groups import ACTION_NAMES, SharedFacts, explain_group
from kai_sched.cycle.pool_amounts import pool_amounts
from kai_sched.lowering.claims.devices import DeviceBook
from kai_sched.lowering.lower import Lowered
from kai_sched.lowering.numa import zones_in_names
from kai_sched.model import resources
from kai_sched.model.gpu_memory import memory_price
from kai_sched.model.hints import NO_POOLS
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.numa import NO_PLACEMENT, Placement
from kai_sched.model.objects import Pod
from kai_sched.model.problems import some_of
from kai_sched.plan.effects import Bind, Effect, Evict, Pipeline, Side
from kai_sched.plan.result import CycleResult, GroupState, NodeState, PodState, QueueState
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.gpu_kinds import BY_DEVICES
from kai_sched.snapshot.tables import DEFERRED, GPU, Floats, Help, Longs, Status
from kai_sched.solver.pipeline import EVICTING
from kai_sched.solver.solution import HeldBefore, PlacedTask, Solution

Value = TypeVar("Value")

GROUP_LENGTH = 32  # characters of a new GPU group, as many as a UUID has digits
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

    def __repr__(self) -> str:
        return f"<{len(self):,} by name: {some_of(list(self))}>" if self else "{}"


def lift(lowered: Lowered, solution: Solution, now_ns: int, by_node: bool = False) -> CycleResult:
    """The result of the cycle at ``now_ns`` in names, without the durations and the next deadline, which ``cycle.run``
    adds. ``by_node``: reasons list nodes by name."""
    evictions = _evictions(lowered, solution)
    return CycleResult(
        (*evictions, *_effects(lowered, solution, now_ns)),
        tuple(eviction.pod for eviction in evictions),
        Lifted(partial(_pods, lowered, solution)),
        Lifted(partial(_groups, lowered, solution, by_node)),
        _queues(lowered, solution),
        Lifted(partial(_nodes, lowered, solution)),
        frozenset(group.key for group in lowered.groups[solution.pipelined_free]),
        tried=_tried(solution),
        simulated={name: int(solution.simulated[action]) for name, action in EVICTING.items()},
        searches=_searches(lowered, solution),
        leaving=_leaving(lowered, solution),
        hard_claims=_hard_claims(lowered, solution),
        line=Lifted(partial(_line, lowered, solution)),
        pool=pool_amounts(lowered, solution.pool) if solution.pool else NO_POOLS,
    )


def _tried(solution: Solution) -> dict[str, dict[str, int]]:
    """What the evicting actions found, and for how many groups."""
    found = {}
    for name, action in EVICTING.items():
        counts = np.bincount(solution.help[:, action], minlength=len(Help))
        tried = {code.name: int(counts[code]) for code in Help if code != Help.NOT_TRIED and counts[code]}
        if tried:
            found[name] = tried
    return found


def _line(lowered: Lowered, solution: Solution) -> dict[str, int]:
    key_of = _group_key(lowered)
    return {key_of(j): place for place, j in enumerate(solution.line())}


def _hard_claims(lowered: Lowered, solution: Solution) -> frozenset[str]:
    """The groups with pending pods for which the search for devices was cut by what it took itself."""
    tasks = lowered.snapshot.tasks
    hard = solution.hard_claims[tasks.cls] & (solution.status == Status.PENDING) & (tasks.job != NULL)
    return frozenset(lowered.groups[j].key for j in tasks.job[hard].tolist())


def _leaving(lowered: Lowered, solution: Solution) -> dict[str, tuple[str, ...]]:
    """By node on which a pod waits: the pods that leave it, that is, pods being deleted, evicted or moved."""
    was, status, node = lowered.snapshot.tasks.node, solution.status, solution.node
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
    found, rests = solution.help, lowered.snapshot.jobs.waits_until == DEFERRED
    if not (found == Help.TOO_LONG).any() and not rests.any():
        return {}
    found = np.where((found == Help.HELPED).any(axis=1, keepdims=True) & (found == Help.TOO_LONG), 0, found)
    rows = np.flatnonzero(found.any(axis=1) & ~rests)
    return {lowered.groups[j].key: tuple(found[j].tolist()) for j in rows}


def _effects(lowered: Lowered, solution: Solution, now_ns: int) -> tuple[Effect, ...]:
    effects: list[Effect] = []
    with_claims = lowered.snapshot.dra_claims.claim.size > 0
    plain = not with_claims and not lowered.snapshot.tasks.device.size
    with_volumes = lowered.snapshot.volumes.group.size > 0
    with_zones = lowered.snapshot.numa.held.size > 0
    for placed in solution.placements():
        pod, node = lowered.pods[placed.task], lowered.nodes[placed.node].name
        uses = claim_uses(placed.task, node, lowered, solution) if with_claims else ()
        if placed.waits:
            effects.append(Pipeline(pod.key, pod.uid, node, uses))
            continue
        groups: tuple[str, ...] = ()
        if not plain and pod.shape.share:
            groups = tuple(_gpu_group(lowered, node, d, now_ns) for d in solution.devices_of(placed.task))
        volumes = _volumes(placed.task, lowered, solution) if with_volumes else ()
        zones = _zones(placed, lowered, solution) if with_zones else NO_PLACEMENT
        effects.append(Bind(pod.key, pod.uid, node, groups, uses, volumes, zones))
    return tuple(effects)


def _zones(placed: PlacedTask, lowered: Lowered, solution: Solution) -> Placement:
    """What the task takes of the NUMA zones of its node."""
    return zones_in_names(solution.zones_of(placed.task), placed.node, lowered.numa)


def _volumes(t: int, lowered: Lowered, solution: Solution) -> tuple[tuple[str, str], ...]:
    """The volume of each claim of the task that waited for it, "" for one that is to be made."""
    rows = lowered.volumes
    return tuple((rows.claims[w], rows.volumes[v] if v != NULL else "") for w, v in solution.volumes_of(t))


def _gpu_group(lowered: Lowered, node: str, d: int, now_ns: int) -> str:
    """The group of the device: the one that it has, else a new one, which depends on the place and the time alone."""
    return lowered.gpu_groups[d] or sha256(f"{node} {d} {now_ns}".encode()).hexdigest()[:GROUP_LENGTH]


def _evictions(lowered: Lowered, solution: Solution) -> tuple[Evict, ...]:
    """The evictions in the order of the decisions."""
    key_of = _group_key(lowered)
    effects = []
    found = list(solution.evictions())
    claimed = freed_gpus([evicted.task for evicted in found], lowered)
    for evicted, gpus in zip(found, claimed, strict=True):
        pod, j = lowered.pods[evicted.task], int(lowered.snapshot.tasks.job[evicted.task])
        effects.append(
            Evict(
                pod.key,
                pod.uid,
                pod.node if evicted.node == NULL else lowered.nodes[evicted.node].name,
                ACTION_NAMES[evicted.action],
                key_of(evicted.preemptor) if evicted.preemptor != NULL else "",
                key_of(j),
                _freed(pod, evicted.node, gpus, lowered),
                lowered.nodes[evicted.moves_to].name if evicted.moves_to != NULL else "",
                evicted.moved,
                tuple(_side(held, lowered, solution) for held in evicted.held),
            )
        )
    return tuple(effects)


def _freed(pod: Pod, n: int, claimed: float, lowered: Lowered) -> tuple[tuple[str, float], ...]:
    """What the pod leaves on node ``n``: its request, its part of devices, and the GPUs that its claims give back."""
    share = pod.shape.share
    if share and n != NULL:
        memory = int(lowered.snapshot.nodes.device_memory[n])
        claimed += memory_price(share, memory) if share.memory_mib else share.quota
    if not claimed:
        return pod.shape.request
    amounts = dict(pod.shape.request)
    amounts[resources.GPU] = amounts.get(resources.GPU, 0.0) + claimed
    return tuple(sorted(amounts.items()))


def _side(held: HeldBefore, lowered: Lowered, solution: Solution) -> Side:
    queue = lowered.queues.queues[held.queue]
    quota, fair = (shares[held.queue].tolist() for shares in (solution.queues.quota, solution.queues.fair))
    return Side(
        queue.name,
        queue.priority,
        held.amounts,
        (quota[0], quota[1], quota[2]),
        (fair[0], fair[1], fair[2]),
    )


def _ends(lowered: Lowered, solution: Solution) -> tuple[Longs, Longs]:
    """(T,) status and (T,) row of the node of each pod as users see them at the end of the cycle.

    A pod that lost its place is pending as before. One that was to move and was evicted after that leaves the node on
    which it runs, not the one to which it was to move.
    """
    was, status = lowered.snapshot.tasks.node, solution.status
    node = np.where((status == Status.RELEASING) & (was != NULL), was, solution.node)
    return np.where(solution.lost, Status.PENDING, status), np.where(solution.lost, NULL, node)


def _pods(lowered: Lowered, solution: Solution) -> dict[str, PodState]:
    found: dict[str, PodState] = {}
    for pod, status, n in zip(lowered.pods, *(column.tolist() for column in _ends(lowered, solution)), strict=True):
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


def _groups(lowered: Lowered, solution: Solution, by_node: bool) -> dict[str, GroupState]:
    jobs = lowered.snapshot.jobs
    found: dict[str, GroupState] = {}
    shared = SharedFacts(by_node)
    status, node = _ends(lowered, solution)
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
    rows, table = lowered.queues.queues, lowered.snapshot.queues
    amounts = list(zip(*(map(tuple, column.tolist()) for column in solution.queues), strict=True))
    child, first = table.child.tolist(), table.child_ptr.tolist()
    found: list[QueueState] = []
    stack = [(q, 0) for q in reversed(child[first[len(rows)] : first[len(rows) + 1]])]
    while stack:
        q, depth = stack.pop()
        queue = rows[q]
        found.append(QueueState(queue.name, queue.parent, depth, queue.priority, *amounts[q]))
        stack.extend((below, depth + 1) for below in reversed(child[first[q] : first[q + 1]]))
    return tuple(found)


def _count_claimed(book: DeviceBook, solution: Solution, idle: Floats, releasing: Floats) -> None:
    """Set the GPUs (N, R) of nodes whose GPUs are devices of slices to those that no claim has, now or later."""
    now, later = solution.device_uses()
    counted = book.counted
    n_nodes, there = len(idle), book.gpus > 0.0
    free_now = np.bincount(book.local[counted & (now == 0)], minlength=n_nodes)
    free_later = np.bincount(book.local[counted & (later == 0)], minlength=n_nodes)
    idle[there, GPU], releasing[there, GPU] = free_now[there], (free_later - free_now)[there]


def _nodes(lowered: Lowered, solution: Solution) -> dict[str, NodeState]:
    allocatable = lowered.snapshot.nodes.allocatable
    idle, releasing = solution.idle.copy(), solution.releasing.copy()
    by_devices = allocatable == BY_DEVICES
    if by_devices.any():
        allocatable, idle[by_devices], releasing[by_devices] = np.where(by_devices, 0.0, allocatable), 0.0, 0.0
    if lowered.claims.book is not None:
        _count_claimed(lowered.claims.book, solution, idle, releasing)
    return {
        node.name: NodeState(
            dict(zip(lowered.resources, allocatable[n].tolist(), strict=True)),
            dict(zip(lowered.resources, idle[n].tolist(), strict=True)),
            dict(zip(lowered.resources, releasing[n].tolist(), strict=True)),
            float(solution.shared_left[n]),
        )
        for n, node in enumerate(lowered.nodes)
    }
