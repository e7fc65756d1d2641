"""Recorded victims: they make room for a part of the pending tasks, and are in all larger scenarios (4.5)."""

from __future__ import annotations

from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.eviction.potential_victims import forget
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.state import State

IS_EVICTED = int(Status.EVICTED)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def drop_known(search: Search) -> None:
    """Forget the recorded victims."""
    for entry in range(search.counts.recorded[0]):
        search.tasks.recorded[search.lists.recorded[entry]] = 0
    search.counts.recorded[0] = 0


@inner
def record(snapshot: Snapshot, state: State, search: Search) -> None:
    """Record the victims of a solution: every group of the scenario of which some task leaves, or waits for room."""
    forget(search)
    drop_known(search)
    lists = search.lists
    n_known = 0
    for entry in range(search.counts.scenario[0]):
        t = lists.scenario[entry]
        if group_has_gone(snapshot.tasks.job[t], search.tasks.recorded_with[t], state, search):
            lists.recorded[n_known] = t
            search.tasks.recorded[t] = search.tasks.times[t]
            n_known += 1
    search.counts.recorded[0] = n_known


@inner
def all_have_gone(snapshot: Snapshot, state: State, search: Search) -> bool:
    """Whether all victims of the scenario would be recorded."""
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        if not group_has_gone(snapshot.tasks.job[t], search.tasks.recorded_with[t], state, search):
            return False
    return True


@inner
def group_has_gone(j: int, group: int, state: State, search: Search) -> bool:
    """Whether some task of the group, which is of job ``j``, leaves, or waits for room."""
    t = search.jobs.first_in_scenario[j] - 1
    while t >= 0:
        if search.tasks.recorded_with[t] == group and state.task.status[t] in (IS_EVICTED, IS_PIPELINED):
            return True
        t = search.tasks.next_in_scenario[t] - 1
    return False
