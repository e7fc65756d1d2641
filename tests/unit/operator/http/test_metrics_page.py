"""/metrics with --authenticated-metrics: who gets it, and that a probe needs no token."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from kai_sched.cluster.access_reviews import AccessReviews
from kai_sched.operator.http import metrics_page
from kai_sched.operator.http.pages import Pages
from kai_sched.operator.http.path_access import PathAccess
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.http.test_page_server import ReviewApi, bearer


@asynccontextmanager
async def served(api: ReviewApi | None, protected: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
    """The pages of a process whose tokens this API server knows; None: it cannot be asked yet."""
    pages = Pages(Metrics(), lambda: (True, "us"), protected)
    if api is not None:
        any_api: Any = api
        pages.metrics_page.access = PathAccess(AccessReviews(any_api), metrics_page.PATH, lambda: 100.0)
    await pages.listen("127.0.0.1:0")
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{pages.port}") as session:
            yield session
    finally:
        await pages.stop()


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({}, 401, "send a token: Authorization: Bearer TOKEN"),
        (bearer("nonsense"), 401, "the API server does not know this token"),
        (bearer("guest"), 403, "guest may not read the metrics: it takes the verb get on nonResourceURLs /metrics"),
        (bearer("root"), 200, "kai_leader 1.0"),
        # The cookie of the page is none of a program's.
        ({"Cookie": "kai-sched-token=root"}, 401, "send a token"),
    ],
)
async def test_metrics_are_for_those_with_the_right(headers: dict[str, str], status: int, text: str) -> None:
    async with served(ReviewApi()) as session, session.get("/metrics", headers=headers) as answer:
        assert answer.status == status
        assert text in await answer.text()
        assert (answer.headers.get("WWW-Authenticate") == "Bearer") == (status == 401)


async def test_the_review_is_about_metrics_and_is_kept() -> None:
    api = ReviewApi()
    async with served(api) as session:
        for _ in range(3):
            async with session.get("/metrics", headers=bearer("root")) as answer:
                assert answer.status == 200
    _, right = api.asked
    assert right["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


async def test_before_tokens_can_be_reviewed_nobody_gets_them_and_probes_are_answered() -> None:
    async with served(None) as session:
        async with session.get("/metrics", headers=bearer("root")) as answer:
            assert answer.status == 503
        async with session.get("/healthz") as answer:
            assert answer.status == 200


async def test_without_the_flag_no_token_is_asked_for() -> None:
    async with served(None, protected=False) as session, session.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def test_those_who_ask_all_the_time_leave_room_for_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long metrics take, no more connections wait for them than the port has."""
    most = metrics_page.ASKED_AT_ONCE + 2
    monkeypatch.setattr("kai_sched.operator.http.pages.CONNECTIONS_MAX", most)
    go_on = threading.Event()

    class SlowMetrics(Metrics):
        def render(self) -> bytes:
            go_on.wait(10.0)
            return b""

    busy = Pages(SlowMetrics(), lambda: (True, "us"))
    await busy.listen("127.0.0.1:0")
    url = f"http://127.0.0.1:{busy.port}"
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(connector=connector) as many, aiohttp.ClientSession() as kubelet:

            async def ask() -> int:
                async with many.get(f"{url}/metrics") as answer:
                    return answer.status

            asked = [asyncio.create_task(ask()) for _ in range(most)]
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    while sum(one.done() for one in asked) < 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            async with kubelet.get(f"{url}/healthz") as answer:
                assert answer.status == 200
            go_on.set()
            assert sorted(await asyncio.gather(*asked)) == [200] * metrics_page.ASKED_AT_ONCE + [503] * 2
    finally:
        go_on.set()
        await busy.stop()
