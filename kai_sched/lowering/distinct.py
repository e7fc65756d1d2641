"""The distinct values of a column of whole numbers, found without sorting where they are small."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kai_sched.snapshot.tables import Longs

# Tables have at most so many entries for each value of the column: tenants choose how far the values reach.
SPARE = 4
FEW = 1024


class Distinct(NamedTuple):
    """The distinct values of a column (n,).

    Attributes
    ----------
    values
        (D,) ascending.
    first
        (D,) where each of them is met first.
    inverse
        (n,) the place of each value of the column in ``values``.
    """

    values: Longs
    first: Longs
    inverse: Longs


def distinct(column: Longs, bound: int) -> Distinct:
    """The distinct values of the ``column`` (n,), all of which are at least 0 and below ``bound``."""
    if bound > SPARE * column.size + FEW:
        return Distinct(*np.unique(column, return_index=True, return_inverse=True))
    first_of = np.full(bound, column.size, np.int64)
    first_of[column[::-1]] = np.arange(column.size - 1, -1, -1)
    values = np.flatnonzero(first_of < column.size)
    place = np.empty(bound, np.int64)
    place[values] = np.arange(values.size)
    return Distinct(values, first_of[values], place[column])
