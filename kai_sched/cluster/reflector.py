"""List and watch of one kind: time limits and delays, and after which HTTP statuses a watch is resumed or everything is
listed again.

It is what client-go calls a reflector. Invariant: whatever fails, the sink ends up with what the API server shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Protocol

import msgspec

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import Path
from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.telemetry.unexpected import FAULTS

Kind = tuple[str, str]  # apiVersion and kind, as ("v1", "Pod")

JSON = "application/json"
METADATA = "application/json;as={};g=meta.k8s.io;v=v1"
METADATA_LIST = METADATA.format("PartialObjectMetadataList")
RESUMED = {0, 401, 403, 429, 500, 502, 503}  # after any other refusal of a watch the list is read again


@dataclass(frozen=True, slots=True)
class WatchSource:
    """What a reflector lists and watches.

    Attributes
    ----------
    kind
        apiVersion and kind of the objects.
    path, params
        Where they are, and what selects them.
    metadata_only
        Whether only their metadata is read.
    optional
        Whether the kind may be unknown to the API server (its CRD is not installed).
    remedy
        What to do if a kind that is not optional is unknown.
    """

    kind: Kind
    path: Path  # "/api/v1/pods"
    params: tuple[tuple[str, str], ...] = ()  # selectors
    metadata_only: bool = False
    optional: bool = False
    remedy: str = ""

    @property
    def resource(self) -> str:
        """The last part of the path: "pods"."""
        return self.path.rpartition("/")[2]

    @property
    def group(self) -> str:
        """The API group; empty for core."""
        return self.kind[0].rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class ReflectorTimings:
    """Timeouts and delays in seconds."""

    watch_s: float = 300.0  # the server ends a watch after one to two times this
    stalled_s: float = 70.0  # without a byte: bookmarks come about once a minute
    retry_first_s: float = 0.2  # doubles with each failure
    retry_last_s: float = 10.0
    absent_s: float = 3.0  # between lists of an optional kind that is unknown


class Sink(Protocol):
    """Receives the objects, in order. The bytes belong to a whole page: copy what is kept.

    A complete list comes between ``begin`` and ``finish``; objects that are not in it are gone. A list that breaks off
    is followed by another ``begin``. Items of a list lack apiVersion and kind.
    """

    def begin(self, kind: Kind) -> None: ...
    def item(self, kind: Kind, raw: msgspec.Raw) -> None: ...
    def finish(self, kind: Kind) -> None: ...
    def changed(self, kind: Kind, raw: msgspec.Raw) -> None: ...
    def deleted(self, kind: Kind, raw: msgspec.Raw) -> None: ...


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")


class _Versioned(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Error(msgspec.Struct):
    code: int = 0
    reason: str = "Unknown"
    message: str = "no message"


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_versioned = msgspec.json.Decoder(_Versioned).decode
_decode_error = msgspec.json.Decoder(_Error).decode


class Reflector:
    """For one event loop. Every failure of the API server is retried; if the sink raises, the list is read again.

    Attributes
    ----------
    synced
        Whether the sink has a complete list and, as far as is known, hears of every change.
    state
        "synced", or a sentence that says what is wrong.
    """

    def __init__(
        self,
        api: Api,
        source: WatchSource,
        sink: Sink,
        rng: Random,
        timings: ReflectorTimings | None = None,
        on_restart: Callable[[str], None] | None = None,
    ) -> None:
        """Do nothing yet; see ``run``.

        Parameters
        ----------
        api
            The client of the API server.
        source
            What is listed and watched.
        sink
            Hears of the objects.
        rng
            Jitter of delays.
        timings
            Timeouts and delays.
        on_restart
            Called with the name of the resource at the start of each watch but the first.
        """
        self._api = api
        self._source = source
        self._sink = sink
        self._rng = rng
        self._timings = timings or ReflectorTimings()
        self._resource = source.resource
        self._version = ""  # to watch from; empty: list first
        self._latest: msgspec.Raw | None = None  # the last object of the watch, which has a newer version
        self._pauses = Backoff(self._timings.retry_first_s, self._timings.retry_last_s)
        self._failures = 0  # in a row
        self._is_absent = False
        self._watches = 0
        self._on_restart = on_restart
        self._listed = asyncio.Event()
        self.synced = False
        self.state = f"{self._resource}: not listed yet"

    @property
    def listed(self) -> bool:
        """Whether the sink has ever had a complete list."""
        return self._listed.is_set()

    async def wait_listed(self) -> None:
        """Return once the sink has had a complete list."""
        await self._listed.wait()

    async def run(self) -> None:
        """Keep the sink up to date."""
        verb = "list"
        while True:
            try:
                if not self._version:
                    verb = "list"
                    await self._list()
                verb = "watch"
                await self._watch()
            except ApiFailure as failure:
                await asyncio.sleep(self._failed(verb, failure))
            except Exception as error:
                why = FAULTS.note("reflector", self._resource, error)
                await asyncio.sleep(self._failed("list", ApiFailure("GET", self._source.path, 0, "Fault", why)))

    async def _list(self) -> None:
        source = self._source
        accept = METADATA_LIST if source.metadata_only else JSON
        version = None
        turn = TimeSlice()
        async with aclosing(self._api.list_pages(source.path, dict(source.params), accept=accept)) as pages:
            async for items, of_page in pages:
                if version is None:
                    self._sink.begin(source.kind)
                version = of_page
                for raw in items:
                    self._sink.item(source.kind, raw)
                    await turn.pause()
                await asyncio.sleep(0)
        self._sink.finish(source.kind)
        self._version = version or ""
        self._is_absent = False
        self._listed.set()

    async def _watch(self) -> None:
        source = self._source
        accept = METADATA.format("PartialObjectMetadata") if source.metadata_only else JSON
        timeout_s = self._timings.watch_s * (1.0 + self._rng.random())
        stream = self._api.watch(
            source.path,
            dict(source.params),
            self._version,
            timeout_s=timeout_s,
            stalled_s=self._timings.stalled_s,
            accept=accept,
        )
        self._watches += 1
        if self._watches > 1 and self._on_restart is not None:
            self._on_restart(self._resource)
        accepted = False
        silent = True
        turn = TimeSlice()
        try:
            async with aclosing(stream) as lines:
                async for line in lines:
                    if line:
                        self._handle(line)
                        await turn.pause()
                        silent = False
                        self._failures = 0
                    else:
                        accepted = True
                        self.synced, self.state = True, "synced"
        except ApiFailure as failure:
            # An API server sends no bookmarks for a kind that has not changed since the server started.
            if not accepted or failure.reason != "Timeout":
                raise
        finally:
            if self._latest is not None:
                self._version = _decode_versioned(self._latest).metadata.version
                self._latest = None
        if silent:  # do not ask a server in a busy loop that ends each watch at once
            await asyncio.sleep(self._timings.retry_first_s)

    def _handle(self, line: bytes) -> None:
        path = self._source.path
        event = read(_decode_event, line, path, "an event")
        if event.type == "ERROR":
            error = read(_decode_error, event.object, path, "an event")
            raise ApiFailure("GET", path, error.code, error.reason, error.message)
        if event.type in ("ADDED", "MODIFIED"):
            self._sink.changed(self._source.kind, event.object)
        elif event.type == "DELETED":
            self._sink.deleted(self._source.kind, event.object)
        self._latest = event.object

    def _failed(self, verb: str, failure: ApiFailure) -> float:
        """Record the failure, and return after how many seconds to retry."""
        if verb == "list" or failure.status not in RESUMED:
            self._version = ""
        if failure.status == 404 and self._source.optional:
            return self._absent() if verb == "list" else 0.0
        if verb == "watch" and failure.status == 410:
            return self._backoff()  # only our version is too old
        may = "may not" if failure.status in (401, 403) else "cannot"
        status = f"{failure.status} " if failure.status else ""
        self.synced = False
        remedy = f": {self._source.remedy}" if failure.status == 404 and self._source.remedy else ""
        self.state = f"{status}{failure.reason}: {may} {verb} {self._resource}: {failure.message}{remedy}"
        return self._backoff(failure.retry_after_s)

    def _absent(self) -> float:
        if not self._is_absent:
            self._sink.begin(self._source.kind)
            self._sink.finish(self._source.kind)
            self._is_absent = True
        self._listed.set()
        self.synced = True
        self.state = f"{self._resource}: not known to the API server, so there are none (is the CRD installed?)"
        return self._timings.absent_s

    def _backoff(self, asked_s: float | None = None) -> float:
        self._failures += 1
        return self._pauses.wait_s(self._failures, self._rng, asked_s)
