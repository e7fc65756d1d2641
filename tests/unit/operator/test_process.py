"""What the process does before anything else."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kai_sched.cluster.failure import ApiFailure
from kai_sched.files.settings_folder import SettingsFolder
from kai_sched.operator import process
from kai_sched.operator.http.pages import Pages
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.options import RunOptions
from kai_sched.telemetry.metrics import Metrics

CONFIG = {"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}}
SHARD = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "blue"}}
SHARING = {**CONFIG, "spec": {"admission": {"gpuSharing": True}}}


class Refusing:
    """An API server that refuses each request whose path has that text."""

    def __init__(self, refused: str) -> None:
        self._refused = refused
        self.refused = asyncio.Event()

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        await asyncio.sleep(0)
        if self._refused in path:
            self.refused.set()
            raise ApiFailure(method, path, 422, "Invalid", "by the test")
        return b"{}"

    async def list_pages(self, path: str, _: Any) -> AsyncIterator[tuple[list[msgspec.Raw], str]]:
        await self.request("GET", path)
        yield [msgspec.Raw(msgspec.json.encode(SHARING))] if path.endswith("/configs") else [], "1"


@pytest.mark.parametrize(("refused", "reviews"), [("schedulingshards", True), ("configs", False)])
async def test_a_shard_that_is_refused_keeps_no_pod_out(refused: str, reviews: bool) -> None:
    """Webhooks review by kai-config alone. What is not written or read is tried until it is."""
    options = RunOptions(installed=SettingsFolder(settings=(SHARD, SHARING)))
    settings, pages = LiveSettings(options.config, options.shard), Pages(Metrics("kai"), lambda: (False, ""))
    api: Any = Refusing(refused)
    ending = asyncio.Event()
    reading = asyncio.create_task(process._read_settings(options, api, settings, pages, ending))
    await api.refused.wait()
    assert (settings.reviews, settings.admission.gpu_sharing, settings.fixed) == (reviews, reviews, False)
    ending.set()
    assert not await reading


def test_as_many_files_may_be_open_as_the_process_is_allowed() -> None:
    """Sockets are files: connections of others must leave some for those to the API server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        process._set_up_process()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
