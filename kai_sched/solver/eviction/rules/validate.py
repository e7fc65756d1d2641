"""Whether simulated victims may go: shares in reclaim (semantics 4.7), places and number of moved jobs in consolidation
(6), minimum runtimes in reclaim and preempt (11.1).

Rules 1 and 2 of 4.7 compare two sides: the queues where the paths from the root to both leaves part. Rule 1, for one
loss after the other, is in ``rules.losses``. Rule 2: the reclaimer's side ends behind the other one. Amounts are (CPU
millicores, memory bytes, GPUs). Cost: victims x depth of the queue tree + depth x Q. Only scratch is written.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import (
    GPU,
    Action,
    Amounts,
    Floats,
    Ints,
    Longs,
    Queues,
    Settings,
    Snapshot,
    Status,
    Verdict,
)
from kai_sched.solver.eviction.rules.losses import change_blocked, diverge, left_to, take_amount
from kai_sched.solver.eviction.tables import Search, SearchQueues
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import Room, survey_devices, whole_later
from kai_sched.solver.state import Book, Context, State

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
IS_EVICTED = int(Status.EVICTED)
IS_PIPELINED = int(Status.PIPELINED)
IS_STUCK = int(Status.STUCK_IN_RELEASING)
NEVER = int(Room.NEVER)


@inner
def keep_old_shares(book: Book, queue: SearchQueues) -> None:
    """Copy what queues hold to ``queues.old_held`` and ``old_fixed`` (Q, 3), for use after the simulation."""
    for q in range(queue.is_open.shape[0]):
        for r in range(3):
            queue.old_held[q, r] = book.held[q, r]
            queue.old_fixed[q, r] = book.held_fixed[q, r]


@inner
def is_valid(action: int, p: int, k: int, ctx: Context, search: Search) -> bool:
    """Return whether the simulated scenario may be committed: the rule of the action holds.

    Reads ``lists.scenario`` (T + 1,) and the simulated state. Consolidation: each victim has a place again, and at
    most ``settings.most_moved`` jobs move. Others: minimum runtimes are kept, and for reclaim shares, with ``k``
    pending tasks.
    """
    state = ctx.state
    if action == CONSOLIDATION:
        for entry in range(search.counts.scenario[0]):
            if state.task.status[search.lists.scenario[entry]] == IS_EVICTED:
                return False
        return bool(moved_jobs(search, state) <= ctx.settings.most_moved)
    if not keeps_runtimes(action, p, ctx, search):
        return False
    return action != RECLAIM or keeps_shares(p, k, ctx, search)


@inner
def moved_jobs(search: Search, state: State) -> int:
    """Return how many jobs in ``lists.jobs`` (T + 1,) lose or move a pod; the last one is the preemptor."""
    moved = 0
    for entry in range(search.counts.jobs[0] - 1):
        t = search.jobs.first_in_scenario[search.lists.jobs[entry]]
        while t != 0 and not has_gone(t - 1, state, search):  # Bound: the victims of the job, each once.
            t = search.tasks.next_in_scenario[t - 1]
        moved += t != 0
    return moved


@inner
def has_gone(t: int, state: State, search: Search) -> bool:
    """Return whether victim ``t`` has another status or node than before: ``tasks.prior`` and ``home`` (T,)."""
    return bool(state.task.status[t] != search.tasks.prior[t] or state.task.node[t] != search.tasks.home[t])


@inner
def has_quota_for(q: int, need: Floats, book: Book) -> bool:
    """Return whether queue ``q`` with ``need``, a triple, is within ``book.quota`` (Q + 1, 3) in all resources."""
    for r in range(3):  # noqa: SIM110 -- numba compiles no generators
        if book.held[q, r] + need[r] > book.quota[q, r]:
            return False
    return True


@inner
def keeps_shares(p: int, k: int, ctx: Context, search: Search) -> bool:
    """Return whether shares allow the losses of the scenario (4.7); charges ``queues.remains`` (Q, 3)."""
    snapshot = ctx.snapshot
    queue, parent = search.queues, snapshot.queues.parent
    n_queues = parent.shape[0]
    need = requested_amounts(k, snapshot, search)
    search.counts.presence[0] += 1
    now = search.counts.presence[0]
    for entry in range(search.counts.jobs[0] - 1):
        queue.in_scenario[snapshot.jobs.queue[search.lists.jobs[entry]]] = now
    # Leaf after leaf, by uid (13): the order decides which loss is the last that a queue above may have.
    for place in range(n_queues):
        q = int(snapshot.queues.by_uid[place])
        if queue.in_scenario[q] != now:
            continue
        for entry in range(search.counts.jobs[0] - 1):
            j = search.lists.jobs[entry]
            if snapshot.jobs.queue[j] == q and not take_job(p, need, j, q, ctx, search):
                return False
    u = snapshot.jobs.queue[p]
    while u != NULL:  # Bound: the depth of the queue tree.
        if not stays_behind(p, k, u, ctx, search):
            return False
        u = parent[u]
    return True


@inner
def may_lose_one(a: int, b: int, lost: float, smallest: float, ctx: Context, search: Search) -> bool:
    """Return whether rule 2 could let queue ``b`` lose a task with ``smallest`` GPUs for the first pending task.

    Assumes the best for it: the sibling ``a``, the reclaimer's side, has ``lost`` GPUs itself. Used by the precedence
    proof: False proves that no loss of GPUs below ``b`` passes. Reads ``book.held`` and ``book.fair`` (Q + 1, 3).
    """
    book = ctx.state.book
    mine = ratio(book.held[a, GPU] - lost + requested(1, GPU, ctx.snapshot, search), book.fair[a, GPU])
    theirs = ratio(book.held[b, GPU] - smallest, book.fair[b, GPU])
    return bool(mine <= 1.0 or book.fair[b, GPU] <= 0.0 or mine * ctx.settings.saturation < theirs)


@inner
def take_job(p: int, need: Amounts, j: int, q: int, ctx: Context, search: Search) -> bool:
    """Charge what job ``j`` of leaf ``q`` loses: surplus tasks one by one, then its core; False: not allowed.

    The first losses of each pod set up to its minimum are the core, counted in ``sets.core`` (S,). A task counts as
    often as the scenario names it (``tasks.times``, (T,)). Victims that are home or have another place are no losses,
    unless configured.
    """
    settings, snapshot, state = ctx.settings, ctx.snapshot, ctx.state
    sets, cls = snapshot.sets, snapshot.tasks.cls
    for s in range(snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]):
        search.sets.core[s] = 0
    core = (0.0, 0.0, 0.0)
    has_core, blocked = False, 0.0
    t = search.jobs.first_in_scenario[j] - 1
    while t >= 0:  # Bound: the victims of the job, each once.
        leaves = state.task.status[t] == IS_EVICTED or settings.consolidating_reclaim == 0
        if leaves and (settings.minimal == 0 or has_gone(t, state, search)):
            s = snapshot.tasks.set[t]
            price = snapshot.classes.quota[cls[t]]
            for _ in range(search.tasks.times[t]):
                if search.sets.core[s] < sets.minimum[s]:
                    search.sets.core[s] += 1
                    core = (core[0] + price[0], core[1] + price[1], core[2] + price[2])
                    blocked += search.tasks.blocked[t]
                    has_core = True
                elif take_amount(p, need, q, (price[0], price[1], price[2]), ctx, search):
                    change_blocked(q, -search.tasks.blocked[t], snapshot.queues.parent, search)
                else:
                    return False
        t = search.tasks.next_in_scenario[t] - 1
    if has_core and not take_amount(p, need, q, core, ctx, search):
        return False
    change_blocked(q, -blocked, snapshot.queues.parent, search)
    return True


@inner
def note_short(k: int, ctx: Context, search: Search) -> None:
    """Mark in ``counts.short``, a scalar for each resource, where the second rule applies (4.7).

    With minimal victims: what the ``k`` pending tasks request and a ready node lacks. A queue above a quota of a
    resource that is plentiful holds nothing that others need: queues would take from each other in turn.
    """
    snapshot, state = ctx.snapshot, ctx.state
    first = snapshot.tasks.cls[search.pending[0]]
    whole = snapshot.classes.shares[first] == 0
    for r in range(3):
        need = requested(k, r, snapshot, search)
        short = ctx.settings.minimal == 0
        for n in range(state.idle.shape[0]):
            if short or need == 0.0:
                break
            free = whole_later(n, ctx) if r == GPU and whole else state.idle[n, r] + state.releasing[n, r]
            lacks = free < need or (r == GPU and not whole and survey_devices(first, n, ctx)[0] == NEVER)
            short = snapshot.nodes.condition[n] == OK and lacks
        search.counts.short[r] = short


@inner
def requested(k: int, r: int, snapshot: Snapshot, search: Search) -> float:
    """Return how much of resource ``r`` the first ``k`` pending tasks request: a scalar."""
    amount = 0.0
    for entry in range(k):
        amount += snapshot.classes.quota[snapshot.tasks.cls[search.pending[entry]], r]
    return amount


@inner
def requested_amounts(k: int, snapshot: Snapshot, search: Search) -> Amounts:
    """Return what the first ``k`` pending tasks request: three scalars, CPU, memory, GPUs."""
    return requested(k, 0, snapshot, search), requested(k, 1, snapshot, search), requested(k, 2, snapshot, search)


@inner
def ratio(amount: float, share: float) -> float:
    """Return the part of a ``share`` that an amount uses, a scalar: 0 of an infinite one, infinite if it is 0."""
    if share == np.inf:
        return 0.0
    if share == 0.0:
        return np.inf if amount > 0.0 else 0.0
    return amount / share


@inner
def stays_behind(p: int, k: int, u: int, ctx: Context, search: Search) -> bool:
    """Return whether queue ``u``, on the reclaimer's path, ends behind each sibling that lost something (4.7).

    Rule 2; reads ``queues.remains`` and ``involved`` (Q, 3). Checks the quota, too, if job ``p`` is not preemptible.
    """
    settings, snapshot, book = ctx.settings, ctx.snapshot, ctx.state.book
    queue, parent = search.queues, snapshot.queues.parent
    fixed = snapshot.jobs.preemptible[p] == 0
    for r in range(3):
        req = requested(k, r, snapshot, search)
        if fixed and queue.old_fixed[u, r] + req > book.quota[u, r]:
            return False
        after = left_to(u, r, search) + req
        mine = ratio(after, book.fair[u, r])
        if mine <= 1.0:
            continue
        for s in range(parent.shape[0]):
            if s == u or parent[s] != parent[u] or queue.remains_mark[s] != search.counts.presence[0]:
                continue
            if not (req > 0.0 or queue.involved[s, r] == 1.0):
                continue
            # Two queues without any share could take the same room from each other in turn, for ever.
            if book.fair[s, r] <= 0.0 and (settings.minimal == 0 or book.fair[u, r] > 0.0):
                continue
            if mine * settings.saturation >= ratio(queue.remains[s, r], book.fair[s, r]):
                return False
    return True


@inner
def runtime_of(q: int, own: Longs, otherwise: int, parent: Ints) -> int:
    """Return the nearest value of ``own`` (Q,) set at or above queue ``q``, in ns, else ``otherwise`` (11.1)."""
    while q != NULL:  # Bound: the depth of the queue tree.
        if own[q] != NULL:
            return int(own[q])
        q = parent[q]
    return otherwise


@inner
def any_runtime(settings: Settings, queues: Queues) -> bool:
    """Return whether a minimum runtime is set by default or for a queue: ``queues.preempt_runtime`` (Q,)."""
    if settings.min_runtime == 0:
        return False
    if settings.preempt_runtime > 0 or settings.reclaim_runtime > 0:
        return True
    for q in range(queues.parent.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if queues.preempt_runtime[q] > 0 or queues.reclaim_runtime[q] > 0:
            return True
    return False


@inner
def is_protected(action: int, p: int, j: int, ctx: Context, search: Search) -> bool:
    """Return whether job ``j`` has not run for its minimum runtime yet, as its eviction for ``p`` demands (11.1).

    Compares ``settings.now`` with ``jobs.last_start`` (J,) plus the queue's runtime, in ns.
    """
    settings, snapshot = ctx.settings, ctx.snapshot
    queues, jobs = snapshot.queues, snapshot.jobs
    if search.counts.runtimes[0] == 0 or jobs.last_start[j] == 0:
        return False
    parent, q = queues.parent, jobs.queue[j]
    if action != RECLAIM:
        value = runtime_of(q, queues.preempt_runtime, settings.preempt_runtime, parent)
    else:
        if settings.reclaim_by_ancestor == 1:
            # the victim's queue just below the common ancestor; a root queue where there is none
            _, q = diverge(jobs.queue[p], q, parent)
        value = runtime_of(q, queues.reclaim_runtime, settings.reclaim_runtime, parent)
    return bool(settings.now < jobs.last_start[j] + value)


@inner
def is_elastic(j: int, snapshot: Snapshot) -> bool:
    """Return whether some pod set of job ``j`` has more tasks than its minimum; reads ``sets.minimum`` (S,)."""
    sets = snapshot.sets
    for s in range(snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]):
        is_pod_set = sets.child_ptr[s] == sets.child_end[s]
        if is_pod_set and sets.task_ptr[s + 1] - sets.task_ptr[s] > sets.minimum[s]:
            return True
    return False


@inner
def keeps_runtimes(action: int, p: int, ctx: Context, search: Search) -> bool:
    """Return whether protected jobs keep their minimums (11.1); counts losses in ``sets.core`` (S,).

    Tasks that were evicted before in this cycle still count as used; only losses of this scenario are subtracted.
    """
    settings, snapshot, state = ctx.settings, ctx.snapshot, ctx.state
    sets, jobs = snapshot.sets, snapshot.jobs
    if search.counts.runtimes[0] == 0:
        return True
    for entry in range(search.counts.jobs[0] - 1):
        j = search.lists.jobs[entry]
        if not is_protected(action, p, j, ctx, search):
            continue
        for s in range(jobs.set_ptr[j], jobs.set_ptr[j + 1]):
            search.sets.core[s] = 0
        t = search.jobs.first_in_scenario[j] - 1
        while t >= 0:  # Bound: the victims of the job, each once.
            search.sets.core[snapshot.tasks.set[t]] += settings.minimal == 0 or has_gone(t, state, search)
            t = search.tasks.next_in_scenario[t] - 1
        for s in range(jobs.set_ptr[j], jobs.set_ptr[j + 1]):
            if search.sets.core[s] == 0:
                continue
            used = 0
            for t in range(sets.task_ptr[s], sets.task_ptr[s + 1]):
                status = state.task.status[t]
                used += IS_PIPELINED <= status <= IS_STUCK or status == IS_EVICTED
            if used - search.sets.core[s] < sets.minimum[s]:
                return False
    return True
