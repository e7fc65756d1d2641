"""Jobs in steps, gangs that finish and pods that are resized, all their life (semantics 0.2 to 0.4, API 4.10)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.lifecycles import CORES, GPUS, Life

DISTURBED = 8  # cycles in which pods succeed, are lost and are resized at random
MOST = 80  # cycles until all jobs are complete at the latest: a step needs few, and there are twelve at the most
SEEDS = st.integers(0, 2**32)
MORE = settings(max_examples=2 * settings().max_examples)


def check(seed: int) -> None:
    """No node holds too much because of a bind, and every job is complete in the end: nothing waits for ever."""
    life = Life(seed)
    for _ in range(DISTURBED):
        turn(life)
        life.disturb()
    for _ in range(MOST):
        if all(step.is_complete for job_set in life.sets for step in job_set.steps):
            return
        turn(life)
        for run in life.runs.values():
            if run.node and not run.has_succeeded:
                life.succeed(run)
    pytest.fail(f"these wait for ever: {[step for each in life.sets for step in each.steps if not step.is_complete]}")


def turn(life: Life) -> None:
    life.create()
    for node in life.schedule():
        there = [run for run in life.runs.values() if run.node == node and not run.has_succeeded]
        assert len(there) <= GPUS, f"{node} has too many pods"
        assert sum(run.held for run in there) <= CORES, f"{node} holds too many cores: {there}"


@MORE
@given(SEEDS)
def test_all_that_is_to_hold(seed: int) -> None:
    """Over the whole life of a few JobSets."""
    check(seed)


@pytest.mark.long
@settings(max_examples=3000)
@given(SEEDS)
def test_all_that_is_to_hold_of_3000(seed: int) -> None:
    """The same for so many."""
    check(seed)
