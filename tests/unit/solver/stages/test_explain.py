"""Why pods are pending, in numbers: against a twin that looks at each node by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import PODS, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import entry
from kai_sched.solver.pipeline import solve
from kai_sched.solver.stages import explain
from kai_sched.solver.stages.explain import make_facts
from kai_sched.solver.state import Context
from tests.unit.solver.tables import ALL_ON, Member, assemble, node_table, opened, snapshots

measure = entry(explain.measure)

ROOM_VERDICTS = (Verdict.NO_ROOM, Verdict.NO_POD_SLOT)


def literal_room(books: Context, c: int, n: int) -> int:
    """How many pods of the class can be put on the node one after the other."""
    request, free = books.snapshot.classes.request[c], books.state.idle[n] + books.state.releasing[n]
    count = 0
    while (request <= free - count * request).all():
        count += 1
    return count


@given(snapshots(most_nodes=8))
def test_counts_are_those_of_the_twin(snapshot: Snapshot) -> None:
    """Each node has one verdict; resources fall short, and room is left, only on nodes that are otherwise fit."""
    books, facts = opened(snapshot), make_facts(snapshot)
    n_nodes = snapshot.nodes.condition.size
    free = books.state.idle + books.state.releasing
    for c in range(snapshot.classes.signature.size):
        measure(c, books, facts)
        request, static = snapshot.classes.request[c], books.finder.verdicts[0] == Verdict.OK
        lacking = (request > free) & static[:, None]
        assert facts.nodes[c].sum() == n_nodes
        assert facts.short[c].tolist() == lacking.sum(axis=0).tolist()
        assert sum(facts.nodes[c, verdict] for verdict in ROOM_VERDICTS) == lacking.any(axis=1).sum()
        slots = sum(np.flatnonzero(row)[0] == PODS for row in lacking if row.any())
        assert facts.nodes[c, Verdict.NO_POD_SLOT] == slots
        assert facts.largest_free[c].tolist() == np.where(lacking, free, 0.0).max(axis=0, initial=0.0).tolist()
        untied = snapshot.term_roles.ptr[c] == snapshot.term_roles.ptr[c + 1]
        fits = sum(literal_room(books, c, n) for n in np.flatnonzero(static))
        assert facts.room[c] == fits if untied else facts.room[c] <= fits


@given(snapshots(most_nodes=6))
def test_a_class_is_asked_for_where_a_job_ended_with_it(snapshot: Snapshot) -> None:
    """After a whole cycle: once a class, and counts never exceed the nodes."""
    solution = solve(snapshot, ALL_ON, ("allocate",))
    outcomes = [solution.outcome(j) for j in range(snapshot.jobs.queue.size)]
    stopped = [one.blocking_row for one in outcomes if one.verdict == Verdict.NO_FIT and one.blocking_row != NULL]
    ended = {int(snapshot.tasks.cls[t]) for t in stopped}
    for c in range(snapshot.classes.signature.size):
        facts = solution.class_facts(c)
        assert sum(facts.nodes.values()) == (snapshot.nodes.condition.size if c in ended else 0)
        assert facts.short.max() <= snapshot.nodes.condition.size


def test_worked_facts() -> None:
    """Pods of 2 GPUs: a node with 5 GPUs free, one with 1, one without pod slots, one cordoned."""
    nodes = node_table(
        [[9.0, 9.0, 5.0, 9.0, 0.0], [9.0, 9.0, 1.0, 9.0, 0.0], [9.0, 9.0, 8.0, 0.0, 0.0], [9.0, 9.0, 8.0, 9.0, 0.0]],
        condition=[0, 0, 0, Verdict.UNSCHEDULABLE],
    )
    snapshot = assemble([Member(1, [Status.PENDING])], nodes=nodes, request=[[1.0, 1.0, 2.0, 1.0, 0.0]])
    books, facts = opened(snapshot), make_facts(snapshot)
    measure(0, books, facts)
    counted = {Verdict(v): int(count) for v, count in enumerate(facts.nodes[0]) if count}
    assert counted == {
        Verdict.OK: 1,
        Verdict.NO_ROOM: 1,
        Verdict.NO_POD_SLOT: 1,
        Verdict.UNSCHEDULABLE: 1,
    }
    assert facts.short[0].tolist() == [0, 0, 1, 1, 0]
    assert facts.largest_free[0].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert facts.room[0] == 2
