"""The webhook server over real TLS connections, with real certificates."""

from __future__ import annotations

import asyncio
import io
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from kai_sched.operator.http import webhook_server
from kai_sched.operator.http.authority import Pair, issue
from kai_sched.operator.http.webhook_server import REVIEWS_MAX, SMALL_BODY_BYTES, Review, Scrape, WebhookServer
from kai_sched.reconcile.admission.review import BODY_MAX, VALIDATE_POD_GROUP, VALIDATE_QUEUE

HOST = "kai-sched-webhook.kai-scheduler.svc"


def pair(earlier: bytes = b"") -> Pair:
    return issue(HOST, datetime.now(UTC), earlier)


def echo(path: str, body: bytes) -> bytes:
    """A review that shows what it was given."""
    if body == b"bad":
        raise ValueError("no uid")
    return f"{path} {len(body)}".encode()


@asynccontextmanager
async def serving(
    first: Pair | None,
    review: Review = echo,
    answer_s: float = webhook_server.ANSWER_S,
    scrape: Scrape | None = None,
) -> AsyncIterator[WebhookServer]:
    server = WebhookServer(review, answer_s, scrape)
    if first:
        server.use(first)
    await server.start("127.0.0.1:0")
    try:
        yield server
    finally:
        await server.stop()


async def ask(
    server: WebhookServer, trusted: Pair, body: bytes = b"{}", path: str = VALIDATE_QUEUE, method: str = "POST"
) -> tuple[int, str]:
    """Status and text, asked as the API server does: by the service's name, trusting the bundle alone."""
    tls = ssl.create_default_context(cadata=trusted.authorities.decode())
    url = f"https://127.0.0.1:{server.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=io.BytesIO(body), ssl=tls, server_hostname=HOST) as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("path", BODY_MAX)
async def test_reviews_are_answered(path: str) -> None:
    first = pair()
    async with serving(first) as server:
        assert await ask(server, first, b"12345", path) == (200, f"{path} 5")


async def test_metrics_are_served_over_its_tls_where_it_is_told_to() -> None:
    async def scrape(_: web.Request) -> web.Response:
        return web.Response(text="kai_leader 1.0\n")

    first = pair()
    async with serving(first) as server:
        assert (await ask(server, first, path="/metrics", method="GET"))[0] == 404
    async with serving(first, scrape=scrape) as server:
        assert await ask(server, first, path="/metrics", method="GET") == (200, "kai_leader 1.0\n")


async def test_a_bad_body_is_told() -> None:
    first = pair()
    async with serving(first) as server:
        assert await ask(server, first, b"bad") == (400, "not an admission review: no uid\n")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("path", [VALIDATE_QUEUE, VALIDATE_POD_GROUP])
async def test_two_large_objects_fit_and_more_does_not(path: str) -> None:
    first, most = pair(), BODY_MAX[path]
    async with serving(first) as server:
        assert await ask(server, first, b"x" * most, path) == (200, f"{path} {most}")
        assert (await ask(server, first, b"x" * (most + 1), path))[0] == 413


