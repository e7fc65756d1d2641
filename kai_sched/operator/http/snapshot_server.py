"""The page /get-snapshot, as the original's scheduler has it (API 9.4): where it listens, when it answers, and what it
reads.

The objects are read from the API server at each request, as the store keeps what the scheduler needs and no manifests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.cluster_reader import Cleaning, ClusterReader, ReadObjects
from kai_sched.cluster.paths import VERSION, version_path
from kai_sched.files.dump import DumpMetadata, kinds_config_map_of
from kai_sched.files.redaction import redacted
from kai_sched.files.snapshot_archive import archive_chunks
from kai_sched.model.config import Config
from kai_sched.operator.http.listener import Listener, listen
from kai_sched.operator.intake.sources import SOURCES

PATH = "/get-snapshot"
HOST = "127.0.0.1"  # pods and people elsewhere are not answered: kubectl port-forward reaches it
PODS_MAX = 20_000  # manifests of so many pods take several hundred megabytes while the archive is made


class SnapshotServer:
    """For one event loop; one snapshot is made at a time.

    Parameters
    ----------
    api
        The client of the API server.
    config
        Returns the settings in force.
    pods
        Returns how many pods the last cycle saw; None before the first cycle.
    wall_ns
        Nanoseconds since the epoch.
    """

    def __init__(
        self, api: Api, config: Callable[[], Config], pods: Callable[[], int | None], wall_ns: Callable[[], int]
    ) -> None:
        self._api = api
        self._config = config
        self._pods = pods
        self._wall_ns = wall_ns
        self._making = asyncio.Lock()
        self._listener: Listener | None = None

    async def listen(self, port: int) -> None:
        """Answer from now on, unless the port is 0. Raises ListenFailure."""
        if port:
            self._listener = await listen(self.application(), snapshot_address(port))

    async def stop(self) -> None:
        """Stop answering."""
        listener, self._listener = self._listener, None
        if listener:
            await listener.stop()

    def application(self) -> web.Application:
        """The application with the page; other paths are answered with 404."""
        pages = web.Application()
        pages.add_routes([web.get(PATH, self._answer), web.get("/{path:.*}", _unknown)])
        return pages

    async def _answer(self, _: web.Request) -> web.Response:
        pods = self._pods()
        if pods is None:
            return web.Response(status=404, text="there is no snapshot before the first cycle: ask again later\n")
        if pods > PODS_MAX:
            text = f"{pods} pods, and a snapshot is made of {PODS_MAX} at most: write a dump elsewhere (kai-sched dump)"
            return web.Response(status=503, text=f"{text}\n")
        async with self._making:
            try:
                body = await self._archive()
            except ApiFailure as failure:
                return web.Response(status=503, text=f"the cluster cannot be read: {failure}\n")
        name = {"Content-Disposition": "attachment; filename=snapshot.zip"}
        return web.Response(body=body, content_type="application/zip", headers=name)

    async def _archive(self) -> bytes:
        config, time_ns = self._config(), self._wall_ns()
        reader = ClusterReader(
            self._api,
            Cleaning(redacted, redacted),
            lambda objects: kinds_config_map_of(objects, config),
            time.monotonic,
        )
        found = await reader.read(SOURCES, config.scheduler_name)
        metadata = DumpMetadata(time_ns, unreadable=tuple(sorted(map(str, found.unreadable))))
        return await asyncio.to_thread(_packed, found, config, metadata, await self._discovery())

    async def _discovery(self) -> dict[str, Any]:
        """What the API server serves, of the groups that are read: the original's snapshot tool asks for it."""
        paths = [VERSION, *dict.fromkeys(version_path(source.kind[0]) for source in SOURCES)]
        found = {}
        for path in paths:
            with suppress(ApiFailure, msgspec.DecodeError):
                found[path] = msgspec.json.decode(await self._api.request("GET", path, needs_right=False))
        return {"serverVersion": found.pop(VERSION, {}), "resources": list(found.values())}


def snapshot_address(port: int) -> str:
    """The address that the page has with ``--plugin-server-port``."""
    return f"{HOST}:{port}"


def _packed(found: ReadObjects, config: Config, metadata: DumpMetadata, discovery: dict[str, Any]) -> bytes:
    return b"".join(archive_chunks(found.objects, config, metadata, discovery))


async def _unknown(request: web.Request) -> web.Response:
    return web.Response(status=404, text=f"no plugin serves {request.path}: {PATH} is served\n")
