"""Each thing is worked on once at a time, and what failed comes again later and later."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.work_queue import WorkQueue


def make(patient: bool = False, backoff: Backoff | None = None) -> WorkQueue[str]:
    return WorkQueue(random.Random(1), backoff or Backoff(1.0, 60.0, low=0.8), patient=patient)


async def take(queue: WorkQueue[str]) -> str:
    await queue.wait()
    key = queue.pop()
    assert key is not None
    return key


async def next_of(queue: WorkQueue[str], timeout_s: float = 1.0) -> str:
    async with asyncio.timeout(timeout_s):
        return await take(queue)


async def nothing_in(queue: WorkQueue[str]) -> bool:
    try:
        async with asyncio.timeout(0.03):
            await take(queue)
    except TimeoutError:
        return True
    return False


async def test_what_comes_twice_is_worked_on_once() -> None:
    queue = make()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert queue.pending == 2
    assert [await next_of(queue), await next_of(queue)] == ["a", "b"]
    assert await nothing_in(queue)


async def test_what_comes_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue = make()
    queue.add("a")
    await next_of(queue)
    queue.add("a", 5.0)
    queue.add("a")
    assert await nothing_in(queue)
    queue.done("a")
    assert await next_of(queue) == "a"


async def test_the_earlier_time_holds() -> None:
    queue = make()
    queue.add("a", 60.0)
    assert queue.pending == 0
    queue.add("a", 0.01)
    queue.add("a", 60.0)
    assert await next_of(queue) == "a"
    queue.done("a")
    assert await nothing_in(queue)


async def test_failures_wait_twice_as_long_each_time() -> None:
    queue = make(backoff=Backoff(0.01, 0.04, low=0.8))
    queue.add("a")
    waits = [queue.failed(await next_of(queue)) for _ in range(4)]
    queue.done(await next_of(queue))
    queue.add("a")
    waits.append(queue.failed(await next_of(queue)))
    for wait_s, most_s in zip(waits, (0.01, 0.02, 0.04, 0.04, 0.01), strict=True):
        assert 0.8 * most_s <= wait_s <= most_s


@pytest.mark.parametrize("patient", [False, True])
async def test_news_of_what_failed(patient: bool) -> None:
    queue: Any = make(patient)
    queue.add("a")
    await next_of(queue)
    queue.add("a")  # while it fails
    queue.failed("a")
    queue.add("a")  # while it waits
    assert await nothing_in(queue) == patient
