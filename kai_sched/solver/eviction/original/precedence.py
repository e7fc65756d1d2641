"""Original search only: the precedence proof (docs/adr/0009) that all victims would be placed again before the
preemptor (semantics 4.5, 4.7).

Claim: if each possible victim is useless, no scenario leaves room for the preemptor's first task, and thus none for
all of its tasks. In a simulation the victims' jobs and the preemptor compete for the room in the order of queues. A
victim is useless for one of two reasons:

1. Its leaf comes before the preemptor's leaf as long as the victim is pending. So it is placed again first.
2. Shares let the preemptor's queue take nothing from its side. The validator refuses each scenario in which it leaves.

Why it holds: no useless victim stays away. If all victims are alike and the cluster was full for them, they fill the
same room again. If the first task lacks GPUs in the whole cluster, room only appears if a victim with GPUs leaves for
good. Assumptions: the first pending task, and no recorded victims; ``escalate`` probes for the first task first.

Cost: for each leaf whose victims changed, its victims' tasks; then Q siblings, the waiting jobs before the last
victims, and N nodes. ``may_leave`` costs the victims of a scenario + Q. Invariant: only scratch is written, no state.
Tests: tests/properties/test_proofs.py switches it off; tests/unit/solver/eviction/original/test_precedence.py has the
steps.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Longs, Settings, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.original.tables import OriginalTables
from kai_sched.solver.eviction.preemptor import requested
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.eviction.rules.shares import stays_behind
from kai_sched.solver.eviction.tables import JobOrder, Search
from kai_sched.solver.eviction.victims.potential import is_overcommitted, slots_now
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import count_pending
from kai_sched.solver.kernels.claims.search import has_claims
from kai_sched.solver.kernels.gang import AT_MINIMUM, BELOW_MINIMUM
from kai_sched.solver.kernels.order import queue_before
from kai_sched.solver.state import Book, Context, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def all_victims_come_back(p: int, ctx: Context, search: Search) -> bool:
    """Return whether the proof holds for all possible victims of job ``p``; False: it cannot tell.

    Writes ``search.original``: ``precedence_known`` 1, ``alike``, the common class of the victims plus 1 (0: reason 1
    does not apply), and ``cannot_stay_evicted`` (Q,) for each leaf whose victims are all useless. ``may_leave`` then
    judges single scenarios. A victim that was moved before in this cycle may return without room, so with one of them
    the answer is False.
    """
    snapshot = ctx.snapshot
    queue, leaves, parent = search.queues, search.original.leaf_victims, snapshot.queues.parent
    clear(search)
    like, moved = NULL, False
    alike = search.kinds.now[0] == 0 and ctx.scratch.topology.set.shape[0] == 0
    # Reason 1 needs all victims alike over all leaves, not only in one: each of them must fit any place that another
    # leaves, which topology constraints may forbid. It also needs limits that let all of them return, and no room now
    # for the first pending task.
    for q in range(parent.shape[0]):
        if queue.is_open[q] == 0:
            continue
        if queue.victims_surveyed[q] == 0 or search.counts.runtimes[0] == 1:
            survey(q, ctx, search)
        if leaves.last_victim[q] == 0.0:
            continue
        search.original.victim_gpus[q], search.original.last_victim[q] = leaves.victim_gpus[q], leaves.last_victim[q]
        moved = moved or leaves.moved[q] > 0.0
        search.original.smallest_victim[q], search.original.fewest_pods[q] = (
            leaves.smallest_victim[q],
            leaves.fewest_pods[q],
        )
        kind = int(leaves.alike[q]) - 1
        alike = alike and kind != NULL and keeps_limits(q, snapshot, ctx.state.book)
        alike = alike and (like == NULL or are_alike(kind, like, snapshot))
        like = kind
    alike = alike and like != NULL and is_full(like, ctx)
    search.original.alike[0] = like + 1 if alike else 0
    search.original.precedence_known[0] = 1
    stay = all_stay(p, ctx, search)
    for q in range(parent.shape[0]):
        if queue.is_open[q] == 1 and search.original.last_victim[q] > 0.0:
            _, side = sides_of(snapshot.jobs.queue[p], q, parent)
            search.original.cannot_stay_evicted[q] = search.original.cannot_lose[side]
    return stay and not moved


@inner
def survey(q: int, ctx: Context, search: Search) -> None:
    """Note in ``original.leaf_victims`` (Q,) what the possible victims of leaf ``q`` come to, and whether they are
    alike.

    The result holds until a commit changes the leaf (``queues.victims_surveyed``), so many searches share it.
    Cost: the tasks of the leaf's victims.
    """
    snapshot = ctx.snapshot
    jobs, leaves = snapshot.jobs, search.original.leaf_victims
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
        note_evictable_job(v, q, pods, ctx.settings, jobs.priority, search.original)
    leaves.victim_gpus[q], leaves.last_victim[q] = search.original.victim_gpus[q], search.original.last_victim[q]
    leaves.smallest_victim[q], leaves.fewest_pods[q] = (
        search.original.smallest_victim[q],
        search.original.fewest_pods[q],
    )
    leaves.alike[q], search.queues.victims_surveyed[q] = like + 1.0, 1


@inner
def may_leave(p: int, ctx: Context, search: Search) -> bool:
    """Return whether some victim of the scenario may stay away for good; False proves that the scenario cannot succeed.

    The scenario, ``search.lists.scenario`` (T + 1,), has no recorded victims. If no leaf in it can lose a pod
    for good, that is the answer. Otherwise the proof is made anew for these victims alone: fewer victims ask for less
    on the way, and take less from the preemptor's side. Overwrites the sums by queue (Q,) that
    ``all_victims_come_back`` used, but not ``cannot_stay_evicted``.
    """
    snapshot = ctx.snapshot
    jobs, tasks = snapshot.jobs, snapshot.tasks
    exposed = False
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        if search.original.node_local[0] == 1 and has_two_homes(t, snapshot, ctx.state, search):
            return True
        exposed = exposed or search.original.cannot_stay_evicted[jobs.queue[tasks.job[t]]] == 0.0
    if not exposed:
        return False
    clear(search)
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        j = tasks.job[t]
        q = jobs.queue[j]
        note_victim(t, q, snapshot, search)
        if search.jobs.first_in_scenario[j] == t + 1:
            note_evictable_job(j, q, count_in_scenario(j, search), ctx.settings, jobs.priority, search.original)
    return not all_stay(p, ctx, search)


@inner
def count_in_scenario(j: int, search: Search) -> int:
    """Return how many tasks of job ``j`` the scenario has."""
    length, t = 0, search.jobs.first_in_scenario[j]
    while t != 0:  # Bound: the tasks of the job, each once.
        length, t = length + 1, search.tasks.next_in_scenario[t - 1]
    return length


@inner
def has_two_homes(t: int, snapshot: Snapshot, state: State, search: Search) -> bool:
    """Return whether task ``t`` may return to the node that it left earlier in this cycle, without taking room there.

    See ``simulation.place_in_search``. That is possible if the node, ``tasks.left_node`` (T,) minus 1, has room now or
    loses a victim in this scenario.
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
    """Reset the sums by queue (Q,): no victim is away."""
    for q in range(search.queues.is_open.shape[0]):
        search.original.last_victim[q] = 0
        search.original.victim_gpus[q] = 0.0
        search.original.smallest_victim[q] = np.inf
        search.original.fewest_pods[q] = np.inf


