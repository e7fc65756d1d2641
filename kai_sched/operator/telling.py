"""What is told of a cycle: statuses, conditions and events to the cluster, numbers to Prometheus, lines to the log.

Nothing here decides anything, and all of it can be late. The event loop only collects; a thread computes, see
``statuses``, and what is to be written comes back in slices.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import structlog

from kai_sched.cluster.binding import BindFailure
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.turns import Turn
from kai_sched.cluster.writing import Writer
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.read import POD
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.feed import Feed
from kai_sched.operator.loop import Clock, Decided
from kai_sched.operator.news import News
from kai_sched.operator.statuses import Batch, Bound, Statuses, kinds_of, pod_ref
from kai_sched.plan.effects import Bind, Emit, Evict, Plan, Ref, Write
from kai_sched.reconcile import events
from kai_sched.telemetry.metrics import CycleTimes, Metrics

log = structlog.get_logger("cycle")

STATUS_PERIOD_S = 1.0
BUSY_LOOK_S = 0.2
BUSY_PERIOD_S = 5.0  # while binds wait: they come first
MANY_CYCLES = 8  # that decided something: each holds a view of the cluster, so no more of them are kept for long
HEARTBEAT_S = 600.0  # so often an idle cycle is logged all the same
WRITES_AT_A_TIME = 10_000  # of statuses; the rest is computed when these are on their way
SLICE = 50


class Telling:
    """For one event loop. ``busy`` says that binds wait, ``may_write`` whether we lead."""

    def __init__(
        self,
        api: Api,
        store: Store,
        feed: Feed,
        news: News,
        metrics: Metrics,
        config: Config,
        busy: Callable[[], bool],
        may_write: Callable[[], bool],
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._feed = feed
        self._news = news
        self._metrics = metrics
        self._config = config
        self._busy = busy
        self._may_write = may_write
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "status")
        self._statuses = Statuses(config, metrics)
        self._batch = Batch()
        self._decided: Decided | None = None
        self._n_pipelined = 0  # of the last cycle
        self._heartbeat = -HEARTBEAT_S
        # Monotonic: when statuses were computed last and are to be again, and when there is anything to compute.
        self._written_at = -BUSY_PERIOD_S
        self._statuses_at: float | None = None
        self._due: float | None = None
        self._planned = asyncio.Event()
        self._turn = asyncio.Lock()
        now = lambda: clock.wall_ns() / 1e9  # noqa: E731 - the writer wants seconds
        self.writer = Writer(api, config.scheduler_name, busy, now, self._version, self._lost, chance)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wait()
            if self._comes_first(self._clock.monotonic()) and len(self._batch.cycles) < MANY_CYCLES:
                self._plan(BUSY_LOOK_S)
            else:
                await self._round()

    async def stop(self) -> None:
        """Tell of the binds that are done, and write no more statuses."""
        self._decided = None
        await self._round()

    def acted(self, decided: Decided) -> None:
        """A cycle was carried out: its statuses are written soon, once a second at the most."""
        self._decided = decided
        result = decided.result
        close_s = decided.seconds - result.open_s - sum(result.actions_s.values())
        times = CycleTimes(decided.seconds, result.open_s, result.actions_s, close_s)
        self._metrics.observe_cycle(decided.cluster, result, times)
        if result.effects or self._n_pipelined:
            self._batch.cycles.append(decided)
        self._log(decided)
        self._want_statuses(self._written_at + STATUS_PERIOD_S)

    def _log(self, decided: Decided) -> None:
        bound, pipelined, evicted = kinds_of(decided.result)
        now = self._clock.monotonic()
        idle = not (bound or evicted) and pipelined == self._n_pipelined and now - self._heartbeat < HEARTBEAT_S
        if not idle:
            self._heartbeat = now
        self._n_pipelined = pipelined
        (log.debug if idle else log.info)(
            "cycle.done",
            ms=round(decided.seconds * 1000, 1),
            solver_ms=round(decided.result.solver_s * 1000, 2),
            pods=len(decided.cluster.pods),
            nodes=len(decided.cluster.nodes),
            bound=bound,
            pipelined=pipelined,
            evicted=evicted,
        )

    def planned(self, plan: Plan, cluster: Cluster) -> None:
        """These evictions are about to be sent, as decided on this view."""
        self._batch.planned.append((plan, cluster, self._clock.wall_ns()))
        self._plan(0.0)

    def evicted(self, eviction: Evict, plan: Plan, cluster: Cluster) -> None:
        """The pod is on its way out."""
        self._batch.evicted.append((eviction, plan, cluster))
        self._plan(0.0)

    def bound(self, bind: Bind, seconds: float) -> None:
        """The API server has taken the bind, which took so long."""
        now_ns, pod = self._clock.wall_ns(), self._store.get(Pod, bind.pod)
        created_ns, key, queue, unlabelled = None, bind.pod, "", False
        if pod is not None:
            created_ns, key = pod.created_ns, pod.group_key
            group = self._store.get(PodGroup, key) if pod.group else None
            queue = group.queue if group else pod.queue
            unlabelled = pod.scheduler == self._config.scheduler_name and self._news.owners.is_unlabelled(pod, group)
        self._batch.bound.append(Bound(bind, seconds, now_ns, created_ns, key, queue, unlabelled))
        self._plan(STATUS_PERIOD_S if self._busy() else 0.0)

    def failed(self, bind: Bind, failure: BindFailure, again: float | None) -> None:
        """The bind was given up; ``again`` is when its group is tried again, None for as soon as there is news."""
        log.warning("bind.failed", pod=bind.pod, node=bind.node, reason=failure.reason, message=failure.message)
        if again is not None and failure.status != 404:
            wait_s = max(0.0, again - self._clock.monotonic())
            text = f"{failure.message}; tried again in {wait_s:.0f} s"
            self.writer.submit(events.failed_binding(pod_ref(bind), bind.node, text))

    def _want_statuses(self, at: float) -> None:
        """Compute statuses then, or when it was planned already if that is earlier."""
        self._statuses_at = at if self._statuses_at is None else min(at, self._statuses_at)
        self._plan(self._statuses_at - self._clock.monotonic())

    def _plan(self, delay_s: float) -> None:
        """Compute in so many seconds, or when it was planned already if that is earlier."""
        due = self._clock.monotonic() + max(0.0, delay_s)
        if self._due is None or due < self._due:
            self._due = due
            self._planned.set()

    async def _wait(self) -> None:
        """Until something is due."""
        while True:
            self._planned.clear()
            left_s = None if self._due is None else self._due - self._clock.monotonic()
            if left_s is not None and left_s <= 0.0:
                self._due = None
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._planned.wait()

    def _comes_first(self, now: float) -> bool:
        """Whether others do: binds wait, and statuses are not too old for that yet."""
        return self._busy() and now - self._written_at < BUSY_PERIOD_S

    def _asked(self, batch: Batch, now: float) -> None:
        """Ask for statuses where they are due."""
        due = self._statuses_at is not None and self._statuses_at <= now and not self._comes_first(now)
        if self._decided is None or not self._may_write():
            self._statuses_at = None
        elif due:
            self._written_at, self._statuses_at = now, None
            batch.found, batch.statuses = self._news.take(), self._decided
            batch.most = max(1, WRITES_AT_A_TIME - self.writer.pending)

    async def _round(self) -> None:
        """Have computed what is due, and hand on what is to be written."""
        async with self._turn:
            batch, self._batch = self._batch, Batch()
            batch.now_ns, now = self._clock.wall_ns(), self._clock.monotonic()
            batch.steady_ns = round(now * 1e9)
            self._asked(batch, now)
            loop = asyncio.get_running_loop()
            writes, again_s = await loop.run_in_executor(self._thread, self._statuses.compute, batch)
            await self._hand_over(writes)
        if again_s is not None:
            self._want_statuses(now + max(again_s, STATUS_PERIOD_S))
        elif self._statuses_at is not None:
            wait_s = self._statuses_at - self._clock.monotonic()
            self._plan(max(wait_s, BUSY_LOOK_S) if self._busy() else wait_s)

    async def _hand_over(self, writes: list[Write]) -> None:
        """In slices: there may be tens of thousands, and others want the event loop."""
        turn = Turn()
        for start in range(0, len(writes), SLICE):
            self.writer.submit(writes[start : start + SLICE])
            await turn.pause()

    def _version(self, ref: Ref) -> str:
        """In which version the pod waits for a node; empty where it does not."""
        pod = self._store.get(Pod, ref.key)
        if pod is None or pod.uid != ref.uid or pod.node or pod.deleted_ns:
            return ""
        return str(self._feed.known(POD).get(ref.key, ""))

    def _lost(self, write: Write, failure: ApiFailure | None) -> None:
        self._metrics.count_lost_write("queue full" if failure is None else "refused")
        beyond_budget = failure is None and isinstance(write, Emit)
        if not beyond_budget and (failure is None or failure.status not in (404, 409)):
            what = type(write).__name__
            log.warning("write.failed", what=what, object=write.ref.key, problem=str(failure or "too many wait"))
