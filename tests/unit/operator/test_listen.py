"""Addresses to listen on, as people write them."""

from __future__ import annotations

import pytest
from aiohttp import web

from kai_sched.operator.listen import AddressError, listen, parse_address


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
