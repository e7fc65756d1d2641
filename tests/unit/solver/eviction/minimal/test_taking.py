"""Chunks that are chosen one by one (semantics 4.5, step 3): who goes along, and that all can be taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Snapshot, Status
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.searches import bits, check_books, crowded, lineage, searching
from tests.unit.solver.tables import UNLIMITED, Member, assemble, node_table, queue_table

minimal_taking, potential_victims, losses = afresh(
    "solver.eviction.minimal.taking", "solver.eviction.victims.potential", "solver.eviction.rules.losses"
)
choose_with_dependents = minimal_taking.choose_with_dependents
choose_for_limits = minimal_taking.choose_for_limits
abandon = minimal_taking.abandon
begin = potential_victims.begin_accumulation
accumulate = potential_victims.accumulate
keep_old_shares = losses.keep_old_shares

CONSOLIDATION, PREEMPT = int(Action.CONSOLIDATION), int(Action.PREEMPT)
NO_CEILING = 2**62
FLAT = st.builds(lambda minimum, pods: Member(minimum, [Status.RUNNING] * pods), st.integers(0, 3), st.integers(0, 4))


def accumulated(snapshot: Snapshot) -> tuple[Context, Search, list[list[int]]]:
    """All chunks of potential victims."""
    ctx, search = searching(snapshot)
    keep_old_shares(ctx.state.book, search.queues)
    begin(NO_CEILING, False, ctx, search)
    while accumulate(NO_CEILING, ctx, search):
        pass
    ctx.log.size[:] = 0
    starts = search.lists.chunk_start[: search.counts.n_chunks[0]].tolist()
    ends = [*starts[1:], int(search.counts.potential[0])]
    return ctx, search, [search.lists.potential[a:b].tolist() for a, b in zip(starts, ends, strict=False)]


@given(crowded(roots=FLAT), st.data())
def test_the_core_of_a_gang_takes_its_surplus_along(snapshot: Snapshot, data: st.DataObject) -> None:
    """Each chunk with those of its job that came before it if it leaves nobody behind; then some are taken back."""
    ctx, search, chunks = accumulated(snapshot)
    preemptor = Preemptor(PREEMPT, 0, 1, NO_CEILING, (0.0, 0.0, 1.0), 1.0, False)
    chosen: list[int] = []
    for g in data.draw(st.permutations(range(len(chunks)))):
        if g in chosen:
            continue
        job = snapshot.tasks.job[chunks[g][0]]
        before = [h for h in range(g) if snapshot.tasks.job[chunks[h][0]] == job and h not in chosen]
        later = [h for h in range(g + 1, len(chunks)) if snapshot.tasks.job[chunks[h][0]] == job]
        is_core = not later and bool(search.lists.emptied[g] != NULL)
        expected, was = [*(before if is_core else []), g], bits(ctx)
        sizes = (int(ctx.log.size[0]), int(ctx.log.size[1]), len(chosen), int(search.counts.placed[0]))
        assert choose_with_dependents(g, NULL, preemptor, ctx, search) == (True, False)
        assert search.minimal.chosen[: search.minimal.n_chosen[0]].tolist() == [*chosen, *expected]
        gone = [t for h in [*chosen, *expected] for t in chunks[h]]
        status = ctx.state.task.status
        assert sorted(t for t in range(status.size) if status[t] == Status.EVICTED) == sorted(gone)
        check_books(ctx)
        if data.draw(st.booleans()):
            abandon(*sizes, ctx, search)
            assert bits(ctx) == was
        else:
            chosen += expected
        flags = search.minimal.is_chosen[: len(chunks)] != 0
        assert flags.tolist() == [h in chosen for h in range(len(chunks))]
    assert search.minimal.n_chosen[0] == len(chosen)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=6), st.integers(0, 4))
def test_who_may_not_leave_moves_to_another_node(pods: list[tuple[int, int]], room: int) -> None:
    """Pods on node 0, and so much room on node 1: each chunk moves there while it fits, else it stays."""
    sizes = [gpus for gpus, _ in pods]
    snapshot = assemble(
        [Member(1, [Status.RUNNING]) for _ in pods],
        nodes=node_table([[9.0, 9.0, float(sum(sizes)), 99.0, 0.0], [9.0, 9.0, float(max(room, 1)), 99.0, 0.0]]),
        request=[[0.0, 0.0, gpus, 1.0, 0.0] for gpus in (1.0, 2.0, 3.0)],
        tasks={"cls": [gpus - 1 for gpus in sizes], "node": [0] * len(pods)},
    )
    ctx, search, chunks = accumulated(snapshot)
    left = float(max(room, 1))
    preemptor = Preemptor(CONSOLIDATION, 0, 1, NO_CEILING, (0.0, 0.0, 1.0), 1.0, True)
    for g, (t,) in enumerate(chunks):
        before, fits = bits(ctx), sizes[t] <= left
        assert choose_with_dependents(g, 0, preemptor, ctx, search) == (fits, False)
        if fits:
            left -= sizes[t]
            assert (ctx.state.task.status[t], ctx.state.task.node[t]) == (Status.PIPELINED, 1)
        else:
            assert bits(ctx) == before
        assert ctx.state.releasing[1, GPU] + ctx.state.idle[1, GPU] == left
        check_books(ctx)


@given(crowded(roots=FLAT), st.sampled_from([1.0, 2.0]), st.data())
def test_victims_below_a_limit_go_first(snapshot: Snapshot, asks: float, data: st.DataObject) -> None:
    """Until the preemptor's queue and all above it are within their limits, the first in order that hold GPUs there."""
    ctx, search, chunks = accumulated(snapshot)
    p = data.draw(st.integers(0, snapshot.jobs.queue.size - 1))
    book, path = ctx.state.book, lineage(snapshot, int(snapshot.jobs.queue[p]))
    for q in path:
        book.limit[q] = UNLIMITED
        book.limit[q, GPU] = data.draw(st.sampled_from([1.0, 2.0, 3.0, UNLIMITED]))
    # No pending tasks, whose GPU memory could cost less than ``asks``.
    preemptor = Preemptor(PREEMPT, p, 0, NO_CEILING, (0.0, 0.0, asks), asks, False)
    over = [q for q in path if book.held[q, GPU] + asks > book.limit[q, GPU]]
    fixed = not snapshot.jobs.preemptible[p]
    if fixed and any(book.held_fixed[q, GPU] + asks > book.quota[q, GPU] for q in path):
        return
    done = choose_for_limits(preemptor, ctx, search)
    within = all(book.held[q, GPU] + asks <= book.limit[q, GPU] for q in path)
    assert done == within
    chosen = search.minimal.chosen[: search.minimal.n_chosen[0]].tolist()
    if not over:
        assert chosen == []
    for g in chosen:
        assert path[-1] in lineage(snapshot, int(snapshot.jobs.queue[snapshot.tasks.job[chunks[g][0]]]))
    if not done:  # nobody who holds some of it is left below the queue that is over its limit
        still = next(q for q in path if book.held[q, GPU] + asks > book.limit[q, GPU])
        for g, tasks in enumerate(chunks):
            if still in lineage(snapshot, int(snapshot.jobs.queue[snapshot.tasks.job[tasks[0]]])) and g not in chosen:
                assert not any(snapshot.classes.quota[snapshot.tasks.cls[t], GPU] for t in tasks)
    check_books(ctx)


