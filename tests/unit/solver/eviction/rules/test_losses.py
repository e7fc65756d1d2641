"""What queues may lose (semantics 4.7, rule 1): between which queues, and when it is no more than their quota."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Status
from kai_sched.solver.eviction.rules import losses as queue_losses
from kai_sched.solver.eviction.rules import shares
from kai_sched.solver.jit import entry
from tests.unit.solver.eviction.rules.test_validate import paths_part
from tests.unit.solver.searches import MINIMAL, searching
from tests.unit.solver.tables import UNLIMITED, Member, assemble, parents, queue_table

may_lose_more = entry(shares.may_lose_more)
lose = entry(shares.lose)
change_blocked = entry(queue_losses.change_blocked)
keep_old_shares = entry(queue_losses.keep_old_shares)
ONE = (0.0, 0.0, 1.0)


@given(parents(), st.data())
def test_where_two_paths_part(above: list[int], data: st.DataObject) -> None:
    snapshot = assemble([], queue_table(above))
    leaves = [q for q in range(len(above)) if q not in above]
    a, b = data.draw(st.sampled_from(leaves)), data.draw(st.sampled_from(leaves))
    if a != b:
        assert queue_losses.sides_of(a, b, snapshot.queues.parent) == paths_part(snapshot, a, b)


@pytest.mark.parametrize(
    ("blocked", "mine", "losses"),
    [(0.0, 0.0, 0), (1.0, 0.0, 1), (3.0, 0.0, 2), (3.0, 4.0, 0), (3.5, 3.0, 2)],
)
def test_blocked_devices_count_against_the_quota(blocked: float, mine: float, losses: int) -> None:
    """Department and leaf V have a quota of 2 and hold 2; each loss is one GPU with as much that it blocks.

    R has a quota of 5 and holds 1. What its own parts block counts as well.
    """
    snapshot = assemble(
        [Member(1, [Status.PENDING]), Member(1, [Status.RUNNING]), Member(2, [Status.RUNNING] * 2)],
        queue_table([NULL, NULL, 0, 1], quota=np.array([[9.0, 9.0, 5.0], [9.0, 9.0, 2.0]] * 2)),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0]],
        tasks={"node": [NULL, 0, 0, 0]},
        jobs={"queue": [2, 2, 3]},
    )
    ctx, search = searching(snapshot, MINIMAL)
    ctx.state.book.share[:-1] = UNLIMITED
    assert ctx.state.book.held[:-1, GPU].tolist() == [1.0, 2.0, 1.0, 2.0]
    keep_old_shares(ctx.state.book, search.queues)
    search.counts.scarce[:], search.counts.devices[0] = [0, 0, 1], 1
    search.counts.loss_clock[0] += 1
    search.queues.blocked[:] = [mine, blocked, mine, blocked]
    taken = 0
    while taken < 3 and lose(0, ONE, 3, ONE, ctx, search):
        change_blocked(3, -1.0, snapshot.queues.parent, search)
        taken += 1
        assert search.queues.blocked_left[[1, 3]].tolist() == [blocked - taken] * 2
    assert taken == losses
    assert not may_lose_more(0, ONE, 3, ctx, search)
