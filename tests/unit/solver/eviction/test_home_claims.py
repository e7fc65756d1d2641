"""The devices that evicted pods had (semantics 8.6): who gets them back.

The node has three whole devices, and a card of which two partitions may be in use: five devices for these pods.
"""

from __future__ import annotations

import pytest

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.solver.eviction import home_claims
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels.claims import holders
from kai_sched.solver.kernels.claims import search as claims
from kai_sched.solver.state import Context
from tests.unit.solver.claimed import cluster_of

choose, take = entry(claims.choose_claimed), entry(holders.take_claimed)
leave, stay = entry(home_claims.leave_claims), entry(home_claims.return_to_claims)
fits, free_home = entry(home_claims.fits_home_claims), entry(home_claims.free_home_claims)

EVICTED = 0


def one_was_evicted() -> tuple[Context, Search]:
    """Seven pods ask for a device each, the last two for one together; the first one had one and was evicted."""
    ctx, search = cluster_of([[0]] * 7)
    promise(EVICTED, ctx)
    leave(EVICTED, ctx, search)
    search.tasks.home[EVICTED] = 0
    ctx.state.task.status[EVICTED], ctx.state.task.node[EVICTED] = Status.EVICTED, NULL
    return ctx, search


def promise(t: int, ctx: Context) -> None:
    """Give the pod a device once it is free, as to one that is pipelined."""
    choose(int(ctx.snapshot.tasks.cls[t]), 0, ctx)
    take(t, True, ctx)
    ctx.state.task.status[t], ctx.state.task.node[t] = Status.PIPELINED, 0


def device_of(t: int, ctx: Context) -> int:
    table = ctx.snapshot.dra_claims
    return int(ctx.state.claims.device[table.slot_ptr[table.claim[table.task_ptr[t]]]])


def used_later(ctx: Context) -> list[int]:
    """The devices that are in use later."""
    return [v for v, uses in enumerate(ctx.state.claims.uses_later) if uses]


def test_a_pod_that_returns_has_its_device_again() -> None:
    ctx, search = one_was_evicted()
    assert not ctx.state.claims.uses_later.any()
    assert fits(EVICTED, ctx, search)
    stay(EVICTED, ctx, search)
    assert used_later(ctx) == [device_of(EVICTED, ctx)]


@pytest.mark.parametrize("others", [1, 4])
def test_a_device_that_was_given_away_is_exchanged(others: int) -> None:
    """As long as there is another one for those that got it."""
    ctx, search = one_was_evicted()
    for t in range(1, 1 + others):
        promise(t, ctx)
    assert not fits(EVICTED, ctx, search)
    assert free_home(EVICTED, ctx, search)
    assert fits(EVICTED, ctx, search)
    stay(EVICTED, ctx, search)
    held = [device_of(t, ctx) for t in range(1 + others)]
    assert sorted(held) == used_later(ctx)


def test_without_another_device_nothing_is_exchanged() -> None:
    ctx, search = one_was_evicted()
    for t in range(1, 6):
        promise(t, ctx)
    before = ctx.state.integers.copy()
    assert not free_home(EVICTED, ctx, search)
    assert (ctx.state.integers == before).all()
