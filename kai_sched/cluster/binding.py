"""Binds pods: POST pods/binding with the pod's uid, many at once, those of a group together.

The API server refuses a second bind and a pod of another uid, so that nothing is ever bound twice. What is in doubt, as
after a cut connection, is settled by a look at the pod before anything is sent again.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kai_sched.api import core
from kai_sched.cluster.client import NOT_LEADER, Api, ApiFailure
from kai_sched.plan.effects import Bind

ATTEMPTS = 6
FIRST_DELAY_S = 0.1
DELAY_MAX_S = 2.0
BUSY_DELAY_MAX_S = 30.0  # of a Retry-After

OBSOLETE = "Obsolete"
_decode_pod = msgspec.json.Decoder(core.Pod).decode


@dataclass(frozen=True, slots=True)
class BindFailure:
    """Why a bind was given up.

    ``reason`` is OBSOLETE where the cluster had changed meanwhile, NOT_LEADER where the lease was lost, else what the
    API server said, as "Forbidden". ``status`` is its HTTP status, 0 without an answer.
    """

    reason: str
    message: str
    status: int = 0


Check = Callable[[Bind], str]


class Binder:
    """Sends binds as they are submitted, at most ``workers`` at a time, and tells how each one ended.

    ``check`` says why a bind makes no sense any more, or nothing; it is asked for the whole group before its first bind
    is sent, and for each bind again right before it is. ``bound``, with the seconds that it took, and ``failed`` are
    called in the event loop.
    """

    def __init__(
        self,
        api: Api,
        check: Check,
        bound: Callable[[Bind, float], None],
        failed: Callable[[Bind, BindFailure], None],
        chance: random.Random,
        workers: int = 32,
    ) -> None:
        self._api = api
        self._check = check
        self._bound = bound
        self._failed = failed
        self._chance = chance
        self._workers = workers
        self._waiting: deque[Bind] = deque()
        self._news = asyncio.Semaphore(0)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """Binds that are not settled."""
        return len(self._waiting) + self._under_way

    async def drained(self) -> None:
        """Return once every bind is settled."""
        await self._idle.wait()

    def submit(self, group: Sequence[Bind]) -> None:
        """Send all of a group's binds, unless one of them makes no sense any more: then none."""
        refusals = [(bind, why) for bind in group if (why := self._check(bind))]
        if refusals:
            first, why = refusals[0]
            refused = {bind.pod: why for bind, why in refusals}
            for bind in group:
                self._failed(bind, BindFailure(OBSOLETE, refused.get(bind.pod, f"not sent, as of {first.pod}: {why}")))
            return
        for bind in group:
            self._idle.clear()
            self._waiting.append(bind)
            self._news.release()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._news.acquire()
            bind = self._waiting.popleft()
            self._under_way += 1
            started = asyncio.get_running_loop().time()
            try:
                failure = await self._settle(bind)
            finally:
                self._under_way -= 1
            if failure is None:
                self._bound(bind, asyncio.get_running_loop().time() - started)
            else:
                self._failed(bind, failure)
            if not self.pending:
                self._idle.set()

    async def _settle(self, bind: Bind) -> BindFailure | None:
        """Try until the bind has succeeded, None, or is given up."""
        namespace, name = bind.pod.split("/", 1)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        attempt = 0
        while True:
            if why := self._check(bind):
                return BindFailure(OBSOLETE, why)
            try:
                await self._api.request("POST", f"{path}/binding", body=binding(bind))
                return None
            except ApiFailure as wrong:
                failure = wrong
            end, told = await self._after(bind, path, failure)
            attempt += 1
            if end or attempt == ATTEMPTS:
                return told
            await asyncio.sleep(self._delay(attempt, failure))

    async def _after(self, bind: Bind, path: str, failure: ApiFailure) -> tuple[bool, BindFailure | None]:
        """Whether that is the end of it, and the failure so far (None: it is bound after all)."""
        told = BindFailure(failure.reason, str(failure), failure.status)
        if failure.reason == NOT_LEADER or failure.status in (401, 403, 404, 422):
            return True, told
        if failure.status == 429:
            return False, told
        # The request may have been carried out, or somebody else was first: only the pod knows.
        try:
            pod = _decode_pod(await self._api.request("GET", path))
        except ApiFailure as unknown:
            return unknown.status == 404, told
        if not pod.metadata or pod.metadata.uid != bind.uid:
            return True, BindFailure(OBSOLETE, f"pod {bind.pod} was deleted and created anew", failure.status)
        node = (pod.spec or core.PodSpec()).node_name
        if node == bind.node:
            return True, None
        if node:
            return True, BindFailure(OBSOLETE, f"pod {bind.pod} is on node {node} already", failure.status)
        return failure.status == 409 and pod.metadata.deletion_timestamp is not None, told

    def _delay(self, attempt: int, failure: ApiFailure) -> float:
        delay = min(DELAY_MAX_S, FIRST_DELAY_S * 2.0 ** (attempt - 1)) * self._chance.uniform(0.5, 1.0)
        if failure.status == 429 and failure.retry_after_s:
            return min(BUSY_DELAY_MAX_S, failure.retry_after_s) + delay
        return delay


def binding(bind: Bind) -> bytes:
    """The body of the POST."""
    namespace, name = bind.pod.split("/", 1)
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": bind.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
    )
