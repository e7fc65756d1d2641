"""Which topology domain pays, and where the pods of the preemptor go (semantics 10.4)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Status
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.racks import RACK, ZONE, in_racks
from tests.unit.solver.searches import bits, searching
from tests.unit.solver.tables import Member

choice, room, tries, given_, moves, potential, losses = afresh(
    "solver.eviction.minimal.choice",
    "solver.eviction.domain_room",
    "solver.eviction.minimal.domain_choice",
    "solver.eviction.minimal.given_domains",
    "solver.eviction.minimal.task_moves",
    "solver.eviction.victims.potential",
    "solver.eviction.rules.losses",
)
PREEMPT = int(Action.PREEMPT)
CEILING = 100
PLACES = ["a1", "a1", "a2", "b1", ""]


def crowded(running: list[int], gpus: list[float], pods: int, level: int = RACK) -> tuple[Context, Search, Preemptor]:
    """One-pod jobs on these nodes, and a job of a higher priority whose ``pods`` need one domain of the level."""
    n_jobs = len(running)
    roots = [Member(1, [Status.RUNNING]) for _ in running] + [Member(pods, [Status.PENDING] * pods)]
    snapshot = in_racks(PLACES, roots, gpus, {n_jobs: (level, 0)})
    tasks = snapshot.tasks._replace(node=np.array(running + [NULL] * pods, np.int32))
    priority = np.array([50] * n_jobs + [90], np.int64)
    snapshot = snapshot._replace(tasks=tasks, jobs=snapshot.jobs._replace(priority=priority))
    ctx, search = searching(snapshot)
    losses.keep_old_shares(ctx.state.book, search.queues)
    search.pending[:pods] = search.minimal.pending_in_order[:pods] = range(n_jobs, n_jobs + pods)
    search.counts.pending[0] = pods
    search.victims.jobs.skip[n_jobs] = 1
    potential.count_kinds(pods, ctx, search)
    potential.begin_accumulation(CEILING, False, ctx, search)
    while potential.accumulate(CEILING, ctx, search):
        search.minimal.is_chosen[search.counts.n_chunks[0] - 1] = 0
    search.minimal.attempt[0] = 1
    return ctx, search, Preemptor(PREEMPT, n_jobs, pods, CEILING, (0.0, 0.0, float(pods)), float(pods), False)


def evicted(search: Search) -> list[int]:
    chosen = search.minimal.chosen[: search.minimal.n_chosen[0]]
    return sorted(int(search.lists.potential[search.lists.chunk_start[g]]) for g in chosen)


def test_the_domain_with_the_fewest_evictions_pays() -> None:
    """Rack a1 would lose two pods, a2 one of its two, and b1, with one GPU, cannot hold the gang."""
    ctx, search, preemptor = crowded([0, 1, 2, 3], [1.0, 1.0, 2.0, 1.0, 9.0], 2)
    before = bits(ctx)
    assert choice.choose_chunks(0, preemptor, ctx, search)
    assert bits(ctx) == before
    assert evicted(search) == [2]
    assert search.minimal.place[:2].tolist() == [2, 2]


def test_a_domain_that_was_refused_is_left_out() -> None:
    ctx, search, preemptor = crowded([0, 1, 2, 3], [1.0, 1.0, 2.0, 1.0, 9.0], 2)
    assert choice.choose_chunks(0, preemptor, ctx, search)
    assert tries.refuse_chosen_domain(ctx, search)
    assert choice.choose_chunks(0, preemptor, ctx, search)
    assert evicted(search) == [0, 1]
    assert tries.refuse_chosen_domain(ctx, search)
    assert not choice.choose_chunks(0, preemptor, ctx, search)


running = st.lists(st.integers(0, 3), max_size=6)


@given(running, st.integers(1, 3), st.sampled_from([ZONE, RACK]))
def test_no_other_domain_costs_less(on: list[int], pods: int, level: int) -> None:
    """Each node has two GPUs; of each domain that could hold the gang as many pods go as it lacks GPUs."""
    gpus = [2.0, 2.0, 2.0, 2.0, 9.0]
    on = [n for place, n in enumerate(on) if on[:place].count(n) < 2]
    ctx, search, preemptor = crowded(on, gpus, pods, level)
    domains: dict[str, list[int]] = {}
    for n, place in enumerate(PLACES[:4]):
        domains.setdefault(place[:level], []).append(n)
    costs = {
        name: max(0, pods - sum(2 - on.count(n) for n in nodes))
        for name, nodes in domains.items()
        if 2 * len(nodes) >= pods
    }
    found = choice.choose_chunks(0, preemptor, ctx, search)
    assert found == bool(costs)
    assert room.some_set_has_no_domain(pods, search.rooms.requests, ctx, search) == (not costs)
    if found:
        assert len(evicted(search)) == min(costs.values())
        places = {PLACES[n][:level] for n in search.minimal.place[:pods].tolist()}
        assert len(places) == 1
        assert costs[places.pop()] == min(costs.values())


def test_tasks_stay_in_the_domain_of_the_first_one() -> None:
    ctx, search, _ = crowded([], [1.0, 1.0, 2.0, 1.0, 9.0], 2)
    search.minimal.place[:2] = (0, 4)
    assert given_.enter_chosen_domains(0, 2, ctx, search)
    topo = ctx.scratch.topology
    h = topo.candidate[0, 0]
    table = ctx.snapshot.topologies
    assert table.node[table.first[h] : table.end[h]].tolist() == [0, 1]
    topo.size[0] = 0
    search.minimal.place[0] = 4
    assert not given_.enter_chosen_domains(0, 2, ctx, search), "the node is in no domain"


def test_an_evicted_task_that_stays_after_all_is_where_it_was() -> None:
    ctx, search, _ = crowded([0], [1.0, 1.0, 2.0, 1.0, 9.0], 1)
    before = bits(ctx)
    moves.evict_victim(0, ctx, search)
    assert bits(ctx) != before
    assert moves.node_takes(0, 0, ctx)
    moves.restore_victim(0, ctx, search)
    assert bits(ctx) == before