async def test_a_length_that_is_not_told_is_counted() -> None:
    first, most = pair(), BODY_MAX[VALIDATE_POD_GROUP]

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(most // 2**16 + 1):
            yield b"x" * 2**16

    async with serving(first) as server, aiohttp.ClientSession() as session:
        tls = ssl.create_default_context(cadata=first.authorities.decode())
        url = f"https://127.0.0.1:{server.port}{VALIDATE_POD_GROUP}"
        async with session.post(url, data=parts(), ssl=tls) as response:
            assert response.status == 413


async def test_all_bodies_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "ALL_BODIES_BYTES_MAX", 2_500_000)
    first, go_on = pair(), threading.Event()

    def held(path: str, body: bytes) -> bytes:
        go_on.wait(10.0)
        return echo(path, body)

    async with serving(first, held) as server:
        asked = [asyncio.create_task(ask(server, first, b"x" * 1_000_000)) for _ in range(4)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        go_on.set()
        statuses = sorted([(await one)[0] for one in asked])
        assert statuses in ([200, 200, 503, 503], [200, 503, 503, 503])
        assert (await ask(server, first, b"x" * 1_000_000))[0] == 200, "what was held is free again"


async def begin(server: WebhookServer, trusted: Pair, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send so many bytes of a body that is longer, and stop."""
    tls = ssl.create_default_context(cadata=trusted.authorities.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname=HOST)
    writer.write(f"POST {VALIDATE_QUEUE} HTTP/1.1\r\nHost: x\r\nContent-Length: {size + 1}\r\n\r\n".encode())
    writer.write(b"x" * size)
    await writer.drain()
    return reader, writer


async def come_in(server: WebhookServer, total: int) -> None:
    """Wait until bodies of so many bytes are held."""
    async with asyncio.timeout(10.0):
        while server._held_bytes < total:  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0.01)


async def test_whoever_holds_large_bodies_back_keeps_no_review_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any pod may begin reviews and not end them."""
    monkeypatch.setattr(webhook_server, "ALL_BODIES_BYTES_MAX", 2_000_000)
    first = pair()
    async with serving(first, answer_s=30.0) as server:
        held = [await begin(server, first, size) for size in (600_000, 800_000, 600_000)]
        await come_in(server, 2_000_000)
        assert (await ask(server, first, b"x" * 2_000))[0] == 200
        assert (await ask(server, first, b"x" * 300_000))[0] == 200
        for _, writer in held:
            writer.write(b"x")
        statuses = [(await asyncio.wait_for(reader.readline(), 5.0)).split()[1] for reader, _ in held]
        assert statuses == [b"200", b"503", b"200"], "the largest one had to go"
        for _, writer in held:
            writer.close()


async def test_small_bodies_are_reviewed_however_many_large_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "ALL_BODIES_BYTES_MAX", 1_000_000)
    first, go_on = pair(), threading.Event()

    def held(path: str, body: bytes) -> bytes:
        if len(body) == 999_000:
            go_on.wait(10.0)
        return echo(path, body)

    async with serving(first, held) as server:
        under_review = asyncio.create_task(ask(server, first, b"x" * 999_000))
        await come_in(server, 999_000)
        assert (await ask(server, first, b"x" * SMALL_BODY_BYTES))[0] == 200
        assert (await ask(server, first, b"x" * (SMALL_BODY_BYTES + 1)))[0] == 503
        go_on.set()
        assert (await under_review)[0] == 200
        assert server._held_bytes == 0


@pytest.mark.alone
@pytest.mark.slow
async def test_a_long_review_delays_no_callback_of_the_loop() -> None:
    """A loop that reviewed itself would stand still for as long as one review computes, however busy the machine."""
    first, review_s = pair(), 1.0

    def busy(path: str, body: bytes) -> bytes:
        end = time.thread_time() + review_s
        while time.thread_time() < end:
            pass
        return echo(path, body)

    slowest_s, turns = 0.0, 0
    async with serving(first, busy, answer_s=60.0) as server:
        asked = [asyncio.create_task(ask(server, first)) for _ in range(3)]
        while not all(one.done() for one in asked):
            before = time.monotonic()
            await asyncio.sleep(0.001)
            slowest_s, turns = max(slowest_s, time.monotonic() - before), turns + 1
        assert {(await one)[0] for one in asked} == {200}
    assert slowest_s < review_s
    assert turns > 20


async def test_a_review_that_takes_too_long_is_refused_and_others_are_answered() -> None:
    first, go_on = pair(), threading.Event()

    def held(path: str, body: bytes) -> bytes:
        if body == b"slow":
            go_on.wait(10.0)
        return echo(path, body)

    async with serving(first, held, answer_s=0.3) as server:
        slow = asyncio.create_task(ask(server, first, b"slow"))
        await asyncio.sleep(0.05)
        assert (await ask(server, first))[0] == 200
        assert await slow == (503, "not reviewed within 0.3 s: try again\n")
        go_on.set()


async def test_reviews_beyond_the_bound_wait_their_turn() -> None:
    first, under_way, most = pair(), 0, 0
    lock = threading.Lock()

    def counted(path: str, body: bytes) -> bytes:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.002)
        with lock:
            under_way -= 1
        return echo(path, body)

    async with serving(first, counted) as server:
        tls = ssl.create_default_context(cadata=first.authorities.decode())
        url = f"https://127.0.0.1:{server.port}{VALIDATE_QUEUE}"

        async def one(session: aiohttp.ClientSession) -> int:
            async with session.post(url, data=b"{}", ssl=tls) as response:
                return response.status

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=20)) as session:
            statuses = await asyncio.gather(*(one(session) for _ in range(3 * REVIEWS_MAX)))
    assert set(statuses) == {200}
    assert most == webhook_server.THREADS


