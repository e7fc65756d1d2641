"""The steps of the proof by precedence, on tables made by hand and against slow twins.

That the whole of it never hides a scenario that would do is a property of its own (tests/properties/test_proofs.py).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.eviction.tables import JobOrder, Search
from tests.afresh import afresh
from tests.unit.solver.tables import ALL_ON, UNLIMITED, Member, assemble, node_table, opened, queue_table

precedence, shares = afresh("solver.eviction.original.precedence", "solver.eviction.rules.shares")
AMOUNT = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 6.0])
OWN, BESIDE = 0, 1


def two_leaves(n_jobs: int, **jobs: list[int]) -> tuple[Snapshot, Search]:
    """Jobs of one pod that asks for a GPU; by default half of them wait in either leaf."""
    one = [Member(1, statuses=[Status.PENDING]) for _ in range(n_jobs)]
    jobs = {"queue": [j % 2 for j in range(n_jobs)], **jobs}
    snapshot = assemble(one, queue_table([NULL, NULL]), jobs=jobs)
    return snapshot, make_search(snapshot)


@given(st.lists(AMOUNT, min_size=2, max_size=2), st.lists(AMOUNT, min_size=2, max_size=2), AMOUNT, st.data())
def test_who_may_lose_a_task(held: list[float], fair: list[float], lost: float, data: st.DataObject) -> None:
    """Whenever some loss of both siblings passes the second test of semantics 4.7, the answer is that it may."""
    smallest = data.draw(st.sampled_from([1.0, 2.0]))
    multiplier = data.draw(st.sampled_from([1.0, 2.0]))
    snapshot, search = two_leaves(1)
    search.pending[0] = 0
    ctx = opened(snapshot)._replace(settings=ALL_ON._replace(saturation=multiplier))
    for q in (OWN, BESIDE):
        ctx.state.book.held[q, GPU], ctx.state.book.fair[q, GPU] = held[q], fair[q]

    def ratio(amount: float, share: float) -> float:
        return amount / share if share else UNLIMITED if amount > 0 else 0.0

    def passes(taken: float, given_up: float) -> bool:
        mine = ratio(held[OWN] - given_up + 1.0, fair[OWN])
        theirs = ratio(held[BESIDE] - taken, fair[BESIDE])
        return mine <= 1 or fair[BESIDE] <= 0 or mine * multiplier < theirs

    taken = [smallest, smallest + 1, smallest + 2]
    possible = any(passes(x, y) for x in taken for y in np.arange(0.0, lost + 1.0))
    best = shares.stays_behind(OWN, held[OWN] - lost + 1.0, BESIDE, held[BESIDE] - smallest, GPU, ctx)
    assert best == possible


def build_queue_heaps(job_order: JobOrder, snapshot: Snapshot, asks: dict[int, float]) -> None:
    """These jobs wait, each in its leaf and in the order given, for so many GPUs; runs are not drawn together."""
    for j, gpus in asks.items():
        q = snapshot.jobs.queue[j]
        base = job_order.heap.base[q] + job_order.heap.end[q]
        job_order.jobs.listed[base] = j
        job_order.heap.end[q] += 1
        job_order.jobs.run_end[base] = job_order.heap.end[q]
        job_order.held[j] = [0.0, 0.0, gpus]
        assert job_order.heap.begin[q] == 0


@pytest.mark.parametrize(
    ("held", "asks", "priority", "last", "own_ask", "expected"),
    [
        (1.0, {0: 2.0}, {}, 1, 2.0, True),  # own would have 2 of 4, beside has 1 with all its victims back
        (2.0, {0: 2.0}, {}, 1, 2.0, False),  # as much, and at last who holds less goes first
        (2.0, {0: 3.0}, {}, 1, 3.0, True),
        (1.0, {0: 2.0, 1: 3.0}, {}, 3, 2.0, False),  # job 1 comes before the last victim, and asks for 3, one pod away
        (1.0, {0: 4.0, 1: 3.0}, {}, 3, 4.0, True),  # with which beside would have 3, and own 4
        (1.0, {0: 2.0, 1: 3.0}, {}, 1, 2.0, True),  # after the last victim it does not matter any more
        # what goes by age among equals goes by priority first
        (1.0, {0: 2.0, 1: 3.0}, {1: 40}, 3, 2.0, True),  # job 1 is older than the last victim, and yet comes after it
        (1.0, {0: 2.0, 3: 3.0}, {3: 60}, 1, 2.0, False),  # job 3 is newer, and yet comes before it
        (1.0, {0: 2.0}, {0: 40}, 1, 1.0, False),  # job 0 is older than the preemptor, and yet never asks before it
        (1.0, {4: 2.0}, {4: 60}, 1, 2.0, True),  # job 4 is newer, and yet does
        (1.0, {4: 2.0}, {}, 1, 1.0, False),
    ],
)
def test_who_comes_first(
    held: float, asks: dict[int, float], priority: dict[int, int], last: int, own_ask: float, expected: bool
) -> None:
    """Victims of leaf 0, the preemptor in leaf 1, which holds nothing. Shares are 4, quotas 0; victims have 1 GPU.

    Jobs have priority 50 unless it is given; the preemptor is job 2.
    """
    own, beside = 1, 0
    queues = [own, beside, own, beside, own]
    one = [Member(1, statuses=[Status.PENDING]) for _ in queues]
    request = [[0.0, 0.0, 1.0, 1.0, 0.0]]
    priorities = [priority.get(j, 50) for j in range(len(queues))]
    jobs = {"queue": queues, "priority": priorities}
    snapshot = assemble(one, queue_table([NULL, NULL]), request=request, jobs=jobs)
    search, ctx = make_search(snapshot), opened(snapshot)
    book = ctx.state.book
    for q in (own, beside):
        book.quota[q] = 0.0
        book.fair[q] = book.share[q] = [UNLIMITED, UNLIMITED, 4.0]
        book.held[q] = 0.0
    book.held[beside, GPU] = held
    build_queue_heaps(search.contenders, snapshot, asks)
    search.pending[0] = 2
    search.original.alike[0] = 1  # class 0
    search.original.last_victim[beside], search.original.fewest_pods[beside] = last + 1.0, 1.0
    precedence.ask_before(2, ctx.settings, snapshot, search)
    assert search.contenders.weights.request[own, GPU] == own_ask
    assert precedence.come_first(beside, own, ctx, search) == expected


@given(st.lists(st.tuples(st.sampled_from([40, 50, 60]), st.integers(1, 3)), min_size=1, max_size=5), st.data())
def test_the_last_of_a_leaf(victims: list[tuple[int, int]], data: st.DataObject) -> None:
    """In whatever order they are noted: it has the lowest priority, and is the newest of those."""
    snapshot, search = two_leaves(
        len(victims), queue=[0] * len(victims), priority=[priority for priority, _ in victims]
    )
    precedence.clear(search)
    for v in data.draw(st.permutations(range(len(victims)))):
        precedence.note_evictable_job(v, 0, victims[v][1], ALL_ON, snapshot.jobs.priority, search.original)
    last = min(range(len(victims)), key=lambda v: (victims[v][0], -v))
    assert search.original.last_victim[0] == last + 1
    assert search.original.fewest_pods[0] == min(pods for _, pods in victims)


@pytest.mark.parametrize(
    ("left", "leaves", "idle", "expected"),
    [
        (NULL, 0, 1.0, False),  # never moved
        (0, NULL, 0.0, False),  # what it left is full, and stays so
        (0, 0, 0.0, True),  # somebody leaves that node
        (0, NULL, 1.0, True),  # there is room on it as it is
        (0, 1, 0.0, False),  # somebody leaves another node
    ],
)
def test_who_has_two_homes(left: int, leaves: int, idle: float, expected: bool) -> None:
    snapshot = assemble(
        [Member(1, statuses=[Status.RUNNING])],
        nodes=node_table([[4.0, 8.0, 4.0, 9.0, 0.0]] * 2),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0]],
        tasks={"node": [1]},
    )
    state, search = opened(snapshot).state, make_search(snapshot)
    state.idle[0, GPU] = idle
    search.tasks.left_node[0] = left + 1
    search.counts.scenario_clock[0] = 7
    if leaves != NULL:
        search.nodes.scenario_mark[leaves] = 7
    assert precedence.has_two_homes(0, snapshot, state, search) == expected


@pytest.mark.parametrize(
    ("idle", "releasing", "expected"),
    [(0.0, 0.0, True), (1.0, 0.0, False), (0.0, 1.0, False), (1.0, -1.0, True), (0.0, -1.0, False)],
)
def test_a_full_cluster(idle: float, releasing: float, expected: bool) -> None:
    """No room now or later, and nothing overcommitted."""
    snapshot = assemble([Member(1, statuses=[Status.PENDING])], request=[[0.0, 0.0, 1.0, 1.0, 0.0]])
    opening = opened(snapshot)
    opening.state.idle[0, GPU], opening.state.releasing[0, GPU] = idle, releasing
    assert precedence.is_full(0, opening) == expected


@pytest.mark.parametrize(("held", "expected"), [([1.0, 4.0], True), ([2.0, 2.0], False), ([1.0, 5.0], False)])
def test_limits_that_hold_with_all_back(held: list[float], expected: bool) -> None:
    """Leaf 1 may hold 1 GPU, the queue above it 4."""
    snapshot = assemble([Member(1, statuses=[Status.PENDING])], queue_table([NULL, 0]), jobs={"queue": [1]})
    book = opened(snapshot).state.book
    book.held[1, GPU], book.held[0, GPU] = held
    book.limit[1, GPU], book.limit[0, GPU] = 1.0, 4.0
    assert precedence.keeps_limits(1, snapshot, book) == expected
