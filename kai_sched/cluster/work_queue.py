"""The queues of binds, evictions and grouping requests: in order of arrival, or by key with a delay after a failure.
``delivery.Workers`` take items from them.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from kai_sched.cluster.backoff import Backoff

Item = TypeVar("Item")
Key = TypeVar("Key")


class FifoQueue(Generic[Item]):
    """Items in the order of ``submit``. Binds and evictions use it: each item is different and none is merged."""

    def __init__(self) -> None:
        self._waiting: deque[Item] = deque()
        self._ready = asyncio.Semaphore(0)
        self._sleeping = 0  # workers that wait; waking more of them than there are takes time for each item
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """The number of items that wait or are under way."""
        return len(self._waiting) + self._under_way

    async def drained(self) -> None:
        """Return once nothing is pending."""
        await self._idle.wait()

    def submit(self, items: Iterable[Item]) -> None:
        """Append the items."""
        for item in items:
            self._idle.clear()
            self._waiting.append(item)
            self.pass_on()

    async def wait(self) -> None:
        """See ``delivery.ItemQueue``."""
        if not self._waiting:
            self._sleeping += 1
            await self._ready.acquire()

    def pass_on(self) -> None:
        """See ``delivery.ItemQueue``."""
        if self._sleeping:
            self._sleeping -= 1
            self._ready.release()

    def pop(self) -> Item | None:
        """See ``delivery.ItemQueue``."""
        if not self._waiting:
            return None
        self._under_way += 1
        return self._waiting.popleft()

    def finish(self, _item: Item) -> None:
        """See ``delivery.ItemQueue``."""
        self._under_way -= 1
        if not self.pending:
            self._idle.set()


class WorkQueue(Generic[Key]):
    """Keys that are worked on one at a time, and again later where that failed, as in client-go's work queue.

    The queue holds keys only, so it is bounded by the number of objects that its users know.

    Parameters
    ----------
    rng
        The source of jitter.
    backoff
        The delay after failures in a row of one key.
    patient
        Whether a key that failed waits out its delay even if it is added again; otherwise it is due at once then.
    """

    def __init__(self, rng: random.Random, backoff: Backoff, *, patient: bool) -> None:
        self._rng = rng
        self._backoff = backoff
        self._patient = patient
        self._ready: OrderedDict[Key, None] = OrderedDict()
        self._delayed: dict[Key, asyncio.TimerHandle] = {}
        self._under_way: set[Key] = set()
        self._again: dict[Key, float] = {}  # keys added while under way, with the delay in seconds
        self._failures: dict[Key, int] = {}
        self._permits = asyncio.Semaphore(0)

    @property
    def pending(self) -> int:
        """The number of keys that are ready or under way; delayed keys do not count."""
        return len(self._ready) + len(self._under_way)

    def add(self, key: Key, delay_s: float = 0.0) -> None:
        """Work on the key after ``delay_s`` seconds; a key that is due earlier already stays so."""
        if key in self._under_way:
            self._again[key] = min(delay_s, self._again.get(key, delay_s))
            return
        if key in self._ready:
            return
        loop = asyncio.get_running_loop()
        if key in self._delayed:
            waits_out = self._patient and key in self._failures
            if waits_out or self._delayed[key].when() <= loop.time() + delay_s:
                return
            self._delayed.pop(key).cancel()
        if delay_s:
            self._delayed[key] = loop.call_later(delay_s, self._due, key)
        else:
            self._put(key)

    def has_failed(self, key: Key) -> bool:
        """Return whether the last work on the key failed."""
        return key in self._failures

    async def wait(self) -> None:
        """See ``delivery.ItemQueue``."""
        await self._permits.acquire()

    def pass_on(self) -> None:
        """See ``delivery.ItemQueue``."""
        self._permits.release()

    def pop(self) -> Key | None:
        """See ``delivery.ItemQueue``. The key is under way until ``done``, ``failed`` or ``finish``."""
        if not self._ready:
            return None
        key = self._ready.popitem(last=False)[0]
        self._under_way.add(key)
        return key

    def done(self, key: Key) -> None:
        """The work on the key succeeded: its failures are forgotten."""
        self._failures.pop(key, None)
        self._end(key)

    def failed(self, key: Key) -> float:
        """The work on the key failed: add it again after the backoff, and return that delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait_s = self._backoff.wait_s(failures, self._rng)
        if self._patient:
            self._again.pop(key, None)
        self._end(key)
        self.add(key, wait_s)
        return wait_s

    def finish(self, key: Key) -> None:
        """See ``delivery.ItemQueue``. A key that is neither done nor failed by now has failed, by an exception."""
        if key in self._under_way:
            self.failed(key)

    def _end(self, key: Key) -> None:
        self._under_way.discard(key)
        if key in self._again:
            self.add(key, self._again.pop(key))

    def _due(self, key: Key) -> None:
        del self._delayed[key]
        self._put(key)

    def _put(self, key: Key) -> None:
        self._ready[key] = None
        self._permits.release()
