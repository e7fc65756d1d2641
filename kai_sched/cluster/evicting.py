"""Evicts pods: DELETE with the pod's uid, so that one made anew under the same name never goes in its stead.

What is in doubt, as after a cut connection, is settled by a look at the pod before anything is sent again.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.client import NOT_LEADER, STRATEGIC, Api, ApiFailure
from kai_sched.cluster.writing import rfc3339
from kai_sched.plan.effects import Evict

ATTEMPTS = 6
FIRST_DELAY_S = 0.2
DELAY_MAX_S = 5.0

_decode_pod = msgspec.json.Decoder(core.Pod).decode


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
        self._workers = workers
        self._waiting: deque[Evict] = deque()
        self._news = asyncio.Semaphore(0)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """Evictions that are not settled."""
        return len(self._waiting) + self._under_way

    async def drained(self) -> None:
        """Return once every eviction is settled."""
        await self._idle.wait()

    def submit(self, evictions: Sequence[Evict]) -> None:
        """Evict these, in this order."""
        for eviction in evictions:
            self._idle.clear()
            self._waiting.append(eviction)
            self._news.release()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._news.acquire()
            eviction = self._waiting.popleft()
            self._under_way += 1
            try:
                end, message = await self._settle(eviction)
            finally:
                self._under_way -= 1
            self._ended(eviction, end, message)
            if not self.pending:
                self._idle.set()

    async def _settle(self, eviction: Evict) -> tuple[End, str]:
        """Try until the pod is on its way out, or the eviction is given up."""
        namespace, name = eviction.pod.split("/", 1)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        marked, doubt = not self._mark, False  # doubt: it may have been carried out without our being told
        for attempt in range(1, ATTEMPTS + 1):
            if why := self._check(eviction):
                return (End.EVICTED if doubt and await self._leaves(eviction, path) else End.OBSOLETE), why
            asked = False
            try:
                if not marked:
                    body = self._condition(eviction)
                    await self._api.request("PATCH", f"{path}/status", body=body, content_type=STRATEGIC)
                    marked = True
                asked = True
                await self._api.request("DELETE", path, body=_options(eviction.uid))
                return End.EVICTED, ""
            except ApiFailure as wrong:
                failure = wrong
            if failure.reason == NOT_LEADER:
                return End.OBSOLETE, str(failure)
            if failure.status in (401, 403, 422):
                return End.REFUSED, str(failure)
            doubt = doubt or (asked and failure.status not in (404, 409, 429))
            if failure.status != 429 and await self._leaves(eviction, path):
                return (End.EVICTED if doubt else End.OBSOLETE), f"pod {eviction.pod} is gone"
            if attempt < ATTEMPTS:
                await asyncio.sleep(self._delay(attempt, failure))
        return End.REFUSED, str(failure)

    async def _leaves(self, eviction: Evict, path: str) -> bool:
        """Whether the pod is gone or on its way out, as far as can be known."""
        try:
            pod = _decode_pod(await self._api.request("GET", path))
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
            "lastTransitionTime": rfc3339(self._now()),
        }
        return msgspec.json.encode({"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}})

    def _delay(self, attempt: int, failure: ApiFailure) -> float:
        delay = min(DELAY_MAX_S, FIRST_DELAY_S * 2.0 ** (attempt - 1)) * self._chance.uniform(0.5, 1.0)
        return max(delay, min(DELAY_MAX_S, failure.retry_after_s or 0.0))


def _options(uid: str) -> bytes:
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
