"""/healthz, /readyz and /metrics: what the kubelet and Prometheus ask, and what of it is logged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import structlog
from aiohttp import web

from kai_sched.operator.http.listener import Listener, listen
from kai_sched.telemetry.metrics import Metrics

# A check says in a sentence what is wrong, and nothing where nothing is.
Check = Callable[[], str]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STEP_S = 30.0  # a process that is not in step with the cluster by then serves the webhooks all the same
WATCH_S = 1.0

log = structlog.get_logger("ready")


class Report(msgspec.Struct):
    """A page about readiness. ``holder`` is the identity of the process that leads, as far as is known."""

    ready: bool
    leader: bool
    holder: str
    checks: dict[str, str]


@dataclass(slots=True)
class Readiness:
    """Two things, as each must be had while the other is not: whether the webhooks are served, and scheduling.

    ``scheduling`` holds what scheduling waits for. ``webhooks`` holds what keeps reviews from being answered, and is
    empty where this process serves no webhooks. ``role`` says whether this process leads, and who does.
    """

    clock: Callable[[], float] = time.monotonic
    scheduling: dict[str, Check] = field(default_factory=lambda: {"settings": lambda: "not read yet"})
    webhooks: dict[str, Check] = field(default_factory=dict)
    role: Callable[[], tuple[bool, str]] = lambda: (False, "")
    stopping: bool = False
    _began: float = field(init=False)
    _in_step: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def expect(self, checks: Mapping[str, Check]) -> None:
        """The settings have been read: from now on scheduling waits for these."""
        self.scheduling.clear()
        self.scheduling.update(checks)

    def of_scheduling(self) -> Report:
        """/readyz/scheduling: whether anything keeps this process from scheduling, were it the leader."""
        return self._report(self.scheduling)

    def of_pod(self) -> Report:
        """/readyz: whether requests may be sent to this process."""
        return self._report({**self.webhooks, "start": self._start}) if self.webhooks else self.of_scheduling()

    def _report(self, checks: Mapping[str, Check]) -> Report:
        found = {name: check() for name, check in checks.items()}
        if self.stopping:
            found["process"] = "it is ending"
        leader, holder = self.role()
        return Report(not any(found.values()), leader, holder, found)

    def _start(self) -> str:
        """What a rollout waits for, so that it ends at a version that does not work; it must not wait for ever."""
        waits = [f"{name}: {text}" for name, check in self.scheduling.items() if (text := check())]
        self._in_step = self._in_step or not waits or self.clock() - self._began >= STEP_S
        return "" if self._in_step else f"for {STEP_S:.0f} s at the most it waits for {'; '.join(waits)}"


def application(alive: Mapping[str, Check], readiness: Readiness, metrics: Metrics) -> web.Application:
    """The pages. That they are answered at all shows that the event loop lives.

    /healthz: "ok", or 503 and a line for each check of ``alive`` that fails. /readyz and /readyz/scheduling: a Report
    as JSON, each check by its name with its sentence, empty where all is well; 503 unless all are. /metrics:
    ``metrics``, with the readiness of now.
    """

    async def healthz(_: web.Request) -> web.Response:
        found = {name: check() for name, check in alive.items()}
        wrong = [f"{name}: {sentence}" for name, sentence in found.items() if sentence]
        return web.Response(status=503 if wrong else 200, text="\n".join(wrong or ["ok"]) + "\n")

    async def readyz(_: web.Request) -> web.Response:
        return _page(readiness.of_pod())

    async def scheduling(_: web.Request) -> web.Response:
        return _page(readiness.of_scheduling())

    async def scrape(_: web.Request) -> web.Response:
        report = readiness.of_scheduling()
        checks = {name: not text for name, text in report.checks.items()}
        if readiness.webhooks:
            checks["webhooks"] = readiness.of_pod().ready
        metrics.observe_readiness(report.leader, checks)
        return web.Response(body=await asyncio.to_thread(metrics.render), headers={"Content-Type": METRICS_TYPE})

    pages = web.Application()
    pages.add_routes(
        [
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/readyz/scheduling", scheduling),
            web.get("/metrics", scrape),
        ]
    )
    return pages


def _page(report: Report) -> web.Response:
    body = msgspec.json.encode(report) + b"\n"
    return web.Response(status=200 if report.ready else 503, body=body, content_type="application/json")


class Pages:
    """The pages of one process, from its first moment on: what is asked is filled in as the process comes to be."""

    def __init__(self, metrics: Metrics, role: Callable[[], tuple[bool, str]]) -> None:
        """``role`` returns whether this process leads, and who does."""
        self.metrics = metrics
        self.alive: dict[str, Check] = {}
        self.readiness = Readiness(role=role)
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        """The port in use; 0 where nobody listens."""
        return self._listener.port if self._listener else 0

    async def listen(self, address: str) -> None:
        """Answer from now on; not at all where the address is empty. Raises AddressError, and OSError."""
        if address:
            self._listener = await listen(application(self.alive, self.readiness, self.metrics), address)

    async def watch(self, period_s: float = WATCH_S) -> None:
        """Log what changes of readiness, until cancelled."""
        told: dict[str, list[str]] = {}
        while True:
            reports = {"scheduling": self.readiness.of_scheduling()}
            if self.readiness.webhooks:
                reports["webhooks"] = self.readiness.of_pod()
            for what, report in reports.items():
                failing = {name: text for name, text in report.checks.items() if text}
                if told.get(what) != list(failing):
                    told[what] = list(failing)
                    _tell(what, failing, report.leader)
            await asyncio.sleep(period_s)

    async def stop(self) -> None:
        """Answer no more."""
        listener, self._listener = self._listener, None
        if listener:
            await listener.stop()


def _tell(what: str, failing: Mapping[str, str], leader: bool) -> None:
    if failing:
        log.info("ready.waits", what=what, checks=dict(failing))
    else:
        log.info("ready.now", what=what, leader=leader)
