"""Rows that come, go and change their place are in the order that sorting all of them would give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.lowering import cached_rows
from kai_sched.lowering.cached_rows import RowTable

KEYS = [f"k{number}" for number in range(60)]
FAR = 9  # stands for a time that no row can hold
# None: removed; a number: put with this sort key, which others may have, too.
STEPS = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 9)), max_size=40), max_size=8
)


@pytest.mark.parametrize("laid_out", [0, cached_rows.LAID_OUT], ids=["moved", "strewn"])
@given(STEPS)
def test_the_order_is_that_of_the_sort_keys(laid_out: int, steps: list[dict[str, int | None]]) -> None:
    """Looked at after some of the steps only, so that what came may be gone or changed before that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_rows, "LAID_OUT", laid_out)
        play(steps)


def play(steps: list[dict[str, int | None]]) -> None:
    table, known = RowTable(1), dict[str, int]()
    for number, step in enumerate(steps):
        table.remove([key for key, order in step.items() if order is None])
        came = {key: f"{key} of {order}" for key, order in step.items() if order is not None}
        orders = [order for order in step.values() if order is not None]
        sort_keys = [(order if order < FAR else 2**70, key) for order, key in zip(orders, came, strict=True)]
        table.put(came, sort_keys, np.array([orders], np.int64))
        known |= {key: order for key, order in step.items() if order is not None}
        for key, order in step.items():
            if order is None:
                known.pop(key, None)
        if number % 3 == 2:
            continue
        expected = [f"{key} of {order}" for order, key in sorted((order, key) for key, order in known.items())]
        rows = table.ordered()
        assert table.objects[rows].tolist() == expected
        assert table.cells[0, rows].tolist() == sorted(known.values())
        assert len(table) == len(known)
