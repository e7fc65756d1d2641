"""Scenarios: which of the accumulated victims are to go together (semantics 4.5, the two generators)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Longs, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    CAPACITY,
    CAST,
    COUNTED,
    FIRST_POTENTIAL,
    FIRST_SCENE,
    FIRST_TASK,
    GROUP,
    GROUP_MARK,
    IN_JOB,
    IN_SCENE,
    KIND_CLASS,
    KIND_KNOWN,
    KIND_WANTED,
    KNOWN,
    KNOWN_GPUS,
    LAST_SCENE,
    MEMBER_OF,
    MOST_KINDS,
    N_KINDS,
    N_KNOWN,
    N_NODES,
    N_POTENTIAL,
    N_SCENE,
    NODE_ORDER,
    ON_NODE,
    POTENTIAL,
    POTENTIAL_GPUS,
    PROBE,
    RANK,
    RECORDED,
    REQUESTS,
    SCENE,
    SCENE_CLOCK,
    SCENE_MARK,
    SCENE_NODE,
    TIMES,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.accumulate import slots
from kai_sched.solver.state import NODE, STATUS, Finder, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_STUCK = int(Status.STUCK_IN_RELEASING)


@inner
def open_scene(snapshot: Snapshot, state: State, prey: Prey) -> None:
    """Begin a scenario with the recorded victims."""
    count = prey.counts
    count[SCENE_CLOCK] += 1
    count[N_SCENE] = 0
    for entry in range(count[N_KNOWN]):
        t = prey.lists[KNOWN, entry]
        join_scene(t, prey.task[t, MEMBER_OF], prey.task[t, RECORDED], snapshot, state, prey)


@inner
def join_scene(t: int, group: int, times: int, snapshot: Snapshot, state: State, prey: Prey) -> None:
    """Add a task to the scenario, which names it so many ``times``, and to the chain of its job."""
    count, job = prey.counts, prey.job
    entry = count[N_SCENE]
    count[N_SCENE] = entry + 1
    prey.lists[SCENE, entry] = t
    prey.task[t, MEMBER_OF] = group
    prey.task[t, TIMES] = times
    prey.task[t, IN_SCENE] = 0
    j = snapshot.tasks.job[t]
    if job[j, SCENE_MARK] != count[SCENE_CLOCK]:
        job[j, SCENE_MARK] = count[SCENE_CLOCK]
        job[j, FIRST_SCENE] = t + 1
    else:
        prey.task[job[j, LAST_SCENE], IN_SCENE] = t + 1
    job[j, LAST_SCENE] = t
    if state.task[t, NODE] != NULL:
        prey.node[state.task[t, NODE], SCENE_NODE] = count[SCENE_CLOCK]


@inner
def hosts(j: int, snapshot: Snapshot, state: State, prey: Prey) -> int:
    """Write the nodes that host pods of a job to ``prey.spot``, by name, each once; returns how many."""
    spot = prey.spot
    length = 0
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        n = state.task[t, NODE]
        if n == NULL or not IS_PIPELINED <= state.task[t, STATUS] <= IS_STUCK:
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
def local_scene(n: int, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> bool:
    """The scenario of one node: all potential tasks of every job that has one on node ``n``, and the recorded victims.

    Of those jobs it names the recorded ones once more, as the original does: for shares they count as often (4.5).
    False where there is none, or where it cannot make room for the wish.
    """
    if prey.node[n, FIRST_TASK] == 0:
        return False
    open_scene(snapshot, state, prey)
    start = prey.counts[N_SCENE]
    for entry in range(jobs_on(n, snapshot, state, prey)):
        j = prey.lists[CAST, entry]
        name_again(j, prey)
        t = prey.job[j, FIRST_POTENTIAL] - 1
        while t >= 0:
            join_scene(t, -1 - j, 1, snapshot, state, prey)
            t = prey.task[t, IN_JOB] - 1
    if start > 0:
        gather_groups(snapshot, prey)
    return scene_may_suffice(start, snapshot, state, finder, prey)


@inner
def jobs_on(n: int, snapshot: Snapshot, state: State, prey: Prey) -> int:
    """Write the jobs with potential victims on node ``n`` to the list CAST, as they came first; returns how many."""
    cast, task, first = prey.lists[CAST], prey.task, prey.job[:, FIRST_POTENTIAL]
    length = 0
    here = prey.node[n, FIRST_TASK]
    while here != 0:
        j = snapshot.tasks.job[here - 1]
        t = first[j] - 1
        group = task[t, GROUP]
        while state.task[t, NODE] != n:
            t = task[t, IN_JOB] - 1
        if t == here - 1:  # else the job is in already
            at = length
            while at > 0 and task[first[cast[at - 1]] - 1, GROUP] > group:
                cast[at] = cast[at - 1]
                at -= 1
            cast[at] = j
            length += 1
        here = task[here - 1, ON_NODE]
    return length


@inner
def name_again(j: int, prey: Prey) -> None:
    """Name what the scenario has of job ``j`` so far, which was recorded, as often again."""
    if prey.job[j, SCENE_MARK] == prey.counts[SCENE_CLOCK]:
        t = prey.job[j, FIRST_SCENE] - 1
        while t >= 0:
            prey.task[t, TIMES] *= 2
            t = prey.task[t, IN_SCENE] - 1


@inner
def gather_groups(snapshot: Snapshot, prey: Prey) -> None:
    """With node-local scenarios, all tasks of a job are one group."""
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        prey.task[t, MEMBER_OF] = -1 - snapshot.tasks.job[t]


@inner
def scene_may_suffice(start: int, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> bool:
    """Whether the nodes of the scenario could take the wish, each class by itself and all accumulated victims gone.

    The recorded victims come before ``start``; what they leave is known.
    """
    classes = snapshot.classes
    mark = prey.counts[SCENE_CLOCK] * MOST_KINDS
    for kind in range(prey.counts[N_KINDS]):
        room, wanted = prey.kind[kind, KIND_KNOWN], prey.kind[kind, KIND_WANTED]
        c = prey.kind[kind, KIND_CLASS]
        entry = start
        while room < wanted and entry < prey.counts[N_SCENE]:
            n = state.task[prey.lists[SCENE, entry], NODE]
            entry += 1
            if n == NULL or prey.node[n, COUNTED] == mark + kind:
                continue
            prey.node[n, COUNTED] = mark + kind
            if finder.verdicts[classes.signature[c], n] == OK:
                room += slots(classes.request[c], state.idle[n], state.releasing[n], prey.room[n, REQUESTS:])
        if room < wanted:
            return False
    return True


@inner
def sort_nodes(total: int, prey: Prey) -> None:
    """Sort the first ``total`` entries of RANK, places in NODE_ORDER, by capacity and then by place (heapsort)."""
    node, room = prey.node, prey.room
    for at in range(total // 2 - 1, -1, -1):
        sink_node(at, total, node, room)
    for end in range(total - 1, 0, -1):
        node[0, RANK], node[end, RANK] = node[end, RANK], node[0, RANK]
        sink_node(0, end, node, room)


@inner
def comes_later(a: int, b: int, node: Longs, room: Floats) -> bool:
    """Whether the node at place ``a`` of NODE_ORDER has more room than the one at ``b``, or as much and came later."""
    left, right = room[node[a, NODE_ORDER], CAPACITY], room[node[b, NODE_ORDER], CAPACITY]
    return left > right or (left == right and a > b)


@inner
def sink_node(at: int, total: int, node: Longs, room: Floats) -> None:
    """Restore the heap with the last node on top, from place ``at`` downwards."""
    while 2 * at + 1 < total:
        below = 2 * at + 1
        if below + 1 < total and comes_later(node[below + 1, RANK], node[below, RANK], node, room):
            below += 1
        if not comes_later(node[below, RANK], node[at, RANK], node, room):
            break
        node[at, RANK], node[below, RANK] = node[below, RANK], node[at, RANK]
        at = below


@inner
def free_gpus(state: State, prey: Prey) -> float:
    """Whole GPUs that are free on all nodes together, or will be, with the recorded victims gone."""
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += gpus_without_known(n, state, prey)
    return free


@inner
def gpus_without_known(n: int, state: State, prey: Prey) -> float:
    """Whole GPUs that node ``n`` has with the recorded victims gone; 0 where its pods ask for more than it has."""
    return float(max(0.0, state.idle[n, GPU] + state.releasing[n, GPU] + prey.room[n, KNOWN_GPUS]))


@inner
def rank_nodes(k: int, free: float, snapshot: Snapshot, state: State, prey: Prey) -> tuple[int, int]:
    """Rank the nodes with potential victims, tightest first, for the first ``k`` tasks of the wish.

    ``free`` (``free_gpus``): what all nodes together have with the recorded victims gone. Returns how
    many nodes can be of use, and how many of them are the shortest prefix with enough (-1: not even all).
    """
    prices, cls = snapshot.classes.quota, snapshot.tasks.cls
    pending, smallest = 0.0, np.inf
    for entry in range(k):
        amount = prices[cls[prey.wish[entry]], GPU]
        pending += amount
        smallest = min(smallest, amount)
    total = 0
    for place in range(prey.counts[N_NODES]):
        n = prey.node[place, NODE_ORDER]
        free -= gpus_without_known(n, state, prey)
        own = state.idle[n, GPU] + state.releasing[n, GPU]
        prey.room[n, CAPACITY] = max(0.0, own + prey.room[n, KNOWN_GPUS] + prey.room[n, POTENTIAL_GPUS])
        if smallest > 0.0 and prey.room[n, CAPACITY] < smallest:
            continue
        prey.node[total, RANK] = place
        total += 1
    sort_nodes(total, prey)
    need = max(0.0, pending - free)
    covered, size = 0.0, 0
    while covered < need and size < total:
        covered += prey.room[prey.node[prey.node[size, RANK], NODE_ORDER], CAPACITY]
        size += 1
    return total, size if covered >= need else -1


@inner
def spread_scene(size: int, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> bool:
    """The scenario of the first ``size`` ranked nodes: every batch with a task there, whole, and the recorded victims.

    False where it cannot make room for the wish.
    """
    count, lists = prey.counts, prey.lists
    open_scene(snapshot, state, prey)
    start, mark = count[N_SCENE], count[SCENE_CLOCK]
    for place in range(size):
        here = prey.node[prey.node[prey.node[place, RANK], NODE_ORDER], FIRST_TASK]
        while here != 0:
            lists[GROUP_MARK, prey.task[here - 1, GROUP]] = mark
            here = prey.task[here - 1, ON_NODE]
    for entry in range(count[N_POTENTIAL]):
        t = lists[POTENTIAL, entry]
        if lists[GROUP_MARK, prey.task[t, GROUP]] == mark:
            join_scene(t, count[PROBE] * 2**32 + prey.task[t, GROUP], 1, snapshot, state, prey)
    return scene_may_suffice(start, snapshot, state, finder, prey)
