"""Placing and taking back (semantics 3.6): the books after any sequence of placements, and after any rollback."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Snapshot, Status, Tasks
from kai_sched.solver.allocation import longest_job
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt, undo
from kai_sched.solver.state import Context, Log
from tests.unit.solver.tables import assemble, opened, snapshots, table

put = entry(attempt.place_on_node)
rollback = entry(undo.rollback)
set_float = entry(undo.set_float)
set_integer = entry(undo.set_integer)


def pending_tasks(snapshot: Snapshot) -> list[list[int]]:
    """By job, its pending tasks."""
    tasks = snapshot.tasks
    return [
        [t for t in range(tasks.job.size) if tasks.job[t] == j and tasks.status[t] == Status.PENDING]
        for j in range(snapshot.jobs.queue.size)
    ]


@st.composite
def placements(draw: st.DrawFn) -> tuple[Snapshot, list[tuple[int, int, int, bool]]]:
    """A snapshot, and (job, task, node, waits) for pending tasks of one job, in any order; room is not looked at."""
    snapshot = draw(snapshots())
    waiting = pending_tasks(snapshot)
    j = draw(st.integers(0, len(waiting) - 1))
    order = draw(st.permutations(waiting[j]))
    steps = [(j, t, draw(st.integers(0, snapshot.nodes.condition.size - 1)), draw(st.booleans())) for t in order]
    return snapshot, steps


def bits(books: Context) -> tuple[bytes, bytes]:
    return books.state.floats.tobytes(), books.state.integers.tobytes()


@given(placements(), st.data())
def test_rollback_restores_every_bit(
    problem: tuple[Snapshot, list[tuple[int, int, int, bool]]], data: st.DataObject
) -> None:
    """To some of the checkpoints, the newest first; the finder is told of each node that changed."""
    snapshot, steps = problem
    books = opened(snapshot)
    state, log, finder = books.state, books.log, books.finder
    state.floats[:] += 0.1  # amounts that are inexact when added back
    checkpoints = []
    for j, t, n, wait in steps:
        checkpoints.append((log.size.tolist(), bits(books)))
        put(j, t, n, wait, books)
        if data.draw(st.booleans()):
            set_integer(state.at.cursor + int(snapshot.tasks.set[t]), data.draw(st.integers(0, 9)), books)
    until = len(steps)
    for at in reversed(range(len(steps))):
        if at > 0 and data.draw(st.booleans()):
            continue
        (to_float, to_integer), before = checkpoints[at]
        stamp = finder.stamp.copy()
        rollback(to_float, to_integer, books)
        assert bits(books) == before
        for _, _, n, _ in steps[at:until]:
            assert finder.stamp[n // finder.block[0]] > stamp[n // finder.block[0]]
        until = at
    assert log.size.tolist() == [0, 0]


@given(placements())
def test_a_log_holds_the_longest_job(problem: tuple[Snapshot, list[tuple[int, int, int, bool]]]) -> None:
    """Compiled code does not look at the length of the log, so that it must never be too short."""
    snapshot, steps = problem
    books = opened(snapshot)
    for j, t, n, _ in steps:
        put(j, t, n, True, books)
    for s in range(snapshot.sets.parent.size):
        set_integer(books.state.at.cursor + s, 1, books)
    assert len(steps) <= longest_job(snapshot)
    assert books.log.size[0] <= books.log.float_at.size == books.log.float_was.size
    assert books.log.size[1] <= books.log.integer_at.size == books.log.integer_was.size


@given(placements())
def test_books_after_placing_are_those_opened_anew(
    problem: tuple[Snapshot, list[tuple[int, int, int, bool]]],
) -> None:
    """What is booked step by step equals what is counted from the tasks with their new status and node."""
    snapshot, steps = problem
    books = opened(snapshot)
    for j, t, n, wait in steps:
        put(j, t, n, wait, books)
    bound = snapshot._replace(tasks=moved(snapshot.tasks, [(t, n) for _, t, n, _ in steps]))
    anew = opened(bound).state
    state, lacking = books.state, snapshot.nodes.allocatable == 0.0
    room = state.idle + state.releasing
    np.testing.assert_array_equal(np.where(lacking, 0.0, room), np.where(lacking, 0.0, anew.idle + anew.releasing))
    for now, then in zip((*state.book[4:6], *state.sets[:2]), (*anew.book[4:6], *anew.sets[:2]), strict=True):
        np.testing.assert_array_equal(now, then)
    for now, then in zip(state.domains, anew.domains, strict=True):
        np.testing.assert_array_equal(now, then)
    np.testing.assert_array_equal(state.ports, anew.ports)


def moved(tasks: Tasks, places: list[tuple[int, int]]) -> Tasks:
    """The tasks with these ones bound to nodes."""
    columns = {name: values.copy() for name, values in tasks._asdict().items()}
    for t, n in places:
        columns["status"][t], columns["node"][t] = Status.ALLOCATED, n
    moved_tasks: Tasks = table(Tasks, **columns)
    return moved_tasks


def test_writes_are_undone_newest_first() -> None:
    """Two writes to one position leave the value before the first one."""
    floats, integers = np.array([1.0, 2.0]), np.array([5, 6])
    log = Log(np.empty(4, np.int64), np.empty(4), np.empty(4, np.int64), np.empty(4, np.int64), np.zeros(2, np.int64))
    ctx = opened(assemble([]))
    nowhere = np.zeros((0, 5))
    state = ctx.state._replace(floats=floats, integers=integers, idle=nowhere, releasing=nowhere)
    ctx = ctx._replace(log=log, state=state)
    set_float(0, 0.3, ctx)
    set_float(0, 0.7, ctx)
    set_integer(1, 8, ctx)
    rollback(1, 0, ctx)
    assert (floats.tolist(), integers.tolist(), log.size.tolist()) == ([0.3, 2.0], [5, 6], [1, 0])
    rollback(0, 0, ctx)
    assert floats.tolist() == [1.0, 2.0]
