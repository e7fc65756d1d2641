"""When a cycle takes too long, or cycles fail for too long: what readiness, a metric and the log say, and when the
process ends so that another replica leads.

The solver's thread cannot be stopped from outside. So a process that ends because of it is killed if it has not ended
in order after a while, by a thread of the interpreter that needs no lock of it (faulthandler).
"""

from __future__ import annotations

import asyncio
import faulthandler
from collections.abc import Callable

import structlog

from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.telemetry.metrics import Metrics

log = structlog.get_logger("cycle")

LATE_S = 10.0  # a cycle that takes longer is told
PERIOD_S = 1.0
END_S = 40.0  # to end in order


class CycleWatch:
    """For one event loop.

    Parameters
    ----------
    busy_since
        Since when a cycle has been running (``monotonic``); None while there is none.
    monotonic
        Seconds that never go back.
    health
        Knows about cycles that fail.
    metrics
        Shows for how long a cycle has been running.
    limit_s
        After this time the process ends; 0: never.
    """

    def __init__(
        self,
        busy_since: Callable[[], float | None],
        monotonic: Callable[[], float],
        health: CycleHealth,
        metrics: Metrics,
        limit_s: float,
    ) -> None:
        self._busy_since = busy_since
        self._monotonic = monotonic
        self._health = health
        self._limit_s = limit_s
        self._logged: float | None = None  # the start of the cycle that was logged as late
        metrics.watch_cycle(self.running_s)

    def running_s(self) -> float:
        """For how long the cycle that is under way has been running."""
        since = self._busy_since()
        return 0.0 if since is None else self._monotonic() - since

    def late_problem(self) -> str:
        """The check "cycle" of readiness."""
        lasted_s = self.running_s()
        return f"a cycle has been running for {lasted_s:.0f} s" if lasted_s > LATE_S else ""

    def lasting_problem(self) -> str:
        """Why the process has to end, or an empty string: the check "cycle" of /healthz."""
        lasted_s = self.running_s()
        if 0.0 < self._limit_s < lasted_s:
            return f"a cycle has been running for {lasted_s:.0f} s"
        return self._health.problem() if self._limit_s > 0.0 else ""

    async def run(self) -> None:
        """Return when the process has to end."""
        while not (problem := self.lasting_problem()):
            since = self._busy_since()
            if since is not None and since != self._logged and self.late_problem():
                self._logged = since
                log.warning("cycle.late", seconds=round(self.running_s(), 1), ends_at=self._limit_s)
            await asyncio.sleep(PERIOD_S)
        log.error("cycle.lasts", problem=problem)
        faulthandler.dump_traceback_later(END_S, exit=True)
