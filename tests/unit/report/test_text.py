"""Amounts in words, and names from outside."""

from __future__ import annotations

import math

import pytest

from kai_sched.report.text import amount, count, finite, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("team-a", "team-a"),
        ("Ünïcode 数据", "Ünïcode 数据"),
        ("[bold red]x[/]", "[bold red]x[/]"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("left\u202eright", "left\\u202eright"),
        ("lone \udc80", "lone \\udc80"),
        ("line\u2028end", "line\\u2028end"),
    ],
)
def test_signs_that_a_terminal_acts_on_are_shown_and_all_others_left_alone(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("resource", "value", "shown"),
    [
        ("cpu", 1500.0, "1.5"),
        ("memory", 64e9, "64"),
        ("gpu", 16 / 3, "5.333"),
        ("gpu", math.inf, "unlimited"),
        ("gpu", -1e-12, "0"),
    ],
)
def test_amounts_are_in_the_units_of_people(resource: str, value: float, shown: str) -> None:
    assert amount(resource, value) == shown


def test_counts_agree_with_their_noun() -> None:
    assert [count(number, "pod") for number in (0, 1, 12_000)] == ["0 pods", "1 pod", "12,000 pods"]


def test_unlimited_is_minus_one_as_in_the_api() -> None:
    assert [finite(value) for value in (math.inf, 0.0, 2.5)] == [-1.0, 0.0, 2.5]
