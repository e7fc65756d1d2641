"""Proofs that no victims help (semantics 4.6): against room and shares counted with all victims gone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Floats, Help, Snapshot, Status, TermKind, TermRole, TermRoles
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction import bounds
from kai_sched.solver.eviction.rules import losses
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims import potential as potential_victims
from kai_sched.solver.jit import entry
from kai_sched.solver.state import Context
from tests.unit.solver.neighbours import entries_of, refused
from tests.unit.solver.searches import ACTIVE, TAKES_ROOM, crowded, price, rows_of, searching
from tests.unit.solver.tables import UNLIMITED, Member, assemble, node_table, queue_table, table, term_table

keep_old_shares = entry(losses.keep_old_shares)
refute = entry(bounds.refute)
count_kinds = entry(potential_victims.count_kinds)

RECLAIM, PREEMPT = int(Action.RECLAIM), int(Action.PREEMPT)
NO_CEILING = 2**62


def literal_room(ctx: Context, c: int, gone: list[int], wanted: int) -> int:
    """For how many pods of a class there is room, one after the other on each node, but no more than are wanted there.

    Of those that keep each other out of a domain only one goes there; pods that are gone or leave keep nobody out.
    """
    snapshot, request, room = ctx.snapshot, ctx.snapshot.classes.request[c], 0
    entries, kind, state = entries_of(snapshot, c), snapshot.terms.kind, ctx.state.task
    stay = [t for t in range(state.status.size) if state.status[t] in TAKES_ROOM and t not in gone]
    staying = [(int(snapshot.tasks.cls[t]), int(state.node[t])) for t in stay]
    own = [
        a
        for role, a, _ in entries
        if role == TermRole.CARRY and kind[a] == TermKind.ANTI and (TermRole.MATCH, a, 1) in entries
    ]
    full: set[int] = set()
    for n in np.flatnonzero(ctx.finder.verdicts[0] == Verdict.OK):
        if refused(snapshot, c, n, staying):
            continue
        free = (ctx.state.idle + ctx.state.releasing)[n].copy()
        free += sum(snapshot.classes.request[snapshot.tasks.cls[t]] for t in gone if ctx.state.task.node[t] == n)
        count = 0
        while count < wanted and ((count + 1) * request <= free).all():
            count += 1
        domain = int(snapshot.terms.domain[own[0], n]) if own else NULL
        if domain != NULL:
            count = min(count, int(domain not in full))
            full |= {domain} if count else set()
        room += count
    return room


def possible_victims(ctx: Context, search: Search, ceiling: int) -> list[int]:
    jobs = np.flatnonzero((search.victims.jobs.skip == 0) & (ctx.snapshot.jobs.priority < ceiling))
    open_jobs = [j for j in jobs if search.queues.is_open[ctx.snapshot.jobs.queue[j]]]
    return [t for j in open_jobs for t in rows_of(ctx.snapshot, j) if ctx.state.task.status[t] in ACTIVE]


@given(crowded(tied=True), st.integers(0, 2**32))
def test_there_is_no_room_with_all_victims_gone(snapshot: Snapshot, seed: int) -> None:
    """Each class of pending pods by itself; only some leaves may lose pods, and only jobs below the ceiling."""
    rng = np.random.default_rng(seed)
    ctx, search = searching(snapshot)
    leaves = search.queues.is_open.copy()
    for p in range(snapshot.jobs.queue.size):
        pending = [t for t in rows_of(snapshot, p) if ctx.state.task.status[t] == Status.PENDING]
        if not pending:
            continue
        search.pending[: len(pending)], search.counts.pending[0] = pending, len(pending)
        search.queues.is_open[:] = leaves * rng.choice([0, 1, 1, 1], leaves.size)
        ceiling = int(rng.choice([60, 70, NO_CEILING]))
        search.counts.clock[0] += 1
        if search.victims.jobs.skip[p] == 0:
            search.victims.jobs.skip[p] = search.counts.clock[0]
        victims = possible_victims(ctx, search, ceiling)
        ctx.finder.seen[:] = NULL
        count_kinds(len(pending), ctx, search)
        classes = snapshot.tasks.cls[pending].tolist()
        rooms = {c: literal_room(ctx, c, victims, classes.count(c)) for c in classes}
        expected = int(Verdict.OK)
        if not victims:
            expected = int(Help.NO_VICTIMS)
        elif any(rooms[c] < classes.count(c) for c in classes):
            expected = int(Help.NO_ROOM)
        assert refute(PREEMPT, p, ceiling, ctx, search) == expected
        if search.victims.jobs.skip[p] == search.counts.clock[0]:
            search.victims.jobs.skip[p] = 0


ANTI_OF_ITS_OWN = [(TermRole.CARRY, 0, 1), (TermRole.MATCH, 0, 1)]


@pytest.mark.parametrize(
    ("entries", "matched", "carried", "ports", "room"),
    [
        ([], 1, 1, 1, 12),  # not tied to anything
        (ANTI_OF_ITS_OWN, 0, 0, 0, 5),  # one in the domain, and node 2 is in none
        ([(TermRole.CARRY, 0, 1)], 0, 1, 0, 12),  # they do not mind each other, nor those who mind others
        ([(TermRole.CARRY, 0, 1)], 1, 0, 0, 4),  # somebody is there whom they mind
        ([(TermRole.MATCH, 0, 1)], 0, 1, 0, 4),  # somebody is there who minds them
        ([(TermRole.MATCH, 0, 1)], 1, 0, 0, 12),
        ([(TermRole.MATCH, 1, 1), (TermRole.CARRY, 0, 1)], 0, 0, 0, 12),  # they match another term than they carry
        ([(TermRole.NEED, 1, 1), (TermRole.MATCH, 1, 1)], 0, 0, 0, 12),  # being near each other keeps nobody out
        ([(TermRole.PORT, 0, 1)], 0, 0, 1, 8),  # the port is taken on node 0
        ([(TermRole.PORT, 0, 1)], 0, 0, 0, 12),
    ],
)
def test_room_where_pods_are_tied(
    entries: list[tuple[int, int, int]], matched: int, carried: int, ports: int, room: int
) -> None:
    """Nodes 0 and 1 are one domain of term 0, anti-affinity; term 1 is affinity. A pod takes one of 4 GPUs."""
    terms = term_table([TermKind.ANTI, TermKind.REQUIRED], [[0, 0, NULL], [1, 1, 1]])
    term_roles = table(
        TermRoles, ptr=[0, len(entries), len(entries)], entry=np.reshape(entries, (-1, 3)), self_match=[1, 1]
    )
    for wanted, expected in ((room, Verdict.OK), (room + 1, Help.NO_ROOM)):
        snapshot = assemble(
            [Member(1, [Status.RUNNING]), Member(wanted, [Status.PENDING] * wanted)],
            nodes=node_table([[9.0, 9.0, 4.0, 9.0, 0.0]] * 3),
            request=[[0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.0]],
            ties=(terms, term_roles, 2, 2),
            tasks={"cls": [1, *[0] * wanted], "node": [0, *[NULL] * wanted]},
        )
        ctx, search = searching(snapshot)
        search.pending[:wanted], search.counts.pending[0] = range(1, wanted + 1), wanted
        count_kinds(wanted, ctx, search)
        ctx.state.domains.matched[0], ctx.state.domains.carried[0], ctx.state.ports[0, 0] = matched, carried, ports
        ctx.state.ports[1, 1] = 1  # another port
        assert refute(PREEMPT, 1, NO_CEILING, ctx, search) == expected


def most_that_shares_let_go(ctx: Context, sizes: dict[int, list[float]], need: Floats, own: int) -> float:
    """The most GPUs by the fair-share branch of 4.7: each leaf gives whole jobs while it is above its share."""
    most = 0.0
    for q, jobs in sizes.items():
        best = 0.0
        threshold = ctx.state.book.share[q, GPU]
        if (ctx.state.book.held[own] + need <= ctx.state.book.quota[own]).all():
            threshold = min(threshold, ctx.state.book.quota[q, GPU])
        for subset in range(2 ** len(jobs)):
            chosen = [size for at, size in enumerate(jobs) if subset >> at & 1]
            # the largest goes last: every one before it has to find the queue above its share
            before = sum(chosen) - max(chosen, default=0.0)
            if ctx.state.book.held[q, GPU] - before > threshold:
                best = max(best, sum(chosen))
        most += best
    return most


JOBS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2)), min_size=1, max_size=5)


@given(JOBS, st.integers(1, 4), st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=6, max_size=6))
def test_shares_never_let_more_go_than_the_bound(jobs: list[tuple[int, int]], asks: int, limits: list[float]) -> None:
    """Jobs of one pod run in two leaves beside the reclaimer's: what it lacks could not be got in any order."""
    total = sum(gpus for _, gpus in jobs)
    snapshot = assemble(
        [Member(asks, [Status.PENDING] * asks), *[Member(1, [Status.RUNNING]) for _ in jobs]],
        queue_table([NULL, NULL, NULL]),
        node_table([[9.0, 9.0, float(total), 99.0, 0.0]]),
        [[0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 2.0, 1.0, 0.0]],
        tasks={"cls": [0] * asks + [gpus - 1 for _, gpus in jobs], "node": [NULL] * asks + [0] * len(jobs)},
        jobs={"queue": [0, *[q for q, _ in jobs]]},
    )
    ctx, search = searching(snapshot)
    for column, values in ((ctx.state.book.share, limits[:3]), (ctx.state.book.quota, limits[3:])):
        column[:-1] = UNLIMITED
        column[:-1, GPU] = values
    begin(ctx, search)
    search.pending[:asks], search.counts.pending[0] = range(asks), asks
    count_kinds(asks, ctx, search)
    need = price(snapshot, list(range(asks)))
    sizes = {q: [float(gpus) for queue, gpus in jobs if queue == q] for q in (1, 2)}
    most = most_that_shares_let_go(ctx, sizes, need, 0)
    answer = refute(RECLAIM, 0, NO_CEILING, ctx, search)
    if asks > total:
        assert answer == Help.NO_ROOM
        return
    assert answer in (Verdict.OK, Help.SHARES)
    if answer == Help.SHARES:
        assert most < asks
    # all that is known of a leaf is what it has above its share and how large its largest job is
    excess = [ctx.state.book.held[q, GPU] - threshold_of(ctx, q, need) for q in (1, 2)]
    loose = sum(e + max(sizes[q]) for q, e in zip((1, 2), excess, strict=True) if sizes[q] and e > 0)
    assert (answer == Help.SHARES) == (loose <= asks)


