"""The event loop's account of itself: each callback is seen, and only CPU time counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import pytest
import structlog
import uvloop

from kai_sched.model.garbage import collector_paused
from kai_sched.telemetry.loop_time import LoopTimes, MeasuredLoop

LONG_S = 0.08


def busy() -> None:
    end = time.thread_time() + LONG_S
    while time.thread_time() < end:
        pass


async def in_a_task() -> None:
    async def step() -> None:
        await asyncio.sleep(0)
        busy()

    await asyncio.create_task(step(), name="evil")


async def soon() -> None:
    asyncio.get_running_loop().call_soon(busy)
    await asyncio.sleep(0.001)


async def later() -> None:
    asyncio.get_running_loop().call_later(0.001, busy)
    await asyncio.sleep(0.01)


async def at() -> None:
    loop = asyncio.get_running_loop()
    loop.call_at(loop.time(), busy)
    await asyncio.sleep(0.01)


async def from_a_thread() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def work() -> None:
        busy()
        done.set()

    await loop.run_in_executor(None, loop.call_soon_threadsafe, work)
    await done.wait()


async def quiet() -> None:
    for _ in range(100):
        await asyncio.sleep(0)
    time.sleep(0.06)  # waits, and spends nothing  # noqa: ASYNC251


def measured(work: Coroutine[Any, Any, None]) -> MeasuredLoop:
    async def run() -> MeasuredLoop:
        await work
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        return loop

    with collector_paused():  # what other tests left behind takes long to look through
        return uvloop.run(run(), loop_factory=MeasuredLoop)


@pytest.mark.parametrize(
    ("work", "name"),
    [(in_a_task, "task evil"), (soon, "busy"), (later, "busy"), (at, "busy"), (from_a_thread, "work")],
)
def test_whatever_takes_long_is_seen_and_named(work: Any, name: str) -> None:
    with structlog.testing.capture_logs() as told:
        loop = measured(work())
    assert LONG_S <= loop.longest_s < LONG_S + 0.02
    (line,) = told
    assert (line["event"], line["log_level"]) == ("loop.slow_callback", "warning")
    assert name in line["what"]
    assert line["cpu_ms"] >= 1000 * LONG_S


def test_waiting_is_not_counted_as_work() -> None:
    loop = measured(quiet())
    counts, n, total_s = loop.totals()
    assert loop.longest_s < 0.05
    assert n >= 100
    assert sum(counts) == n
    assert total_s < 0.05


def test_it_is_a_histogram_and_its_longest() -> None:
    histogram, longest = LoopTimes(measured(soon()), "kai_").collect()
    assert (histogram.name, histogram.type) == ("kai_event_loop_callback_cpu_seconds", "histogram")
    found = {sample.labels.get("le", sample.name): sample.value for sample in histogram.samples}
    assert found["0.05"] == found["+Inf"] - 1
    assert found["0.1"] == found["+Inf"]
    assert found["kai_event_loop_callback_cpu_seconds_sum"] >= LONG_S
    (sample,) = longest.samples
    assert sample.name == "kai_event_loop_callback_cpu_seconds_max"
    assert sample.value >= LONG_S


def test_a_generator_that_cannot_be_closed_at_the_end_is_no_error() -> None:
    async def stubborn() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            raise RuntimeError("generator didn't stop after athrow()")

    async def run() -> None:
        held.append(stubborn())
        await anext(held[0])

    held: list[AsyncGenerator[int, None]] = []
    with structlog.testing.capture_logs() as told:
        uvloop.run(run(), loop_factory=MeasuredLoop)
    (line,) = told
    assert (line["event"], line["log_level"]) == ("loop.generator_closed", "debug")
    assert "didn't stop" in line["problem"]


def test_callbacks_get_their_arguments_and_may_fail() -> None:
    told: list[object] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        loop.call_soon(told.append, "argument")
        loop.call_soon(int, "no number")
        handle = loop.call_later(0.001, told.append, "cancelled")
        handle.cancel()
        await asyncio.sleep(0.01)

    uvloop.run(run(), loop_factory=MeasuredLoop)
    assert told[0] == "argument"
    assert isinstance(told[1], ValueError)
    assert len(told) == 2
