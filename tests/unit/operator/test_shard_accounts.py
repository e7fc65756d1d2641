"""The accounts of what queues used, of each shard of a process or of all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kai_sched.answers.trial import decide_unasked
from kai_sched.cycle.shards import AllShards
from kai_sched.model.config import CLUSTER, Config, past_usage_map
from kai_sched.operator import app, shard_accounts
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.options import RunOptions
from kai_sched.operator.shard_accounts import ShardAccounts
from kai_sched.operator.usage_accounts import UsageAccounts
from tests.scenarios.table import cluster_of
from tests.unit.operator.cycle.test_loop import until
from tests.unit.operator.test_usage_accounts import DAY, KEPT, World
from tests.unit.operator.worlds import OneShard

LABEL = Config().node_pool_label
A, B = replace(KEPT, node_pool="a"), replace(KEPT, node_pool="b")
TWO_POOLS = f"""
node m gpu=8 labels={LABEL}:a
node n gpu=4 labels={LABEL}:b
queue qa labels={LABEL}:a
queue qb labels={LABEL}:b
group ga queue=qa min=1 labels={LABEL}:a
group gb queue=qb min=1 labels={LABEL}:b
pod ga-0..3 gpu=1 on=m
pod gb-0..2 gpu=1 on=n
"""


class Accounts:
    """Accounts of two shards, over an API server with one ConfigMap for all of them."""

    def __init__(self, fair_share: str) -> None:
        self.world = World(cluster=cluster_of(TWO_POOLS))
        self.settings = OneShard()
        self.configs = [replace(config, fair_share=fair_share) for config in (A, B)]
        self.settings.shards = {config.node_pool: config for config in self.configs}
        self.settings.config = replace(self.configs[0], node_pool="", node_pools=("a", "b"))
        self.made: list[Callable[[], Config]] = []
        self.accounts = ShardAccounts(self.settings, self._make)

    def _make(self, config: Callable[[], Config]) -> UsageAccounts:
        self.made.append(config)
        found = self.world.accounts()
        found._config = config
        return found

    def cycle(self) -> None:
        cluster, now_ns = self.world.cluster, int(self.world.now_s * 1e9)
        result = AllShards(self.configs, decide_unasked).begin().decide(cluster, now_ns)
        reported: list[DecidedCycle] = []
        self.accounts.after(reported.append)(DecidedCycle(cluster, result, 0.0, self.settings.config))
        assert len(reported) == 1

    def ready(self) -> list[str]:
        """The shards that may be decided."""
        return [name for name, config in self.settings.shards.items() if self.accounts.is_ready(config)]

    async def hold_for_a_day(self) -> dict[str, float]:
        """What counts then of GPUs, by queue."""
        self.cycle()
        for each in self.accounts._current().values():
            await each.load()
            await each.sample()
        self.world.now_s += DAY
        for each in self.accounts._current().values():
            await each.sample()
            each._show()
        return {name: queue.usage.gpu for name, queue in self.accounts.applied(self.world.cluster).queues.items()}


async def test_each_pool_counts_by_itself() -> None:
    """4 of the 8 GPUs of pool a, and 3 of the 4 of pool b."""
    accounts = Accounts("pool")
    assert accounts.ready() == []
    assert await accounts.hold_for_a_day() == {"qa": 0.5, "qb": 0.75}
    assert [config().node_pool for config in accounts.made] == ["a", "b"]
    assert accounts.ready() == ["a", "b"]


async def test_a_queue_that_changed_pools_begins_anew() -> None:
    """Its share of the other pool says nothing of this one."""
    accounts = Accounts("pool")
    await accounts.hold_for_a_day()
    moved = TWO_POOLS.replace(f"queue qa labels={LABEL}:a", f"queue qa labels={LABEL}:b")
    moved = moved.replace("group ga queue=qa", "group ga queue=qb")
    queues = accounts.accounts.applied(cluster_of(moved)).queues
    assert {name: queue.usage.gpu for name, queue in queues.items()} == {"qa": 0.0, "qb": 0.75}


async def test_with_shares_of_the_cluster_all_pools_count_together() -> None:
    accounts = Accounts(CLUSTER)
    used = await accounts.hold_for_a_day()
    assert used == {"qa": pytest.approx(4 / 12), "qb": pytest.approx(3 / 12)}
    assert [config().node_pools for config in accounts.made] == [("a", "b")]


async def test_they_come_and_go_with_their_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_accounts, "FOLLOW_S", 0.001)
    accounts = Accounts("pool")
    shards = dict(accounts.settings.shards)
    accounts.settings.shards = {"a": shards["a"]}
    running = asyncio.create_task(accounts.accounts.run())
    await until(lambda: accounts.ready() == ["a"])
    accounts.settings.shards = shards
    assert accounts.ready() == ["a"], "a new shard keeps no other from going on"
    await until(lambda: accounts.ready() == ["a", "b"])
    await until(lambda: len(accounts.accounts._tasks) == 2)
    accounts.settings.shards = {"b": shards["b"]}
    await until(lambda: list(accounts.accounts._kept) == list(accounts.accounts._tasks) == ["b"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_only_pools_whose_past_counts_have_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_accounts, "FOLLOW_S", 0.001)
    accounts = Accounts("pool")
    accounts.settings.shards = {"a": replace(Config(), node_pool="a"), "b": B}
    running = asyncio.create_task(accounts.accounts.run())
    await until(lambda: list(accounts.accounts._tasks) == ["b"])
    assert [config().node_pool for config in accounts.made] == ["b"]
    accounts.settings.shards = {"a": replace(Config(), node_pool="a"), "b": replace(Config(), node_pool="b")}
    await until(lambda: not accounts.accounts._kept and not accounts.accounts._tasks)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_shard_that_was_decided_without_a_past_goes_on_when_it_begins_to_count() -> None:
    """As that of a process for one shard. Who begins to lead waits."""
    accounts = Accounts("pool")
    shards = dict(accounts.settings.shards)
    accounts.settings.shards = {"a": replace(Config(), node_pool="a")}
    assert accounts.ready() == ["a"]
    accounts.settings.shards = shards
    assert accounts.ready() == []
    accounts.settings.shards = {"a": replace(Config(), node_pool="a")}
    await accounts.accounts._follow()
    accounts.settings.shards = shards
    assert accounts.ready() == ["a"]
    accounts.settings.shards = {}
    await accounts.accounts._follow()
    accounts.settings.shards = shards
    assert accounts.ready() == []


@pytest.mark.parametrize("shard", ["", "big"])
@pytest.mark.parametrize(
    ("pool", "name"), [("a100", "kai-scheduler-a100"), ("A100_80GB", "kai-scheduler-a100-80gb-a38ea2f4")]
)
async def test_any_label_value_has_a_map_for_its_past(shard: str, pool: str, name: str) -> None:
    """In a process for all shards and in one for this shard; offline the same one is looked for."""
    config = replace(KEPT, node_pool=pool)
    settings, nothing = OneShard(config), lambda *_: None
    settings.shards = {"big": config}
    settings.current = lambda: config  # type: ignore[attr-defined]
    pages = SimpleNamespace(metrics=SimpleNamespace(observe_usage_query=nothing))
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    base: Any = SimpleNamespace(options=RunOptions(shard=shard), settings=settings, api=None, clock=clock, pages=pages)
    intake: Any = SimpleNamespace(trigger=SimpleNamespace(lead=nothing, request=nothing))
    found: Any = app._build_accounts(base, intake)
    (each,) = [found] if shard else found._current().values()
    assert each._path == f"/api/v1/namespaces/kai-scheduler/configmaps/{name}-usage"
    assert past_usage_map(config) == ("kai-scheduler", f"{name}-usage")
    assert RunOptions().lease_name(config) == name
