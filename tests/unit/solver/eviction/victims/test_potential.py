"""Potential victims, chunk by chunk (semantics 4.3 to 4.5), and the room they would leave, counted from scratch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims import potential as potential_victims
from kai_sched.solver.jit import entry
from kai_sched.solver.state import Context
from tests.oracle.victims import part_of
from tests.oracle.victims import victim_chunk as twin_chunk
from tests.unit.solver.searches import ACTIVE, MINIMAL, RUNS, crowded, price, rows_of, searching
from tests.unit.solver.tables import Member, assemble
from tests.unit.solver.twins import twin_of

begin = entry(potential_victims.begin_accumulation)
accumulate = entry(potential_victims.accumulate)
last_job = entry(potential_victims.last_job)
forget = entry(potential_victims.forget_accumulation)
count_kinds = entry(potential_victims.count_kinds)
may_suffice = entry(potential_victims.may_suffice)
slots = entry(potential_victims.slots)
slots_now = entry(potential_victims.slots_now)
is_overcommitted = entry(potential_victims.is_overcommitted)

NO_CEILING = 2**62


def begin_with(snapshot: Snapshot, data: st.DataObject) -> tuple[Context, Search, list[int]]:
    """For all that is pending of some job, if any, with up to two recorded victims."""
    ctx, search = searching(snapshot, MINIMAL)
    status = ctx.state.task.status
    waiting = [
        [t for t in rows_of(snapshot, j) if status[t] == Status.PENDING] for j in range(snapshot.jobs.queue.size)
    ]
    pending = data.draw(st.sampled_from(waiting))
    search.pending[: len(pending)] = pending
    count_kinds(len(pending), ctx, search)
    active = [t for t in range(status.size) if status[t] in ACTIVE]
    recorded = data.draw(st.lists(st.sampled_from(active), unique=True, max_size=2)) if active else []
    search.lists.recorded[: len(recorded)], search.counts.recorded[0] = recorded, len(recorded)
    search.tasks.recorded[recorded] = 1
    return ctx, search, pending


def room_for(ctx: Context, c: int, gone: list[int]) -> int:
    """How many pods of a class fit all nodes together, one after the other, with these gone."""
    snapshot, room = ctx.snapshot, 0
    for n in np.flatnonzero(ctx.finder.verdicts[0] == Verdict.OK):
        free = (ctx.state.idle + ctx.state.releasing)[n].copy()
        free += sum(snapshot.classes.request[snapshot.tasks.cls[t]] for t in gone if ctx.state.task.node[t] == n)
        room += literal_slots(snapshot.classes.request[c], free)
    return room


def literal_slots(request: Floats, free: Floats) -> int:
    count = 0
    while (request > 0).any() and ((count + 1) * request <= free).all():
        count += 1
    return count


def check_room(ctx: Context, search: Search, pending: list[int], recorded: list[int], potential: list[int]) -> None:
    """What is known of each node and of each class of pending tasks, if there is more than one task."""
    snapshot, classes = ctx.snapshot, ctx.snapshot.tasks.cls[pending].tolist()
    for n in range(snapshot.nodes.condition.size):
        there = [[t for t in tasks if ctx.state.task.node[t] == n] for tasks in (potential, recorded)]
        assert search.rooms.potential_gpus[n] == price(snapshot, there[0])[GPU]
        assert search.rooms.recorded_gpus[n] == price(snapshot, there[1])[GPU]
        leaving = sum((snapshot.classes.request[snapshot.tasks.cls[t]] for t in there[0] + there[1]), np.zeros(5))
        assert search.rooms.requests[n].tolist() == leaving.tolist()
    kinds = list(dict.fromkeys(classes))
    assert search.kinds.cls[: search.counts.kinds[0]].tolist() == kinds
    assert search.kinds.wanted[: len(kinds)].tolist() == [classes.count(c) for c in kinds]
    if len(pending) > 1:
        rooms = [room_for(ctx, c, recorded + potential) for c in kinds]
        assert search.kinds.with_potential[: len(kinds)].tolist() == rooms
        assert search.kinds.with_recorded[: len(kinds)].tolist() == [room_for(ctx, c, recorded) for c in kinds]
        enough = all(room >= classes.count(c) for room, c in zip(rooms, kinds, strict=True))
        assert may_suffice(search.kinds.with_potential, search) == enough


@given(crowded(), st.sampled_from([60, NO_CEILING]), st.data())
def test_chunks_are_those_of_the_oracle(snapshot: Snapshot, ceiling: int, data: st.DataObject) -> None:
    """Each once, of jobs below the ceiling, until nothing is left of them; recorded victims leave in silence."""
    ctx, search, pending = begin_with(snapshot, data)
    recorded = search.lists.recorded[: search.counts.recorded[0]].tolist()
    begin(ceiling, False, ctx, search)
    candidates = search.victims.jobs.skip == 0
    jobs = [j for j in np.flatnonzero(candidates) if snapshot.jobs.priority[j] < ceiling]
    taken: list[int] = []
    check_room(ctx, search, pending, recorded, taken)
    while accumulate(ceiling, ctx, search):
        potential = search.lists.potential[: search.counts.potential[0]].tolist()
        chunk, j = potential[len(taken) :], int(last_job(snapshot, search))
        assert j in jobs
        expected = []
        spent = [str(t) for t in taken]
        while not expected:  # what was recorded goes before it, as soon as some of it is in a chunk
            whole = twin_chunk(part_of(twin_of(ctx, j), lambda task, spent=tuple(spent): task.pod.name not in spent))
            expected = [int(task.pod.name) for task in whole.tasks]
            if set(expected) & set(recorded):
                spent, expected = [*spent, *(str(t) for t in recorded)], []
        assert sorted(chunk) == sorted(expected)
        taken += chunk
        check_room(ctx, search, pending, recorded, taken)
    left = [t for j in jobs for t in rows_of(snapshot, j) if ctx.state.task.status[t] in ACTIVE]
    assert sorted(taken) == [t for t in left if t not in recorded]
    check_chains(ctx, search, taken)
    forget(search)
    check_forgotten(search)


def check_chains(ctx: Context, search: Search, taken: list[int]) -> None:
    """Of each job and of each node, in the order in which they came."""
    for j in range(ctx.snapshot.jobs.queue.size):
        mine = [t for t in taken if ctx.snapshot.tasks.job[t] == j]
        assert chain(int(search.jobs.first_potential[j]), search.tasks.next_of_job) == mine
    for n in range(ctx.snapshot.nodes.condition.size):
        here = [t for t in taken if ctx.state.task.node[t] == n]
        assert chain(int(search.nodes.first_potential[n]), search.tasks.next_on_node) == here
    order = list(dict.fromkeys(int(ctx.state.task.node[t]) for t in taken))
    assert search.nodes.order[: search.counts.nodes[0]].tolist() == order
    assert [int(search.nodes.place[n]) for n in order] == list(range(len(order)))
    starts = search.lists.chunk_start[: search.counts.n_chunks[0]].tolist()
    for g, (start, end) in enumerate(zip(starts, [*starts[1:], len(taken)], strict=False)):
        assert set(search.tasks.chunk_of[taken[start:end]]) == {g}


def chain(first: int, following: np.ndarray) -> list[int]:
    return [first - 1, *chain(int(following[first - 1]), following)] if first else []


def check_forgotten(search: Search) -> None:
    assert not any(
        column.any() for column in (*search.rooms, search.tasks.taken, search.jobs.touched, search.nodes.mark)
    )
    assert not search.nodes.first_potential.any()
    assert not search.jobs.first_potential.any()
    assert search.victims.held.tolist() == search.held.tolist()
    assert search.victims.jobs.stage.tolist() == search.jobs.stage.tolist()


@given(*[st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0, 5.0]), min_size=2, max_size=2) for _ in range(4)])
def test_how_many_pods_fit(request: list[float], idle: list[float], releasing: list[float], more: list[float]) -> None:
    """One after the other, of pods that ask for something."""
    asked = np.abs(request)
    now, later, leaving = np.array(idle), np.array(releasing), np.array(more)
    assert slots(asked, now, later, leaving) == literal_slots(asked, now + later + leaving)
    assert slots_now(asked, now, later) == literal_slots(asked, now + later)
    assert is_overcommitted(now, later) == (now + later < 0).any()


def test_the_newest_of_the_lowest_priority_goes_first() -> None:
    """Surplus pods one by one, then the gang whole; then the job of the higher priority."""
    running = RUNS[0]
    roots = [Member(1, [running]), Member(2, [running] * 3), Member(1, [Status.PENDING])]
    snapshot = assemble(roots, tasks={"node": [0, 0, 0, 0, NULL]}, jobs={"priority": [60, 50, 70]})
    ctx, search = searching(snapshot)
    begin(70, False, ctx, search)
    chunks = []
    while accumulate(70, ctx, search):
        chunks.append(
            search.lists.potential[search.lists.chunk_start[len(chunks)] : search.counts.potential[0]].tolist()
        )
    assert chunks == [[3], [1, 2], [0]]
