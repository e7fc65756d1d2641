"""The cycle loop: how long it rests between cycles, what a standby does, and how a view is decided in the solver's
thread.

It does not poll: a cycle runs when one is requested, or when a time that matters has come. The solver runs in a thread
of its own; everything else here belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from kai_sched.cycle.quarantine import Outcome, Quarantine, Run
from kai_sched.cycle.run import run_cycle
from kai_sched.files.recording import CycleInputs
from kai_sched.model.claims.selectors import SelectorQuestion
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.store import Cluster
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.delivery.group_retries import GroupRetries, partial_groups
from kai_sched.plan.plan_text import digest_of, plan_lines

PAUSE_MIN_S = 0.005
PAUSE_MAX_S = 1.0
STANDBY_S = 10.0  # the longest rest of a standby between two cycles
DEADLINE_MAX_S = 60.0  # the longest wait for a deadline; a jump of a clock delays a cycle by no more than this
LATE_S = 0.05  # the wait after a deadline, so that one cycle handles deadlines that are close together

Done = TypeVar("Done")


class Executor(Protocol):
    """Carries out what a cycle has decided."""

    @property
    def retries(self) -> GroupRetries:
        """Groups whose binds failed."""

    async def carry_out(self, decided: DecidedCycle) -> None:
        """Hand the decisions to those who send them."""


class Views(Protocol):
    """The cluster as cycles see it, with what the selectors of devices say (``SelectorService``)."""

    def cluster(self) -> Cluster:
        """The cluster now."""

    def ask(self, questions: Iterable[SelectorQuestion]) -> None:
        """Note which selectors a cycle has asked for."""


class CycleLoop:
    """Runs cycles while this replica may act; a standby only keeps its caches warm.

    Parameters
    ----------
    views
        The cluster as the informers show it, with what is under way, and with answers about selectors.
    config
        Returns the settings in force.
    trigger
        Requests for a cycle.
    may_act
        Whether this replica leads and the grouper has caught up (``WorkloadGrouper.is_caught_up``).
    executor
        Carries out the decisions.
    health
        Hears of cycles that fail, and of objects that are left out.
    clock
        The time.
    run
        Computes a cycle.
    """

    def __init__(
        self,
        views: Views,
        config: Callable[[], Config],
        trigger: CycleTrigger,
        may_act: Callable[[], bool],
        executor: Executor,
        health: CycleHealth,
        clock: Clock,
        run: Run = run_cycle,
    ) -> None:
        self._views = views
        self._config = config
        self._trigger = trigger
        self._may_act = may_act
        self._executor = executor
        self._health = health
        self._clock = clock
        self._quarantine = Quarantine(run)
        self._thread = ThreadPoolExecutor(1, "solver")
        self._turned_at = clock.monotonic()  # when the last cycle chose who waits
        self._due: float | None = None  # when time alone may change the decisions (monotonic)
        self._retry_at: float | None = None  # when an object that is left out is tried again (monotonic)
        self._leads = False
        self.busy_since: float | None = None  # monotonic, while a cycle is being decided

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                await self._trigger.wait(self._wait_s())
                self._trigger.clear()
                try:
                    rest_s = await self._turn()
                except Exception as error:
                    await asyncio.sleep(self._health.failed(error))
                    self._trigger.request()
                else:
                    self._health.succeeded(self._clock.wall_ns() / 1e9)
                    await self._rest(rest_s)
        finally:
            self._quarantine.stop()
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _rest(self, seconds: float) -> None:
        """Leave the processor to others for about as long as the cycle took."""
        if self._leads:
            await asyncio.sleep(min(PAUSE_MAX_S, max(PAUSE_MIN_S, seconds)))
        else:
            await self._trigger.wait_led(seconds)

    def _wait_s(self) -> float | None:
        """Return the seconds until the next deadline; None: there is none."""
        retry_end = self._executor.retries.next_end(self._turned_at)
        ends = [end for end in (retry_end, self._due, self._retry_at) if end is not None]
        end = min(ends, default=None)
        return None if end is None else max(0.0, end - self._clock.monotonic())

    async def _turn(self) -> float:
        """Run one cycle; return how many seconds to rest after it."""
        if not self._may_act():
            return await self._stand_by()
        if not self._leads:
            await self._begin_to_lead()
        retries = self._executor.retries
        self._turned_at = self._clock.monotonic()
        hints = retries.next_hints(self._turned_at)
        decided = await self._decide(hints, whole=bool(hints.first or retries.timers))
        if self._may_act():
            self._record(decided, hints)
            await self._executor.carry_out(decided)
        self._note_deadline(decided.result.next_deadline_ns)
        return decided.seconds

    async def _stand_by(self) -> float:
        self._leads = False
        self._trigger.stand_by()
        await self._decide(NO_HINTS)
        return STANDBY_S

    async def _begin_to_lead(self) -> None:
        """The leader before may have crashed while it bound a gang: the rest of that gang goes first."""
        first = await self._decide(NO_HINTS, whole=True)
        self._executor.retries.partial = await self._in_thread(lambda: partial_groups(first.result))
        self._leads = True

    def _record(self, decided: DecidedCycle, hints: SchedulingHints) -> None:
        """Keep what the next cycle has to know, and ask for it where it is due."""
        retries = self._executor.retries
        retries.settle(decided.result, hints)
        if retries.tracker.record(decided.cluster, decided.result, self._config()):
            self._trigger.request(matters=False)
        if retries.tracker.due:
            self._trigger.request()

    def _note_deadline(self, deadline_ns: int) -> None:
        """Note when time alone may change the decisions; 0: never."""
        wait_s = min(DEADLINE_MAX_S, max(0.0, (deadline_ns - self._clock.wall_ns()) / 1e9))
        self._due = self._clock.monotonic() + wait_s + LATE_S if deadline_ns else None

    async def _decide(self, hints: SchedulingHints, whole: bool = False) -> DecidedCycle:
        """Decide one cycle. With ``whole`` the lazy parts of the result are computed now, and cannot raise later."""
        cluster, config = self._views.cluster(), self._config()
        inputs = CycleInputs(cluster, config, self._clock.wall_ns(), hints)
        started = self.busy_since = self._clock.monotonic()
        try:
            outcome, plan = await self._in_thread(partial(self._run, inputs, whole))
        except Exception as error:
            self._health.undecided(self._tried(inputs), error)
            raise
        finally:
            self.busy_since = None
        self._health.decided(outcome, self._tried(inputs))
        self._views.ask(outcome.result.questions)
        self._retry_at = outcome.retry_at
        return DecidedCycle(cluster, outcome.result, self._clock.monotonic() - started, config, plan)

    def _run(self, inputs: CycleInputs, whole: bool) -> tuple[Outcome, str]:
        """The outcome and the digest of the plan; in the thread."""
        timer = self._clock.monotonic
        outcome = self._quarantine.run_cycle(inputs.cluster, inputs.config, inputs.now_ns, timer, inputs.hints, whole)
        return outcome, digest_of(plan_lines(outcome.result))

    def _tried(self, inputs: CycleInputs) -> CycleInputs:
        """The inputs of the last attempt, which may have run without some objects."""
        return replace(inputs, cluster=self._quarantine.view or inputs.cluster)

    async def _in_thread(self, work: Callable[[], Done]) -> Done:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
