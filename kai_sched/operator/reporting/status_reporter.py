"""How often statuses are computed and how many are written at a time, also while binds are under way; and the log line
of a cycle.

Nothing here decides anything, and all of it may be late. The event loop only collects what happened; a thread computes
what is to be written (``batch.py``), and the event loop submits it in slices, behind the binds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import structlog

from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.pod_binder import BindFailure
from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.cluster.write_queue import WriteQueue
from kai_sched.model.config import Config, pool_in_force
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.reporting.batch import Batch, Bound, StatusComputer, kinds_of, pod_ref
from kai_sched.operator.reporting.observations import Observations
from kai_sched.plan.effects import Bind, Emit, Evict, Plan, Write
from kai_sched.reconcile import events
from kai_sched.telemetry.metrics import CycleTimes, Metrics

log = structlog.get_logger("cycle")

STATUS_PERIOD_S = 1.0
BUSY_POLL_S = 0.2
BUSY_PERIOD_S = 5.0  # between two computations while binds wait
MANY_CYCLES = 8  # each holds a view of the cluster, so no more of them are kept
HEARTBEAT_S = 600.0  # an idle cycle is logged this often all the same
WRITES_AT_A_TIME = 10_000  # of one computation; the rest is computed when these are under way
SLICE = 50


class StatusReporter:
    """For one event loop. It implements the reporter ports of ``operator.delivery``.

    Parameters
    ----------
    store
        The cluster as the informers show it.
    observations
        What the informers saw of statuses.
    metrics
        The metrics of the process.
    config
        The settings that objects are read with.
    is_busy
        While it returns true, binds wait: they come first.
    may_write
        Whether this replica leads.
    writes
        Gets what is to be written.
    clock
        The time.
    """

    def __init__(
        self,
        store: Store,
        observations: Observations,
        metrics: Metrics,
        config: Config,
        is_busy: Callable[[], bool],
        may_write: Callable[[], bool],
        writes: WriteQueue,
        clock: Clock,
    ) -> None:
        self._store = store
        self._observations = observations
        self._metrics = metrics
        self._config = config
        self._is_busy = is_busy
        self._may_write = may_write
        self._writes = writes
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "status")
        self._computer = StatusComputer(config, metrics)
        self._batch = Batch()
        self._decided: DecidedCycle | None = None
        self._n_pipelined = 0  # of the last cycle
        self._heartbeat = -HEARTBEAT_S
        # Monotonic: when statuses were computed last and are to be again, and when there is anything to compute.
        self._computed_at = -BUSY_PERIOD_S
        self._statuses_at: float | None = None
        self._due: float | None = None
        self._planned = asyncio.Event()
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wait()
            if self._must_wait(self._clock.monotonic()) and len(self._batch.cycles) < MANY_CYCLES:
                self._plan(BUSY_POLL_S)
            else:
                await self._round()

    async def finish(self) -> None:
        """Report the binds that are done, and compute no more statuses."""
        self._decided = None
        await self._round()

    def acted(self, decided: DecidedCycle) -> None:
        """A cycle was carried out: its statuses are computed soon, once a second at most."""
        self._decided = decided
        result = decided.result
        close_s = decided.seconds - result.open_s - sum(result.actions_s.values())
        times = CycleTimes(decided.seconds, result.open_s, result.actions_s, close_s)
        self._metrics.observe_cycle(decided.cluster, result, times, decided.config.queue_metric_labels)
        if result.effects or self._n_pipelined:
            self._batch.cycles.append(decided)
        self._log(decided)
        self._want_statuses(self._computed_at + STATUS_PERIOD_S)

    def _log(self, decided: DecidedCycle) -> None:
        bound, pipelined, evicted = kinds_of(decided.result)
        now = self._clock.monotonic()
        idle = not (bound or evicted) and pipelined == self._n_pipelined and now - self._heartbeat < HEARTBEAT_S
        if not idle:
            self._heartbeat = now
        self._n_pipelined = pipelined
        (log.debug if idle else log.info)(
            "cycle.done",
            ms=round(decided.seconds * 1000, 1),
            cpu_ms=round(decided.cpu_s * 1000, 1),
            solver_ms=round(decided.result.solver_s * 1000, 2),
            pods=len(decided.cluster.pods),
            nodes=len(decided.cluster.nodes),
            bound=bound,
            pipelined=pipelined,
            evicted=evicted,
            plan=decided.plan,
        )

    def planned(self, plan: Plan, cluster: Cluster) -> None:
        """These evictions are about to be sent, as decided on this view."""
        self._batch.planned.append((plan, cluster, self._clock.wall_ns()))
        self._plan(0.0)

    def evicted(self, eviction: Evict, plan: Plan, cluster: Cluster) -> None:
        """The pod is being deleted."""
        self._batch.evicted.append((eviction, plan, cluster))
        self._plan(0.0)

    def bound(self, bind: Bind, seconds: float) -> None:
        """The API server has accepted the bind, which took ``seconds``."""
        now_ns, pod = self._clock.wall_ns(), self._store.get(Pod, bind.pod)
        created_ns, key, queue, unlabelled, pool = None, bind.pod, "", False, ""
        if pod is not None:
            created_ns, key = pod.created_ns, pod.group_key
            group = self._store.get(PodGroup, key) if pod.group else None
            queue = group.queue if group else pod.queue
            is_ours = pod.scheduler == self._config.scheduler_name
            unlabelled = is_ours and self._observations.owners.is_unlabelled(pod, group)
            pool = pool_in_force(group.labels if group else pod.labels, self._config)
        self._batch.bound.append(Bound(bind, seconds, now_ns, created_ns, key, queue, unlabelled, pool))
        self._plan(STATUS_PERIOD_S if self._is_busy() else 0.0)

    def failed(self, bind: Bind, failure: BindFailure, again: float | None) -> None:
        """The bind was given up. ``again`` is when its group is tried again; None: when something changes."""
        self._metrics.count_bind_failure(failure.reason)
        log.warning("bind.failed", pod=bind.pod, node=bind.node, reason=failure.reason, message=failure.message)
        if again is not None and failure.status != 404:
            wait_s = max(0.0, again - self._clock.monotonic())
            text = f"{failure.message}; tried again in {wait_s:.0f} s"
            self._writes.submit(events.failed_binding(pod_ref(bind), bind.node, text))

    def _want_statuses(self, at: float) -> None:
        """Compute statuses at that time, or when it is planned already if that is earlier."""
        self._statuses_at = at if self._statuses_at is None else min(at, self._statuses_at)
        self._plan(self._statuses_at - self._clock.monotonic())

    def _plan(self, delay_s: float) -> None:
        """Compute after ``delay_s`` seconds, or when it is planned already if that is earlier."""
        due = self._clock.monotonic() + max(0.0, delay_s)
        if self._due is None or due < self._due:
            self._due = due
            self._planned.set()

    async def _wait(self) -> None:
        """Return once something is due."""
        while True:
            self._planned.clear()
            left_s = None if self._due is None else self._due - self._clock.monotonic()
            if left_s is not None and left_s <= 0.0:
                self._due = None
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._planned.wait()

    def _must_wait(self, now: float) -> bool:
        """Whether statuses wait: binds are under way, and the last statuses are not too old yet."""
        return self._is_busy() and now - self._computed_at < BUSY_PERIOD_S

    def _asked(self, batch: Batch, now: float) -> None:
        """Add the last cycle to the batch if statuses are due."""
        due = self._statuses_at is not None and self._statuses_at <= now and not self._must_wait(now)
        if self._decided is None or not self._may_write():
            self._statuses_at = None
        elif due:
            self._computed_at, self._statuses_at = now, None
            batch.found, batch.statuses = self._observations.take(), self._decided
            batch.most = max(1, WRITES_AT_A_TIME - self._writes.pending)

    async def _round(self) -> None:
        """Have the thread compute the batch, and submit what is to be written."""
        async with self._lock:
            batch, self._batch = self._batch, Batch()
            batch.now_ns, now = self._clock.wall_ns(), self._clock.monotonic()
            batch.steady_ns = round(now * 1e9)
            self._asked(batch, now)
            loop = asyncio.get_running_loop()
            writes, again_s = await loop.run_in_executor(self._thread, self._computer.compute, batch)
            await self._hand_over(writes)
        if again_s is not None:
            self._want_statuses(now + max(again_s, STATUS_PERIOD_S))
        elif self._statuses_at is not None:
            wait_s = self._statuses_at - self._clock.monotonic()
            self._plan(max(wait_s, BUSY_POLL_S) if self._is_busy() else wait_s)

    async def _hand_over(self, writes: list[Write]) -> None:
        """Submit in slices: there may be tens of thousands of writes, and others need the event loop."""
        time_slice = TimeSlice()
        for start in range(0, len(writes), SLICE):
            self._writes.submit(writes[start : start + SLICE])
            await time_slice.pause()


def report_lost_write(metrics: Metrics, write: Write, failure: ApiFailure | None) -> None:
    """Count and log a write that was given up; ``failure`` is None if it was dropped because too many wait."""
    metrics.count_lost_write("queue full" if failure is None else "refused")
    beyond_budget = failure is None and isinstance(write, Emit)
    if not beyond_budget and (failure is None or failure.status not in (404, 409)):
        what = type(write).__name__
        log.warning("write.failed", what=what, object=write.ref.key, problem=str(failure or "too many wait"))
