"""How one part of the process is started, drained and stopped (``Part``); ``app`` has the list of parts.

The list is in the order of the data flow: a part that creates work comes before the parts that do the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Run = Callable[[], Awaitable[None]]


class Part:
    """One part.

    Parameters
    ----------
    name
        What logs call it.
    run
        Its work, until cancelled; None for a part without a task.
    drain
        Returns once what is under way has ended.
    stop
        Called after the task has ended.
    ends_on_drain
        Whether draining ends the task: the part makes work for others.
    may_end
        Whether the task ends by itself; for other parts that is a fault, and ends the process.
    """

    def __init__(
        self,
        name: str,
        run: Run | None = None,
        *,
        drain: Run | None = None,
        stop: Run | None = None,
        ends_on_drain: bool = False,
        may_end: bool = False,
    ) -> None:
        self.name = name
        self._run = run
        self._drain = drain
        self._stop = stop
        self._ends_on_drain = ends_on_drain
        self._may_end = may_end
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self, ended: Callable[[str, BaseException | None], None]) -> None:
        """Start the task. ``ended`` is called with the name and the exception if it ends and should not have."""
        if self._run is not None:
            self._task = asyncio.create_task(_as_coroutine(self._run), name=self.name)
            self._task.add_done_callback(lambda task: self._ended(task, ended))

    async def drain(self) -> None:
        """Finish what is under way."""
        if self._ends_on_drain:
            await self._cancel()
        if self._drain is not None:
            await self._drain()

    async def stop(self) -> None:
        """End the task, whatever is under way."""
        await self._cancel()
        if self._stop is not None:
            await self._stop()

    async def _cancel(self) -> None:
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None], ended: Callable[[str, BaseException | None], None]) -> None:
        if not (task.cancelled() or self._is_stopping or self._may_end):
            ended(self.name, task.exception())


async def _as_coroutine(run: Run) -> None:
    await run()
