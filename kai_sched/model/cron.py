"""When a cron expression fires, in UTC: the five fields of the schedule of a CronJob, as sets of numbers.

Written here rather than taken from a library: without time zones and seconds it is five sets and a walk over days, and
a library would be one more package of the offline installation for one setting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import pairwise

from kai_sched.model.field_errors import shown

EXPRESSION_LENGTH = 256  # characters
DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60
EPOCH_DAY = date(1970, 1, 1).toordinal()
# February 29th is rarest: not in 2100. Nothing that fires at all rests for more days than from 2096 to 2104.
RAREST_DAYS = date(2104, 2, 29).toordinal() - date(2096, 2, 29).toordinal()
SAMPLE_BEGINS, SAMPLE_ENDS = date(2096, 1, 1).toordinal(), date(2104, 12, 31).toordinal()

_MONTHS = {
    name: i
    for i, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_WEEKDAYS = {name: i for i, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _WEEKDAYS),  # both 0 and 7 are Sunday
)
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_PART = re.compile(r"(?:(?P<every>[*?])|(?P<first>\w{1,3})(?:-(?P<last>\w{1,3}))?)(?:/(?P<step>\d{1,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the expression fires: at these times of the days that match.

    Attributes
    ----------
    seconds
        Seconds since midnight, ascending.
    days, months, weekdays
        Those that match; Sunday is 0.
    either
        Whether the day of the month or that of the week is enough, as both are restricted; else both have to match.
    """

    seconds: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    def is_on(self, ordinal: int) -> bool:
        """Whether it fires on the day with this proleptic ordinal."""
        day = date.fromordinal(ordinal)
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (by_month or by_week if self.either else by_month and by_week)

    def last_s(self, now_s: float) -> float:
        """When it last fired, now included, in seconds since the epoch."""
        today, into_day = divmod(now_s, DAY_S)
        today = int(today)
        passed = [second for second in self.seconds if second <= into_day]
        if passed and self.is_on(EPOCH_DAY + today):
            return float(today * DAY_S + passed[-1])
        for day in range(today - 1, today - RAREST_DAYS - 2, -1):
            if self.is_on(EPOCH_DAY + day):
                return float(day * DAY_S + self.seconds[-1])
        raise AssertionError("parse_cron takes no expression that rests for longer")

    def longest_s(self) -> float:
        """The longest time between two times at which it fires, in seconds; 0 if it never fires."""
        found = [day for day in range(SAMPLE_BEGINS, SAMPLE_ENDS + 1) if self.is_on(day)]
        within = [after - before for before, after in pairwise(self.seconds)]
        overnight = self.seconds[0] - self.seconds[-1]
        rests = [(after - before) * DAY_S + overnight for before, after in pairwise(found)]
        return float(max(within + rests)) if found else 0.0


@lru_cache(maxsize=16)
def parse_cron(text: str) -> Schedule:
    """The schedule. Raises ValueError, whose text has the remedy, for what is none and for what never fires."""
    if len(text) > EXPRESSION_LENGTH:
        raise ValueError(f"{shown(text)} is longer than {EXPRESSION_LENGTH} characters: write fewer values, as 0-30/5")
    if text.startswith("@every"):
        raise ValueError(f"{shown(text)} has no times of its own: give windowType tumbling with a windowSize")
    if "TZ=" in text:
        raise ValueError(f"{shown(text)} has a time zone: leave it out, as all times are in UTC")
    fields = _NAMED.get(text.strip().lower(), text).split()
    if len(fields) != len(_FIELDS):
        remedy = "write minute, hour, day of the month, month and day of the week, such as 0 0 * * 1 for Mondays"
        raise ValueError(f"{shown(text)} has {len(fields)} fields instead of {len(_FIELDS)}: {remedy}")
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = (
        _field(field, *rule) for field, rule in zip(fields, _FIELDS, strict=True)
    )
    schedule = Schedule(
        tuple(hour * HOUR_S + minute * MINUTE_S for hour in sorted(hours) for minute in sorted(minutes)),
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        not any_day and not any_weekday,
    )
    if not schedule.longest_s():
        raise ValueError(f"{shown(text)} never fires, as no such month has that day: correct the day or the month")
    return schedule


def _field(text: str, name: str, least: int, most: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """The values of a field, and whether one of its parts is ``*``. Raises ValueError."""
    found: set[int] = set()
    is_any, highest = False, min(most, 6) if names is _WEEKDAYS else most  # Sunday once
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{shown(part)} is no {name}: write numbers, ranges as 1-5 and steps as */15, with commas")
        step = int(match["step"] or 1)
        if match["every"]:
            first, last = least, highest
            is_any |= step == 1
        else:
            first = _value(match["first"], name, least, most, names)
            last = highest if match["step"] else first
            last = _value(match["last"], name, least, most, names) if match["last"] else last
        if step == 0 or last < first:
            raise ValueError(f"{shown(part)} is no range of the {name}: begin with the smaller value, in steps from 1")
        found.update(range(first, last + 1, step))
    return frozenset(found), is_any


def _value(text: str, name: str, least: int, most: int, names: dict[str, int]) -> int:
    value = names.get(text.lower(), int(text) if text.isdecimal() else -1)
    if not least <= value <= most:
        known = f" or one of {', '.join(names)}" if names else ""
        raise ValueError(f"{shown(text)} is no {name}: give a number from {least} to {most}{known}")
    return value
