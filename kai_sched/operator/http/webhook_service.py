"""The lifetime of the webhooks: served with which settings, from before the first list until how long after a signal.

They need neither the lease nor what scheduling waits for: an answer depends on the object and the settings only.
"""

from __future__ import annotations

import asyncio
import random
import string
import time
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from aiohttp import web

from kai_sched.cluster.client import Api
from kai_sched.operator.http.authority import Pair, end
from kai_sched.operator.http.certificate import CertificateManager
from kai_sched.operator.http.pages import Pages
from kai_sched.operator.http.webhook_server import WebhookServer
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.options import RunOptions
from kai_sched.reconcile.admission.review import MUTATE_POD, VALIDATE_POD, review

BY_SETTINGS = frozenset({MUTATE_POD, VALIDATE_POD})  # whose answers depend on what kai-config says

log = structlog.get_logger("webhooks")


class WebhookService:
    """For one event loop. It does nothing if the options name no address for webhooks.

    Attributes
    ----------
    certificate_problem
        A check of readiness: what is wrong with the certificate.
    """

    def __init__(self, options: RunOptions, api: Api, settings: LiveSettings, pages: Pages) -> None:
        self._address = options.webhook_address
        self._delay_s = options.shutdown_delay_s if options.webhook_address else 0.0
        self._settings = settings
        self._metrics = pages.metrics
        self._readiness = pages.readiness
        self._rng = random.Random()  # only for the threads that review
        self._server = WebhookServer(
            self._review, scrape=pages.metrics_page.answer if options.authenticated_metrics else None
        )
        self._certificate = CertificateManager(
            api, options.namespace, lambda: datetime.now(UTC), self._use, self._scheduler_name
        )
        self._tasks: list[asyncio.Task[None]] = []
        self.certificate_problem = self._certificate.problem

    async def start(self) -> None:
        """Serve from now on; readiness says what keeps reviews from being answered. Raises AddressError, OSError."""
        if not self._address:
            return
        self._readiness.webhooks |= {"webhooks": self._server.problem, "settings": self._settings_problem}
        await self._server.start(self._address)
        self._tasks = [asyncio.create_task(self._certificate.run(), name="certificate")]
        for watch in self._certificate.watches(random.Random()):
            self._tasks.append(asyncio.create_task(watch.run(), name="webhook configurations"))

    async def stop(self, since: float, hurry: asyncio.Event) -> None:
        """Serve until the shutdown delay has passed since ``since`` (time.monotonic) or ``hurry`` is set; then close.

        For a while after the signal to end, the cluster still sends requests to the process.
        """
        left_s = since + self._delay_s - time.monotonic()
        self._server.leave()
        if self._tasks and left_s > 0:
            log.info("webhooks.leaving", seconds=round(left_s, 1))
            with suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), left_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._server.stop()

    def _settings_problem(self) -> str:
        """Pods cannot be reviewed before kai-config is read."""
        return "" if self._settings.reviews else "the settings are not read yet"

    def _use(self, pair: Pair) -> None:
        self._server.use(pair)
        self._metrics.observe_certificate(end(pair).timestamp())

    def _scheduler_name(self) -> str:
        return self._settings.config.scheduler_name if self._settings.fixed else ""

    def _review(self, path: str, body: bytes) -> bytes:
        if path in BY_SETTINGS and (problem := self._settings_problem()):
            raise web.HTTPServiceUnavailable(text=f"{problem}: try again\n")
        suffix = "".join(self._rng.choices(string.ascii_lowercase + string.digits, k=7))
        return review(path, body, self._settings.admission, suffix)
