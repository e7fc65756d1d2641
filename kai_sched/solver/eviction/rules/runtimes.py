"""Minimum runtimes: which jobs they protect from eviction, and whether a simulated scenario keeps them (semantics
11.1).

Whole jobs that are protected are no candidates (``stages.evicting.choose_victims``); elastic ones may lose their
surplus and keep their minimums, which the validator checks. Cost: the victims of protected jobs. Only scratch is
written.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Ints, Longs, Queues, Settings, Snapshot, Status
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.eviction.scenario import has_gone
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context

RECLAIM = int(Action.RECLAIM)
IS_EVICTED = int(Status.EVICTED)
IS_PIPELINED = int(Status.PIPELINED)
IS_STUCK = int(Status.STUCK_IN_RELEASING)


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
            _, q = sides_of(jobs.queue[p], q, parent)
        value = runtime_of(q, queues.reclaim_runtime, settings.reclaim_runtime, parent)
    return bool(settings.now < jobs.last_start[j] + value)


@inner
def runtime_of(q: int, own: Longs, otherwise: int, parent: Ints) -> int:
    """Return the nearest value of ``own`` (Q,) set at or above queue ``q``, in ns, else ``otherwise`` (11.1)."""
    while q != NULL:  # Bound: the depth of the queue tree.
        if own[q] != NULL:
            return int(own[q])
        q = parent[q]
    return otherwise


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
