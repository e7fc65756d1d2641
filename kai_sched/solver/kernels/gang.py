"""Which pods of a job are placed next, its chunk; which of its sub-groups comes first, and how many pods each lacks
(semantics 0.4, 1.3, 3.2).

A job is a tree of sets whose leaves are pod sets. The rows of a tree are contiguous, parents first, so one loop over
them backwards goes from the leaves to the root. A chunk is made in two passes: ``survey_sets`` goes upwards and finds
out which sets are satisfied and which can be asked for; ``next_of`` goes downwards and chooses members and tasks.

Rules that differ from v0.17.0: an unsatisfied set asks only for the members that it lacks, and a member that cannot
reach its minimum takes up no place.

Cost for a job with S sets and T tasks: O(S) for the survey, O(m^2) at worst to order m members (they are mostly in
order), and O(T) over the whole life of a cursor, not per chunk.
Invariant: nothing but scratch and the cursor of pod sets is written; a cursor never passes a pending task.
"""

from __future__ import annotations

import enum

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Sets, Status
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.undo import set_integer
from kai_sched.solver.state import Context, SetState, Survey

IS_PENDING = int(Status.PENDING)
IS_EVICTED = int(Status.EVICTED)


class GangStage(enum.IntEnum):
    """How many pods a job has in place, compared with the minimums of its sets."""

    BELOW_MINIMUM = 0
    AT_MINIMUM = 1
    ABOVE_MINIMUM = 2


BELOW_MINIMUM = int(GangStage.BELOW_MINIMUM)
AT_MINIMUM = int(GangStage.AT_MINIMUM)
ABOVE_MINIMUM = int(GangStage.ABOVE_MINIMUM)


@inner
def survey_sets(first: int, end: int, returning: bool, ctx: Context) -> None:
    """Fill ``scratch.survey`` (S,) for the sets [first, end) of a job: how far each is and what it can give.

    ``met`` is the number of active tasks of a pod set, or of satisfied members of a set; a set is satisfied if that
    reaches its minimum. ``able`` is 1 if a satisfied set has something to give, or an unsatisfied one can reach its
    minimum with what is pending ("reachable" in 0.4).

    Parameters
    ----------
    first, end : the rows of the job's sets, the root first
    returning : whether only tasks that a search has evicted may be asked for (``scratch.returning.left`` (S,)), instead
        of all pending tasks (``state.sets.pending`` (S,))
    """
    sets, scratch = ctx.snapshot.sets, ctx.scratch
    set_state, survey = ctx.state.sets, scratch.survey
    for s in range(end - 1, first - 1, -1):
        minimum = sets.minimum[s]
        if sets.child_ptr[s] == sets.child_end[s]:
            count = set_state.active[s]
            pending = int(scratch.returning.left[s] if returning else set_state.pending[s])
            able = pending > 0 if count >= minimum else pending >= minimum - count
        else:
            count = 0
            able_unmet = 0
            able_any = False
            for member in range(sets.child_ptr[s], sets.child_end[s]):
                # Members have higher rows than their set, so their survey is done. A satisfied member counts but does
                # not help to reach the minimum; an unsatisfied one helps only if it can be satisfied itself.
                if survey.met[member] >= sets.minimum[member]:
                    count += 1
                elif survey.able[member] == 1:
                    able_unmet += 1
                able_any = able_any or survey.able[member] == 1
            able = able_any if count >= minimum else able_unmet >= minimum - count
        survey.met[s] = count
        survey.able[s] = 1 if able else 0


@inner
def count_returning(first: int, end: int, ctx: Context) -> None:
    """Prepare ``next_return`` for a job with the sets [first, end): count the tasks that a search has evicted.

    Writes, in place and not through the undo log, ``scratch.returning`` (S,) and ``scratch.excluded`` (longest job),
    which holds one flag for each task of the job, counted from its first: 0 if the task may return. The rows must be
    those of a whole job, as both are indexed relative to its first task.
    """
    sets, scratch = ctx.snapshot.sets, ctx.scratch
    base = sets.task_ptr[first]
    for s in range(first, end):
        scratch.returning.left[s], scratch.returning.before[s] = 0, 0
        if sets.child_ptr[s] != sets.child_end[s]:
            continue
        for t in range(sets.task_ptr[s], sets.task_ptr[s + 1]):
            evicted = ctx.state.task.status[t] == IS_EVICTED
            scratch.excluded[t - base] = not evicted
            scratch.returning.left[s] += evicted


