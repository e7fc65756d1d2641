"""Times, amounts and counts as programs give them, in scheduler units. What does not fit raises TypeError or ValueError
with the remedy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from kai_sched.model.field_errors import FieldError, shown
from kai_sched.model.objects import UNLIMITED
from kai_sched.model.resources import parse_quantity
from kai_sched.model.times import parse_time

_LARGEST = 1e15  # of an amount, in any unit
_LONGEST_S = 10 * 366 * 86_400


def time_ns(now: object) -> int:
    """Nanoseconds since the epoch of a ``datetime`` with a time zone, or of an RFC 3339 text."""
    if isinstance(now, str):
        return parse_time(now)
    if not isinstance(now, datetime):
        text = f"now is a datetime or a text such as '2026-01-31T12:00:00Z', not {shown(now)}"
        raise TypeError(f"{text}: write datetime.fromtimestamp(seconds, timezone.utc) for seconds since the epoch")
    if now.utcoffset() is None:
        raise ValueError(f"now has no time zone: write {now!r}.replace(tzinfo=timezone.utc), or the zone that it is in")
    try:
        return parse_time(now.astimezone(UTC).isoformat())
    except OverflowError:
        raise ValueError(f"{now!r} is out of range: give a time from 1900 to 2200") from None


def moment(ns: int) -> datetime:
    """The time in UTC, to the microsecond, of nanoseconds since the epoch."""
    whole, rest = divmod(ns, 10**9)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest // 1000)


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {shown(value)}: write {name}={least}, for example")
    if value < least:
        raise ValueError(f"{name} is {value}: give at least {least}")
    return value


def seconds(name: str, value: object) -> float:
    """A length of time above 0, in seconds: a ``timedelta``, or a number."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a timedelta or a number of seconds, not {shown(value)}: write timedelta(hours=2)")
    if not 0 < value < _LONGEST_S:
        raise ValueError(f"{name} is {value} seconds: give more than 0, and at most ten years")
    return float(value)


def text(name: str, value: object) -> str:
    """A name."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {shown(value)}: give its name")
    return value


def amount(name: str, value: object) -> float:
    """The value of an argument of ``with_queue`` such as "cpu_quota", in scheduler units.

    GPUs and weights are numbers; CPU in cores and memory in bytes may also be Kubernetes quantities ("500m", "512Gi").
    Infinity is unlimited.
    """
    resource, _, field = name.partition("_")
    has_quantities = resource != "gpu" and field != "weight"
    if isinstance(value, str) and has_quantities:
        try:
            found = float(parse_quantity(value))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    elif isinstance(value, bool) or not isinstance(value, int | float):
        what = "a number, or a quantity such as '512Gi'" if has_quantities else "a number"
        raise TypeError(f"{name} is {what}, not {shown(value)}: write {name}=8, or {name}=math.inf for unlimited")
    else:
        found = float(value)
    if found == math.inf and field != "weight":
        return UNLIMITED
    if not 0.0 <= found < _LARGEST:
        remedy = "" if field == "weight" else ", or math.inf for unlimited"
        raise ValueError(f"{name} is {value}: give a number from 0 on{remedy}")
    return found * 1000.0 if name in ("cpu_quota", "cpu_limit") else found


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors about names and values without the flag of the command line that they belong to."""
    try:
        yield
    except FieldError as error:
        raise ValueError(error.message) from None
