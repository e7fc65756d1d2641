"""Leader election: how long a Lease holds, how often it is renewed, when a standby takes it over, and when writes must
end.

It runs in a thread with an event loop and a connection of its own, so that nothing delays it. The Api asks ``held``
before each write, the lifecycle waits for leadership. Invariant: while ``held`` returns true, no other process that
follows the terms can hold the lease.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.login import LoginFailure
from kai_sched.cluster.paths import Path, object_path, objects_path
from kai_sched.telemetry.unexpected import FAULTS

VERSION = "coordination.k8s.io/v1"


_decode_lease = msgspec.json.Decoder(dict[str, Any]).decode


def boot_time() -> float:
    """Return the seconds since the machine started, including those in which it slept, unlike time.monotonic."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Durations of the election, in seconds: retry < renew deadline < lease."""

    lease_s: float = 15.0  # a holder that has not renewed for this long is replaced
    renew_deadline_s: float = 10.0  # the holder itself gives up this long after it sent its last renewal
    retry_s: float = 2.0

    @property
    def guarded_s(self) -> float:
        """How long a write may take that began while the lease was held; after that another process may lead."""
        return self.lease_s - self.renew_deadline_s


class LeaderLease:
    """Tries to hold the Lease from ``start`` to ``release``. A holder that lost it tries again like any other process.

    The wall clocks of other processes are not used. The lease of another process ends when this process has seen the
    same record for the duration of the lease, measured with its own clock.

    Attributes
    ----------
    failure
        What is wrong with the last attempt.
    holder
        Who held the lease when it was last read.
    created
        Whether this process created the Lease: no process has led before, or the Lease was deleted.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Api]],
        namespace: str,
        identity: str,
        *,
        rng: Random,
        terms: LeaseTerms | None = None,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """Do not start yet: the name of the Lease is known once the settings have been read.

        Parameters
        ----------
        connect
            Called in the event loop of the lease's own thread; its Api is closed at the end.
        namespace
            The namespace of the Lease.
        identity
            The name of this process, which must be unique.
        rng
            Jitter between attempts.
        terms
            The durations of the election.
        clock
            Seconds that never go back, and that go on while the process is stopped or the machine sleeps.
        """
        self._connect = connect
        self._namespace = namespace
        self._name = ""
        self.identity = identity
        self._rng = rng
        self._terms = terms or LeaseTerms()
        self._clock = clock
        self._held_until = float("-inf")
        self._lease: dict[str, Any] | None = None  # our own, as last answered: renewed without reading it again
        self._seen: tuple[dict[str, Any], float] | None = None  # another's record, and since when
        self.failure: str | None = None
        self.holder = ""
        self.created = False
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[tuple[bool, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="lease", daemon=True)

    def start(self, name: str) -> None:
        """Try to hold the Lease of that name from now on. May be called once."""
        self._name = name
        self._thread.start()

    def held(self) -> bool:
        """Return whether this process leads now. Cheap, and may be called from any thread.

        It is false at once for a process that was stopped for too long.
        """
        return self._clock() < self._held_until and not self._stopping.is_set()

    @property
    def ended(self) -> bool:
        """Whether the thread has ended, by ``release`` or by an unexpected exception."""
        return self._thread.ident is not None and not self._thread.is_alive()

    @property
    def state(self) -> str:
        """The state as a sentence."""
        if self.failure is not None:
            return f"lease {self._namespace}/{self._name}: {self.failure}"
        return "leading" if self.held() else f"standby, {self.holder or 'nobody'} leads"

    @property
    def guarded_s(self) -> float:
        """As ``LeaseTerms.guarded_s``."""
        return self._terms.guarded_s

    async def wait_held(self) -> None:
        """Return as soon as this process leads."""
        await self._wait(True)

    async def wait_lost(self) -> None:
        """Return as soon as this process does not lead."""
        await self._wait(False)

    async def release(self, timeout_s: float = 5.0) -> None:
        """Give the lease up at once; wait up to ``timeout_s`` seconds until another process can take it."""
        self._stopping.set()
        with self._lock:
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(self._wake.set)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, timeout_s)
        self._notify()

    async def _wait(self, wanted: bool) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.held() == wanted:
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.append((wanted, loop, future))
        try:
            await future
        finally:
            with self._lock:
                self._waiting = [entry for entry in self._waiting if entry[2] is not future]

    def _notify(self) -> None:
        """Wake those who wait for the present state."""
        with self._lock:
            held = self.held()
            ready = [entry for entry in self._waiting if entry[0] == held]
            self._waiting = [entry for entry in self._waiting if entry[0] != held]
        for _, loop, future in ready:
            with suppress(RuntimeError):  # the loop of a waiter has ended
                loop.call_soon_threadsafe(_resolve, future)

    async def _run(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
        api: Api | None = None
        try:
            while not self._stopping.is_set():
                try:
                    if api is None:
                        api = await self._connect()
                    gained = await self._attempt(api)
                    self.failure = None
                    self._notify()
                    if gained:
                        await self._announce(api)
                except Exception as failure:
                    self._lease = None  # whether it was written is unknown: read it
                    known = isinstance(failure, ApiFailure | LoginFailure)
                    self.failure = str(failure) if known else FAULTS.note("lease", self._name, failure)
                    self._notify()
                await self._pause()
            if api is not None and self._lease is not None:
                with suppress(ApiFailure):  # a standby has to wait then
                    await self._write(api, self._lease, "")
        finally:
            if api is not None:
                await api.close()

    async def _pause(self) -> None:
        """Wait for the next attempt, at most until our lease is lost or that of another process ends."""
        wait_s = self._terms.retry_s * (1.0 + 0.2 * self._rng.random())
        now = self._clock()
        ends = [self._held_until] + ([self._end_of(*self._seen)] if self._seen is not None else [])
        wait_s = min([wait_s, *(end - now for end in ends if end > now)])
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), wait_s)

    async def _attempt(self, api: Api) -> bool:
        """Take or renew the lease if allowed; return whether leadership begins. Raises ApiFailure."""
        held_until = self._held_until
        if self._lease is not None:
            try:
                return await self._take(api, self._lease, held_until)
            except ApiFailure as refused:
                if refused.status not in (404, 409):
                    raise
                # It was deleted, or written by another process: until it is known to be ours, nothing may be sent.
                self._held_until = float("-inf")
                self._lease = None
        lease = await self._read(api)
        if not (self._is_free() if lease is None else self._may_take(lease.get("spec") or {})):
            self._held_until = float("-inf")
            return False
        return await self._take(api, lease or self._new(), held_until)

    def _new(self) -> dict[str, Any]:
        metadata = {"namespace": self._namespace, "name": self._name}
        return {"apiVersion": VERSION, "kind": "Lease", "metadata": metadata}

    async def _take(self, api: Api, lease: dict[str, Any], held_until: float) -> bool:
        """Write the lease as ours, which it was until ``held_until``; return whether leadership begins.

        Raises ApiFailure.
        """
        sent_at = self._clock()
        self._lease = await self._write(api, lease, self.identity)
        lost = self._clock() >= held_until
        if lost:
            self._notify()  # the lease had run out before this renewal: report the loss
        self._held_until = sent_at + self._terms.renew_deadline_s
        self.holder = self.identity
        self._seen = None
        return lost and self.held()

    def _is_free(self) -> bool:
        """Return whether a missing Lease may be created: a deleted Lease still belongs to its last holder."""
        return self._seen is None or self._clock() >= self._end_of(*self._seen)

    def _may_take(self, spec: dict[str, Any]) -> bool:
        """Return whether the lease is ours, free, or has ended."""
        self.holder = spec.get("holderIdentity") or ""
        if self.holder in ("", self.identity):
            self._seen = None
            return True
        now = self._clock()
        if self._seen is None or self._seen[0] != spec:
            self._seen = (spec, now)
        return now >= self._end_of(*self._seen)

    def _end_of(self, spec: dict[str, Any], since: float) -> float:
        """Return when a lease ends whose record has not changed since ``since``."""
        return since + max(self._terms.lease_s, spec.get("leaseDurationSeconds") or 0)

    async def _read(self, api: Api) -> dict[str, Any] | None:
        path = object_path(VERSION, "leases", self._namespace, self._name)
        try:
            return _decode(path, await api.request("GET", path, timeout_s=self._timeout_s()))
        except ApiFailure as failure:
            if failure.status == 404:
                return None
            raise

    async def _write(self, api: Api, lease: dict[str, Any], holder: str) -> dict[str, Any]:
        """Create or replace the Lease as it was read. Raises ApiFailure: status 409 if another was faster."""
        spec = lease.get("spec") or {}
        now = _micro(datetime.now(UTC))
        changed = {**spec, "holderIdentity": holder, "renewTime": now}
        changed["leaseDurationSeconds"] = max(1, round(self._terms.lease_s))
        if holder and holder != spec.get("holderIdentity"):
            changed["acquireTime"] = now
            changed["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1 if spec else 0
        body = msgspec.json.encode({**lease, "spec": changed})
        new = "resourceVersion" not in lease["metadata"]
        leases = objects_path(VERSION, "leases", self._namespace)
        path = leases if new else object_path(VERSION, "leases", self._namespace, self._name)
        answer = await api.request("POST" if new else "PUT", path, body=body, timeout_s=self._timeout_s())
        self.created = self.created or new
        return _decode(path, answer)

    def _timeout_s(self) -> float:
        """Return the timeout of a request: a second one still fits, and it ends with the lease."""
        left_s = self._held_until - self._clock()
        longest_s = self._terms.renew_deadline_s / 2
        return min(left_s, longest_s) if left_s > 0.0 else longest_s

    async def _announce(self, api: Api) -> None:
        now = datetime.now(UTC)
        involved = {
            "apiVersion": VERSION,
            "kind": "Lease",
            "namespace": self._namespace,
            "name": self._name,
        }
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": self._namespace, "name": f"{self._name}.{time.time_ns():x}"},
            "involvedObject": {**involved, "uid": (self._lease or {}).get("metadata", {}).get("uid", "")},
            "reason": "LeaderElection",
            "message": f"{self.identity} became leader",
            "type": "Normal",
            "source": {"component": "kai-sched"},
            "firstTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "lastTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "count": 1,
        }
        with suppress(ApiFailure):  # the event is only for people
            path = objects_path("v1", "events", self._namespace)
            await api.request("POST", path, body=msgspec.json.encode(event), timeout_s=self._terms.retry_s)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _decode(path: Path, body: bytes) -> dict[str, Any]:
    return read(_decode_lease, body, path, "the lease")


def _micro(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
