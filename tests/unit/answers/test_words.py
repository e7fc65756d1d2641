"""Words for amounts, durations, times and lists of names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.answers.words import (
    SECOND_NS,
    alike,
    count,
    duration,
    exact,
    gpus,
    minute,
    number,
    pattern,
    since,
    some,
)


def test_counts_agree_with_their_noun() -> None:
    assert [count(each, "pod") for each in (0, 1, 12_000)] == ["0 pods", "1 pod", "12,000 pods"]
    assert [gpus(each) for each in (0.5, 1.0, 8.0)] == ["0.5 GPUs", "1 GPU", "8 GPUs"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (8.0, "8"), (100.0, "100"), (16 / 3, "5.33"), (0.25, "0.25"), (0.5, "0.5"), (math.inf, "unlimited")],
)
def test_numbers_have_two_decimals_at_most(value: float, shown: str) -> None:
    assert number(value) == shown


@given(st.floats(0, 1e18, allow_nan=False))
def test_an_exact_number_reads_back_as_itself(value: float) -> None:
    assert float(exact(value)) == value
    assert len(exact(value)) <= len(repr(value)) or value.is_integer()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (40, "40s"),
        (59.9, "59s"),
        (60, "1m"),
        (3_299, "54m"),
        (3_600, "1h"),
        (3_660, "1h 1m"),
        (41_700, "11h 35m"),
        (86_400, "1d"),
        (86_460, "1d"),
        (180_000, "2d 2h"),
        (-5, "0s"),
    ],
)
def test_durations_have_the_two_largest_units(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_how_long_ago_is_in_seconds_and_never_negative() -> None:
    now_ns = 1_800_000_000 * SECOND_NS
    assert since(now_ns - 90 * SECOND_NS, now_ns) == 90.0
    assert since(now_ns + SECOND_NS, now_ns) == 0.0


@pytest.mark.parametrize("begin_ns", [0, SECOND_NS])
def test_a_time_that_is_not_known_is_no_wait(begin_ns: int) -> None:
    """Workloads of files without any time count as created a second after the epoch."""
    assert since(begin_ns, 1_800_000_000 * SECOND_NS) == 0.0


def test_a_time_to_the_minute() -> None:
    assert minute(1_795_348_799 * SECOND_NS) == "2026-11-22 11:59 UTC"


def test_a_pattern_is_the_text_around_the_last_number() -> None:
    assert pattern("trial-2-004") == ("trial-2-", "")
    assert pattern("a1-b") == ("a", "-b")
    assert pattern("none") == ("none",)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a"], "a"),
        (["a", "a"], "a"),
        (["trial-7", "trial-7"], "trial-7"),
        (["trial-004", "trial-006", "trial-005", "trial-007"], "trial-{004..007}"),
        (["trial-8", "trial-10", "trial-9"], "trial-{8..10}"),
        (["trial-1", "trial-5"], "trial-{1,5}"),
        (["ip-1.internal", "ip-2.internal"], "ip-{1..2}.internal"),
        (["a", "b"], "a, b"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
        ([f"t-{7 * each}" for each in range(30)], "t-0, t-7, t-14 and 27 more"),
    ],
)
def test_names_that_differ_in_a_number_are_told_as_one(names: list[str], shown: str) -> None:
    assert alike(names) == shown


def test_the_first_names_and_how_many_more() -> None:
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some(["a", "b", "c"], 1) == "a and 2 more"
    assert some([]) == ""
