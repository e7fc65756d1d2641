"""Times and durations as texts: RFC 3339 and Go durations, which range is supported, and how they are written."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache

from kai_sched.api.custom import DURATION_LENGTH, DURATION_MAX_H
from kai_sched.model.field_errors import shown

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,18}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECOND_NS = 10**9
# Nanoseconds since the epoch fill 64 bits in 2262: what is added to a time here (at most DURATION_MAX_S) fits, too.
_FIRST_YEAR, _LAST_YEAR = 1900, 2200
_TIME_LENGTH = 64

_DURATION = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h|d|w))+|0)", re.ASCII)
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)", re.ASCII)
_UNITS_S = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
    "w": Fraction(604800),
}
_LONG_UNITS = frozenset("dw")
_GO_MAX_S = Fraction(2**63 - 1, 10**9)
DURATION_MAX_S = DURATION_MAX_H * 3600


class TooFar(ValueError):
    """A time is out of the supported range; ``nearest_ns`` is the nearest supported time."""

    def __init__(self, message: str, nearest_ns: int) -> None:
        super().__init__(message)
        self.nearest_ns = nearest_ns


@lru_cache(maxsize=8192)
def parse_time(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 text such as "2026-01-01T12:00:00Z".

    Raises ValueError, and TooFar for years before 1900 or after 2200.
    """
    found = _TIME.fullmatch(text) if len(text) <= _TIME_LENGTH else None
    if found is None:
        raise ValueError(f"{shown(text)} is not a time; write it as 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = found.groups()[6:]
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        nearest = (_FIRST_YEAR, 1, 1) if year < _FIRST_YEAR else (_LAST_YEAR, 12, 31)
        message = f"{text!r} is out of range; years from {_FIRST_YEAR} to {_LAST_YEAR} are supported"
        raise TooFar(message, calendar.timegm((*nearest, 0, 0, 0)) * _SECOND_NS)
    if not (1 <= month <= 12 and 1 <= day <= _days(year, month) and hour < 24 and minute < 60 and second < 60):
        raise ValueError(f"{text!r} is not a valid time; write it as 2026-01-31T12:00:00Z")
    seconds = calendar.timegm((year, month, day, hour, minute, second))
    if sign:
        offset_s = int(offset_hours) * 3600 + int(offset_minutes) * 60
        seconds += offset_s if sign == "-" else -offset_s
    nanoseconds = int((fraction or "0").ljust(9, "0")[:9])
    return seconds * _SECOND_NS + nanoseconds


def _days(year: int, month: int) -> int:
    return 28 if month == 2 and not calendar.isleap(year) else _DAYS_IN_MONTH[month - 1]


def parse_duration(text: str, long_units: bool = False) -> float:
    """Seconds of a Go duration such as "20s", "1h30m", "1.5h" or "-1s"; ``long_units`` allows days and weeks too.

    What is longer than DURATION_MAX_S, either way, becomes that. Raises ValueError, also for what Go cannot hold
    (about 292 years).
    """
    return max(-DURATION_MAX_S, min(DURATION_MAX_S, _seconds(text, long_units)))


def is_too_long(text: str) -> bool:
    """Whether the duration is longer than what ``parse_duration`` gives for it. Raises ValueError."""
    return _seconds(text, False) > DURATION_MAX_S


@lru_cache(maxsize=4096)
def _seconds(text: str, long_units: bool) -> float:
    # No writer of durations needs this many characters, and matching takes the square of their number.
    found = _DURATION.fullmatch(text) if len(text) <= DURATION_LENGTH else None
    total = Fraction(0)
    if found is not None:
        for number, unit in _PART.findall(found[2]):
            if unit in _LONG_UNITS and not long_units:
                found = None
                break
            total += Fraction(number.rstrip(".")) * _UNITS_S[unit]
    if found is None or total > _GO_MAX_S:
        raise ValueError(f"{shown(text)} is not a duration; write it as 90s, 10m or 1h30m")
    return float(-total if found[1] == "-" else total)


def format_time(ns: int) -> str:
    """RFC 3339 in UTC, whole seconds, of nanoseconds since the epoch: "2026-01-31T12:00:00Z"."""
    return datetime.fromtimestamp(ns // _SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_seconds(seconds: float) -> str:
    """As ``format_time``, of seconds since the epoch."""
    return format_time(int(seconds * _SECOND_NS))
