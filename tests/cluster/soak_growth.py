"""Whether the replica that leads needs more memory, or longer cycles, at the end of the soak than near its beginning.

Minute 5 is compared with the last one; in a run of less than ten minutes what follows its first third with its last
fifth. Cycles are those that decided something, by their log lines. No fault is made in the minutes that are compared.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from tests.cluster.bench import Figure
from tests.cluster.operator_process import Operator

LONG_MINUTES = 10.0
GROWTH_MAX = 10.0  # percent
# Of pods in the cluster, in percent: where the load differs by more, cycle times cannot be compared.
LOAD_DIFFERS_MAX = 15.0
SETTLE_S = 20.0  # without faults before what is compared

Samples = Sequence[tuple[float, float]]  # seconds from the start, and a value


def windows(whole_s: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """From when to when is compared, in seconds from the start."""
    if whole_s >= LONG_MINUTES * 60:
        return (240.0, 300.0), (whole_s - 60.0, whole_s)
    return (whole_s / 3, whole_s / 3 + whole_s / 10), (whole_s * 0.8, whole_s)


def is_quiet(at_s: float, whole_s: float) -> bool:
    """Whether no fault is to be made at that time of a run of that length."""
    if whole_s < LONG_MINUTES * 60:
        return False
    return any(from_s - SETTLE_S <= at_s <= to_s for from_s, to_s in windows(whole_s))


def mean(samples: Samples, from_s: float, to_s: float) -> float:
    """The mean of what was noted in that time. Raises StatisticsError where nothing was."""
    return statistics.mean(value for at_s, value in samples if from_s <= at_s <= to_s)


def median(samples: Samples, from_s: float, to_s: float) -> float:
    """The median of what was noted in that time. Raises StatisticsError where nothing was."""
    return statistics.median(value for at_s, value in samples if from_s <= at_s <= to_s)


def memory_figures(samples: Samples, whole_s: float) -> list[Figure]:
    """Resident memory in millions of bytes, early and late."""
    early, late = windows(whole_s)
    first, last = mean(samples, *early), mean(samples, *late)
    named = _names(whole_s)
    return [
        Figure(f"RSS, {named[0]}", first, "MB"),
        Figure(f"RSS, {named[1]}", last, "MB"),
        Figure("RSS, growth between", _percent(first, last), "%", GROWTH_MAX),
    ]


def cycle_figures(times_ms: Samples, pods: Samples, whole_s: float) -> list[Figure]:
    """The median duration of cycles, early and late, beside the pods that they saw. Short runs have no target."""
    early, late = windows(whole_s)
    first, last = median(times_ms, *early), median(times_ms, *late)
    load = mean(pods, *early), mean(pods, *late)
    named = _names(whole_s)
    is_long = whole_s >= LONG_MINUTES * 60
    return [
        Figure(f"cycle, {named[0]}, median", first, "ms"),
        Figure(f"cycle, {named[1]}, median", last, "ms"),
        Figure("cycle, growth between", _percent(first, last), "%", GROWTH_MAX if is_long else None),
        Figure("pods in a cycle, difference", abs(_percent(*load)), "%", LOAD_DIFFERS_MAX if is_long else None),
    ]


def cycles_of(lines: Iterable[dict[str, Any]], started: float) -> tuple[Samples, Samples]:
    """Duration in ms and number of pods of each cycle that bound something, from its log lines.

    ``started`` is in seconds since the epoch.
    """
    found = [line for line in lines if line["bound"]]
    at_s = [datetime.fromisoformat(line["timestamp"]).timestamp() - started for line in found]
    times, pods = ([float(line[name]) for line in found] for name in ("ms", "pods"))
    return list(zip(at_s, times, strict=True)), list(zip(at_s, pods, strict=True))


class MemorySamples:
    """Resident memory of a replica each second, in millions of bytes, from now until it ends."""

    def __init__(self, replica: Operator) -> None:
        self.samples: list[tuple[float, float]] = []
        self._replica = replica
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        started_s = time.monotonic()
        with suppress(OSError, AssertionError):  # it has ended
            while self._replica.process.exit_code is None:
                self.samples.append((time.monotonic() - started_s, self._replica.rss_mb))
                time.sleep(1.0)


def _names(whole_s: float) -> tuple[str, str]:
    return ("minute 5", "last minute") if whole_s >= LONG_MINUTES * 60 else ("after a third", "last fifth")


def _percent(first: float, last: float) -> float:
    return 100 * (last - first) / first
