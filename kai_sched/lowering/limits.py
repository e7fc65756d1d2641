"""The range of times, durations and whole numbers in the tables: larger ones are clamped.

Invariant: the sum of two clamped times or durations fits into 64 bits.
"""

from __future__ import annotations

import math

from kai_sched.model.objects import PodGroup
from kai_sched.snapshot.columns import NULL

LATEST_NS = 2**62 - 1
UNSET = -2  # GroupCell.GRACE: the group does not set one
LARGEST = 2**31 - 1  # of what is a 32 bit number in the API: priorities, counts of pods


def moment(ns: int) -> int:
    """The time in nanoseconds since the epoch, clamped to the years 1823 to 2116."""
    if -LATEST_NS <= ns <= LATEST_NS:
        return ns
    return LATEST_NS if ns > 0 else -LATEST_NS


def duration(seconds: float) -> int:
    """The duration in nanoseconds, clamped to 146 years either way; 0 for NaN."""
    if math.isnan(seconds):
        return 0
    if abs(seconds) < LATEST_NS / 1e9:
        return int(seconds * 1e9)
    return LATEST_NS if seconds > 0 else -LATEST_NS


def whole(number: int) -> int:
    """The number, clamped to 32 bits."""
    return max(-LARGEST - 1, min(LARGEST, number))


def may_evict_at(group: PodGroup) -> int:
    """Until when the preemption delay of the group protects it; 0: it has none."""
    delay = duration(group.preemption_delay_s)
    return moment(max(group.created_ns, group.last_eviction_ns) + delay) if delay > 0 else 0


def grace(seconds: float) -> int:
    """The staleness grace in nanoseconds; NULL: it has no end."""
    return NULL if seconds < 0 else duration(seconds)
