"""TCP connections to all ports of the operator: addresses, how many may be open, and for how long without a request.

The pages and the webhook server use it. Any pod in the cluster may connect, so the cost of one connection is bounded
by the constants below.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl

from aiohttp import web

PORT_MAX = 65_535
SHUTDOWN_S = 5.0
CONNECTIONS_MAX = 2048
HANDSHAKE_S = 10.0
# A connection without a complete first request is closed after this time, one between requests after KEEP_S. The API
# server closes its own after 90 s: a shorter time here would cut connections that it is about to use.
FIRST_REQUEST_S = 15.0
KEEP_S = 120.0
LINGER_S = 1.0  # for the rest of a body that was refused
BUFFER_BYTES = 2**16


class AddressError(ValueError):
    """A text is no address to listen on; the message quotes it."""


def parse_address(text: str) -> tuple[str | None, int]:
    """Return the host (None for all) and the port (0 for any free one). Raises AddressError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX or (":" in bare and bare == host):
        raise AddressError(
            f"{text!r} is not an address to listen on; write host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080"
        )
    return bare or None, int(port)


class ListenFailure(OSError):
    """The process cannot listen on ``address``; the message says why, and what to do."""

    def __init__(self, address: str, error: OSError) -> None:
        self.address = address
        known = error.errno is not None and error.errno in errno.errorcode
        why = os.strerror(error.errno) if known and error.errno is not None else error.strerror or str(error)
        remedy = "stop what listens there, or choose another" if error.errno == errno.EADDRINUSE else "choose another"
        super().__init__(f"cannot listen on {address}: {why.lower()}: {remedy}")


class Listener:
    """An application that is served until ``stop``. ``port`` is the port in use."""

    def __init__(self, runner: web.AppRunner, listening: asyncio.Server) -> None:
        self._runner = runner
        self._listening = listening
        self.port: int = listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Answer the requests that have arrived, then close."""
        self._listening.close()
        await self._runner.cleanup()


class _Refused(asyncio.Protocol):
    """Closes a connection beyond CONNECTIONS_MAX."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _Connections:
    """Creates the handler of each new connection, and closes connections that send nothing."""

    def __init__(self, runner: web.AppRunner, first_request_s: float) -> None:
        self._runner = runner
        self._first_request_s = first_request_s
        self._silent: set[asyncio.Protocol] = set()  # handlers without a request so far

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
        """The connection has sent a request."""
        self._silent.discard(request.protocol)


async def listen(
    application: web.Application,
    address: str,
    tls: ssl.SSLContext | None = None,
    first_request_s: float = FIRST_REQUEST_S,
) -> Listener:
    """Serve from now on.

    Parameters
    ----------
    application
        What answers.
    address
        "host:port"; without a host, all addresses of the machine.
    tls
        The certificate, None for plain HTTP.
    first_request_s
        How long a connection may stay without a request.

    Raises
    ------
    AddressError
        If the text is no address.
    ListenFailure
        If the address is taken, or is not one of this machine.
    """
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
    except OSError as error:
        await runner.cleanup()
        raise ListenFailure(address, error) from None
    return Listener(runner, listening)
