"""The search for few victims (semantics 4.5): against all victims of a node, and those of them that are not needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Help, Status
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.full_nodes import Full, full_nodes
from tests.unit.solver.searches import MINIMAL, bits, check_books

minimal_search, leaving_out = afresh("solver.eviction.minimal.search", "solver.eviction.minimal.leaving_out")
find_minimal_victims = minimal_search.find_minimal_victims


def twin_victims(full: Full) -> list[int]:
    """Of the first node that its victims so far could leave with room, those whom the rest cannot do without."""
    victims = full.victims()
    for length in range(1, len(victims) + 1):
        n = full.home(victims[length - 1])
        chosen = full.needed_on(n, victims[:length])
        for t in reversed(chosen.copy()):
            rest = [other for other in chosen if other != t]
            if full.room(n, rest) >= full.size:
                chosen = rest
        if chosen:
            return chosen
    return []


@given(full_nodes())
def test_victims_are_those_that_are_needed(full: Full) -> None:
    """Nobody else loses a pod; without success nothing is changed."""
    ctx, before, expected = full.ctx, bits(full.ctx), twin_victims(full)
    help_code = find_minimal_victims(full.preemptor, ctx, full.search)
    status, node = ctx.state.task.status, ctx.state.task.node
    if not expected:
        assert help_code != Help.HELPED
        assert bits(ctx) == before
        return
    assert help_code == Help.HELPED
    away = [t for t in range(status.size) if status[t] != ctx.snapshot.tasks.status[t]]
    assert sorted(away) == sorted([full.p, *expected])
    assert (status[full.p], node[full.p]) == (Status.PIPELINED, full.home(expected[0]))
    assert all(status[t] == Status.EVICTED or node[t] != full.home(t) for t in expected)
    check_books(ctx)


@given(full_nodes(most_pods=4))
def test_a_gang_has_room_and_no_victim_can_be_left_out(full: Full) -> None:
    """It is helped if all victims together would leave enough; of those who leave or move each one is needed."""
    ctx, before, victims = full.ctx, bits(full.ctx), full.victims()
    helped = find_minimal_victims(full.preemptor, ctx, full.search) == Help.HELPED
    assert helped == full.is_enough(victims)
    if not helped:
        assert bits(ctx) == before
        return
    status, node = ctx.state.task.status, ctx.state.task.node
    away = [t for t in victims if status[t] != Status.RUNNING]
    assert all(status[full.p + place] == Status.PIPELINED for place in range(full.pods))
    assert all(status[t] == ctx.snapshot.tasks.status[t] for t in range(full.p) if t not in away)
    assert all(node[t] != full.home(t) or status[t] == Status.EVICTED for t in away)
    for t in away:
        assert not full.is_enough([other for other in away if other != t])
    check_books(ctx)


@given(full_nodes(), st.integers(0, 3))
def test_a_search_that_takes_too_long_ends(full: Full, search_work: int) -> None:
    """Each victim that is looked at costs one."""
    ctx: Context = full.ctx._replace(settings=MINIMAL._replace(search_work=search_work))
    before = bits(ctx)
    if not twin_victims(full) and len(full.victims()) > search_work:
        assert find_minimal_victims(full.preemptor, ctx, full.search) == Help.TOO_LONG
        assert bits(ctx) == before


@given(full_nodes(most_pods=4))
def test_victims_that_were_not_tried_in_time_leave(full: Full) -> None:
    """Without work left for it nobody is spared, and the gang has its room all the same."""
    victims = full.victims()
    most, leaving_out.SPARING_WORK_MAX = leaving_out.SPARING_WORK_MAX, -1
    try:
        helped = find_minimal_victims(full.preemptor, full.ctx, full.search) == Help.HELPED
    finally:
        leaving_out.SPARING_WORK_MAX = most
    assert helped == full.is_enough(victims)
    if helped:
        status = full.ctx.state.task.status
        assert all(status[full.p + place] == Status.PIPELINED for place in range(full.pods))
        assert full.is_enough([t for t in victims if status[t] != Status.RUNNING])
    check_books(full.ctx)
