"""Recorded victims: who makes room for a part of the wish, and goes in all larger scenarios, too (semantics 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.hunt import (
    FIRST_SCENE,
    IN_SCENE,
    KNOWN,
    MEMBER_OF,
    N_KNOWN,
    N_SCENE,
    RECORDED,
    SCENE,
    TIMES,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.accumulate import forget
from kai_sched.solver.state import STATUS, State

IS_EVICTED = int(Status.EVICTED)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def drop_known(prey: Prey) -> None:
    """Forget the recorded victims."""
    for entry in range(prey.counts[N_KNOWN]):
        prey.task[prey.lists[KNOWN, entry], RECORDED] = 0
    prey.counts[N_KNOWN] = 0


@inner
def record(snapshot: Snapshot, state: State, victims: Lineup, prey: Prey) -> None:
    """Record the victims of a solution: every group of the scenario of which some task leaves, or waits for room."""
    forget(victims, prey)
    drop_known(prey)
    lists = prey.lists
    n_known = 0
    for entry in range(prey.counts[N_SCENE]):
        t = lists[SCENE, entry]
        if group_has_gone(snapshot.tasks.job[t], prey.task[t, MEMBER_OF], state, prey):
            lists[KNOWN, n_known] = t
            prey.task[t, RECORDED] = prey.task[t, TIMES]
            n_known += 1
    prey.counts[N_KNOWN] = n_known


@inner
def all_have_gone(snapshot: Snapshot, state: State, prey: Prey) -> bool:
    """Whether all victims of the scenario would be recorded."""
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        if not group_has_gone(snapshot.tasks.job[t], prey.task[t, MEMBER_OF], state, prey):
            return False
    return True


@inner
def group_has_gone(j: int, group: int, state: State, prey: Prey) -> bool:
    """Whether some task of the group, which is of job ``j``, leaves, or waits for room."""
    t = prey.job[j, FIRST_SCENE] - 1
    while t >= 0:
        if prey.task[t, MEMBER_OF] == group and state.task[t, STATUS] in (IS_EVICTED, IS_PIPELINED):
            return True
        t = prey.task[t, IN_SCENE] - 1
    return False
