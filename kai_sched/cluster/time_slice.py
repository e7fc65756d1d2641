"""How long work in the event loop goes on before it pauses, so that binds, probes and others run in between."""

from __future__ import annotations

import asyncio
import time

SLICE_S = 0.01


class TimeSlice:
    """One piece of work in the event loop, which calls ``pause`` often."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Let others run if this work has lasted longer than a slice."""
        if time.perf_counter() - self._began > self._slice_s:
            await asyncio.sleep(0)
            self._began = time.perf_counter()
