"""Whether a simulated scenario may be committed: the rule of the action holds (semantics 4.7, 5, 6).

Consolidation: all victims have a place again, and few jobs move. Reclaim and preempt: minimum runtimes are kept
(``runtimes``). Reclaim: shares allow the losses, one after the other (``shares``). Amounts are (CPU millicores, memory
bytes, GPUs). Cost: victims x depth of the queue tree + depth x Q. Only scratch is written.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Amounts, Status
from kai_sched.solver.eviction.preemptor import requested_amounts
from kai_sched.solver.eviction.rules.losses import begin_losses, change_blocked
from kai_sched.solver.eviction.rules.runtimes import keeps_runtimes
from kai_sched.solver.eviction.rules.shares import ends_behind_siblings, keeps_fixed_quota, lose
from kai_sched.solver.eviction.scenario import has_gone
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context, State

CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
IS_EVICTED = int(Status.EVICTED)


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
def keeps_shares(p: int, k: int, ctx: Context, search: Search) -> bool:
    """Return whether shares allow the losses of the scenario (4.7); charges ``queues.remains`` (Q, 3)."""
    snapshot = ctx.snapshot
    queue, parent = search.queues, snapshot.queues.parent
    need = requested_amounts(k, snapshot, search)
    begin_losses(search)
    now = search.counts.loss_clock[0]
    for entry in range(search.counts.jobs[0] - 1):
        queue.in_scenario[snapshot.jobs.queue[search.lists.jobs[entry]]] = now
    # Leaf after leaf, by uid (13): the order decides which loss is the last that a queue above may have.
    for place in range(parent.shape[0]):
        q = int(snapshot.queues.by_uid[place])
        if queue.in_scenario[q] != now:
            continue
        for entry in range(search.counts.jobs[0] - 1):
            j = search.lists.jobs[entry]
            if snapshot.jobs.queue[j] == q and not take_job(p, need, j, q, ctx, search):
                return False
    u = snapshot.jobs.queue[p]
    while u != NULL:  # Bound: the depth of the queue tree.
        if not keeps_fixed_quota(p, need, u, ctx, search) or not ends_behind_siblings(u, need, ctx, search):
            return False
        u = parent[u]
    return True


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
                elif lose(p, need, q, (price[0], price[1], price[2]), ctx, search):
                    change_blocked(q, -search.tasks.blocked[t], snapshot.queues.parent, search)
                else:
                    return False
        t = search.tasks.next_in_scenario[t] - 1
    if has_core and not lose(p, need, q, core, ctx, search):
        return False
    change_blocked(q, -blocked, snapshot.queues.parent, search)
    return True
