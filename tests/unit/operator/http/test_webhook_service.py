"""Which settings pods are reviewed with."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kai_sched.operator.http.pages import START_S, Pages
from kai_sched.operator.http.webhook_service import WebhookService
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.options import RunOptions
from kai_sched.reconcile.admission.review import BODY_MAX, MUTATE_POD, VALIDATE_POD
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.http.test_webhook_server import ask, pair


class NoCertificates:
    """Takes the place of what asks the API server for the certificate."""

    async def run(self) -> None: ...

    def watches(self, _: Any) -> list[Any]:
        return []


@pytest.mark.parametrize("path", BODY_MAX)
async def test_pods_are_reviewed_only_once_the_settings_are_read(path: str) -> None:
    """By default sharing is off, and nothing is blocked: no pod may be judged by that where kai-config says more."""
    options, first = RunOptions(webhook_address="127.0.0.1:0"), pair()
    settings, pages = LiveSettings(options.config, options.shard), Pages(Metrics("kai"), lambda: (False, ""))
    pages.readiness.clock = lambda: time.monotonic() + 10 * START_S
    api: Any = None
    service: Any = WebhookService(options, api, settings, pages)
    service._certificate = NoCertificates()
    service._use(first)
    await service.start()
    try:
        server = service._server
        assert pages.readiness.of_pod().checks == {
            "webhooks": "",
            "settings": "the settings are not read yet",
            "start": "",
        }
        status, said = await ask(server, first, b"{}", path)
        if path in (MUTATE_POD, VALIDATE_POD):
            assert (status, said) == (503, "the settings are not read yet: try again\n")
        else:
            assert (status, said[:24]) == (400, "not an admission review:")
        settings.reviews = True
        assert pages.readiness.of_pod().ready
        assert (await ask(server, first, b"{}", path))[0] == 400
    finally:
        hurry = asyncio.Event()
        hurry.set()
        await service.stop(time.monotonic(), hurry)
