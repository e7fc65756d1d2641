"""The time of day for decisions: it never leaps, whatever is done to the machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from kai_sched.cluster.lease import boot_time

SLOWEST, FASTEST = 0.5, 2.0  # how fast it goes while it is behind or ahead of the wall clock


class SteadyWall:
    """Nanoseconds since the epoch, as the wall clock has them. Safe to call from any thread.

    Where the wall clock leaps, this one goes at double or at half speed until both agree: an hour more or less must not
    end all graces and protections at once, nor make anybody wait an hour longer. It never goes back.
    """

    def __init__(self, monotonic: Callable[[], float] = boot_time, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._lock = Lock()
        self._read_at = monotonic()
        self._now_ns = wall_ns()

    def __call__(self) -> int:
        with self._lock:
            read_at = self._monotonic()
            passed_ns = max(0.0, read_at - self._read_at) * 1e9
            behind_ns = self._wall_ns() - self._now_ns
            self._now_ns += int(max(SLOWEST * passed_ns, min(FASTEST * passed_ns, behind_ns)))
            self._read_at = read_at
            return self._now_ns
