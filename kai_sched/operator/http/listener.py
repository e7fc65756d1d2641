"""Serving an aiohttp application on an address as people write it: ":8080", "127.0.0.1:8080", "[::1]:8080".

Anybody in the cluster may connect, so what one connection costs is bounded: see the constants.
"""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import web

PORT_MAX = 65_535
SHUTDOWN_S = 5.0
CONNECTIONS_MAX = 2048
HANDSHAKE_S = 10.0
# A connection without a complete first request is closed after this long, one between requests after KEEP_S. The API
# server drops its own after 90 s: who waits less cuts one now and then that it is about to use.
FIRST_REQUEST_S = 15.0
KEEP_S = 120.0
LINGER_S = 1.0  # for the rest of a body that was refused
BUFFER_BYTES = 2**16


class AddressError(ValueError):
    """A text that is no listen address; the message quotes it."""


def parse_address(text: str) -> tuple[str | None, int]:
    """The host, None for all of them, and the port, 0 for any that is free. Raises AddressError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX or (":" in bare and bare == host):
        raise AddressError(
            f"{text!r} is not an address to listen on; write host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080"
        )
    return bare or None, int(port)


class Listener:
    """An application that is served until ``stop``. ``port`` is the one that is really used."""

    def __init__(self, runner: web.AppRunner, listening: asyncio.Server) -> None:
        self._runner = runner
        self._listening = listening
        self.port: int = listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Answer what has come in, then close."""
        self._listening.close()
        await self._runner.cleanup()


class _Refused(asyncio.Protocol):
    """The end of a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _Connections:
    """Makes the handler of each new connection."""

    def __init__(self, runner: web.AppRunner, first_request_s: float) -> None:
        self._runner = runner
        self._first_request_s = first_request_s
        self._silent: set[asyncio.Protocol] = set()  # those that have not asked for anything yet

    def __call__(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None or len(server.connections) >= CONNECTIONS_MAX:
            return _Refused()
        handler = server()
        self._silent.add(handler)
        asyncio.get_running_loop().call_later(self._first_request_s, self._close_silent, handler)
        return handler

    def _close_silent(self, handler: web.RequestHandler) -> None:
        if handler in self._silent:
            self._silent.discard(handler)
            handler.force_close()

    async def asked(self, request: web.Request, _response: web.StreamResponse) -> None:
        """The connection of the request has asked for something."""
        self._silent.discard(request.protocol)


async def listen(
    application: web.Application,
    address: str,
    tls: ssl.SSLContext | None = None,
    first_request_s: float = FIRST_REQUEST_S,
) -> Listener:
    """Serve from now on. Raises AddressError, and OSError where the address is taken or not this machine's."""
    host, port = parse_address(address)
    runner = web.AppRunner(
        application,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
        keepalive_timeout=KEEP_S,
        lingering_time=LINGER_S,
        read_bufsize=BUFFER_BYTES,
    )
    connections = _Connections(runner, first_request_s)
    application.on_response_prepare.append(connections.asked)
    await runner.setup()
    try:
        listening = await asyncio.get_running_loop().create_server(
            connections,
            host,
            port,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_S if tls else None,
            reuse_address=True,
            backlog=128,
        )
    except OSError:
        await runner.cleanup()
        raise
    return Listener(runner, listening)
