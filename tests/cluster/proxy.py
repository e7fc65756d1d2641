"""A reverse proxy before the API server that fails requests as a test says: plain http on loopback in, https out.

It runs on an event loop in a thread of its own. Without rules it passes everything on, watches line by line.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.cluster.processes import free_port, wait_until

REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
POLL_S = 0.01
LAST_TURNS_S = 0.25
NOT_PASSED_ON = {"host", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length"}


@dataclass(eq=False)
class Rule:
    """Which requests, and what becomes of them. A rule that does nothing to a request counts it."""

    method: str = ".*"  # both are regular expressions; the path's is searched for in path and query
    path: str = ""
    let_pass: int = 0  # so many that match are let through first
    every: int = 1  # and of the rest, each so-manieth is meant
    times: int | None = None  # as often at the most
    after: bool = False  # first pass it on, and let the API server do it; then do the following to the answer
    delay_s: float = 0.0
    hold: bool = False  # keep it waiting until the rule is removed
    cut: bool = False  # cut the connection
    status: int = 0  # answer with this code
    body: str = ""  # and this text, else with the Status object of that code
    retry_after_s: int | None = None
    stall: bool = False  # of a watch: open it, or leave it open, and forward nothing any more
    seen: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)
    removed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def matches(self, method: str, path: str) -> bool:
        """Whether it is about such a request."""
        return re.fullmatch(self.method, method) is not None and re.search(self.path, path) is not None

    def take(self) -> bool:
        """Count a request that matches; whether this one is meant."""
        self.seen += 1
        past = self.seen - self.let_pass
        if past < 1 or past % self.every or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True

    def wait_hits(self, count: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until so many requests were met. Raises AssertionError at the deadline."""
        what = f"{count} requests {self.method} {self.path} at the proxy"
        wait_until(lambda: self.hits >= count, what, timeout_s, poll_s=POLL_S)


class Proxy:
    """A context manager. ``url`` is what a kubeconfig names as its server."""

    def __init__(self, server: str, authority: Path | None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = server
        self._tls = ssl.create_default_context(cafile=authority)
        self._rules: tuple[Rule, ...] = ()  # replaced as a whole: the loop's thread reads it
        self._streams: set[tuple[str, asyncio.WriteTransport]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), name="proxy")

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._started.wait(30), "the proxy listens"
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the proxy has ended"
        self._loop.close()

    def add(self, method: str = ".*", path: str = "", **action: Any) -> Rule:
        """A further rule, its fields as of Rule. Of the rules that match, the first to mean a request has it."""
        rule = Rule(method, path, **action)
        self._rules = (*self._rules, rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule away and let go of what it holds. Watches that were stalled stay so."""
        self._rules = tuple(other for other in self._rules if other is not rule)
        self._loop.call_soon_threadsafe(rule.removed.set)

    def clear(self) -> None:
        """Take all rules away."""
        for rule in self._rules:
            self.remove(rule)

    @contextmanager
    def rule(self, method: str = ".*", path: str = "", **action: Any) -> Iterator[Rule]:
        """A rule for the time of a with block."""
        rule = self.add(method, path, **action)
        try:
            yield rule
        finally:
            self.remove(rule)

    def cut_streams(self, path: str = "") -> int:
        """Cut the watches that run, those whose path and query hold this regular expression; how many there were."""
        found = [transport for where, transport in tuple(self._streams) if re.search(path, where)]
        for transport in found:
            self._loop.call_soon_threadsafe(transport.abort)
        return len(found)

    # On the loop's thread

    async def _run(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            app = web.Application(client_max_size=2**30)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self.port).start()
            self._started.set()
            await self._stop.wait()
            await runner.cleanup()
        # closed connections are gone only some turns of the loop later; the loop must not end before
        await asyncio.sleep(LAST_TURNS_S)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        where = request.raw_path
        body = await request.read()
        matching = [rule for rule in self._rules if not rule.stall and rule.matches(request.method, where)]
        rule = next((rule for rule in matching if rule.take()), None)
        if rule is None:
            return await self._forward(request, body)
        answer = await self._forward(request, body, stream=False) if rule.after else None
        await asyncio.sleep(rule.delay_s)
        if rule.hold:
            await rule.removed.wait()
        if rule.cut:
            return _cut(request)
        if rule.status:
            return _refusal(rule)
        return answer or await self._forward(request, body)

    async def _forward(self, request: web.Request, body: bytes, stream: bool = True) -> web.StreamResponse:
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON]
        url = self._server + request.raw_path
        try:
            async with self._session.request(request.method, url, data=body or None, headers=headers) as upstream:
                kept = [(name, value) for name, value in upstream.headers.items() if name.lower() not in NOT_PASSED_ON]
                if not stream or "watch=" not in request.raw_path:
                    content = await upstream.read()
                    answer = web.Response(status=upstream.status, body=content)
                    answer.headers.clear()
                    answer.headers.extend(kept)
                    return answer
                return await self._watch(request, upstream, kept)
        except aiohttp.ClientError:
            return _cut(request)

    async def _watch(
        self, request: web.Request, upstream: aiohttp.ClientResponse, headers: list[tuple[str, str]]
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=upstream.status)
        answer.headers.extend(headers)
        await answer.prepare(request)
        assert isinstance(request.transport, asyncio.WriteTransport), "the client is there"
        entry = (request.raw_path, request.transport)
        self._streams.add(entry)
        try:
            await self._stalled(request)
            async for chunk in upstream.content.iter_any():
                await self._stalled(request)
                await answer.write(chunk)
            await answer.write_eof()
        finally:
            self._streams.discard(entry)
        return answer

    async def _stalled(self, request: web.Request) -> None:
        """Return at once, or never: a stalled watch ends with its client."""
        for rule in self._rules:
            if rule.stall and rule.matches(request.method, request.raw_path) and rule.take():
                await self._stop.wait()


def _cut(request: web.Request) -> web.Response:
    if isinstance(request.transport, asyncio.WriteTransport):
        request.transport.abort()
    return web.Response()


def _refusal(rule: Rule) -> web.Response:
    headers = {} if rule.retry_after_s is None else {"Retry-After": str(rule.retry_after_s)}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": REASONS.get(rule.status, "Unknown"),
        "message": "said the proxy of the tests",
        "code": rule.status,
    }
    text = rule.body or json.dumps(status)
    return web.Response(status=rule.status, text=text, content_type="application/json", headers=headers)
