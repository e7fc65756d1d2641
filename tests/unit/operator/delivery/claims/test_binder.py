"""Claims of groups between the decision and the bind: all or none, and free again only once the API server says so."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kai_sched.cluster import delivery
from kai_sched.cluster.claim_requests import ClaimWriter
from kai_sched.cluster.failure import NOT_LEADER
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.model.claims.inflight import ClaimOverlay
from kai_sched.model.claims.objects import (
    AllocatedDevice,
    Allocation,
    DeviceOption,
    DeviceRequest,
    ExtendedRequests,
    ResourceClaim,
)
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, PodGroup, Shape
from kai_sched.model.read.kinds import RESOURCE_CLAIM, Reader
from kai_sched.model.store import Store
from kai_sched.operator.delivery.claims import leftovers as claim_leftovers
from kai_sched.operator.delivery.claims.binder import DYNAMIC_RESOURCES, ClaimBinder
from kai_sched.operator.delivery.claims.leftovers import ClaimLeftovers
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
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


def extended(pod: str, device: str, request: str = "container-0-request-0") -> Bind:
    """The bind of a pod for whose extended resources a claim is made."""
    asked = DeviceRequest(request, (DeviceOption("gpus"),), resource="example.com/gpu")
    made = ExtendedRequests((asked,), (("main", "example.com/gpu", request),))
    allocation = Allocation((AllocatedDevice(request, "d", "n1", device),))
    return Bind(f"ml/{pod}", f"uid-{pod}", "n1", claims=(ClaimUse(f"ml/{pod}-made", "", allocation, True, made),))


class Bench:
    """The binder over a server whose changes are observed at once."""

    def __init__(self) -> None:
        self.server = ClaimServer()
        self.store = Store()
        self.overlay = ClaimOverlay(self.store)
        self.server.watch = self._observe
        self.server.watch_deleted = self.overlay.gone
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


async def test_what_an_earlier_leader_reserved_for_a_pod_that_waits_is_released_at_the_second_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps = Naps()
    monkeypatch.setattr(claim_leftovers, "asyncio", naps)
    status = {
        "allocation": {"devices": {"results": [_result("dev-0")]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in ("a", "b", "x")],
    }
    bench.server.change("c", **status)
    for name, node, scheduler in (("a", "", "kai-scheduler"), ("b", "n1", "kai-scheduler"), ("x", "", "other")):
        bench.store.put(Pod("ml", name, Shape(), uid=f"uid-{name}", node=node, scheduler=scheduler))
    leftovers = ClaimLeftovers(bench.store, Config, bench.reservations)
    assert [each.pod for each in leftovers.find().values()] == ["ml/a"]
    looking = asyncio.create_task(leftovers.run())
    await bench.until(lambda: bench.server.reserved("c") == ["uid-b", "uid-x"])
    assert len(naps.seconds) > 1
    looking.cancel()
    await bench.reservations.stop()


@pytest.mark.parametrize("pool", ["", "mine"])
def test_what_a_scheduler_of_another_node_pool_reserved_is_its_own(bench: Bench, pool: str) -> None:
    """The bind of its pod may be under way, which only that process knows."""
    config = Config(node_pool=pool)
    ours, theirs = {config.node_pool_label: pool} if pool else {}, {config.node_pool_label: "another"}
    bench.store.put(PodGroup("ml", "ours", labels=ours))
    bench.store.put(PodGroup("ml", "theirs", labels=theirs))
    of_pods = {
        "bare": Pod("ml", "bare", Shape(), labels=ours),
        "in-group": Pod("ml", "in-group", Shape(), labels=theirs, group="ours"),
        "bare-theirs": Pod("ml", "bare-theirs", Shape(), labels=theirs),
        "in-their-group": Pod("ml", "in-their-group", Shape(), labels=ours, group="theirs"),
        "of-no-group": Pod("ml", "of-no-group", Shape(), labels=ours, group="gone"),
    }
    consumers = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in of_pods]
    bench.server.change("c", allocation={"devices": {"results": [_result("dev-0")]}}, reservedFor=consumers)
    for name, pod in of_pods.items():
        bench.store.put(replace(pod, uid=f"uid-{name}", scheduler="kai-scheduler"))
    found = ClaimLeftovers(bench.store, lambda: config, bench.reservations).find()
    assert sorted(bind.pod for bind in found.values()) == ["ml/bare", "ml/in-group"]


async def test_releases_do_not_pile_up_while_the_api_server_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps = Naps()
    monkeypatch.setattr(claim_leftovers, "asyncio", naps)
    consumers = [{"resource": "pods", "name": "a", "uid": "uid-a"}]
    bench.server.change("c", allocation={"devices": {"results": [_result("dev-0")]}}, reservedFor=consumers)
    bench.store.put(Pod("ml", "a", Shape(), uid="uid-a", scheduler="kai-scheduler"))
    bench.server.answers["GET"] = [failure(503)] * 1000
    looking = asyncio.create_task(ClaimLeftovers(bench.store, Config, bench.reservations).run())
    await bench.until(lambda: len(naps.seconds) > 10)
    assert len([task for task in asyncio.all_tasks() if task.get_name() == "claim releases"]) == 1
    del bench.server.answers["GET"]
    await bench.until(lambda: bench.server.reserved("c") == [])
    looking.cancel()
    await bench.reservations.stop()


def add_pod(bench: Bench, name: str) -> None:
    bench.server.pods[f"ml/{name}"] = {"metadata": {"uid": f"uid-{name}"}, "spec": {}}


async def test_claims_for_extended_resources_are_made_before_a_bind(bench: Bench) -> None:
    add_pod(bench, "a")
    bench.submit(extended("a", "dev-0"), bind("b", "c"))
    assert bench.shown("a-made").allocation is not None
    await bench.until(lambda: bench.sent)
    assert (bench.server.devices("a-made"), bench.server.reserved("a-made")) == (["dev-0"], ["uid-a"])
    shown = bench.shown("a-made")
    assert (shown.owner, shown.extended, shown.consumers) == ("uid-a", True, (("a", "uid-a"),))
    status = bench.server.pods["ml/a"]["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == "a-made"


async def test_they_are_gone_after_a_bind_that_failed_and_their_devices_free_only_then(bench: Bench) -> None:
    add_pod(bench, "a")
    wish = extended("a", "dev-0")
    bench.submit(wish)
    await bench.until(lambda: bench.sent)
    bench.server.answers["DELETE"] = [failure(503)] * 2
    bench.failed(wish, BindFailure("Forbidden", "by the test", 403))
    assert bench.shown("a-made").allocation is not None
    bench.submit(extended("a", "dev-1"))
    await bench.until(lambda: len(bench.sent) == 2)
    assert (bench.server.devices("a-made"), bench.server.reserved("a-made")) == (["dev-1"], ["uid-a"])
    [one] = (bench.shown("a-made").allocation or Allocation()).devices
    assert one.device == "dev-1"


async def test_a_claim_that_could_not_be_made_is_forgotten(bench: Bench) -> None:
    add_pod(bench, "a")
    bench.server.answers["POST"] = [failure(403, "Forbidden")]
    bench.submit(extended("a", "dev-0"))
    await bench.until(lambda: bench.cycles)
    assert bench.failures["ml/a"].status == 403
    assert bench.store.get(ResourceClaim, "ml/a-made") is None


async def test_left_over_claims_of_extended_resources_are_deleted_those_that_vanished_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One was made by an earlier leader; the other was deleted with its pod while the watch was broken."""
    monkeypatch.setattr(claim_leftovers, "asyncio", Naps())
    add_pod(bench, "a")
    bench.submit(extended("a", "dev-0"))
    await bench.until(lambda: bench.sent)
    bench.store.put(Pod("ml", "a", Shape(), uid="uid-a", scheduler="kai-scheduler"))
    add_pod(bench, "b")
    bench.server.watch = bench.server.watch_deleted = lambda *_: None
    bench.submit(extended("b", "dev-1"))
    await bench.until(lambda: len(bench.sent) == 2)
    del bench.server.pods["ml/b"], bench.server.claims["ml/b-made"]
    assert bench.shown("b-made").uid == ""
    bench.server.watch_deleted = bench.overlay.gone
    looking = asyncio.create_task(ClaimLeftovers(bench.store, Config, bench.reservations).run())
    await bench.until(lambda: bench.store.get(ResourceClaim, "ml/b-made") is None)
    await bench.until(lambda: "ml/a-made" not in bench.server.claims)
    assert bench.server.pods["ml/a"]["status"] == {}
    looking.cancel()
    await bench.reservations.stop()
