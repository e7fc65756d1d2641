"""What each queue held in the last hour: a bounded ring of samples, and the points of its line."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kai_sched.plan.result import QueueState
from kai_sched.report.overview_text import in_units

HOUR_NS = 3_600_000_000_000
SAMPLE_NS = 60_000_000_000
SAMPLES_MAX = HOUR_NS // SAMPLE_NS + 1
# A line in a box of this size, in its own units.
WIDTH, HEIGHT = 60, 20
Triple = tuple[float, float, float]  # in the order of QUEUE_RESOURCES


class History:
    """Samples of what queues hold, one a minute at most. For one thread."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[str, Triple]]] = deque(maxlen=SAMPLES_MAX)

    def add(self, now_ns: int, queues: Sequence[QueueState]) -> None:
        """Take a sample, unless the last one is less than a minute old."""
        if self._samples and now_ns - self._samples[-1][0] < SAMPLE_NS:
            return
        self._samples.append((now_ns, {queue.name: queue.allocated for queue in queues}))

    def copy(self) -> History:
        """These samples, for another thread."""
        found = History()
        found._samples.extend(self._samples)
        return found

    def lines(self, now_ns: int, resource: str) -> dict[str, str]:
        """The points of the line of each queue, as SVG has them: 0 at the bottom, the most it held at the top."""
        recent = [(at, held) for at, held in self._samples if now_ns - at <= HOUR_NS]
        if len(recent) < 2:
            return {}
        found = {}
        for name in recent[-1][1]:
            points = [(at, in_units(resource, held[name])) for at, held in recent if name in held]
            most = max((amount for _, amount in points), default=0.0) or 1.0
            found[name] = " ".join(
                f"{WIDTH - WIDTH * (now_ns - at) / HOUR_NS:.1f},{HEIGHT - 1 - (HEIGHT - 2) * amount / most:.1f}"
                for at, amount in points
            )
        return found
