"""What queues held in the past, added up from what cycle after cycle says that they hold (semantics 2.7).

Time is cut into spans of equal length, of which as many are kept as the window has. In a span, amounts are integrals
over time: millicores, bytes and devices, each times seconds. The usage of a queue is its integral over that of the
cluster's capacity, where the past may count the less the older it is.

Each node pool has accounts; ``past_of`` chooses those that count for a queue.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from kai_sched.model.config import Config, sees_queue
from kai_sched.model.hints import NOTHING, Amounts, add
from kai_sched.model.objects import NOTHING_USED, Queue, UsedShares

SPANS = 24
# What is as many half-lives old counts for a 65,536th, which is nothing.
HALF_LIVES = 16.0
# Of so many queues, those with the most, is kept what was written down: it has to fit into a ConfigMap of 1 MiB.
QUEUES_MAX = 2_000
SHORTEST_S = 0.001  # what was held for less was held for no time


class PoolPast(NamedTuple):
    """What accounts say: the settings of their shard, or of all shards where shares are those of the cluster, and the
    parts of the pool that were used, by queue."""

    config: Config
    usage: Mapping[str, UsedShares]


def past_of(queue: Queue, pasts: Iterable[PoolPast]) -> UsedShares:
    """What the queue used of the pool that it is in now; nothing where no accounts are of that pool.

    Accounts of a pool that it has left have its name, too, for as long as the window lasts.
    """
    for config, usage in pasts:
        if sees_queue(queue.labels, config):
            return usage.get(queue.name, NOTHING_USED)
    return NOTHING_USED


@dataclass(slots=True)
class _Span:
    """What was held while the accounts were kept, between two times."""

    capacity: Amounts = NOTHING
    held: dict[str, Amounts] = field(default_factory=dict)


class _WrittenSpan(msgspec.Struct):
    start_s: float
    end_s: float
    capacity: Amounts
    held: dict[str, Amounts]


class _WrittenAccounts(msgspec.Struct):
    spans: list[_WrittenSpan]


_decode = msgspec.json.Decoder(_WrittenAccounts).decode


class PastUsage:
    """The accounts. All times are in seconds since the epoch, and a clock that goes back costs the time in between.

    Parameters
    ----------
    window_s
        How far back the past counts.
    half_life_s
        After which time it counts half; 0: all of the window counts the same.
    """

    def __init__(self, window_s: float, half_life_s: float = 0.0) -> None:
        self._half_life_s = half_life_s
        self._whole_s = min(window_s, HALF_LIVES * half_life_s) if half_life_s > 0 else window_s
        self._span_s = self._whole_s / SPANS
        self._spans: dict[int, _Span] = {}
        self._held: Mapping[str, Amounts] = {}
        self._capacity = NOTHING
        self._known_s: float | None = None  # up to when everything is added up; None: nobody says what is held
        self._forgotten_s = -math.inf  # what was before that is not there any more

    def hold(self, now_s: float, held: Mapping[str, Amounts], capacity: Amounts) -> None:
        """From now on queues hold these amounts of that capacity."""
        self.advance(now_s)
        self._held, self._capacity, self._known_s = dict(held), capacity, now_s

    def advance(self, now_s: float) -> None:
        """Add up what was held until now."""
        if self._known_s is not None:
            self._add(self._known_s, now_s, now_s, self._held, self._capacity)
            self._known_s = now_s
        for number in [number for number in self._spans if number < self._oldest(now_s)]:
            del self._spans[number]

    def forget(self, since_s: float, now_s: float) -> None:
        """Drop what was before that time, at which a new window has begun.

        Of a span that began before and goes on, as much as its part: called soon after the window has begun, next to
        nothing of what was before stays.
        """
        if since_s <= self._forgotten_s:
            return
        for number in list(self._spans):
            start_s, end_s = self._limits(number, now_s)
            if end_s <= since_s:
                del self._spans[number]
            elif start_s < since_s:
                part, span = (end_s - since_s) / (end_s - start_s), self._spans[number]
                held = {queue: _times(amounts, part) for queue, amounts in span.held.items()}
                self._spans[number] = _Span(_times(span.capacity, part), held)
        self._forgotten_s = since_s

    def usage(self, now_s: float, since_s: float = -math.inf) -> dict[str, UsedShares]:
        """What part of the cluster each queue had that had any, as of the last ``advance``.

        ``since_s``: what was before that does not count, though it is in the window.
        """
        since_s = max(since_s, now_s - self._whole_s)
        capacity = [0.0, 0.0, 0.0]
        held: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for number, span in sorted(self._spans.items()):
            weight = self._weight(number, now_s, since_s)
            _add_to(capacity, span.capacity, weight)
            for queue, amounts in span.held.items():
                _add_to(held[queue], amounts, weight)
        return {
            queue: UsedShares(
                *(amount / whole if whole > 0 else 0.0 for amount, whole in zip(amounts, capacity, strict=True))
            )
            for queue, amounts in held.items()
            if any(amounts)
        }

    def encode(self, queues: Iterable[str]) -> bytes:
        """What was added up so far of these queues, for ``restore``."""
        totals = {queue: sum(sum(span.held.get(queue, NOTHING)) for span in self._spans.values()) for queue in queues}
        kept = sorted(totals, key=lambda queue: (-totals[queue], queue))[:QUEUES_MAX]
        spans = [
            _WrittenSpan(
                self._limits(number, math.inf)[0],
                (number + 1) * self._span_s,
                _short(span.capacity),
                {queue: _short(span.held[queue]) for queue in sorted(kept) if queue in span.held},
            )
            for number, span in sorted(self._spans.items())
        ]
        return gzip.compress(msgspec.json.encode(_WrittenAccounts(spans)), mtime=0)

    def restore(self, data: bytes, now_s: float) -> None:
        """Add what ``encode`` wrote down, maybe with another window. Raises ValueError for anything else."""
        try:
            written = _decode(gzip.decompress(data))
        except (OSError, EOFError, zlib.error, msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"these are no accounts of usage: {error}") from None
        for span in written.spans:
            length_s = min(span.end_s, now_s) - span.start_s
            if length_s > SHORTEST_S:
                rates = {queue: _times(amounts, 1 / length_s) for queue, amounts in span.held.items()}
                self._add(span.start_s, span.start_s + length_s, now_s, rates, _times(span.capacity, 1 / length_s))

    def _add(self, start_s: float, end_s: float, now_s: float, held: Mapping[str, Amounts], capacity: Amounts) -> None:
        """Between these times queues held that."""
        # The oldest span as a whole: how much of it is in the window is a matter of its weight.
        start_s = max(start_s, self._oldest(now_s) * self._span_s, self._forgotten_s)
        while start_s < end_s:  # Bound: as many turns as there are spans in the window, and one more.
            number = math.floor(start_s / self._span_s)
            until_s = min(end_s, (number + 1) * self._span_s)
            if until_s <= start_s:  # rounding
                until_s = min(end_s, math.nextafter(start_s, math.inf))
            span = self._spans.setdefault(number, _Span())
            seconds = until_s - start_s
            span.capacity = add(span.capacity, _times(capacity, seconds))
            for queue, amounts in held.items():
                if any(amounts):
                    span.held[queue] = add(span.held.get(queue, NOTHING), _times(amounts, seconds))
            start_s = until_s

    def _limits(self, number: int, now_s: float) -> tuple[float, float]:
        """From when and until when the span has what was held."""
        return max(self._forgotten_s, number * self._span_s), min(now_s, (number + 1) * self._span_s)

    def _oldest(self, now_s: float) -> int:
        """The number of the oldest span that reaches into the window."""
        return math.floor((now_s - self._whole_s) / self._span_s)

    def _weight(self, number: int, now_s: float, since_s: float) -> float:
        """How much the span counts: as far as it is after that time, and by its age."""
        start_s, end_s = self._limits(number, now_s)
        if end_s <= start_s:
            return 1.0
        inside = (end_s - max(start_s, since_s)) / (end_s - start_s)
        age_s = now_s - (start_s + end_s) / 2
        return max(0.0, inside) * (0.5 ** (age_s / self._half_life_s) if self._half_life_s > 0 else 1.0)


def _add_to(total: list[float], amounts: Amounts, weight: float) -> None:
    for r, amount in enumerate(amounts):
        total[r] += weight * amount


def _times(amounts: Amounts, factor: float) -> Amounts:
    return amounts[0] * factor, amounts[1] * factor, amounts[2] * factor


def _short(amounts: Amounts) -> Amounts:
    """To four digits, which is as much as accounts of the past need."""
    cpu, memory, gpus = (float(f"{amount:.4g}") for amount in amounts)
    return cpu, memory, gpus
