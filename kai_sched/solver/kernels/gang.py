"""Gangs: which pods of a job are asked for next (semantics 0.4, 3.2).

A job is a tree of sets; its leaves are pod sets. Rows of a tree are contiguous with parents first, so one loop
backwards goes from the leaves to the root. Two marked defects of the original are done right: an unsatisfied set asks
only for the members that it misses, and a member that cannot reach its minimum takes up no place.
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
    """Fill ``scratch.survey`` of sets [first, end): satisfied members or placed pods; whether it can ask for more.

    With ``returning`` only evicted tasks are there to be asked for.
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
    """Count for each pod set of [first, end), a whole job, what a search has evicted of it, for ``next_return``."""
    sets, scratch = ctx.snapshot.sets, ctx.scratch
    base = sets.task_ptr[first]
    for s in range(first, end):
        scratch.returning.left[s], scratch.returning.before[s] = 0, 0
        if sets.child_ptr[s] != sets.child_end[s]:
            continue
        for t in range(sets.task_ptr[s], sets.task_ptr[s + 1]):
            evicted = ctx.state.task.status[t] == IS_EVICTED
            scratch.away[t - base] = not evicted
            scratch.returning.left[s] += evicted


@inner
def take_off(t: int, ctx: Context) -> None:
    """Ask no more for task ``t`` of pod set ``s`` in ``next_return``: it is back, or there is no room for it."""
    first, s = ctx.snapshot.jobs.set_ptr[ctx.snapshot.tasks.job[t]], ctx.snapshot.tasks.set[t]
    task_ptr, scratch = ctx.snapshot.sets.task_ptr, ctx.scratch
    if scratch.away[t - task_ptr[first]] == 0:
        scratch.away[t - task_ptr[first]] = 1
        scratch.returning.left[s] -= 1


@inner
def stage_of(first: int, end: int, sets: Sets, set_state: SetState) -> int:
    """Where a job stands for the elastic order (1.3): some pod set below its minimum, all at it, or some above it."""
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
    """Member order (1.3): unsatisfied first, then minimum > 0 before 0, then the lower ratio; ties by row (name)."""
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
    """Write the members [first, end) of a set to ``order`` in member order (insertion sort: they mostly are in it)."""
    order = ctx.scratch.order
    for place in range(end - first):
        member = first + place
        slot = place
        while slot > 0 and goes_before(member, order[slot - 1], ctx.snapshot.sets.minimum, ctx.scratch.survey):
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = member


@inner
def next_chunk(j: int, ctx: Context) -> int:
    """Write the next chunk of the job with sets [first, end) to ``scratch.chunk`` (task rows); returns its length.

    0 means that there is nothing to ask for. The sets are surveyed on the way.
    """
    return next_of(j, False, ctx)


@inner
def next_return(j: int, ctx: Context) -> int:
    """The same of those tasks that a search has evicted (``count_returning``, ``take_off``), whatever else waits."""
    return next_of(j, True, ctx)


@inner
def next_of(j: int, returning: bool, ctx: Context) -> int:
    """The next chunk of what waits and what a search has evicted, or, ``returning``, of what it has evicted alone."""
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
    while depth > 0:
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
    """Push the members of a set that go into the chunk; returns how many.

    With members missing, as many unsatisfied ones as are missing; else the first that can take more. The stack gives
    back the last one first, so they are pushed in reverse.
    """
    survey, order = ctx.scratch.survey, ctx.scratch.order
    wanted = max(missing, 1)
    chosen = 0
    for place in range(n_members):
        member = order[place]
        met = survey.met[member] >= ctx.snapshot.sets.minimum[member]
        if chosen < wanted and survey.able[member] == 1 and not (missing > 0 and met):
            order[chosen] = member
            chosen += 1
    for place in range(chosen):
        ctx.scratch.stack[depth + place] = order[chosen - 1 - place]
    return chosen


@inner
def take_returning(s: int, wanted: int, length: int, first: int, ctx: Context) -> int:
    """Append the first ``wanted`` tasks of pod set ``s`` that may return to ``scratch.chunk``; returns its length."""
    task_ptr, scratch = ctx.snapshot.sets.task_ptr, ctx.scratch
    begin = task_ptr[s] + scratch.returning.before[s]
    found = NULL
    for t in range(begin, task_ptr[s + 1]):
        if wanted == 0:
            break
        if scratch.away[t - task_ptr[first]] == 0:
            found = t if found == NULL else found
            scratch.chunk[length] = t
            length += 1
            wanted -= 1
    if found != NULL:
        scratch.returning.before[s] = found - task_ptr[s]
    return length


@inner
def take_pending(s: int, wanted: int, length: int, ctx: Context) -> int:
    """Append the first ``wanted`` pending (or, in a search, evicted) tasks of pod set ``s``; returns the new length.

    A cursor remembers before which task none is pending, so that growing an elastic job pod by pod does not pass its
    running pods each time.
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
