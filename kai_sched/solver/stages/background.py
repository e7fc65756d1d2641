"""Pods of the background: they count as absent while others are placed, and return where they still fit
(semantics 11.5).

At the start of a cycle their room is that of leaving pods, and their queues hold and request nothing for them: so
others are placed as if they were not there, and wait where a background pod has to leave. After all actions each of
them gets its place back if it is free; the others are evicted. A gang returns with its minimum or not at all.

Cost: two passes over the tasks of background jobs, each for the cost of an eviction and a return (``eviction.evict``).
Invariant: outside of the kernels the undo log is empty. A job that was not whole to begin with is not set aside, as it
may be stale.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.commit import record_eviction
from kai_sched.solver.eviction.minimal.returning import count_as_evicted, drop_kept
from kai_sched.solver.eviction.minimal.simulation import node_to_return_to
from kai_sched.solver.eviction.minimal.task_moves import evict_victim, restore_victim
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.account import add_price
from kai_sched.solver.kernels.devices import price_of
from kai_sched.solver.kernels.gang import survey_sets
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
BACKGROUND = int(Action.BACKGROUND)
IS_PENDING = int(Status.PENDING)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_RUNNING = int(Status.RUNNING)


@kernel
def set_aside(ctx: Context, search: Search) -> None:
    """Evict all active tasks of background jobs, until ``return_background`` (11.5).

    Runs after fair share, in which these jobs have no part: what they request is added to ``book.asked`` (Q + 1, 3)
    only now, for reports. Writes ``decisions.evictions`` (T,) with the action BACKGROUND, for no job.
    """
    snapshot, state = ctx.snapshot, ctx.state
    for j in range(snapshot.jobs.queue.shape[0]):
        if snapshot.jobs.background[j] == 0:
            continue
        whole = is_satisfied(j, ctx)
        for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
            status, home = state.task.status[t], state.task.node[t]
            active = IS_ALLOCATED <= status <= IS_RUNNING and home != NULL
            if active or status == IS_PENDING:
                add_price(t, home if active else NULL, state.book.asked, ctx)
            if active and whole:
                set_task_aside(t, home, ctx, search)


@inner
def set_task_aside(t: int, home: int, ctx: Context, search: Search) -> None:
    """Evict task ``t``, which is on node ``home``, unless it could not return even if nobody else were placed.

    That is so where the node is overcommitted or no longer takes the pod, or its queue is above its limit: such a pod
    must not lose its place for nothing.
    """
    ctx.log.size[:] = 0
    evict_victim(t, ctx, search)
    if not may_return(t, ctx, search):
        undo_all(ctx)
    else:
        record_eviction(t, BACKGROUND, NULL, home, ctx)
    ctx.log.size[:] = 0


@inner
def is_satisfied(j: int, ctx: Context) -> bool:
    """Return whether the active tasks of job ``j`` satisfy its tree of sets; overwrites ``scratch.survey`` (S,)."""
    first, end = ctx.snapshot.jobs.set_ptr[j], ctx.snapshot.jobs.set_ptr[j + 1]
    survey_sets(first, end, False, ctx)
    return bool(ctx.scratch.survey.met[first] >= ctx.snapshot.sets.minimum[first])


@kernel
def return_background(ctx: Context, search: Search) -> None:
    """Give the tasks that were set aside their places back, where they are free, the oldest jobs first (11.5).

    Their evictions come first in ``decisions.evictions`` (T,), job by job. Those of tasks that return are taken out, in
    place; the undo log is emptied.
    """
    evictions, of_task, row = ctx.decisions.evictions, ctx.snapshot.tasks.job, 0
    while row < evictions.length[0] and evictions.action[row] == BACKGROUND:  # Bound: the evictions.
        j, end = of_task[evictions.task[row]], row + 1
        while end < evictions.length[0] and is_set_aside(end, j, ctx):  # Bound: the evictions.
            end += 1
        return_tasks(j, row, end, ctx, search)
        row = end
    drop_kept(ctx.state, evictions)


@inner
def is_set_aside(row: int, j: int, ctx: Context) -> bool:
    """Return whether row ``row`` of ``decisions.evictions`` (T,) is of a task of job ``j`` that was set aside."""
    evictions = ctx.decisions.evictions
    return bool(evictions.action[row] == BACKGROUND and ctx.snapshot.tasks.job[evictions.task[row]] == j)


@inner
def return_tasks(j: int, first: int, end: int, ctx: Context, search: Search) -> None:
    """Let the tasks of job ``j`` that were set aside return where their places are free; none if its gang is torn.

    These are the rows [first, end) of ``decisions.evictions`` (T,).
    """
    ctx.log.size[:] = 0
    for row in range(first, end):
        t = int(ctx.decisions.evictions.task[row])
        count_as_evicted(t, 1, ctx)
        if may_return(t, ctx, search):
            restore_victim(t, ctx, search)
        else:
            count_as_evicted(t, -1, ctx)
    if not is_satisfied(j, ctx):
        undo_all(ctx)
    ctx.log.size[:] = 0


@inner
def may_return(t: int, ctx: Context, search: Search) -> bool:
    """Return whether the place of evicted task ``t`` is free, and the limits of its queues allow it (3.4).

    Overwrites ``scratch.need`` (3,).
    """
    snapshot, need, home = ctx.snapshot, ctx.scratch.need, search.tasks.home[t]
    for r in range(3):
        need[r] = price_of(snapshot.tasks.cls[t], r, home, ctx)
    q = snapshot.jobs.queue[snapshot.tasks.job[t]]
    verdict, _, _ = pass_gates(q, need, False, snapshot.queues.parent, ctx.state.book)
    return bool(verdict == OK) and node_to_return_to(t, False, ctx, search) != NULL
