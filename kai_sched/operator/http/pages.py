"""The pages /healthz, /readyz and /readyz/scheduling: what each answers, and which checks it has. They are for the
kubelet; ``metrics_page`` answers /metrics beside them.

``process.run`` builds them first, so that they answer from the start of the process. Checks are added later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import structlog
from aiohttp import web

from kai_sched.operator.http.listener import Listener, listen
from kai_sched.operator.http.metrics_page import MetricsPage
from kai_sched.telemetry.metrics import Metrics

# Returns what is wrong in a sentence, or an empty string.
Check = Callable[[], str]

START_S = 30.0  # after this time the check "start" of /readyz succeeds even if scheduling still waits
WATCH_S = 1.0
CONNECTIONS_MAX = 256  # of the kubelet, of Prometheus, and of people who look

log = structlog.get_logger("ready")


class Report(msgspec.Struct):
    """A page about readiness. ``holder`` is the identity of the leader, as far as it is known."""

    ready: bool
    leader: bool
    holder: str
    checks: dict[str, str]


@dataclass(slots=True)
class Readiness:
    """Whether the webhooks are served, and whether pods are scheduled: each can be the case without the other.

    Attributes
    ----------
    clock
        Seconds that never go back.
    scheduling
        The checks that scheduling waits for.
    webhooks
        The checks that keep reviews from being answered; empty if this process serves no webhooks.
    role
        Returns whether this process leads, and who does.
    stopping
        Whether the process is ending.
    """

    clock: Callable[[], float] = time.monotonic
    scheduling: dict[str, Check] = field(default_factory=lambda: {"settings": lambda: "not read yet"})
    webhooks: dict[str, Check] = field(default_factory=dict)
    role: Callable[[], tuple[bool, str]] = lambda: (False, "")
    stopping: bool = False
    _began: float = field(init=False)
    _is_started: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def expect(self, checks: Mapping[str, Check]) -> None:
        """The settings have been read: from now on scheduling waits for these."""
        self.scheduling.clear()
        self.scheduling.update(checks)

    def of_scheduling(self) -> Report:
        """Return the page /readyz/scheduling: whether anything would keep a leader from scheduling."""
        return self._report(self.scheduling)

    def of_pod(self) -> Report:
        """Return the page /readyz: whether requests may be sent to this process."""
        return self._report({**self.webhooks, "start": self._start}) if self.webhooks else self.of_scheduling()

    def _report(self, checks: Mapping[str, Check]) -> Report:
        found = {name: check() for name, check in checks.items()}
        if self.stopping:
            found["process"] = "it is ending"
        leader, holder = self.role()
        return Report(not any(found.values()), leader, holder, found)

    def _start(self) -> str:
        """The check "start": it waits START_S at most for scheduling, so that a rollout stops at a broken version."""
        waits = [f"{name}: {text}" for name, check in self.scheduling.items() if (text := check())]
        self._is_started = self._is_started or not waits or self.clock() - self._began >= START_S
        return "" if self._is_started else f"waiting up to {START_S:.0f} s for {'; '.join(waits)}"


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(alive: Mapping[str, Check], readiness: Readiness, scrape: Handler) -> web.Application:
    """Return the application with the pages. An answer at all shows that the event loop is alive.

    /healthz: "ok", or 503 and a line for each check of ``alive`` that fails. /readyz and /readyz/scheduling: a Report
    as JSON, each check by its name with its sentence, empty where all is well; 503 unless all are. /metrics is what
    ``scrape`` answers.
    """

    async def healthz(_: web.Request) -> web.Response:
        found = {name: check() for name, check in alive.items()}
        wrong = [f"{name}: {sentence}" for name, sentence in found.items() if sentence]
        return web.Response(status=503 if wrong else 200, text="\n".join(wrong or ["ok"]) + "\n")

    async def readyz(_: web.Request) -> web.Response:
        return _page(readiness.of_pod())

    async def scheduling(_: web.Request) -> web.Response:
        return _page(readiness.of_scheduling())

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
    """The pages of one process.

    Attributes
    ----------
    metrics, metrics_page
        What /metrics shows, and who gets it.
    alive
        The checks of /healthz.
    readiness
        The checks of /readyz and /readyz/scheduling.
    """

    def __init__(self, metrics: Metrics, role: Callable[[], tuple[bool, str]], protected: bool = False) -> None:
        """``role`` returns whether this process leads, and who does; ``protected``: /metrics asks for a token."""
        self.metrics = metrics
        self.alive: dict[str, Check] = {}
        self.readiness = Readiness(role=role)
        self.metrics_page = MetricsPage(metrics, self._observe, protected)
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        """The port in use, 0 without one."""
        return self._listener.port if self._listener else 0

    async def listen(self, address: str) -> None:
        """Answer from now on, unless the address is empty. Raises AddressError, OSError."""
        if address:
            pages = application(self.alive, self.readiness, self.metrics_page.answer)
            self._listener = await listen(pages, address, most=CONNECTIONS_MAX)

    def _observe(self) -> None:
        """Show the readiness of now as metrics."""
        report = self.readiness.of_scheduling()
        checks = {name: not text for name, text in report.checks.items()}
        if self.readiness.webhooks:
            checks["webhooks"] = self.readiness.of_pod().ready
        self.metrics.observe_readiness(report.leader, checks)

    async def watch(self, period_s: float = WATCH_S) -> None:
        """Log changes of readiness until cancelled."""
        logged: dict[str, list[str]] = {}
        while True:
            reports = {"scheduling": self.readiness.of_scheduling()}
            if self.readiness.webhooks:
                reports["webhooks"] = self.readiness.of_pod()
            for what, report in reports.items():
                failing = {name: text for name, text in report.checks.items() if text}
                if logged.get(what) != list(failing):
                    logged[what] = list(failing)
                    _log(what, failing, report.leader)
            await asyncio.sleep(period_s)

    async def stop(self) -> None:
        """Stop answering."""
        listener, self._listener = self._listener, None
        if listener:
            await listener.stop()


def _log(what: str, failing: Mapping[str, str], leader: bool) -> None:
    if failing:
        log.info("ready.waits", what=what, checks=dict(failing))
    else:
        log.info("ready.now", what=what, leader=leader)
