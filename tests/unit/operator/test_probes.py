"""The three pages, asked over a real connection."""

from __future__ import annotations

import aiohttp

from kai_sched.operator.listen import listen
from kai_sched.operator.probes import application


class World:
    """What the checks look at."""

    def __init__(self) -> None:
        self.stuck = ""
        self.caches = ""
        self.kernels = ""

    async def get(self, path: str) -> tuple[int, str, str]:
        """Status, content type and text of a page, served for this one request."""
        alive = {"cycle": lambda: self.stuck}
        ready = {"caches": lambda: self.caches, "kernels": lambda: self.kernels}
        listener = await listen(application(alive, ready, lambda: b"kai_queue_info 1\n"), "127.0.0.1:0")
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{listener.port}{path}") as response,
            ):
                return response.status, response.headers["Content-Type"], await response.text()
        finally:
            await listener.stop()


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


async def test_ready_lists_each_check() -> None:
    status, kind, text = await World().get("/readyz")
    assert (status, kind) == (200, "application/json")
    assert text == '{"ready":true,"checks":{"caches":"","kernels":""}}\n'


async def test_one_check_is_enough_not_to_be_ready() -> None:
    world = World()
    world.kernels = "the kernels are being compiled"
    status, _, text = await world.get("/readyz")
    assert status == 503
    assert text == '{"ready":false,"checks":{"caches":"","kernels":"the kernels are being compiled"}}\n'


async def test_metrics_are_passed_on_as_prometheus_wants_them() -> None:
    assert await World().get("/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", "kai_queue_info 1\n")


async def test_other_pages_are_not_there() -> None:
    assert (await World().get("/"))[0] == 404
