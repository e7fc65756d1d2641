"""Unexpected exceptions while one item is worked on: how often the same one is logged. All other items go on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType

import structlog

AGAIN_S = 600.0  # the same fault is logged once in this time, with its traceback
DISTINCT_MAX = 1000

log = structlog.get_logger("fault")


class FaultLog:
    """For all threads of a process.

    Attributes
    ----------
    counts
        The number of faults by part, such as "intake".
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_s: dict[tuple[str, str, int], float] = {}
        self.counts: Counter[str] = Counter()

    def note(self, part: str, item: str, error: Exception) -> str:
        """Count the exception, log it unless it was logged lately, and return it as a sentence."""
        self.counts[part] += 1
        text = f"{type(error).__name__}: {error}"
        place = (f"{part}:{type(error).__name__}", *_place(error.__traceback__))
        now = self._clock()
        if now - self._logged_s.get(place, -AGAIN_S) >= AGAIN_S:
            if len(self._logged_s) >= DISTINCT_MAX:
                self._logged_s.clear()
            self._logged_s[place] = now
            log.error("fault.unexpected", part=part, item=item, problem=text, exc_info=error)
        return f"unexpected {text} (a bug in the scheduler: see its log)"


def _place(trace: TracebackType | None) -> tuple[str, int]:
    """Where the exception was raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)


FAULTS = FaultLog()
