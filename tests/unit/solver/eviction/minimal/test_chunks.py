"""What a chunk of potential victims is (semantics 4.4): against the lists of tasks that the accumulation leaves."""

from __future__ import annotations

import pytest
from hypothesis import given

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot
from tests.afresh import afresh
from tests.unit.solver.searches import crowded, searching

chunks, potential = afresh("solver.eviction.minimal.chunks", "solver.eviction.victims.potential")
NO_CEILING = 2**62


@given(crowded())
def test_a_chunk_is_the_tasks_that_came_together(snapshot: Snapshot) -> None:
    """And it takes the last pods of a set exactly where no task of that set, or below it, is left."""
    ctx, search = searching(snapshot)
    potential.begin_accumulation(NO_CEILING, False, ctx, search)
    taken: list[list[int]] = []
    while potential.accumulate(NO_CEILING, ctx, search):
        before = {t for tasks in taken for t in tasks}
        taken.append([t for t in range(snapshot.tasks.job.size) if search.tasks.taken[t] and t not in before])
    for g, tasks in enumerate(taken):
        start, end = int(search.lists.chunk_start[g]), chunks.chunk_end(g, search)
        assert sorted(search.lists.potential[start:end].tolist()) == tasks
        assert chunks.first_of(g, search) == search.lists.potential[start]
        assert chunks.queue_of(g, snapshot, search) == snapshot.jobs.queue[snapshot.tasks.job[tasks[0]]]
        prices = snapshot.classes.quota[snapshot.tasks.cls[tasks]]
        assert chunks.amount_of(g, snapshot, search) == pytest.approx(prices.sum(axis=0))
        search.tasks.blocked[:] = range(search.tasks.blocked.size)
        assert chunks.blocked_of(g, search) == sum(tasks)
        for h in range(g):
            own = int(snapshot.tasks.set[chunks.first_of(h, search)])
            last_of = int(search.lists.emptied[g])
            assert chunks.empties(g, h, snapshot, search) == (last_of != NULL and last_of in above(own, snapshot))


def above(s: int, snapshot: Snapshot) -> list[int]:
    """The set and those that it is a member of."""
    found = []
    while s != NULL:
        found.append(s)
        s = int(snapshot.sets.parent[s])
    return found
