"""Would a queue take the room straight back (semantics 4.7, rule 4)? Against the sentence, job by job."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.minimal import simulation
from kai_sched.solver.eviction.rules import retake
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import entry
from kai_sched.solver.state import Context
from tests.oracle import chunk as twin
from tests.unit.solver.searches import crowded, lineage, price, rows_of, searching
from tests.unit.solver.tables import UNLIMITED, Member, assemble, node_table, queue_table
from tests.unit.solver.twins import twin_of

who_retakes = entry(retake.who_retakes)
exclude_last_chunk = entry(simulation.exclude_last_chunk)


def twin_who_retakes(p: int, k: int, ctx: Context, search: Search) -> int:
    snapshot, parent = ctx.snapshot, ctx.snapshot.queues.parent
    need = price(snapshot, search.pending[:k].tolist())
    for u in lineage(snapshot, int(snapshot.jobs.queue[p])):
        for s in snapshot.queues.by_uid.tolist():
            if (
                s != u
                and parent[s] == parent[u]
                and any(takes_back(j, u, s, need, ctx, search) for j in jobs_below(s, ctx))
            ):
                return int(s)
    return NULL


def jobs_below(q: int, ctx: Context) -> list[int]:
    snapshot = ctx.snapshot
    return [j for j in range(snapshot.jobs.queue.size) if q in lineage(snapshot, int(snapshot.jobs.queue[j]))]


def takes_back(j: int, u: int, s: int, need: np.ndarray, ctx: Context, search: Search) -> bool:
    """Whether job ``j``, below the loser ``s``, could take from ``u`` what ``u`` gets."""
    snapshot, book = ctx.snapshot, ctx.state.book
    asked = [int(task.pod.name) for task in twin.next_chunk(twin_of(ctx, j))]
    asks, leaf = price(snapshot, asked), int(snapshot.jobs.queue[j])
    above = (need > 0) & (book.held[u] > book.quota[u])
    pushed = above & (book.held[s] < search.queues.old_held[s]) & (book.held[s] < book.quota[s])
    entitled = all(book.held[s] + asks <= book.quota[s]) and all(book.held[leaf] + asks <= book.fair[leaf])
    if snapshot.jobs.refused[j] != Verdict.OK or not (any(pushed) and entitled and any(above & (asks > 0))):
        return False
    free, empty = ctx.state.idle + ctx.state.releasing, snapshot.nodes.allocatable
    ready = ctx.finder.verdicts[0] == Verdict.OK
    requests = [snapshot.classes.request[snapshot.tasks.cls[t]] for t in asked]
    has_room = [bool(((request <= free).all(axis=1) & ready).any()) for request in requests]
    could_run = [bool(((request <= empty).all(axis=1) & ready).any()) for request in requests]
    refused = [ctx.finder.refused[snapshot.tasks.cls[t]] != Verdict.OK for t in asked]
    return not any(refused) and all(np.array(could_run) | np.array(has_room)) and not all(has_room)


JOBS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(1, 2)), min_size=3, max_size=7)


@given(JOBS, st.integers(0, 2**32))
def test_who_takes_it_back(facts: list[tuple[int, int, int]], seed: int) -> None:
    """Jobs with (leaf, class, pods) wait in two departments; what queues hold is near to what they are entitled to."""
    rng = np.random.default_rng(seed)
    above, n_jobs = [NULL, NULL, *[0, 1, 0, 1], NULL, NULL], len(facts)
    snapshot = assemble(
        [Member(pods, [Status.PENDING] * pods) for _, _, pods in facts],
        queue_table(above, by_uid=rng.permutation(8)),
        node_table([[4.0, 8.0, 2.0, 9.0, 0.0]] * 3, condition=[Verdict.OK, Verdict.OK, Verdict.NOT_READY]),
        [[0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 2.0, 1.0, 0.0]],
        tasks={"cls": [c for _, c, pods in facts for _ in range(pods)]},
        jobs={
            "queue": [2 + leaf for leaf, _, _ in facts],
            "refused": rng.choice([Verdict.OK, Verdict.OK, Verdict.OK, Verdict.GANG_NOT_READY], n_jobs),
        },
    )
    ctx, search = searching(snapshot)
    book = ctx.state.book
    for _ in range(30):
        p = int(rng.integers(0, n_jobs))
        pending = list(rows_of(snapshot, p))
        search.pending[: len(pending)] = pending
        book.held[:-1] = rng.choice([1.0, 2.0, 3.0], (8, 3))
        book.quota[:-1] = book.held[:-1] + rng.choice([-1.0, -1.0, 0.0, 1.0, 2.0, 2.0, 4.0], (8, 3))
        book.fair[:-1] = book.held[:-1] + rng.choice([0.0, 1.0, 2.0, 4.0, 4.0, 4.0], (8, 3))
        book.quota[:-1][rng.random((8, 3)) < [0.8, 0.8, 0.0]] = UNLIMITED
        book.fair[:-1][rng.random((8, 3)) < [0.8, 0.8, 0.0]] = UNLIMITED
        search.queues.old_held[:] = book.held[:-1] + rng.choice([0.0, 1.0, 1.0], (8, 3))
        ctx.state.idle[:, GPU] = rng.choice([0.0, 0.0, 0.0, 1.0, 2.0], 3)
        assert who_retakes(p, len(pending), ctx, search) == twin_who_retakes(p, len(pending), ctx, search)


@pytest.mark.parametrize(
    ("held", "asks", "idle", "expected"),
    [
        ([3.0, 0.0], 1.0, 0.0, 1),  # A is above its quota of 2, B below its own with a job that waits: it would
        ([2.0, 0.0], 1.0, 0.0, NULL),  # A is within its quota: it keeps what it gets
        ([3.0, 1.0], 2.0, 0.0, NULL),  # B has no quota for its job
        ([3.0, 0.0], 1.0, 1.0, NULL),  # its job has room as it is
        ([3.0, 0.0], 4.0, 0.0, NULL),  # its job would run nowhere
    ],
)
def test_worked_examples(held: list[float], asks: float, idle: float, expected: int) -> None:
    """Queues A and B with a quota of 2 GPUs each; B lost one; job 0 of A gets a GPU."""
    snapshot = assemble(
        [Member(1, [Status.PENDING]), Member(1, [Status.PENDING])],
        queue_table([NULL, NULL], quota=[[UNLIMITED, UNLIMITED, 2.0]] * 2),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, asks, 1.0, 0.0]],
        tasks={"cls": [0, 1]},
        jobs={"queue": [0, 1]},
    )
    snapshot = snapshot._replace(nodes=snapshot.nodes._replace(allocatable=np.array([[4.0, 8.0, 3.0, 9.0, 0.0]])))
    ctx, search = searching(snapshot)
    ctx.state.book.held[:-1, GPU], ctx.state.book.fair[:-1] = held, UNLIMITED
    search.queues.old_held[:, GPU] = [held[0] - 1, held[1] + 1]
    ctx.state.idle[0, GPU] = idle
    search.pending[0] = 0
    assert who_retakes(0, 1, ctx, search) == expected


@given(crowded(), st.data())
def test_the_last_chunk_of_the_queue_is_kept(snapshot: Snapshot, data: st.DataObject) -> None:
    """Chunks of one task each, of which some are chosen: one more of those below the queue, the last, until all are."""
    _, search = searching(snapshot)
    n_tasks = snapshot.tasks.job.size
    if n_tasks == 0:
        return
    search.lists.potential[:n_tasks] = range(n_tasks)
    search.lists.chunk_start[:n_tasks] = range(n_tasks)
    chosen = data.draw(st.lists(st.sampled_from(range(n_tasks)), unique=True))
    search.minimal.chosen[: len(chosen)], search.minimal.n_chosen[0] = chosen, len(chosen)
    q = data.draw(st.integers(0, snapshot.queues.parent.size - 1))
    below = [g for g in chosen if q in lineage(snapshot, int(snapshot.jobs.queue[snapshot.tasks.job[g]]))]
    for number in range(1, len(below) + 1):
        assert exclude_last_chunk(q, snapshot, search) == 1
        assert np.flatnonzero(search.minimal.kept).tolist() == sorted(below[-number:])
    assert exclude_last_chunk(q, snapshot, search) == 0
