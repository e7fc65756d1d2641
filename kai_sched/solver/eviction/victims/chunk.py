"""Which pods of a victim leave next: surplus pods one by one, then surplus sub-groups, then all the rest
(semantics 4.4).

Surplus tasks leave one by one, the last in task order first. Then surplus sub-groups leave, each as a whole, and in
the end all that is left of the job leaves together. What is left is not the working state but what the accumulation
has not taken yet: ``sets.left`` (S,) counts the active tasks that are left, ``tasks.taken`` (T,) marks the taken ones.

Cost: O(S of the job x depth) for a chunk, and all tasks of a set once. A job of n surplus tasks gives n chunks.

Invariant: only ``search.sets`` and scratch are written. The caller takes the tasks off
(``victims.potential.take_off``).
"""

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
    """Return the stage of a job in job order (1.3) with the tasks that are left to it: below, at or above its minimums.

    The same as ``gang.stage_of``, which counts the tasks of the working state.

    Parameters
    ----------
    first, end : int
        The sets of the job, rows [first, end).
    rows : SearchSets
        ``left`` (S,) says how many active tasks are left.
    """
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
    """Find out which sets of the job with sets [first, end) have a surplus to give (4.4), from the leaves to the root.

    Writes in place, (S,) each: ``left`` of sets that have members, as the sum over them; ``over``, 1 if something at or
    below the set is above its minimum; ``gives``, 1 if the set has a surplus. ``scratch.survey.met`` gets the tasks
    that are left of each pod set, and the satisfied members of each other set.
    """
    sets, rows = ctx.snapshot.sets, search.sets
    survey = ctx.scratch.survey
    # Members have higher rows than their set.
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
        # A set of which no member is satisfied has no surplus. Else it gives a surplus of a member, or a whole member
        # if more of them are satisfied than it needs.
        rows.gives[s] = met > 0 and ((over and below_gives) or (met > sets.minimum[s] and left > 0))


@inner
def victim_chunk(first: int, end: int, ctx: Context, search: Search, chunk: Longs) -> tuple[int, int]:
    """Write the tasks that a job would lose next to ``chunk``, and return how many there are and which set they empty.

    Reads ``sets.left``, ``sets.tail`` (S,) and ``tasks.taken`` (T,), overwrites ``scratch.order`` and what
    ``survey_surplus`` writes.

    Parameters
    ----------
    first, end : int
        The sets of the job, rows [first, end); ``first`` is the root.
    chunk : Longs, (L,)
        Receives rows of tasks.

    Returns
    -------
    length : int
        The number of tasks; 0 if none is left.
    emptied : int
        The set of which no task is left without the chunk, or NULL if it is one task of a surplus.
    """
    sets = ctx.snapshot.sets
    rows = search.sets
    survey_surplus(first, end, ctx, search)
    if rows.gives[first] == 0:
        return take_whole(first, end, ctx, search, chunk), first
    # Go down from the root, and take at each set the last member in member order that gives something. Member order
    # puts those first that lack most in proportion to their minimum, so the last one is served best.
    s = first
    while sets.child_ptr[s] != sets.child_end[s]:  # Bound: each turn goes down one level.
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
    # Within an accumulation tasks only become fewer, so the next one is never behind the last one.
    for t in range(rows.tail[s] - 1, sets.task_ptr[s] - 1, -1):
        if is_left(t, ctx.state, search):
            chunk[0], rows.tail[s] = t, t + 1
            return 1, NULL
    return 0, NULL


@inner
def subtree_end(s: int, end: int, sets: Sets) -> int:
    """Return a row after all sets at or below set ``s``, where ``end`` ends the sets of the job.

    For a set with members it is ``end``: its descendants are not contiguous, and ``take_whole`` checks each row.
    """
    return s + 1 if sets.child_ptr[s] == sets.child_end[s] else end


@inner
def take_whole(first: int, end: int, ctx: Context, search: Search, chunk: Longs) -> int:
    """Write all tasks that are left at or below set ``first`` to ``chunk`` (L,), and return how many there are.

    Tasks come in the order of their sets, then in task order.
    """
    sets = ctx.snapshot.sets
    length = 0
    for s in range(first, end):
        # Parents have lower rows: go up until the row is not above ``first``. It is ``first`` exactly if s is at or
        # below it.
        above = s
        while above > first:  # Bound: parents have lower rows.
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
    """Return whether task ``t`` is active and not taken yet: ``state.task.status`` and ``tasks.taken`` (T,).

    Pipelined tasks are active: a job may lose a place that it was only promised.
    """
    return bool(IS_PIPELINED <= state.task.status[t] <= IS_RUNNING and search.tasks.taken[t] == 0)
