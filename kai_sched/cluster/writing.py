"""Writes what people look at: statuses, annotations, conditions, events. Binds go first; all this can wait.

Writes about one thing are merged until they are sent, so a burst of changes costs one request. Each names the uid of
its object: what is written about a pod never lands on another of the same name.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.budget import Budget
from kai_sched.cluster.client import MERGE, NOT_LEADER, STRATEGIC, Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import Path, object_path, objects_path
from kai_sched.model.times import format_seconds
from kai_sched.plan.effects import Annotate, Emit, PatchStatus, Ref, SetCondition, Write
from kai_sched.reconcile.events import MESSAGE_MAX as MESSAGE_MAX
from kai_sched.reconcile.events import cut
from kai_sched.telemetry.faults import FAULTS

ATTEMPTS = 5
BACKOFF = Backoff(0.4, 10.0, asked_max_s=10.0)
QUEUE_MAX = 50_000
EVENTS_MAX = 5_000
BUSY_PAUSE_S = 0.02

_PLURALS = {
    "Pod": "pods",
    "Queue": "queues",
    "PodGroup": "podgroups",
}
Key = tuple[str, str, str, str]


def path_of(ref: Ref, part: str = "") -> Path:
    """The path in the API of the object, or of a part of it such as "status". Raises ApiFailure."""
    return object_path(ref.api_version, _PLURALS[ref.kind], ref.namespace, ref.name, part)


class _Event(msgspec.Struct):
    """What is read of an event that is there already."""

    count: int | None = None


_decode_event = msgspec.json.Decoder(_Event).decode


class Writer:
    """Sends writes as they are submitted, at most ``workers`` at a time, one while ``busy`` says that binds wait.

    ``now`` is the wall clock in seconds. ``version`` is the resourceVersion in which a pod is known to wait for a node,
    empty for one that does not: what was to be said of a waiting pod must not be said of one bound meanwhile.
    ``failed`` is told what was given up, and why. The oldest writes are dropped where more than QUEUE_MAX wait.
    Events have a budget, so that no flood of them reaches the API server, and queues of EVENTS_MAX, one
    for those of pods, which come last.
    """

    def __init__(
        self,
        api: Api,
        source: str,
        busy: Callable[[], bool],
        now: Callable[[], float],
        version: Callable[[Ref], str],
        failed: Callable[[Write, ApiFailure | None], None],
        chance: random.Random,
        workers: int = 8,
        budget: Budget | None = None,
    ) -> None:
        self._api = api
        self._source = source
        self._busy = busy
        self._now = now
        self._version = version
        self._failed = failed
        self._chance = chance
        self._workers = workers
        self._waiting: OrderedDict[Key, Write] = OrderedDict()
        self._events: OrderedDict[Key, Write] = OrderedDict()
        self._pod_events: OrderedDict[Key, Write] = OrderedDict()  # which are many, and say what their group's say
        self._budget = budget or Budget(time.monotonic)
        # What is being sent, and what has come meanwhile about the same thing: an older write must not land last.
        self._under_way: set[Key] = set()
        self._later: dict[Key, Write] = {}
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """Writes that wait, events aside."""
        return len(self._waiting)

    @property
    def events(self) -> int:
        """Events that wait."""
        return len(self._events) + len(self._pod_events)

    async def drained(self) -> None:
        """Return once nothing waits but events that are beyond their budget."""
        await self._idle.wait()

    def submit(self, writes: Iterable[Write]) -> None:
        """Write these some time soon."""
        for write in writes:
            self._idle.clear()
            key = _key(write)
            queue = self._queue(write)
            into = self._later if key in self._under_way else queue
            into[key] = _merged(into.get(key), write)
            if len(queue) > (QUEUE_MAX if queue is self._waiting else EVENTS_MAX):
                self._give_up(queue.popitem(last=False)[1], None)
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                tasks.create_task(self._work(steady=number == 0))

    async def _work(self, *, steady: bool) -> None:
        while True:
            wait_s = self._budget.wait_s() if self.events else None
            if not self._waiting and wait_s != 0.0:
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._news.wait()
            if not steady and self._busy():
                await asyncio.sleep(BUSY_PAUSE_S)
                continue
            queue = self._next()
            if queue:
                key, write = queue.popitem(last=False)
                self._under_way.add(key)
                try:
                    await self._write(key, write)
                except Exception as error:
                    FAULTS.note("writer", f"{type(write).__name__} {write.ref.kind} {write.ref.key}", error)
                finally:
                    self._under_way.discard(key)
                    if key in self._later:
                        self._queue(write)[key] = self._later.pop(key)
                if not self._next() and not self._under_way:
                    self._idle.set()

    def _queue(self, write: Write) -> OrderedDict[Key, Write]:
        if not isinstance(write, Emit):
            return self._waiting
        return self._pod_events if write.ref.kind == "Pod" else self._events

    def _next(self) -> OrderedDict[Key, Write]:
        """Where the next write stands: an event, as long as their budget lasts."""
        if self.events and not self._budget.wait_s():
            return self._events or self._pod_events
        return self._waiting

    async def _write(self, key: Key, write: Write) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._send(write)
                return
            except ApiFailure as failure:
                # 409: the object of that uid is gone; so is what was to be said of it.
                lost = failure.reason == NOT_LEADER or (400 <= failure.status < 500 and failure.status != 429)
                if lost or attempt == ATTEMPTS:
                    self._give_up(write, failure)
                    return
                await asyncio.sleep(BACKOFF.wait_s(attempt, self._chance, failure.retry_after_s))
                if key in self._later:
                    write = _merged(write, self._later.pop(key))

    def _give_up(self, write: Write, failure: ApiFailure | None) -> None:
        try:
            self._failed(write, failure)
        except Exception as error:
            FAULTS.note("writer", f"{type(write).__name__} {write.ref.kind} {write.ref.key}", error)

    async def _send(self, write: Write) -> None:
        match write:
            case PatchStatus():
                body: dict[str, Any] = {"status": write.status}
                await self._patch(write.ref, "status", MERGE, body)
            case Annotate():
                await self._patch(write.ref, "", MERGE, {"metadata": {"annotations": write.annotations}})
            case SetCondition():
                condition = {
                    "type": write.type,
                    "status": write.status,
                    "reason": write.reason,
                    "message": write.message,
                }
                version = self._version(write.ref)
                if not version:
                    return
                if write.changes_status:
                    condition["lastTransitionTime"] = format_seconds(self._now())
                await self._patch(
                    write.ref,
                    "status",
                    STRATEGIC,
                    {"metadata": {"resourceVersion": version}, "status": {"conditions": [condition]}},
                )
            case Emit():
                if write.reason == names.UNSCHEDULABLE and write.ref.kind == "Pod" and not self._version(write.ref):
                    return  # it has got a node while this was waiting
                self._budget.take()
                await self._emit(write)

    async def _patch(self, ref: Ref, part: str, content_type: str, body: dict[str, Any]) -> None:
        if ref.uid:
            body.setdefault("metadata", {})["uid"] = ref.uid
        sent = msgspec.json.encode(body)
        await self._api.request("PATCH", path_of(ref, part), body=sent, content_type=content_type)

    async def _emit(self, emit: Emit) -> None:
        event = event_of(emit, self._source, format_seconds(self._now()))
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


def event_of(emit: Emit, source: str, now: str) -> dict[str, Any]:
    """The Event as it is posted. Its name is that of the fact, so that the same fact is one series."""
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
        "source": {"component": source},
        "reportingComponent": source,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _key(write: Write) -> Key:
    kind = f"{write.ref.kind}:{write.ref.uid or write.ref.key}"
    match write:
        case Emit():
            return ("event", kind, write.reason, write.message)
        case SetCondition():
            return ("condition", kind, write.type, "")
        case _:
            return (type(write).__name__, kind, "", "")


def _both(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that does what the two do one after the other."""
    both = dict(first)
    for name, value in then.items():
        before = both.get(name)
        both[name] = _both(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return both


def _merged(before: Write | None, write: Write) -> Write:
    match before, write:
        case PatchStatus(), PatchStatus():
            return PatchStatus(write.ref, _both(before.status, write.status))
        case Annotate(), Annotate():
            return Annotate(write.ref, {**before.annotations, **write.annotations})
        case SetCondition(), SetCondition():
            changes = before.changes_status or write.changes_status
            return SetCondition(write.ref, write.type, write.status, write.reason, write.message, changes)
        case _:
            return write
