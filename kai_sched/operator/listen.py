"""Serving an aiohttp application on an address as people write it: ":8080", "127.0.0.1:8080", "[::1]:8080"."""

from __future__ import annotations

import ssl

from aiohttp import web

PORT_MAX = 65_535
SHUTDOWN_S = 5.0


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

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner
        address = runner.addresses[0]
        self.port: int = address[1]

    async def stop(self) -> None:
        """Answer what has come in, then close."""
        await self._runner.cleanup()


async def listen(application: web.Application, address: str, tls: ssl.SSLContext | None = None) -> Listener:
    """Serve from now on. Raises AddressError, and OSError where the address is taken or not this machine's."""
    host, port = parse_address(address)
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls, reuse_address=True).start()
    except OSError:
        await runner.cleanup()
        raise
    return Listener(runner)
