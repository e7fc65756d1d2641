"""The rate limit of Events: how many are sent a second, and in one burst. The API server stores each event, so the
scheduler must not send large bursts.
"""

from __future__ import annotations

from collections.abc import Callable

EVENTS_PER_SECOND = 50.0
EVENTS_AT_ONCE = 500


class EventBudget:
    """A token bucket.

    Parameters
    ----------
    clock
        Seconds that never go back.
    per_second
        How many tokens are added in a second.
    at_once
        The size of the bucket, which is full at the start.
    """

    def __init__(
        self, clock: Callable[[], float], per_second: float = EVENTS_PER_SECOND, at_once: int = EVENTS_AT_ONCE
    ) -> None:
        self._clock = clock
        self._per_second = per_second
        self._at_once = float(at_once)
        self._left = self._at_once
        self._at = clock()

    def wait_s(self) -> float:
        """Return in how many seconds the next event may be sent, 0 for now."""
        now = self._clock()
        self._left = min(self._at_once, self._left + (now - self._at) * self._per_second)
        self._at = now
        return max(0.0, (1.0 - self._left) / self._per_second)

    def take(self) -> None:
        """Use a token: an event is sent."""
        self._left -= 1.0
