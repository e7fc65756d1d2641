"""What the preemptor asks for (semantics 4.7): sums over its pending tasks, against numpy; and what is lacking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Status
from kai_sched.solver.eviction import preemptor
from kai_sched.solver.jit import entry
from tests.unit.solver.searches import searching
from tests.unit.solver.tables import Member, assemble, node_table

requested_amounts = entry(preemptor.requested_amounts)
requested_gpus = entry(preemptor.requested_gpus)
lacking_gpus = entry(preemptor.lacking_gpus)
REQUESTS = [[1.0, 2.0, 1.0, 1.0, 0.0], [4.0, 0.0, 3.0, 1.0, 0.0]]


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_the_first_pending_tasks_are_added_up(k: int) -> None:
    tasks = {"cls": [0, 1, 1], "node": [NULL] * 3}
    snapshot = assemble([Member(3, [Status.PENDING] * 3)], request=REQUESTS, tasks=tasks)
    _, search = searching(snapshot)
    search.pending[:3] = [0, 1, 2]
    chunk = snapshot.tasks.cls[:k]
    assert requested_amounts(k, snapshot, search) == pytest.approx(snapshot.classes.quota[chunk].sum(axis=0))
    assert requested_gpus(k, snapshot, search) == np.sum(snapshot.classes.request[chunk, GPU])


@given(st.lists(st.tuples(*[st.sampled_from([-1.0, 0.0, 1.0, 2.0])] * 2), min_size=1, max_size=4))
def test_gpus_are_lacking_beyond_those_that_are_free(rooms: list[tuple[float, float]]) -> None:
    """(idle, releasing) of each node; a node that is overcommitted takes nothing from the others."""
    nodes = node_table([[9.0] * 5] * len(rooms))
    snapshot = assemble([Member(2, [Status.PENDING] * 2)], nodes=nodes, request=REQUESTS, tasks={"cls": [1, 0]})
    ctx, search = searching(snapshot)
    ctx.state.idle[:, GPU], ctx.state.releasing[:, GPU] = zip(*rooms, strict=True)
    search.pending[:2] = [0, 1]
    assert lacking_gpus(2, ctx, search) == 4.0 - sum(max(0.0, sum(room)) for room in rooms)
