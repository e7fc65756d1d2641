"""The answers of a solution, against what the same tables say elsewhere and against a worked example."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Snapshot, Status
from kai_sched.solver.pipeline import solve
from tests.unit.solver.full_nodes import full_nodes
from tests.unit.solver.searches import MINIMAL, crowded
from tests.unit.solver.tables import ALL_ON, Member, assemble, node_table, queue_table

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt")


@given(st.one_of(crowded(), full_nodes().map(lambda full: full.ctx.snapshot)))
def test_answers_agree_with_each_other(snapshot: Snapshot) -> None:
    """A task has another status at the end if and only if it was placed or evicted, and the status says which."""
    solution = solve(snapshot, ALL_ON, ACTIONS)
    tasks, status = snapshot.tasks, solution.status
    placed = {each.task: each for each in solution.placements()}
    evicted = {each.task: each for each in solution.evictions()}
    for t, each in placed.items():
        assert status[t] == (Status.PIPELINED if each.waits else Status.ALLOCATED)
        assert solution.node[t] == each.node
    for t, one in evicted.items():
        assert tasks.status[t] != Status.PENDING
        assert one.node == tasks.node[t]
        assert one.moves_to == (solution.node[t] if status[t] == Status.PIPELINED else NULL)
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


def test_an_eviction_compares_the_siblings_on_the_two_paths() -> None:
    """Two departments with a team each, full of pods of the second: the first may reclaim its quota.

    Both departments are compared, with what they held before. The victim of team 3 is the newest of its queue.
    """
    quota = [[9.0, 9.0, 2.0], [9.0, 9.0, 2.0]] * 2
    running = [Member(1, [Status.RUNNING]) for _ in range(4)]
    snapshot = assemble(
        [*running, Member(1, [Status.PENDING])],
        queue_table([NULL, NULL, 0, 1], quota=quota),
        node_table([[9.0, 9.0, 2.0, 9.0, 0.0]] * 2),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0]],
        tasks={"node": [0, 0, 1, 1, NULL]},
        jobs={"queue": [3, 3, 3, 3, 2]},
    )
    solution = solve(snapshot, MINIMAL, ACTIONS)
    assert [tuple(each) for each in solution.placements()] == [(4, 1, True)]
    (eviction,) = solution.evictions()
    assert eviction[:6] == (3, Action.RECLAIM, 4, 1, False, NULL)
    assert [tuple(side) for side in eviction.held] == [(1, (0.0, 0.0, 4.0)), (0, (0.0, 0.0, 0.0))]
    assert solution.queues.held[:, 2].tolist() == [1.0, 3.0, 1.0, 3.0]
