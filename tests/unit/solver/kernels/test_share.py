"""Fair share (semantics 2.3 to 2.5): the division among siblings, its worked examples, and the whole tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Queues
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import share
from kai_sched.solver.stages.fair_share import divide
from kai_sched.solver.state import Division
from tests.oracle import fair_share as twin
from tests.oracle.fair_share import Claim
from tests.unit.solver.tables import UNLIMITED, empty_book, queue_tables

divide_tree = entry(share.divide_tree)


@dataclass
class Ask:
    """A queue of a worked example: (deserved, weight, request), as the semantics write them."""

    quota: float
    weight: float
    request: float
    limit: float = UNLIMITED
    priority: int = 100
    usage: float = 0.0


def shares(amount: float, asks: list[Ask], k_value: float = 1.0) -> list[float]:
    """The division by the kernel; the oldest queue first."""

    def column(name: str) -> Floats:
        return np.array([getattr(ask, name) for ask in asks], float)

    given = divide(
        amount,
        k_value,
        column("quota"),
        column("limit"),
        column("weight"),
        column("request"),
        column("usage"),
        np.array([ask.priority for ask in asks], np.int64),
        np.arange(len(asks)),
    )
    return given.tolist()


A_B_D = [Ask(0, 1, 10), Ask(0, 1, 10), Ask(0, 1, 10, priority=50)]


@pytest.mark.parametrize(
    ("amount", "asks", "expected"),
    [
        pytest.param(
            10, [Ask(2, 1, 10), Ask(2, 2, 10), Ask(0, 1, 1.5)], [3.5, 5, 1.5], id="weights, and the half to A"
        ),
        pytest.param(7, A_B_D, [3, 3, 1], id="what rounding takes away goes to the next priority"),
        pytest.param(4, [Ask(4, 1, 4), Ask(4, 1, 4)], [4, 4], id="quotas are granted over the capacity"),
        pytest.param(5, [Ask(0, 1, 2.6), Ask(0, 1, 10)], [3, 2], id="a remainder lifts above the request"),
        pytest.param(4, [Ask(0, 1, 9)] * 3, [2, 1, 1], id="the extra one goes to the oldest"),
        pytest.param(0.5, [Ask(0, 1, 9)] * 3, [0.5, 0, 0], id="half a device, all to the oldest"),
        pytest.param(6, [Ask(UNLIMITED, 1, 4), Ask(0, 1, 9)], [4, 2], id="unlimited quota: up to its request"),
        pytest.param(6, [Ask(0, 0, 9), Ask(0, 1, 2)], [0, 2], id="weight 0 gets nothing over quota"),
        pytest.param(6, [Ask(1, 1, 9, limit=2), Ask(0, 1, 9)], [2, 4], id="a limit caps"),
        pytest.param(6, [Ask(3, 1, 1), Ask(0, 1, 9)], [1, 5], id="a quota that is not asked for is lent"),
        # round 1: 3/7, 3/7, 6/7, 9/7, of which the last takes 1; round 2: 1/2, 1/2, 1, which leaves the 6/7 noted
        pytest.param(
            3, [Ask(0, 1, 30), Ask(0, 1, 30), Ask(0, 2, 30), Ask(0, 3, 1)], [0, 0, 2, 1], id="an older remainder stays"
        ),
    ],
)
def test_worked_divisions(amount: float, asks: list[Ask], expected: list[float]) -> None:
    assert shares(amount, asks) == expected


@pytest.mark.parametrize(
    ("usage", "k_value", "expected"),
    [((0.6, 0.1), 1.0, [3, 7]), ((0.6, 0.1), 0.0, [5, 5]), ((0.9, 0.0), 2.0, [0, 10]), ((0.9, 0.95), 2.0, [0, 0])],
)
def test_worked_divisions_with_usage(usage: tuple[float, float], k_value: float, expected: list[float]) -> None:
    """X = 10, equal weights, both ask for 10."""
    asks = [Ask(0, 1, 10, usage=usage[0]), Ask(0, 1, 10, usage=usage[1])]
    assert shares(10, asks, k_value) == pytest.approx(expected)


ASKS = st.builds(
    Ask,
    quota=st.sampled_from([0.0, 1.0, 2.0, 3.5, UNLIMITED]),
    weight=st.sampled_from([0.0, 1.0, 2.0, 3.0]),
    request=st.sampled_from([0.0, 1.0, 2.6, 5.0, 10.0, 100.0]),
    limit=st.sampled_from([0.0, 1.5, 4.0, UNLIMITED, UNLIMITED]),
    priority=st.sampled_from([50, 100]),
    usage=st.sampled_from([0.0, 0.25, 0.5]),
)


def claim_of(ask: Ask, age: int) -> Claim:
    quota, limit = (twin.UNLIMITED if value == UNLIMITED else value for value in (ask.quota, ask.limit))
    return Claim(quota, limit, ask.weight, ask.request, ask.priority, age, ask.usage)


AMOUNTS = st.sampled_from([0.0, 0.5, 3.0, 8.0, 17.0, 100.0])


@given(AMOUNTS, st.lists(ASKS, min_size=1, max_size=6), st.sampled_from([0.0, 1.0, 2.0]))
def test_divisions_are_those_of_the_twin(amount: float, asks: list[Ask], k_value: float) -> None:
    claims = [claim_of(ask, age) for age, ask in enumerate(asks)]
    assert shares(amount, asks, k_value) == pytest.approx(twin.divide(amount, claims, k_value), abs=1e-9)


@given(AMOUNTS, st.lists(ASKS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_queues_does_not_matter(amount: float, asks: list[Ask], random: object) -> None:
    """``rank`` says who is older, wherever a queue stands."""
    expected = shares(amount, asks)
    order = list(range(len(asks)))
    random.shuffle(order)  # type: ignore[attr-defined]
    moved = [asks[q] for q in order]

    def column(name: str) -> Floats:
        return np.array([getattr(ask, name) for ask in moved], float)

    names = ("quota", "limit", "weight", "request", "usage")
    priority = np.array([ask.priority for ask in moved], np.int64)
    given = divide(amount, 1.0, *(column(name) for name in names), priority, np.array(order))
    assert [float(given[order.index(q)]) for q in range(len(asks))] == expected


@given(queue_tables(), st.lists(st.sampled_from([0.0, 1.0, 3.0, 7.0]), min_size=24, max_size=24), AMOUNTS)
def test_the_tree_is_divided_from_above(queues: Queues, asked: list[float], amount: float) -> None:
    """Roots divide the cluster, children what their parent got; the allocatable share is that of semantics 2.5."""
    n_queues = queues.parent.size
    book = empty_book(n_queues)
    book.quota[:-1], book.limit[:-1] = queues.quota, queues.limit
    book.priority[:-1] = queues.priority
    book.asked[:-1] = np.reshape(asked, (8, 3))[:n_queues]
    book.share[-1] = amount
    work = Division(*np.zeros((len(Division._fields), n_queues)))
    divide_tree(queues, 1.0, book, book.asked, book.fair, book.share, work)
    for above in [NULL, *range(n_queues)]:
        siblings = [q for q in range(n_queues) if queues.parent[q] == above]
        for r in range(3):
            asks = [
                Ask(
                    queues.quota[q, r],
                    queues.weight[q, r],
                    book.asked[q, r],
                    queues.limit[q, r],
                    int(queues.priority[q]),
                )
                for q in siblings
            ]
            total = amount if above == NULL else book.fair[above, r]
            expected = twin.divide(total, [claim_of(ask, q) for q, ask in zip(siblings, asks, strict=True)])
            assert book.fair[siblings, r].tolist() == pytest.approx(expected, abs=1e-9)
            for q, ask in zip(siblings, asks, strict=True):
                claim = claim_of(ask, q)
                share = twin.allocatable_share(claim.quota, claim.limit, book.fair[q, r])
                assert book.share[q, r] == (UNLIMITED if share == twin.UNLIMITED else share)
    assert not any(np.isnan(column).any() for column in book)