@inner
def exclude_from_return(t: int, ctx: Context) -> None:
    """Remove task ``t`` from those that ``next_return`` may ask for: it has returned, or there is no room for it.

    Writes ``scratch.excluded`` and ``scratch.returning.left`` (S,) in place, not through the undo log. Removing a task
    twice counts once.
    """
    first, s = ctx.snapshot.jobs.set_ptr[ctx.snapshot.tasks.job[t]], ctx.snapshot.tasks.set[t]
    task_ptr, scratch = ctx.snapshot.sets.task_ptr, ctx.scratch
    if scratch.excluded[t - task_ptr[first]] == 0:
        scratch.excluded[t - task_ptr[first]] = 1
        scratch.returning.left[s] -= 1


@inner
def stage_of(first: int, end: int, sets: Sets, set_state: SetState) -> int:
    """Return where the job with sets [first, end) stands in the elastic order (1.3).

    BELOW_MINIMUM if some pod set has too few active tasks, else ABOVE_MINIMUM if some pod set has more than its
    minimum, else AT_MINIMUM. Reads ``set_state.active`` (S,) and ``sets.minimum`` (S,); only pod sets count, not the
    sets above.
    """
    stage = AT_MINIMUM
    for s in range(first, end):
        if sets.child_ptr[s] == sets.child_end[s]:
            if set_state.active[s] < sets.minimum[s]:
                return BELOW_MINIMUM
            if set_state.active[s] > sets.minimum[s]:
                stage = ABOVE_MINIMUM
    return stage


@inner
def goes_before(a: int, b: int, minimum: Ints, survey: Survey) -> bool:
    """Return whether member ``a`` of a set goes before member ``b`` in member order (1.3).

    Unsatisfied members first, then members with a minimum above 0 by the ratio of count to minimum, then the others by
    count. Ties go by row, which is by name. ``minimum`` (S,) is ``sets.minimum``; counts are ``survey.met`` (S,).
    """
    unmet_a = survey.met[a] < minimum[a]
    unmet_b = survey.met[b] < minimum[b]
    if unmet_a or unmet_b:
        return unmet_a and (not unmet_b or a < b)
    if (minimum[a] > 0) != (minimum[b] > 0):
        return bool(minimum[a] > 0)
    # counts over minimums, cross-multiplied: integers compare exactly
    left = survey.met[a] * max(minimum[b], 1)
    right = survey.met[b] * max(minimum[a], 1)
    return left < right if left != right else a < b


@inner
def order_members(first: int, end: int, ctx: Context) -> None:
    """Write the members [first, end) of a set to ``scratch.order`` (S,), from entry 0 on, in member order (1.3).

    Insertion sort: members of equal standing are in order already, as rows go by name, so it is mostly linear.
    """
    order = ctx.scratch.order
    for place in range(end - first):
        member = first + place
        slot = place
        # Bound: ``slot`` falls.
        while slot > 0 and goes_before(member, order[slot - 1], ctx.snapshot.sets.minimum, ctx.scratch.survey):
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = member


@inner
def next_chunk(j: int, ctx: Context) -> int:
    """Write the next chunk of job ``j`` (3.2) to ``scratch.chunk``; return its length; 0: it asks for nothing.

    The chunk has rows of tasks, by pod set and in task order. Pending tasks and those that a search has evicted count
    alike. Fills ``scratch.survey`` (S,) on the way, which callers use to find out why a chunk is empty. Moves the
    cursors of pod sets (``state.sets.cursor``) through the undo log.
    """
    return next_of(j, False, ctx)


@inner
def next_return(j: int, ctx: Context) -> int:
    """Write the next chunk of the evicted tasks of job ``j`` to ``scratch.chunk``; return its length.

    Evicted means: by the search that runs. Tasks that were pending before it are left out. ``count_returning`` must
    have prepared ``scratch.returning`` (S,), and ``exclude_from_return`` removes what has been asked for; nothing goes
    through the undo log.
    """
    return next_of(j, True, ctx)


