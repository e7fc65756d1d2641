"""When Python looks for garbage, so that it never stops everything for long.

The operator's objects are millions and live long. A look at all of them takes a good part of a second, in which no
thread goes on; and nearly all that comes and goes is freed without it.
"""

from __future__ import annotations

import gc
import time

# New objects until the youngest are looked at; how often those before the middle-aged, and these before all. Each
# look also goes through the views of the cluster that are young: with few of them between two looks each one is short.
THRESHOLDS = (5_000, 1, 10_000)
LONG_S = 0.02


class GarbagePolicy:
    """What a look at everything found alive is left out from then on, where the look took long."""

    def __init__(self) -> None:
        self._began = 0.0

    def start(self) -> None:
        """From now on."""
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._told)

    def stop(self) -> None:
        """No longer; what is left out stays so."""
        gc.callbacks.remove(self._told)

    def settle(self) -> None:
        """Leave out all that is there: the cluster has just been read, and stays."""
        gc.freeze()

    def _told(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began = time.perf_counter()
        elif time.perf_counter() - self._began > LONG_S:
            gc.freeze()
