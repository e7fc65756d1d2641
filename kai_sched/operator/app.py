"""The operator: what it is made of, how it starts, when it is ready, how it ends. Kopf is the frame."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import string
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any

import kopf
import structlog

from kai_sched import __version__
from kai_sched.api import names
from kai_sched.cluster.binding import Binder, BindFailure
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.lease import LeaderLease
from kai_sched.cluster.reflector import Reflector, Source
from kai_sched.cluster.volumes import VolumeBinding
from kai_sched.cluster.writing import Writer
from kai_sched.model.objects import Pod
from kai_sched.model.read import BIND_REQUEST, OPERATOR_CONFIG, POD, QUEUE, SHARD, VOLUME
from kai_sched.model.store import Store
from kai_sched.operator import certificate, probes, webhooks
from kai_sched.operator.defaults import create_default_queues
from kai_sched.operator.feed import Feed
from kai_sched.operator.handlers import kopf_settings, make_registry
from kai_sched.operator.listen import Listener, listen
from kai_sched.operator.lists import OwnLists
from kai_sched.operator.loop import Clock, Decided, Loop
from kai_sched.operator.observing import Observing
from kai_sched.operator.options import Options
from kai_sched.operator.settings import Settings
from kai_sched.plan.effects import Bind, Evict, Pipeline, Ref, Write
from kai_sched.reconcile import events
from kai_sched.reconcile.admission import review
from kai_sched.reconcile.keeper import StatusKeeper
from kai_sched.solver.warmup import compile_all
from kai_sched.telemetry.metrics import CycleTimes, Metrics

log = structlog.get_logger("operator")

SOURCES = (
    Source(("v1", "Node"), "/api/v1/nodes"),
    Source(("v1", "Namespace"), "/api/v1/namespaces"),
    Source(("scheduling.k8s.io/v1", "PriorityClass"), "/apis/scheduling.k8s.io/v1/priorityclasses"),
    Source(("storage.k8s.io/v1", "StorageClass"), "/apis/storage.k8s.io/v1/storageclasses"),
    Source(VOLUME, "/api/v1/persistentvolumes"),
    Source(("v1", "PersistentVolumeClaim"), "/api/v1/persistentvolumeclaims"),
    Source(("v1", "ConfigMap"), "/api/v1/configmaps", metadata_only=True),
    Source(BIND_REQUEST, f"/apis/{BIND_REQUEST[0]}/bindrequests", optional=True),
    Source(POD, "/api/v1/pods"),
)
DEFAULTS = "default queues"  # the only part that ends by itself
STATUS_PERIOD_S = 1.0
DRAIN_S = 5.0
STUCK_S = 300.0


class Operator:
    """One process. ``run`` returns the exit status; ``start`` and ``stop`` are called by kopf."""

    def __init__(
        self, options: Options, api: Api, settings: Settings, clock: Clock, chance: random.Random, identity: str
    ) -> None:
        self._options = options
        self._api = api
        self._clock = clock
        self._chance = chance
        config = settings.config
        self._settings = settings
        self._store = Store()
        self._keeper = StatusKeeper(config)
        self._feed = Feed(self._store, config, self._changed, Observing(config, self._settings, self._keeper))
        self._lists = OwnLists(api, self._feed, chance)
        self._reflectors = [Reflector(api, source, self._feed, chance) for source in SOURCES]
        self._lease = LeaderLease(
            lambda: Api.connect(options.kubeconfig, options.context, 2, options.server),
            options.namespace,
            options.lease_name(config),
            identity,
            random=chance,
        )
        api.guard = self._lease.held
        self._loop = Loop(
            self._store,
            self._feed.overlay,
            lambda: self._settings.config,
            self._lease.held,
            self._acted,
            self._bind_failed,
            clock,
        )
        self._binder = Binder(api, self._loop.check, self._bound, self._loop.failed, chance, options.connections)
        self._volumes = VolumeBinding(api, self._store, self._binder.submit, self._loop.failed, self._version_of_volume)
        self._loop.send = self._volumes.submit
        self._writer = Writer(
            api,
            config.scheduler_name,
            lambda: self._binder.pending > 0,
            lambda: clock.wall_ns() / 1e9,
            self._version_of_waiting,
            self._write_failed,
            chance,
        )
        self._metrics = Metrics(options.metrics_namespace)
        self._webhooks = webhooks.WebhookServer(
            lambda path, body: review(path, body, self._settings.admission, _suffix(chance))
        )
        self._certificate = certificate.Keeper(api, options.namespace, lambda: datetime.now(UTC), self._webhooks.use)
        self._probes: Listener | None = None
        self._compiled = False
        self._decided: Decided | None = None
        self._status_at = 0.0
        self._status_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._known = asyncio.Event()  # everything has been listed once
        self._stop = asyncio.Event()
        self._stopping = False
        self._failure = ""

    async def run(self) -> int:
        """Until a signal, 0, or until going on makes no sense, 1. Raises OSError where an address cannot be had."""
        pages = probes.application({"cycle": self._stuck, "lease": self._dead}, self._checks(), self._metrics.render)
        try:
            if self._options.listen_address:
                self._probes = await listen(pages, self._options.listen_address)
            if self._options.webhook_address:
                await self._webhooks.start(self._options.webhook_address)
        except OSError:
            await self._close()
            raise
        registry = make_registry(self._feed, self._api, self.start, self.stop)
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(),
            standalone=True,
            clusterwide=True,
            stop_flag=self._stop,
        )
        return 1 if self._failure else 0

    async def start(self) -> None:
        """Everything that runs, from here on, beside kopf."""
        options = self._options
        log.info(
            "operator.started",
            version=__version__,
            scheduler=self._settings.config.scheduler_name,
            lease=self._options.lease_name(self._settings.config),
            identity=self._lease.identity,
            server=self._api.credentials().server,
            port=self._probes.port if self._probes else 0,
        )
        self._lease.start()
        self._go(self._lists.run(), "lists")
        for reflector, source in zip(self._reflectors, SOURCES, strict=True):
            self._go(reflector.run(), source.path)
        self._go(self._binder.run(), "binder")
        self._go(self._writer.run(), "writer")
        self._go(self._schedule(), "schedule")
        self._go(self._lead(), "lead")
        if options.webhook_address:
            self._go(self._certificate.run(), "certificate")

    async def stop(self) -> None:
        """Finish what is under way, let another lead, and leave."""
        self._stopping = True
        for task in self._tasks:
            if task.get_name() in ("schedule", "lists"):
                task.cancel()
        try:
            async with asyncio.timeout(DRAIN_S):
                if self._lease.held():
                    await self._binder.drained()
                    await self._writer.drained()
        except TimeoutError:
            log.warning("operator.unfinished", binds=self._binder.pending, writes=self._writer.pending)
        await self._volumes.stop()
        await self._lease.release()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close()
        log.info("operator.stopped", failure=self._failure)

    async def _close(self) -> None:
        for listener in (self._probes, self._webhooks):
            if listener is not None:
                await listener.stop()
        await self._api.close()

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
        self._loop.wake()
        await self._loop.run()

    async def _lead(self) -> None:
        """Tell when leadership comes, and leave when it goes: what was decided under it must not be sent later."""
        await self._lease.wait_held()
        log.info("lease.held")
        self._loop.lead()
        await self._known.wait()
        if self._options.default_queues and not self._feed.known(QUEUE):
            self._go(create_default_queues(self._api), DEFAULTS)
        await self._lease.wait_lost()
        if not self._stopping:
            log.error("lease.lost", holder=self._lease.holder)
            self._give_up("the lease was lost")

    def _changed(self, matters: bool) -> None:
        self._loop.wake(matters)
        self._volumes.wake()
        if not self._known.is_set() and self._synced():
            self._known.set()

    def _acted(self, decided: Decided) -> None:
        """A cycle was carried out: write what people see, at most once a second."""
        self._decided = decided
        counts = _counts(decided)
        log.info(
            "cycle.done",
            ms=round(decided.seconds * 1000, 1),
            solver_ms=round(decided.result.solver_s * 1000, 2),
            pods=len(decided.cluster.pods),
            nodes=len(decided.cluster.nodes),
            **counts,
        )
        self._metrics.observe_cycle(
            decided.cluster,
            decided.result,
            CycleTimes(
                whole_s=decided.seconds,
                open_s=decided.seconds - decided.result.solver_s,
                actions_s={"allocate": decided.result.solver_s},
                close_s=0.0,
            ),
        )
        self._plan_status(self._status_at + STATUS_PERIOD_S - self._clock.monotonic())

    def _plan_status(self, delay_s: float) -> None:
        if self._status_timer is not None:
            self._status_timer.cancel()
        self._status_timer = asyncio.get_running_loop().call_later(max(0.0, delay_s), self._write_status)

    def _write_status(self) -> None:
        self._status_timer = None
        if self._decided is None or not self._lease.held() or self._stopping:
            return
        self._status_at = self._clock.monotonic()
        writes, again_s = self._keeper.writes(
            self._decided.cluster, self._decided.result, self._clock.wall_ns(), round(self._status_at * 1e9)
        )
        self._writer.submit(writes)
        if again_s is not None:
            self._plan_status(max(again_s, STATUS_PERIOD_S))

    def _bound(self, bind: Bind, seconds: float) -> None:
        self._loop.bound(bind)
        pod = self._store.get(Pod, bind.pod)
        if isinstance(pod, Pod):
            created_s = self._clock.wall_ns() / 1e9 - pod.created_ns / 1e9
            self._metrics.observe_binding(created_s - seconds, seconds)
        ref = pod_ref(bind)
        pool = self._settings.config.node_pool
        self._writer.submit((events.scheduled(ref, bind.node, pool), events.bound(ref, bind.node)))

    def _bind_failed(self, bind: Bind, failure: BindFailure, again: float | None) -> None:
        log.warning("bind.failed", pod=bind.pod, node=bind.node, reason=failure.reason, message=failure.message)
        if again is not None and failure.status != 404:
            wait_s = max(0.0, again - self._clock.monotonic())
            text = f"{failure.message}; tried again in {wait_s:.0f} s"
            self._writer.submit(events.failed_binding(pod_ref(bind), bind.node, text))

    def _write_failed(self, write: Write, failure: ApiFailure | None) -> None:
        if failure is None or failure.status not in (404, 409):
            what = type(write).__name__
            log.warning("write.failed", what=what, object=write.ref.key, problem=str(failure or "too many wait"))

    def _version_of_waiting(self, ref: Ref) -> str:
        pod = self._store.get(Pod, ref.key)
        if not isinstance(pod, Pod) or pod.uid != ref.uid or pod.node or pod.deleted_ns:
            return ""
        return str(self._feed.known(POD).get(ref.key, ""))

    def _version_of_volume(self, name: str) -> str:
        return str(self._feed.known(VOLUME).get(name, ""))

    def _synced(self) -> bool:
        return self._lists.synced and all(source.kind in self._feed.listed for source in SOURCES)

    def _stuck(self) -> str:
        since = self._loop.busy_since
        lasted_s = 0.0 if since is None else self._clock.monotonic() - since
        return f"a cycle has been running for {lasted_s:.0f} s" if lasted_s > STUCK_S else ""

    def _dead(self) -> str:
        return "the thread that renews the lease has ended" if self._lease.ended and not self._stopping else ""

    def _checks(self) -> dict[str, Callable[[], str]]:
        checks: dict[str, Callable[[], str]] = {
            "kernels": lambda: "" if self._compiled else "the solver is being compiled",
            "own kinds": lambda: "; ".join(filter(None, self._lists.state.values())),
            "lease": lambda: self._lease.failure or "",
            "requests": self._api.refusals,
        }
        for reflector, source in zip(self._reflectors, SOURCES, strict=True):
            name = source.path.rpartition("/")[2]
            checks[name] = partial(_unsynced, reflector)
        if self._options.webhook_address:
            checks["webhooks"] = self._webhooks.problem
            checks["certificate"] = self._certificate.problem
        return checks


def _unsynced(reflector: Reflector) -> str:
    return "" if reflector.synced else reflector.state


def _suffix(chance: random.Random) -> str:
    return "".join(chance.choices(string.ascii_lowercase + string.digits, k=7))


def pod_ref(bind: Bind) -> Ref:
    """The pod that is bound."""
    namespace, name = bind.pod.split("/", 1)
    return Ref("v1", "Pod", namespace, name, bind.uid)


def _counts(decided: Decided) -> dict[str, int]:
    kinds = Counter(type(effect) for effect in decided.result.effects)
    return {"bound": kinds[Bind], "pipelined": kinds[Pipeline], "evicted": kinds[Evict]}


async def read_settings(api: Api, settings: Settings, shard: str, chance: random.Random) -> None:
    """What the cluster says of the settings: all else is read by them. Waits until the API server answers."""
    wanted = ((OPERATOR_CONFIG, f"configs/{names.CONFIG_NAME}"), (SHARD, f"schedulingshards/{shard}"))
    for kind, name in wanted:
        delay_s = 0.2
        while True:
            try:
                raw: bytes | None = await api.request("GET", f"/apis/{kind[0]}/{name}")
            except ApiFailure as failure:
                if failure.status != 404:
                    log.warning("settings.unknown", object=name, problem=str(failure))
                    await asyncio.sleep(delay_s * chance.uniform(0.5, 1.0))
                    delay_s = min(10.0, 2.0 * delay_s)
                    continue
                raw = None
            settings.observe(kind, name.rpartition("/")[2], raw)
            break
    settings.fixed = True


async def run(options: Options) -> int:
    """Run the operator; returns the exit status. Raises LoginFailure where there is no way to the API server."""
    api = await Api.connect(options.kubeconfig, options.context, options.connections, options.server)
    identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"
    # Long pauses of the collector would delay everything; what lives here lives long.
    sys.setswitchinterval(0.002)
    settings = Settings(options.config, options.shard)
    chance = random.Random()
    await read_settings(api, settings, options.shard, chance)
    return await Operator(options, api, settings, Clock(), chance, identity).run()
