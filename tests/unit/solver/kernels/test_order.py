"""The order of queues and of jobs (semantics 1.3, 2.6), step by step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import order
from tests.unit.solver.stands import AMOUNTS, SHARES, Stand, book_of, twin_before
from tests.unit.solver.tables import ALL_ON, UNLIMITED

job_before = entry(order.job_before)
queue_before = entry(order.queue_before)


def triples(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
    return st.lists(values, min_size=3, max_size=3)


# A search with `victims: original` may pay a queue back too often, so that it holds less than nothing.
HELD = st.one_of(AMOUNTS, st.just(-1.0))
STANDS = st.builds(
    Stand,
    triples(SHARES),
    triples(AMOUNTS),
    triples(SHARES),
    triples(HELD),
    triples(AMOUNTS),
    st.sampled_from([50, 100]),
)
TOTALS = triples(st.sampled_from([0.0, 4.0, 8.0]))


@given(st.lists(STANDS, min_size=2, max_size=3), TOTALS)
def test_queues_compare_by_the_eight_steps(stands: list[Stand], total: list[float]) -> None:
    """And of two different queues exactly one goes first."""
    book, extra = book_of(stands, total)
    for a in range(len(stands)):
        assert not queue_before(a, a, book, extra)
        for b in range(len(stands)):
            if a != b:
                assert queue_before(a, b, book, extra) == twin_before(stands, a, b, total)
                assert queue_before(a, b, book, extra) != queue_before(b, a, book, extra)


@given(st.lists(STANDS, min_size=3, max_size=3), TOTALS, SHARES)
def test_queue_order_is_transitive(stands: list[Stand], total: list[float], unlike: float) -> None:
    """As long as siblings' shares differ in one resource only; else step 7 can go in a candidates, see below."""
    for stand in stands:
        stand.share[:2] = [unlike, 4.0]
    book, extra = book_of(stands, total)
    before = [[bool(queue_before(a, b, book, extra)) for b in range(3)] for a in range(3)]
    for a, b, c in itertools.product(range(3), repeat=3):
        assert before[a][c] or not (before[a][b] and before[b][c])


def test_step_7_can_go_round_in_a_circle() -> None:
    """Shares that are smaller in one resource and larger in another say nothing: then the older queue goes first."""
    shares = [[2.0, 2.0, 4.0], [3.0, 1.0, 4.0], [1.0, 1.5, 4.0]]
    stands = [Stand([UNLIMITED] * 3, [4.0] * 3, share, [0.0] * 3, [0.0] * 3) for share in shares]
    book, extra = book_of(stands, [8.0] * 3)
    assert queue_before(0, 1, book, extra)
    assert queue_before(1, 2, book, extra)
    assert queue_before(2, 0, book, extra)


FREE = Stand([0.0] * 3, [9.0] * 3, [4.0] * 3, [0.0] * 3, [0.0] * 3)
GPU_ONLY = [UNLIMITED, UNLIMITED]


@pytest.mark.parametrize(
    ("older", "younger", "older_first"),
    [
        # the example of semantics 2.6: 4/4 against 3/4 of the share
        (
            Stand([*GPU_ONLY, 2], [9, 9, 4], [*GPU_ONLY, 4], [0, 0, 3], [0, 0, 1]),
            Stand([*GPU_ONLY, 2], [9, 9, 4], [*GPU_ONLY, 4], [0, 0, 1], [0, 0, 2]),
            False,
        ),
        # step 1: over the fair share in all three resources goes last, whatever its priority
        (Stand([9] * 3, [1] * 3, [9] * 3, [2] * 3, [0] * 3, 200), FREE, False),
        # ... in two of three is not over it
        (Stand([9] * 3, [1, 1, 2], [9] * 3, [2] * 3, [0] * 3, 200), FREE, True),
        # step 2: starved, its head job counted, before priority
        (
            Stand([0] * 3, [9] * 3, [9] * 3, [0] * 3, [0, 0, 1], 200),
            Stand([1] * 3, [9] * 3, [9] * 3, [0] * 3, [0, 0, 1]),
            False,
        ),
        # step 3: priority before how much is held
        (
            Stand([9] * 3, [9] * 3, [9] * 3, [0] * 3, [0] * 3, 50),
            Stand([9] * 3, [9] * 3, [9] * 3, [8] * 3, [0] * 3, 60),
            False,
        ),
        # step 4: something held or asked of a share of nothing
        (
            Stand([9] * 3, [9] * 3, [9, 9, 0], [0] * 3, [0, 0, 1]),
            Stand([9] * 3, [9] * 3, [9] * 3, [8] * 3, [0, 0, 1]),
            False,
        ),
        # step 6: equal with the head job, less held without it
        (Stand([9] * 3, [9] * 3, [4] * 3, [2] * 3, [0] * 3), Stand([9] * 3, [9] * 3, [4] * 3, [1] * 3, [1] * 3), False),
        # step 7: nothing held or asked, the smaller share
        (
            Stand([9] * 3, [9] * 3, [4] * 3, [0] * 3, [0] * 3),
            Stand([9] * 3, [9] * 3, [4, 4, 3], [0] * 3, [0] * 3),
            False,
        ),
        # step 8: the older
        (FREE, FREE, True),
    ],
)
def test_worked_comparisons(older: Stand, younger: Stand, older_first: bool) -> None:
    book, extra = book_of([older, younger], [10.0] * 3)
    assert queue_before(0, 1, book, extra) == older_first
    assert queue_before(1, 0, book, extra) == (not older_first)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6),
    st.integers(0, 1),
    st.integers(0, 1),
)
def test_jobs_go_by_priority_stage_and_age(facts: list[tuple[int, int]], by_priority: int, by_stage: int) -> None:
    """(priority, stage) of jobs, the older first; each of the two plugins can be off."""
    settings = ALL_ON._replace(priority_order=by_priority, elastic_order=by_stage)
    priority, stage = np.array([p for p, _ in facts]), np.array([s for _, s in facts], np.int32)
    keys = [(-p * by_priority, s * by_stage, j) for j, (p, s) in enumerate(facts)]
    for a in range(len(facts)):
        for b in range(len(facts)):
            assert job_before(a, b, settings, priority, stage) == (keys[a] < keys[b])
