"""Promised room at the end of a cycle (semantics 3.7), against a twin that adds the room up for each job anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Snapshot, Status, TermRole, Turn
from kai_sched.solver import pipelined_room
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt
from kai_sched.solver.state import Context
from tests.unit.solver.neighbours import refused
from tests.unit.solver.searches import TAKES_ROOM, check_books, crowded, rows_of
from tests.unit.solver.tables import Member, assemble, opened

pipeline_incomplete_gangs = entry(pipelined_room.pipeline_incomplete_gangs)
bind_pipelined_jobs = entry(pipelined_room.bind_pipelined_jobs)
put = entry(attempt.place_on_node)
record_placement = entry(attempt.record_placement)

NOT_SEEN, FREE, NOT_FREE = 0, 1, 2  # Decisions.free


def decide(ctx: Context, data: st.DataObject) -> None:
    """Give pending tasks places, bound where there is room now, else waiting; all are written down."""
    snapshot, status = ctx.snapshot, ctx.state.task.status
    for t in data.draw(st.permutations([t for t in range(status.size) if status[t] == Status.PENDING])):
        request = snapshot.classes.request[snapshot.tasks.cls[t]]
        now = np.flatnonzero((request <= ctx.state.idle).all(axis=1) & (ctx.state.releasing >= 0).all(axis=1)).tolist()
        later = np.flatnonzero((request <= ctx.state.idle + ctx.state.releasing).all(axis=1)).tolist()
        wait = not now or data.draw(st.booleans())
        if later:
            ctx.log.size[:] = 0
            put(int(snapshot.tasks.job[t]), t, data.draw(st.sampled_from(later if wait else now)), wait, ctx)
            record_placement(t, ctx.state.task, ctx.decisions.placements)


@given(crowded(), st.data())
def test_a_gang_starts_whole_or_waits_whole(snapshot: Snapshot, data: st.DataObject) -> None:
    """Where some pod of a minimum waits, all that the job got in this cycle does, and the books follow."""
    ctx = opened(snapshot)
    decide(ctx, data)
    status, before = ctx.state.task.status, ctx.state.task.status.copy()
    torn = set()
    for t, s in enumerate(snapshot.tasks.set):
        rows = [other for other in range(status.size) if snapshot.tasks.set[other] == s]
        started = [other for other in rows if before[other] in range(Status.ALLOCATED, Status.RELEASING)]
        if before[t] == Status.PIPELINED and len(started) < snapshot.sets.minimum[s]:
            torn.add(int(snapshot.tasks.job[t]))
    pipeline_incomplete_gangs(ctx)
    expected = [
        Status.PIPELINED if was == Status.ALLOCATED and snapshot.tasks.job[t] in torn else was
        for t, was in enumerate(before)
    ]
    assert status.tolist() == expected
    for t, row in enumerate(ctx.decisions.placements.row):
        assert row == NULL or ctx.decisions.placements.waits[row] == (status[t] == Status.PIPELINED)
    check_books(ctx)


def free_now(ctx: Context) -> Floats:
    """What nodes have without those that are leaving or evicted, and without those that were bound or kept."""
    snapshot, status, room = ctx.snapshot, ctx.state.task.status, ctx.snapshot.nodes.allocatable.copy()
    for t, was in enumerate(snapshot.tasks.status):
        there = snapshot.tasks.node[t] if was != Status.PENDING else ctx.state.task.node[t]
        if (was in TAKES_ROOM or was == Status.RELEASING or status[t] == Status.ALLOCATED) and there != NULL:
            room[there] -= snapshot.classes.request[snapshot.tasks.cls[t]]
    return room


@given(crowded(tied=True), st.booleans(), st.data())
def test_promises_of_free_room_are_kept(snapshot: Snapshot, at_once: bool, data: st.DataObject) -> None:
    """Job by job in the order of the promises, each on the room that is left by then."""
    n_jobs = snapshot.jobs.queue.size
    turns = data.draw(st.lists(st.sampled_from([Turn.ORDINARY, Turn.PIPELINED_FREE]), min_size=n_jobs, max_size=n_jobs))
    snapshot = snapshot._replace(jobs=snapshot.jobs._replace(turn=np.array(turns, snapshot.jobs.turn.dtype)))
    ctx = opened(snapshot)
    decide(ctx, data)
    decisions, status = ctx.decisions, ctx.state.task.status
    # Nobody is evicted where there are no tasks.
    winners = data.draw(st.lists(st.integers(0, n_jobs - 1), max_size=min(1, status.size)))
    decisions.evictions.preemptor[: len(winners)], decisions.evictions.length[0] = winners, len(winners)
    rows = [row for row in range(decisions.placements.length[0]) if decisions.placements.waits[row]]
    promised = list(dict.fromkeys(int(snapshot.tasks.job[decisions.placements.task[row]]) for row in rows))
    before, marks = status.copy(), dict.fromkeys(winners, NOT_FREE)
    room, expected = free_now(ctx), before.copy()
    leaves = np.flatnonzero(snapshot.tasks.status == Status.RELEASING)
    leaving = [(int(snapshot.tasks.cls[t]), int(snapshot.tasks.node[t])) for t in leaves]
    for j in [j for j in promised if j not in winners]:
        waiting = [t for t in rows_of(snapshot, j) if before[t] == Status.PIPELINED]
        left = room.copy()
        for t in waiting:
            left[ctx.state.task.node[t]] -= snapshot.classes.request[snapshot.tasks.cls[t]]
        enough = not any(needs_others(snapshot, t) for t in waiting)
        for t in waiting:
            c, n = int(snapshot.tasks.cls[t]), int(ctx.state.task.node[t])
            asked = snapshot.classes.request[c] > 0
            enough = enough and (left[n][asked] >= 0).all() and not refused(snapshot, c, n, leaving)
        marks[j] = FREE if enough else NOT_FREE
        room = left if enough else room
        if enough and (at_once or turns[j] == Turn.PIPELINED_FREE):
            expected[waiting], marks[j] = Status.ALLOCATED, NOT_FREE
    bind_pipelined_jobs(at_once, ctx, *np.zeros((2, *ctx.state.idle.shape)))
    assert status.tolist() == expected.tolist()
    assert decisions.free.tolist() == [marks.get(j, NOT_SEEN) for j in range(n_jobs)]
    for row in range(decisions.placements.length[0]):
        assert decisions.placements.waits[row] == (status[decisions.placements.task[row]] == Status.PIPELINED)
    check_books(ctx)
    for n in {int(ctx.state.task.node[t]) for t in np.flatnonzero(status != before)}:
        bound = np.flatnonzero((status != before) & (ctx.state.task.node == n))
        asked = (snapshot.classes.request[snapshot.tasks.cls[bound]] > 0).any(axis=0)
        assert (ctx.state.idle[n][asked] >= 0).all(), "what is bound has room at once"


def needs_others(snapshot: Snapshot, t: int) -> bool:
    c, term_roles = snapshot.tasks.cls[t], snapshot.term_roles
    return bool((term_roles.entry[term_roles.ptr[c] : term_roles.ptr[c + 1], 0] == TermRole.NEED).any())


@pytest.mark.parametrize(("leaving", "expected"), [(0, Status.ALLOCATED), (2, Status.PIPELINED)])
def test_room_that_is_free_already_is_taken_at_once(leaving: int, expected: Status) -> None:
    """A node of 4 GPUs, and a job that is promised 3 of them while others leave 2, or nobody does."""
    snapshot = assemble(
        [Member(0, [Status.RELEASING] * leaving), Member(1, [Status.PENDING])],
        request=[[0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 3.0, 1.0, 0.0]],
        tasks={"node": [0] * leaving + [NULL], "cls": [0] * leaving + [1]},
    )
    ctx = opened(snapshot)
    put(1, leaving, 0, True, ctx)
    record_placement(leaving, ctx.state.task, ctx.decisions.placements)
    bind_pipelined_jobs(True, ctx, *np.zeros((2, *ctx.state.idle.shape)))
    assert ctx.state.task.status[leaving] == expected
    assert ctx.state.idle[0, GPU] == (1.0 if leaving == 0 else 2.0)
