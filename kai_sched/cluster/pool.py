"""Workers that do what is submitted, each item by itself: what is wrong with one does not stop the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from kai_sched.telemetry.faults import FAULTS

Item = TypeVar("Item")


class Pool(Generic[Item]):
    """For one event loop: ``work`` is called with each item in the order of ``submit``, ``workers`` at a time.

    An item is pending until ``work`` has returned. An exception ends the work on its item, and is told as ``name``.
    """

    def __init__(self, name: str, work: Callable[[Item], Awaitable[None]], workers: int) -> None:
        self._name = name
        self._work = work
        self._workers = workers
        self._waiting: deque[Item] = deque()
        self._news = asyncio.Semaphore(0)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """Items that wait or are worked on."""
        return len(self._waiting) + self._under_way

    async def drained(self) -> None:
        """Return once nothing is pending."""
        await self._idle.wait()

    def submit(self, items: Iterable[Item]) -> None:
        """Work on these, in this order."""
        for item in items:
            self._idle.clear()
            self._waiting.append(item)
            self._news.release()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._run_worker())

    async def _run_worker(self) -> None:
        while True:
            await self._news.acquire()
            item = self._waiting.popleft()
            self._under_way += 1
            try:
                await self._work(item)
            except Exception as error:
                FAULTS.note(self._name, repr(item), error)
            finally:
                self._under_way -= 1
                if not self.pending:
                    self._idle.set()
