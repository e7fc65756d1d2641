"""The formula of a delay after failures in a row: doubling, jitter, Retry-After. Its numbers are where it is used."""

from __future__ import annotations

import random
from dataclasses import dataclass

_DOUBLINGS_MAX = 32  # beyond that every delay is the longest; a larger power of two would exceed the range of a float


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter.

    Attributes
    ----------
    first_s, last_s
        The delay in seconds after the first failure, and the longest one. The delay doubles with each failure.
    low
        The jitter: a delay is drawn from ``low`` to 1 times its full length, so many clients do not retry together.
    asked_max_s
        The longest Retry-After of the API server that is honoured, in seconds. It is added to the delay.
    """

    first_s: float
    last_s: float
    low: float = 0.5
    asked_max_s: float = 30.0

    def wait_s(self, failures: int, rng: random.Random | None = None, asked_s: float | None = None) -> float:
        """Return the delay in seconds after the ``failures``-th failure in a row, counted from 1.

        Without ``rng`` there is no jitter. ``asked_s`` is the Retry-After of the API server.
        """
        doublings = min(max(failures - 1, 0), _DOUBLINGS_MAX)
        wait_s = min(self.last_s, self.first_s * 2.0**doublings)
        if rng is not None:
            wait_s *= rng.uniform(self.low, 1.0)
        return wait_s + min(self.asked_max_s, asked_s) if asked_s else wait_s


@dataclass(slots=True)
class RetryTimer:
    """When something that failed may be tried again, without jitter; ``until`` is in monotonic seconds."""

    backoff: Backoff
    failures: int = 0
    until: float = 0.0

    def add(self, now: float) -> float:
        """Count a failure at ``now`` and return the delay in seconds from then on.

        Failures before the delay has passed belong to the failure that started it, and do not count.
        """
        if now >= self.until:
            self.failures += 1
            self.until = now + self.backoff.wait_s(self.failures)
        return self.until - now

    def is_over(self, now: float) -> bool:
        """Whether nothing has failed since for as long as the longest delay: the next failure is a first one."""
        return now >= self.until + self.backoff.last_s
