"""Claims of groups between the decision and the bind: all or none, and free again only once the API server says so."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kai_sched.cluster import delivery
from kai_sched.cluster.claim_requests import ClaimWriter
from kai_sched.cluster.failure import NOT_LEADER
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.model.claims import AllocatedDevice, Allocation, ResourceClaim
from kai_sched.model.config import Config
from kai_sched.model.inflight_claims import ClaimOverlay
from kai_sched.model.read import RESOURCE_CLAIM, Reader
from kai_sched.model.store import Store
from kai_sched.operator.delivery.claim_binder import DYNAMIC_RESOURCES, ClaimBinder
from kai_sched.operator.delivery.claim_reservations import ClaimReservations
from kai_sched.plan.effects import Bind, ClaimUse
from tests.unit.cluster.claim_server import ClaimServer
from tests.unit.cluster.scripted import Naps, failure


def bind(pod: str, *claims: str, device: str = "") -> Bind:
    """The bind of a pod whose claims get the devices of their names, or this one."""
    uses = tuple(
        ClaimUse(f"ml/{name}", name, Allocation((AllocatedDevice("gpu", "d", "n1", device or f"dev-{name}"),)), True)
        for name in claims
    )
    return Bind(f"ml/{pod}", f"uid-{pod}", "n1", claims=uses)


class Bench:
    """The binder over a server whose changes are observed at once."""

    def __init__(self) -> None:
        self.server = ClaimServer()
        self.store = Store()
        self.overlay = ClaimOverlay(self.store)
        self.server.watch = self._observe
        self.sent: list[str] = []
        self.failures: dict[str, BindFailure] = {}
        self.obsolete = ""
        self.cycles = 0
        api: Any = self.server
        writer = ClaimWriter(api, lambda _: (), random.Random(1))
        self.reservations = ClaimReservations(writer, self.overlay, self._freed)
        self.binder = ClaimBinder(self.reservations, self._bind, self)
        self._reader = Reader(Config())

    def submit(self, *group: Bind) -> None:
        for each in group:
            self.reservations.assume(each)
        self.binder.submit(group)

    def check(self, _: Bind) -> str:
        return self.obsolete

    def failed(self, bind: Bind, failure: BindFailure) -> None:
        self.failures[bind.pod] = failure
        self.reservations.release(bind)

    def shown(self, name: str) -> ResourceClaim:
        claim = self.store.get(ResourceClaim, f"ml/{name}")
        assert claim is not None
        return claim

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(5.0):
            while not condition():  # noqa: ASYNC110 - tells nobody
                await asyncio.sleep(0)

    def _bind(self, group: Sequence[Bind]) -> None:
        self.sent += [each.pod for each in group]

    def _freed(self) -> None:
        self.cycles += 1

    def _observe(self, key: str, content: dict[str, Any]) -> None:
        claim = self._reader.read(RESOURCE_CLAIM, json.dumps(content).encode(), lambda *_: None)
        assert isinstance(claim, ResourceClaim)
        assert claim.key == key
        self.overlay.observe(claim, int(content["metadata"]["resourceVersion"]))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(delivery, "asyncio", Naps())
    bench = Bench()
    for name in ("c", "d"):
        bench.server.add(name)
    return bench


async def test_a_group_is_bound_once_all_its_claims_are_reserved(bench: Bench) -> None:
    bench.submit(bind("a", "c", "d"), bind("b", "d"))
    assert bench.shown("c").allocation is not None
    assert bench.sent == []
    await bench.until(lambda: bench.sent)
    assert bench.sent == ["ml/a", "ml/b"]
    assert (bench.server.reserved("c"), bench.server.reserved("d")) == (["uid-a"], ["uid-a", "uid-b"])
    assert len(bench.server.asked) == 6  # one write for both pods of a claim


async def test_groups_without_claims_go_straight_on(bench: Bench) -> None:
    bench.submit(bind("a"))
    assert bench.sent == ["ml/a"]
    assert bench.server.asked == []


async def test_one_claim_that_is_lost_takes_back_all_of_the_group(bench: Bench) -> None:
    other = bind("x", "d", device="dev-x").claims[0]
    bench.server.change("d", allocation={"devices": {"results": [_result("dev-x")]}})
    assert bench.shown("d").allocation == other.allocation
    bench.submit(bind("a", "c"), bind("b", "d"))
    await bench.until(lambda: bench.cycles == 2)
    assert bench.sent == []
    assert {each.reason for each in bench.failures.values()} == {DYNAMIC_RESOURCES}
    assert "allocated by somebody else" in bench.failures["ml/a"].message
    assert (bench.server.devices("c"), bench.server.reserved("c")) == ([], [])
    assert (bench.shown("c").allocation, bench.shown("c").consumers) == (None, ())
    assert bench.server.devices("d") == ["dev-x"]


def _result(device: str) -> dict[str, str]:
    return {"request": "gpu", "driver": "d", "pool": "n1", "device": device}


async def test_devices_stay_taken_until_the_api_server_has_freed_them(bench: Bench) -> None:
    wish = bind("a", "c")
    bench.submit(wish)
    await bench.until(lambda: bench.sent)
    bench.server.answers["PUT"] = [failure(503), lambda: held.append(bench.shown("c").allocation)]
    held: list[Allocation | None] = []
    bench.failed(wish, BindFailure("Forbidden", "by the test", 403))
    assert bench.shown("c").allocation is not None
    await bench.until(lambda: bench.cycles)
    assert held == [wish.claims[0].allocation]
    assert bench.shown("c").allocation is None


async def test_a_pod_that_is_decided_again_waits_for_its_release(bench: Bench) -> None:
    """Else the release would take back what was written anew."""
    first, second = bind("a", "c"), bind("a", "c", device="dev-2")
    bench.submit(first)
    await bench.until(lambda: bench.sent)
    bench.failed(first, BindFailure("Forbidden", "by the test", 403))
    bench.submit(second)
    await bench.until(lambda: len(bench.sent) == 2)
    assert (bench.server.devices("c"), bench.server.reserved("c")) == (["dev-2"], ["uid-a"])
    assert bench.shown("c").allocation == second.claims[0].allocation


async def test_an_obsolete_bind_writes_nothing(bench: Bench) -> None:
    bench.obsolete = "node n1 is gone"
    bench.submit(bind("a", "c"))
    await bench.until(lambda: bench.cycles)
    assert bench.failures["ml/a"] == BindFailure(OBSOLETE, "node n1 is gone")
    assert [method for method, _ in bench.server.asked] == ["GET"]
    assert bench.shown("c").allocation is None


async def test_who_no_longer_leads_writes_nothing_and_forgets(bench: Bench) -> None:
    bench.server.answers["PUT"] = [failure(0, NOT_LEADER)] * 2
    bench.submit(bind("a", "c"))
    await bench.until(lambda: bench.cycles)
    assert bench.failures["ml/a"].reason == NOT_LEADER
    assert (bench.server.devices("c"), bench.shown("c").allocation) == ([], None)


async def test_a_claim_that_is_gone_makes_the_bind_obsolete(bench: Bench) -> None:
    del bench.server.claims["ml/c"]
    bench.submit(bind("a", "c"))
    await bench.until(lambda: bench.failures)
    assert (bench.failures["ml/a"].reason, bench.failures["ml/a"].status) == (OBSOLETE, 404)


async def test_stopping_ends_what_is_under_way(bench: Bench) -> None:
    bench.server.answers["GET"] = [failure(503)] * 1000
    bench.submit(bind("a", "c"))
    bench.reservations.release(bind("b", "d"))
    await asyncio.sleep(0)
    await bench.binder.stop()
    await bench.reservations.stop()
    assert (bench.sent, bench.failures, bench.server.devices("c")) == ([], {}, [])
