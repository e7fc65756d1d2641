"""The queue of status writes and Events: how those of one object are merged, how many may wait, and which are dropped.
A burst of changes costs one request.

The status reporter and others submit writes; the status writer takes them. Invariants: at most one write of a key is
under way, and later writes of the key are merged and sent with its next attempt or after it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from kai_sched.cluster.event_budget import EventBudget
from kai_sched.cluster.failure import ApiFailure
from kai_sched.plan.effects import Annotate, Emit, PatchStatus, SetCondition, Write
from kai_sched.telemetry.unexpected import FAULTS

QUEUE_MAX = 50_000
EVENTS_MAX = 5_000

Key = tuple[str, str, str, str]


class WriteQueue:
    """Implements ``delivery.ItemQueue``.

    If more than QUEUE_MAX writes or EVENTS_MAX events of a queue wait, the oldest is dropped. Events have a budget.
    Events about pods are many, and the events about their pod groups say the same, so they are sent after other events.

    Parameters
    ----------
    lost
        Called with each write that is given up, and with the failure; the failure is None for one that was dropped.
    budget
        The rate limit of events.
    """

    def __init__(self, lost: Callable[[Write, ApiFailure | None], None], budget: EventBudget | None = None) -> None:
        self._lost = lost
        self.budget = budget or EventBudget(time.monotonic)
        self._waiting: OrderedDict[Key, Write] = OrderedDict()
        self._events: OrderedDict[Key, Write] = OrderedDict()
        self._pod_events: OrderedDict[Key, Write] = OrderedDict()
        self._under_way: set[Key] = set()
        self._later: dict[Key, Write] = {}  # about things under way
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """The number of writes that wait, without events."""
        return len(self._waiting)

    @property
    def events(self) -> int:
        """The number of events that wait."""
        return len(self._events) + len(self._pod_events)

    async def drained(self) -> None:
        """Return once nothing waits but events beyond their budget."""
        await self._idle.wait()

    def submit(self, writes: Iterable[Write]) -> None:
        """Add the writes."""
        for write in writes:
            self._idle.clear()
            key = _key(write)
            queue = self._queue(write)
            into = self._later if key in self._under_way else queue
            into[key] = _merged(into.get(key), write)
            if len(queue) > (QUEUE_MAX if queue is self._waiting else EVENTS_MAX):
                self.give_up(queue.popitem(last=False)[1], None)
        self._news.set()

    async def wait(self) -> None:
        """See ``delivery.ItemQueue``."""
        wait_s = self.budget.wait_s() if self.events else None
        if not self._waiting and wait_s != 0.0:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait()

    def pass_on(self) -> None:
        """See ``delivery.ItemQueue``. All workers are woken, so there is nobody to pass it on to."""

    def pop(self) -> Write | None:
        """See ``delivery.ItemQueue``."""
        queue = self._next()
        if not queue:
            return None
        key, write = queue.popitem(last=False)
        self._under_way.add(key)
        return write

    def with_later(self, write: Write) -> Write:
        """Return the write under way, merged with what has been submitted about the same thing since."""
        later = self._later.pop(_key(write), None)
        return write if later is None else _merged(write, later)

    def finish(self, write: Write) -> None:
        """See ``delivery.ItemQueue``."""
        key = _key(write)
        self._under_way.discard(key)
        if key in self._later:
            self._queue(write)[key] = self._later.pop(key)
        if not self._next() and not self._under_way:
            self._idle.set()

    def give_up(self, write: Write, failure: ApiFailure | None) -> None:
        """Report that the write will not be sent."""
        try:
            self._lost(write, failure)
        except Exception as error:
            FAULTS.note("writer", describe(write), error)

    def _queue(self, write: Write) -> OrderedDict[Key, Write]:
        if not isinstance(write, Emit):
            return self._waiting
        return self._pod_events if write.ref.kind == "Pod" else self._events

    def _next(self) -> OrderedDict[Key, Write]:
        """The queue of the next write: events first, as long as their budget lasts."""
        if self.events and not self.budget.wait_s():
            return self._events or self._pod_events
        return self._waiting


def describe(write: Write) -> str:
    """Return what logs call the write."""
    return f"{type(write).__name__} {write.ref.kind} {write.ref.key}"


def _key(write: Write) -> Key:
    kind = f"{write.ref.kind}:{write.ref.uid or write.ref.key}"
    match write:
        case Emit():
            return ("event", kind, write.reason, write.message)
        case SetCondition():
            return ("condition", kind, write.type, "")
        case _:
            return (type(write).__name__, kind, "", "")


def _both(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that has the effect of both, one after the other."""
    both = dict(first)
    for name, value in then.items():
        before = both.get(name)
        both[name] = _both(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return both


def _merged(before: Write | None, write: Write) -> Write:
    match before, write:
        case PatchStatus(), PatchStatus():
            return PatchStatus(write.ref, _both(before.status, write.status))
        case Annotate(), Annotate():
            return Annotate(write.ref, {**before.annotations, **write.annotations})
        case SetCondition(), SetCondition():
            changes = before.changes_status or write.changes_status
            return SetCondition(write.ref, write.type, write.status, write.reason, write.message, changes)
        case _:
            return write
