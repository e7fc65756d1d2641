"""/healthz, /readyz and /metrics: what the kubelet and Prometheus ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec
from aiohttp import web

from kai_sched.operator.listen import Listener, listen
from kai_sched.telemetry.metrics import Metrics

# A check says in a sentence what is wrong, and nothing where nothing is.
Check = Callable[[], str]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def application(
    alive: Mapping[str, Check], ready: Mapping[str, Check], metrics: Callable[[], bytes]
) -> web.Application:
    """The three pages. That they are answered at all shows that the event loop lives.

    /healthz: "ok", or 503 and a line for each check of ``alive`` that fails. /readyz: each check of ``ready`` by its
    name with its sentence, empty where all is well, as JSON; 503 unless all are. /metrics: ``metrics`` as it is.
    """

    async def healthz(_: web.Request) -> web.Response:
        wrong = [f"{name}: {sentence}" for name, sentence in _asked(alive).items() if sentence]
        return web.Response(status=503 if wrong else 200, text="\n".join(wrong or ["ok"]) + "\n")

    async def readyz(_: web.Request) -> web.Response:
        checks = _asked(ready)
        well = not any(checks.values())
        body = msgspec.json.encode({"ready": well, "checks": checks}) + b"\n"
        return web.Response(status=200 if well else 503, body=body, content_type="application/json")

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=await asyncio.to_thread(metrics), headers={"Content-Type": METRICS_TYPE})

    pages = web.Application()
    pages.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", scrape)])
    return pages


def _asked(checks: Mapping[str, Check]) -> dict[str, str]:
    return {name: check() for name, check in checks.items()}


class Pages:
    """The pages of one process, from its first moment on: what is asked is filled in as the process comes to be."""

    def __init__(self, metrics_namespace: str) -> None:
        self.metrics = Metrics(metrics_namespace)
        self.alive: dict[str, Check] = {}
        self.ready: dict[str, Check] = {"settings": lambda: "not read yet"}
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        """The port in use; 0 where nobody listens."""
        return self._listener.port if self._listener else 0

    async def listen(self, address: str) -> None:
        """Answer from now on; not at all where the address is empty. Raises AddressError, and OSError."""
        if address:
            self._listener = await listen(application(self.alive, self.ready, self.metrics.render), address)

    async def stop(self) -> None:
        """Answer no more."""
        if self._listener:
            await self._listener.stop()
