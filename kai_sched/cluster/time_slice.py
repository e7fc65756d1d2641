"""Sharing the event loop: long work pauses now and then, so that binds, probes and the lease come in between."""

from __future__ import annotations

import asyncio
import time

SLICE_S = 0.01


class TimeSlice:
    """One piece of work in the event loop; it may ask ``pause`` as often as it likes."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Let others have their turn, if this one has lasted long enough."""
        if time.perf_counter() - self._began > self._slice_s:
            await asyncio.sleep(0)
            self._began = time.perf_counter()
