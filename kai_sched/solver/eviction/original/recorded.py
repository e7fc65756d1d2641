"""Original search only: the victims that a probe needed, which are part of all larger probes (semantics 4.5).

The original search probes for a growing part of the chunk. A probe that succeeds is undone, and its victims are
recorded. The next, larger probe has them in each of its scenarios and accumulates others beside them. Victims are
recorded by groups, a chunk (multi-node) or all victims of a job (node-local), so that no gang is recorded in part.

Cost: O(victims of the scenario x victims of their job). Invariant: ``tasks.recorded`` (T,) is above 0 exactly for the
tasks in ``lists.recorded``, and none of them is evicted between two probes.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims.potential import forget_accumulation
from kai_sched.solver.jit import inner
from kai_sched.solver.state import State

IS_EVICTED = int(Status.EVICTED)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def drop_known(search: Search) -> None:
    """Forget the recorded victims, in place: ``tasks.recorded`` (T,) becomes 0 for each, and their list empty."""
    for entry in range(search.counts.recorded[0]):
        search.tasks.recorded[search.lists.recorded[entry]] = 0
    search.counts.recorded[0] = 0


@inner
def record_victims(snapshot: Snapshot, state: State, search: Search) -> None:
    """Record the victims of the simulated solution: each group of which some task leaves or waits for room.

    Must run before the solution is undone, as it reads the status of tasks. Forgets the accumulation, and replaces the
    recorded victims in place: ``lists.recorded`` (T + 1,), and ``tasks.recorded`` (T,), how often the scenario names
    each. Groups of which all tasks are at home again are dropped: the larger probe does not need them so far.
    """
    forget_accumulation(search)
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
    """Return whether ``record_victims`` would record all victims of the scenario, by ``lists.scenario`` (T + 1,).

    Then the last probe for the whole chunk would begin with this very scenario, and need not run.
    """
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        if not group_has_gone(snapshot.tasks.job[t], search.tasks.recorded_with[t], state, search):
            return False
    return True


@inner
def group_has_gone(j: int, group: int, state: State, search: Search) -> bool:
    """Return whether some task of a group of job ``j`` leaves or waits for room in the simulated solution.

    Reads ``state.task.status`` (T,), EVICTED or PIPELINED, along the chain of the job in the scenario.

    Parameters
    ----------
    group : int
        The number of the group, ``tasks.recorded_with`` (T,).
    """
    t = search.jobs.first_in_scenario[j] - 1
    while t >= 0:  # Bound: the victims of the job, each once.
        if search.tasks.recorded_with[t] == group and state.task.status[t] in (IS_EVICTED, IS_PIPELINED):
            return True
        t = search.tasks.next_in_scenario[t] - 1
    return False
