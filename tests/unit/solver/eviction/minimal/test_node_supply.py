"""That no node can be cleared (semantics 4.6): never said where some order of victims would clear one."""

from __future__ import annotations

import pytest
from hypothesis import given

from kai_sched.snapshot.tables import GPU
from tests.afresh import afresh
from tests.unit.solver.eviction.minimal.test_bounds import RECLAIMS, Reclaim

bounds, node_supply = afresh("solver.eviction.minimal.bounds", "solver.eviction.minimal.node_supply")


def is_hopeless(case: Reclaim) -> bool:
    preemptor = case.preemptor(float(case.asks))
    bounds.note_who_gives(bounds.TOGETHER, preemptor, case.ctx, case.search)
    found = node_supply.can_clear_no_node(preemptor, case.ctx, case.search)
    assert not case.search.minimal.supply.side_holds.any(), "nothing is left for the next side"
    assert not case.search.minimal.supply.level_loses.any()
    return bool(found)


@given(RECLAIMS)
def test_a_node_that_the_rules_let_clear_is_never_called_hopeless(case: Reclaim) -> None:
    free = float(case.ctx.state.idle[0, GPU] + case.ctx.state.releasing[0, GPU])
    if is_hopeless(case):
        assert free + case.most() < case.asks


@pytest.mark.parametrize(("share", "hopeless"), [(2.0, False), (4.0, True)])
def test_a_queue_gives_what_it_has_above_its_share(share: float, hopeless: bool) -> None:
    """It holds 4 GPUs in pods of one, and 2 are asked for."""
    case = Reclaim([(1, 1)] * 4, 2, [9.0, share, 0.0], [0.0, 0.0, 0.0], 1.0)
    assert is_hopeless(case) == (case.most() < 2) == hopeless


def test_who_asks_for_no_gpu_is_not_judged_by_them() -> None:
    case = Reclaim([(1, 1)], 1, [9.0, 9.0, 9.0], [0.0, 0.0, 0.0], 1.0)
    assert is_hopeless(case)
    case.ctx.snapshot.classes.request.flags.writeable = True
    case.ctx.snapshot.classes.request[:, GPU] = 0.0
    assert not is_hopeless(case)
