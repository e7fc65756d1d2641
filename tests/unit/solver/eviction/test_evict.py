"""Evicting a task in a search and taking it back (semantics 3.6): against books counted from scratch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status
from kai_sched.solver.eviction import evict
from kai_sched.solver.eviction.original import simulation
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import gang, undo
from tests.unit.solver.searches import ACTIVE, bits, check_books, crowded, searching
from tests.unit.solver.tables import Member, assemble, node_table

evict_task = entry(evict.evict)
place_in_search = entry(simulation.place_in_search)
next_chunk = entry(gang.next_chunk)
undo_all = entry(undo.undo_all)


@given(crowded(), st.data())
def test_books_after_evictions_are_those_counted_anew(snapshot: Snapshot, data: st.DataObject) -> None:
    """After each step: evicted, placed elsewhere where it waits, evicted once more, at home again; then all undone."""
    ctx, search = searching(snapshot)
    before, status = bits(ctx), ctx.state.task.status
    if snapshot.sets.parent.size:
        ctx.state.sets.cursor[:] = 9  # as far as a cursor can be: whoever is evicted has to be found again
        before = bits(ctx)
    for t in [t for t in range(status.size) if status[t] in ACTIVE]:
        j, home = int(snapshot.tasks.job[t]), int(snapshot.tasks.node[t])
        stamp = int(ctx.finder.stamp[home // ctx.finder.block[0]])
        evict_task(j, t, 1, ctx, search)
        assert status[t] == Status.EVICTED
        assert ctx.finder.stamp[home // ctx.finder.block[0]] > stamp
        assert ctx.state.sets.cursor[snapshot.tasks.set[t]] <= t - snapshot.sets.task_ptr[snapshot.tasks.set[t]]
        check_books(ctx)
        elsewhere = [n for n in range(snapshot.nodes.condition.size) if n != home]
        fate = data.draw(st.sampled_from(["stays away", "comes home", "moves"] if elsewhere else ["stays away"]))
        if fate != "stays away":
            n = home if fate == "comes home" else data.draw(st.sampled_from(elsewhere))
            place_in_search(j, t, n, ctx, search)
            was = Status(snapshot.tasks.status[t])
            assert (status[t], ctx.state.task.node[t]) == ((was, home) if n == home else (Status.PIPELINED, n))
            check_books(ctx)
            assert (search.tasks.prior[t], search.tasks.home[t]) == (was, home)
        if fate == "moves":
            evict_task(j, t, 1, ctx, search)
            check_books(ctx)
            place_in_search(j, t, n, ctx, search)
            assert (status[t], ctx.state.task.node[t]) == (Status.PIPELINED, n)
            check_books(ctx)
    undo_all(ctx)
    assert bits(ctx) == before


def test_a_task_that_is_named_twice_is_paid_back_twice() -> None:
    """For shares it counts as often as it is named (4.5), for the room once."""
    snapshot = assemble([Member(1, [Status.RUNNING])], request=[[0.0, 0.0, 1.0, 1.0, 0.0]], tasks={"node": [0]})
    ctx, search = searching(snapshot)
    evict_task(0, 0, 2, ctx, search)
    assert ctx.state.book.held[0, GPU] == -1.0
    assert (ctx.state.idle + ctx.state.releasing)[0, GPU] == 4.0


def test_a_task_that_moved_knows_its_old_node_in_local_scenarios_only() -> None:
    """There its eviction is taken back, with the place that it was promised on node 1; else it is placed on node 0."""
    snapshot = assemble(
        [Member(1, [Status.RUNNING])], nodes=node_table([[4.0, 8.0, 4.0, 9.0, 0.0]] * 2), tasks={"node": [0]}
    )
    for local, expected in ((1, 1), (0, 0)):
        ctx, search = searching(snapshot)
        search.original.node_local[0] = local
        evict_task(0, 0, 1, ctx, search)
        place_in_search(0, 0, 1, ctx, search)
        search.tasks.left_node[0] = 0 + 1
        evict_task(0, 0, 1, ctx, search)
        place_in_search(0, 0, 0, ctx, search)
        assert (ctx.state.task.status[0], ctx.state.task.node[0]) == (Status.PIPELINED, expected)
        check_books(ctx)


def test_what_a_node_does_not_have_does_not_come_back() -> None:
    """A pod with a GPU runs on a node that has none (any longer): its eviction makes no GPU."""
    nodes = node_table([[4.0, 8.0, 0.0, 9.0, 0.0]])
    request = [[1.0, 0.0, 1.0, 1.0, 0.0]]
    ctx, search = searching(assemble([Member(1, [Status.RUNNING])], nodes=nodes, request=request, tasks={"node": [0]}))
    evict_task(0, 0, 1, ctx, search)
    assert (ctx.state.idle + ctx.state.releasing).tolist() == [[4.0, 8.0, 0.0, 9.0, 0.0]]


def test_who_is_evicted_is_asked_for_again() -> None:
    """The cursor of its set goes back to it."""
    ctx, search = searching(
        assemble([Member(0, [Status.RUNNING, Status.RUNNING, Status.PENDING])], tasks={"node": [0, 0, NULL]})
    )
    assert next_chunk(0, ctx) == 1
    assert (ctx.scratch.chunk[0], ctx.state.sets.cursor[0]) == (2, 2)
    evict_task(0, 1, 1, ctx, search)
    assert next_chunk(0, ctx) == 1
    assert ctx.scratch.chunk[0] == 1
