"""The division kernel against its twin, on sibling sets that round, tie and overflow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched.solver.stages.fair_share import divide
from tests.oracle.fair_share import UNLIMITED, Claim
from tests.oracle.fair_share import divide as divide_slowly

AMOUNTS = st.one_of(st.integers(0, 30).map(float), st.sampled_from([0.5, 2.5, 1e3, 1e9]), st.floats(0, 40))
QUOTAS = st.one_of(st.sampled_from([0.0, 0.0, 1.0, 2.0, UNLIMITED]), AMOUNTS)
LIMITS = st.one_of(st.just(UNLIMITED), AMOUNTS)
CLAIMS = st.builds(
    Claim,
    quota=QUOTAS,
    limit=LIMITS,
    weight=st.sampled_from([1.0, 1.0, 2.0, 3.0, 0.5, 0.0]),
    request=AMOUNTS,
    priority=st.sampled_from([100, 100, 50, 200]),
    usage=st.sampled_from([0.0, 0.0, 0.1, 0.3, 0.9]),
)
MORE = settings(max_examples=4 * settings().max_examples)


def by_kernel(total: float, k_value: float, claims: list[Claim]) -> list[float]:
    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        values = np.array([getattr(claim, name) for claim in claims], np.float64)
        return np.where(values == UNLIMITED, math.inf, values) if name in ("quota", "limit") else values

    priority = np.array([claim.priority for claim in claims], np.int64)
    rank = np.array([claim.age for claim in claims], np.int64)
    columns = [column(name) for name in ("quota", "limit", "weight", "request", "usage")]
    return divide(total, k_value, *columns, priority, rank).tolist()


@MORE
@given(AMOUNTS, st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.lists(CLAIMS, min_size=1, max_size=8), st.randoms())
def test_kernel_equals_its_twin(total: float, k_value: float, claims: list[Claim], rng: object) -> None:
    """The same share for every queue, whatever the order in which the queues are given."""
    ages = list(range(len(claims)))
    rng.shuffle(ages)  # type: ignore[attr-defined]
    for claim, age in zip(claims, ages, strict=True):
        claim.age = age
    assert by_kernel(total, k_value, claims) == divide_slowly(total, claims, k_value)


@given(AMOUNTS, st.lists(CLAIMS, min_size=1, max_size=8))
def test_no_more_than_there_is(total: float, claims: list[Claim]) -> None:
    """Beyond what quotas grant, no more than the amount is given out, and nobody gets less than its quota grants."""
    for age, claim in enumerate(claims):
        claim.age = age
    fair = by_kernel(total, 1.0, claims)
    granted = [min(total if c.quota == UNLIMITED else c.quota, c.requestable) for c in claims]
    assert sum(fair) <= max(total, sum(granted)) + 1e-6
    assert all(share >= least for share, least in zip(fair, granted, strict=True))


@pytest.mark.parametrize("n_queues", [0, 1])
def test_few_queues(n_queues: int) -> None:
    """No queue at all is a division too."""
    claims = [Claim(UNLIMITED, UNLIMITED, 1.0, 3.0)] * n_queues
    assert by_kernel(5.0, 1.0, claims) == [3.0] * n_queues
