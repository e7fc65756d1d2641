"""Rows that come, go and change their place are in the order that sorting all of them would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.lowering.cached_rows import Entry, RowTable

KEYS = [f"k{number}" for number in range(60)]
# None: removed; a number: put with this sort key, which others may have, too.
STEPS = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 9)), max_size=40), max_size=8
)


def entry(key: str, order: int) -> Entry:
    return key, (order, key), f"{key} of {order}", (order,)


@given(STEPS)
def test_the_order_is_that_of_the_sort_keys(steps: list[dict[str, int | None]]) -> None:
    """Looked at after some of the steps only, so that what came may be gone or changed before that."""
    table, known = RowTable(1), dict[str, int]()
    for number, step in enumerate(steps):
        table.remove([key for key, order in step.items() if order is None])
        table.put([entry(key, order) for key, order in step.items() if order is not None])
        known |= {key: order for key, order in step.items() if order is not None}
        for key, order in step.items():
            if order is None:
                known.pop(key, None)
        if number % 3 == 2:
            continue
        expected = [f"{key} of {order}" for order, key in sorted((order, key) for key, order in known.items())]
        rows = table.ordered()
        assert table.objects[rows].tolist() == expected
        assert table.cells[rows, 0].tolist() == sorted(known.values())
        assert len(table) == len(known)
