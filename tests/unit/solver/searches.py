"""Crowded clusters, searches for victims on them, and books counted from scratch, for the tests of solver.eviction."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Nodes, Queues, Settings, Snapshot, Status
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims import candidates
from kai_sched.solver.jit import entry
from kai_sched.solver.log_size import make_log
from kai_sched.solver.state import Context
from tests.unit.solver.tables import (
    ALL_ON,
    UNLIMITED,
    Member,
    assemble,
    bond_tables,
    members,
    node_table,
    opened,
    queue_table,
    term_tables,
)

list_candidates = entry(candidates.list_candidates)

MINIMAL = ALL_ON._replace(minimal=1)
REQUESTS = [[1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 2.0, 1.0, 0.0], [2.0, 0.0, 0.0, 1.0, 0.0]]
ACTIVE = range(Status.PIPELINED, Status.RELEASING)
TAKES_ROOM = {*ACTIVE, Status.STUCK_IN_RELEASING}
RUNS = (Status.RUNNING, Status.RUNNING, Status.BOUND, Status.RELEASING)


@st.composite
def leaves_of_two_levels(draw: st.DrawFn) -> Queues:
    """One or two root queues with one to three leaves each, with quotas and limits on GPUs."""
    above = [NULL] * draw(st.integers(1, 2))
    for root in range(len(above)):
        above += [root] * draw(st.integers(1, 3))
    quota, limit = np.full((2, len(above), 3), UNLIMITED)
    quota[:, 2] = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 4.0]), min_size=len(above), max_size=len(above)))
    limit[:, 2] = draw(st.lists(st.sampled_from([3.0, UNLIMITED, UNLIMITED]), min_size=len(above), max_size=len(above)))
    return queue_table(above, quota=quota, limit=limit)


@st.composite
def crowded(
    draw: st.DrawFn,
    queues: st.SearchStrategy[Queues] | None = None,
    roots: st.SearchStrategy[Member] | None = None,
    tied: bool = False,
    most_jobs: int = 6,
) -> Snapshot:
    """Running and pending jobs on a few nodes, each pod where there is room for it."""
    table_of_queues = draw(leaves_of_two_levels() if queues is None else queues)
    leaves = np.flatnonzero(np.diff(table_of_queues.child_ptr)[:-1] == 0).tolist()
    sizes = draw(st.lists(st.sampled_from([2.0, 4.0]), min_size=1, max_size=4))
    nodes = node_table([[4.0, 8.0, gpus, 9.0, 0.0] for gpus in sizes])
    jobs = draw(st.lists(members(depth=1, most=2) if roots is None else roots, min_size=1, max_size=most_jobs))
    columns = {
        "queue": [draw(st.sampled_from(leaves)) for _ in jobs],
        "priority": [draw(st.sampled_from([50, 50, 60, 70])) for _ in jobs],
        "preemptible": [draw(st.sampled_from([1, 1, 1, 0])) for _ in jobs],
    }
    tasks = settle(draw, [copied(job) for job in jobs], jobs := [], nodes)
    ties = None
    if tied:
        terms, n_domains = draw(term_tables(len(sizes)))
        ties = (terms, draw(bond_tables(len(REQUESTS), terms.kind.tolist(), 1)), n_domains, 1)
    return assemble(jobs, table_of_queues, nodes, REQUESTS, ties, tasks=tasks, jobs=columns)


def copied(member: Member) -> Member:
    """The same tree in new lists."""
    below = None if member.members is None else [copied(each) for each in member.members]
    return Member(member.minimum, None if member.statuses is None else list(member.statuses), below)


def settle(draw: st.DrawFn, roots: list[Member], settled: list[Member], nodes: Nodes) -> dict[str, Any]:
    """Put the pods that run on nodes that have room for them, others wait; fills ``settled`` with the jobs."""
    free = nodes.allocatable.copy()
    cls: list[int] = []
    node: list[int] = []
    for root in roots:
        rows = [root]
        for each in rows:
            rows += each.members or []
        for pod_set in (each for each in rows if each.statuses is not None):
            c = draw(st.integers(0, len(REQUESTS) - 1))
            for place, status in enumerate(pod_set.statuses or []):
                n = draw(st.integers(0, len(free) - 1)) if status >= Status.PIPELINED else NULL
                if n != NULL and not (np.array(REQUESTS[c]) <= free[n]).all():
                    n, (pod_set.statuses or [])[place] = NULL, Status.PENDING
                if n != NULL:
                    free[n] -= REQUESTS[c]
                cls.append(c)
                node.append(n)
        settled.append(root)
    return {"cls": cls, "node": node}


def searching(snapshot: Snapshot, settings: Settings = MINIMAL) -> tuple[Context, Search]:
    """The opened books with a log for a search, and the search with all candidates listed and all leaves open."""
    ctx = opened(snapshot, settings)._replace(log=make_log(snapshot, evicting=True))
    search = make_search(snapshot)
    list_candidates(ctx, search)
    search.counts.clock[0] = 1
    search.queues.is_open[:] = np.diff(snapshot.queues.child_ptr)[:-1] == 0
    return ctx, search


def bits(ctx: Context) -> tuple[bytes, bytes]:
    """All of the state."""
    return ctx.state.floats.tobytes(), ctx.state.integers.tobytes()


def content(search: Search) -> list[bytes]:
    """All of the search."""
    found: list[bytes] = []

    def walk(value: Any) -> None:
        if isinstance(value, tuple):
            for each in value:
                walk(each)
        elif isinstance(value, np.ndarray):
            found.append(value.tobytes())

    walk(search)
    return found


def rows_of(snapshot: Snapshot, j: int) -> range:
    """The tasks of job ``j``."""
    return range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1])


def lineage(snapshot: Snapshot, q: int) -> list[int]:
    """The queue and all above it."""
    return [] if q == NULL else [q, *lineage(snapshot, int(snapshot.queues.parent[q]))]


def price(snapshot: Snapshot, tasks: list[int]) -> Floats:
    """What these tasks are charged for, (3,)."""
    return np.array([snapshot.classes.quota[snapshot.tasks.cls[t]] for t in tasks]).reshape(-1, 3).sum(axis=0)


def count_room(ctx: Context) -> Floats:
    """Idle and releasing together, (N, R), from where each task stands (0.3)."""
    snapshot, state = ctx.snapshot, ctx.state
    room: Floats = snapshot.nodes.allocatable - 0.0
    for t, (status, n) in enumerate(zip(state.task.status, state.task.node, strict=True)):
        if n != NULL and status in TAKES_ROOM:
            room[n] -= np.where(room_is_tracked(snapshot, n), snapshot.classes.request[snapshot.tasks.cls[t]], 0.0)
    return room


def room_is_tracked(snapshot: Snapshot, n: int) -> Any:
    """By resource, whether the node has any."""
    return snapshot.nodes.allocatable[n] > 0.0


def count_held(ctx: Context, fixed: bool = False) -> Floats:
    """What each queue holds, (Q, 3), from where each task stands (2.2); ``fixed``: for non-preemptible jobs alone."""
    snapshot, state = ctx.snapshot, ctx.state
    held = np.zeros((snapshot.queues.parent.size, 3))
    for t, j in enumerate(snapshot.tasks.job):
        if j != NULL and state.task.status[t] in ACTIVE and not (fixed and snapshot.jobs.preemptible[j]):
            for q in lineage(snapshot, int(snapshot.jobs.queue[j])):
                held[q] += price(snapshot, [t])
    return held


def count_sets(ctx: Context) -> list[list[int]]:
    """By set: active, pending (evicted ones may be placed again), and waiting tasks."""
    snapshot, state = ctx.snapshot, ctx.state
    counts = np.zeros((3, snapshot.sets.parent.size), int)
    for t, s in enumerate(snapshot.tasks.set):
        if s != NULL:
            status = state.task.status[t]
            counts[:, s] += [status in ACTIVE, status in (Status.PENDING, Status.EVICTED), status == Status.PIPELINED]
    return [row.tolist() for row in counts]


def check_books(ctx: Context) -> None:
    """What was booked step by step is what is counted from scratch."""
    state = ctx.state
    np.testing.assert_array_equal(state.idle + state.releasing, count_room(ctx))
    np.testing.assert_array_equal(state.book.held[:-1], count_held(ctx))
    np.testing.assert_array_equal(state.book.held_fixed[:-1], count_held(ctx, fixed=True))
    assert [column.tolist() for column in state.sets[:3]] == count_sets(ctx)
