"""Tables are handed to compiled kernels by reference: each field of each type arrives as it is in Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Flags, Floats, Ints, Longs
from kai_sched.solver.jit import inner, kernel


class Leaves(NamedTuple):
    floats: Floats  # (n, m), maybe a view with gaps
    flags: Flags  # (n,), read-only
    ints: Ints  # (n,)


class Numbers(NamedTuple):
    whole: int
    part: float


class Trunk(NamedTuple):
    numbers: Numbers
    leaves: Leaves
    sums: Longs
    more: int


# Named tuples of the package alone are by reference; these are of the tests.
for each in (Leaves, Numbers, Trunk):
    each.__module__ = "kai_sched.tests"


@inner
def add_up(trunk: Trunk, row: int) -> float:
    total = 0.0
    for column in range(trunk.leaves.floats.shape[1]):
        total += trunk.leaves.floats[row, column]
    return total * trunk.numbers.part


@kernel
def read_all(trunk: Trunk, out: Floats) -> int:
    """Read every field after writes to arrays, which must not change what is known of the tables."""
    leaves, count = trunk.leaves, 0
    for row in range(leaves.flags.shape[0]):
        out[row] = add_up(trunk, row)
        trunk.sums[0] += leaves.ints[row]
        leaves.floats[row, 0] = -out[row]
        count += int(leaves.flags[row]) * trunk.numbers.whole
    return count + trunk.more + leaves.floats.size


def make(n: int, m: int, step: int) -> Trunk:
    block = np.arange(float(n * m * step)).reshape(n, m * step)
    flags = (np.arange(n) % 3).astype(np.uint8)
    flags.flags.writeable = False
    leaves = Leaves(block[:, ::step], flags, np.arange(n, dtype=np.int32) - 2)
    return Trunk(Numbers(-(2**40), 0.5), leaves, np.zeros(1, np.int64), 7)


@given(st.integers(0, 5), st.integers(1, 4), st.integers(1, 3))
def test_every_field_arrives(n: int, m: int, step: int) -> None:
    trunk, out = make(n, m, step), np.zeros(n)
    before = trunk.leaves.floats.copy()
    assert read_all(trunk, out) == int(trunk.leaves.flags.sum()) * -(2**40) + 7 + n * m
    assert out.tolist() == (before.sum(axis=1) * 0.5).tolist()
    assert trunk.leaves.floats[:, 0].tolist() == (-out).tolist()
    assert trunk.sums[0] == sum(range(-2, n - 2))
