"""The page of the last cycle: made in a thread when somebody asks, once for all, and not more often than every few
seconds, so that it takes a tenth of a core at most. It keeps what queues held in the last hour.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass

from kai_sched.answers.overview import overview
from kai_sched.answers.words import minute
from kai_sched.answers.workloads import workloads_of
from kai_sched.operator.clock import Clock
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.report.page.content import PageInput
from kai_sched.report.page.history import History
from kai_sched.report.page.node_map import node_map
from kai_sched.report.page.rendering import render

PERIOD_S = 5.0
# Between two pages there are so many times as many seconds as a page takes: a second at 20,000 pods, in a thread that
# competes with cycles and the event loop.
REST = 10.0
NOTE = "The reason of each workload is that of the last cycle; what would start it: kai-sched explain NAME --cluster."


@dataclass(frozen=True, slots=True)
class MadePage:
    """A page: the number of its cycle, and the document as it is and compressed."""

    number: int
    body: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class _Newest:
    number: int
    cycle: DecidedCycle
    now_ns: int


class LivePage:
    """For one event loop. ``title`` is that of the page; where it is not served (``is_on``), no cycle is kept."""

    def __init__(self, is_on: bool, title: str, clock: Clock) -> None:
        self._is_on = is_on
        self._title = title
        self._clock = clock
        self._history = History()
        self._newest: _Newest | None = None
        self._made: MadePage | None = None
        self._due_at = 0.0  # when the next page may be made
        self._making = asyncio.Lock()
        self._changed = asyncio.Event()

    def after(self, report: Callable[[DecidedCycle], None]) -> Callable[[DecidedCycle], None]:
        """Return what reports a cycle as ``report`` does, and then shows it here."""

        def both(cycle: DecidedCycle) -> None:
            report(cycle)
            self.decided(cycle)

        return both if self._is_on else report

    def decided(self, cycle: DecidedCycle) -> None:
        """A cycle was carried out. Costs nothing while nobody looks, but for a sample of the queues once a minute."""
        now_ns = self._clock.wall_ns()
        self._history.add(now_ns, cycle.result.queues)
        self._newest = _Newest(self._newest.number + 1 if self._newest else 1, cycle, now_ns)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def page(self) -> MadePage | None:
        """The page of the newest cycle, or the last one where it is not due; None before the first cycle."""
        async with self._making:
            newest, made = self._newest, self._made
            if newest is None or (made is not None and not self._is_due(newest, made)):
                return made
            began = self._clock.monotonic()
            self._made = await asyncio.to_thread(_make, newest, self._title, self._history.copy())
            ended = self._clock.monotonic()
            self._due_at = ended + max(PERIOD_S, REST * (ended - began))
            return self._made

    async def newer_than(self, number: int) -> int:
        """Wait until a page of a later cycle than this can be had; return the number of that cycle."""
        while self._newest is None or self._newest.number <= number:
            await self._changed.wait()
        await asyncio.sleep(max(0.0, self._due_at - self._clock.monotonic()))
        return self._newest.number

    def _is_due(self, newest: _Newest, made: MadePage) -> bool:
        return newest.number > made.number and self._clock.monotonic() >= self._due_at


def _make(newest: _Newest, title: str, history: History) -> MadePage:
    """Runs in a thread: the view and the result of a cycle do not change any more, and the history is its own."""
    cluster, result, config = newest.cycle.cluster, newest.cycle.result, newest.cycle.config
    found = overview(cluster, result, config, newest.now_ns)
    page = PageInput(
        overview=found,
        nodes=node_map(cluster, result, config, workloads_of(cluster)),
        as_of=f"as of {minute(newest.now_ns)}",
        title=title,
        notes=[NOTE] if found.waiting else [],
        history=history.lines(newest.now_ns, found.room.resource),
        is_live=True,
        number=newest.number,
    )
    body = render(page).encode("utf-8")
    return MadePage(newest.number, body, gzip.compress(body, 5, mtime=0))
