"""The pages, asked over a real connection: what the kubelet, Prometheus and people are told."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import aiohttp
from structlog.testing import capture_logs

from kai_sched.operator.http.pages import START_S, Pages, Readiness
from kai_sched.telemetry.metrics import Metrics


class World:
    """What the checks look at."""

    def __init__(self, webhooks: bool = False) -> None:
        self.now = 100.0
        self.stuck = ""
        self.caches = ""
        self.kernels = ""
        self.certificate = ""
        self.readiness = Readiness(lambda: self.now)
        self.readiness.scheduling = {"caches": lambda: self.caches, "kernels": lambda: self.kernels}
        self.readiness.role = lambda: (False, "replica-1")
        if webhooks:
            self.readiness.webhooks = {"webhooks": lambda: self.certificate}

    async def get(self, path: str) -> tuple[int, str, str]:
        """Status, content type and text of a page, served for this one request."""
        pages = Pages(Metrics("kai"), lambda: (False, ""))
        pages.readiness = self.readiness
        pages.alive["cycle"] = lambda: self.stuck
        await pages.listen("127.0.0.1:0")
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{pages.port}{path}") as response,
            ):
                return response.status, response.headers["Content-Type"], await response.text()
        finally:
            await pages.stop()

    async def asked(self, path: str = "/readyz") -> tuple[int, dict[str, Any]]:
        """Status and content of a page that is JSON."""
        status, _, text = await self.get(path)
        return status, json.loads(text)


async def test_alive() -> None:
    assert await World().get("/healthz") == (200, "text/plain; charset=utf-8", "ok\n")


async def test_not_alive_says_why() -> None:
    world = World()
    world.stuck = "the cycle has been running for 400 s"
    status, _, text = await world.get("/healthz")
    assert (status, text) == (503, "cycle: the cycle has been running for 400 s\n")


async def test_what_is_not_ready_is_alive_all_the_same() -> None:
    world = World()
    world.caches = "pods are not listed yet"
    assert (await world.get("/healthz"))[0] == 200


async def test_ready_lists_each_check_and_who_leads() -> None:
    for path in ("/readyz", "/readyz/scheduling"):
        status, kind, text = await World().get(path)
        assert (status, kind) == (200, "application/json")
        checks = '"checks":{"caches":"","kernels":""}'
        assert text == f'{{"ready":true,"leader":false,"holder":"replica-1",{checks}}}\n'


async def test_one_check_is_enough_not_to_be_ready() -> None:
    world = World()
    world.kernels = "the kernels are being compiled"
    for path in ("/readyz", "/readyz/scheduling"):
        status, found = await world.asked(path)
        assert (status, found["ready"]) == (503, False)
        assert found["checks"] == {"caches": "", "kernels": "the kernels are being compiled"}


async def test_webhooks_that_were_in_step_once_are_ready_whatever_scheduling_waits_for() -> None:
    world = World(webhooks=True)
    world.caches = "403 Forbidden: may not watch nodes"
    status, found = await world.asked()
    assert status == 503
    assert "may not watch nodes" in found["checks"]["start"]
    world.caches = ""
    assert (await world.asked())[0] == 200
    world.caches = "403 Forbidden: may not watch nodes"
    world.readiness.role = lambda: (True, "replica-2")
    assert await world.asked() == (
        200,
        {"ready": True, "leader": True, "holder": "replica-2", "checks": {"webhooks": "", "start": ""}},
    )
    assert (await world.asked("/readyz/scheduling"))[0] == 503


async def test_webhooks_are_not_kept_away_for_ever_by_what_was_never_there() -> None:
    world = World(webhooks=True)
    world.caches = "queues are not known to the API server"
    world.now += START_S - 0.1
    assert (await world.asked())[0] == 503
    world.now += 0.1
    assert (await world.asked())[0] == 200
    assert (await world.asked("/readyz/scheduling"))[0] == 503


async def test_webhooks_without_a_certificate_are_never_ready() -> None:
    world = World(webhooks=True)
    world.certificate = "the webhook server has no certificate yet"
    world.now += 10 * START_S
    status, found = await world.asked()
    assert (status, found["checks"]["webhooks"]) == (503, world.certificate)
    assert (await world.asked("/readyz/scheduling"))[0] == 200


async def test_who_ends_is_ready_for_nothing_more() -> None:
    world = World(webhooks=True)
    assert (await world.asked())[0] == 200
    world.readiness.stopping = True
    for path in ("/readyz", "/readyz/scheduling"):
        status, found = await world.asked(path)
        assert (status, found["checks"]["process"]) == (503, "it is ending")
    assert (await world.get("/healthz"))[0] == 200


async def test_metrics_are_passed_on_as_prometheus_wants_them_and_tell_of_now() -> None:
    world = World(webhooks=True)
    world.kernels = "the kernels are being compiled"
    world.readiness.role = lambda: (True, "replica-2")
    status, kind, text = await world.get("/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert [line for line in text.splitlines() if line.startswith(("kai_leader ", "kai_ready{"))] == [
        "kai_leader 1.0",
        'kai_ready{check="caches"} 1.0',
        'kai_ready{check="kernels"} 0.0',
        'kai_ready{check="webhooks"} 0.0',
    ]


def test_readiness_is_a_metric_and_what_is_checked_no_more_leaves_nothing() -> None:
    metrics = Metrics("kai")
    metrics.observe_readiness(True, {"settings": False})
    metrics.observe_readiness(True, {"nodes": True, "pods": False})
    lines = metrics.render().decode().splitlines()
    assert [line for line in lines if line.startswith(("kai_leader ", "kai_ready{"))] == [
        "kai_leader 1.0",
        'kai_ready{check="nodes"} 1.0',
        'kai_ready{check="pods"} 0.0',
    ]


async def test_what_changes_of_readiness_is_logged_once() -> None:
    pages = Pages(Metrics("kai"), lambda: (False, ""))
    with capture_logs() as lines:
        watch = asyncio.create_task(pages.watch(0.005))
        await asyncio.sleep(0.05)
        pages.readiness.scheduling.clear()
        await asyncio.sleep(0.05)
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
    assert [(line["event"], line.get("checks")) for line in lines] == [
        ("ready.waits", {"settings": "not read yet"}),
        ("ready.now", None),
    ]


async def test_other_pages_are_not_there() -> None:
    assert (await World().get("/"))[0] == 404
