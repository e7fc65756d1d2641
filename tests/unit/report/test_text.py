"""Names from outside, and amounts without a bound."""

from __future__ import annotations

import math

import pytest

from kai_sched.report.text import finite, plain


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


def test_unlimited_is_minus_one_as_in_the_api() -> None:
    assert [finite(value) for value in (math.inf, 0.0, 2.5)] == [-1.0, 0.0, 2.5]
