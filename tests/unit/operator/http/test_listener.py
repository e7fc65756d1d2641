"""Addresses to listen on, as people write them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import uvloop
from aiohttp import web

from kai_sched.operator.http import webhook_server
from kai_sched.operator.http.authority import issue
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


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


def greeting() -> web.Application:
    application = web.Application()
    application.add_routes([web.get("/", hello)])
    return application


def waiting(go_on: asyncio.Event, asked: asyncio.Queue[web.Request]) -> web.Application:
    """The same, and on /wait answers once ``go_on`` is set; ``asked`` gets each request for it."""

    async def wait(request: web.Request) -> web.Response:
        asked.put_nowait(request)
        await go_on.wait()
        return web.Response(text="done")

    application = greeting()
    application.add_routes([web.get("/wait", wait)])
    return application


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GET_WAIT = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_beyond_the_bound_the_connection_that_asked_least_lately_is_closed() -> None:
    """Whoever opens connections and keeps them does not keep others out."""
    listener = await listen(greeting(), "127.0.0.1:0", most=2)
    try:
        (old, to_old), (young, to_young) = [await connected(listener) for _ in range(2)]
        for reader, writer in ((young, to_young), (old, to_old)):
            writer.write(GET)
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        third, to_third = await connected(listener)
        to_third.write(GET)
        assert (await third.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        assert await asyncio.wait_for(young.read(), 5.0) == b"", "it asked before the other one"
        to_old.write(GET)
        assert (await old.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        for writer in (to_old, to_young, to_third):
            writer.close()
    finally:
        await listener.stop()


async def serve_a_crowd(is_tls: bool) -> None:
    """Many connect at once and say nothing: few stay, and whoever has something to say is answered."""
    most, pair = 10, issue("localhost", datetime.now(UTC), b"")
    ours = theirs = None
    if is_tls:
        ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        webhook_server._load(ours, pair)
        theirs = ssl.create_default_context(cadata=pair.authorities.decode())
    listener = await listen(greeting(), "127.0.0.1:0", ours, most=most)
    crowd: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    try:
        for _ in range(4):
            crowd += await asyncio.gather(*(connected(listener) for _ in range(20)))
        async with asyncio.timeout(5.0):
            while sum(not reader.at_eof() and not reader.exception() for reader, _ in crowd) > most:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        name = "localhost" if is_tls else None
        talker = await asyncio.open_connection("127.0.0.1", listener.port, ssl=theirs, server_hostname=name)
        crowd.append(talker)
        talker[1].write(GET)
        assert (await asyncio.wait_for(talker[0].readuntil(b"hello"), 5.0)).startswith(b"HTTP/1.1 200")
    finally:
        for _, writer in crowd:
            writer.close()
        await listener.stop()


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connections_count_before_their_handshake(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], is_tls: bool
) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve_a_crowd(is_tls))


async def serve_a_burst() -> None:
    """Many connect and ask at once: no more of them are being answered than may be connected."""
    most, answering, go_on = 10, asyncio.Queue[web.Request](), asyncio.Event()
    listener = await listen(waiting(go_on, answering), "127.0.0.1:0", most=most)
    crowd = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(100)]
    try:
        for each in crowd:
            each.sendall(GET_WAIT)
        await asyncio.sleep(0.3)
        assert 0 < answering.qsize() <= most
    finally:
        go_on.set()
        for each in crowd:
            each.close()
        await listener.stop()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_burst_is_answered_within_the_bound(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve_a_burst())


async def test_connections_that_are_being_answered_are_kept() -> None:
    go_on = asyncio.Event()
    listener = await listen(waiting(go_on, asyncio.Queue()), "127.0.0.1:0", most=1)
    try:
        kept, to_kept = await connected(listener)
        to_kept.write(GET_WAIT)
        await asyncio.sleep(0.05)
        refused, to_refused = await connected(listener)
        assert await asyncio.wait_for(refused.read(), 5.0) == b""
        go_on.set()
        assert (await kept.readuntil(b"done")).startswith(b"HTTP/1.1 200")
        to_kept.close()
        to_refused.close()
    finally:
        await listener.stop()


async def test_who_asks_and_leaves_counts_until_the_answer_is_there() -> None:
    """What is computed for those who have left is bounded, too."""
    asked, go_on = asyncio.Queue[web.Request](), asyncio.Event()
    listener = await listen(waiting(go_on, asked), "127.0.0.1:0", most=1)
    try:
        _, to_leaving = await connected(listener)
        to_leaving.write(GET_WAIT)
        await asked.get()
        to_leaving.close()
        await asyncio.sleep(0.05)
        refused, to_refused = await connected(listener)
        assert await asyncio.wait_for(refused.read(), 5.0) == b""
        go_on.set()
        await asyncio.sleep(0.05)
        taken, to_taken = await connected(listener)
        to_taken.write(GET)
        assert (await taken.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        to_refused.close()
        to_taken.close()
    finally:
        go_on.set()
        await listener.stop()


async def test_a_client_that_does_not_take_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kai_sched.operator.http.listener.TAKEN_S", 0.3)
    ended = asyncio.Event()

    async def large(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 2**20)
        finally:
            ended.set()

    application = greeting()
    application.add_routes([web.get("/large", large)])
    listener = await listen(application, "127.0.0.1:0")
    try:
        taking, to_taking = await connected(listener)
        to_taking.write(GET)
        assert (await taking.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        _, to_slow = await connected(listener)
        to_slow.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(ended.wait(), 10.0)
        to_taking.write(GET)
        assert (await taking.readuntil(b"hello")).startswith(b"HTTP/1.1 200"), "whoever takes answers stays"
        to_slow.close()
        to_taking.close()
    finally:
        await listener.stop()
