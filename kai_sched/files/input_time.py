"""The time at which a cluster from files is looked at, so that the same files always give the same answer: that of the
dump, or the newest time in the objects.

The newest time is looked for in the text of the objects, as most times are in parts that are never decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

import msgspec

from kai_sched.answers.words import minute
from kai_sched.api import core, names
from kai_sched.files.items import Item
from kai_sched.model.times import parse_time

# Fields with the time of something that has happened. Others, such as deadlines, may be in the future.
_DELETED = b"deletionTimestamp"
_FIELDS = frozenset(
    {
        _DELETED,
        b"creationTimestamp",
        b"time",  # of managedFields
        b"timeAdded",
        b"startTime",
        b"startedAt",
        b"finishedAt",
        b"completionTime",
        b"endTime",
        b"lastTransitionTime",
        b"lastProbeTime",
        b"lastHeartbeatTime",
        b"lastUpdateTime",
        b"lastReconcileTime",
        b"lastScheduleTime",
        b"lastSuccessfulTime",
        b"lastTimestamp",
        b"eventTime",
        names.LAST_START_ANNOTATION.encode(),
        names.STALE_ANNOTATION.encode(),
    }
)
_END = b'Z"'  # of a time as API servers write it
_LENGTH_MAX, _FIELD_MAX = 40, 110  # of a time, and of its field
_FIELD = re.compile(rb'"([^"]{1,100})"\s*:\s*"$')
_WITH_OFFSET = re.compile(rb'"([^"]{1,100})"\s*:\s*"(\d{4}-[\dTt:.-]{12,30}(?:[+-]\d\d:\d\d|z))"')
_SECOND_NS = 10**9


class TimeSource(Enum):
    """Where the time of the first cycle is from; the value says it in words."""

    SCENARIO = "the time of the scenario"
    DUMP = "the time of the dump"
    READ = "when the cluster was read"
    NEWEST = "the newest time in the files"
    CLOCK = "the clock, as the files have no time"

    def sentence(self, now_ns: int) -> str:
        """Such as "as of 2026-11-22 12:00 UTC, the newest time in the files"."""
        return f"as of {minute(now_ns)}, {self.value}"


class _DeletedMeta(core.Wire):
    deletion_grace_period_seconds: float | None = None


class _DeletedHead(core.Wire):
    metadata: _DeletedMeta | None = None


_head = msgspec.json.Decoder(_DeletedHead)


def newest_time_ns(items: Iterable[Item]) -> int | None:
    """Nanoseconds since the epoch; None where no object has a time.

    A deletionTimestamp is the end of the grace period: the object was deleted so much earlier.
    """
    newest, found = b"", 0
    for item in items:
        raw = bytes(item.raw)
        pieces = raw.split(_END)
        for piece in pieces[:-1]:
            start = piece.rfind(b'"', max(0, len(piece) - _LENGTH_MAX)) + 1
            # Texts of times are in the order of times. Few are newer than all before, so few are looked at closely.
            if piece[start:] <= newest:
                continue
            field = _FIELD.search(piece[max(0, start - _FIELD_MAX) : start])
            time = _time(field[1], piece[start:] + b"Z", raw) if field else 0
            if time > found:
                found = time
                newest = newest if field and field[1] == _DELETED else piece[start:]
        if len(pieces) == 1:  # written by hand, if it has a time at all
            found = max([found, *(_time(field, text, raw) for field, text in _WITH_OFFSET.findall(raw))])
    return found or None


def _time(field: bytes, text: bytes, raw: bytes) -> int:
    """The time in the field of the object; 0 where it tells nothing."""
    if field not in _FIELDS:
        return 0
    try:
        time = parse_time(text.decode())
        if field == _DELETED and (meta := _head.decode(raw).metadata) is not None:
            time -= round((meta.deletion_grace_period_seconds or 0) * _SECOND_NS)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return 0  # its reader reports the error
    return time
