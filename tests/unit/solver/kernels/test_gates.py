"""The capacity gates (semantics 3.4): limits at every level, then quotas for what cannot be preempted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import gates
from kai_sched.solver.state import Book
from tests.unit.solver.tables import UNLIMITED, empty_book, parents

pass_gates = entry(gates.pass_gates)

CHAIN = np.array([NULL, 0], np.int32)


def twin_gates(leaf: int, need: list[float], fixed: bool, above: list[int], book: Book) -> tuple[int, int, int]:
    """By the letter: all limits from the leaf up, then all quotas."""
    lineage = [leaf]
    while above[lineage[-1]] != NULL:
        lineage.append(above[lineage[-1]])
    for column, held, verdict, applies in (
        (book.limit, book.held, Verdict.OVER_LIMIT, True),
        (book.quota, book.held_fixed, Verdict.OVER_QUOTA, fixed),
    ):
        for q in lineage:
            for r in range(3):
                if applies and need[r] and column[q, r] < held[q, r] + need[r]:
                    return int(verdict), q, r
    return int(Verdict.OK), NULL, NULL


@given(parents(5), st.lists(st.sampled_from([0.0, 1.0, 2.0, 4.0, UNLIMITED]), min_size=60, max_size=60), st.data())
def test_gates_are_those_of_the_twin(above: list[int], values: list[float], data: st.DataObject) -> None:
    book = empty_book(len(above))
    bounds = np.reshape(values, (4, 5, 3))[:, : len(above)]
    for column, amounts in zip((book.limit, book.quota), bounds[:2], strict=True):
        column[:-1] = amounts
    for column, amounts in zip((book.held, book.held_fixed), bounds[2:], strict=True):
        column[:-1] = np.minimum(amounts, 2.0)
    need = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=3, max_size=3))
    leaf, fixed = data.draw(st.integers(0, len(above) - 1)), data.draw(st.booleans())
    found = pass_gates(leaf, np.array(need), fixed, np.array(above, np.int32), book)
    assert tuple(map(int, found)) == twin_gates(leaf, need, fixed, above, book)


@pytest.mark.parametrize(
    ("fixed", "need", "expected"),
    [
        (False, [0, 0, 2], (Verdict.OK, NULL)),  # exactly up to the limit
        (False, [0, 0, 3], (Verdict.OVER_LIMIT, 1)),  # the leaf's own limit is looked at before its parent's
        (False, [0, 0, 0], (Verdict.OK, NULL)),  # what is not asked for is not looked at
        (True, [0, 0, 1], (Verdict.OK, NULL)),  # exactly up to the quota of the parent
        (True, [0, 0, 2], (Verdict.OVER_QUOTA, 0)),  # only the parent's quota is too small
        (True, [0, 0, 3], (Verdict.OVER_LIMIT, 1)),  # limits come first
        (False, [1, 0, 0], (Verdict.OVER_LIMIT, 0)),  # over a limit of 0 on what nobody holds
    ],
)
def test_worked_gates(fixed: bool, need: list[float], expected: tuple[int, int]) -> None:
    """A leaf of 4 GPUs, 2 held, under a parent of 5 GPUs with quota 3, 2 held for non-preemptible jobs, and no CPU."""
    book = empty_book(2)
    book.limit[:2, :2] = book.quota[:2, :2] = UNLIMITED
    book.limit[0, 0] = 0.0
    book.limit[:2, GPU], book.quota[:2, GPU] = [5.0, 4.0], [3.0, 9.0]
    book.held[:2, GPU], book.held_fixed[:2, GPU] = 2.0, [2.0, 1.0]
    verdict, q, r = pass_gates(1, np.array(need, float), fixed, CHAIN, book)
    assert (verdict, q) == expected
    assert (r == NULL) == (verdict == Verdict.OK)
