"""The past usage of queues in a running scheduler (semantics 2.7): sampled from cycles, added up
(``reconcile.past_usage``), and kept in a ConfigMap through restarts; or asked of a Prometheus.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import structlog

from kai_sched.api import core, names
from kai_sched.cluster.client import MERGE, Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import object_path
from kai_sched.cluster.usage_database import UsageFailure, usage_of_queues
from kai_sched.model.config import INTERNAL, PROMETHEUS, Config, UsageSettings, in_pool, sees_queue
from kai_sched.model.hints import Amounts
from kai_sched.model.objects import Node, Queue, UsedShares
from kai_sched.model.store import Cluster
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.loop import Views
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.plan.result import QUEUE_RESOURCES, QueueState
from kai_sched.reconcile.past_usage import QUEUES_MAX, PastUsage, PoolPast, past_of
from kai_sched.telemetry.unexpected import FAULTS

log = structlog.get_logger("usage")

SAMPLE_S = 5.0  # how often what queues hold is looked at
ACCOUNTS_KEY = "accounts"
MISSING = "there is none: create it, or let the chart; without it accounts begin anew with each leader"
# So long the first cycle waits for what was kept; afterwards it is added as soon as it can be read.
WAIT_S = 60.0
RETRY_S = 1.0


class _AccountsMap(core.Wire):
    binary_data: dict[str, str] | None = None


_decode_map = msgspec.json.Decoder(_AccountsMap).decode


@dataclass(frozen=True, slots=True)
class _Sample:
    """What a cycle says: no more of it is kept."""

    queues: Mapping[str, Queue]
    nodes: Mapping[str, Node]
    states: tuple[QueueState, ...]
    config: Config

    def has(self, state: QueueState) -> bool:
        """Whether the queue is one of the pool."""
        queue = self.queues.get(state.name)
        return queue is None or sees_queue(queue.labels, self.config)


class UsageAccounts:
    """Those of one pool, or of all together (``Accounts``). For one event loop.

    Parameters
    ----------
    api
        The client; writes are guarded by the lease.
    place
        Namespace and name of the ConfigMap.
    config
        Returns the settings in force.
    ready
        Called when what was kept is known: its shards may be decided from now on.
    request
        Asks for a cycle, as what counts has changed.
    clock
        The time.
    queried
        Gets the seconds that a database took to answer.
    """

    def __init__(
        self,
        api: Api,
        place: tuple[str, str],
        config: Callable[[], Config],
        ready: Callable[[], None],
        request: Callable[[], None],
        clock: Clock,
        queried: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._queried = queried
        self._path = object_path("v1", "configmaps", *place)
        self._config = config
        self._ready = ready
        self._request = request
        self._clock = clock
        self._settings = UsageSettings()  # those that the accounts are kept by
        self._accounts: PastUsage | None = None  # None while the past does not count
        self._usage: Mapping[str, UsedShares] = {}
        self._newest: _Sample | None = None
        self._is_ready = False
        self._is_restored = False
        self._problem = ""
        self._fetched_at = clock.monotonic()
        self._lock = asyncio.Lock()  # what is written down in a thread does not change meanwhile

    def is_ready(self, shard: Config) -> bool:
        """Whether what earlier leaders kept is known, as far as it counts for the shard with these settings."""
        return self._is_ready or not shard.usage.source

    @property
    def past(self) -> PoolPast:
        """What counts now."""
        return PoolPast(self._config(), self._usage)

    def applied(self, cluster: Cluster) -> Cluster:
        """The view in which queues have their past."""
        return with_past(cluster, [self.past])

    def after(self, report: Callable[[DecidedCycle], None]) -> Callable[[DecidedCycle], None]:
        """Return what reports a cycle as ``report`` does, and then notes what queues hold."""

        def both(cycle: DecidedCycle) -> None:
            report(cycle)
            self.note(cycle)

        return both

    def note(self, cycle: DecidedCycle) -> None:
        """Note what queues hold after a cycle of this shard, or of all shards."""
        config, cluster = self._config(), cycle.cluster
        if config.usage.source:
            self._newest = _Sample(cluster.queues, cluster.nodes, cycle.result.queues, config)

    async def run(self) -> None:
        """Keep accounts, until cancelled."""
        await self.load()
        shown_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(min(SAMPLE_S, self._config().usage.interval_s))
            try:
                await self.sample()
                if self._clock.monotonic() - shown_at >= self._settings.interval_s:
                    shown_at = self._clock.monotonic()
                    await (self.fetch() if self._asks() else self.save())
            except Exception as error:
                FAULTS.note("usage", "accounts", error)

    async def load(self) -> None:
        """Begin with what an earlier leader wrote down, or with what the database says; after a while without it."""
        self._begin(self._config().usage)
        ends = self._clock.monotonic() + (self._settings.database.wait_s if self._asks() else WAIT_S)
        while not await self._knows():
            if self._clock.monotonic() >= ends:
                break
            await asyncio.sleep(RETRY_S)
        self._show()
        self._is_ready = True
        self._ready()

    async def _knows(self) -> bool:
        if self._asks():
            return await self.fetch()
        return self._accounts is None or await self._restore(self._accounts)

    async def fetch(self) -> bool:
        """Ask the database; whether it answered. What it said before goes on to count otherwise."""
        settings, began = self._settings, self._clock.monotonic()
        try:
            usage = await usage_of_queues(settings, self._now_s())
        except UsageFailure as failure:
            age_s = self._clock.monotonic() - self._fetched_at
            if self._problem != str(failure) or age_s > settings.database.stale_s:
                log.warning("usage.not_fetched", problem=str(failure), age_s=round(age_s))
            self._problem = str(failure)
            return False
        self._problem, self._fetched_at = "", self._clock.monotonic()
        self._queried(self._fetched_at - began)
        self._count(usage)
        await self._write({})
        return True

    async def save(self) -> None:
        """Write down what is known. A failure is logged, and the next time is soon."""
        async with self._lock:
            await self._save()

    async def _save(self) -> None:
        accounts = self._accounts
        if accounts is None or not self._is_ready or not await self._restore(accounts):
            return
        self._show()
        kept = await asyncio.to_thread(accounts.encode, self._known())
        await self._write({"binaryData": {ACCOUNTS_KEY: base64.b64encode(kept).decode()}})

    async def _write(self, body: Mapping[str, object]) -> None:
        """Write that, and what counts: who decides on the cluster offline reads it there."""
        # A ConfigMap holds no more than 1 MiB.
        most = sorted(self._usage.items(), key=lambda each: (-sum(each[1]), each[0]))[:QUEUES_MAX]
        usage = {
            queue: dict(zip(QUEUE_RESOURCES, (round(part, 6) for part in shares), strict=True))
            for queue, shares in sorted(most)
        }
        body = {"data": {names.PAST_USAGE_KEY: msgspec.json.encode(usage).decode()}, **body}
        try:
            await self._api.request("PATCH", self._path, body=msgspec.json.encode(body), content_type=MERGE)
        except ApiFailure as failure:
            self._warn(MISSING if failure.status == 404 else str(failure))
        else:
            self._warn("")

    async def _restore(self, accounts: PastUsage) -> bool:
        """Add what an earlier leader wrote down, once; whether that is done, or there is nothing."""
        if self._is_restored:
            return True
        try:
            raw = await self._api.request("GET", self._path)
            kept = (read(_decode_map, raw, self._path, "the accounts").binary_data or {}).get(ACCOUNTS_KEY, "")
            if kept:
                accounts.restore(base64.b64decode(kept, validate=True), self._now_s())
        except ApiFailure as failure:
            self._warn(MISSING if failure.status == 404 else str(failure))
            self._is_restored = failure.status == 404
        except (ValueError, binascii.Error) as error:
            self._warn(f"{error}: they begin anew")
            self._is_restored = True
        else:
            self._is_restored = True
        return self._is_restored

    def _begin(self, settings: UsageSettings) -> None:
        before, self._settings = self._accounts, settings
        if settings.source != INTERNAL:
            self._accounts, self._usage, self._is_restored = None, {}, False
            return
        self._accounts = PastUsage(settings.window_s, settings.half_life_s)
        self._forget(self._accounts)
        if before is not None:
            self._accounts.restore(before.encode(self._known()), self._now_s())

    async def sample(self) -> None:
        """Note what queues hold now."""
        async with self._lock:
            await self._sample()

    async def _sample(self) -> None:
        settings = self._config().usage
        if settings != self._settings:
            self._begin(settings)
            await (self.fetch() if self._asks() else self._save())
            self._request()
        newest = self._newest
        if self._accounts is None or newest is None:
            return
        held = {state.name: state.allocated for state in newest.states if any(state.allocated) and newest.has(state)}
        capacity = await asyncio.to_thread(_capacity, newest.nodes, newest.config)
        self._accounts.hold(self._now_s(), held, capacity)
        self._forget(self._accounts)

    def _forget(self, accounts: PastUsage) -> None:
        """Drop what was before a window began in which nothing of that counts."""
        now_s = self._now_s()
        if self._settings.starts_anew:
            accounts.forget(self._settings.since_s(now_s), now_s)

    def _show(self) -> None:
        """Have the next cycles count what is known now."""
        if self._accounts is None:
            return
        now_s = self._now_s()
        self._accounts.advance(now_s)
        self._count(self._accounts.usage(now_s, self._settings.since_s(now_s)))

    def _count(self, usage: Mapping[str, UsedShares]) -> None:
        if usage != self._usage:
            self._usage = usage
            self._request()

    def _asks(self) -> bool:
        """Whether it is a database that has the accounts."""
        return self._settings.source == PROMETHEUS

    def _known(self) -> Iterable[str]:
        """The queues whose accounts are kept."""
        return self._newest.queues if self._newest else self._usage

    def _now_s(self) -> float:
        return self._clock.wall_ns() / 1e9

    def _warn(self, problem: str) -> None:
        """Log what is wrong, once."""
        if problem and problem != self._problem:
            log.warning("usage.not_kept", config_map=str(self._path), problem=problem)
        self._problem = problem


def with_past(cluster: Cluster, pasts: Sequence[PoolPast]) -> Cluster:
    """The view in which queues have this past, each that of the pool that it is in."""
    if not any(past.usage for past in pasts):
        return cluster
    queues = {name: replace(queue, usage=past_of(queue, pasts)) for name, queue in cluster.queues.items()}
    return replace(cluster, queues=queues)


class Accounts(Protocol):
    """What the process asks of its accounts: ``UsageAccounts`` of one shard, or ``ShardAccounts`` of several."""

    def is_ready(self, shard: Config) -> bool:
        """Whether what earlier leaders kept is known, as far as it counts for the shard with these settings."""

    def applied(self, cluster: Cluster) -> Cluster:
        """The view in which queues have their past."""

    def after(self, report: Callable[[DecidedCycle], None]) -> Callable[[DecidedCycle], None]:
        """Return what reports a cycle as ``report`` does, and then notes what queues hold."""

    async def run(self) -> None:
        """Keep accounts, until cancelled."""

    async def save(self) -> None:
        """Write down what is known."""


class PastViews:
    """The views of the cluster in which queues have their past."""

    def __init__(self, views: Views, accounts: Accounts) -> None:
        self._views = views
        self._accounts = accounts
        self.ask = views.ask

    def cluster(self) -> Cluster:
        """The cluster now."""
        return self._accounts.applied(self._views.cluster())


def _capacity(nodes: Mapping[str, Node], config: Config) -> Amounts:
    """What the nodes of the pool have."""
    cpu = memory = gpus = 0.0
    for node in nodes.values():
        if in_pool(node.labels, config):
            cpu += node.allocatable.get("cpu", 0.0)
            memory += node.allocatable.get("memory", 0.0)
            gpus += node.allocatable.get("gpu", 0.0)
    return cpu, memory, gpus
