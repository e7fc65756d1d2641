"""Original search only: which accumulated victims make a scenario, of one node or of several, and how nodes are ranked
(semantics 4.5).

A scenario is a list of tasks, ``lists.scenario``: the recorded victims first, then the potential victims that the
generator chooses. The node-local generator takes all potential victims of the jobs that have one on a certain node. The
multi-node generator takes the potential victims of a growing number of nodes, those with the least room first. The
minimal search only uses ``add_to_scenario`` and ``list_nodes_of_job``.

Cost: O(length of the scenario x R) for a scenario, O(N + n log n) to rank n nodes with potential victims.

Invariant: nothing is evicted here. A scenario that could not make room by ``scenario_may_suffice`` is not simulated;
this bound is too high at times and never too low (4.6). Marks of the scenario are current where they equal
``counts.scenario_clock``, so that a new scenario has nothing to take back.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.scenario import add_to_scenario
from kai_sched.solver.eviction.tables import MOST_KINDS, Rooms, Search, SearchNodes
from kai_sched.solver.eviction.victims.potential import slots
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_STUCK = int(Status.STUCK_IN_RELEASING)
MOST_TIMES = 1024  # that a scenario names a task; a gang of 500 pods may come to it


@inner
def begin_scenario(snapshot: Snapshot, state: State, search: Search) -> None:
    """Begin a scenario with the recorded victims.

    Writes ``lists.scenario`` (T + 1,) and the marks of the scenario in place. A recorded victim is named as often as
    when it was recorded (``tasks.recorded`` (T,)).
    """
    count = search.counts
    count.scenario_clock[0] += 1
    count.scenario[0] = 0
    for entry in range(count.recorded[0]):
        t = search.lists.recorded[entry]
        add_to_scenario(t, search.tasks.recorded_with[t], search.tasks.recorded[t], snapshot, state, search)


@inner
def node_local_scenario(n: int, ctx: Context, search: Search) -> bool:
    """Make the scenario of node ``n``: all potential victims of each job that has one there, and the recorded victims.

    Recorded victims of those jobs are named once more, as in v0.17.0: for shares they then count twice as often (4.5).
    Writes the scenario in place, with the chain ``tasks.next_in_scenario`` (T,).

    Returns
    -------
    bool
        False: no potential victim is on the node, or the scenario cannot make room for the preemptor. It is not
        simulated.
    """
    snapshot, state = ctx.snapshot, ctx.state
    if search.nodes.first_potential[n] == 0:
        return False
    begin_scenario(snapshot, state, search)
    start = search.counts.scenario[0]
    for entry in range(jobs_on(n, snapshot, state, search)):
        j = search.lists.jobs[entry]
        name_again(j, search)
        t = search.jobs.first_potential[j] - 1
        while t >= 0:  # Bound: the victims of the job, each once.
            add_to_scenario(t, -1 - j, 1, snapshot, state, search)
            t = search.tasks.next_of_job[t] - 1
    if start > 0:
        gather_groups(snapshot, search)
    return scenario_may_suffice(start, ctx, search)


@inner
def jobs_on(n: int, snapshot: Snapshot, state: State, search: Search) -> int:
    """Write the jobs with potential victims on node ``n`` to ``lists.jobs`` (T + 1,), and return how many there are.

    They come in the order in which their first chunk was accumulated. Cost: O(potential victims of these jobs + jobs
    squared).
    """
    listed, task, first = search.lists.jobs, search.tasks, search.jobs.first_potential
    length = 0
    here = search.nodes.first_potential[n]
    while here != 0:  # Bound: the victims on the node, each once.
        j = snapshot.tasks.job[here - 1]
        t = first[j] - 1
        chunk = task.chunk_of[t]
        while state.task.node[t] != n:  # Bound: the task of ``here`` is in the chain of its job.
            t = task.next_of_job[t] - 1
        # The chain of the node meets several tasks of a job. The job is entered at the first of its tasks that is on
        # the node.
        if t == here - 1:  # else the job is in already
            at = length
            while at > 0 and task.chunk_of[first[listed[at - 1]] - 1] > chunk:  # Bound: ``at`` falls.
                listed[at] = listed[at - 1]
                at -= 1
            listed[at] = j
            length += 1
        here = task.next_on_node[here - 1]
    return length


@inner
def name_again(j: int, search: Search) -> None:
    """Double how often the scenario names the tasks of job ``j`` that it has so far, in place (``tasks.times`` (T,)).

    These are the recorded victims of the job. Nothing happens if it has none. ``rules.validate`` looks at a task as
    often as it is named, hence the bound.
    """
    if search.jobs.scenario_mark[j] == search.counts.scenario_clock[0]:
        t = search.jobs.first_in_scenario[j] - 1
        while t >= 0:  # Bound: the victims of the job, each once.
            search.tasks.times[t] = min(2 * search.tasks.times[t], MOST_TIMES)
            t = search.tasks.next_in_scenario[t] - 1


@inner
def gather_groups(snapshot: Snapshot, search: Search) -> None:
    """Let all tasks of a job be one group of the scenario, as node-local scenarios are recorded by job.

    Writes ``tasks.recorded_with`` (T,) in place, also of victims that a probe recorded with other groups.
    """
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        search.tasks.recorded_with[t] = -1 - snapshot.tasks.job[t]


@inner
def scenario_may_suffice(start: int, ctx: Context, search: Search) -> bool:
    """Return whether there could be room for the preemptor with the victims of the scenario gone, each class by itself.

    Claim: if this is False, the simulation of the scenario fails. Proof: room exists now, or the recorded victims leave
    it, which ``kinds.with_recorded`` (4,) counts; all else is on nodes that other victims of the scenario leave. Each
    of these nodes counts with all pods that fit there once all accumulated victims are gone, which are at least those
    of the scenario. Slots that both parts count make the bound weaker, not wrong. The sum ends as soon as it is large
    enough.

    Parameters
    ----------
    start : int
        The first entry of ``lists.scenario`` (T + 1,) that is no recorded victim.
    """
    state = ctx.state
    classes = ctx.snapshot.classes
    mark = search.counts.scenario_clock[0] * MOST_KINDS
    for kind in range(search.counts.kinds[0]):
        room, wanted = search.kinds.with_recorded[kind], search.kinds.wanted[kind]
        c = search.kinds.cls[kind]
        entry = start
        while room < wanted and entry < search.counts.scenario[0]:  # Bound: ``entry`` grows.
            n = state.task.node[search.lists.scenario[entry]]
            entry += 1
            if n == NULL or search.original.counted[n] == mark + kind:
                continue
            search.original.counted[n] = mark + kind
            if ctx.finder.verdicts[classes.signature[c], n] == OK:
                room += slots(classes.request[c], state.idle[n], state.releasing[n], search.rooms.requests[n])
        if room < wanted:
            return False
    return True


@inner
def sort_nodes(total: int, search: Search) -> None:
    """Sort the first ``total`` entries of ``original.rank`` (N,) in place: the least room first, ties by place.

    Entries are places in ``nodes.order``. The room is ``rooms.capacity`` (N,), in GPUs. Heapsort, O(n log n).
    """
    rank = search.original.rank
    for at in range(total // 2 - 1, -1, -1):
        sink_node(at, total, search)
    for end in range(total - 1, 0, -1):
        rank[0], rank[end] = rank[end], rank[0]
        sink_node(0, end, search)


@inner
def comes_later(a: int, b: int, node: SearchNodes, room: Rooms) -> bool:
    """Return whether the node at place ``a`` of ``nodes.order`` (N,) has more room than at ``b``, or came later."""
    left, right = room.capacity[node.order[a]], room.capacity[node.order[b]]
    return left > right or (left == right and a > b)


@inner
def sink_node(at: int, total: int, search: Search) -> None:
    """Restore the heap of ``original.rank`` (N,), the most room on top, from place ``at`` downwards, in place."""
    rank, node, room = search.original.rank, search.nodes, search.rooms
    while 2 * at + 1 < total:  # Bound: the depth of the heap.
        below = 2 * at + 1
        if below + 1 < total and comes_later(rank[below + 1], rank[below], node, room):
            below += 1
        if not comes_later(rank[below], rank[at], node, room):
            break
        rank[at], rank[below] = rank[below], rank[at]
        at = below


@inner
def free_gpus_without_recorded(state: State, search: Search) -> float:
    """Return how many GPUs are free on all nodes together, now or later, with the recorded victims gone.

    Reads ``idle`` and ``releasing`` (N, R). Cost: O(N), once for each probe.
    """
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += gpus_without_recorded(n, state, search)
    return free


@inner
def lacks_gpus(t: int, snapshot: Snapshot, state: State) -> bool:
    """Return whether task ``t`` requests more GPUs than are idle or releasing on all nodes together.

    If so, some GPU of a victim has to leave its queue for good, which the precedence proof uses. Reads
    ``state.idle`` and ``state.releasing`` (N, R).
    """
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    return bool(free < snapshot.classes.request[snapshot.tasks.cls[t], GPU])


@inner
def gpus_without_recorded(n: int, state: State, search: Search) -> float:
    """Return how many GPUs node ``n`` has free, now or later, with the recorded victims gone; never less than 0.

    A node that holds more than it has takes no room from others. Reads ``rooms.recorded_gpus`` (N,).
    """
    return max(0.0, in_hundredths(state.idle[n, GPU] + state.releasing[n, GPU] + search.rooms.recorded_gpus[n]))


@inner
def gpus_without_victims(n: int, state: State, search: Search) -> float:
    """Return the same with all accumulated victims gone, too. Reads ``rooms.potential_gpus`` (N,) besides."""
    own = state.idle[n, GPU] + state.releasing[n, GPU]
    room = own + search.rooms.recorded_gpus[n] + search.rooms.potential_gpus[n]
    return max(0.0, in_hundredths(room))


@inner
def in_hundredths(gpus: float) -> float:
    """Return a number of GPUs, in hundredths.

    To the nearest: queues pay for parts of GPUs rounded down, and nodes of as many GPUs must not differ by that.
    """
    return float(np.floor(100.0 * gpus + 0.5) / 100.0)


@inner
def rank_nodes(k: int, free: float, snapshot: Snapshot, state: State, search: Search) -> tuple[int, int]:
    """Rank the nodes with potential victims by room, the least first, and find the shortest prefix with enough GPUs.

    Writes ``rooms.capacity`` (N,), the GPUs that a node could have free with all accumulated victims gone, and
    ``original.rank`` (N,), in place.

    Parameters
    ----------
    k : int
        The number of pending tasks that the probe is for.
    free : float
        The GPUs that all nodes have free with the recorded victims gone (``free_gpus_without_recorded``).

    Returns
    -------
    total : int
        The number of ranked nodes. A node on which not even the smallest pending task fits is left out.
    size : int
        The length of the shortest prefix that has the GPUs which other nodes do not have; -1 if all are not enough.
    """
    requests, cls = snapshot.classes.request, snapshot.tasks.cls
    pending, smallest = 0.0, np.inf
    for entry in range(k):
        amount = in_hundredths(requests[cls[search.pending[entry]], GPU])
        pending += amount
        smallest = min(smallest, amount)
    total = 0
    for place in range(search.counts.nodes[0]):
        n = search.nodes.order[place]
        free -= gpus_without_recorded(n, state, search)
        search.rooms.capacity[n] = gpus_without_victims(n, state, search)
        if smallest > 0.0 and search.rooms.capacity[n] < smallest:
            continue
        search.original.rank[total] = place
        total += 1
    sort_nodes(total, search)
    # What is left in ``free`` is on nodes without potential victims. Only the rest has to come from ranked nodes.
    need = max(0.0, pending - free)
    covered, size = 0.0, 0
    while covered < need and size < total:  # Bound: ``size`` grows.
        covered += search.rooms.capacity[search.nodes.order[search.original.rank[size]]]
        size += 1
    return total, size if covered >= need else -1


@inner
def multi_node_scenario(size: int, ctx: Context, search: Search) -> bool:
    """Make the scenario of the first ``size`` ranked nodes: each chunk with a task there, and the recorded victims.

    Writes the scenario in place (T + 1,). Tasks come in the order of accumulation, not by node.

    Returns
    -------
    bool
        False: the scenario cannot make room for the preemptor. It is not simulated.
    """
    snapshot, state = ctx.snapshot, ctx.state
    count, lists = search.counts, search.lists
    begin_scenario(snapshot, state, search)
    start, mark = count.scenario[0], count.scenario_clock[0]
    for place in range(size):
        here = search.nodes.first_potential[search.nodes.order[search.original.rank[place]]]
        while here != 0:  # Bound: the victims on the node, each once.
            search.original.chunk_mark[search.tasks.chunk_of[here - 1]] = mark
            here = search.tasks.next_on_node[here - 1]
    for entry in range(count.potential[0]):
        t = lists.potential[entry]
        if search.original.chunk_mark[search.tasks.chunk_of[t]] == mark:
            # The number of a chunk is unique only within one accumulation, and recorded victims come from earlier
            # ones.
            add_to_scenario(t, count.accumulation[0] * 2**32 + search.tasks.chunk_of[t], 1, snapshot, state, search)
    return scenario_may_suffice(start, ctx, search)
