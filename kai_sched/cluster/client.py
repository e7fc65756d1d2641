"""Requests to the API server: bytes in, bytes out, one session. Sent twice only where a login was outdated."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, Self

import aiohttp
import msgspec
from aiohttp.connector import Connection
from yarl import URL

from kai_sched.cluster.failure import NOT_LEADER as NOT_LEADER
from kai_sched.cluster.failure import ApiFailure as ApiFailure
from kai_sched.cluster.failure import read, refused
from kai_sched.cluster.lanes import Lanes, lane_of
from kai_sched.cluster.login import Credentials, Login, LoginFailure
from kai_sched.cluster.paths import Path

TOKEN_FILE_S = 60.0  # the token of a service account is read this often, as Kubernetes asks of its clients
RENEW_PAUSE_S = 1.0  # many requests may be refused at once; the login is not renewed for each
RENEW_TIMEOUT_S = 60.0  # for an exec plugin
CONNECT_S = 10.0
ANSWER_S = 20.0  # a watch is accepted at once, or after some seconds where the server lags behind
READ_BUFFER_BYTES = 2**18
# An API server sends each event of a watch by itself. Right after a few bytes more is waited for, as each turn of the
# reader costs as much as the event.
FEW_BYTES = 2**15
GATHER_S = 0.01
REFUSAL_S = 300.0  # a right that was missing counts as missing for so long after it was last needed
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    more: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode


@dataclass(frozen=True, slots=True)
class _Call:
    verb: str
    path: Path
    params: Mapping[str, str] | None
    body: bytes | None
    headers: Mapping[str, str]
    timeout: aiohttp.ClientTimeout
    guarded: bool
    needs_right: bool = True  # where it is refused, a right is missing that we should have
    answer_s: float | None = None  # until the answer begins, where ``timeout`` has no total


class WriteGuard(Protocol):
    """Says whether this process may write. ``LeaderLease`` is one."""

    @property
    def guarded_s(self) -> float:
        """The longest that a write may take after ``held`` has returned true, in seconds."""

    def held(self) -> bool:
        """Return whether a write may be sent now."""


class Api:
    """One login and one session, for the event loop that connected it."""

    def __init__(
        self,
        login: Login,
        credentials: Credentials,
        connections: int,
        clock: Callable[[], float] = time.monotonic,
        guard: WriteGuard | None = None,
        on_failure: Callable[[str, str, int], None] | None = None,
    ) -> None:
        """Raises LoginFailure if the certificates cannot be used. See ``connect`` for the parameters."""
        self._login = login
        self._clock = clock
        self._loaded_at = clock()
        self._renewed_at = -math.inf
        self._use(credentials)
        # The bound is not the connector's, so that a request that has passed the guard is sent at once, and watches,
        # which last, take no slot.
        self._lanes = Lanes(connections)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            request_class=_Guarded,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "kai-sched", "Accept-Encoding": "identity"},
            read_bufsize=READ_BUFFER_BYTES,
        )
        self._renewing = asyncio.Lock()
        self._guard = guard
        self._on_failure = on_failure
        self._refused: dict[str, tuple[str, float]] = {}  # by right: what was said, and when

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        connections: int = 64,
        server: str | None = None,
        guard: WriteGuard | None = None,
        on_failure: Callable[[str, str, int], None] | None = None,
    ) -> Self:
        """Find the login (see Login); nothing is sent yet.

        Parameters
        ----------
        kubeconfig, context, server
            See ``Login``.
        connections
            How many requests are under way at most.
        guard
            Decides whether writes may be sent; without one all are.
        on_failure
            Called with verb, resource and HTTP status (0 without an answer) of each request that failed.

        Raises
        ------
        LoginFailure
        """
        login = Login(kubeconfig, context, server)
        return cls(login, await login.load(), connections, guard=guard, on_failure=on_failure)

    async def close(self) -> None:
        """Cut all connections."""
        await self._session.close()

    def credentials(self) -> Credentials:
        """The login in use, for handing it to others. It changes when it is renewed."""
        return self._credentials

    @property
    def binds_at_once(self) -> int:
        """How many binds can be under way, so that there are connections left for all else."""
        return self._lanes.binds

    async def request(
        self,
        method: str,
        path: Path,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout_s: float = 10.0,
        guarded: bool = True,
        needs_right: bool = True,
    ) -> bytes:
        """The body of the answer; raises ApiFailure, whatever goes wrong. The time counts from when it gets its slot.

        Where a right is missing, ``refusals`` tells, unless ``needs_right`` says that one can do without it.

        With ``guarded`` a write is refused while the guard is not held. The guard is asked again when the connection is
        open, and the write ends ``guarded_s`` later at most: a process that has lost the lease sends nothing.
        """
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": content_type}
        writes = guarded and method != "GET"
        guarded_s = self._guard.guarded_s if self._guard is not None else math.inf
        timeout = _total(min(timeout_s, guarded_s) if writes else timeout_s)
        return await self._perform(_Call(method, path, None, body, headers, timeout, writes, needs_right))

    async def _perform(self, call: _Call) -> bytes:
        """The body of the answer; the call waits for a slot of its lane first. Raises ApiFailure."""
        lane = lane_of(call.verb, call.path)
        own = await self._lanes.acquire(lane)
        try:
            response = await self._respond(call)
            return await response.read()
        except ApiFailure:
            raise
        except Exception as wrong:
            raise self._failed(call, wrong) from wrong
        finally:
            self._lanes.release(lane, own)

    async def list_pages(
        self,
        path: Path,
        params: Mapping[str, str],
        limit: int = 500,
        accept: str = "application/json",
        timeout_s: float = 60.0,
        needs_right: bool = True,
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], str], None]:
        """Each page's items, still encoded, and the list's resourceVersion. ``needs_right`` as for ``request``.

        Raises ApiFailure; with status 410 the list has changed too much since its first page and begins anew.
        """
        query = {"limit": str(limit), **params}
        while True:
            call = _Call("GET", path, query, None, {"Accept": accept}, _total(timeout_s), False, needs_right)
            body = await self._perform(call)
            page = read(_decode_page, body, path, "the list")
            yield page.items or [], page.metadata.resource_version
            if not page.metadata.more:
                return
            query["continue"] = page.metadata.more

    async def watch(
        self,
        path: Path,
        params: Mapping[str, str],
        resource_version: str,
        *,
        timeout_s: float,
        stalled_s: float,
        accept: str = "application/json",
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch with bookmarks, which the server ends after ``timeout_s``; raises ApiFailure.

        The first one is empty and says that the server has accepted the watch. An event comes at once after a pause,
        and up to GATHER_S late right after another.
        ``stalled_s`` without a byte is reason "Timeout". Close it (contextlib.aclosing) when leaving early.
        """
        query = {
            **params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_s))),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=stalled_s)
        call = _Call("GET", path, query, None, {"Accept": accept}, timeout, guarded=False, answer_s=ANSWER_S)
        try:
            response = await self._respond(call)
            try:
                yield b""
                begun = bytearray()  # of a line that has not ended yet
                async for chunk in response.content.iter_any():
                    begun += chunk
                    if b"\n" in chunk:
                        *lines, rest = bytes(begun).split(b"\n")
                        begun = bytearray(rest)
                        for line in lines:
                            if line:
                                yield line
                    if len(chunk) < FEW_BYTES:
                        await asyncio.sleep(GATHER_S)
            finally:
                response.release()
        except ApiFailure:
            raise
        except Exception as wrong:
            raise self._failed(call, wrong) from wrong

    def refusals(self) -> str:
        """The rights that were missing when last needed, as "may not POST pods/binding: ..."; empty where none was.

        What has not been needed for REFUSAL_S is forgotten. Quotas and policies that refuse one object are none of it.
        """
        since = self._clock() - REFUSAL_S
        self._refused = {right: told for right, told in self._refused.items() if told[1] > since}
        return "; ".join(f"may not {right}: {message}" for right, (message, _) in sorted(self._refused.items()))

    async def renew(self) -> bool:
        """Log in anew; whether that made other credentials. Raises LoginFailure, and the old ones stay in use."""
        try:
            fresh = await asyncio.wait_for(self._login.load(), RENEW_TIMEOUT_S)
        except TimeoutError as late:
            raise LoginFailure(f"no login within {RENEW_TIMEOUT_S:.0f} s") from late
        finally:
            self._loaded_at = self._renewed_at = self._clock()
        changed = fresh != self._credentials
        if changed:
            self._use(fresh)
        return changed

    def _use(self, credentials: Credentials) -> None:
        # The context goes with each request, so that a new one makes new connections of the same session.
        self._tls = credentials.tls() if credentials.server.startswith("https") else True
        self._credentials = credentials
        self._server = URL(credentials.server)
        self._prefix = self._server.raw_path.rstrip("/")
        self._authorization = credentials.authorization()

    async def _respond(self, call: _Call) -> aiohttp.ClientResponse:
        """A successful answer, to be read or released. What goes wrong on the way is for ``_failed`` to translate."""
        if self._login.in_cluster and self._clock() - self._loaded_at > TOKEN_FILE_S:
            await self._renewed(self._credentials)
        used = self._credentials
        response = await self._send(call)
        told = ""
        if response.status == 401:
            renewed, told = await self._renewed(used)
            if renewed:
                response.release()
                response = await self._send(call)
        if response.status >= 300:
            try:
                after, phrase = response.headers.get("Retry-After", ""), response.reason or ""
                body = await response.read()
                failure = refused(call.verb, call.path, response.status, phrase, after, body, told)
            finally:
                response.release()
            if call.needs_right and failure.is_missing_right:
                self._refused[_right(call)] = (failure.message, self._clock())
            self._tell(call, failure.status)
            raise failure
        if self._refused:
            self._refused.pop(_right(call), None)
        return response

    def _failed(self, call: _Call, wrong: Exception) -> ApiFailure:
        """What went wrong below HTTP, or in the libraries that speak it."""
        self._tell(call, 0)
        if isinstance(wrong, TimeoutError):
            return ApiFailure(call.verb, call.path, 0, "Timeout", str(wrong) or "no answer in time")
        if isinstance(wrong, aiohttp.ClientConnectorError):  # its own text shows the address of an SSLContext
            why = f"cannot connect to {self._credentials.server}: {wrong.__cause__ or wrong}"
            return ApiFailure(call.verb, call.path, 0, "NoAnswer", why)
        return ApiFailure(call.verb, call.path, 0, "NoAnswer", str(wrong) or type(wrong).__name__)

    def _tell(self, call: _Call, status: int) -> None:
        if self._on_failure is not None:
            self._on_failure(call.verb, _right(call).partition(" ")[2], status)

    async def _send(self, call: _Call) -> aiohttp.ClientResponse:
        # one part is replaced: reading the whole address again for each request costs more than all else here
        url = self._server.with_path(self._prefix + call.path, encoded=True)
        for value in (call.params or {}).values():
            value.encode()  # raises for what is no text, of which the library would leave parts out
        guard = self._guard if call.guarded else None
        if guard is not None and not guard.held():
            raise _not_leader(call.verb, call.path)
        _asked_again.set(guard)
        request = self._session.request(
            call.verb,
            url,
            params=call.params,
            data=call.body,
            headers={**call.headers, **self._authorization},
            timeout=call.timeout,
            allow_redirects=False,
            ssl=self._tls,
            server_hostname=self._credentials.tls_server_name,
            proxy=self._credentials.proxy_url,
        )
        if call.answer_s is None:
            return await request
        async with asyncio.timeout(call.answer_s):
            return await request

    async def _renewed(self, used: Credentials) -> tuple[bool, str]:
        """Whether there are credentials other than the ones used, and what went wrong where there are none."""
        async with self._renewing:
            if self._credentials == used and self._clock() - self._renewed_at > RENEW_PAUSE_S:
                try:
                    await self.renew()
                except LoginFailure as failure:
                    return False, f" ({failure})"
            return self._credentials != used, ""


@functools.cache
def _total(timeout_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=timeout_s)


def _right(call: _Call) -> str:
    """What the call needs a right for: "GET pods", "POST pods/binding"."""
    parts = call.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return f"{call.verb} {'/'.join(parts[:1] + parts[2:3])}"


_asked_again: ContextVar[WriteGuard | None] = ContextVar("_asked_again", default=None)


class _Guarded(aiohttp.ClientRequest):
    """Asks the guard once more when the connection is there: making one takes time, in which the lease may end."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        guard = _asked_again.get()
        if guard is not None and not guard.held():
            raise _not_leader(self.method, self.url.raw_path)
        return await super().send(conn)


def _not_leader(verb: str, path: str) -> ApiFailure:
    return ApiFailure(verb, path, 0, NOT_LEADER, "not sent: this process does not hold the lease")
