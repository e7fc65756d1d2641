"""The accounts of what queues used, through changes of the leader and of the settings."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from kai_sched import run_cycle
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.model.config import Config, UsageSettings
from kai_sched.model.objects import UsedShares
from kai_sched.model.store import Cluster
from kai_sched.operator import usage_accounts
from kai_sched.operator.clock import Clock
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.usage_accounts import UsageAccounts
from tests.scenarios.table import cluster_of

DAY = 86_400.0
KEPT = Config(usage=UsageSettings("internal", window_s=7 * DAY))
CLUSTER = """
node n gpu=8
node other gpu=8 labels=kai.scheduler/node-pool:blue
queue all
queue a parent=all
queue b parent=all
pod ga-0..3 gpu=1 on=n
group ga queue=a min=1
"""


@dataclass
class World:
    """An API server with one ConfigMap, and a leader's accounts."""

    content: dict[str, Any] | None = field(default_factory=dict)
    config: Config = KEPT
    now_s: float = 20_000 * DAY
    asked: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)  # the statuses of the next answers
    cluster: Cluster = field(default_factory=lambda: cluster_of(CLUSTER))

    def accounts(self) -> UsageAccounts:
        clock = Clock(monotonic=lambda: self.now_s, wall_ns=lambda: int(self.now_s * 1e9))
        place = "kai-scheduler", "kai-scheduler-usage"
        noted = self.asked.append
        return UsageAccounts(
            cast(Api, self), place, lambda: self.config, lambda: noted("ready"), lambda: noted("cycle"), clock
        )

    async def request(self, method: str, path: str, body: bytes = b"", **_: Any) -> bytes:
        assert path == "/api/v1/namespaces/kai-scheduler/configmaps/kai-scheduler-usage"
        if self.failures:
            self.now_s += 40.0
            raise ApiFailure(method, path, self.failures.pop(), "by the test", "")
        if self.content is None:
            raise ApiFailure(method, path, 404, "NotFound", "by the test")
        if method == "PATCH":
            self.content |= json.loads(body)
        return json.dumps(self.content).encode()

    def cycle(self, accounts: UsageAccounts) -> None:
        result = run_cycle(self.cluster, self.config, int(self.now_s * 1e9))
        reported: list[DecidedCycle] = []
        accounts.after(reported.append)(DecidedCycle(self.cluster, result, 0.0, self.config))
        assert len(reported) == 1

    def gpu_usage(self, accounts: UsageAccounts) -> dict[str, float]:
        return {name: queue.usage.gpu for name, queue in accounts.applied(self.cluster).queues.items()}


async def held_for_a_day(world: World) -> UsageAccounts:
    accounts = world.accounts()
    await accounts.load()
    world.cycle(accounts)
    await accounts.sample()
    world.now_s += DAY
    await accounts.sample()
    return accounts


async def test_what_was_held_counts_and_is_kept_for_the_next_leader() -> None:
    """4 of the pool's 8 GPUs; departments have a past, too."""
    world = World()
    accounts = await held_for_a_day(world)
    assert world.gpu_usage(accounts) == {"all": 0.0, "a": 0.0, "b": 0.0}
    await accounts.save()
    half = {"all": pytest.approx(0.5), "a": pytest.approx(0.5), "b": 0.0}
    assert world.gpu_usage(accounts) == half
    assert "cycle" in world.asked
    assert world.content is not None
    assert json.loads(world.content["data"]["usage"])["a"]["gpu"] == 0.5

    world.now_s += DAY  # in which nobody led
    following = world.accounts()
    await following.load()
    assert world.gpu_usage(following) == half


