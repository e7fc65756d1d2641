"""When Python's garbage collector runs in the operator: its thresholds, and when objects are frozen. A collection never
stops all threads for long.

The objects of the operator are millions and live long. A full collection takes a good part of a second, in which no
thread runs, and nearly all short-lived objects are freed by reference counting without it.
"""

from __future__ import annotations

import gc
import time

# The thresholds of gc.set_threshold. A collection of the young objects also goes through young views of the cluster:
# with few views between two collections, each one is short.
THRESHOLDS = (5_000, 1, 10_000)
LONG_S = 0.02


class GarbagePolicy:
    """Freezes the objects that survived a full collection that took long: later collections skip them."""

    def __init__(self) -> None:
        self._began = 0.0

    def start(self) -> None:
        """Set the thresholds and watch collections from now on. What was imported stays: no collection looks at it."""
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collected)

    def stop(self) -> None:
        """Watch no longer; frozen objects stay frozen."""
        gc.callbacks.remove(self._collected)

    def settle(self) -> None:
        """Freeze all objects: the cluster has just been read, and stays."""
        gc.freeze()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began = time.perf_counter()
        elif time.perf_counter() - self._began > LONG_S:
            gc.freeze()