@inner
def note_victim(t: int, q: int, snapshot: Snapshot, search: Search) -> None:
    """Count the GPUs of task ``t`` at leaf ``q``: ``original.victim_gpus`` and ``smallest_victim`` (Q,)."""
    gpus = snapshot.classes.quota[snapshot.tasks.cls[t], GPU]
    search.original.victim_gpus[q] += gpus
    if gpus > 0.0:
        search.original.smallest_victim[q] = min(search.original.smallest_victim[q], gpus)


@inner
def note_evictable_job(v: int, q: int, pods: int, settings: Settings, priority: Longs, sums: OriginalTables) -> None:
    """Note that job ``v`` of leaf ``q`` may be away, with so many ``pods``, in the sums by queue (Q,).

    ``last_victim`` is the row, plus 1, of the victim that comes last in job order: lowest priority, then newest.
    """
    sums.fewest_pods[q] = min(sums.fewest_pods[q], pods)
    last = int(sums.last_victim[q]) - 1
    if last == NULL:
        later = True
    elif settings.priority_order == 1 and priority[v] != priority[last]:
        later = priority[v] < priority[last]
    else:
        later = v > last
    if later:
        sums.last_victim[q] = v + 1


@inner
def all_stay(p: int, ctx: Context, search: Search) -> bool:
    """Return whether none of the noted victims can stay away for good.

    Sets ``original.cannot_lose`` (Q,) beside the path of ``p``. Reads the sums of ``note_victim`` and
    ``note_evictable_job``, and adds those of leaves up to their ancestors in place.
    """
    settings, snapshot = ctx.settings, ctx.snapshot
    sums, queues, parent = search.original, snapshot.queues, snapshot.queues.parent
    for q in range(parent.shape[0] - 1, -1, -1):
        if sums.last_victim[q] > 0.0 and parent[q] != NULL:
            sums.last_victim[parent[q]] = 1.0
            sums.smallest_victim[parent[q]] = min(sums.smallest_victim[parent[q]], sums.smallest_victim[q])
            sums.victim_gpus[parent[q]] += sums.victim_gpus[q]
    own, book = snapshot.jobs.queue[p], ctx.state.book
    a, may_lose, stay = own, 0.0, True
    if sums.alike[0] > 0:
        ask_before(p, settings, snapshot, search)
    # From the preemptor's leaf to the root. At each level ``b`` is a sibling of the path's queue ``a``, and each
    # victim leaf is at or below exactly one of them. Reason 1 is asked for leaves beside the preemptor's leaf only: at
    # a higher level the first job of a queue depends on all queues below it. Reason 2 is asked where reason 1 fails,
    # but only if the first task lacks GPUs. The test gets easier to pass the less ``a`` holds, so ``may_lose`` sums up
    # what victims below ``a`` may take from it; those that cannot leave take nothing, unless victims that return count
    # as losses, too (``allow-consolidating-reclaim`` off).
    while a != NULL:  # Bound: the depth of the queue tree.
        row = parent[a] if parent[a] != NULL else parent.shape[0]
        lost = may_lose
        for child in range(queues.child_ptr[row], queues.child_ptr[row + 1]):
            b = queues.child[child]
            if b == a or sums.last_victim[b] == 0.0:
                continue
            beside = a == own and queues.child_ptr[b] == queues.child_ptr[b + 1]
            stays = beside and sums.alike[0] > 0 and come_first(b, a, ctx, search)
            if not stays and sums.lacks_gpus[0] == 1:
                # The best case for a loss below ``b``: ``a`` has lost all that it may, and ``b`` its smallest task.
                mine = book.held[a, GPU] - lost + requested(1, GPU, snapshot, search)
                stays = not stays_behind(a, mine, b, book.held[b, GPU] - sums.smallest_victim[b], GPU, ctx)
            sums.cannot_lose[b] = 1.0 if stays else 0.0
            stay = stay and stays
            if settings.consolidating_reclaim == 0 or not stays:
                may_lose += sums.victim_gpus[b]
        a = parent[a]
    return stay