async def test_when_a_cron_expression_fires_all_begin_with_nothing() -> None:
    """Each day at noon. The accounts begin at midnight; a had 4 of 8 GPUs all the time, and b none until it fired."""
    world = World(config=Config(usage=UsageSettings("internal", window_s=DAY, cron="0 12 * * *")))
    accounts = world.accounts()
    await accounts.load()
    world.cycle(accounts)
    for _ in range(12):
        await accounts.sample()
        await accounts.save()
        world.now_s += 3600.0
    assert world.gpu_usage(accounts)["a"] == pytest.approx(0.5)
    await accounts.sample()
    await accounts.save()
    assert world.gpu_usage(accounts) == {"all": 0.0, "a": 0.0, "b": 0.0}
    world.cluster = cluster_of(CLUSTER.replace("queue=a", "queue=b"))
    world.cycle(accounts)
    await accounts.sample()
    world.now_s += 3600.0
    await accounts.sample()
    await accounts.save()
    assert world.gpu_usage(accounts) == {"all": pytest.approx(0.5), "a": 0.0, "b": pytest.approx(0.5)}
    following = world.accounts()
    await following.load()
    assert world.gpu_usage(following) == {"all": pytest.approx(0.5), "a": 0.0, "b": pytest.approx(0.5)}


async def test_nothing_is_kept_or_counted_where_the_past_does_not_count() -> None:
    world = World(config=Config())
    accounts = world.accounts()
    assert accounts.is_ready(world.config)
    accounts = await held_for_a_day(world)
    await accounts.save()
    assert accounts.applied(world.cluster) is world.cluster
    assert world.content == {}


async def test_cycles_wait_for_what_was_kept() -> None:
    accounts = World().accounts()
    assert not accounts.is_ready(KEPT)


async def test_what_cannot_be_read_at_first_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is added later; cycles do not wait for ever."""
    monkeypatch.setattr(usage_accounts, "RETRY_S", 0.0)
    world = World()
    await (await held_for_a_day(world)).save()
    world.failures = [500] * 3
    following = world.accounts()
    await following.load()
    assert following.is_ready(KEPT)
    assert world.gpu_usage(following)["a"] == 0.0
    await following.save()  # fails as well
    assert world.gpu_usage(following)["a"] == 0.0
    await following.save()
    assert world.gpu_usage(following)["a"] == pytest.approx(0.5)


async def test_what_a_database_says_is_written_down_for_who_decides_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def usage_of_queues(*_: object) -> dict[str, UsedShares]:
        return {"a": UsedShares(0.25, 0.0, 0.75)}

    monkeypatch.setattr(usage_accounts, "usage_of_queues", usage_of_queues)
    world = World(config=Config(usage=UsageSettings("prometheus")))
    accounts = world.accounts()
    await accounts.load()
    assert world.gpu_usage(accounts) == {"all": 0.0, "a": 0.75, "b": 0.0}
    assert world.content == {"data": {"usage": '{"a":{"cpu":0.25,"memory":0.0,"gpu":0.75}}'}}


async def test_accounts_that_are_switched_on_again_go_on() -> None:
    world = World()
    accounts = await held_for_a_day(world)
    await accounts.save()
    world.config = Config()
    await accounts.sample()
    world.config = KEPT
    await accounts.sample()
    assert world.gpu_usage(accounts)["a"] == pytest.approx(0.5)


async def test_settings_change_while_it_runs() -> None:
    world = World()
    accounts = await held_for_a_day(world)
    world.config = replace(KEPT, usage=replace(KEPT.usage, window_s=2 * DAY))
    await accounts.sample()
    await accounts.save()
    assert world.gpu_usage(accounts)["a"] == pytest.approx(0.5, abs=0.001)
    world.config = Config()
    await accounts.sample()
    assert accounts.applied(world.cluster) is world.cluster


@pytest.mark.parametrize(
    "content", [{"binaryData": {"accounts": "?"}}, {"binaryData": {"accounts": base64.b64encode(b"x").decode()}}]
)
async def test_damaged_accounts_begin_anew(content: dict[str, Any]) -> None:
    world = World(content=content)
    with capture_logs() as logs:
        accounts = await held_for_a_day(world)
    assert [line["event"] for line in logs] == ["usage.not_kept"]
    await accounts.save()
    assert world.gpu_usage(accounts)["a"] == pytest.approx(0.5)


async def test_a_config_map_that_is_missing_is_told_once() -> None:
    world = World(content=None)
    with capture_logs() as logs:
        accounts = await held_for_a_day(world)
        await accounts.save()
        await accounts.save()
    (line,) = logs
    assert "create it, or let the chart" in line["problem"]
    assert world.gpu_usage(accounts)["a"] == pytest.approx(0.5)
