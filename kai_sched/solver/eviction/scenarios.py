"""Scenarios: which of the accumulated victims are to go together (semantics 4.5, the two generators)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status, Verdict
from kai_sched.solver.eviction.potential_victims import slots
from kai_sched.solver.eviction.tables import MOST_KINDS, Rooms, Search, SearchNodes
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_STUCK = int(Status.STUCK_IN_RELEASING)


@inner
def begin_scenario(snapshot: Snapshot, state: State, search: Search) -> None:
    """Begin a scenario with the recorded victims."""
    count = search.counts
    count.scenario_clock[0] += 1
    count.scenario[0] = 0
    for entry in range(count.recorded[0]):
        t = search.lists.recorded[entry]
        add_to_scenario(t, search.tasks.recorded_with[t], search.tasks.recorded[t], snapshot, state, search)


@inner
def add_to_scenario(t: int, group: int, times: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Add a task to the scenario, which names it so many ``times``, and to the chain of its job."""
    count, job = search.counts, search.jobs
    entry = count.scenario[0]
    count.scenario[0] = entry + 1
    search.lists.scenario[entry] = t
    search.tasks.recorded_with[t] = group
    search.tasks.times[t] = times
    search.tasks.next_in_scenario[t] = 0
    j = snapshot.tasks.job[t]
    if job.scenario_mark[j] != count.scenario_clock[0]:
        job.scenario_mark[j] = count.scenario_clock[0]
        job.first_in_scenario[j] = t + 1
    else:
        search.tasks.next_in_scenario[job.last_in_scenario[j]] = t + 1
    job.last_in_scenario[j] = t
    if state.task.node[t] != NULL:
        search.nodes.scenario_mark[state.task.node[t]] = count.scenario_clock[0]


@inner
def hosts(j: int, snapshot: Snapshot, state: State, search: Search) -> int:
    """Write the nodes that host pods of a job to ``search.hosts``, by name, each once; returns how many."""
    spot = search.hosts
    length = 0
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        n = state.task.node[t]
        if n == NULL or not IS_PIPELINED <= state.task.status[t] <= IS_STUCK:
            continue
        at = length
        while at > 0 and spot[at - 1] > n:
            at -= 1
        if at > 0 and spot[at - 1] == n:
            continue
        for place in range(length, at, -1):
            spot[place] = spot[place - 1]
        spot[at] = n
        length += 1
    return length


