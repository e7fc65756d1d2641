"""The webhook server over real TLS connections, with real certificates."""

from __future__ import annotations

import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest

from kai_sched.operator.authority import Pair, issue
from kai_sched.operator.webhooks import BODY_BYTES_MAX, PATHS, VALIDATE_QUEUE, WebhookServer

HOST = "kai-sched-webhook.kai-scheduler.svc"


def pair(earlier: bytes = b"") -> Pair:
    return issue(HOST, datetime.now(UTC), earlier)


def echo(path: str, body: bytes) -> bytes:
    """A review that shows what it was given."""
    if body == b"bad":
        raise ValueError("no uid")
    return f"{path} {len(body)}".encode()


@asynccontextmanager
async def serving(first: Pair | None) -> AsyncIterator[WebhookServer]:
    server = WebhookServer(echo)
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


@pytest.mark.parametrize("path", PATHS)
async def test_reviews_are_answered(path: str) -> None:
    first = pair()
    async with serving(first) as server:
        assert await ask(server, first, b"12345", path) == (200, f"{path} 5")


async def test_a_bad_body_is_told() -> None:
    first = pair()
    async with serving(first) as server:
        assert await ask(server, first, b"bad") == (400, "not an admission review: no uid\n")


async def test_two_large_objects_fit_and_more_does_not() -> None:
    first = pair()
    async with serving(first) as server:
        assert (await ask(server, first, b"x" * BODY_BYTES_MAX))[0] == 200
        assert (await ask(server, first, b"x" * (BODY_BYTES_MAX + 1)))[0] == 413


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
