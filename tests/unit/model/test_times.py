"""Times and durations as Kubernetes writes them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.times import format_time, parse_duration, parse_time


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T12:00:00Z", 1_767_268_800 * 10**9),
        ("2026-01-01T14:00:00+02:00", 1_767_268_800 * 10**9),
        ("2026-01-01T07:30:00-04:30", 1_767_268_800 * 10**9),
        ("2026-01-01T12:00:00.000001Z", 1_767_268_800 * 10**9 + 1000),
        ("2026-01-01T12:00:00.1234567891Z", 1_767_268_800 * 10**9 + 123_456_789),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * 10**9),
    ],
)
def test_time(text: str, nanoseconds: int) -> None:
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-01-01",
        "2026-01-01T12:00:00",
        "2026-13-01T12:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "9999-01-01T00:00:00Z",
    ],
)
def test_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}'"):
        parse_time(text)


@given(st.datetimes(dt.datetime(1901, 1, 1), dt.datetime(2199, 1, 1), timezones=st.just(dt.UTC)))  # noqa: DTZ001
def test_time_agrees_with_the_standard_library(moment: dt.datetime) -> None:
    moment = moment.replace(microsecond=0)
    assert parse_time(moment.strftime("%Y-%m-%dT%H:%M:%SZ")) == int(moment.timestamp()) * 10**9


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("20s", 20),
        ("1h0m0s", 3600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("300ms", 0.3),
        ("2us", 2e-6),
        ("-1s", -1),
        ("+1m", 60),
    ],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 minutes", "m", "1d", "1s2", "1e3s", "s1", "300000000h"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_days_and_weeks_where_they_are_allowed() -> None:
    assert parse_duration("1w2d", long_units=True) == 9 * 86_400


@given(st.integers(0, 4_000_000_000))
def test_a_time_that_is_written_reads_the_same(seconds: int) -> None:
    assert parse_time(format_time(seconds * 10**9 + 999_999_999)) == seconds * 10**9
