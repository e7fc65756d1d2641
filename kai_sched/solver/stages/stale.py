"""Stale gang eviction: what is left of a gang that lost pods goes after its grace (semantics 7)."""

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
    """Evict what still runs of every gang that lacks pods for longer than its grace."""
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
    """Whether the job runs with fewer pods than it needs; a job of which a pod succeeded is on its way out."""
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
    """Whether the job's tree of sets is satisfied, pods on their way out included."""
    snapshot = ctx.snapshot
    sets = snapshot.sets
    first, end = snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]
    survey = ctx.scratch.survey
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
