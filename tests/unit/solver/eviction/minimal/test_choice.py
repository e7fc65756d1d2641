"""Which victims make room (semantics 4.5, step 3): the cheapest node, against a look at each of them."""

from __future__ import annotations

from hypothesis import given

from kai_sched.snapshot.tables import Status
from tests.afresh import afresh
from tests.unit.solver.full_nodes import Full, full_nodes
from tests.unit.solver.searches import bits, searching
from tests.unit.solver.tables import Member, assemble, node_table

(minimal_choice,) = afresh("solver.eviction.minimal.choice")
choose = minimal_choice.choose_chunks
bring_forward = minimal_choice.bring_forward


@given(full_nodes())
def test_the_cheapest_node_is_cleared(full: Full) -> None:
    """The one whose last victim that has to leave comes first; those before it on that node leave, too."""
    ctx, search = full.ctx, full.search
    full.accumulate_all()
    before, victims = bits(ctx), full.victims()
    prices = {n: victims.index(full.needed_on(n, victims)[-1]) for n in full.nodes() if full.needed_on(n, victims)}
    assert choose(0, full.preemptor, ctx, search) == bool(prices)
    assert bits(ctx) == before
    if prices:
        cheapest = min(prices, key=lambda n: prices[n])
        chosen = [victims[g] for g in search.minimal.chosen[: search.minimal.n_chosen[0]]]
        assert (search.minimal.place[0], chosen) == (cheapest, full.needed_on(cheapest, victims))


@given(full_nodes())
def test_only_nodes_that_are_given_are_cleared(full: Full) -> None:
    full.accumulate_all()
    victims = full.victims()
    for n in full.nodes():
        full.search.hosts[0] = n
        assert choose(1, full.preemptor, full.ctx, full.search) == bool(full.needed_on(n, victims))


def test_tasks_that_find_no_node_choose_first_the_next_time() -> None:
    """Those like it come with it; the order of the others stays."""
    snapshot = assemble(
        [Member(4, [Status.PENDING] * 4)],
        request=[[1.0] * 5, [2.0] * 5],
        tasks={"cls": [0, 1, 0, 1]},
        nodes=node_table([[9.0] * 5]),
    )
    _, search = searching(snapshot)
    search.pending[:4] = range(4)
    assert bring_forward(1, 4, snapshot, search)
    assert search.pending[:4].tolist() == [1, 3, 0, 2]
    assert not bring_forward(1, 4, snapshot, search)
