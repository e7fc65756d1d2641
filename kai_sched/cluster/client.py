"""One HTTP request to the API server: time limits, renewed login, the size of a list's pages, the lines of a watch, and
which rights are missing.

Everything that talks to the API server goes through an Api. A request is sent a second time only if its login was
outdated; all other retries are up to the caller, see ``delivery``. Invariant: nothing is written while the guard is not
held.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Self

import aiohttp
import msgspec
from yarl import URL

from kai_sched.cluster.failure import NOT_LEADER as NOT_LEADER
from kai_sched.cluster.failure import ApiFailure as ApiFailure
from kai_sched.cluster.failure import forget_frames, read, refused
from kai_sched.cluster.login import Credentials, Login, LoginFailure
from kai_sched.cluster.nesting import allow_deep_objects
from kai_sched.cluster.paths import VERSION, Path
from kai_sched.cluster.request_slots import RequestSlots, request_kind
from kai_sched.cluster.write_guard import GuardedRequest, WriteGuard, current_guard, not_leader

TOKEN_FILE_S = 60.0  # the token of a service account is read this often, as Kubernetes asks of its clients
RENEW_PAUSE_S = 1.0  # many requests may be refused at once; the login is not renewed for each
RENEW_TIMEOUT_S = 60.0  # for an exec plugin
CONNECT_S = 10.0
KEEP_S = 60.0  # an idle connection is kept this long; an API server closes it after 90 s
ANSWER_S = 20.0  # a watch is accepted at once, or after some seconds if the server lags behind
READ_BUFFER_BYTES = 2**18
# An API server sends each event of a watch by itself. After a few bytes the reader waits for more, since each wake-up
# of the reader costs as much as handling the event.
FEW_BYTES = 2**15
GATHER_S = 0.01
REFUSAL_S = 300.0  # a missing right is reported this long after it was last needed
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


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
    needs_right: bool = True  # a refusal means that a right is missing that we should have
    answer_s: float | None = None  # until the answer begins, if ``timeout`` has no total


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
        # The connector has no limit of its own: a request that has passed the guard is sent at once, and watches, which
        # last, take no slot.
        self._slots = RequestSlots(connections)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_S),
            request_class=GuardedRequest,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "kai-sched", "Accept-Encoding": "identity"},
            read_bufsize=READ_BUFFER_BYTES,
        )
        self._renewing = asyncio.Lock()
        self._guard = guard
        self._on_failure = on_failure
        self._refused: dict[str, tuple[str, float]] = {}  # by right: the message, and when it came

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
        """Find the login (see Login); nothing is sent yet. See also ``allow_deep_objects``.

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
        allow_deep_objects()
        login = Login(kubeconfig, context, server)
        return cls(login, await login.load(), connections, guard=guard, on_failure=on_failure)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def credentials(self) -> Credentials:
        """Return the login in use, which changes when it is renewed."""
        return self._credentials

    @property
    def binds_at_once(self) -> int:
        """How many binds can be under way, so that connections are left for everything else."""
        return self._slots.binds

    async def warm(self) -> None:
        """Open the connections that binds need at most, so that the first burst of binds waits for no handshake."""
        requests = (self.request("GET", VERSION, needs_right=False) for _ in range(self.binds_at_once))
        await asyncio.gather(*requests, return_exceptions=True)

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
        """Return the body of the answer. Raises ApiFailure, whatever goes wrong.

        Parameters
        ----------
        method, path, body, content_type, accept
            The request.
        timeout_s
            The time from when the request gets its slot to the end of the answer.
        guarded
            Whether a write is refused while the guard is not held. The guard is asked again when the connection is
            open, and the write ends ``guarded_s`` later at most: a process that has lost the lease sends nothing.
        needs_right
            Whether ``refusals`` reports a missing right; False if one can do without it.
        """
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": content_type}
        writes = guarded and method != "GET"
        guarded_s = self._guard.guarded_s if self._guard is not None else math.inf
        timeout = _total(min(timeout_s, guarded_s) if writes else timeout_s)
        return await self._perform(_Call(method, path, None, body, headers, timeout, writes, needs_right))

    async def _perform(self, call: _Call) -> bytes:
        """Wait for a slot of the kind, then return the body of the answer. Raises ApiFailure."""
        kind = request_kind(call.verb, call.path)
        own = await self._slots.acquire(kind)
        try:
            response = await self._respond(call)
            return await response.read()
        except ApiFailure:
            raise
        except Exception as wrong:
            raise self._failed(call, wrong) from wrong
        finally:
            self._slots.release(kind, own)

    async def list_pages(
        self,
        path: Path,
        params: Mapping[str, str],
        limit: int = 500,
        accept: str = "application/json",
        timeout_s: float = 60.0,
        needs_right: bool = True,
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], str], None]:
        """Yield the items of each page, still encoded, and the resourceVersion of the list.

        Raises ApiFailure. Status 410: the pages have expired, so the list has to be read again. See ``request``.
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
        """Yield the lines of a watch with bookmarks, which the server ends after ``timeout_s``. Raises ApiFailure.

        The first line is empty: the server has accepted the watch. An event that follows another at once may be
        GATHER_S late. ``stalled_s`` without a byte is a failure with the reason "Timeout". Close the generator
        (contextlib.aclosing) when leaving early.
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
        """Return the missing rights, as "may not POST pods/binding: ...", or an empty string.

        A right that was not needed for REFUSAL_S is forgotten. Refusals by quotas and policies do not count.
        """
        since = self._clock() - REFUSAL_S
        self._refused = {right: last for right, last in self._refused.items() if last[1] > since}
        return "; ".join(f"may not {right}: {message}" for right, (message, _) in sorted(self._refused.items()))

    async def renew(self) -> bool:
        """Log in again; return whether the credentials have changed. Keeps the old ones on LoginFailure."""
        try:
            fresh = await asyncio.wait_for(self._login.load(), RENEW_TIMEOUT_S)
        except TimeoutError as late:
            problem = f"no login within {RENEW_TIMEOUT_S:.0f} s"
            raise LoginFailure(f"{problem}: check the exec plugin of the kubeconfig") from late
        finally:
            self._loaded_at = self._renewed_at = self._clock()
        changed = fresh != self._credentials
        if changed:
            self._use(fresh)
        return changed

    def _use(self, credentials: Credentials) -> None:
        # Each request carries the context, so a new context leads to new connections of the same session.
        self._tls = credentials.tls() if credentials.server.startswith("https") else True
        self._credentials = credentials
        self._server = URL(credentials.server)
        self._prefix = self._server.raw_path.rstrip("/")
        self._authorization = credentials.authorization()

    async def _respond(self, call: _Call) -> aiohttp.ClientResponse:
        """Return a successful answer, to be read or released. Other exceptions are for ``_failed`` to translate."""
        if self._login.in_cluster and self._clock() - self._loaded_at > TOKEN_FILE_S:
            await self._renewed(self._credentials)
        used = self._credentials
        response = await self._send(call)
        note = ""
        if response.status == 401:
            renewed, note = await self._renewed(used)
            if renewed:
                response.release()
                response = await self._send(call)
        if response.status >= 300:
            # Without a name: a frame that names what it raises would stay until a full garbage collection finds it.
            raise await self._refusal(call, response, note)
        if self._refused:
            self._refused.pop(_right(call), None)
        return response

    async def _refusal(self, call: _Call, response: aiohttp.ClientResponse, note: str) -> ApiFailure:
        """Return the failure that the answer tells, and release the answer."""
        try:
            after, phrase = response.headers.get("Retry-After", ""), response.reason or ""
            body = await response.read()
        finally:
            response.release()
        failure = refused(call.verb, call.path, response.status, phrase, after, body, note)
        if call.needs_right and failure.is_missing_right:
            self._refused[_right(call)] = (failure.message, self._clock())
        self._report(call, failure.status)
        return failure

    def _failed(self, call: _Call, wrong: Exception) -> ApiFailure:
        """Return the failure for an exception below HTTP, or in the libraries that speak it."""
        self._report(call, 0)
        forget_frames(wrong)
        if isinstance(wrong, TimeoutError):
            return ApiFailure(call.verb, call.path, 0, "Timeout", str(wrong) or "no answer in time")
        if isinstance(wrong, aiohttp.ClientConnectorError):  # its own text has the address of an SSLContext
            why = f"cannot connect to {self._credentials.server}: {wrong.__cause__ or wrong}"
            return ApiFailure(call.verb, call.path, 0, "NoAnswer", why)
        return ApiFailure(call.verb, call.path, 0, "NoAnswer", str(wrong) or type(wrong).__name__)

    def _report(self, call: _Call, status: int) -> None:
        if self._on_failure is not None:
            self._on_failure(call.verb, _right(call).partition(" ")[2], status)

    async def _send(self, call: _Call) -> aiohttp.ClientResponse:
        # Only the path is replaced: parsing the whole address for each request costs more than all the rest.
        url = self._server.with_path(self._prefix + call.path, encoded=True)
        for value in (call.params or {}).values():
            value.encode()  # raises for text that cannot be encoded, which the library would cut
        guard = self._guard if call.guarded else None
        if guard is not None and not guard.held():
            raise not_leader(call.verb, call.path)
        current_guard.set(guard)
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
        """Return whether there are credentials other than the ones used, and a note on what went wrong if not."""
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
    """Return the right that the call needs, such as "GET pods" or "POST pods/binding"."""
    parts = call.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return f"{call.verb} {'/'.join(parts[:1] + parts[2:3])}"
