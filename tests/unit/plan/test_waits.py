"""What pods that have a place are told: who leaves it, or that nobody does."""

from __future__ import annotations

import pytest

from kai_sched.plan.effects import Evict, Pipeline
from kai_sched.plan.waits import moves, of_group, of_pod

A, B = Pipeline("ml/a", "", "n1"), Pipeline("ml/b", "", "n2")
TWO = {"n1": ("ml/x", "ml/y")}


@pytest.mark.parametrize(
    ("leaving", "moved", "text"),
    [
        (TWO, {}, "has a place on node n1 and waits until ml/x, ml/y have left it"),
        ({"n1": ("ml/x",)}, {}, "has a place on node n1 and waits until ml/x has left it"),
        (
            {"n2": ("ml/x",)},
            {},
            "has a place on node n1 and starts together with its group, which waits for node n2 (ml/x is leaving)",
        ),
        ({}, {}, "has a place on node n1, which no pod is leaving; the next cycle decides whether it is bound"),
        ({}, {"ml/a": "n3"}, "is moved from node n3 to node n1"),
        (TWO, {"ml/a": "n3"}, "is moved from node n3 to node n1 and waits until ml/x, ml/y have left it"),
        ({"n1": ("ml/a",)}, {"ml/a": "n1"}, "is moved from node n1 to node n1"),
    ],
)
def test_a_pod(leaving: dict[str, tuple[str, ...]], moved: dict[str, str], text: str) -> None:
    assert of_pod(A, [A, B], leaving, moved) == text


@pytest.mark.parametrize(
    ("leaving", "moved", "text"),
    [
        (
            {**TWO, "n2": ("ml/z",)},
            {},
            "waits for node n1 (ml/x, ml/y are leaving), node n2 (ml/z is leaving)",
        ),
        ({}, {}, "no pod is leaving n1, n2; the next cycle decides whether it is bound"),
        ({}, {"ml/a": "n3"}, "1 pod is moved to n1"),
        (
            TWO,
            {"ml/a": "n3", "ml/b": "n3"},
            "2 pods are moved to n1, n2; waits for node n1 (ml/x, ml/y are leaving)",
        ),
    ],
)
def test_a_group(leaving: dict[str, tuple[str, ...]], moved: dict[str, str], text: str) -> None:
    assert of_group([A, B], leaving, moved) == text


def test_moves_are_evictions_with_another_place() -> None:
    gone = Evict("ml/x", "", "n1", "reclaim", "ml/w", "ml/x", (), "", moved=False, sides=())
    moved = Evict("ml/y", "", "n2", "reclaim", "ml/w", "ml/y", (), "n3", moved=True, sides=())
    assert moves([A, gone, moved]) == {"ml/y": "n2"}
