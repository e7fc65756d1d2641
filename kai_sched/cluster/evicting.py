"""Evicts pods: DELETE with the pod's uid, so that one made anew under the same name never goes in its stead.

An eviction can be sent twice without harm, so whatever is in doubt is sent again.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.plan.effects import Evict

ATTEMPTS = 6
FIRST_DELAY_S = 0.2
DELAY_MAX_S = 5.0
STRATEGIC = "application/strategic-merge-patch+json"

Check = Callable[[Evict], str]


class Evicter:
    """Sends evictions as they are submitted, at most ``workers`` at a time, and tells how each one ended.

    ``check`` says, right before one is sent, why it makes no sense any more, or nothing. ``mark`` says whether the pod
    first gets the condition DisruptionTarget, with the text that ``explain`` gives. ``ended`` is told the failure,
    empty where the pod is on its way out.
    """

    def __init__(
        self,
        api: Api,
        check: Check,
        ended: Callable[[Evict, str], None],
        explain: Callable[[Evict], str],
        chance: random.Random,
        mark: bool = False,
        workers: int = 8,
    ) -> None:
        self._api = api
        self._check = check
        self._ended = ended
        self._explain = explain
        self._chance = chance
        self._mark = mark
        self._workers = workers
        self._waiting: deque[Evict] = deque()
        self._news = asyncio.Semaphore(0)
        self._under_way = 0

    @property
    def pending(self) -> int:
        """Evictions that are not settled."""
        return len(self._waiting) + self._under_way

    def submit(self, evictions: Sequence[Evict]) -> None:
        """Evict these, in this order."""
        for eviction in evictions:
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
                failure = await self._evict(eviction)
            finally:
                self._under_way -= 1
            self._ended(eviction, failure)

    async def _evict(self, eviction: Evict) -> str:
        namespace, name = eviction.pod.split("/", 1)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        for attempt in range(1, ATTEMPTS + 1):
            if why := self._check(eviction):
                return why
            try:
                if self._mark:
                    body = _condition(eviction.uid, self._explain(eviction))
                    await self._api.request("PATCH", f"{path}/status", body=body, content_type=STRATEGIC)
                await self._api.request("DELETE", path, body=_options(eviction.uid))
                return ""
            except ApiFailure as failure:
                if failure.status in (404, 409):
                    return ""  # gone already, whoever bears its name now
                if failure.reason == "NotLeader" or failure.status in (401, 403) or attempt == ATTEMPTS:
                    return str(failure)
                delay = min(DELAY_MAX_S, FIRST_DELAY_S * 2.0 ** (attempt - 1)) * self._chance.uniform(0.5, 1.0)
                await asyncio.sleep(max(delay, min(DELAY_MAX_S, failure.retry_after_s or 0.0)))
        raise AssertionError("the last attempt returns")


def _options(uid: str) -> bytes:
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})


def _condition(uid: str, message: str) -> bytes:
    condition: dict[str, Any] = {
        "type": names.DISRUPTION_TARGET,
        "status": "True",
        "reason": names.PREEMPTION_BY_SCHEDULER,
        "message": message,
    }
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})