def test_for_a_second_limit_all_victims_count_again() -> None:
    """Department 1 of a tree with limits of 1 GPU has team 2, which asks for one, and team 3; team 4 is beside it.

    The limit of the department passes over the job of team 4, which comes first; that of the root needs it.
    """
    snapshot = assemble(
        [Member(1, [Status.RUNNING]) for _ in range(2)] + [Member(1, [Status.PENDING])],
        queue_table(
            [NULL, 0, 1, 1, 0],
            limit=[[UNLIMITED, UNLIMITED, 1.0]] * 2 + [[UNLIMITED] * 3] * 3,
            priority=[100, 100, 100, 100, 50],
        ),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0]],
        tasks={"node": [0, 0, NULL]},
        jobs={"queue": [3, 4, 2]},
    )
    ctx, search, chunks = accumulated(snapshot)
    assert chunks == [[1], [0]]
    assert choose_for_limits(Preemptor(PREEMPT, 2, 1, NO_CEILING, (0.0, 0.0, 1.0), 1.0, False), ctx, search)
    assert sorted(search.minimal.chosen[: search.minimal.n_chosen[0]]) == [0, 1]


def test_only_those_of_the_queue_over_its_limit_go() -> None:
    """Queue 1 may hold 2 GPUs and holds both; queue 0, whose job is newer, has no limit."""
    snapshot = assemble(
        [Member(1, [Status.RUNNING]) for _ in range(3)] + [Member(1, [Status.PENDING])],
        queue_table([NULL, NULL], limit=[[UNLIMITED] * 3, [UNLIMITED, UNLIMITED, 2.0]]),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0]],
        tasks={"node": [0, 0, 0, NULL]},
        jobs={"queue": [1, 1, 0, 1]},
    )
    ctx, search, chunks = accumulated(snapshot)
    assert choose_for_limits(Preemptor(PREEMPT, 3, 1, NO_CEILING, (0.0, 0.0, 1.0), 1.0, False), ctx, search)
    assert [chunks[g] for g in search.minimal.chosen[: search.minimal.n_chosen[0]]] == [[1]]
