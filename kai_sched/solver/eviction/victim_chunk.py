"""Which pods of a job would go first: surplus ones one by one, surplus sub-groups whole, then all (semantics 4.4)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Longs, Sets, Status
from kai_sched.solver.eviction.tables import Search, SearchSets
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.gang import ABOVE_MINIMUM, AT_MINIMUM, BELOW_MINIMUM, order_members
from kai_sched.solver.state import Context, State

IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def remaining_stage(first: int, end: int, sets: Sets, rows: SearchSets) -> int:
    """Where a job stands for the elastic order with the pods that are left to it (``gang.stage_of``)."""
    stage = AT_MINIMUM
    for s in range(first, end):
        if sets.child_ptr[s] == sets.child_end[s]:
            if rows.left[s] < sets.minimum[s]:
                return BELOW_MINIMUM
            if rows.left[s] > sets.minimum[s]:
                stage = ABOVE_MINIMUM
    return stage


@inner
def survey_surplus(first: int, end: int, ctx: Context, search: Search) -> None:
    """Fill LEFT of sets, OVER (something at or below exceeds its threshold) and GIVES (it has a surplus to give)."""
    sets, rows = ctx.snapshot.sets, search.sets
    survey = ctx.scratch.survey
    for s in range(end - 1, first - 1, -1):
        if sets.child_ptr[s] == sets.child_end[s]:
            survey.met[s] = rows.left[s]
            over = rows.left[s] > sets.minimum[s]
            rows.over[s], rows.gives[s] = over, over
            continue
        met, left = 0, 0
        below_over, below_gives = False, False
        for member in range(sets.child_ptr[s], sets.child_end[s]):
            met += survey.met[member] >= sets.minimum[member]
            left += rows.left[member]
            below_over = below_over or rows.over[member] == 1
            below_gives = below_gives or rows.gives[member] == 1
        survey.met[s] = met
        rows.left[s] = left
        over = met > sets.minimum[s] or below_over
        rows.over[s] = over
        rows.gives[s] = met > 0 and ((over and below_gives) or (met > sets.minimum[s] and left > 0))


@inner
def victim_chunk(first: int, end: int, ctx: Context, search: Search, chunk: Longs) -> tuple[int, int]:
    """Write the tasks that the job with sets [first, end) would lose next to ``chunk``.

    Returns how many, and the set of which they are all that is left, or NULL for one pod of a surplus.

    LEFT of its pod sets says how many active tasks are left, TAKEN of a task that it is not. With no surplus it is all.
    """
    sets = ctx.snapshot.sets
    rows = search.sets
    survey_surplus(first, end, ctx, search)
    if rows.gives[first] == 0:
        return take_whole(first, end, ctx, search, chunk), first
    s = first
    while sets.child_ptr[s] != sets.child_end[s]:
        child, n_members = sets.child_ptr[s], sets.child_end[s] - sets.child_ptr[s]
        order_members(child, sets.child_end[s], ctx)
        chosen, whole = NULL, NULL
        for place in range(n_members - 1, -1, -1):
            member = ctx.scratch.order[place]
            if chosen == NULL and rows.over[s] == 1 and rows.gives[member] == 1:
                chosen = member
            if whole == NULL and rows.left[member] > 0:
                whole = member
        if chosen == NULL:
            return take_whole(whole, subtree_end(whole, end, sets), ctx, search, chunk), whole
        s = chosen
    for t in range(sets.task_ptr[s + 1] - 1, sets.task_ptr[s] - 1, -1):
        if is_left(t, ctx.state, search):
            chunk[0] = t
            return 1, NULL
    return 0, NULL


@inner
def subtree_end(s: int, end: int, sets: Sets) -> int:
    """Where to stop when looking for the pod sets at or below ``s``; all of them have ``s`` as an ancestor."""
    return s + 1 if sets.child_ptr[s] == sets.child_end[s] else end


@inner
def take_whole(first: int, end: int, ctx: Context, search: Search, chunk: Longs) -> int:
    """All tasks that are left in the pod sets of [first, end) that are ``first`` or below it."""
    sets = ctx.snapshot.sets
    length = 0
    for s in range(first, end):
        above = s
        while above > first:
            above = sets.parent[above]
        if above != first:
            continue
        for t in range(sets.task_ptr[s], sets.task_ptr[s + 1]):
            if is_left(t, ctx.state, search):
                chunk[length] = t
                length += 1
    return length


@inner
def is_left(t: int, state: State, search: Search) -> bool:
    """Whether the task is active, pipelined ones included, and not taken in this accumulation."""
    return bool(IS_PIPELINED <= state.task.status[t] <= IS_RUNNING and search.tasks.taken[t] == 0)
