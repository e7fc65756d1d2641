"""The cycle loop: how long it rests between rounds, what a standby does, and how a view is decided in the solver's
thread, for each shard by itself.

It does not poll: a round runs when one is requested, or when a time that matters has come. In a round each shard
decides a cycle, on a view with what those before it took. The solver runs in a thread of its own; everything else here
belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from kai_sched.cycle.pool_amounts import together
from kai_sched.cycle.quarantine import Outcome, Run
from kai_sched.cycle.run import run_cycle
from kai_sched.cycle.shards import last_known, merged, of_view
from kai_sched.files.recording import CycleInputs
from kai_sched.model.claims.selectors import SelectorQuestion
from kai_sched.model.config import CLUSTER, Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.store import Cluster
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.operator.cycle.shard import ServedShard, ServedShards, ShardSettings
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.delivery.group_retries import Devices, GroupRetries, partial_groups
from kai_sched.plan.plan_text import digest_of, plan_lines
from kai_sched.plan.result import CycleResult
from kai_sched.telemetry.unexpected import FAULTS

PAUSE_MIN_S = 0.005
PAUSE_MAX_S = 1.0
STANDBY_S = 10.0  # the longest rest of a standby between two rounds

Done = TypeVar("Done")


class Executor(Protocol):
    """Carries out what a cycle has decided."""

    @property
    def retries(self) -> GroupRetries:
        """Groups whose binds failed."""

    def refused_victims(self) -> frozenset[str]:
        """``SchedulingHints.refused_victims`` as of now."""

    async def carry_out(self, decided: DecidedCycle) -> None:
        """Hand the decisions to those who send them."""

    def report(self, decided: DecidedCycle) -> None:
        """Tell what was carried out: of all shards as one."""


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
    settings
        The settings in force, of the process and of each shard.
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

    Attributes
    ----------
    is_ready
        Whether the shard with these settings may be decided now; who says no asks for a cycle once it may.
    busy_since
        Since when a cycle is being decided (monotonic); None while there is none.
    """

    def __init__(
        self,
        views: Views,
        settings: ShardSettings,
        trigger: CycleTrigger,
        may_act: Callable[[], bool],
        executor: Executor,
        health: CycleHealth,
        clock: Clock,
        run: Run = run_cycle,
    ) -> None:
        self._views = views
        self._settings = settings
        self._trigger = trigger
        self._may_act = may_act
        self._executor = executor
        self._health = health
        self._clock = clock
        self._shards = ServedShards(settings, run)
        self._thread = ThreadPoolExecutor(1, "solver")
        self._turned_at = clock.monotonic()  # when the last round chose who waits
        self._leads = False
        self.is_ready: Callable[[Config], bool] = lambda _: True
        self.busy_since: float | None = None

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
            self._shards.stop()
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _rest(self, seconds: float) -> None:
        """Leave the processor to others for about as long as the cycles took."""
        if self._leads:
            await asyncio.sleep(min(PAUSE_MAX_S, max(PAUSE_MIN_S, seconds)))
        else:
            await self._trigger.wait_led(seconds)

    def _wait_s(self) -> float | None:
        """Return the seconds until the next deadline; None: there is none."""
        ends = (self._executor.retries.next_end(self._turned_at), self._shards.next_end())
        end = min((each for each in ends if each is not None), default=None)
        return None if end is None else max(0.0, end - self._clock.monotonic())

    async def _turn(self) -> float:
        """Run one round; return how many seconds to rest after it.

        Raises the error of the only shard; of several, those that fail are told and tried again later, as the others
        go on.
        """
        shards = self._shards.current()
        self._health.serve({shard.name for shard in shards})
        if not self._may_act():
            return await self._stand_by(shards)
        self._turned_at = self._clock.monotonic()
        new = [each for each in shards if not each.leads and each.again_at <= self._turned_at]
        if new or not self._leads:
            await self._begin_to_lead(new)
        view, awaited = self._view()
        shares = len(shards) > 1 and self._settings.config.fair_share == CLUSTER
        if shares:
            await self._in_thread(partial(self._count, shards, view))
        decided: list[DecidedCycle] = []
        for shard in shards:
            if shard.again_at > self._turned_at or not shard.leads:
                continue
            if not self.is_ready(shard.config):
                shard.forget_times()
                continue
            hints = self._executor.retries.next_hints(self._turned_at, shard.tracker, awaited)
            hints = replace(hints, refused_victims=self._executor.refused_victims())
            if shares:
                hints = replace(hints, elsewhere=together(each.amounts for each in shards if each is not shard))
            with self._contained(shard):
                found = await self._decide_and_note(shard, view, hints)
                if self._may_act():
                    await self._executor.carry_out(found)
                decided.append(found)
                if found.result.effects and shard is not shards[-1]:
                    view, awaited = self._view()  # Devices and volumes that pools share are given away once.
        self._ask(shards)
        if decided and self._may_act():
            self._report(view, shards, decided)
        return sum(each.seconds for each in decided)

    def _view(self) -> tuple[Cluster, Devices]:
        """The cluster now, and which devices are awaited in it.

        Both are of one moment: a reservation pod that came between would be in neither, and its device look free.
        """
        return self._views.cluster(), self._executor.retries.awaited_devices()

    @contextmanager
    def _contained(self, shard: ServedShard) -> Iterator[None]:
        """An error of a shard of several is told, and the shard waits; that of the only one is raised."""
        try:
            yield
        except Exception as error:
            if not shard.name:
                raise
            shard.again_at = self._clock.monotonic() + self._health.failed(error, shard.name)
        else:
            shard.again_at = 0.0
            if shard.name:
                self._health.succeeded(self._clock.wall_ns() / 1e9, shard.name)

    def _count(self, shards: Iterable[ServedShard], view: Cluster) -> None:
        """Count what each pool brings to shares of the cluster; in the thread. One that fails counts as it last did."""
        for shard in shards:
            pipelined = shard.tracker.pipelined
            try:
                shard.amounts = shard.quarantine.count(view, shard.config, self._clock.wall_ns(), pipelined)
            except Exception as error:
                FAULTS.note("shares", f"SchedulingShard {shard.name}", error)

    async def _decide_and_note(self, shard: ServedShard, view: Cluster, hints: SchedulingHints) -> DecidedCycle:
        """Decide a cycle of the shard; keep what the next one has to know, and ask for it where it is due."""
        retries = self._executor.retries
        decided = await self._decide(shard, view, hints, whole=bool(hints.first or retries.timers))
        if self._may_act():
            retries.settle(view, decided.result, hints)
            if shard.tracker.record(view, decided.result, shard.config):
                self._trigger.request(matters=False)
            if shard.tracker.due:
                self._trigger.request()
            shard.amounts = decided.result.pool
        shard.note_deadline(decided.result.next_deadline_ns, self._clock.wall_ns(), self._clock.monotonic())
        return decided

    def _report(self, view: Cluster, shards: Sequence[ServedShard], decided: list[DecidedCycle]) -> None:
        """Tell what the shards have decided, as one cycle. Of those that were not, what they said last still holds."""
        new = {id(each.result): each for each in decided}
        known: list[CycleResult] = []
        for last in (shard.last for shard in shards if shard.last is not None):
            if id(last) not in new:
                known.append(last_known(last, view))
            else:
                known.append(last if new[id(last)].cluster is view else of_view(last, view))
        result = merged(view, known)
        seconds, cpu_s = sum(each.seconds for each in decided), sum(each.cpu_s for each in decided)
        plan = "+".join(each.plan for each in decided)
        self._executor.report(DecidedCycle(view, result, seconds, self._settings.config, plan, cpu_s))

    def _ask(self, shards: Iterable[ServedShard]) -> None:
        """Ask what all shards want to know of selectors: these questions, and no others."""
        known = (shard.last for shard in shards if shard.last is not None)
        self._views.ask(dict.fromkeys(question for result in known for question in result.questions))

    async def _stand_by(self, shards: Sequence[ServedShard]) -> float:
        self._leads = False
        self._trigger.stand_by()
        view = self._views.cluster()
        for shard in shards:
            shard.leads = False
            with self._contained(shard):
                await self._decide(shard, view, NO_HINTS)
        self._ask(shards)
        return STANDBY_S

    async def _begin_to_lead(self, shards: Iterable[ServedShard]) -> None:
        """The leader before may have crashed while it bound a gang: the rest of that gang goes first."""
        if not self._leads:
            self._executor.retries.partial = set()
        view = self._views.cluster()
        for shard in shards:
            with self._contained(shard):
                first = await self._decide(shard, view, NO_HINTS, whole=True)
                self._executor.retries.partial |= await self._in_thread(partial(partial_groups, first.result))
                shard.leads = True
        self._leads = True

    async def _decide(
        self, shard: ServedShard, cluster: Cluster, hints: SchedulingHints, whole: bool = False
    ) -> DecidedCycle:
        """Decide one cycle. With ``whole`` the lazy parts of the result are computed now, and cannot raise later."""
        config = shard.config
        inputs = CycleInputs(cluster, config, self._clock.wall_ns(), hints)
        started = self._clock.monotonic()
        try:
            outcome, plan, cpu_s = await self._in_thread(partial(self._run, shard, inputs, whole))
        except Exception as error:
            self._health.undecided(_tried(shard, inputs), error)
            raise
        self._health.decided(outcome, _tried(shard, inputs), shard.name)
        shard.last, shard.retry_at = outcome.result, outcome.retry_at
        return DecidedCycle(cluster, outcome.result, self._clock.monotonic() - started, config, plan, cpu_s)

    def _run(self, shard: ServedShard, inputs: CycleInputs, whole: bool) -> tuple[Outcome, str, float]:
        """The outcome, the digest of the plan, and the CPU time in seconds; in the thread."""
        timer, cluster, config, began_s = self._clock.monotonic, inputs.cluster, inputs.config, self._clock.cpu_s()
        outcome = shard.quarantine.run_cycle(cluster, config, inputs.now_ns, timer, inputs.hints, whole)
        digest = digest_of(plan_lines(outcome.result))
        return outcome, digest, self._clock.cpu_s() - began_s

    async def _in_thread(self, work: Callable[[], Done]) -> Done:
        self.busy_since = self._clock.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self.busy_since = None


def _tried(shard: ServedShard, inputs: CycleInputs) -> CycleInputs:
    """The inputs of the last attempt, which may have run without some objects."""
    return replace(inputs, cluster=shard.quarantine.view or inputs.cluster)
