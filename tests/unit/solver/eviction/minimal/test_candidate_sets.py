"""Which candidate sets are searched (semantics 4.5, step 1): worked examples."""

from __future__ import annotations

import pytest

from kai_sched.snapshot.tables import Action
from kai_sched.solver.eviction.minimal import candidate_sets
from kai_sched.solver.eviction.minimal.candidate_sets import ALL_VICTIMS, ALONE, TOGETHER
from kai_sched.solver.jit import entry
from tests.unit.solver.searches import MINIMAL

first_candidate_set = entry(candidate_sets.first_candidate_set)
last_candidate_set = entry(candidate_sets.last_candidate_set)
CONSOLIDATION, RECLAIM, PREEMPT = int(Action.CONSOLIDATION), int(Action.RECLAIM), int(Action.PREEMPT)


@pytest.mark.parametrize(
    ("action", "length", "need", "lacking", "moves", "sets"),
    [
        (PREEMPT, 1, 2.0, 2.0, 1, [ALL_VICTIMS]),
        (CONSOLIDATION, 1, 2.0, 0.0, 1, [ALL_VICTIMS]),
        (RECLAIM, 1, 2.0, 2.0, 1, [ALONE, TOGETHER]),  # no GPU is free to which somebody could move
        (RECLAIM, 1, 2.0, 1.0, 1, [ALONE, TOGETHER, ALL_VICTIMS]),
        (RECLAIM, 1, 2.0, 1.0, 0, [ALONE, TOGETHER]),  # nobody may move
        (RECLAIM, 3, 2.0, 1.0, 1, [TOGETHER, ALL_VICTIMS]),  # more than one pod
        (RECLAIM, 1, 2.0, 0.0, 1, [ALL_VICTIMS]),  # enough is free, in the wrong place
    ],
)
def test_candidate_sets(action: int, length: int, need: float, lacking: float, moves: int, sets: list[int]) -> None:
    settings = MINIMAL._replace(consolidating_reclaim=moves)
    first = first_candidate_set(action, length, lacking)
    last = last_candidate_set(action, (0.0, 0.0, need), lacking, settings)
    assert list(range(first, last + 1)) == sets
