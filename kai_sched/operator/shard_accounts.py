"""The past usage of queues where one process decides for several shards: accounts for each node pool whose past
counts, or, where shares are those of the cluster, one for all of them.

Pools come and go while the process runs, and so do their accounts. Each has a ConfigMap of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kai_sched.model.config import CLUSTER, Config
from kai_sched.model.store import Cluster
from kai_sched.operator.cycle.shard import ShardSettings
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.usage_accounts import UsageAccounts, with_past
from kai_sched.telemetry.unexpected import FAULTS

FOLLOW_S = 1.0  # how often new shards are looked for

# Makes the accounts of a pool. The function returns the settings in force.
MakeAccounts = Callable[[Callable[[], Config]], UsageAccounts]


class ShardAccounts:
    """Those of all pools of the process (``usage_accounts.Accounts``). For one event loop.

    Parameters
    ----------
    settings
        The settings in force.
    make
        Makes the accounts of one pool.
    """

    def __init__(self, settings: ShardSettings, make: MakeAccounts) -> None:
        self._settings = settings
        self._make = make
        self._kept: dict[str | None, UsageAccounts] = {}  # by node pool; None: one for all of them
        self._tasks: dict[str | None, asyncio.Task[None]] = {}
        self._last: dict[str | None, Config] = {}  # the settings of each, also while its shard is gone
        self._without: set[str | None] = set()  # pools whose past did not count at some time while this process leads

    def _wanted(self) -> Mapping[str | None, Config]:
        """The settings of each pool whose past counts."""
        whole = self._settings.config
        configs = (whole,) if whole.fair_share == CLUSTER else self._settings.shards.values()
        return {_pool_of(config): config for config in configs if config.usage.source}

    def _current(self) -> Mapping[str | None, UsageAccounts]:
        """The accounts that count now; those of new shards are made."""
        wanted = self._wanted()
        self._last |= wanted
        for pool in wanted:
            if pool not in self._kept:
                self._kept[pool] = self._make(lambda pool=pool: self._last[pool])  # type: ignore[misc]
        return {pool: self._kept[pool] for pool in wanted}

    def is_ready(self, shard: Config) -> bool:
        """Whether what earlier leaders kept is known, as far as it counts for the shard with these settings.

        One that has been decided without a past does not stop when its past begins to count.
        """
        pool = _pool_of(shard)
        accounts = self._current().get(pool)
        return accounts is None or pool in self._without or accounts.is_ready(shard)

    def applied(self, cluster: Cluster) -> Cluster:
        """The view in which queues have their past, each that of its pool."""
        return with_past(cluster, [each.past for each in self._current().values()])

    def after(self, report: Callable[[DecidedCycle], None]) -> Callable[[DecidedCycle], None]:
        """Return what reports the cycles of all shards as ``report`` does, and then notes what queues hold."""

        def both(cycle: DecidedCycle) -> None:
            report(cycle)
            for each in self._current().values():
                each.note(cycle)

        return both

    async def run(self) -> None:
        """Keep accounts, until cancelled."""
        try:
            while True:
                await self._follow()
                await asyncio.sleep(FOLLOW_S)
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _follow(self) -> None:
        """Begin the accounts of new shards, and end those of shards that are gone or whose past ceased to count."""
        current = self._current()
        served = {_pool_of(config) for config in self._settings.shards.values()}
        self._without = (self._without & served) | (served - current.keys())
        for pool, accounts in current.items():
            if pool not in self._tasks or self._tasks[pool].done():
                self._tasks[pool] = asyncio.create_task(accounts.run(), name=f"usage of {pool}")
        for pool in self._kept.keys() - current.keys():
            if (task := self._tasks.pop(pool, None)) is not None:
                task.cancel()
            try:
                await self._kept[pool].save()
            except Exception as error:
                FAULTS.note("usage", f"node pool {pool}", error)
            del self._kept[pool]

    async def save(self) -> None:
        """Write down what is known."""
        for each in self._current().values():
            await each.save()


def _pool_of(shard: Config) -> str | None:
    """Whose accounts count for a shard with these settings."""
    return None if shard.fair_share == CLUSTER else shard.node_pool
