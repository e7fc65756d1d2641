"""Victims that can stay after all: at the end of a cycle there may be room again where they run.

A search finds as few victims as will do for one job. A later one may evict somebody larger beside them, so that those
who were needed before no longer are.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Status
from kai_sched.solver.eviction.evict import evict, move_cursor
from kai_sched.solver.eviction.minimal_simulation import fits_at_home, node_to_return_to, restore_victim, return_job
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.place import count_bonds
from kai_sched.solver.kernels.undo import add_integer, set_integer, undo_all
from kai_sched.solver.state import Context, Decisions, State

STALE_GANG = int(Action.STALE_GANG)
IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)
IS_EVICTED = int(Status.EVICTED)


@inner
def keep_victims(ctx: Context, search: Search) -> None:
    """Take evictions back, those decided last first, until nobody finds room any more where it runs.

    Pods of one group stay as they would be placed: all of its next chunk, or nothing of it.
    """
    state, log, decisions = ctx.state, ctx.log, ctx.decisions
    anybody = decisions.length[1] > 0
    while anybody:
        anybody = False
        log.size[:] = 0
        for row in range(decisions.length[1] - 1, -1, -1):
            t = int(decisions.eviction[row, 0])
            if not may_be_kept(t, row, ctx, search):
                continue
            if state.task.status[t] == IS_PIPELINED:
                found = keep_moved_pod(t, ctx, search)
            else:
                found = keep_pods_of_job(row, ctx, search)
            anybody = anybody or found
            log.size[:] = 0
    drop_kept(state, decisions)


@inner
def may_be_kept(t: int, row: int, ctx: Context, search: Search) -> bool:
    """Whether the victim of an eviction is away, and there would be room for it where it ran."""
    status = ctx.state.task.status[t]
    if ctx.decisions.eviction[row, 1] == STALE_GANG:
        return False
    if status != IS_RELEASING and status != IS_PIPELINED:
        return False
    return fits_at_home(t, ctx, search)


@inner
def keep_moved_pod(t: int, ctx: Context, search: Search) -> bool:
    """Let a pod that was to move stay, if it may."""
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    j, c, away = snapshot.tasks.job[t], snapshot.tasks.cls[t], state.task.node[t]
    prior, home = search.tasks.prior[t], search.tasks.home[t]
    evict(j, t, 1, ctx, search)
    search.tasks.prior[t], search.tasks.home[t] = prior, home
    if ctx.finder.dynamic[c] == 1:
        count_bonds(c, away, -1, ctx)
    if node_to_return_to(t, False, ctx, search) == NULL:
        undo_all(ctx)
        return False
    restore_victim(t, ctx, search)
    set_integer(state.at.node + t, home, ctx)
    decisions.task[decisions.row[t]] = NULL
    decisions.row[t] = NULL
    return True


@inner
def keep_pods_of_job(row: int, ctx: Context, search: Search) -> bool:
    """Let as many as can of the job whose pod was evicted in this row stay; False: nobody."""
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    j = snapshot.tasks.job[decisions.eviction[row, 0]]
    away = 0
    for other in range(decisions.length[1]):
        t = decisions.eviction[other, 0]
        if snapshot.tasks.job[t] == j and decisions.eviction[other, 1] != STALE_GANG:
            if state.task.status[t] == IS_RELEASING:
                count_as_evicted(t, 1, ctx)
                away += 1
    return_job(j, False, ctx, search)
    for other in range(decisions.length[1]):
        t = decisions.eviction[other, 0]
        if snapshot.tasks.job[t] == j and state.task.status[t] == IS_EVICTED:
            count_as_evicted(t, -1, ctx)
            away -= 1
    return away > 0


@inner
def count_as_evicted(t: int, sign: int, ctx: Context) -> None:
    """Let a pod that leaves be one that may be placed again; ``sign`` -1: it leaves after all."""
    at = ctx.state.at
    set_integer(at.status + t, IS_EVICTED if sign > 0 else IS_RELEASING, ctx)
    add_integer(at.pending + ctx.snapshot.tasks.set[t], sign, ctx)
    move_cursor(t, ctx)


@inner
def drop_kept(state: State, decisions: Decisions) -> None:
    """Take the evictions that were taken back out of the list."""
    kept = 0
    for row in range(decisions.length[1]):
        t = decisions.eviction[row, 0]
        if state.task.status[t] != IS_RELEASING and state.task.status[t] != IS_PIPELINED:
            decisions.evicted[t] = 0
            continue
        for column in range(decisions.eviction.shape[1]):
            decisions.eviction[kept, column] = decisions.eviction[row, column]
        for column in range(decisions.sides.shape[1]):
            decisions.sides[kept, column] = decisions.sides[row, column]
        kept += 1
    decisions.length[1] = kept
