"""How a write is sent until its outcome is known: validated before each attempt, repeated or given up as ``retry``
says, by workers that empty a queue.

The pod binder, the pod deleter, the status writer, the volume binder and the grouper use it. Invariants: one worker at
a time works on an item, an item is pending until its work has ended, and an exception costs only its own item.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from kai_sched.cluster.failure import ApiFailure
from kai_sched.cluster.retry import RetryAction, RetryPolicy
from kai_sched.telemetry.unexpected import FAULTS

BUSY_PAUSE_S = 0.02

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Delivery(ABC, Generic[Outcome]):
    """One write on its way to the API server. ``Outcome`` says how it ended; it is never None."""

    def obsolete(self) -> str:
        """Return why the write must not be sent any more, or an empty string. Called right before each attempt."""
        return ""

    @abstractmethod
    async def send(self) -> Outcome:
        """Send the request once. Raises ApiFailure."""

    async def inspect(self, failure: ApiFailure) -> Outcome | None:
        """Read the object after a failed attempt that may have been carried out; return None to send it again."""
        raise NotImplementedError(f"the retry policy of this write never inspects: {failure}")

    async def give_up(self, reason: str, failure: ApiFailure | None) -> Outcome:
        """Return the outcome of a write that is not sent again; ``failure`` is None for one that became obsolete.

        Raises the failure where nothing else is said.
        """
        try:
            raise failure or ValueError(reason)
        finally:
            # A frame that names what it raises would stay until a full garbage collection finds it.
            del failure


async def deliver(write: Delivery[Outcome], policy: RetryPolicy, rng: random.Random) -> Outcome:
    """Send the write until it succeeds or is given up, as ``policy`` says, and return its outcome."""
    attempt = 0
    while True:
        attempt += 1
        if reason := write.obsolete():
            return await write.give_up(reason, None)
        try:
            return await write.send()
        except ApiFailure as failure:
            action = policy.action(failure)
            if action is RetryAction.INSPECT:
                outcome = await write.inspect(failure)
                if outcome is not None:
                    return outcome
            if action is RetryAction.GIVE_UP or attempt >= policy.attempts:
                return await write.give_up(str(failure), failure)
            wait_s = policy.backoff.wait_s(attempt, rng, failure.retry_after_s)
        await asyncio.sleep(wait_s)


class ItemQueue(Protocol[Item]):
    """What workers take items from. A queue belongs to one event loop and is built before its workers."""

    async def wait(self) -> None:
        """Return once there may be an item for this worker."""

    def pass_on(self) -> None:
        """Let another worker have the item that ``wait`` announced."""

    def pop(self) -> Item | None:
        """Return the next item, which is under way until ``finish``; None if another worker was faster."""

    def finish(self, item: Item) -> None:
        """The work on the item has ended, one way or the other."""


class Workers(Generic[Item]):
    """Works on the items of a queue, in their order, ``count`` at a time.

    Parameters
    ----------
    name
        What logs and metrics call these workers.
    queue
        Where the items come from.
    work
        Called with each item. An exception ends the work on that item only.
    count
        How many items are under way at most.
    is_busy
        While it returns true only the first worker takes items: something more urgent is under way.
    describe
        What logs call an item.
    """

    def __init__(
        self,
        name: str,
        queue: ItemQueue[Item],
        work: Callable[[Item], Awaitable[None]],
        count: int,
        is_busy: Callable[[], bool] | None = None,
        describe: Callable[[Item], str] = repr,
    ) -> None:
        self._name = name
        self._queue = queue
        self._work = work
        self._count = count
        self._is_busy = is_busy
        self._describe = describe

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_worker(None))
            for _ in range(1, self._count):
                tasks.create_task(self._run_worker(self._is_busy))

    async def _run_worker(self, is_busy: Callable[[], bool] | None) -> None:
        while True:
            await self._queue.wait()
            if is_busy is not None and is_busy():
                self._queue.pass_on()
                await asyncio.sleep(BUSY_PAUSE_S)
                continue
            item = self._queue.pop()
            if item is None:
                continue
            try:
                await self._work(item)
            except Exception as error:
                FAULTS.note(self._name, self._describe(item), error)
            finally:
                self._queue.finish(item)
