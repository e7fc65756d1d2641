"""A sound bound that cuts the original search (4.5, 4.7): every victim would be placed again before the preemptor.

In a simulation victims and the preemptor compete for room in the order of queues. Two facts make a victim useless:

1. Its leaf comes before the preemptor's as long as the victim is pending, so it is placed again before the preemptor.
2. Fair shares let the preemptor's queue take nothing from its queue, so the validator rejects a scenario without it.

If one of them holds for every possible victim, no scenario can succeed. The bound looks at the preemptor's first task
and at no recorded victims: where the first task finds no room, there is no second.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Longs, Settings, Snapshot, Status, Verdict
from kai_sched.solver.eviction.potential_victims import is_overcommitted, slots_now
from kai_sched.solver.eviction.tables import JobOrder, Search, SearchQueues
from kai_sched.solver.eviction.validate import diverge, may_lose_one
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import count_pending
from kai_sched.solver.kernels.gang import AT_MINIMUM, BELOW_MINIMUM
from kai_sched.solver.kernels.order import goes_first
from kai_sched.solver.state import Book, Context, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def all_victims_come_back(p: int, ctx: Context, search: Search) -> bool:
    """Whether no scenario can leave room for job ``p``; False: who knows.

    Sets WEIGHED, ALIKE and, for each leaf, SHIELDED, by which ``may_leave`` judges single scenarios.
    """
    snapshot = ctx.snapshot
    queue, leaves, parent = search.queues, search.leaves, snapshot.queues.parent
    clear(search)
    like, moved = NULL, False
    alike = search.kinds.now[0] == 0
    for q in range(parent.shape[0]):
        if queue.is_open[q] == 0.0:
            continue
        if leaves.known[q] == 0.0 or search.counts.runtimes[0] == 1:
            survey(q, ctx, search)
        if leaves.last_victim[q] == 0.0:
            continue
        queue.victim_gpus[q], queue.last_victim[q] = leaves.victim_gpus[q], leaves.last_victim[q]
        moved = moved or leaves.moved[q] > 0.0
        queue.smallest_victim[q], queue.fewest_pods[q] = leaves.smallest_victim[q], leaves.fewest_pods[q]
        kind = int(leaves.alike[q]) - 1
        alike = alike and kind != NULL and keeps_limits(q, snapshot, ctx.state.book)
        alike = alike and (like == NULL or are_alike(kind, like, snapshot))
        like = kind
    alike = alike and like != NULL and is_full(like, ctx)
    search.counts.alike[0] = like + 1 if alike else 0
    search.counts.precedence_known[0] = 1
    nobody = all_stay(p, ctx, search)
    for q in range(parent.shape[0]):
        if queue.is_open[q] == 1.0 and queue.last_victim[q] > 0.0:
            _, side = diverge(snapshot.jobs.queue[p], q, parent)
            queue.cannot_stay_evicted[q] = queue.cannot_lose[side]
    return nobody and not moved


@inner
def survey(q: int, ctx: Context, search: Search) -> None:
    """Note in ``search.leaves`` what the possible victims of leaf ``q`` hold and whether they are alike."""
    snapshot = ctx.snapshot
    jobs, leaves = snapshot.jobs, search.leaves
    base, like, anybody = search.victims.heap.base[q], NULL, False
    leaves.moved[q] = 0.0
    for at in range(search.victims.heap.begin[q], search.victims.heap.end[q]):
        v = search.victims.jobs.listed[base + at]
        if search.victims.jobs.skip[v] == search.counts.clock[0]:
            continue
        if like != NULL or not anybody:
            like = common_class(v, like, ctx, search)
        anybody = True
        pods = 0
        for t in range(jobs.task_ptr[v], jobs.task_ptr[v + 1]):
            if IS_PIPELINED <= ctx.state.task.status[t] <= IS_RUNNING:
                pods += 1
                note_victim(t, q, snapshot, search)
                leaves.moved[q] += search.tasks.left_node[t] != 0
        enter(v, q, pods, ctx.settings, jobs.priority, search.queues)
    leaves.victim_gpus[q], leaves.last_victim[q] = search.queues.victim_gpus[q], search.queues.last_victim[q]
    leaves.smallest_victim[q], leaves.fewest_pods[q] = search.queues.smallest_victim[q], search.queues.fewest_pods[q]
    leaves.alike[q], leaves.known[q] = like + 1.0, 1.0


@inner
def may_leave(p: int, ctx: Context, search: Search) -> bool:
    """Whether some victim of the scenario, in which nobody is recorded, may stay away for good."""
    snapshot = ctx.snapshot
    jobs, tasks = snapshot.jobs, snapshot.tasks
    exposed = False
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        if search.counts.local[0] == 1 and has_two_homes(t, snapshot, ctx.state, search):
            return True
        exposed = exposed or search.queues.cannot_stay_evicted[jobs.queue[tasks.job[t]]] == 0.0
    if not exposed:
        return False
    clear(search)
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        j = tasks.job[t]
        q = jobs.queue[j]
        note_victim(t, q, snapshot, search)
        if search.jobs.first_in_scenario[j] == t + 1:
            enter(j, q, count_in_scenario(j, search), ctx.settings, jobs.priority, search.queues)
    return not all_stay(p, ctx, search)


@inner
def count_in_scenario(j: int, search: Search) -> int:
    """How many tasks of job ``j`` the scenario has."""
    length, t = 0, search.jobs.first_in_scenario[j]
    while t != 0:
        length, t = length + 1, search.tasks.next_in_scenario[t - 1]
    return length


@inner
def has_two_homes(t: int, snapshot: Snapshot, state: State, search: Search) -> bool:
    """Whether task ``t`` may go back to the node that it left before, and take no room (``evict.place_in_search``).

    There is room on that node if there is now, or where somebody leaves it in this scenario.
    """
    left = search.tasks.left_node[t] - 1
    if left == NULL:
        return False
    if search.nodes.scenario_mark[left] == search.counts.scenario_clock[0]:
        return True
    request = snapshot.classes.request[snapshot.tasks.cls[t]]
    return slots_now(request, state.idle[left], state.releasing[left]) > 0


@inner
def clear(search: Search) -> None:
    """Nobody is away."""
    for q in range(search.queues.is_open.shape[0]):
        search.queues.last_victim[q] = 0
        search.queues.victim_gpus[q] = 0.0
        search.queues.smallest_victim[q] = np.inf
        search.queues.fewest_pods[q] = np.inf


@inner
def note_victim(t: int, q: int, snapshot: Snapshot, search: Search) -> None:
    """Note that task ``t`` of leaf ``q`` may be away."""
    gpus = snapshot.classes.quota[snapshot.tasks.cls[t], GPU]
    search.queues.victim_gpus[q] += gpus
    if gpus > 0.0:
        search.queues.smallest_victim[q] = min(search.queues.smallest_victim[q], gpus)


@inner
def enter(v: int, q: int, pods: int, settings: Settings, priority: Longs, queue: SearchQueues) -> None:
    """Note that job ``v`` of leaf ``q`` may be away, with so many ``pods``, and whether it is the last of its leaf."""
    queue.fewest_pods[q] = min(queue.fewest_pods[q], pods)
    last = int(queue.last_victim[q]) - 1
    if last == NULL:
        later = True
    elif settings.priority_order == 1 and priority[v] != priority[last]:
        later = priority[v] < priority[last]
    else:
        later = v > last
    if later:
        queue.last_victim[q] = v + 1


@inner
def all_stay(p: int, ctx: Context, search: Search) -> bool:
    """Whether of all that are enlisted nobody can stay away for good. Sets STAYS beside the path of ``p``.

    From the leaf upwards, as whoever stays away below a queue makes it hold less.
    """
    settings, snapshot = ctx.settings, ctx.snapshot
    queue, queues, parent = search.queues, snapshot.queues, snapshot.queues.parent
    for q in range(parent.shape[0] - 1, -1, -1):
        if queue.last_victim[q] > 0.0 and parent[q] != NULL:
            queue.last_victim[parent[q]] = 1.0
            queue.smallest_victim[parent[q]] = min(queue.smallest_victim[parent[q]], queue.smallest_victim[q])
            queue.victim_gpus[parent[q]] += queue.victim_gpus[q]
    own = snapshot.jobs.queue[p]
    a, gone, nobody = own, 0.0, True
    if search.counts.alike[0] > 0:
        ask_before(p, settings, snapshot, search)
    while a != NULL:
        row = parent[a] if parent[a] != NULL else parent.shape[0]
        lost = gone
        for child in range(queues.child_ptr[row], queues.child_ptr[row + 1]):
            b = queues.child[child]
            if b == a or queue.last_victim[b] == 0.0:
                continue
            beside = a == own and queues.child_ptr[b] == queues.child_ptr[b + 1]
            stays = beside and search.counts.alike[0] > 0 and come_first(b, a, ctx, search)
            if not stays and search.counts.lacking[0] == 1:
                stays = not may_lose_one(a, b, lost, queue.smallest_victim[b], ctx, search)
            queue.cannot_lose[b] = 1.0 if stays else 0.0
            nobody = nobody and stays
            if settings.consolidating_reclaim == 0 or not stays:
                gone += queue.victim_gpus[b]
        a = parent[a]
    return nobody


@inner
def come_first(b: int, own: int, ctx: Context, search: Search) -> bool:
    """Whether all victims of leaf ``b`` come before the preemptor of its sibling ``own``, which ``ask_before`` was for.

    What ``b`` asks for on the way to its last victim counts; it holds less as long as one of them is away.
    """
    snapshot = ctx.snapshot
    priority, amount = snapshot.jobs.priority, search.contenders.weights
    base, at, v = search.contenders.heap.base[b], search.contenders.heap.begin[b], int(search.queues.last_victim[b]) - 1
    price = snapshot.classes.quota[search.counts.alike[0] - 1]
    for r in range(3):
        amount.request[b, r] = 0.0
    while at < search.contenders.heap.end[b]:
        j = search.contenders.jobs.listed[base + at]
        if not waits_before(j, v, ctx.settings, priority, search.contenders):
            break
        for r in range(3):
            amount.request[b, r] = max(
                amount.request[b, r], search.contenders.held[j, r] - search.queues.fewest_pods[b] * price[r]
            )
        at = search.contenders.jobs.run_end[base + at]
    return goes_first(b, own, ctx.state.book, amount.request, amount.request)


@inner
def ask_before(p: int, settings: Settings, snapshot: Snapshot, search: Search) -> None:
    """Let the queue of job ``p`` ask for what it asks for at some time before the turn of ``p``, if not in it."""
    priority, own = snapshot.jobs.priority, snapshot.jobs.queue[p]
    amount, price = search.contenders.weights, snapshot.classes.quota[snapshot.tasks.cls[search.pending[0]]]
    for r in range(3):
        amount.request[own, r] = price[r]
    for at in range(search.contenders.heap.begin[own], search.contenders.heap.end[own]):
        j = search.contenders.jobs.listed[search.contenders.heap.base[own] + at]
        if waits_before(j, p, settings, priority, search.contenders):
            more = True
            for r in range(3):
                more = more and search.contenders.held[j, r] >= amount.request[own, r]
            if more:
                for r in range(3):
                    amount.request[own, r] = search.contenders.held[j, r]


@inner
def waits_before(j: int, other: int, settings: Settings, priority: Longs, waiting: JobOrder) -> bool:
    """Whether job ``j`` comes before job ``other`` where that is below its minimum (1.3), and so at any stage of it."""
    if settings.priority_order == 1 and priority[j] != priority[other]:
        return bool(priority[j] > priority[other])
    return j < other and (settings.elastic_order == 0 or waiting.jobs.stage[j] == BELOW_MINIMUM)


@inner
def keeps_limits(q: int, snapshot: Snapshot, book: Book) -> bool:
    """Whether leaf ``q`` and all queues above it hold no more than their limits, so that the gates let all return."""
    while q != NULL:
        for r in range(3):
            if book.held[q, r] > book.limit[q, r]:
                return False
        q = snapshot.queues.parent[q]
    return True


@inner
def common_class(v: int, like: int, ctx: Context, search: Search) -> int:
    """The class of all pods of job ``v`` if they go and return together and are like class ``like``; else NULL."""
    snapshot, state, finder = ctx.snapshot, ctx.state, ctx.finder
    jobs, sets, classes = snapshot.jobs, snapshot.sets, snapshot.classes
    first, end = jobs.set_ptr[v], jobs.set_ptr[v + 1]
    if search.jobs.stage[v] != AT_MINIMUM or jobs.refused[v] != OK or count_pending(first, end, state.sets) > 0:
        return NULL
    for s in range(first, end):
        if sets.child_ptr[s] != sets.child_end[s] and sets.minimum[s] < sets.child_end[s] - sets.child_ptr[s]:
            return NULL
        if sets.child_ptr[s] == sets.child_end[s] and state.sets.active[s] != sets.minimum[s]:
            return NULL
    for t in range(jobs.task_ptr[v], jobs.task_ptr[v + 1]):
        status, n, c = state.task.status[t], state.task.node[t], snapshot.tasks.cls[t]
        if not IS_PIPELINED <= status <= IS_RUNNING:
            continue
        if n == NULL or finder.refused[c] != OK or finder.dynamic[c] == 1:
            return NULL
        if like == NULL:
            like = c
        if not are_alike(c, like, snapshot) or finder.verdicts[classes.signature[c], n] != OK:
            return NULL
        for r in range(classes.request.shape[1]):
            if classes.request[c, r] > snapshot.nodes.allocatable[n, r]:
                return NULL
    return like


@inner
def are_alike(c: int, like: int, snapshot: Snapshot) -> bool:
    """Whether pods of the two classes take the same room on the same nodes."""
    classes = snapshot.classes
    if classes.signature[c] != classes.signature[like]:
        return False
    for r in range(classes.request.shape[1]):  # noqa: SIM110 -- numba compiles no generators
        if classes.request[c, r] != classes.request[like, r]:
            return False
    return True


@inner
def is_full(like: int, ctx: Context) -> bool:
    """Whether no node has room for a pod of class ``like``, now or once others have left, and none is overcommitted.

    On one that is, those who leave do not all find room again.
    """
    state = ctx.state
    classes = ctx.snapshot.classes
    verdicts = ctx.finder.verdicts[classes.signature[like]]
    for n in range(verdicts.shape[0]):
        if verdicts[n] != OK:
            continue
        idle, releasing = state.idle[n], state.releasing[n]
        if slots_now(classes.request[like], idle, releasing) > 0 or is_overcommitted(idle, releasing):
            return False
    return True
