"""From a simulated solution to decisions (semantics 3.6, 4.5), against what the simulation shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Snapshot, Status
from kai_sched.solver.eviction import commit, evict, scenario
from kai_sched.solver.eviction.original import scenarios, simulation
from kai_sched.solver.eviction.rules import losses
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt
from kai_sched.solver.state import Context
from tests.unit.solver.searches import ACTIVE, check_books, crowded, lineage, price, searching
from tests.unit.solver.tables import Member, assemble, queue_table

commit_scenario = entry(commit.commit_scenario)
evict_task = entry(evict.evict)
place_in_search = entry(simulation.place_in_search)
begin_scenario = entry(scenarios.begin_scenario)
add_to_scenario = entry(scenario.add_to_scenario)
keep_old_shares = entry(losses.keep_old_shares)
put = entry(attempt.place_on_node)
record_placement = entry(attempt.record_placement)

PREEMPT = int(Action.PREEMPT)


@given(crowded(), st.data())
def test_decisions_are_what_was_simulated(snapshot: Snapshot, data: st.DataObject) -> None:
    """Some victims are gone, some are at home again, some have a place elsewhere; one had a place of this cycle.

    Those that were named several times count twice for their queues.
    """
    ctx, search = searching(snapshot)
    status, node, decisions = ctx.state.task.status, ctx.state.task.node, ctx.decisions
    pending = [t for t in range(status.size) if status[t] == Status.PENDING]
    p = int(snapshot.tasks.job[pending[-1]]) if pending else 0
    for t in pending[:1]:  # allocate placed it before in this cycle
        put(int(snapshot.tasks.job[t]), t, 0, False, ctx)
        record_placement(t, ctx.state.task, decisions.placements)
    ctx.log.size[:] = 0
    keep_old_shares(ctx.state.book, search.queues)
    victims = [t for t in range(status.size) if status[t] in ACTIVE and snapshot.tasks.job[t] != p]
    victims = data.draw(st.lists(st.sampled_from(victims), unique=True)) if victims else []
    begin_scenario(snapshot, ctx.state, search)
    homes, fate = {t: int(node[t]) for t in victims}, {}
    for t in victims:
        j = int(snapshot.tasks.job[t])
        times = data.draw(st.sampled_from([1, 2, 4])) if snapshot.jobs.preemptible[j] else 1
        add_to_scenario(t, -1, times, snapshot, ctx.state, search)
        evict_task(j, t, times, ctx, search)
    placed = []
    for t in victims:
        fate[t] = data.draw(
            st.sampled_from(["gone", "home", "moved"] if snapshot.nodes.condition.size > 1 else ["gone"])
        )
        if fate[t] != "gone":
            n = homes[t] if fate[t] == "home" else (homes[t] + 1) % snapshot.nodes.condition.size
            place_in_search(int(snapshot.tasks.job[t]), t, n, ctx, search)
            placed.append(t)
    search.lists.placed[: len(placed)], search.counts.placed[0] = placed, len(placed)
    jobs = list(dict.fromkeys(int(snapshot.tasks.job[t]) for t in victims))
    search.lists.jobs[: len(jobs)], search.counts.jobs[0] = jobs, len(jobs)
    old = search.queues.old_held.copy()
    commit_scenario(PREEMPT, p, ctx, search)
    leaving = [t for t in victims if fate[t] != "home" and snapshot.tasks.status[t] != Status.PENDING]
    log, placements = decisions.evictions, decisions.placements
    rows = list(zip(log.task, log.action, log.preemptor, log.node, log.moved, strict=True))[: log.length[0]]
    assert rows == [(t, PREEMPT, p, homes[t], int(fate[t] == "moved")) for t in leaving]
    for t in victims:
        expected = {"gone": Status.RELEASING, "moved": Status.PIPELINED}.get(fate[t], snapshot.tasks.status[t])
        assert status[t] == (Status.ALLOCATED if fate[t] == "home" and t in pending else expected)
        assert search.tasks.left_node[t] == (homes[t] + 1 if fate[t] == "moved" else 0)
        assert log.is_evicted[t] == (t in leaving)
        kept_place = t in pending and fate[t] == "home"
        assert (placements.row[t] != NULL) == (fate[t] == "moved" or kept_place)
        if fate[t] == "moved":
            row = placements.row[t]
            assert (placements.task[row], placements.node[row], placements.waits[row]) == (t, node[t], 1)
    for row, t in enumerate(leaving):
        mine, theirs = sides(snapshot, t, p)
        assert (log.victim_held[row].tolist(), log.preemptor_held[row].tolist()) == (list(old[mine]), list(old[theirs]))
    check_overpayments([t for t in victims if search.tasks.times[t] > 1], ctx, search)
    assert ctx.log.size.tolist() == [0, 0]
    check_books(ctx)


def check_overpayments(repeated: list[int], ctx: Context, search: Search) -> None:
    """Each queue keeps the price of its repeated tasks once; it is charged, so that the books are right again."""
    snapshot = ctx.snapshot
    for q in range(snapshot.queues.parent.size):
        own = [t for t in repeated if snapshot.jobs.queue[snapshot.tasks.job[t]] == q]
        assert search.queues.overpaid[q].tolist() == price(snapshot, own).tolist()
        for each in lineage(snapshot, q):
            ctx.state.book.held[each] += search.queues.overpaid[q]


def sides(snapshot: Snapshot, t: int, p: int) -> tuple[int, int]:
    """The queues of the victim and of the winner where their paths part; the leaf if it is the same."""
    leaf, winner = (int(snapshot.jobs.queue[j]) for j in (snapshot.tasks.job[t], p))
    paths = zip(lineage(snapshot, leaf)[::-1], lineage(snapshot, winner)[::-1], strict=False)
    return next(((x, y) for x, y in paths if x != y), (leaf, winner))


def test_a_pod_that_never_ran_only_loses_its_place() -> None:
    """Allocate placed it in this cycle: it waits again, and no eviction is written down."""
    snapshot = assemble(
        [Member(1, [Status.PENDING]), Member(1, [Status.PENDING])], queue_table([NULL, NULL]), jobs={"queue": [0, 1]}
    )
    ctx, search = searching(snapshot)
    put(0, 0, 0, False, ctx)
    record_placement(0, ctx.state.task, ctx.decisions.placements)
    begin_scenario(snapshot, ctx.state, search)
    add_to_scenario(0, -1, 1, snapshot, ctx.state, search)
    evict_task(0, 0, 1, ctx, search)
    put(1, 1, 0, True, ctx)
    search.lists.placed[0], search.counts.placed[0] = 1, 1
    commit_scenario(PREEMPT, 1, ctx, search)
    assert ctx.decisions.evictions.length[0] == 0
    assert ctx.decisions.placements.row.tolist() == [NULL, 1]
    assert ctx.state.book.held[:-1, GPU].tolist() == [0.0, 1.0]
