"""Which victims are left out (semantics 4.5, step 6): against a count of the room that the others leave."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Snapshot, Status
from tests.afresh import afresh
from tests.unit.solver.full_nodes import Full, full_nodes
from tests.unit.solver.searches import check_books, crowded, searching
from tests.unit.solver.tables import Member, assemble

leaving_out, chunks, potential = afresh(
    "solver.eviction.minimal.leaving_out", "solver.eviction.minimal.chunks", "solver.eviction.victims.potential"
)
some_victim_is_unneeded = leaving_out.some_victim_is_unneeded
drop_unneeded_victims = leaving_out.drop_unneeded_victims
note_emptied, is_held = leaving_out.note_emptied, leaving_out.is_held
next_chosen, leave_out, put_in = leaving_out.next_chosen, leaving_out.leave_out, leaving_out.put_in
NO_CEILING = 2**62


def choose_all(full: Full) -> list[int]:
    """Choose all victims, each a chunk of its own, the least deserving first."""
    full.accumulate_all()
    victims = full.victims()
    full.search.minimal.chosen[: len(victims)], full.search.minimal.n_chosen[0] = range(len(victims)), len(victims)
    full.search.minimal.place[0] = full.nodes()[0]
    return victims


@given(full_nodes())
def test_a_victim_is_unneeded_if_the_others_leave_room(full: Full) -> None:
    victims = choose_all(full)
    can_stay = [t for t in victims if full.is_enough([other for other in victims if other != t])]
    assert some_victim_is_unneeded(full.ctx, full.search) == bool(can_stay)


@given(full_nodes())
def test_the_most_deserving_victims_are_spared_first(full: Full) -> None:
    """Of the victims that stay chosen each one is needed."""
    victims = choose_all(full)
    assume(full.is_enough(victims))
    needed = victims
    for t in reversed(victims):
        others = [other for other in needed if other != t]
        needed = others if full.is_enough(others) else needed
    drop_unneeded_victims(full.preemptor, full.ctx, full.search)
    minimal, status = full.search.minimal, full.ctx.state.task.status
    assert [victims[g] for g in minimal.chosen[: minimal.n_chosen[0]]] == needed
    assert status[full.p] == Status.PIPELINED
    assert all(status[t] == Status.RUNNING for t in victims if t not in needed)
    check_books(full.ctx)


@given(crowded(), st.data())
def test_surplus_pods_go_with_the_last_of_their_set(snapshot: Snapshot, data: st.DataObject) -> None:
    ctx, search = searching(snapshot)
    potential.begin_accumulation(NO_CEILING, False, ctx, search)
    while potential.accumulate(NO_CEILING, ctx, search):
        pass
    some = st.lists(st.sampled_from(range(search.counts.n_chunks[0])), unique=True)
    chosen = data.draw(some) if search.counts.n_chunks[0] else []
    search.minimal.chosen[: len(chosen)], search.minimal.n_chosen[0] = chosen, len(chosen)
    note_emptied(True, search)
    for h in chosen:
        later = [g for g in chosen if g > h]
        assert is_held(h, snapshot, search) == any(chunks.empties(g, h, snapshot, search) for g in later)
    note_emptied(False, search)
    assert not any(is_held(h, snapshot, search) for h in chosen)


@given(st.permutations(range(5)), st.integers(0, 4), st.integers(0, 6))
def test_the_list_of_the_chosen(chosen: list[int], at: int, before: int) -> None:
    """One is left out and put in again; the next one is the largest below a number."""
    _, search = searching(assemble([Member(0, [Status.PENDING] * 5)]))
    search.minimal.chosen[:5], search.minimal.n_chosen[0] = chosen, 5
    below = [g for g in chosen if g < before]
    found = next_chosen(before, search)
    assert (chosen[found] == max(below)) if below else found == -1
    leave_out(at, search)
    assert search.minimal.chosen[: search.minimal.n_chosen[0]].tolist() == [*chosen[:at], *chosen[at + 1 :]]
    put_in(at, chosen[at], search)
    assert search.minimal.chosen[: search.minimal.n_chosen[0]].tolist() == list(chosen)
