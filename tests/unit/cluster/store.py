"""Objects of one kind as the API server keeps them: a version for each change, pages, watches, a history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.unit.cluster.conftest import status

PATIENCE_S = 30.0


class Store:
    """Answers lists and watches of ``objects``. ``refuse`` holds answers for the next requests of a verb."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.compacted = 0  # versions up to this are forgotten
        self.refuse: dict[str, list[Callable[[], web.Response]]] = {"list": [], "watch": []}
        self.asked: list[str] = []
        self.headers: list[str] = []
        self.watches: set[asyncio.Event] = set()  # set one to end that watch
        self.stalled = False  # watches stay, but nothing is written to them
        self.forgetful = False  # changes are made, but watches never hear of them
        self.cut = False  # watches break off instead of ending

    def apply(self, name: str) -> None:
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.version += 1
        self.objects[name] = {"metadata": {"name": name, "resourceVersion": str(self.version)}}
        self._record(kind, self.objects[name])

    def delete(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        self._record("DELETED", {"metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def bookmark(self) -> None:
        self._record("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def error(self, code: int, reason: str) -> None:
        self._record("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "by the test"})

    def compact(self) -> None:
        self.compacted = self.version

    def end_watches(self) -> None:
        for watch in self.watches:
            watch.set()

    def contents(self) -> dict[str, str]:
        return {name: found["metadata"]["resourceVersion"] for name, found in self.objects.items()}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        verb = "watch" if "watch" in request.query else "list"
        self.asked.append(verb)
        self.headers.append(request.headers["Accept"])
        if self.refuse[verb]:
            return self.refuse[verb].pop(0)()
        return await self._watch(request) if verb == "watch" else self._list(request)

    def _list(self, request: web.BaseRequest) -> web.Response:
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        items = list(self.objects.values())
        more = str(start + limit) if start + limit < len(items) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = int(request.query["resourceVersion"])
        if seen < self.compacted:
            return status(410, "Expired", f"too old resource version: {seen}")
        at = next((n for n, entry in enumerate(self.history) if entry[0] > seen), len(self.history))
        response = web.StreamResponse()
        await response.prepare(request)
        ended = asyncio.Event()
        self.watches.add(ended)
        while not ended.is_set():
            while at < len(self.history) and not self.stalled:
                _, kind, found = self.history[at]
                await response.write(json.dumps({"type": kind, "object": found}).encode() + b"\n")
                at += 1
            await asyncio.sleep(0.002)
        self.watches.discard(ended)
        if self.cut and request.transport is not None:
            request.transport.abort()
        return response

    def _record(self, kind: str, found: dict[str, Any]) -> None:
        if not self.forgetful:
            self.history.append((self.version, kind, found))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true; raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - conditions are of any kind
            await asyncio.sleep(0.002)
