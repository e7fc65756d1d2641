"""The CPU time of callbacks in the event loop: how it is measured, and from which time on a callback is logged.

Each callback is measured, and so is each step of a task. Reading the wall clock is cheap; reading the CPU clock of the
thread is a system call, made about once a millisecond. So a callback is charged at most what the thread has spent since
the last reading, and never more than the time that the callback took.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import structlog
import uvloop
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
SHORT_S = BUCKETS_S[0]
SLOW_S = 0.05

log = structlog.get_logger("loop")
_wall, _cpu = time.perf_counter, time.thread_time
_call_soon, _call_soon_threadsafe = uvloop.Loop.call_soon, uvloop.Loop.call_soon_threadsafe
_call_later, _call_at = uvloop.Loop.call_later, uvloop.Loop.call_at


class MeasuredLoop(uvloop.Loop):
    """Each callback goes through ``_measured``; those of transports, which only copy bytes, are not seen."""

    def __init__(self) -> None:
        super().__init__()
        self._cpu_at, self._cpu_s = -1.0, 0.0  # when the CPU clock was looked at last, and what it said
        self._short, self._short_s = 0, 0.0
        self._counts = [0] * len(BUCKETS_S)  # of longer ones, by the first bound that is not exceeded; none: beyond
        self._longer, self._longer_s = 0, 0.0
        self.longest_s = 0.0
        self._garbage_began, self._garbage_s, self._garbage_before_s = 0.0, 0.0, 0.0
        gc.callbacks.append(self._note_garbage_collection)

    def close(self) -> None:
        """As in any loop."""
        gc.callbacks.remove(self._note_garbage_collection)
        super().close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As in any loop, but log errors of asynchronous generators at debug: they occur when the process ends."""
        if "asyncgen" in context:
            log.debug("loop.generator_closed", what=str(context["asyncgen"]), problem=str(context.get("exception")))
        else:
            super().call_exception_handler(context)

    def _note_garbage_collection(self, phase: str, _: dict[str, int]) -> None:
        """Measure garbage collection: one thread does it, and all others wait."""
        if phase == "start":
            self._garbage_began = _wall()
        else:
            self._garbage_s += _wall() - self._garbage_began

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """As in any loop."""
        return _call_soon(self, self._measured, callback, args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """As in any loop."""
        return _call_soon_threadsafe(self, self._measured, callback, args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As in any loop."""
        return _call_later(self, delay, self._measured, callback, args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As in any loop."""
        return _call_at(self, when, self._measured, callback, args, context=context)

    def _measured(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        began = _wall()
        if began - self._cpu_at > SHORT_S:
            self._cpu_at, self._cpu_s, self._garbage_before_s = began, _cpu(), self._garbage_s
        try:
            callback(*args)
        finally:
            spent = _wall() - began
            if spent <= SHORT_S:
                self._short += 1
                self._short_s += spent
            else:
                self._note(callback, spent)

    def _note(self, callback: Callable[..., Any], wall_s: float) -> None:
        cpu = _cpu()
        spent, garbage_s = min(wall_s, cpu - self._cpu_s), self._garbage_s - self._garbage_before_s
        self._cpu_at, self._cpu_s, self._garbage_before_s = _wall(), cpu, self._garbage_s
        self._longer += 1
        self._longer_s += spent
        for place, bound in enumerate(BUCKETS_S):
            if spent <= bound:
                self._counts[place] += 1
                break
        self.longest_s = max(self.longest_s, spent)
        if spent > SLOW_S:
            facts = {"cpu_ms": round(spent * 1000, 1), "garbage_ms": round(garbage_s * 1000, 1)}
            log.warning("loop.slow_callback", what=describe(callback), **facts)

    def totals(self) -> tuple[list[int], int, float]:
        """Callbacks by BUCKETS_S, each bucket by itself; all of them; and their seconds together."""
        counts = self._counts.copy()
        counts[0] += self._short
        return counts, self._short + self._longer, self._short_s + self._longer_s


class LoopTimes(Collector):
    """What a loop has measured. It is read while it goes on, so that the numbers may be some callbacks apart."""

    def __init__(self, loop: MeasuredLoop, prefix: str) -> None:
        self._loop = loop
        self._prefix = prefix

    def collect(self) -> Iterator[Metric]:
        """A histogram, and the longest of all."""
        counts, n, total_s = self._loop.totals()
        buckets: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip(BUCKETS_S, counts, strict=True):
            so_far += count
            buckets.append((str(bound), so_far))
        family = HistogramMetricFamily(
            f"{self._prefix}event_loop_callback_cpu_seconds",
            "CPU time of the event loop's thread in one callback, during which it does nothing else",
        )
        family.add_metric([], [*buckets, ("+Inf", max(n, so_far))], total_s)
        yield family
        longest = GaugeMetricFamily(
            f"{self._prefix}event_loop_callback_cpu_seconds_max", "The longest of them since the process began"
        )
        longest.add_metric([], self._loop.longest_s)
        yield longest


def describe(callback: Callable[..., Any]) -> str:
    """The task and what it runs, or the function."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {owner.get_name()}: {getattr(owner.get_coro(), '__qualname__', owner.get_coro())}"
    return str(getattr(callback, "__qualname__", callback))
