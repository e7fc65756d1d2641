"""Whether a request fits a node, against comparisons of whole arrays (semantics 0.3)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import fit

fits_later = entry(fit.fits_later)
AMOUNTS = st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=3, max_size=3)


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_all_amounts_have_to_fit(request: list[float], idle: list[float], releasing: list[float]) -> None:
    asked, now, later = np.array(request), np.array(idle), np.array(releasing)
    assert fit.fits_now(asked, now) == bool((asked <= now).all())
    assert fits_later(asked, now, later) == bool((asked <= now + later).all())


@pytest.mark.parametrize(
    ("idle", "releasing", "now", "later"),
    [
        ([2.0, 1.0], [0.0, 0.0], True, True),  # exactly as much
        ([1.0, 1.0], [1.0, 0.0], False, True),  # once somebody has left
        ([2.0, 1.0], [-1.0, 0.0], True, False),  # what is idle is promised
        ([2.0, -1.0], [0.0, 0.0], False, False),  # overcommitted, if only of what is not asked for
    ],
)
def test_worked_examples(idle: list[float], releasing: list[float], now: bool, later: bool) -> None:
    request = np.array([2.0, 0.0])
    assert fit.fits_now(request, np.array(idle)) == now
    assert fits_later(request, np.array(idle), np.array(releasing)) == later
