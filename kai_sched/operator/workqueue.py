"""What is to be worked on, by name: each at most once at a time, and what failed again later."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from typing import Generic, TypeVar

from kai_sched.cluster.backoff import Backoff

Key = TypeVar("Key")

BACKOFF = Backoff(1.0, 60.0, low=0.8)


class WorkQueue(Generic[Key]):
    """For one event loop. It holds no more than the names of what is there, so its users bound it.

    ``patient``: what failed waits out its time, whatever comes meanwhile; else news of it is reason to try again.
    """

    def __init__(self, chance: random.Random, *, patient: bool) -> None:
        self._chance = chance
        self._patient = patient
        self._ready: OrderedDict[Key, None] = OrderedDict()
        self._later: dict[Key, asyncio.TimerHandle] = {}
        self._under_way: set[Key] = set()
        self._again: dict[Key, float] = {}  # came while under way: in how many seconds
        self._failures: dict[Key, int] = {}
        self._news = asyncio.Semaphore(0)

    @property
    def pending(self) -> int:
        """What is ready or under way; what waits for its time is not counted."""
        return len(self._ready) + len(self._under_way)

    def add(self, key: Key, delay_s: float = 0.0) -> None:
        """Work on it, in so many seconds or when it is due already if that is earlier."""
        if key in self._under_way:
            self._again[key] = min(delay_s, self._again.get(key, delay_s))
            return
        if key in self._ready:
            return
        loop = asyncio.get_running_loop()
        if key in self._later:
            waits_out = self._patient and key in self._failures
            if waits_out or self._later[key].when() <= loop.time() + delay_s:
                return
            self._later.pop(key).cancel()
        if delay_s:
            self._later[key] = loop.call_later(delay_s, self._due, key)
        else:
            self._put(key)

    async def take(self) -> Key:
        """The next one, which is under way until ``done`` or ``failed``."""
        await self._news.acquire()
        key = self._ready.popitem(last=False)[0]
        self._under_way.add(key)
        return key

    def done(self, key: Key) -> None:
        """It went well."""
        self._failures.pop(key, None)
        self._end(key)

    def failed(self, key: Key) -> float:
        """It did not: it comes again in 1 s, doubling to 60 s. Returns the seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait_s = BACKOFF.wait_s(failures, self._chance)
        if self._patient:
            self._again.pop(key, None)
        self._end(key)
        self.add(key, wait_s)
        return wait_s

    def _end(self, key: Key) -> None:
        self._under_way.discard(key)
        if key in self._again:
            self.add(key, self._again.pop(key))

    def _due(self, key: Key) -> None:
        del self._later[key]
        self._put(key)

    def _put(self, key: Key) -> None:
        self._ready[key] = None
        self._news.release()
