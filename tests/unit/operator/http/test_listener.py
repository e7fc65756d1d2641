"""Addresses to listen on, as people write them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kai_sched.operator.http.listener import AddressError, Listener, listen, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", None, 8080),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("localhost:65535", "localhost", 65535),
        ("[::1]:8080", "::1", 8080),
        ("[::]:1", "::", 1),
    ],
)
def test_addresses_are_read(text: str, host: str | None, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize("text", ["", "8080", "host", "host:", ":65536", ":-1", ":http", "::1:8080", ":٣"])
def test_what_is_no_address_is_quoted(text: str) -> None:
    with pytest.raises(AddressError, match="host:port") as raised:
        parse_address(text)
    assert repr(text) in str(raised.value)


async def test_an_address_that_is_taken_is_an_error() -> None:
    first = await listen(web.Application(), "127.0.0.1:0")
    try:
        with pytest.raises(OSError, match="address already in use"):
            await listen(web.Application(), f"127.0.0.1:{first.port}")
    finally:
        await first.stop()


async def test_an_address_is_free_once_it_is_stopped() -> None:
    first = await listen(web.Application(), "127.0.0.1:0")
    await first.stop()
    second = await listen(web.Application(), f"127.0.0.1:{first.port}")
    assert second.port == first.port
    await second.stop()


async def connected(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", listener.port)


async def test_a_connection_that_asks_for_nothing_is_closed_and_one_that_asked_is_kept() -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    application = web.Application()
    application.add_routes([web.get("/", hello)])
    listener = await listen(application, "127.0.0.1:0", first_request_s=0.2)
    try:
        (silent, to_silent), (slow, to_slow), (asked, to_asked) = [await connected(listener) for _ in range(3)]
        to_asked.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        to_slow.write(b"GET / HTTP/1.1\r\nHost:")
        assert (await asked.readline()).startswith(b"HTTP/1.1 200")
        assert await asyncio.wait_for(silent.read(), 5.0) == b""
        assert await asyncio.wait_for(slow.read(), 5.0) == b""
        to_asked.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asked.readuntil(b"HTTP/1.1 200")).endswith(b"200")
        for writer in (to_silent, to_slow, to_asked):
            writer.close()
    finally:
        await listener.stop()


async def test_connections_beyond_the_bound_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kai_sched.operator.http.listener.CONNECTIONS_MAX", 2)
    listener = await listen(web.Application(), "127.0.0.1:0")
    try:
        kept = [await connected(listener) for _ in range(2)]
        await asyncio.sleep(0.05)
        one_more, to_one_more = await connected(listener)
        assert await asyncio.wait_for(one_more.read(), 5.0) == b""
        for _, writer in [*kept, (one_more, to_one_more)]:
            writer.close()
        await asyncio.sleep(0.05)
        again, to_again = await connected(listener)
        to_again.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await again.readline()).startswith(b"HTTP/1.1 404")
        to_again.close()
    finally:
        await listener.stop()
