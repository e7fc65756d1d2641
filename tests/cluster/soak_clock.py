"""The clock of the soak, which stands still while there is no API server: outages are nobody's delay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ServedClock:
    """Seconds in which there was an API server, for any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._away_s = 0.0  # without the time since it stopped
        self._stopped_s: float | None = None

    def now_s(self) -> float:
        """The time: it never goes back."""
        with self._lock:
            return (self._monotonic() if self._stopped_s is None else self._stopped_s) - self._away_s

    @contextmanager
    def outage(self) -> Iterator[None]:
        """A context in which there is none."""
        with self._lock:
            self._stopped_s = stopped_s = self._monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._away_s += self._monotonic() - stopped_s
                self._stopped_s = None
