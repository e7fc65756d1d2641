"""The time of day for decisions: how fast it catches up if somebody sets the clock of the machine. It never jumps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from kai_sched.cluster.lease import boot_time

SLOWEST, FASTEST = 0.5, 2.0  # how fast it goes while it is behind or ahead of the wall clock


class SteadyWall:
    """Nanoseconds since the epoch by the wall clock, without its jumps. May be called from any thread.

    After the wall clock has jumped, this clock runs at double or half speed until both agree, and it never goes back.
    A jump by an hour must not end all grace periods at once, nor extend them by an hour.
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


@dataclass(frozen=True, slots=True)
class Clock:
    """The clocks of the operator, handed to every part that needs the time.

    Attributes
    ----------
    monotonic
        Seconds that never go back.
    wall_ns
        Nanoseconds since the epoch, which never jump.
    cpu_s
        Seconds of CPU that the calling thread has used.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = field(default_factory=SteadyWall)
    cpu_s: Callable[[], float] = time.thread_time