@inner
def come_first(b: int, own: int, ctx: Context, search: Search) -> bool:
    """Return whether all victims of leaf ``b`` are placed again before the preemptor of its sibling leaf ``own``.

    Bound: queue order (2.6) never puts a queue later for asking or holding less. Until its last victim is back, ``b``
    asks for a waiting job that comes before that victim, or for the victim, and holds at least one victim job less. So
    ``b`` counts with the largest request on the way, less the smallest victim job, on top of all it holds now. If it
    goes first even so against what ``ask_before`` found, it goes first all the time. Writes ``weights.request`` (Q, 3)
    of the contenders.
    """
    snapshot = ctx.snapshot
    priority, amount = snapshot.jobs.priority, search.contenders.weights
    base, at, v = (
        search.contenders.heap.base[b],
        search.contenders.heap.begin[b],
        int(search.original.last_victim[b]) - 1,
    )
    price = snapshot.classes.quota[search.original.alike[0] - 1]
    for r in range(3):
        amount.request[b, r] = 0.0
    while at < search.contenders.heap.end[b]:  # Bound: each turn goes on in the list.
        j = search.contenders.jobs.listed[base + at]
        if not waits_before(j, v, ctx.settings, priority, search.contenders):
            break
        for r in range(3):
            amount.request[b, r] = max(
                amount.request[b, r], search.contenders.held[j, r] - search.original.fewest_pods[b] * price[r]
            )
        at = search.contenders.jobs.run_end[base + at]
    return queue_before(b, own, ctx.state.book, amount.request)


