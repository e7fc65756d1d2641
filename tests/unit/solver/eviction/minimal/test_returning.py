"""Victims that stay after all (semantics 3.7): against room counted pod by pod, the last decided first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Status
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.full_nodes import Full, full_nodes
from tests.unit.solver.searches import check_books

commit, simulation, minimal_return, minimal_simulation, attempt = afresh(
    "solver.eviction.commit",
    "solver.eviction.original.simulation",
    "solver.eviction.minimal.returning",
    "solver.eviction.minimal.simulation",
    "solver.kernels.attempt",
)
keep_victims = minimal_return.keep_victims
evict_victim = minimal_simulation.evict_victim
place_in_search = simulation.place_in_search
record_eviction = commit.record_eviction
record_placement = attempt.record_placement

PREEMPT, STALE_GANG = int(Action.PREEMPT), int(Action.STALE_GANG)


@given(full_nodes(), st.data())
def test_who_has_room_where_it_ran_stays(full: Full, data: st.DataObject) -> None:
    """Some pods leave, some move to where others left, stale gangs leave for good; and some of the room is taken."""
    ctx, search = full.ctx, full.search
    node, status, decisions = ctx.state.task.node, ctx.state.task.status, ctx.decisions
    pods = [t for t in range(status.size) if t != full.p]
    gone = data.draw(st.lists(st.sampled_from(pods), unique=True)) if pods else []
    stale = [t for t in gone if data.draw(st.integers(0, 4)) == 0]
    free = {n: full.room(n, gone) for n in full.nodes()}
    for t in gone:
        evict_victim(t, ctx, search)
    for t in gone:
        others = [n for n in full.nodes() if n != full.home(t) and free[n] >= full.gpus(t)]
        if others and t not in stale and data.draw(st.booleans()):
            n = data.draw(st.sampled_from(others))
            free[n] -= full.gpus(t)
            place_in_search(t, t, n, ctx, search)
    for n in free:
        taken = data.draw(st.sampled_from([0.0, 0.0, 1.0, 2.0]))
        taken = min(taken, free[n])
        ctx.state.idle[n, GPU] -= taken
        free[n] -= taken
    for t in gone:
        record_eviction(t, STALE_GANG if t in stale else PREEMPT, 0, full.home(t), ctx)
    for t in [t for t in gone if status[t] == Status.PIPELINED]:
        record_placement(t, ctx.state.task, decisions.placements)
    check_sum(ctx, free)
    away = [t for t in reversed(gone) if t not in stale]
    stays, anybody = set(), True
    while anybody:
        anybody = False
        for t in away:
            if t not in stays and free[full.home(t)] >= full.gpus(t):
                free[full.home(t)] -= full.gpus(t)
                if status[t] == Status.PIPELINED:
                    free[int(node[t])] += full.gpus(t)
                stays.add(t)
                anybody = True
    keep_victims(ctx, search)
    assert {t for t in gone if status[t] == Status.RUNNING} == stays
    assert all(node[t] == full.home(t) for t in stays)
    check_sum(ctx, free)
    left = [t for t in gone if t not in stays]
    assert decisions.evictions.task[: decisions.evictions.length[0]].tolist() == left
    assert [bool(flag) for flag in decisions.evictions.is_evicted] == [t in left for t in range(status.size)]
    placed = [int(t) for t in decisions.placements.task[: decisions.placements.length[0]] if t != NULL]
    assert placed == [t for t in gone if status[t] == Status.PIPELINED]


def check_sum(ctx: Context, free: dict[int, float]) -> None:
    assert (ctx.state.idle + ctx.state.releasing)[:, GPU].tolist() == list(free.values())


@given(full_nodes())
def test_books_are_those_of_before_when_all_stay(full: Full) -> None:
    """Nobody has taken the room."""
    for t in full.victims():
        evict_victim(t, full.ctx, full.search)
        record_eviction(t, PREEMPT, full.p, full.home(t), full.ctx)
    keep_victims(full.ctx, full.search)
    check_books(full.ctx)
    assert full.ctx.state.task.status.tolist() == full.ctx.snapshot.tasks.status.tolist()
    assert full.ctx.decisions.evictions.length[0] == 0
