"""The action stalegangeviction: which gangs are stale, and that their pods are evicted after the grace (semantics 7).

It regards no share, priority or protection: pods of a torn gang hold room and do no work. It runs last by default, so
that a pod that was placed in this cycle makes its gang whole again, and so that evictions of this cycle, whose pods
still count as used, tear no gang.

Cost: one pass over the T tasks and S sets of jobs.
Invariant: the undo log is empty after each eviction; the evictions are final.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Status
from kai_sched.solver.eviction.commit import record_eviction
from kai_sched.solver.eviction.evict import evict
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.state import Context

STALE_GANG = int(Action.STALE_GANG)
IS_SUCCEEDED = int(Status.SUCCEEDED)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
IS_STUCK = int(Status.STUCK_IN_RELEASING)


@kernel
def evict_stale(ctx: Context, search: Search) -> None:
    """Evict all active tasks of every job that is stale for longer than its grace (7).

    Reads ``jobs.grace`` and ``jobs.stale_since`` (J,), in ns: a grace of NULL is for ever, and a time of 0 means that
    the job is stale from now on, so it is evicted at once only if its grace is 0. Evictions are recorded in
    ``decisions.evictions`` (T,) with the action STALE_GANG and NULL for the job that gains. A task that was placed in
    this cycle loses its place without being deleted.
    """
    settings, state = ctx.settings, ctx.state
    jobs = ctx.snapshot.jobs
    for j in range(jobs.queue.shape[0]):
        if jobs.grace[j] == NULL or not is_stale(j, ctx):
            continue
        since = jobs.stale_since[j] if jobs.stale_since[j] != 0 else settings.now
        if settings.now - since < jobs.grace[j]:
            continue
        for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
            if IS_PIPELINED <= state.task.status[t] <= IS_RUNNING:
                home = state.task.node[t]
                evict(j, t, 1, ctx, search)
                ctx.log.size[:] = 0
                record_eviction(t, STALE_GANG, NULL, home, ctx)


@inner
def is_stale(j: int, ctx: Context) -> bool:
    """Return whether job ``j`` is stale (7): some pod is used, none succeeded, and its tree of sets is not satisfied.

    Reads ``state.task.status`` (T,), not the snapshot, so a missing pod that got a place in this cycle counts. A job of
    which a pod succeeded is about to end; its other pods are not evicted.
    """
    snapshot = ctx.snapshot
    used = False
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        status = ctx.state.task.status[t]
        if status == IS_SUCCEEDED:
            return False
        used = used or IS_PIPELINED <= status <= IS_STUCK
    return used and not is_whole(j, ctx)


@inner
def is_whole(j: int, ctx: Context) -> bool:
    """Return whether the tree of sets of job ``j`` is satisfied if all used pods count, leaving ones included.

    This differs from ``state.sets.active`` (S,), which leaves out pods that are being deleted: a gang is not stale as
    long as a pod that is replaced has not left. Overwrites ``scratch.survey.met`` (S,).
    """
    snapshot = ctx.snapshot
    sets = snapshot.sets
    first, end = snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]
    survey = ctx.scratch.survey
    # Members have higher rows than their set, so each set finds its members counted.
    for s in range(end - 1, first - 1, -1):
        count = 0
        if sets.child_ptr[s] == sets.child_end[s]:
            for t in range(sets.task_ptr[s], sets.task_ptr[s + 1]):
                count += IS_PIPELINED <= ctx.state.task.status[t] <= IS_STUCK
        else:
            for member in range(sets.child_ptr[s], sets.child_end[s]):
                count += survey.met[member] >= sets.minimum[member]
        survey.met[s] = count
    return bool(survey.met[first] >= sets.minimum[first])