def begin(ctx: Context, search: Search) -> None:
    """As a search does: what queues hold is noted, GPUs are scarce, and nobody is a victim for its own leaf."""
    keep_old_shares(ctx.state.book, search.queues)
    search.counts.scarce[:] = 1
    search.queues.is_open[0] = 0


def threshold_of(ctx: Context, q: int, need: Floats) -> float:
    book = ctx.state.book
    deserved = (book.held[0] + need <= book.quota[0]).all()
    return float(min(book.share[q, GPU], book.quota[q, GPU]) if deserved else book.share[q, GPU])


@pytest.mark.parametrize(("share", "expected"), [(1.0, Verdict.OK), (2.0, Help.SHARES)])
def test_a_queue_within_its_share_gives_nothing(share: float, expected: int) -> None:
    """It holds 2 GPUs, and the reclaimer asks for one."""
    snapshot = assemble(
        [Member(1, [Status.PENDING]), Member(1, [Status.RUNNING])],
        queue_table([NULL, NULL], quota=np.zeros((2, 3))),
        node_table([[9.0, 9.0, 2.0, 99.0, 0.0]]),
        [[0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 2.0, 1.0, 0.0]],
        tasks={"cls": [0, 1], "node": [NULL, 0]},
        jobs={"queue": [0, 1]},
    )
    ctx, search = searching(snapshot)
    ctx.state.book.share[:-1] = [UNLIMITED, UNLIMITED, share]
    begin(ctx, search)
    search.pending[0], search.counts.pending[0] = 0, 1
    count_kinds(1, ctx, search)
    assert refute(RECLAIM, 0, NO_CEILING, ctx, search) == expected
