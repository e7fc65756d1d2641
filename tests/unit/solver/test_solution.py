"""The answers of a solution, against the tables that they come from."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Snapshot, Status
from kai_sched.solver.pipeline import solve
from kai_sched.solver.solution import Solution
from tests.unit.solver.searches import crowded
from tests.unit.solver.tables import ALL_ON

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt")


def solved(snapshot: Snapshot) -> Solution:
    return solve(snapshot, ALL_ON, ACTIONS)


@given(crowded())
def test_answers_agree_with_each_other(snapshot: Snapshot) -> None:
    """Placements, evictions and statuses tell the same story, and shares are those of what is held."""
    solution = solved(snapshot)
    tasks, status = snapshot.tasks, solution.status
    placed = {each.task: each for each in solution.placements()}
    evicted = {each.task: each for each in solution.evictions()}
    for t, each in placed.items():
        assert status[t] == (Status.PIPELINED if each.waits else Status.ALLOCATED)
        assert solution.node[t] == each.node
    for t, one in evicted.items():
        assert tasks.status[t] != Status.PENDING
        assert one.node == tasks.node[t]
        assert (one.moves_to != NULL) == (status[t] == Status.PIPELINED)
        assert one.action in (Action.CONSOLIDATION, Action.RECLAIM, Action.PREEMPT)
        queues = {int(snapshot.jobs.queue[j]) for j in (tasks.job[t], one.preemptor)}
        assert len(one.held) == len(queues)
    changed = np.flatnonzero((status != tasks.status) & ~solution.lost).tolist()
    assert set(changed) == placed.keys() | evicted.keys()
    assert not solution.lost[list(placed)].any()
    for j in range(snapshot.jobs.queue.size):
        assert solution.helped(j) == tuple(solution.help[j])
    for amounts in solution.queues:
        assert amounts.shape == (snapshot.queues.parent.size, 3)


@given(crowded())
def test_the_side_of_the_victim_comes_first(snapshot: Snapshot) -> None:
    """Siblings on the two paths to the root, or one queue if both jobs are of it; they held what they held before."""
    solution, parent = solved(snapshot), snapshot.queues.parent
    for each in solution.evictions():
        rows = [side.queue for side in each.held]
        above = [_path(int(snapshot.jobs.queue[j]), parent) for j in (snapshot.tasks.job[each.task], each.preemptor)]
        assert all(q in path for q, path in zip(rows, above, strict=False))
        assert len({int(parent[q]) for q in rows}) == 1
        assert all(amount >= 0.0 for side in each.held for amount in side.amounts)


def _path(q: int, parent: np.ndarray) -> list[int]:
    path = [q]
    while parent[path[-1]] != NULL:
        path.append(int(parent[path[-1]]))
    return path
