"""At most one progress text in some seconds, for work that reports by itself (``files.load``)."""

from __future__ import annotations

import time
from collections.abc import Callable

QUIET_S = 2.0


class Pace:
    """Passes a text on if QUIET_S seconds have passed since the last one. Without ``say`` it does nothing."""

    def __init__(self, say: Callable[[str], None] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._last = clock()

    def say(self, text: str) -> None:
        """Pass the text on now."""
        if self._say is not None:
            self._say(text)
            self._last = self._clock()

    def tick(self, text: str) -> None:
        """Pass the text on if it is time."""
        if self._say is not None and self._clock() - self._last >= QUIET_S:
            self.say(text)
