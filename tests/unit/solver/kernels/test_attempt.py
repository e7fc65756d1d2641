"""What all actions do with a job (semantics 3.3, 3.5): placements against a dictionary, requests against sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.allocation import make_tree
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt
from tests.oracle import chunk as twin
from tests.unit.solver.searches import check_books, crowded, price
from tests.unit.solver.tables import Member, assemble, opened
from tests.unit.solver.twins import twin_of

place_task = entry(attempt.place_task)
note_next_request = entry(attempt.note_next_request)
record_placement = entry(attempt.record_placement)
waits_for_minimum = entry(attempt.waits_for_minimum)


@given(crowded())
def test_a_task_is_bound_where_there_is_room_and_waits_where_there_will_be(snapshot: Snapshot) -> None:
    """One after the other, on some node where it fits now, or else later; nowhere if it fits none."""
    ctx = opened(snapshot)
    status, node, requests = ctx.state.task.status, ctx.state.task.node, snapshot.classes.request
    for t in [t for t in range(status.size) if status[t] == Status.PENDING]:
        request, idle = requests[snapshot.tasks.cls[t]], ctx.state.idle.copy()
        now = np.flatnonzero((request <= idle).all(axis=1))
        later = np.flatnonzero((request <= idle + ctx.state.releasing).all(axis=1))
        ctx.log.size[:] = 0
        verdict = place_task(int(snapshot.tasks.job[t]), t, ctx)
        if (request > snapshot.nodes.allocatable.max(axis=0)).any():
            assert (verdict, status[t]) == (Verdict.TOO_LARGE, Status.PENDING)
        elif not later.size:
            assert (verdict, status[t]) == (Verdict.NO_FIT, Status.PENDING)
        else:
            assert (verdict, status[t]) == (Verdict.OK, Status.ALLOCATED if node[t] in now else Status.PIPELINED)
            assert node[t] in later
            assert node[t] in now or not set(now) & set(later)
        check_books(ctx)


@given(crowded())
def test_a_job_asks_for_its_next_chunk(snapshot: Snapshot) -> None:
    ctx, tree = opened(snapshot), make_tree(snapshot)
    for j in range(snapshot.jobs.queue.size):
        job = twin_of(ctx, j)
        note_next_request(j, ctx, tree)
        assert (
            tree.request[j].tolist() == price(snapshot, [int(task.pod.name) for task in twin.next_chunk(job)]).tolist()
        )
        assert tree.stage[j] == twin.job_key(job)[1]
        assert ctx.log.size.tolist() == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=30))
def test_the_last_placement_of_a_task_counts(placements: list[tuple[int, int, bool]]) -> None:
    """In the order in which they were decided last, however often that is; the log has room for two of each task."""
    ctx = opened(assemble([Member(0, [Status.PENDING] * 4)]))
    decisions, expected = ctx.decisions, {}
    for t, n, waits in placements:
        ctx.state.task.status[t] = Status.PIPELINED if waits else Status.ALLOCATED
        ctx.state.task.node[t] = n
        record_placement(t, ctx.state.task, decisions.placements)
        expected.pop(t, None)
        expected[t] = (n, waits)
        rows = [row for row in range(decisions.placements.length[0]) if decisions.placements.task[row] != NULL]
        found = {
            int(decisions.placements.task[row]): (decisions.placements.node[row], decisions.placements.waits[row])
            for row in rows
        }
        assert list(found.items()) == list(expected.items())
        assert len(rows) == len(expected)
        assert {t: int(decisions.placements.row[t]) for t in expected} == {
            int(decisions.placements.task[row]): row for row in rows
        }


@pytest.mark.parametrize(
    ("minimum", "active", "waiting", "expected"),
    [
        (2, 2, 1, True),  # one of its two has to wait
        (1, 2, 1, False),  # the surplus waits
        (2, 2, 0, False),
        (3, 2, 0, False),  # who has no place does not wait for it
    ],
)
def test_a_gang_that_waits_for_a_part_of_its_minimum(minimum: int, active: int, waiting: int, expected: bool) -> None:
    ctx = opened(assemble([Member(0, [Status.PENDING]), Member(minimum, [Status.PENDING] * 3)]))
    ctx.state.sets.active[1], ctx.state.sets.waiting[1] = active, waiting
    assert waits_for_minimum(1, ctx.snapshot, ctx.state) == expected
    assert not waits_for_minimum(0, ctx.snapshot, ctx.state)
