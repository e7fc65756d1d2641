"""What pods that share GPUs have when their bind is sent, whatever happened to them while it was prepared."""

from __future__ import annotations

import asyncio
import gc
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from kai_sched.api import names
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.cluster.sharing_requests import SharingRequests
from kai_sched.model.constraints import Toleration
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Pod
from kai_sched.model.read.kinds import POD, Reader
from kai_sched.model.store import Store
from kai_sched.operator.delivery.gpu_reservations import ReservationFailure
from kai_sched.operator.delivery.share_binder import SHARING, ShareBinder
from kai_sched.plan.effects import Bind
from kai_sched.reconcile.gpu_reservation import GpuGroup
from tests.properties.sharing_world import CONFIG, Object, Server, pod
from tests.properties.test_sharing_machine import groups_of


class Reservations:
    """Every device is reserved at once, unless ``failure`` says why not."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.closing: set[str] = set()
        self.wait_for: Callable[[str], Awaitable[None]]

    async def acquire(self, device: GpuGroup, tolerations: tuple[Toleration, ...]) -> str:
        assert tolerations == ()
        self.meanwhile()
        if self.failure is not None:
            raise self.failure
        return f"GPU-{device.group}"

    def reserved(self, device: GpuGroup) -> str:
        return f"GPU-{device.group}"

    def is_closing(self, node: str) -> bool:
        return node in self.closing

    async def wait_freed(self, node: str) -> None:
        await self.wait_for(node)


class Bench:
    """The binder before an API server; the store shows what ``show`` is told."""

    def __init__(self) -> None:
        self.server, self.store = Server(1), Store()
        self.overlay = Overlay(self.store)
        self.reservations = Reservations()
        self.sent: list[Bind] = []
        self.versions: dict[str, str] = {}
        self.failures: dict[str, BindFailure] = {}
        self.outcomes: list[tuple[str, bool]] = []  # of reserving devices, by node
        self.obsolete = ""
        api: Any = self.server
        self.binder = ShareBinder(
            SharingRequests(api, random.Random(1)),
            self.reservations,
            self.store,
            lambda: CONFIG,
            self.send,
            self,
        )
        self._reader = Reader(CONFIG)
        self.store.put(Node("node-0"))

    def add(self, content: Object) -> str:
        """Create the pod, and show it; return its key."""
        self.server.put(content)
        key = f"ml/{content['metadata']['name']}"
        self.show(key)
        return key

    def show(self, key: str) -> None:
        found = self._reader.read(POD, json.dumps(self.server.pods[key]).encode(), lambda *_: None)
        assert isinstance(found, Pod)
        self.overlay.observe(found)

    def device_in(self, config_map: str) -> object:
        return self.server.maps[f"ml/{config_map}"]["data"][names.VISIBLE_DEVICES_ENV]

    async def bind(self, key: str, *groups: str) -> Bind:
        """Prepare the bind; return it once it is sent or given up."""
        bind = Bind(key, self.server.pods[key]["metadata"]["uid"], "node-0", groups)
        await self.prepare([bind])
        return bind

    async def prepare(self, gang: list[Bind]) -> None:
        """Prepare the binds; return once they are sent or given up."""
        for bind in gang:
            self.failures.pop(bind.pod, None)
            assert self.overlay.assume(bind.pod, bind.uid, bind.node, bind.gpu_groups)
        self.binder.submit(gang)
        async with asyncio.timeout(5.0):
            while gang[-1] not in self.sent and gang[-1].pod not in self.failures:  # noqa: ASYNC110 - tells nobody
                await asyncio.sleep(0.005)

    def send(self, group: Sequence[Bind], versions: Mapping[str, str]) -> None:
        self.sent.extend(group)
        self.versions |= versions

    def check(self, _: Bind) -> str:
        return self.obsolete

    def failed(self, bind: Bind, failure: BindFailure) -> None:
        self.overlay.forget(bind.pod, bind.uid)
        self.failures[bind.pod] = failure

    def reserved(self, node: str, succeeded: bool) -> None:
        self.outcomes.append((node, succeeded))


async def test_labels_of_a_bind_that_failed_go_though_the_watch_is_late() -> None:
    """Else the pod would hold devices that it was not given, and others those that it was."""
    bench = Bench()
    key = bench.add(pod("a", "0.5", 2))
    first = await bench.bind(key, "g1", "g2")
    assert groups_of(bench.server.pods[key]) == ["g1", "g2"]
    bench.failed(first, BindFailure("Forbidden", "by the test", 403))
    await bench.bind(key, "g3", "g4")
    meta = bench.server.pods[key]["metadata"]
    assert groups_of(bench.server.pods[key]) == ["g3", "g4"]
    assert bench.versions == {meta["uid"]: meta["resourceVersion"]}, "it is bound as it is with these labels"


async def test_a_pod_that_asks_for_more_meanwhile_is_decided_again() -> None:
    """The device was chosen for what it asked for before."""
    bench = Bench()
    key = bench.add(pod("a", "0.5"))

    def more() -> None:
        notes = {**bench.server.pods[key]["metadata"]["annotations"], names.GPU_FRACTION_ANNOTATION: "0.9"}
        meta = {**bench.server.pods[key]["metadata"], "annotations": notes}
        bench.server.put({**bench.server.pods[key], "metadata": meta})

    bench.reservations.meanwhile = more
    await bench.bind(key, "g1")
    assert bench.sent == []
    assert bench.failures[key].reason == OBSOLETE


@pytest.mark.parametrize("failure", [None, ReservationFailure("by the test", is_of_node=False)])
async def test_a_pod_that_goes_while_its_device_is_reserved_is_no_failure(failure: Exception | None) -> None:
    bench = Bench()
    key = bench.add(pod("a", "0.5"))
    bench.reservations.failure = failure

    def goes() -> None:
        bench.obsolete = "by the test"

    bench.reservations.meanwhile = goes
    await bench.bind(key, "g1")
    assert bench.failures[key] == BindFailure(OBSOLETE, "by the test")
    assert not bench.server.maps, "nothing is written for it"


@pytest.mark.parametrize(("is_of_node", "outcomes"), [(True, [("node-0", False)]), (False, [])])
async def test_a_node_gets_no_shares_for_a_while_if_it_is_at_fault(
    is_of_node: bool, outcomes: list[tuple[str, bool]]
) -> None:
    bench = Bench()
    bench.reservations.failure = ReservationFailure("by the test", is_of_node=is_of_node)
    key = bench.add(pod("a", "0.5"))
    await bench.bind(key, "g1")
    assert bench.failures[key].reason == SHARING
    assert bench.outcomes == outcomes


@pytest.mark.parametrize("failing", ["g1", "g2"])
async def test_a_device_that_succeeds_does_not_excuse_one_that_fails(failing: str) -> None:
    """The node would be tried again and again without a pause, by which of its devices comes last."""
    bench = Bench()

    async def acquire(device: GpuGroup, _: tuple[Toleration, ...]) -> str:
        if device.group == failing:
            raise ReservationFailure("by the test")
        return "GPU-1"

    bench.reservations.acquire = acquire  # type: ignore[method-assign]
    await bench.bind(bench.add(pod("a", "0.5", 2)), "g1", "g2")
    assert bench.outcomes == [("node-0", False)]


async def test_no_pod_takes_the_config_map_of_another_one() -> None:
    """A copy of a pod has its annotation, too, and the container of the first would read the device of the second."""
    bench = Bench()
    first, second = pod("a", "0.5"), pod("b", "0.5")
    second["metadata"]["annotations"] = dict(first["metadata"]["annotations"])
    one, other = bench.add(first), bench.add(second)
    await bench.bind(one, "g1")
    await bench.bind(other, "g2")
    assert bench.device_in("a-maps-0") == "GPU-g1"
    assert bench.failures[other].reason == SHARING
    assert "tells the devices of pod ml/a" in bench.failures[other].message
    bench.server.put({**bench.server.pods[one], "status": {"phase": "Succeeded"}})
    bench.failed(await bench.bind(other, "g2"), BindFailure("Forbidden", "by the test", 403))
    assert bench.device_in("a-maps-0") == "GPU-g2"
    await bench.bind(other, "g3")
    assert bench.device_in("a-maps-0") == "GPU-g3"


async def test_a_gang_waits_for_all_its_nodes_and_devices_at_once() -> None:
    """One after the other each node costs ten seconds, in which the whole gang holds its room."""
    bench = Bench()
    bench.reservations.closing = {"node-0", "node-1"}
    all_wait = asyncio.Barrier(3)

    async def wait(_: str) -> None:
        async with asyncio.timeout(1.0):
            await all_wait.wait()

    async def acquire(device: GpuGroup, _: tuple[Toleration, ...]) -> str:
        await wait(device.node)
        return f"GPU-{device.group}"

    bench.reservations.wait_for = wait
    bench.reservations.acquire = acquire  # type: ignore[method-assign]
    placed = {"a": ("node-0", "1", ()), "b": ("node-1", "1", ()), "c": ("node-0", "0.5", ("g1",))}
    gang = []
    for name, (node, fraction, groups) in placed.items():
        key = bench.add(pod(name, fraction))
        gang.append(Bind(key, bench.server.pods[key]["metadata"]["uid"], node, groups))
    await bench.prepare(gang)
    assert (bench.sent, bench.failures) == (gang, {})


async def test_many_pods_that_share_do_not_fill_the_queue_of_requests() -> None:
    """The binds of others would wait behind all their writes."""
    bench = Bench()
    under_way, most = 0, 0
    send = bench.server.request

    async def counted(*given: Any, **more: Any) -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await send(*given, **more)
        finally:
            under_way -= 1

    bench.server.request = counted  # type: ignore[method-assign]
    keys = [bench.add(pod(f"pod-{n}", "0.5")) for n in range(100)]
    gang = [Bind(key, bench.server.pods[key]["metadata"]["uid"], "node-0", ("g",)) for key in keys]
    other = bench.add(pod("other", "0.5"))
    await asyncio.gather(bench.prepare(gang), bench.bind(other, "h"))
    assert len(bench.sent) == 101
    assert most == 32


async def test_a_device_that_cannot_be_had_is_told_though_nodes_are_still_closing() -> None:
    """Else the whole group would keep its room until these are done. That nobody waits any more is no error."""
    bench, told = Bench(), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    shares, whole = bench.add(pod("a", "0.5")), bench.add(pod("b", "1"))
    bench.reservations.failure = ReservationFailure("by the test", is_of_node=False)
    bench.reservations.closing, bench.reservations.wait_for = {"node-0"}, lambda _: asyncio.sleep(3600.0)
    uid = {key: bench.server.pods[key]["metadata"]["uid"] for key in (shares, whole)}
    await bench.prepare([Bind(whole, uid[whole], "node-0"), Bind(shares, uid[shares], "node-0", ("g1",))])
    assert bench.failures[whole].message == "by the test"
    assert bench.sent == []
    await asyncio.sleep(0.01)
    gc.collect()
    assert told == []
