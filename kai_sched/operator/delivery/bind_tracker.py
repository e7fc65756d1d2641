"""Validates each bind right before it is sent, and decides what follows its outcome: the pod stays placed or is pending
again.

The cycle executor hands binds over, the binders of pods, volumes, claims and shares ask ``check`` and report outcomes.
Invariant: a pod counts as placed on its node from ``assume`` until the API server shows it there, or ``failed`` is
called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kai_sched.cluster.failure import NOT_FOUND, NOT_LEADER
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Pod, Shape
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.operator.delivery.group_retries import GroupRetries
from kai_sched.operator.delivery.node_check import node_problem
from kai_sched.plan.effects import Bind


class BindReporter(Protocol):
    """Hears of the outcomes, for statuses, events and metrics."""

    def bound(self, bind: Bind, seconds: float) -> None:
        """The API server has accepted the bind, which took ``seconds``."""

    def failed(self, bind: Bind, failure: BindFailure, again: float | None) -> None:
        """The bind was given up. ``again`` is when its group is tried again; None: when something changes."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A bind under way: of which group, and what its pod asked for when it was decided."""

    group: str
    bind: Bind
    shape: Shape


class BindTracker:
    """For one event loop. It implements ``pod_binder.BindObserver`` and ``share_binder.Observer``.

    Parameters
    ----------
    store, overlay
        The cluster as the informers show it, with what is under way.
    trigger
        Asks for a cycle when a bind has failed.
    reporter
        Hears of outcomes.
    clock
        The time.
    claims
        The claims for devices of pods whose binds are under way.

    Attributes
    ----------
    retries
        Groups whose binds failed.
    """

    def __init__(
        self,
        store: Store,
        overlay: Overlay,
        trigger: CycleTrigger,
        reporter: BindReporter,
        clock: Clock,
        claims: ClaimReservations,
    ) -> None:
        self._store = store
        self._overlay = overlay
        self._trigger = trigger
        self._reporter = reporter
        self._clock = clock
        self._claims = claims
        self._attempts: dict[str, _Attempt] = {}  # by uid of the pod, while its bind is under way
        self.retries = GroupRetries(under_way=lambda: {attempt.group for attempt in self._attempts.values()})

    async def assume(
        self, group: str, binds: Sequence[Bind], decided: Mapping[str, Pod], time_slice: TimeSlice
    ) -> bool:
        """Count all pods of the group as placed.

        Return False, and change nothing, if one of them is gone or taken, or does not ask for what it asked for when it
        was ``decided`` (the pods of that view, by key).
        """
        assumed = []
        for bind in binds:
            pod = self._store.get(Pod, bind.pod)
            is_same = pod is not None and pod.shape == decided[bind.pod].shape
            if is_same and self._overlay.assume(bind.pod, bind.uid, bind.node, bind.gpu_groups, bind.zones):
                assumed.append(bind)
            await time_slice.pause()
        if len(assumed) == len(binds):
            for bind in binds:
                self._attempts[bind.uid] = _Attempt(group, bind, decided[bind.pod].shape)
                self._claims.assume(bind)
            return True
        for bind in assumed:
            self._overlay.forget(bind.pod, bind.uid)
        self._trigger.request()
        return False

    def check(self, bind: Bind) -> str:
        """Return why the bind must not be sent any more, or an empty string."""
        pod = self._store.get(Pod, bind.pod)
        if pod is None:
            return f"pod {bind.pod} is gone"
        if pod.uid != bind.uid:
            return f"pod {bind.pod} was deleted and created again"
        if pod.deleted_ns:
            return f"pod {bind.pod} is being deleted"
        if pod.node != bind.node:
            return f"pod {bind.pod} is on node {pod.node} already" if pod.node else f"pod {bind.pod} is decided again"
        attempt = self._attempts.get(bind.uid)
        if attempt is not None and attempt.bind != bind:
            return f"pod {bind.pod} is decided again"
        if attempt is not None and attempt.shape != pod.shape:
            return f"pod {bind.pod} asks for something else meanwhile"
        return node_problem(self._store, bind.node)

    def bound(self, bind: Bind, seconds: float) -> None:
        """The API server has accepted the bind."""
        self._attempts.pop(bind.uid, None)
        self._reporter.bound(bind, seconds)

    def failed(self, bind: Bind, failure: BindFailure) -> None:
        """The bind was given up: the pod is pending again, its claims are released, and its group is tried again after
        a backoff. If the pod has been decided again meanwhile, that is what is assumed, and only those claims are
        released that it does not have then.

        What the store shows as overtaken is no failure: the next cycle knows it. Nor is what the API server says is
        gone, but the next cycle may not know it yet.
        """
        attempt = self._attempts.get(bind.uid)
        if attempt is not None and attempt.bind != bind:
            kept = {use.claim for use in attempt.bind.claims}
            left = tuple(use for use in bind.claims if use.claim not in kept)
            self._claims.release(Bind(bind.pod, bind.uid, bind.node, claims=left))
            return
        self._attempts.pop(bind.uid, None)
        self._overlay.forget(bind.pod, bind.uid)
        self._claims.release(bind)
        group, now, again = bind.pod if attempt is None else attempt.group, self._clock.monotonic(), None
        if self._is_gone(bind) or (failure.reason in (OBSOLETE, NOT_LEADER) and not failure.status):
            self.retries.partial.add(group)
        elif failure.reason == OBSOLETE and failure.status == NOT_FOUND:
            again = self.retries.pause(group, now)
        else:
            again = self.retries.add(group, now)
        self._reporter.failed(bind, failure, again)
        self._trigger.request()

    def _is_gone(self, bind: Bind) -> bool:
        """Whether the store shows that the pod is gone or leaves."""
        pod = self._store.get(Pod, bind.pod)
        return pod is None or pod.uid != bind.uid or pod.deleted_ns != 0

    def reserved(self, node: str, succeeded: bool) -> None:
        """A device of the node was reserved for pods to share, or could not be: then it gets no such pods."""
        if succeeded:
            self.retries.open_node(node)
        else:
            self.retries.close_node(node, self._clock.monotonic())
