"""Cron expressions against a twin that looks at every minute, and what is refused."""

from __future__ import annotations

import contextlib
import random
import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.cron import parse_cron

FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def last(expression: str, now: str) -> str:
    return datetime.fromtimestamp(parse_cron(expression).last_s(at(now)), UTC).isoformat()[:16]


@pytest.mark.parametrize(
    ("expression", "now", "fired"),
    [
        ("* * * * *", "2026-01-07T12:34:56", "2026-01-07T12:34"),
        ("0 0 * * 1", "2026-01-07T12:34:56", "2026-01-05T00:00"),  # a Monday
        ("0 0 * * MON", "2026-01-05T00:00:00", "2026-01-05T00:00"),
        ("0 0 * * 7", "2026-01-07T12:34:56", "2026-01-04T00:00"),
        ("0 0 * * 5-7", "2026-01-07T12:34:56", "2026-01-04T00:00"),
        ("0 6 1 * *", "2026-01-01T05:59:59", "2025-12-01T06:00"),
        ("0 6 1 * *", "2026-01-01T06:00:00", "2026-01-01T06:00"),
        ("*/15 9-17 * * mon-fri", "2026-01-05T08:00:00", "2026-01-02T17:45"),
        ("10/20 0 * * *", "2026-01-05T00:49:00", "2026-01-05T00:30"),
        ("0 0 31 * *", "2026-03-30T12:00:00", "2026-01-31T00:00"),
        ("0 0 29 2 *", "2103-12-31T00:00:00", "2096-02-29T00:00"),
        ("0 0 1 1,jul ?", "2026-06-30T00:00:00", "2026-01-01T00:00"),
        # Either day is enough where both are restricted; a step of a star restricts.
        ("0 0 13 * 5", "2026-01-12T00:00:00", "2026-01-09T00:00"),
        ("0 0 13 * 5", "2026-01-14T00:00:00", "2026-01-13T00:00"),
        ("0 0 */2 * 1", "2026-01-06T00:00:00", "2026-01-05T00:00"),
        ("@monthly", "2026-01-20T00:00:00", "2026-01-01T00:00"),
        ("@weekly", "2026-01-07T00:00:00", "2026-01-04T00:00"),
        ("@Yearly", "2026-01-07T00:00:00", "2026-01-01T00:00"),
        ("@hourly", "1969-12-31T23:30:00", "1969-12-31T23:00"),
    ],
)
def test_when_it_last_fired(expression: str, now: str, fired: str) -> None:
    assert last(expression, now) == fired


@pytest.mark.parametrize(
    ("expression", "hours"),
    [("* * * * *", 1 / 60), ("0 9,17 * * *", 16), ("0 0 * * 1", 168), ("@monthly", 31 * 24), ("0 0 29 2 *", 2921 * 24)],
)
def test_how_long_it_rests(expression: str, hours: float) -> None:
    assert parse_cron(expression).longest_s() == hours * 3600


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "has 0 fields instead of 5"),
        ("0 0 * *", "has 4 fields instead of 5: write minute, hour"),
        ("0 0 0 * * *", "has 6 fields"),
        ("60 * * * *", "'60' is no minute: give a number from 0 to 59"),
        ("0 0 0 * *", "'0' is no day of the month: give a number from 1 to 31"),
        ("0 0 * foo *", "'foo' is no month: give a number from 1 to 12 or one of jan, feb"),
        ("0 0 * * 8", "'8' is no day of the week"),
        ("*/0 * * * *", "in steps from 1"),
        ("5-1 * * * *", "begin with the smaller value"),
        ("1,,2 * * * *", "'' is no minute"),
        ("٣ * * * *", "is no minute"),
        ("0 0 L * *", "'L' is no day of the month"),
        ("0 0 30 2 *", "never fires"),
        ("@every 1h", "give windowType tumbling"),
        ("CRON_TZ=Asia/Tokyo 0 0 * * *", "leave it out, as all times are in UTC"),
        ("1," * 200 + "1 * * * *", "longer than 256 characters"),
    ],
)
def test_what_is_refused_says_the_remedy(expression: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_cron(expression)


@given(st.text("0123456789*/-,? @monfebTZ=", max_size=300))
def test_any_text_is_answered_soon(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ValueError):
        assert parse_cron(text).last_s(at("2026-01-05T00:00:00")) <= at("2026-01-05T00:00:00")
    assert time.process_time() - began < 1.0


def field(rng: random.Random, least: int, most: int) -> tuple[str, set[int], bool]:
    """A field, what it matches, and whether it is a mere star."""
    kind = rng.choice("**vrs")
    if kind == "*":
        return "*", set(range(least, most + 1)), True
    if kind == "s":
        step = rng.randint(2, 5)
        return f"*/{step}", set(range(least, most + 1, step)), False
    a, b = sorted((rng.randint(least, most), rng.randint(least, most)))
    return (f"{a}", {a}, False) if kind == "v" else (f"{a}-{b}", set(range(a, b + 1)), False)


@given(st.integers(0, 2**32))
def test_as_a_walk_over_the_minutes_has_it(seed: int) -> None:
    rng = random.Random(seed)
    parts = [field(rng, *limits) for limits in FIELDS]
    (_, minutes, _), (_, hours, _), (_, days, any_day), (_, months, _), (_, weekdays, any_weekday) = parts
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(527_000))

    def fires(when: datetime) -> bool:
        by_month, by_week = when.day in days, when.isoweekday() % 7 in weekdays
        day = by_month or by_week if not any_day and not any_weekday else by_month and by_week
        return day and when.month in months and when.hour in hours and when.minute in minutes

    expression = " ".join(text for text, _, _ in parts)
    lengths = {month: 31 - (month in (4, 6, 9, 11)) - 2 * (month == 2) for month in months}
    if not any(day <= length for day in days for length in lengths.values()) and any_weekday:
        with pytest.raises(ValueError, match="never fires"):
            parse_cron(expression)
        return
    found = parse_cron(expression).last_s(now.timestamp() + 59)
    assert fires(datetime.fromtimestamp(found, UTC))
    moment = now
    while moment.timestamp() > max(found, now.timestamp() - 40 * 86_400):
        assert not fires(moment), f"{expression} fires at {moment}"
        moment -= timedelta(minutes=1)
