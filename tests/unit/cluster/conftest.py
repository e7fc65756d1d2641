"""A server that speaks the API's bytes: each test says what it answers."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from kai_sched.cluster.client import Api

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
TOKEN = "first"


class ApiServer:
    """Serves on loopback what ``answer`` says, and keeps a kubeconfig for it."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.url = ""
        self.answer: Answer
        self.ended = asyncio.Event()  # lets answers that wait for ever go when the test is over

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self.write_token(TOKEN)

    async def stop(self) -> None:
        self.ended.set()
        await self._runner.cleanup()

    def write_token(self, token: str) -> None:
        self.write_user({"token": token})

    def write_user(self, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url} if cluster is None else cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(json.dumps(config))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self.answer(request)


def status(code: int, reason: str, message: str, **more: Any) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return web.json_response({**body, "message": message, **more}, status=code)


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(tmp_path)
    await server.start()
    yield server
    await server.stop()


class Guard:
    """A lease that is held as ``says`` says."""

    def __init__(self) -> None:
        self.guarded_s = math.inf
        self.says: Callable[[], bool] = lambda: True

    def held(self) -> bool:
        return self.says()


@pytest.fixture
def guard() -> Guard:
    return Guard()


@pytest_asyncio.fixture
async def api(server: ApiServer, guard: Guard) -> AsyncIterator[Api]:
    api = await Api.connect(str(server.kubeconfig), connections=4, guard=guard)
    yield api
    await api.close()
