"""Validates each eviction right before it is sent (are the pods that get the room still there?), and decides for how
long a pod that was not evicted is left alone.

The cycle executor hands evictions over, the pod deleter asks ``check`` and reports outcomes. Invariant: a victim counts
as leaving from ``carry_out`` on, until the API server shows it so or the eviction has ended otherwise.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

import structlog

from kai_sched.cluster.backoff import Backoff, RetryTimer
from kai_sched.cluster.pod_deleter import EvictionEnd
from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Pod
from kai_sched.model.store import Change, Cluster, Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.delivery.node_check import node_problem
from kai_sched.plan.effects import Evict, Plan
from kai_sched.reconcile.eviction_notices import plans_of
from kai_sched.telemetry.unexpected import FAULTS

BACKOFF = Backoff(1.0, 60.0)  # of a plan with a pod that could not be evicted
REFUSALS = 2  # from then on, cycles choose other victims as long as the backoff lasts
LATE_S = 0.05  # after the end of a backoff: other backoffs may end right behind it

log = structlog.get_logger("evictions")


class EvictionReporter(Protocol):
    """Hears of what is done, for statuses, events and metrics."""

    def planned(self, plan: Plan, cluster: Cluster) -> None:
        """These evictions are about to be sent, as decided on this view."""

    def evicted(self, eviction: Evict, plan: Plan, cluster: Cluster) -> None:
        """The pod is being deleted."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A pod that was not evicted: its key, and its backoff."""

    key: str
    timer: RetryTimer


class _PlanUnderWay:
    """A plan of which evictions are under way, and why it makes no sense any more.

    Cost: that is found anew only where the store has changed what it depends on, as a plan of thousands of evictions is
    asked for before each of them.
    """

    __slots__ = ("_depends_on", "_problem", "_serial", "decided", "plan")

    def __init__(self, plan: Plan, decided: DecidedCycle) -> None:
        self.plan = plan
        self.decided = decided
        pods: set[Change] = {(Pod, winner.pod) for winner in plan.winners}
        self._depends_on = pods | {(Node, winner.node) for winner in plan.winners}
        self._serial = -1  # of the store when ``_problem`` was found
        self._problem = ""

    def problem(self, store: Store) -> str:
        """Why nobody is to be evicted for the plan any more, or an empty string."""
        if self._serial != store.serial:
            changes = store.changes_since(self._serial)
            if changes is None or not changes.isdisjoint(self._depends_on):
                self._problem = self._find_problem(store)
            self._serial = store.serial
        return self._problem

    def _find_problem(self, store: Store) -> str:
        waiting = 0
        for winner in self.plan.winners:
            pod = store.get(Pod, winner.pod)
            if pod is None or pod.uid != winner.uid or pod.deleted_ns:
                return f"pod {winner.pod}, which was to get the room, is gone"
            waiting += not pod.node
        if self.plan.winners and not waiting:
            return f"the pods of {self.plan.evictions[0].cause}, which were to get the room, have nodes already"
        nodes = dict.fromkeys(winner.node for winner in self.plan.winners)
        return next(filter(None, (node_problem(store, node) for node in nodes)), "")


class EvictionTracker:
    """For one event loop. It implements ``pod_deleter.EvictionObserver``.

    After the eviction of a pod has failed, every plan that contains the pod waits, whichever pod group gets the room.
    The delay is 1 s and doubles to 60 s with each failure. After the second failure cycles choose other victims
    meanwhile: else they would choose the same again, and the pod group would wait for ever.

    Parameters
    ----------
    store, overlay
        The cluster as the informers show it, with what is under way.
    queue
        Gets the evictions that are to be sent.
    reporter
        Hears of plans and outcomes.
    trigger
        Asks for a cycle when an eviction has failed.
    clock
        The time.
    """

    def __init__(
        self,
        store: Store,
        overlay: Overlay,
        queue: FifoQueue[Evict],
        reporter: EvictionReporter,
        trigger: CycleTrigger,
        clock: Clock,
    ) -> None:
        self._store = store
        self._overlay = overlay
        self._queue = queue
        self._reporter = reporter
        self._trigger = trigger
        self._clock = clock
        self._under_way: dict[str, _PlanUnderWay] = {}  # by uid of the victim
        self._refused: dict[str, _Refusal] = {}  # by uid of pods that were not evicted

    async def carry_out(self, decided: DecidedCycle) -> None:
        """Send the evictions of a cycle; from now on these pods count as leaving."""
        now, now_ns = self._clock.monotonic(), self._clock.wall_ns()
        self._forget(decided.cluster, now)
        if not decided.result.evicted:
            return
        time_slice = TimeSlice()
        for plan in plans_of(decided.result.effects, decided.cluster):
            waits = (self._refused[each.uid].timer for each in plan.evictions if each.uid in self._refused)
            if any(now < timer.until for timer in waits):
                continue
            chosen = []
            for each in plan.evictions:
                if self._overlay.expect(each.pod, each.uid, now_ns):
                    chosen.append(each)
                await time_slice.pause()
            if chosen:
                self._under_way.update(dict.fromkeys((each.uid for each in chosen), _PlanUnderWay(plan, decided)))
                self._report(plan, decided.cluster)
                self._queue.submit(chosen)

    def _report(self, plan: Plan, cluster: Cluster) -> None:
        try:
            self._reporter.planned(plan, cluster)
        except Exception as error:  # these pods count as leaving already, so they must be evicted
            FAULTS.note("evictions", plan.evictions[0].pod, error)

    def _forget(self, cluster: Cluster, now: float) -> None:
        """Forget refusals of pods that are gone, and those that were not repeated for long."""
        for uid, refusal in list(self._refused.items()):
            pod = cluster.pods.get(refusal.key)
            is_over = refusal.timer.is_over(now) and uid not in self._under_way
            if pod is None or pod.uid != uid or is_over:
                del self._refused[uid]

    def refused_victims(self) -> frozenset[str]:
        """``SchedulingHints.refused_victims`` as of now."""
        now = self._clock.monotonic()
        waiting = (each for each in self._refused.values() if now < each.timer.until)
        return frozenset(each.key for each in waiting if each.timer.failures >= REFUSALS)

    def check(self, eviction: Evict) -> str:
        """Return why the eviction must not be sent any more, or an empty string."""
        pod = self._store.get(Pod, eviction.pod)
        if pod is None or pod.uid != eviction.uid:
            return f"pod {eviction.pod} is gone"
        if self._overlay.leaves(eviction.pod):
            return f"pod {eviction.pod} is being deleted already"
        return self._under_way[eviction.uid].problem(self._store)

    def ended(self, eviction: Evict, end: EvictionEnd, message: str) -> None:
        """The outcome of the eviction is known; if the pod stays, the next cycle decides again."""
        under_way = self._under_way.pop(eviction.uid)
        plan, decided = under_way.plan, under_way.decided
        if end is EvictionEnd.EVICTED:
            self._refused.pop(eviction.uid, None)
            self._reporter.evicted(eviction, plan, decided.cluster)
            return
        self._overlay.cancel_eviction(eviction.pod, eviction.uid)
        if end is EvictionEnd.REFUSED:
            new = _Refusal(eviction.pod, RetryTimer(BACKOFF))
            wait_s = self._refused.setdefault(eviction.uid, new).timer.add(self._clock.monotonic())
            asyncio.get_running_loop().call_later(wait_s + LATE_S, self._trigger.request)
            log.warning("eviction.refused", pod=eviction.pod, cause=eviction.cause, problem=message)
        else:
            log.info("eviction.dropped", pod=eviction.pod, cause=eviction.cause, why=message)
        self._trigger.request()
