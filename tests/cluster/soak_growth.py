"""Whether the replica that leads needs more memory, or longer cycles, at the end of the soak than near its beginning.

Minute 5 is compared with the last one; in a run of less than ten minutes what follows its first third with its last
fifth. Cycles are those that decided something, by their log lines. No fault is made in the minutes that are compared.

Cycles are compared by the CPU time that they used, over that of a piece of work that is always the same: how long they
took, and how fast the CPU is, depends on what else runs on the machine.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
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
    """Resident memory in millions of bytes: of each minute, early and late."""
    early, late = windows(whole_s)
    first, last = mean(samples, *early), mean(samples, *late)
    named = _names(whole_s)
    return [
        *(
            Figure(f"RSS, after {minute} minutes", mean(samples, 60 * minute - 10, 60 * minute), "MB")
            for minute in range(1, int(whole_s / 60) + 1)
        ),
        Figure(f"RSS, {named[0]}", first, "MB"),
        Figure(f"RSS, {named[1]}", last, "MB"),
        Figure("RSS, growth between", _percent(first, last), "%", GROWTH_MAX),
    ]


def cycle_figures(cycles: Cycles, same_work_ms: Samples, whole_s: float) -> list[Figure]:
    """The medians of cycles, early and late, beside the pods that they saw. Short runs have no target.

    ``same_work_ms``: the CPU time of work that is always the same, in ms.
    """
    early, late = windows(whole_s)
    cpu_ms, work_ms = ([median(each, *when) for when in (early, late)] for each in (cycles.cpu_ms, same_work_ms))
    in_work = [cpu / work for cpu, work in zip(cpu_ms, work_ms, strict=True)]
    load = mean(cycles.pods, *early), mean(cycles.pods, *late)
    is_long = whole_s >= LONG_MINUTES * 60
    return [
        *(
            Figure(f"{what}, {name}, median", median(each, *when), "ms")
            for what, each in (("cycle", cycles.ms), ("CPU of a cycle", cycles.cpu_ms), ("same work", same_work_ms))
            for name, when in zip(_names(whole_s), (early, late), strict=True)
        ),
        Figure("CPU of a cycle in same work, growth", _percent(*in_work), "%", GROWTH_MAX if is_long else None),
        Figure("pods in a cycle, difference", abs(_percent(*load)), "%", LOAD_DIFFERS_MAX if is_long else None),
    ]


@dataclass(frozen=True, slots=True)
class Cycles:
    """Of each cycle that bound something: how long it took, the CPU time that it used, and the pods that it saw."""

    ms: Samples
    cpu_ms: Samples
    pods: Samples


def cycles_of(lines: Iterable[dict[str, Any]], started: float) -> Cycles:
    """From their log lines. ``started`` is in seconds since the epoch."""
    found = [line for line in lines if line["bound"]]
    at_s = [datetime.fromisoformat(line["timestamp"]).timestamp() - started for line in found]
    return Cycles(
        *(
            list(zip(at_s, (float(line[name]) for line in found), strict=True))
            for name in (field.name for field in fields(Cycles))
        )
    )


def same_work_ms() -> float:
    """The CPU time, in ms, of a piece of work like that of a cycle: objects are made, looked up and put in order."""
    began_s = time.thread_time()
    table = {f"pod-{number * 7919 % 8192}": (number % 13, number) for number in range(8192)}
    assert sorted(table, key=table.__getitem__)
    return 1000 * (time.thread_time() - began_s)


class SecondSamples:
    """Taken each second, from now until the replica ends: its resident memory in millions of bytes, and the same work
    as ever."""

    def __init__(self, replica: Operator) -> None:
        self.rss_mb: list[tuple[float, float]] = []
        self.same_work_ms: list[tuple[float, float]] = []
        self._replica = replica
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        started_s = time.monotonic()
        with suppress(OSError, AssertionError):  # it has ended
            while self._replica.process.exit_code is None:
                at_s = time.monotonic() - started_s
                self.rss_mb.append((at_s, self._replica.rss_mb))
                self.same_work_ms.append((at_s, same_work_ms()))
                time.sleep(1.0)


def _names(whole_s: float) -> tuple[str, str]:
    return ("minute 5", "last minute") if whole_s >= LONG_MINUTES * 60 else ("after a third", "last fifth")


def _percent(first: float, last: float) -> float:
    return 100 * (last - first) / first
