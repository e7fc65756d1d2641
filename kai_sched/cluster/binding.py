"""Binds pods: POST pods/binding with the pod's uid, many at once, those of a group together.

The API server refuses a second bind and a pod of another uid, so that nothing is ever bound twice. What is in doubt, as
after a cut connection, is settled by a look at the pod before anything is sent again.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kai_sched.api import core
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import NOT_LEADER, Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import pod_path
from kai_sched.cluster.pool import Pool
from kai_sched.model.keys import split_key
from kai_sched.plan.effects import Bind
from kai_sched.telemetry.faults import FAULTS

ATTEMPTS = 6
BACKOFF = Backoff(0.1, 2.0)
DOUBT = Backoff(1.0, 10.0)  # between looks at a pod that cannot be read

OBSOLETE = "Obsolete"
FAULT = "InternalError"
_decode_pod = msgspec.json.Decoder(core.WirePod).decode


@dataclass(frozen=True, slots=True)
class BindFailure:
    """Why a bind was given up.

    ``reason`` is OBSOLETE where the cluster had changed meanwhile, NOT_LEADER where the lease was lost, else what the
    API server said, as "Forbidden", FAULT for a fault of our own. ``status`` is the HTTP status, 0 without an answer.
    """

    reason: str
    message: str
    status: int = 0


class _Look(enum.Enum):
    """What a look at the pod says of a bind: done, to be sent again, in vain, or nothing, as it could not be read."""

    BOUND = "bound"
    WAITS = "waits"
    LOST = "lost"
    UNKNOWN = "unknown"


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
        self._pool: Pool[Bind] = Pool("binder", self._work, workers)

    @property
    def pending(self) -> int:
        """Binds that are not settled."""
        return self._pool.pending

    async def drained(self) -> None:
        """Return once every bind is settled."""
        await self._pool.drained()

    def submit(self, group: Sequence[Bind]) -> None:
        """Send all of a group's binds, unless one of them makes no sense any more: then none."""
        refusals = [(bind, why) for bind in group if (why := self._why_not(bind))]
        if refusals:
            first, why = refusals[0]
            refused = {bind.pod: why for bind, why in refusals}
            for bind in group:
                why_not = refused.get(bind.pod, f"not sent, as of {first.pod}: {why}")
                self._tell_failed(bind, BindFailure(OBSOLETE, why_not))
            return
        self._pool.submit(group)

    async def run(self) -> None:
        """Until cancelled."""
        await self._pool.run()

    async def _work(self, bind: Bind) -> None:
        started = asyncio.get_running_loop().time()
        try:
            failure = await self._settle(bind)
        except Exception as error:
            failure = BindFailure(FAULT, FAULTS.note("binder", bind.pod, error))
        if failure is None:
            self._bound(bind, asyncio.get_running_loop().time() - started)
        else:
            self._tell_failed(bind, failure)

    def _why_not(self, bind: Bind) -> str:
        try:
            return self._check(bind)
        except Exception as error:
            return f"it cannot be checked: {FAULTS.note('binder', bind.pod, error)}"

    def _tell_failed(self, bind: Bind, failure: BindFailure) -> None:
        try:
            self._failed(bind, failure)
        except Exception as error:
            FAULTS.note("binder", bind.pod, error)

    async def _settle(self, bind: Bind) -> BindFailure | None:
        """Try until the bind has succeeded, None, or is given up."""
        look, told = _Look.WAITS, BindFailure(OBSOLETE, "not sent")
        for attempt in range(1, ATTEMPTS + 1):
            if why := self._why_not(bind):
                told = BindFailure(OBSOLETE, why)
                break
            try:
                await self._api.request("POST", pod_path(bind.pod, "binding"), body=binding(bind))
                return None
            except ApiFailure as wrong:
                failure = wrong
            told = BindFailure(failure.reason, str(failure), failure.status)
            if failure.reason == NOT_LEADER or failure.status in (401, 403, 404, 422):
                break
            if failure.status != 429:
                # The request may have been carried out, or somebody else was first: only the pod knows.
                look, told = await self._look(bind, told)
                if look in (_Look.BOUND, _Look.LOST):
                    break
            if attempt < ATTEMPTS:
                await asyncio.sleep(BACKOFF.wait_s(attempt, self._chance, failure.retry_after_s))
        looks = 0
        while look is _Look.UNKNOWN:
            # Without a word from the pod, one of the attempts may have been carried out: until then it keeps its room.
            looks += 1
            await asyncio.sleep(DOUBT.wait_s(looks, self._chance))
            look, told = await self._look(bind, told)
        return None if look is _Look.BOUND else told

    async def _look(self, bind: Bind, told: BindFailure) -> tuple[_Look, BindFailure]:
        """What has become of the pod, and the failure as it is to be told then."""
        try:
            path = pod_path(bind.pod)
            pod = read(_decode_pod, await self._api.request("GET", path), path, "the pod")
        except ApiFailure as unknown:
            return (_Look.LOST if unknown.status == 404 else _Look.UNKNOWN), told
        if not pod.metadata or pod.metadata.uid != bind.uid:
            why = f"pod {bind.pod} was deleted and created anew"
            return _Look.LOST, BindFailure(OBSOLETE, why, told.status)
        node = (pod.spec or core.PodSpec()).node_name
        if node == bind.node:
            return _Look.BOUND, told
        if node:
            return _Look.LOST, BindFailure(OBSOLETE, f"pod {bind.pod} is on node {node} already", told.status)
        gone = told.status == 409 and pod.metadata.deletion_timestamp is not None
        return (_Look.LOST if gone else _Look.WAITS), told


def binding(bind: Bind) -> bytes:
    """The body of the POST."""
    namespace, name = split_key(bind.pod)
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": bind.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
    )
