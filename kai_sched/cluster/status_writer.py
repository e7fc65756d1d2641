"""Sends statuses, annotations, conditions and Events: the patch of each, and the name of an Event. Binds go first; all
this can wait.

It empties a ``WriteQueue``. Each request names the uid of its object, so what is written about one pod never lands on
another of the same name.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.cluster.client import MERGE, STRATEGIC, Api, ApiFailure
from kai_sched.cluster.delivery import Delivery, Workers, deliver
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import Path, object_path, objects_path
from kai_sched.cluster.retry import CONDITIONS, STATUSES
from kai_sched.cluster.write_queue import WriteQueue, describe
from kai_sched.model.times import format_time
from kai_sched.plan.effects import Annotate, Emit, PatchStatus, Ref, SetCondition, Write
from kai_sched.reconcile.events import cut

WORKERS = 8

_PLURALS = {
    "Pod": "pods",
    "Queue": "queues",
    "PodGroup": "podgroups",
}


def path_of(ref: Ref, part: str = "") -> Path:
    """Return the path of the object, or of a part of it such as "status". Raises ApiFailure."""
    return object_path(ref.api_version, _PLURALS[ref.kind], ref.namespace, ref.name, part)


class _EventCount(msgspec.Struct):
    """What is read of an event that exists already."""

    count: int | None = None


_decode_event = msgspec.json.Decoder(_EventCount).decode


class StatusWriter:
    """Sends the writes of its queue.

    Parameters
    ----------
    api
        The client of the API server.
    queue
        Writes that wait.
    component
        The name that events give as their source.
    is_busy
        While it returns true, binds wait, and only one write is under way.
    now_ns
        The wall clock in nanoseconds since the epoch.
    pending_version
        Returns the resourceVersion in which a pod is known to wait for a node, or an empty string for one that does
        not wait: a condition of a waiting pod must not land on one that was bound meanwhile.
    rng
        Jitter of retries.
    workers
        How many writes are under way at most.
    """

    def __init__(
        self,
        api: Api,
        queue: WriteQueue,
        component: str,
        is_busy: Callable[[], bool],
        now_ns: Callable[[], int],
        pending_version: Callable[[Ref], str],
        rng: random.Random,
        workers: int = WORKERS,
    ) -> None:
        self._api = api
        self._queue = queue
        self._component = component
        self._now_ns = now_ns
        self._pending_version = pending_version
        self._rng = rng
        self._workers: Workers[Write] = Workers("writer", queue, self._work, workers, is_busy, describe)

    async def drained(self) -> None:
        """Return once nothing waits but events beyond their budget."""
        await self._queue.drained()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._workers.run()

    async def _work(self, write: Write) -> None:
        policy = CONDITIONS if isinstance(write, SetCondition) else STATUSES
        await deliver(_WriteRequest(self._queue, write, self._send), policy, self._rng)

    async def _send(self, write: Write) -> None:
        match write:
            case PatchStatus():
                body: dict[str, Any] = {"status": write.status}
                await self._patch(write.ref, "status", MERGE, body)
            case Annotate():
                await self._patch(write.ref, "", MERGE, {"metadata": {"annotations": write.annotations}})
            case SetCondition():
                await self._set_condition(write)
            case Emit():
                is_about_waiting = write.reason == names.UNSCHEDULABLE and write.ref.kind == "Pod"
                if is_about_waiting and not self._pending_version(write.ref):
                    return  # the pod has got a node meanwhile
                self._queue.budget.take()
                await self._emit(write)

    async def _set_condition(self, write: SetCondition) -> None:
        condition = {
            "type": write.type,
            "status": write.status,
            "reason": write.reason,
            "message": write.message,
        }
        version = self._pending_version(write.ref)
        if not version:
            return
        if write.changes_status:
            condition["lastTransitionTime"] = format_time(self._now_ns())
        body = {"metadata": {"resourceVersion": version}, "status": {"conditions": [condition]}}
        await self._patch(write.ref, "status", STRATEGIC, body)

    async def _patch(self, ref: Ref, part: str, content_type: str, body: dict[str, Any]) -> None:
        if ref.uid:
            body.setdefault("metadata", {})["uid"] = ref.uid
        sent = msgspec.json.encode(body)
        await self._api.request("PATCH", path_of(ref, part), body=sent, content_type=content_type)

    async def _emit(self, emit: Emit) -> None:
        event = event_of(emit, self._component, format_time(self._now_ns()))
        namespace, name = event["metadata"]["namespace"], event["metadata"]["name"]
        try:
            await self._api.request("POST", objects_path("v1", "events", namespace), body=msgspec.json.encode(event))
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise
            path = object_path("v1", "events", namespace, name)
            before = read(_decode_event, await self._api.request("GET", path), path, "the event")
            news = {"count": (before.count or 1) + 1, "lastTimestamp": event["lastTimestamp"]}
            await self._api.request("PATCH", path, body=msgspec.json.encode(news), content_type=MERGE)


class _WriteRequest(Delivery[bool]):
    """One write. Before each attempt it is merged with the later writes that have the same key."""

    def __init__(self, queue: WriteQueue, write: Write, send: Callable[[Write], Awaitable[None]]) -> None:
        self._queue = queue
        self._write = write
        self._send = send

    async def send(self) -> bool:
        self._write = self._queue.with_later(self._write)
        await self._send(self._write)
        return True

    async def give_up(self, _reason: str, failure: ApiFailure | None) -> bool:
        self._queue.give_up(self._write, failure)
        return False


def event_of(emit: Emit, component: str, now: str) -> dict[str, Any]:
    """Return the Event as it is posted. Its name is derived from its content, so equal events are one series."""
    ref = emit.ref
    message = cut(emit.message)
    fact = "\0".join((ref.kind, ref.uid or ref.key, emit.type, emit.reason, message))
    metadata: dict[str, Any] = {
        "name": f"{ref.name[:200].rstrip('-.')}.{hashlib.sha256(fact.encode()).hexdigest()[:16]}",
        "namespace": ref.namespace or "default",
    }
    if emit.annotations:
        metadata["annotations"] = dict(emit.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "namespace": ref.namespace,
            "name": ref.name,
            "uid": ref.uid,
        },
        "type": emit.type,
        "reason": emit.reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
