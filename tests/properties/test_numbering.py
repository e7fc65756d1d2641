"""Columns of numbers in order, and their distinct values: as numpy finds them by sorting."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.lowering.distinct import FEW, distinct
from kai_sched.snapshot import sorting
from kai_sched.snapshot.sorting import in_order

LEAST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
# Close together, further apart than 16 bits reach, and as far apart as can be.
NUMBERS = st.one_of(st.integers(-2, 2), st.integers(-70_000, 70_000), st.sampled_from([LEAST, -1, 0, 1, LARGEST]))


@given(st.data(), st.integers(1, 3), st.integers(0, 20), st.sampled_from([0, sorting.FEW]))
def test_rows_are_in_the_order_of_lexsort(data: st.DataObject, n_columns: int, n_rows: int, few: int) -> None:
    """By 16 bits at a time, and as a whole where there are few."""
    drawn = data.draw(
        st.lists(st.lists(NUMBERS, min_size=n_rows, max_size=n_rows), min_size=n_columns, max_size=n_columns)
    )
    columns = [np.array(each, np.int64) for each in drawn]
    with mock.patch.object(sorting, "FEW", few):
        assert in_order(columns).tolist() == np.lexsort(columns).tolist()


@given(st.lists(st.integers(0, 30)), st.sampled_from([31, FEW, 10**12]))
def test_distinct_values_are_those_of_unique(drawn: list[int], bound: int) -> None:
    """With a table, and by sorting where the bound is far above the number of values."""
    column = np.array(drawn, np.int64)
    expected = np.unique(column, return_index=True, return_inverse=True)
    found = distinct(column, bound)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
