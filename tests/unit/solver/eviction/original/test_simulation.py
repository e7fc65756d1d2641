"""A scenario of the original search simulated (semantics 4.5): all compete, against room counted pod by pod."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Status
from tests.afresh import afresh
from tests.unit.solver.full_nodes import CEILING, Full, come_back, full_nodes
from tests.unit.solver.searches import bits, check_books
from tests.unit.solver.tables import ALL_ON

scenario, scenarios, simulation = afresh(
    "solver.eviction.scenario", "solver.eviction.original.scenarios", "solver.eviction.original.simulation"
)
simulate_scenario = simulation.simulate_scenario
begin_scenario = scenarios.begin_scenario
add_to_scenario = scenario.add_to_scenario


@given(full_nodes(ALL_ON), st.data())
def test_victims_and_the_job_compete_in_the_order_of_jobs(full: Full, data: st.DataObject) -> None:
    """Any running pods are victims: those of a higher priority take the room before the job, the others after it."""
    ctx, search, jobs = full.ctx, full.search, full.ctx.snapshot.jobs
    before, listed = bits(ctx), (search.contenders.jobs.stage.copy(), search.contenders.held.copy())
    pods = [t for t in range(jobs.queue.size) if t != full.p]
    gone = data.draw(st.lists(st.sampled_from(pods), unique=True)) if pods else []
    begin_scenario(ctx.snapshot, ctx.state, search)
    for t in gone:
        add_to_scenario(t, -1 - t, 1, ctx.snapshot, ctx.state, search)
    found = simulate_scenario(full.p, 1, ctx, search)
    assert (search.contenders.jobs.stage.tolist(), search.contenders.held.tolist()) == tuple(
        each.tolist() for each in listed
    )
    first = sorted((t for t in gone if jobs.priority[t] > CEILING), key=lambda t: (-jobs.priority[t], t))
    if not found:
        assert bits(ctx) == before
        # whoever comes before the job may have filled the gap, wherever it went; without them there is no room at all
        assert first or not any(full.room(n, gone) >= full.size for n in full.nodes())
        return
    status, node = ctx.state.task.status, ctx.state.task.node
    assert status[full.p] == Status.PIPELINED
    assert full.room(int(node[full.p]), gone) >= full.size
    after = sorted((t for t in gone if jobs.priority[t] < CEILING), key=lambda t: (-jobs.priority[t], t))
    if not first:
        come_back(full, after, set())
    placed = search.lists.placed[: search.counts.placed[0]].tolist()
    back = [t for t in gone if status[t] != Status.EVICTED]
    assert placed == [t for t in first if t in back] + [full.p] + [t for t in after if t in back]
    check_books(ctx)


@given(full_nodes(ALL_ON))
def test_without_victims_nothing_is_simulated(full: Full) -> None:
    begin_scenario(full.ctx.snapshot, full.ctx.state, full.search)
    before = bits(full.ctx)
    assert not simulate_scenario(full.p, 1, full.ctx, full.search)
    assert bits(full.ctx) == before
