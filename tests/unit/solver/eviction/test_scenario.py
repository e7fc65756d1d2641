"""A scenario of victims (semantics 4.5): its list, its chains by job, and the nodes and limits that it concerns."""

from __future__ import annotations

import pytest

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Status
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.searches import searching
from tests.unit.solver.tables import Member, assemble, node_table

scenario, scenarios = afresh("solver.eviction.scenario", "solver.eviction.original.scenarios")
add_to_scenario, has_gone = scenario.add_to_scenario, scenario.has_gone
list_nodes_of_job, within_limits = scenario.list_nodes_of_job, scenario.within_limits
begin_scenario = scenarios.begin_scenario


def two_jobs() -> tuple[Context, Search]:
    """Tasks 0 to 2 of job 0 are on nodes 2, 0 and 2; tasks 3 and 4 of job 1 on node 1 and on none."""
    snapshot = assemble(
        [Member(3, [Status.RUNNING] * 3), Member(1, [Status.RUNNING, Status.PENDING])],
        nodes=node_table([[9.0] * 5] * 4),
        tasks={"node": [2, 0, 2, 1, NULL]},
    )
    return searching(snapshot)


def chain(j: int, search: Search) -> list[int]:
    """The victims of a job, in their order."""
    found, t = [], int(search.jobs.first_in_scenario[j]) - 1
    while t >= 0:
        found.append(t)
        t = int(search.tasks.next_in_scenario[t]) - 1
    return found


def test_victims_are_listed_and_chained_by_job() -> None:
    ctx, search = two_jobs()
    begin_scenario(ctx.snapshot, ctx.state, search)
    for t in (2, 3, 0):
        add_to_scenario(t, -1, 1, ctx.snapshot, ctx.state, search)
    assert search.lists.scenario[: search.counts.scenario[0]].tolist() == [2, 3, 0]
    assert (chain(0, search), chain(1, search)) == ([2, 0], [3])
    marked = search.nodes.scenario_mark == search.counts.scenario_clock[0]
    assert marked.tolist() == [False, True, True, False]


def test_a_new_scenario_has_nothing_of_the_one_before() -> None:
    ctx, search = two_jobs()
    for victims in ((0, 3), (1,)):
        begin_scenario(ctx.snapshot, ctx.state, search)
        for t in victims:
            add_to_scenario(t, -1, 1, ctx.snapshot, ctx.state, search)
    assert chain(0, search) == [1]
    assert search.jobs.scenario_mark[1] != search.counts.scenario_clock[0]
    assert (search.nodes.scenario_mark == search.counts.scenario_clock[0]).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("status", "node", "gone"),
    [(Status.RUNNING, 2, False), (Status.RUNNING, 1, True), (Status.EVICTED, 2, True), (Status.PIPELINED, 2, True)],
)
def test_a_victim_has_gone_unless_it_is_as_before(status: Status, node: int, gone: bool) -> None:
    ctx, search = two_jobs()
    search.tasks.prior[0], search.tasks.home[0] = Status.RUNNING, 2
    ctx.state.task.status[0], ctx.state.task.node[0] = status, node
    assert has_gone(0, ctx.state, search) == gone


def test_the_nodes_of_a_job_are_listed_once_in_their_order() -> None:
    ctx, search = two_jobs()
    assert search.hosts[: list_nodes_of_job(0, ctx.snapshot, ctx.state, search)].tolist() == [0, 2]
    assert search.hosts[: list_nodes_of_job(1, ctx.snapshot, ctx.state, search)].tolist() == [1]
    ctx.state.task.status[1] = Status.EVICTED
    assert search.hosts[: list_nodes_of_job(0, ctx.snapshot, ctx.state, search)].tolist() == [2]


@pytest.mark.parametrize(("limit", "expected"), [(5.0, True), (4.0, False)])
def test_limits_count_what_the_queue_holds(limit: float, expected: bool) -> None:
    """The four pods that run have a GPU each, and the chunk asks for one more."""
    ctx, _ = two_jobs()
    ctx.state.book.limit[0, GPU] = limit
    ctx.scratch.chunk[0] = 4
    assert within_limits(1, 1, ctx) == expected
