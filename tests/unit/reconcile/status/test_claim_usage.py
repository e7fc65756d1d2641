"""Claims for devices in the amounts of statuses (API 6.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kai_sched.model.claims.objects import (
    Allocation,
    ClaimRequests,
    ContainerDevices,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
)
from kai_sched.model.objects import GpuShare, Node, Object, Pod, Shape
from kai_sched.model.store import Cluster, Store
from kai_sched.reconcile.status.queue_status import queue_statuses
from kai_sched.reconcile.status.usage import QueueUsage
from tests.unit.reconcile.cases import CONFIG, NO_ROOM, World, decided, pod, pod_group, queue, state

GPUS = "gpu.example.com"
LARGE = "large-gpu.example.com"
CARD = "example.com/card"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{GPUS}"


def exactly(device_class: str, count: int | None = 1, name: str = "r") -> DeviceRequest:
    return DeviceRequest(name, (DeviceOption(device_class, count=count),))


def claim(name: str, *requests: DeviceRequest, **more: Any) -> ResourceClaim:
    return ResourceClaim("ml", name, asks=ClaimRequests(requests or (exactly(GPUS),)), **more)


def user(name: str, *claims: str, group: str = "run", node: str = "", **more: Any) -> Pod:
    """A pod without other requests that has these claims."""
    uses = tuple(PodClaim(f"c{number}", key) for number, key in enumerate(claims))
    shape = Shape((("pods", 1.0),), n_claims=len(claims))
    return pod(name, group, node, **{"shape": shape, "claims": uses, **more})


def extended(resource: str, count: int, **more: Any) -> Pod:
    uses = (ContainerDevices("main", 0, True, resource, 0, count),)
    shape = Shape(((resource, 1000.0 * count), ("pods", 1.0)))
    return pod("p", "run", **{"shape": shape, "extended": uses, **more})


def status(*objects: Object) -> dict[str, Any]:
    view = Cluster.of([Node("node-1"), queue("team"), pod_group("run"), *objects])
    return queue_statuses(view, (), CONFIG, QueueUsage(view, CONFIG))["team"]


def shown(count: int, device_class: str = GPUS) -> dict[str, str]:
    return {device_class: str(count), "nvidia.com/gpu": str(count)}


def test_gpus_of_claims_are_requested_and_with_a_node_held() -> None:
    claims = [claim("one"), claim("two", exactly(GPUS, 2))]
    waiting, running = user("a", "one"), user("b", "two", node="node-1")
    assert status(*claims, waiting) == {"requested": shown(1)}
    assert status(*claims, waiting, running) == {"allocated": shown(2), "requested": shown(3)}
    assert status(*claims, user("a", "one", group="", node="node-1"))["allocated"] == shown(1)


@pytest.mark.parametrize(
    ("requests", "amounts"),
    [
        ([exactly(GPUS, 2), exactly(LARGE, 1, "s")], {GPUS: "2", LARGE: "1", "nvidia.com/gpu": "3"}),
        ([exactly(GPUS, 2), exactly(GPUS, 1, "s")], shown(3)),
        ([exactly("gpu", 2)], shown(2, "gpu")),  # as the scheduler calls all GPUs
        ([exactly(GPUS, None)], shown(1)),
        ([exactly("nic.example.com", 2)], {}),
        ([DeviceRequest("r", (DeviceOption(GPUS, "x"), DeviceOption(LARGE, "y")), exact=False)], {}),
    ],
)
def test_exact_requests_for_gpus_count_under_their_class(
    requests: list[DeviceRequest], amounts: dict[str, str]
) -> None:
    assert status(claim("c", *requests), user("a", "c")).get("requested", {}) == amounts


def test_a_claim_counts_for_each_pod_and_for_one_pod_once() -> None:
    assert status(claim("c"), user("a", "c", "c"))["requested"] == shown(1)
    assert status(claim("c"), user("a", "c"), user("b", "c"))["requested"] == shown(2)


def test_claims_count_beside_parts_of_gpus() -> None:
    shape = Shape((("pods", 1.0),), share=GpuShare(1, 0.5), n_claims=1)
    assert status(claim("c"), user("a", "c", shape=shape))["requested"] == {GPUS: "1", "nvidia.com/gpu": "1500m"}
    memory = replace(shape, share=GpuShare(1, 0.0, 4000))
    node = Node("labelled", labels={"nvidia.com/gpu.memory": "16000"})
    found = status(node, claim("c"), user("a", "c", node="labelled", shape=memory))
    assert found["allocated"] == {GPUS: "1", "nvidia.com/gpu": "1250m"}
    assert found["requested"] == {GPUS: "1", "nvidia.com/gpu": "1", "run.ai/gpu.memory": "4000"}


def test_extended_resources_that_a_class_of_gpus_backs_count_as_gpus_once() -> None:
    backing = DeviceClass(GPUS, extended_resource=CARD)
    made = claim("made", exactly(GPUS, 2), owner="uid-p", extended=True)
    for resource in (CARD, IMPLICIT):
        amounts = {resource: "2", "nvidia.com/gpu": "2"}
        assert status(backing, extended(resource, 2))["requested"] == amounts
        assert status(backing, made, extended(resource, 2, node="node-1"))["allocated"] == amounts
        assert status(extended(resource, 2))["requested"] == {resource: "2"}
    whole = DeviceClass(GPUS, extended_resource="nvidia.com/gpu")
    uses = (ContainerDevices("main", 0, True, "nvidia.com/gpu", 0, 1),)
    assert status(whole, pod("p", "run", extended=uses))["requested"]["nvidia.com/gpu"] == "1"


class Changing:
    """A cluster that changes, and the amounts as they are kept."""

    def __init__(self, *objects: Object) -> None:
        self.store = Store()
        for each in (Node("node-1"), queue("team"), pod_group("run"), *objects):
            self.store.put(each)
        self.view = self.store.cluster()
        self.usage = QueueUsage(self.view, CONFIG)

    def after(self, *changed: Object, gone: str = "") -> tuple[list[str] | None, float]:
        """The groups that may count otherwise after the change, and the GPUs that the queue requests."""
        for each in changed:
            self.store.put(each)
        if gone:
            self.store.remove(ResourceClaim, gone)
        before, self.view = self.view, self.store.cluster()
        changes = self.view.changes_since(before.store_id, before.serial)
        assert changes is not None
        touched = self.usage.update(self.view, changes)
        return None if touched is None else sorted(touched), self.usage.queue_amounts("team")[2].get("gpu", 0.0)


def test_a_claim_that_comes_later_counts_from_then_on() -> None:
    live = Changing(user("a", "c"), user("b", "c", group=""))
    assert live.after(claim("c", exactly(GPUS, 2))) == (["ml/run"], 4.0)
    # A claim changes with each bind: what it asks for does not.
    had = replace(claim("c", exactly(GPUS, 2)), allocation=Allocation(), consumers=(("a", "uid-a"),))
    assert live.after(had) == ([], 4.0)
    assert live.after(gone="ml/c") == (["ml/run"], 0.0)


def test_a_claim_counts_otherwise_once_another_one_is_that_for_extended_resources() -> None:
    """Users can make claims look like those that are made for pods; of two the first in order is it."""
    named = claim("k", exactly(GPUS, 4), owner="uid-p", extended=True)
    live = Changing(DeviceClass(GPUS, extended_resource=CARD), named, extended(CARD, 1, claims=(PodClaim("c", "k"),)))
    assert live.after() == ([], 1.0)
    assert live.after(replace(named, name="j")) == (["ml/run"], 5.0)
    assert live.after(gone="ml/j") == (["ml/run"], 1.0)


def test_pods_that_come_and_go_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what no pod has any more is forgotten at once."""
    monkeypatch.setattr("kai_sched.reconcile.status.usage.SPARE_SHAPES", 0)
    live = Changing()
    shape = Shape((("cpu", 100.0), ("pods", 1.0)), n_claims=1)
    for count in (1, 2, 3, 2, 1):
        live.after(claim("c", exactly(GPUS, count)), *(user(f"p{n}", "c", group="", shape=shape) for n in (0, count)))
        assert live.usage.queue_amounts("team") == QueueUsage(live.view, CONFIG).queue_amounts("team")
    for key in live.view.pods:
        live.store.remove(Pod, key)
    live.after()
    assert live.usage.queue_amounts("team") == ({}, {}, {})


def test_the_status_of_a_group_and_the_details_of_its_queue_have_them() -> None:
    world = World(queue("team"), pod_group("run", preemptible=False), claim("c"), user("a", "c", node="node-1"))
    world.run(decided([state("ml/run", {"Running": 1}, NO_ROOM)]))
    one = shown(1)
    wanted = {"allocated": one, "allocatedNonPreemptible": one, "requested": one}
    assert world.status["ml/run"]["resourcesStatus"] == wanted
    assert world.status["team"]["allocatedNonPreemptible"] == one