@inner
def next_of(j: int, returning: bool, ctx: Context) -> int:
    """Write the next chunk of job ``j`` to ``scratch.chunk``, one entry for each task; return its length (3.2).

    Parameters
    ----------
    j : row of the job
    returning : False: pending and evicted tasks (``next_chunk``); True: evicted tasks alone (``next_return``)

    Returns
    -------
    int : length of the chunk, 0 if the root cannot be asked for. ``scratch.survey`` (S,) is filled in any case.
    """
    first, end, sets = ctx.snapshot.jobs.set_ptr[j], ctx.snapshot.jobs.set_ptr[j + 1], ctx.snapshot.sets
    scratch = ctx.scratch
    survey = scratch.survey
    survey_sets(first, end, returning, ctx)
    if survey.able[first] == 0:
        return 0
    length = 0
    depth = 1
    stack = scratch.stack
    stack[0] = first
    # Depth first from the root. Each set is on the stack at most once, so S + 1 entries are enough. A pod set that is
    # reached gives what it lacks, or one task if it lacks nothing; ``able`` guarantees that it has so many.
    while depth > 0:  # Bound: each set is on the stack once.
        depth -= 1
        s = stack[depth]
        missing = sets.minimum[s] - survey.met[s]
        if sets.child_ptr[s] == sets.child_end[s]:
            if returning:
                length = take_returning(s, max(missing, 1), length, first, ctx)
            else:
                length = take_pending(s, max(missing, 1), length, ctx)
        else:
            order_members(sets.child_ptr[s], sets.child_end[s], ctx)
            n_members = sets.child_end[s] - sets.child_ptr[s]
            depth += choose_members(n_members, missing, depth, ctx)
    return length


@inner
def choose_members(n_members: int, missing: int, depth: int, ctx: Context) -> int:
    """Push those members of a set onto ``scratch.stack`` (S + 1,) that go into the chunk (3.2).

    A set that lacks members asks for as many unsatisfied, reachable members as it lacks. A satisfied set asks for the
    first member that has something to give.

    Parameters
    ----------
    n_members : how many entries of ``scratch.order`` (S,) hold the members, in member order; the list is overwritten
    missing : how many satisfied members the set lacks; 0 or less: it is satisfied
    depth : how many entries the stack has

    Returns
    -------
    int : how many members were pushed
    """
    survey, order = ctx.scratch.survey, ctx.scratch.order
    wanted = max(missing, 1)
    chosen = 0
    # The chosen members are moved to the front of the same list: ``chosen`` never passes ``place``.
    for place in range(n_members):
        member = order[place]
        met = survey.met[member] >= ctx.snapshot.sets.minimum[member]
        if chosen < wanted and survey.able[member] == 1 and not (missing > 0 and met):
            order[chosen] = member
            chosen += 1
    # The stack gives back the last entry first, so the members are pushed in reverse.
    for place in range(chosen):
        ctx.scratch.stack[depth + place] = order[chosen - 1 - place]
    return chosen


@inner
def take_returning(s: int, wanted: int, length: int, first: int, ctx: Context) -> int:
    """Append the first ``wanted`` tasks of pod set ``s`` that may return to ``scratch.chunk``; return its new length.

    Starts at ``scratch.returning.before`` (S,), and moves it to the first task that may still return. That is sound
    until the next ``count_returning``: in between tasks are only removed (``exclude_from_return``).

    Parameters
    ----------
    s : row of a pod set
    wanted : how many tasks to take; fewer are taken if fewer may return
    length : entries that the chunk has already
    first : row of the job's root set, from whose first task ``scratch.excluded`` counts
    """
    task_ptr, scratch = ctx.snapshot.sets.task_ptr, ctx.scratch
    begin = task_ptr[s] + scratch.returning.before[s]
    found = NULL
    for t in range(begin, task_ptr[s + 1]):
        if wanted == 0:
            break
        if scratch.excluded[t - task_ptr[first]] == 0:
            found = t if found == NULL else found
            scratch.chunk[length] = t
            length += 1
            wanted -= 1
    if found != NULL:
        scratch.returning.before[s] = found - task_ptr[s]
    return length


@inner
def take_pending(s: int, wanted: int, length: int, ctx: Context) -> int:
    """Append the first ``wanted`` pending tasks of pod set ``s`` to ``scratch.chunk``; return its new length.

    Tasks that a search has evicted count as pending. ``state.sets.cursor`` (S,) remembers the place in the set before
    which no task is pending, so that growing an elastic job pod by pod does not pass its running pods each time. It is
    moved through the undo log: a rollback that makes earlier tasks pending again also moves the cursor back.
    """
    task_ptr, state = ctx.snapshot.sets.task_ptr, ctx.state
    base = task_ptr[s]
    start = base + state.sets.cursor[s]
    first_pending = NULL
    for t in range(start, task_ptr[s + 1]):
        if wanted == 0:
            break
        if state.task.status[t] == IS_PENDING or state.task.status[t] == IS_EVICTED:
            if first_pending == NULL:
                first_pending = t
            ctx.scratch.chunk[length] = t
            length += 1
            wanted -= 1
    if first_pending > start:
        set_integer(state.at.cursor + s, first_pending - base, ctx)
    return length