@inner
def node_local_scenario(n: int, ctx: Context, search: Search) -> bool:
    """The scenario of one node: all potential tasks of every job that has one on node ``n``, and the recorded victims.

    Of those jobs it names the recorded ones once more, as the original does: for shares they count as often (4.5).
    False where there is none, or where it cannot make room for the preemptor.
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
        while t >= 0:
            add_to_scenario(t, -1 - j, 1, snapshot, state, search)
            t = search.tasks.next_of_job[t] - 1
    if start > 0:
        gather_groups(snapshot, search)
    return scenario_may_suffice(start, ctx, search)


@inner
def jobs_on(n: int, snapshot: Snapshot, state: State, search: Search) -> int:
    """Write the jobs with potential victims on node ``n`` to ``lists.jobs``, as they came first; returns how many."""
    listed, task, first = search.lists.jobs, search.tasks, search.jobs.first_potential
    length = 0
    here = search.nodes.first_potential[n]
    while here != 0:
        j = snapshot.tasks.job[here - 1]
        t = first[j] - 1
        group = task.batch[t]
        while state.task.node[t] != n:
            t = task.next_of_job[t] - 1
        if t == here - 1:  # else the job is in already
            at = length
            while at > 0 and task.batch[first[listed[at - 1]] - 1] > group:
                listed[at] = listed[at - 1]
                at -= 1
            listed[at] = j
            length += 1
        here = task.next_on_node[here - 1]
    return length


@inner
def name_again(j: int, search: Search) -> None:
    """Name what the scenario has of job ``j`` so far, which was recorded, as often again."""
    if search.jobs.scenario_mark[j] == search.counts.scenario_clock[0]:
        t = search.jobs.first_in_scenario[j] - 1
        while t >= 0:
            search.tasks.times[t] *= 2
            t = search.tasks.next_in_scenario[t] - 1


@inner
def gather_groups(snapshot: Snapshot, search: Search) -> None:
    """With node-local scenarios, all tasks of a job are one group."""
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        search.tasks.recorded_with[t] = -1 - snapshot.tasks.job[t]


@inner
def scenario_may_suffice(start: int, ctx: Context, search: Search) -> bool:
    """Whether the scenario's nodes could take the preemptor, each class by itself and all accumulated victims gone.

    The recorded victims come before ``start``; what they leave is known.
    """
    state = ctx.state
    classes = ctx.snapshot.classes
    mark = search.counts.scenario_clock[0] * MOST_KINDS
    for kind in range(search.counts.kinds[0]):
        room, wanted = search.kinds.with_recorded[kind], search.kinds.wanted[kind]
        c = search.kinds.cls[kind]
        entry = start
        while room < wanted and entry < search.counts.scenario[0]:
            n = state.task.node[search.lists.scenario[entry]]
            entry += 1
            if n == NULL or search.nodes.counted[n] == mark + kind:
                continue
            search.nodes.counted[n] = mark + kind
            if ctx.finder.verdicts[classes.signature[c], n] == OK:
                room += slots(classes.request[c], state.idle[n], state.releasing[n], search.rooms.requests[n])
        if room < wanted:
            return False
    return True


@inner
def sort_nodes(total: int, search: Search) -> None:
    """Sort the first ``total`` entries of ``nodes.rank``, places in ``nodes.order``, by capacity, then place."""
    node, room = search.nodes, search.rooms
    for at in range(total // 2 - 1, -1, -1):
        sink_node(at, total, node, room)
    for end in range(total - 1, 0, -1):
        node.rank[0], node.rank[end] = node.rank[end], node.rank[0]
        sink_node(0, end, node, room)


@inner
def comes_later(a: int, b: int, node: SearchNodes, room: Rooms) -> bool:
    """Whether the node at place ``a`` of ``nodes.order`` has more room than that at ``b``, or came later."""
    left, right = room.capacity[node.order[a]], room.capacity[node.order[b]]
    return left > right or (left == right and a > b)


@inner
def sink_node(at: int, total: int, node: SearchNodes, room: Rooms) -> None:
    """Restore the heap with the last node on top, from place ``at`` downwards."""
    while 2 * at + 1 < total:
        below = 2 * at + 1
        if below + 1 < total and comes_later(node.rank[below + 1], node.rank[below], node, room):
            below += 1
        if not comes_later(node.rank[below], node.rank[at], node, room):
            break
        node.rank[at], node.rank[below] = node.rank[below], node.rank[at]
        at = below


@inner
def free_gpus(state: State, search: Search) -> float:
    """Whole GPUs that are free on all nodes together, or will be, with the recorded victims gone."""
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += gpus_without_known(n, state, search)
    return free


@inner
def gpus_without_known(n: int, state: State, search: Search) -> float:
    """Whole GPUs that node ``n`` has with the recorded victims gone; 0 where its pods ask for more than it has."""
    return float(max(0.0, state.idle[n, GPU] + state.releasing[n, GPU] + search.rooms.recorded_gpus[n]))


@inner
def rank_nodes(k: int, free: float, snapshot: Snapshot, state: State, search: Search) -> tuple[int, int]:
    """Rank the nodes with potential victims, tightest first, for the first ``k`` pending tasks.

    ``free`` (``free_gpus``): what all nodes together have with the recorded victims gone. Returns how
    many nodes can be of use, and how many of them are the shortest prefix with enough (-1: not even all).
    """
    prices, cls = snapshot.classes.quota, snapshot.tasks.cls
    pending, smallest = 0.0, np.inf
    for entry in range(k):
        amount = prices[cls[search.pending[entry]], GPU]
        pending += amount
        smallest = min(smallest, amount)
    total = 0
    for place in range(search.counts.nodes[0]):
        n = search.nodes.order[place]
        free -= gpus_without_known(n, state, search)
        own = state.idle[n, GPU] + state.releasing[n, GPU]
        search.rooms.capacity[n] = max(0.0, own + search.rooms.recorded_gpus[n] + search.rooms.potential_gpus[n])
        if smallest > 0.0 and search.rooms.capacity[n] < smallest:
            continue
        search.nodes.rank[total] = place
        total += 1
    sort_nodes(total, search)
    need = max(0.0, pending - free)
    covered, size = 0.0, 0
    while covered < need and size < total:
        covered += search.rooms.capacity[search.nodes.order[search.nodes.rank[size]]]
        size += 1
    return total, size if covered >= need else -1


@inner
def multi_node_scenario(size: int, ctx: Context, search: Search) -> bool:
    """The scenario of the first ``size`` ranked nodes: every batch with a task there, whole, and the recorded victims.

    False where it cannot make room for the preemptor.
    """
    snapshot, state = ctx.snapshot, ctx.state
    count, lists = search.counts, search.lists
    begin_scenario(snapshot, state, search)
    start, mark = count.scenario[0], count.scenario_clock[0]
    for place in range(size):
        here = search.nodes.first_potential[search.nodes.order[search.nodes.rank[place]]]
        while here != 0:
            lists.batch_mark[search.tasks.batch[here - 1]] = mark
            here = search.tasks.next_on_node[here - 1]
    for entry in range(count.potential[0]):
        t = lists.potential[entry]
        if lists.batch_mark[search.tasks.batch[t]] == mark:
            add_to_scenario(t, count.probe[0] * 2**32 + search.tasks.batch[t], 1, snapshot, state, search)
    return scenario_may_suffice(start, ctx, search)
