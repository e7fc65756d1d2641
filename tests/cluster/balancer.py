"""What a Service is to its clients: one address in front of replicas that come and go. Plain TCP on loopback.

It runs on an event loop in a thread of its own. As with kube-proxy, a connection that is open stays with its replica.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterable

from tests.cluster.processes import free_port

CHUNK_BYTES = 2**16
LAST_TURNS_S = 0.25


class Balancer:
    """A context manager. New connections go in turns to the ports of ``use``, and are refused where there are none."""

    def __init__(self) -> None:
        self.port = free_port()
        self._ports: tuple[int, ...] = ()
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), name="balancer")

    def use(self, ports: Iterable[int | None]) -> None:
        """From now on new connections go to these."""
        self._ports = tuple(port for port in ports if port)

    def __enter__(self) -> Balancer:
        self._thread.start()
        assert self._started.wait(30), "the balancer listens"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the balancer has ended"
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        self._started.set()
        await self._stop.wait()
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(LAST_TURNS_S)  # closed connections are gone only some turns of the loop later

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports = self._ports
        try:
            port = ports[next(self._turns) % len(ports)]
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except (OSError, ZeroDivisionError):
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        finally:
            for end in (writer, back):
                end.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    writer.close()
