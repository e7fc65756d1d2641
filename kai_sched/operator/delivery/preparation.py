"""What happens to a group between its decision and its binds, where that takes time: a task for each group, and how its
failure is reported.

The claim binder and the share binder use it; each says what has to be prepared, and for which groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kai_sched.cluster.failure import NOT_FOUND, NOT_LEADER, ApiFailure
from kai_sched.cluster.pod_binder import FAULT, OBSOLETE, BindFailure
from kai_sched.plan.effects import Bind
from kai_sched.telemetry.unexpected import FAULTS

Prepare = Callable[[Sequence[Bind]], Awaitable[BindFailure | None]]


class BindChecker(Protocol):
    """Validates binds, and hears of those that are given up. The bind tracker is one."""

    def check(self, bind: Bind) -> str:
        """Return why the bind must not be sent any more, or an empty string."""

    def failed(self, bind: Bind, failure: BindFailure) -> None:
        """The bind was given up."""


class Preparation:
    """Prepares groups side by side, and hands each on when it is prepared. For one event loop.

    Parameters
    ----------
    name
        What logs call it.
    prepare
        Prepares a group; returns why it cannot be bound, or None once it can. An exception is such a reason, too.
    submit
        Called with a group that is prepared.
    observer
        Hears of the binds of a group that is not.
    """

    def __init__(
        self, name: str, prepare: Prepare, submit: Callable[[Sequence[Bind]], None], observer: BindChecker
    ) -> None:
        self._name = name
        self._prepare = prepare
        self._submit = submit
        self._observer = observer
        self._under_way: set[asyncio.Task[None]] = set()

    def start(self, group: Sequence[Bind]) -> None:
        """Begin with the group."""
        task = asyncio.create_task(self._carry_out(group), name=self._name)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def stop(self) -> None:
        """Give up what is under way; the next replica that leads takes it up."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry_out(self, group: Sequence[Bind]) -> None:
        try:
            failure = await self._prepare(group)
        except Exception as error:
            failure = BindFailure(FAULT, FAULTS.note(self._name, group[0].pod, error))
        if failure is None:
            self._submit(group)
            return
        for bind in group:
            try:
                self._observer.failed(bind, failure)
            except Exception as error:
                FAULTS.note(self._name, bind.pod, error)


def request_failure(failure: ApiFailure, reason: str) -> BindFailure:
    """Why a bind is given up after a request that failed; ``reason`` where there was no answer.

    An object that is gone makes the bind obsolete: the next cycle decides again.
    """
    if failure.status == NOT_FOUND:
        return BindFailure(OBSOLETE, str(failure), failure.status)
    known = failure.status or failure.reason == NOT_LEADER
    return BindFailure(failure.reason if known else reason, str(failure), failure.status)
