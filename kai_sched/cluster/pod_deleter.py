"""Sends evictions (DELETE with the pod's uid, before it the condition DisruptionTarget if a flag asks for it);
``operator.delivery.eviction_tracker`` decides whether one is still valid.

The eviction tracker of the operator fills the queue and hears of outcomes. An eviction whose outcome is unknown, as
after a cut connection, is settled by reading the pod before anything is sent again.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from typing import Protocol

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.client import STRATEGIC, Api, ApiFailure
from kai_sched.cluster.delivery import Delivery, Workers, deliver
from kai_sched.cluster.failure import NOT_LEADER, read
from kai_sched.cluster.paths import pod_path
from kai_sched.cluster.retry import EVICTIONS
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.model.times import format_time
from kai_sched.plan.effects import Evict
from kai_sched.telemetry.unexpected import FAULTS

WORKERS = 8

_decode_pod = msgspec.json.Decoder(core.WirePod).decode


class EvictionEnd(enum.Enum):
    """How an eviction ended."""

    EVICTED = "evicted"  # the pod is being deleted at our request
    OBSOLETE = "obsolete"  # it need not be sent: the pod is gone, nothing needs its room, or the lease was lost
    REFUSED = "refused"  # the API server did not delete the pod


EvictionOutcome = tuple[EvictionEnd, str]  # and a message if the pod was not evicted


class EvictionObserver(Protocol):
    """Who decided the evictions: says whether each is still valid, and hears of its outcome in the event loop."""

    def check(self, eviction: Evict) -> str:
        """Return why the eviction must not be sent any more, or an empty string."""

    def ended(self, eviction: Evict, end: EvictionEnd, message: str) -> None:
        """The outcome of the eviction is known."""


class PodDeleter:
    """Sends the evictions of its queue in their order.

    Parameters
    ----------
    api
        The client of the API server.
    queue
        Evictions that wait.
    observer
        Validates each eviction right before it is sent, and hears of its outcome.
    explain
        Gives the message of the condition DisruptionTarget.
    now_ns
        The wall clock in nanoseconds since the epoch.
    rng
        Jitter of retries.
    mark
        Whether a pod gets the condition DisruptionTarget before it is deleted.
    workers
        How many evictions are under way at most.
    """

    def __init__(
        self,
        api: Api,
        queue: FifoQueue[Evict],
        observer: EvictionObserver,
        explain: Callable[[Evict], str],
        now_ns: Callable[[], int],
        rng: random.Random,
        mark: bool = False,
        workers: int = WORKERS,
    ) -> None:
        self._api = api
        self._queue = queue
        self._check = observer.check
        self._ended = observer.ended
        self._explain = explain
        self._now_ns = now_ns
        self._rng = rng
        self._mark = mark
        self._workers = Workers("evicter", queue, self._work, workers)

    async def drained(self) -> None:
        """Return once the outcome of every eviction is known."""
        await self._queue.drained()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._workers.run()

    async def _work(self, eviction: Evict) -> None:
        try:
            condition = self._condition if self._mark else None
            request = _EvictionRequest(self._api, eviction, self._check, condition)
            end, message = await deliver(request, EVICTIONS, self._rng)
        except Exception as error:
            end, message = EvictionEnd.REFUSED, FAULTS.note("evicter", eviction.pod, error)
        self._ended(eviction, end, message)

    def _condition(self, eviction: Evict) -> bytes:
        condition = {
            "type": names.DISRUPTION_TARGET,
            "status": "True",
            "reason": names.PREEMPTION_BY_SCHEDULER,
            "message": self._explain(eviction),
            "lastTransitionTime": format_time(self._now_ns()),
        }
        return msgspec.json.encode({"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}})


class _EvictionRequest(Delivery[EvictionOutcome]):
    """One eviction: the condition if there is one, then the DELETE.

    ``_in_doubt``: a DELETE may have been carried out although its answer was an error, or did not come.
    """

    def __init__(
        self,
        api: Api,
        eviction: Evict,
        check: Callable[[Evict], str],
        condition: Callable[[Evict], bytes] | None,
    ) -> None:
        self._api = api
        self._eviction = eviction
        self._check = check
        self._condition = condition
        self._is_deleting = False  # the last attempt got as far as the DELETE
        self._in_doubt = False

    def obsolete(self) -> str:
        return self._check(self._eviction)

    async def send(self) -> EvictionOutcome:
        pod = self._eviction.pod
        self._is_deleting = False
        if self._condition is not None:
            body = self._condition(self._eviction)
            await self._api.request("PATCH", pod_path(pod, "status"), body=body, content_type=STRATEGIC)
            self._condition = None
        self._is_deleting = True
        await self._api.request("DELETE", pod_path(pod), body=_delete_options(self._eviction.uid))
        return EvictionEnd.EVICTED, ""

    async def inspect(self, failure: ApiFailure) -> EvictionOutcome | None:
        self._in_doubt = self._in_doubt or (self._is_deleting and failure.status not in (404, 409))
        if not await self._is_leaving():
            return None
        end = EvictionEnd.EVICTED if self._in_doubt else EvictionEnd.OBSOLETE
        return end, f"pod {self._eviction.pod} is gone"

    async def give_up(self, reason: str, failure: ApiFailure | None) -> EvictionOutcome:
        if failure is None:
            was_evicted = self._in_doubt and await self._is_leaving()
            return (EvictionEnd.EVICTED if was_evicted else EvictionEnd.OBSOLETE), reason
        return (EvictionEnd.OBSOLETE if failure.reason == NOT_LEADER else EvictionEnd.REFUSED), reason

    async def _is_leaving(self) -> bool:
        """Whether the pod is gone or being deleted, as far as can be known."""
        pod_key, uid = self._eviction.pod, self._eviction.uid
        try:
            path = pod_path(pod_key)
            pod = read(_decode_pod, await self._api.request("GET", path), path, "the pod")
        except ApiFailure as unknown:
            return unknown.status == 404
        meta = pod.metadata
        return meta is None or meta.uid != uid or meta.deletion_timestamp is not None


def _delete_options(uid: str) -> bytes:
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
