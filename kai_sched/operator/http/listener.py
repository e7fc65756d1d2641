"""TCP connections to all ports of the operator: addresses, how many may be open, and for how long without a request.

The pages and the webhook server use it. Any pod in the cluster may connect, so the cost of one connection is bounded
by the constants below.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

from aiohttp import web

PORT_MAX = 65_535
SHUTDOWN_S = 5.0
CONNECTIONS_MAX = 2048  # at one port
HANDSHAKE_S = 10.0
# A connection without a complete first request is closed after this time, one between requests after KEEP_S. The API
# server closes its own after 90 s: a shorter time here would cut connections that it is about to use.
FIRST_REQUEST_S = 15.0
KEEP_S = 120.0
TAKEN_S = 30.0  # from the head of an answer until all of it is taken
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

    def __init__(self, runner: web.AppRunner, listening: asyncio.Server, connections: _Connections) -> None:
        self._runner = runner
        self._listening = listening
        self._connections = connections
        self.port: int = listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Answer the requests that have arrived, then close."""
        self._listening.close()
        await self._connections.stop()
        await self._runner.cleanup()


class _Accepted(asyncio.Protocol):
    """Takes the socket of a connection that was accepted, and passes it on. Nobody else gets it before the handshake of
    TLS has ended, and so could not close it.
    """

    def __init__(self, pass_on: Callable[[socket.socket], None]) -> None:
        self._pass_on = pass_on

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        with suppress(OSError):  # there may be no descriptor left
            self._pass_on(transport.get_extra_info("socket").dup())
        transport.close()


class _Connections:
    """Creates the handler of each new connection. Closes connections that send nothing or take nothing, and, where
    there are too many, the one whose last request is the longest ago: otherwise whoever opens many and keeps them
    would keep the kubelet out. Those whose handshake has not ended count, too.
    """

    def __init__(self, runner: web.AppRunner, tls: ssl.SSLContext | None, first_request_s: float, most: int) -> None:
        self._runner = runner
        self._tls = tls
        self._first_request_s = first_request_s
        self._most = most
        # How many requests each connection has sent; the one with the latest request comes last.
        self._requests: OrderedDict[web.RequestHandler, int] = OrderedDict()
        self._busy: set[web.RequestHandler] = set()  # whose request is being answered
        self._beginning: dict[web.RequestHandler, socket.socket] = {}  # which have no transport yet
        self._tasks: set[asyncio.Task[None]] = set()  # in which these begin

    def __call__(self) -> asyncio.Protocol:
        return _Accepted(self._begin)

    def _begin(self, connection: socket.socket) -> None:
        server = self._runner.server
        if server is None or (len(self._requests) >= self._most and not self._make_room()):
            connection.close()
            return
        handler = server()
        self._requests[handler] = 0
        self._beginning[handler] = connection
        loop = asyncio.get_running_loop()
        loop.call_later(self._first_request_s, self._close_silent, handler)
        task = loop.create_task(self._hand_over(handler, connection), name="connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hand_over(self, handler: web.RequestHandler, connection: socket.socket) -> None:
        """Have the handler serve the connection, after its handshake."""
        timeout_s = HANDSHAKE_S if self._tls else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: handler, connection, ssl=self._tls, ssl_handshake_timeout=timeout_s
            )
        except OSError:
            connection.close()
        finally:
            self._beginning.pop(handler, None)

    async def stop(self) -> None:
        """Close the connections that nothing serves yet."""
        for handler in list(self._beginning):
            self._close(handler)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _make_room(self) -> bool:
        """Close the connection that has been idle for the longest; False if all are being answered."""
        self._forget_closed()
        if len(self._requests) < self._most:
            return True
        for handler in self._requests:
            if handler not in self._busy:
                self._close(handler)
                return True
        return False

    def _forget_closed(self) -> None:
        for handler in [each for each in self._requests if self._is_closed(each)]:
            del self._requests[handler]

    def _is_closed(self, handler: web.RequestHandler) -> bool:
        """Whether it costs nothing any more: the request of a peer that has left may still be answered."""
        return handler.transport is None and handler not in self._beginning and handler not in self._busy

    def _close_silent(self, handler: web.RequestHandler) -> None:
        if self._is_closed(handler):
            self._requests.pop(handler, None)
        elif not self._requests.get(handler):
            self._close(handler)

    def _close(self, handler: web.RequestHandler) -> None:
        """Close the connection, which does not count any more."""
        self._requests.pop(handler, None)
        if (connection := self._beginning.pop(handler, None)) is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # ends the handshake, whether it has begun or not
        elif handler.transport is not None:
            _abort(handler)

    @web.middleware
    async def answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """The connection has sent a request, and stays until it is answered."""
        connection = request.protocol
        if connection not in self._requests:  # closed to make room, after its request was received
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        self._requests[connection] += 1
        self._requests.move_to_end(connection)
        self._busy.add(connection)
        try:
            return await handler(request)
        finally:
            self._busy.discard(connection)

    async def answered(self, request: web.Request, _response: web.StreamResponse) -> None:
        """The answer is about to be sent."""
        connection = request.protocol
        number = self._requests.get(connection, 0)
        asyncio.get_running_loop().call_later(TAKEN_S, self._close_slow, connection, number)

    def _close_slow(self, handler: web.RequestHandler, number: int) -> None:
        transport = handler.transport
        if transport is None or self._requests.get(handler) != number:
            return
        if isinstance(transport, asyncio.WriteTransport) and transport.get_write_buffer_size():
            _abort(handler)


def _abort(handler: web.RequestHandler) -> None:
    """Close the connection, whatever its peer has not taken yet."""
    transport = handler.transport
    handler.force_close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def listen(
    application: web.Application,
    address: str,
    tls: ssl.SSLContext | None = None,
    first_request_s: float = FIRST_REQUEST_S,
    most: int = CONNECTIONS_MAX,
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
    most
        How many connections may be open.

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
    connections = _Connections(runner, tls, first_request_s, most)
    application.middlewares.append(connections.answer)
    application.on_response_prepare.append(connections.answered)
    await runner.setup()
    try:
        listening = await asyncio.get_running_loop().create_server(
            connections,
            host,
            port,
            reuse_address=True,
            backlog=128,
        )
    except OSError as error:
        await runner.cleanup()
        raise ListenFailure(address, error) from None
    return Listener(runner, listening, connections)