@inner
def ask_before(p: int, settings: Settings, snapshot: Snapshot, search: Search) -> None:
    """Set what the queue of job ``p`` asks for at some time before ``p`` is tried, in ``weights.request`` (Q, 3).

    That is the first pending task of ``p``, or a waiting job before ``p`` that requests as much or more of everything.
    The queue shows that job before ``p``, so if another leaf goes first against it, it goes first before ``p`` is
    tried.
    """
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
    """Return whether job ``j`` comes before job ``other`` even when that is below its minimum (1.3).

    Reads ``waiting.jobs.stage`` (J,). Below its minimum a job is at its earliest, so this holds at any stage of it.
    """
    if settings.priority_order == 1 and priority[j] != priority[other]:
        return bool(priority[j] > priority[other])
    return j < other and (settings.elastic_order == 0 or waiting.jobs.stage[j] == BELOW_MINIMUM)


@inner
def keeps_limits(q: int, snapshot: Snapshot, book: Book) -> bool:
    """Return whether leaf ``q`` and all queues above it hold at most ``book.limit`` (Q + 1, 3).

    If so, the gates (3.4) let all victims return: together they hold no more than now.
    """
    while q != NULL:  # Bound: the depth of the queue tree.
        for r in range(3):
            if book.held[q, r] > book.limit[q, r]:
                return False
        q = snapshot.queues.parent[q]
    return True


@inner
def common_class(v: int, like: int, ctx: Context, search: Search) -> int:
    """Return the class of the pods of job ``v`` if they leave and return as one chunk, all alike; else NULL.

    They must also be like class ``like``; NULL: any class will do. A job leaves and returns as one chunk if all its
    sets are exactly at their minimum and nothing of it is pending. Its pods must have no inter-pod terms or ports, and
    be allowed on the nodes where they are, which must have all that they request (``nodes.allocatable``, (N, R)).
    """
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
        if n == NULL or finder.refused[c] != OK or finder.dynamic[c] == 1 or has_claims(c, ctx):
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
    """Return whether pods of two classes request the same (C, R) and have the same static constraints (C,)."""
    classes = snapshot.classes
    if classes.signature[c] != classes.signature[like] or classes.shares[c] != classes.shares[like]:
        return False
    if classes.portion[c] != classes.portion[like] or classes.memory[c] != classes.memory[like]:
        return False
    for r in range(classes.request.shape[1]):  # noqa: SIM110 -- numba compiles no generators
        if classes.request[c, r] != classes.request[like, r]:
            return False
    return True


@inner
def is_full(like: int, ctx: Context) -> bool:
    """Return whether no node has room for a pod of class ``like``, and none of its nodes is overcommitted.

    Reads ``state.idle`` and ``state.releasing`` (N, R). Then k evicted pods of the class leave exactly k places: node
    by node as many as left it. On an overcommitted node fewer fit again than left.
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
