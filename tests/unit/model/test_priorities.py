"""Priorities and what follows from them."""

from __future__ import annotations

import pytest

from kai_sched.model.objects import PodGroup, PriorityClass
from kai_sched.model.priorities import default_priority, is_preemptible

CLASSES = {"low": PriorityClass("low", 99), "high": PriorityClass("high", 100)}


@pytest.mark.parametrize(
    ("name", "explicit", "default", "preemptible"),
    [
        ("low", None, 500, True),
        ("high", None, 50, False),
        ("high", True, 50, True),
        ("low", False, 50, False),
        ("unknown", None, 99, True),
        ("", None, 100, False),
    ],
)
def test_the_group_decides_else_its_priority(name: str, explicit: bool | None, default: int, preemptible: bool) -> None:
    assert (
        is_preemptible(PodGroup("ml", "a", priority_class=name, preemptible=explicit), CLASSES, default) == preemptible
    )


def test_the_default_class_counts_first_by_name() -> None:
    assert default_priority(CLASSES) == 50
    defaults = {name: PriorityClass(name, value, global_default=True) for name, value in (("b", 7), ("a", 8))}
    assert default_priority(CLASSES | defaults) == 8
