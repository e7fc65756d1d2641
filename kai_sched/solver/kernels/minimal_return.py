"""Victims that can stay after all: at the end of a cycle there may be room again where they run.

A search finds as few victims as will do for one job. A later one may evict somebody larger beside them, so that those
who were needed before no longer are.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Settings, Snapshot, Status
from kai_sched.solver.hunt import HOME, PRIOR, Prey
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import undo_all
from kai_sched.solver.kernels.evict import evict
from kai_sched.solver.kernels.minimal_scenario import come_home, fits_at_home, place_to_return, return_job
from kai_sched.solver.kernels.place import count_bonds
from kai_sched.solver.kernels.undo import set_integer
from kai_sched.solver.state import (
    AT_SETS,
    AT_TASK,
    CURSOR,
    NODE,
    PENDING,
    STATUS,
    Decisions,
    Finder,
    Log,
    Scratch,
    State,
)

STALE_GANG = int(Action.STALE_GANG)
IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)
IS_EVICTED = int(Status.EVICTED)


@inner
def let_stay(
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
    decisions: Decisions,
) -> None:
    """Take evictions back, those decided last first, until nobody finds room any more where it runs.

    Pods of one group stay as they would be placed: all of its next chunk, or nothing of it.
    """
    anybody = decisions.length[1] > 0
    while anybody:
        anybody = False
        log.size[:] = 0
        for row in range(decisions.length[1] - 1, -1, -1):
            t = int(decisions.eviction[row, 0])
            if not might_stay(t, row, snapshot, state, prey, decisions):
                continue
            if state.task[t, STATUS] == IS_PIPELINED:
                found = stay_home(t, settings, snapshot, state, log, finder, prey, decisions)
            else:
                found = stay_together(row, settings, snapshot, state, log, finder, scratch, prey, decisions)
            anybody = anybody or found
            log.size[:] = 0
    strike(state, decisions)


@inner
def might_stay(t: int, row: int, snapshot: Snapshot, state: State, prey: Prey, decisions: Decisions) -> bool:
    """Whether the victim of an eviction is away, and there would be room for it where it ran."""
    if decisions.eviction[row, 1] == STALE_GANG:
        return False
    if state.task[t, STATUS] != IS_RELEASING and state.task[t, STATUS] != IS_PIPELINED:
        return False
    return fits_at_home(t, snapshot, state, prey)


@inner
def stay_home(
    t: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    prey: Prey,
    decisions: Decisions,
) -> bool:
    """Let a pod that was to move stay, if it may."""
    j, c, away = snapshot.tasks.job[t], snapshot.tasks.cls[t], state.task[t, NODE]
    prior, home = prey.task[t, PRIOR], prey.task[t, HOME]
    evict(j, t, 1, snapshot, state, log, finder, prey)
    prey.task[t, PRIOR], prey.task[t, HOME] = prior, home
    if finder.dynamic[c] == 1:
        n_ports = state.ports.shape[1]
        count_bonds(c, away, -1, snapshot.terms.domain, snapshot.bonds, n_ports, state.integers, state.offset, log)
    if place_to_return(t, False, settings, snapshot, state, log, finder, prey) == NULL:
        undo_all(state, log, finder)
        return False
    come_home(t, snapshot, state, log, finder, prey)
    set_integer(log, state.integers, state.offset[AT_TASK] + 2 * t + NODE, home)
    decisions.task[decisions.row[t]] = NULL
    decisions.row[t] = NULL
    return True


@inner
def stay_together(
    row: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
    decisions: Decisions,
) -> bool:
    """Let as many as can of the job whose pod was evicted in this row stay; False: nobody."""
    j = snapshot.tasks.job[decisions.eviction[row, 0]]
    away = 0
    for other in range(decisions.length[1]):
        t = decisions.eviction[other, 0]
        if snapshot.tasks.job[t] == j and decisions.eviction[other, 1] != STALE_GANG:
            if state.task[t, STATUS] == IS_RELEASING:
                count_as_evicted(t, 1, snapshot, state, log)
                away += 1
    return_job(j, False, settings, snapshot, state, log, finder, scratch, prey)
    for other in range(decisions.length[1]):
        t = decisions.eviction[other, 0]
        if snapshot.tasks.job[t] == j and state.task[t, STATUS] == IS_EVICTED:
            count_as_evicted(t, -1, snapshot, state, log)
            away -= 1
    return away > 0


@inner
def count_as_evicted(t: int, sign: int, snapshot: Snapshot, state: State, log: Log) -> None:
    """Let a pod that leaves be one that may be placed again; ``sign`` -1: it leaves after all."""
    s, integers, offset = snapshot.tasks.set[t], state.integers, state.offset
    set_integer(log, integers, offset[AT_TASK] + 2 * t + STATUS, IS_EVICTED if sign > 0 else IS_RELEASING)
    at = offset[AT_SETS] + 4 * s
    set_integer(log, integers, at + PENDING, integers[at + PENDING] + sign)
    place_in_set = t - snapshot.sets.task_ptr[s]
    if place_in_set < integers[at + CURSOR]:
        set_integer(log, integers, at + CURSOR, place_in_set)


@inner
def strike(state: State, decisions: Decisions) -> None:
    """Take the evictions that were taken back out of the list."""
    kept = 0
    for row in range(decisions.length[1]):
        t = decisions.eviction[row, 0]
        if state.task[t, STATUS] != IS_RELEASING and state.task[t, STATUS] != IS_PIPELINED:
            decisions.evicted[t] = 0
            continue
        for column in range(decisions.eviction.shape[1]):
            decisions.eviction[kept, column] = decisions.eviction[row, column]
        for column in range(decisions.sides.shape[1]):
            decisions.sides[kept, column] = decisions.sides[row, column]
        kept += 1
    decisions.length[1] = kept
