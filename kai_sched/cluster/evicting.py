"""Evicts pods: DELETE with the pod's uid, so that one made anew under the same name never goes in its stead.

What is in doubt, as after a cut connection, is settled by a look at the pod before anything is sent again.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable, Sequence

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import NOT_LEADER, STRATEGIC, Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import pod_path
from kai_sched.cluster.pool import Pool
from kai_sched.model.times import format_seconds
from kai_sched.plan.effects import Evict
from kai_sched.telemetry.faults import FAULTS

ATTEMPTS = 6
BACKOFF = Backoff(0.2, 5.0, asked_max_s=5.0)

_decode_pod = msgspec.json.Decoder(core.WirePod).decode


class End(enum.Enum):
    """How an eviction ended: the pod is on its way out by our hand, the cluster had changed, or we were not let."""

    EVICTED = "evicted"
    OBSOLETE = "obsolete"
    REFUSED = "refused"


class Evicter:
    """Sends evictions as they are submitted, at most ``workers`` at a time, and tells how each one ended.

    ``check`` says, right before one is sent, why it makes no sense any more, or nothing. ``ended`` is called in the
    event loop, with a message where the pod was not evicted. ``mark`` says whether the pod first gets the condition
    DisruptionTarget, with the text that ``explain`` gives. ``now`` is the wall clock in seconds.
    """

    def __init__(
        self,
        api: Api,
        check: Callable[[Evict], str],
        ended: Callable[[Evict, End, str], None],
        explain: Callable[[Evict], str],
        now: Callable[[], float],
        chance: random.Random,
        mark: bool = False,
        workers: int = 8,
    ) -> None:
        self._api = api
        self._check = check
        self._ended = ended
        self._explain = explain
        self._now = now
        self._chance = chance
        self._mark = mark
        self._pool: Pool[Evict] = Pool("evicter", self._work, workers)

    @property
    def pending(self) -> int:
        """Evictions that are not settled."""
        return self._pool.pending

    async def drained(self) -> None:
        """Return once every eviction is settled."""
        await self._pool.drained()

    def submit(self, evictions: Sequence[Evict]) -> None:
        """Evict these, in this order."""
        self._pool.submit(evictions)

    async def run(self) -> None:
        """Until cancelled."""
        await self._pool.run()

    async def _work(self, eviction: Evict) -> None:
        try:
            end, message = await self._settle(eviction)
        except Exception as error:
            end, message = End.REFUSED, FAULTS.note("evicter", eviction.pod, error)
        self._ended(eviction, end, message)

    async def _settle(self, eviction: Evict) -> tuple[End, str]:
        """Try until the pod is on its way out, or the eviction is given up."""
        marked, doubt = not self._mark, False  # doubt: it may have been carried out without our being told
        for attempt in range(1, ATTEMPTS + 1):
            if why := self._check(eviction):
                return (End.EVICTED if doubt and await self._leaves(eviction) else End.OBSOLETE), why
            asked = False
            try:
                if not marked:
                    body = self._condition(eviction)
                    path = pod_path(eviction.pod, "status")
                    await self._api.request("PATCH", path, body=body, content_type=STRATEGIC)
                    marked = True
                asked = True
                await self._api.request("DELETE", pod_path(eviction.pod), body=_options(eviction.uid))
                return End.EVICTED, ""
            except ApiFailure as wrong:
                failure = wrong
            if failure.reason == NOT_LEADER:
                return End.OBSOLETE, str(failure)
            if failure.status in (401, 403, 422):
                return End.REFUSED, str(failure)
            doubt = doubt or (asked and failure.status not in (404, 409, 429))
            if failure.status != 429 and await self._leaves(eviction):
                return (End.EVICTED if doubt else End.OBSOLETE), f"pod {eviction.pod} is gone"
            if attempt < ATTEMPTS:
                await asyncio.sleep(BACKOFF.wait_s(attempt, self._chance, failure.retry_after_s))
        return End.REFUSED, str(failure)

    async def _leaves(self, eviction: Evict) -> bool:
        """Whether the pod is gone or on its way out, as far as can be known."""
        try:
            path = pod_path(eviction.pod)
            pod = read(_decode_pod, await self._api.request("GET", path), path, "the pod")
        except ApiFailure as unknown:
            return unknown.status == 404
        meta = pod.metadata
        return meta is None or meta.uid != eviction.uid or meta.deletion_timestamp is not None

    def _condition(self, eviction: Evict) -> bytes:
        condition = {
            "type": names.DISRUPTION_TARGET,
            "status": "True",
            "reason": names.PREEMPTION_BY_SCHEDULER,
            "message": self._explain(eviction),
            "lastTransitionTime": format_seconds(self._now()),
        }
        return msgspec.json.encode({"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}})


def _options(uid: str) -> bytes:
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
