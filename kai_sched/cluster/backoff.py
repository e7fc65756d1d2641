"""How long to wait after failures in a row."""

from __future__ import annotations

import random
from dataclasses import dataclass

_DOUBLINGS_MAX = 32  # beyond, every wait is the longest; a power of two would leave the range of a float


@dataclass(frozen=True, slots=True)
class Backoff:
    """``first_s``, doubling to ``last_s``; at random down to ``low`` times that, so that many do not come together.

    What the server asks for with Retry-After is waited for as well, up to ``asked_max_s``.
    """

    first_s: float
    last_s: float
    low: float = 0.5
    asked_max_s: float = 30.0

    def wait_s(self, failures: int, chance: random.Random | None = None, asked_s: float | None = None) -> float:
        """Seconds after the ``failures``-th failure in a row, counted from 1; the longest ones without ``chance``."""
        doublings = min(max(failures - 1, 0), _DOUBLINGS_MAX)
        wait_s = min(self.last_s, self.first_s * 2.0**doublings)
        if chance is not None:
            wait_s *= chance.uniform(self.low, 1.0)
        return wait_s + min(self.asked_max_s, asked_s) if asked_s else wait_s
