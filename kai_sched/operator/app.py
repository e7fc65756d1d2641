"""The operator: what it is made of, how it starts, when it is ready, how it ends. Kopf is the frame."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import kopf
import structlog

from kai_sched import __version__
from kai_sched.api import names
from kai_sched.cluster.binding import Binder
from kai_sched.cluster.client import Api
from kai_sched.cluster.evicting import Evicter
from kai_sched.cluster.lease import LeaderLease
from kai_sched.cluster.reflector import Reflector
from kai_sched.cluster.volumes import VolumeBinding
from kai_sched.model.read import POD, QUEUE, VOLUME
from kai_sched.model.store import Store
from kai_sched.operator.admission import Admission
from kai_sched.operator.certificate import remedied
from kai_sched.operator.defaults import create_default_queues
from kai_sched.operator.evictions import Evictions
from kai_sched.operator.feed import Feed
from kai_sched.operator.garbage import Calm
from kai_sched.operator.grouper import Grouper
from kai_sched.operator.handlers import kopf_settings, make_registry
from kai_sched.operator.loop import Clock, Decided, Loop
from kai_sched.operator.news import News
from kai_sched.operator.observing import Observing
from kai_sched.operator.options import Options
from kai_sched.operator.probes import Pages
from kai_sched.operator.settings import Settings, read_settings
from kai_sched.operator.sources import SOURCES
from kai_sched.operator.telling import Telling
from kai_sched.operator.troubles import Troubles
from kai_sched.plan.effects import Bind
from kai_sched.plan.receipts import notice
from kai_sched.solver.warmup import compile_all
from kai_sched.telemetry.loop_time import LoopTimes, MeasuredLoop
from kai_sched.telemetry.metrics import Metrics

log = structlog.get_logger("operator")

DEFAULTS = "default queues"  # the only part that ends by itself
DRAIN_S = 5.0
RELEASE_S = 5.0
STANDBY_S = 3.0  # who has not got the lease by then says who has
STUCK_S = 300.0


class Operator:
    """One process. ``run`` returns the exit status; ``start`` and ``stop`` are called by kopf."""

    def __init__(
        self,
        options: Options,
        api: Api,
        settings: Settings,
        admission: Admission,
        pages: Pages,
        clock: Clock,
        chance: random.Random,
        identity: str,
        stop: asyncio.Event,
    ) -> None:
        """``stop`` ends it. What signals do is kopf's business once it runs."""
        self._options = options
        self._api = api
        self._clock = clock
        config = settings.config
        self._settings = settings
        self._store = Store()
        news = News()
        self._feed = Feed(self._store, config, self._changed, Observing(config, self._settings, news))
        self._reflectors = [Reflector(api, source, self._feed, chance) for source in SOURCES]
        self._lease = LeaderLease(
            lambda: Api.connect(options.kubeconfig, options.context, 2, options.server),
            options.namespace,
            options.lease_name(config),
            identity,
            random=chance,
        )
        api.guard, api.guarded_s = self._lease.held, self._lease.guarded_s
        self._telling = Telling(
            api, self._store, self._feed, news, pages.metrics, config, self._busy, self._lease.held, clock, chance
        )
        self._writer = self._telling.writer
        lease = (options.namespace, options.lease_name(config))
        self._troubles = Troubles(pages.metrics, self._writer.submit, self._lease.held, lease, clock.monotonic)
        self._loop = self._make_loop(clock)
        self._grouper = self._make_grouper(news, chance)
        self._binder = Binder(api, self._loop.check, self._bound, self._loop.failed, chance, api.binds_at_once)
        self._volumes = VolumeBinding(api, self._store, self._binder.submit, self._loop.failed, self._version_of_volume)
        self._loop.send = self._volumes.submit
        self._evicter, self._loop.evict = self._make_evicter(chance)
        self._admission = admission
        self._pages = pages
        self._measure(pages.metrics)
        self._calm = Calm()
        self._calm.start()
        self._compiled = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._known = asyncio.Event()  # everything has been listed once
        self._stop = stop
        self._stopping = False
        self._failure = ""

    def _make_loop(self, clock: Clock) -> Loop:
        config, told = lambda: self._settings.config, self._telling
        act = lambda: self._lease.held() and self._grouper.is_caught_up  # noqa: E731 - made before what it asks
        return Loop(
            self._store, self._feed.overlay, config, act, told.acted, told.failed, clock, troubles=self._troubles
        )

    def _measure(self, metrics: Metrics) -> None:
        """Have the numbers of the parts shown."""
        metrics.watch("binds", lambda: self._binder.pending)
        metrics.watch("evictions", lambda: self._evicter.pending)
        metrics.watch("writes", lambda: self._writer.pending)
        metrics.watch("events", lambda: self._writer.events)
        metrics.watch("looks and writes of pod groups", lambda: self._grouper.pending)
        self._api.told_failure = metrics.count_failure
        for reflector in self._reflectors:
            reflector.restarted = metrics.count_restart
        loop = asyncio.get_running_loop()
        if isinstance(loop, MeasuredLoop):
            metrics.add(LoopTimes(loop, metrics.prefix))

    def _make_grouper(self, news: News, chance: random.Random) -> Grouper:
        return Grouper(
            self._api,
            self._store,
            self._feed,
            lambda: self._settings.config,
            news.owners,
            self._writer.submit,
            lambda: self._binder.pending > 0,
            self._clock,
            chance,
        )

    def _make_evicter(self, chance: random.Random) -> tuple[Evicter, Callable[[Decided], Awaitable[None]]]:
        evictions = Evictions(
            self._store,
            self._feed.overlay,
            lambda chosen: evicter.submit(chosen),
            self._telling.planned,
            self._telling.evicted,
            self._loop.wake,
            self._clock,
        )
        now = lambda: self._clock.wall_ns() / 1e9  # noqa: E731 - the evicter wants seconds
        mark = self._options.mark_evicted
        evicter = Evicter(self._api, evictions.check, evictions.ended, notice, now, chance, mark)
        return evicter, evictions.carry_out

    async def run(self) -> int:
        """Until a signal, 0, or until going on makes no sense, 1."""
        self._pages.alive.update({"cycle": self._stuck, "cycles": self._troubles.problem, "lease": self._dead})
        readiness = self._pages.readiness
        readiness.scheduling.clear()
        readiness.scheduling.update(self._checks())
        readiness.role = lambda: (self._lease.held(), self._lease.holder)
        registry = make_registry(self._feed, self._api, self.start, self.stop)
        try:
            await kopf.operator(
                registry=registry,
                settings=kopf_settings(),
                standalone=True,
                clusterwide=True,
                stop_flag=self._stop,
            )
        except Exception as error:
            # Kopf ends on answers that it does not expect. What it did is done again by the next process.
            log.error("operator.kopf_ended", problem=f"{type(error).__name__}: {error}")
            self._failure = self._failure or str(error)
        return 1 if self._failure else 0

    async def start(self) -> None:
        """Everything that runs, from here on, beside kopf."""
        log.info(
            "operator.started",
            version=__version__,
            scheduler=self._settings.config.scheduler_name,
            lease=self._options.lease_name(self._settings.config),
            identity=self._lease.identity,
            server=self._api.credentials().server,
            port=self._pages.port,
        )
        self._lease.start()
        for reflector, source in zip(self._reflectors, SOURCES, strict=True):
            self._go(reflector.run(), source.path)
        self._go(self._binder.run(), "binder")
        self._go(self._evicter.run(), "evicter")
        self._go(self._writer.run(), "writer")
        self._go(self._telling.run(), "telling")
        self._go(self._group(), "grouper")
        self._go(self._schedule(), "schedule")
        self._go(self._lead(), "lead")

    async def stop(self) -> None:
        """Finish what is under way, let another lead, and leave. A second signal ends the waiting for requests."""
        self._stopping = self._pages.readiness.stopping = True
        began, hurry = time.monotonic(), asyncio.Event()
        on_signals(hurry)
        for task in self._tasks:
            if task.get_name() in ("schedule",):
                task.cancel()
        try:
            async with asyncio.timeout(DRAIN_S):
                if self._lease.held():
                    await self._binder.drained()
                    await self._evicter.drained()
                    await self._telling.stop()
                    await self._writer.drained()
        except TimeoutError:
            log.warning("operator.unfinished", binds=self._binder.pending, writes=self._writer.pending)
        await self._telling.stop()
        await self._volumes.stop()
        await self._lease.release(RELEASE_S)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._admission.stop(began, hurry)
        await self._pages.stop()  # kopf would wait for the connections that are open
        self._stop.set()  # and so it would for those who wait for it
        log.info("operator.stopped", failure=self._failure)

    def _go(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or self._stopping or task.get_name() == DEFAULTS:
            return
        error = task.exception()
        log.error("operator.part_ended", part=task.get_name(), exc_info=error)
        self._give_up(f"{task.get_name()} ended: {error}")

    def _give_up(self, why: str) -> None:
        self._failure = self._failure or why
        self._stop.set()

    async def _schedule(self) -> None:
        """Cycles, once everything is known and compiled."""
        await asyncio.to_thread(compile_all)
        self._compiled = True
        await self._known.wait()
        log.info("operator.synced", pods=len(self._feed.known(POD)), queues=len(self._feed.known(QUEUE)))
        self._calm.settle()
        self._loop.wake()
        await self._loop.run()

    async def _lead(self) -> None:
        """Tell when leadership comes, and leave when it goes: what was decided under it must not be sent later."""
        try:
            async with asyncio.timeout(STANDBY_S):
                await self._lease.wait_held()
        except TimeoutError:
            if self._lease.failure:
                log.warning("lease.failed", problem=remedied(self._lease.failure, self._options.namespace))
            else:
                log.info("lease.waits", state=self._lease.state, holder=self._lease.holder)
            await self._lease.wait_held()
        log.info("lease.held", identity=self._lease.identity)
        if self._options.default_queues and not self._settings.config.node_pool:
            self._go(self._make_default_queues(), DEFAULTS)
        await self._lease.wait_lost()
        if not self._stopping:
            log.error("lease.lost", holder=self._lease.holder)
            self._give_up("the lease was lost")

    async def _group(self) -> None:
        """Group pods, once everything is known and the lease is ours; after the first looks cycles act."""
        await self._known.wait()
        await self._lease.wait_held()
        await self._grouper.run(self._loop.lead)

    async def _make_default_queues(self) -> None:
        await self._known.wait()
        if self._lease.created or not set(self._feed.known(QUEUE)) - {names.DEFAULT_PARENT_QUEUE}:
            await create_default_queues(self._api)

    def _busy(self) -> bool:
        return self._binder.pending > 0 or self._grouper.pending > 0

    def _bound(self, bind: Bind, seconds: float) -> None:
        self._loop.bound(bind)
        self._telling.bound(bind, seconds)

    def _changed(self, matters: bool) -> None:
        self._loop.wake(matters)
        self._volumes.wake()
        if not self._known.is_set() and self._synced():
            self._known.set()

    def _version_of_volume(self, name: str) -> str:
        return str(self._feed.known(VOLUME).get(name, ""))

    def _synced(self) -> bool:
        return all(source.kind in self._feed.listed for source in SOURCES)

    def _stuck(self) -> str:
        since = self._loop.busy_since
        lasted_s = 0.0 if since is None else self._clock.monotonic() - since
        return f"a cycle has been running for {lasted_s:.0f} s" if lasted_s > STUCK_S else ""

    def _dead(self) -> str:
        return "the thread that renews the lease has ended" if self._lease.ended and not self._stopping else ""

    def _checks(self) -> dict[str, Callable[[], str]]:
        checks: dict[str, Callable[[], str]] = {
            "kernels": lambda: "" if self._compiled else "the solver is being compiled",
            "lease": lambda: remedied(self._lease.failure or "", self._options.namespace),
            "requests": self._api.refusals,
        }
        for reflector, source in zip(self._reflectors, SOURCES, strict=True):
            name = source.path.rpartition("/")[2]
            checks[name] = partial(_unsynced, reflector)
        if self._options.webhook_address:
            checks["certificate"] = self._admission.certificate_problem
        return checks


def _unsynced(reflector: Reflector) -> str:
    return "" if reflector.synced else reflector.state


def on_signals(event: asyncio.Event) -> None:
    """From now on the signals to end set the event, and do nothing else."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)


async def run(options: Options) -> int:
    """Run the operator; returns the exit status. Raises LoginFailure where there is no way to the API server, OSError
    where an address cannot be had.
    """
    pages = Pages(options.metrics_namespace)
    await pages.listen(options.listen_address)
    api = await Api.connect(options.kubeconfig, options.context, options.connections, options.server)
    watch = asyncio.create_task(pages.watch(), name="readiness")
    try:
        # The threads share an interpreter: a request must not wait long for the one that decides.
        sys.setswitchinterval(0.002)
        settings = Settings(options.config, options.shard)
        admission = Admission(options, api, settings)
        if options.webhook_address:
            pages.readiness.webhooks["webhooks"] = admission.problem
        await admission.start()
        stop = asyncio.Event()
        on_signals(stop)
        if not await _set_up(options, api, settings, admission, pages, stop):
            return 0
        identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"
        operator = Operator(options, api, settings, admission, pages, Clock(), random.Random(), identity, stop)
        return await operator.run()
    finally:
        watch.cancel()
        await pages.stop()
        await api.close()


async def _set_up(
    options: Options, api: Api, settings: Settings, admission: Admission, pages: Pages, stop: asyncio.Event
) -> bool:
    """Read the settings. False where ``stop`` came before that was done, and the webhooks have been closed."""
    reading = asyncio.create_task(
        read_settings(api, settings, options.shard, pages.readiness.scheduling, random.Random())
    )
    signalled = asyncio.create_task(stop.wait())
    await asyncio.wait((reading, signalled), return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if reading.done():
        reading.result()
        return True
    reading.cancel()
    pages.readiness.stopping = True
    began, hurry = time.monotonic(), asyncio.Event()
    on_signals(hurry)
    await admission.stop(began, hurry)
    return False
