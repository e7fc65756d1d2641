"""Evictions from the decision to their end: whether each one still makes sense, what came of it, and what is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from kai_sched.cluster.evicting import End
from kai_sched.cluster.turns import Turn
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.loop import LATE_S, Backoff, Clock, Decided, node_problem
from kai_sched.plan.effects import Evict, Plan
from kai_sched.reconcile.evictions import plans_of
from kai_sched.telemetry.faults import FAULTS

log = structlog.get_logger("evictions")


class Evictions:
    """For one event loop.

    ``send`` takes evictions that are to be sent, ``planned`` is told of each plan that is begun, ``done`` of each pod
    that is on its way out. ``wake`` has a cycle run. A plan with a pod that could not be evicted waits, whoever it is
    for: 1 s, doubling to 60 s.
    """

    def __init__(
        self,
        store: Store,
        overlay: Overlay,
        send: Callable[[Sequence[Evict]], None],
        planned: Callable[[Plan, Cluster], None],
        done: Callable[[Evict, Plan, Cluster], None],
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._overlay = overlay
        self._send = send
        self._planned = planned
        self._done = done
        self._wake = wake
        self._clock = clock
        self._under_way: dict[str, tuple[Plan, Cluster]] = {}  # by uid of the victim
        self._refused: dict[str, tuple[str, Backoff]] = {}  # by uid: pods that could not be evicted, and their keys

    async def carry_out(self, decided: Decided) -> None:
        """Send what a cycle has decided; from now on these pods count as leaving."""
        self._forget_gone(decided.cluster)
        if not decided.result.evicted:
            return
        now, now_ns = self._clock.monotonic(), self._clock.wall_ns()
        there = {pod.uid for key in decided.result.evicted if (pod := decided.cluster.pods.get(key)) is not None}
        self._refused = {uid: each for uid, each in self._refused.items() if uid in there or uid in self._under_way}
        turn = Turn()
        for plan in plans_of(decided.result.effects, decided.cluster):
            waits = (self._refused[each.uid][1] for each in plan.evictions if each.uid in self._refused)
            if any(now < backoff.until for backoff in waits):
                continue
            chosen = []
            for each in plan.evictions:
                if self._overlay.expect(each.pod, each.uid, now_ns):
                    chosen.append(each)
                await turn.pause()
            if chosen:
                self._under_way.update((each.uid, (plan, decided.cluster)) for each in chosen)
                self._tell(plan, decided.cluster)
                self._send(chosen)

    def _tell(self, plan: Plan, cluster: Cluster) -> None:
        try:
            self._planned(plan, cluster)
        except Exception as error:  # these pods count as leaving already, so they must be sent on their way
            FAULTS.note("evictions", plan.evictions[0].pod, error)

    def _forget_gone(self, cluster: Cluster) -> None:
        for uid, (key, _) in list(self._refused.items()):
            pod = cluster.pods.get(key)
            if pod is None or pod.uid != uid:
                del self._refused[uid]

    def check(self, eviction: Evict) -> str:
        """Why the eviction makes no sense any more; empty where it does."""
        pod = self._store.get(Pod, eviction.pod)
        if pod is None or pod.uid != eviction.uid:
            return f"pod {eviction.pod} is gone"
        if self._overlay.leaves(eviction.pod):
            return f"pod {eviction.pod} is being deleted already"
        plan, _ = self._under_way[eviction.uid]
        if not plan.winners:
            return ""
        waiting = 0
        for winner in plan.winners:
            pod = self._store.get(Pod, winner.pod)
            if pod is None or pod.uid != winner.uid or pod.deleted_ns:
                return f"pod {winner.pod}, for which it was to go, is gone"
            waiting += not pod.node
        if not waiting:
            return f"{eviction.cause}, for which it was to go, has found room"
        problems = filter(None, (node_problem(self._store, winner.node) for winner in plan.winners))
        return next(problems, "")

    def ended(self, eviction: Evict, end: End, message: str) -> None:
        """The eviction has ended; where the pod stays, the next cycle decides anew."""
        plan, cluster = self._under_way.pop(eviction.uid)
        if end is End.EVICTED:
            self._refused.pop(eviction.uid, None)
            self._done(eviction, plan, cluster)
            return
        self._overlay.cancel_eviction(eviction.pod, eviction.uid)
        if end is End.REFUSED:
            _, backoff = self._refused.setdefault(eviction.uid, (eviction.pod, Backoff()))
            wait_s = backoff.add(self._clock.monotonic())
            asyncio.get_running_loop().call_later(wait_s + LATE_S, self._wake)
            log.warning("eviction.refused", pod=eviction.pod, cause=eviction.cause, problem=message)
        else:
            log.info("eviction.dropped", pod=eviction.pod, cause=eviction.cause, why=message)
        self._wake()