async def test_a_fault_of_ours_is_told_and_no_other_request_is_hurt() -> None:
    first = pair()

    def faulty(path: str, body: bytes) -> bytes:
        if body == b"pill":
            raise OverflowError("int too large")
        return echo(path, body)

    async with serving(first, faulty) as server:
        assert await ask(server, first, b"pill") == (500, "the review failed: OverflowError: int too large\n")
        assert (await ask(server, first))[0] == 200


@pytest.mark.alone
@pytest.mark.slow
async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    first = pair()
    async with serving(first, answer_s=0.2) as server:
        tls = ssl.create_default_context(cadata=first.authorities.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname=HOST)
        head = f"POST {VALIDATE_QUEUE} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
        writer.write(head.encode() + b"{")
        answer = await asyncio.wait_for(reader.read(), 5.0)
        assert b" 503 " in answer.splitlines()[0]
        writer.close()


async def test_who_leaves_answers_and_lets_go_of_the_connection() -> None:
    first = pair()
    tls = ssl.create_default_context(cadata=first.authorities.decode())
    async with serving(first) as server, aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.port}{VALIDATE_QUEUE}"
        async with session.post(url, data=b"{}", ssl=tls) as response:
            assert "Connection" not in response.headers
        server.leave()
        for _ in range(2):
            async with session.post(url, data=b"{}", ssl=tls) as response:
                assert (response.status, response.headers["Connection"]) == (200, "close")


async def test_only_these_paths_and_only_posts() -> None:
    first = pair()
    async with serving(first) as server:
        assert (await ask(server, first, path="/"))[0] == 404
        assert (await ask(server, first, b"", method="GET"))[0] == 405


async def test_by_url_on_the_same_machine() -> None:
    first = pair()
    async with serving(first) as server, aiohttp.ClientSession() as session:
        tls = ssl.create_default_context(cadata=first.authorities.decode())
        async with session.post(f"https://127.0.0.1:{server.port}{VALIDATE_QUEUE}", data=b"{}", ssl=tls) as response:
            assert response.status == 200


async def test_a_new_certificate_needs_no_restart() -> None:
    first = pair()
    async with serving(first) as server:
        await ask(server, first)
        second = pair(first.authorities)
        assert (await ask(server, second))[0] == 200, "the bundle of the new one trusts the old one"
        server.use(second)
        assert (await ask(server, second))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(server, first)


async def test_a_connection_outlives_a_new_certificate() -> None:
    first = pair()
    async with serving(first) as server, aiohttp.ClientSession() as session:
        tls = ssl.create_default_context(cadata=first.authorities.decode())
        url = f"https://127.0.0.1:{server.port}{VALIDATE_QUEUE}"
        for _ in range(2):
            async with session.post(url, data=b"{}", ssl=tls) as response:
                assert response.status == 200
                assert await response.read()
            server.use(pair(first.authorities))


async def test_problems_are_named() -> None:
    server = WebhookServer(echo)
    assert server.problem() == "the webhook server has no certificate yet"
    server.use(pair())
    assert server.problem() == "the webhook server does not listen yet"
    await server.start("127.0.0.1:0")
    assert server.problem() == ""
    await server.stop()
    assert server.problem() == "the webhook server does not listen yet"


async def test_without_a_certificate_connections_fail_and_then_work() -> None:
    first = pair()
    async with serving(None) as server:
        with pytest.raises(aiohttp.ClientError):
            await ask(server, first)
        server.use(first)
        assert (await ask(server, first))[0] == 200
