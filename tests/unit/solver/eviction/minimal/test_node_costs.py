"""What it costs to clear a node (semantics 4.5, step 3): no less than the bound, and the cheapest node is that."""

from __future__ import annotations

from hypothesis import given

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import Preemptor
from tests.afresh import afresh
from tests.unit.solver.full_nodes import Full, full_nodes
from tests.unit.solver.searches import crowded, searching

node_costs, potential_victims, losses = afresh(
    "solver.eviction.minimal.node_costs", "solver.eviction.victims.potential", "solver.eviction.rules.losses"
)
NO_CEILING = 2**62


@given(crowded(tied=True))
def test_the_bound_is_no_more_than_the_cost(snapshot: Snapshot) -> None:
    ctx, search = searching(snapshot)
    losses.keep_old_shares(ctx.state.book, search.queues)
    potential_victims.begin_accumulation(NO_CEILING, False, ctx, search)
    while potential_victims.accumulate(NO_CEILING, ctx, search):
        pass
    ctx.log.size[:] = 0
    for action in (Action.PREEMPT, Action.CONSOLIDATION):
        preemptor = Preemptor(int(action), 0, 1, NO_CEILING, (0.0, 0.0, 1.0), 1.0, False)
        for t in range(snapshot.tasks.job.size):
            for n in range(snapshot.nodes.condition.size):
                least = node_costs.least_cost(t, n, preemptor, ctx, search)
                serves = ctx.finder.verdicts[snapshot.classes.signature[snapshot.tasks.cls[t]], n] == Verdict.OK
                if serves and snapshot.tasks.status[t] == Status.PENDING:
                    assert least <= node_costs.exact_cost(t, n, preemptor, ctx, search)
                assert serves or least == node_costs.NEVER


@given(full_nodes())
def test_the_cheapest_of_all_nodes(full: Full) -> None:
    """With what is known of nodes kept over questions."""
    ctx, search = full.ctx, full.search
    full.accumulate_all()
    search.minimal.clock[0] += 1
    victims = full.victims()
    prices = {n: victims.index(full.needed_on(n, victims)[-1]) for n in full.nodes() if full.needed_on(n, victims)}
    for _ in range(2):
        found = node_costs.cheapest_node(full.p, 0, full.preemptor, ctx, search)
        assert found == (min(prices, key=lambda n: prices[n]) if prices else NULL)
