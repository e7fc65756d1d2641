"""What is built before the settings are read: the identity of the process, its lease, pages, API client and webhooks.

``kai-sched run`` calls ``run``. What must answer from the first moment on, the pages and the webhooks, is built and
started here; everything else is built by ``app.connect`` once the settings have been read.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import socket
import sys
import time
import uuid
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from kai_sched import __version__
from kai_sched.api import names
from kai_sched.cluster.access_reviews import AccessReviews
from kai_sched.cluster.client import Api
from kai_sched.cluster.lease import LeaderLease
from kai_sched.cluster.login import LoginFailure
from kai_sched.model.config import Config
from kai_sched.model.keys import object_key
from kai_sched.model.read.kinds import OPERATOR_CONFIG
from kai_sched.operator.app import build_intake, connect
from kai_sched.operator.base import Base
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.recorder import CycleRecorder
from kai_sched.operator.http import metrics_page, page_server
from kai_sched.operator.http.listener import ListenFailure
from kai_sched.operator.http.live_page import LivePage
from kai_sched.operator.http.page_server import PageServer
from kai_sched.operator.http.pages import Pages
from kai_sched.operator.http.path_access import PathAccess
from kai_sched.operator.http.snapshot_server import SnapshotServer
from kai_sched.operator.http.webhook_service import WebhookService
from kai_sched.operator.intake.installed_settings import write_settings
from kai_sched.operator.intake.live_settings import LiveSettings, SettingsReader
from kai_sched.operator.lifecycle import on_signals
from kai_sched.operator.options import RunOptions
from kai_sched.telemetry.metrics import Metrics


async def run(options: RunOptions) -> int:
    """Run the operator; return the exit status.

    Raises
    ------
    LoginFailure
        If there is no usable kubeconfig or service account.
    ListenFailure
        If the process cannot listen on an address.
    ExceptionGroup
        If both.
    """
    _set_up_process()
    pod_name = os.environ.get("POD_NAME") or socket.gethostname()
    rng = random.Random()
    metrics = Metrics(options.metrics_namespace, version=__version__)
    recorder = CycleRecorder(Path(options.recordings), time.monotonic, time.time, metrics.count_recording_failure)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, recorder.request, "SIGUSR2")

    def connect_lease() -> Awaitable[Api]:
        return Api.connect(options.kubeconfig, options.context, 2, options.server)

    lease = LeaderLease(connect_lease, options.namespace, f"{pod_name}_{uuid.uuid4()}", rng=rng)
    pages = Pages(metrics, lambda: (lease.held(), lease.holder), options.authenticated_metrics)
    try:
        await pages.listen(options.listen_address)
    except ListenFailure as failure:
        await _check_login(options, failure)
        raise
    api = await Api.connect(
        options.kubeconfig,
        options.context,
        options.connections,
        options.server,
        guard=lease,
        on_failure=pages.metrics.count_failure,
    )
    pages.metrics_page.access = PathAccess(AccessReviews(api), metrics_page.PATH, time.monotonic)
    watch = asyncio.create_task(pages.watch(), name="readiness")
    try:
        settings = LiveSettings(options.config, options.shard)
        webhooks = WebhookService(options, api, settings, pages)
        await webhooks.start()
        ending = asyncio.Event()
        on_signals(ending)
        if not await _read_settings(options, api, settings, pages, ending):
            await _leave(webhooks, pages)
            return 0
        own_pod = object_key(options.namespace, pod_name)
        clock = Clock()
        live = LivePage(bool(options.page_address), settings.config.scheduler_name, clock)
        base = Base(options, settings, api, lease, pages, webhooks, live, own_pod, recorder, clock, rng, ending)
        return await _schedule(base)
    finally:
        watch.cancel()
        await pages.stop()
        await api.close()


def _set_up_process() -> None:
    """Threads share an interpreter: a request must not wait long for the thread that decides. And as many files as may
    be are open: connections of others must not leave too few for those to the API server."""
    sys.setswitchinterval(0.002)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # not every system takes what it said
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _schedule(base: Base) -> int:
    """Run all parts; return the exit status."""

    def pods() -> int | None:
        kept = base.recorder.kept
        return len(kept[-1].inputs.cluster.pods) if kept else None

    def config() -> Config:
        """What a snapshot is decided with: it is of one shard."""
        shards = base.settings.shards
        return shards.get(base.options.shard or names.DEFAULT_SHARD) or next(iter(shards.values()))

    snapshots = SnapshotServer(base.api, config, pods, base.clock.wall_ns)
    page = PageServer(PathAccess(AccessReviews(base.api), page_server.PATH, base.clock.monotonic), base.live_page)
    try:
        await snapshots.listen(base.options.plugin_server_port)
        await page.listen(base.options.page_address)
        return await connect(base, build_intake(base)).run()
    finally:
        await page.stop()
        await snapshots.stop()


async def _check_login(options: RunOptions, failure: ListenFailure) -> None:
    """A port that is taken must not hide that there is no usable login. Raises ExceptionGroup."""
    try:
        api = await Api.connect(options.kubeconfig, options.context, 1, options.server)
    except LoginFailure as error:
        raise ExceptionGroup("the process cannot start", [error, failure]) from None
    await api.close()


async def _read_settings(
    options: RunOptions, api: Api, settings: LiveSettings, pages: Pages, ending: asyncio.Event
) -> bool:
    """Write those of the folder, then read all. Return False if ``ending`` was set before that was done.

    First comes kai-config, as webhooks need nothing else: a shard that the API server refuses must keep no pod out.
    """
    waits, rng = pages.readiness.scheduling, random.Random()
    reader = SettingsReader(api, settings, waits, rng)
    given = options.installed.settings
    first = [each for each in given if each["kind"] == OPERATOR_CONFIG[1]]
    others = [each for each in given if each not in first]

    async def write_and_read() -> None:
        await write_settings(api, first, waits, rng)
        await reader.read_config()
        await write_settings(api, others, waits, rng)
        await reader.read_shards(options.shard)

    reading = asyncio.create_task(write_and_read())
    signalled = asyncio.create_task(ending.wait())
    await asyncio.wait((reading, signalled), return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if reading.done():
        reading.result()
        return True
    reading.cancel()
    return False


async def _leave(webhooks: WebhookService, pages: Pages) -> None:
    """End a process that has not started to schedule."""
    pages.readiness.stopping = True
    began, hurry = time.monotonic(), asyncio.Event()
    on_signals(hurry)
    await webhooks.stop(began, hurry)
