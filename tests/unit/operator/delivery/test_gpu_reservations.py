"""Whom the controller of reservation pods believes, and whose devices it leaves alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kai_sched.cluster.failure import ApiFailure
from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.objects import Node, Phase, Pod, Shape
from kai_sched.model.store import Store
from kai_sched.operator.delivery import gpu_reservations
from tests.unit.operator.delivery.reserving import (
    DEVICE,
    SETTINGS,
    Requests,
    acquire,
    assume,
    refused,
    reservation,
    running,
    user,
)


async def test_only_pods_that_were_told_another_device_go() -> None:
    """A tenant may write into the ConfigMap of its own pod, and must not end the pods of others by that."""
    async with running(Node("n1"), user("good"), user("hostile"), reservation("GPU-1")) as (requests, _):
        requests.visible = {"good": "GPU-1", "hostile": "GPU-0"}
        await asyncio.sleep(0.05)
        assert requests.deleted == ["ml/hostile"]


async def test_devices_on_nodes_of_other_pools_are_left_alone() -> None:
    """The scheduler of that pool may be about to bind the first pod to the device."""
    config = Config(node_pool="a", node_pool_label="pool", reservation=SETTINGS)
    async with running(Node("n1", labels={"pool": "b"}), reservation("GPU-1"), config=config) as (requests, _):
        await asyncio.sleep(0.05)
        assert (requests.created, requests.deleted) == ([], [])


async def test_a_label_alone_makes_no_user() -> None:
    """Else a pod that asks for no GPU could keep one from everybody."""
    async with running(Node("n1"), user("labelled", Shape()), reservation("GPU-1")) as (requests, _):
        await asyncio.sleep(0.05)
        assert requests.deleted == [reservation("").key]


async def test_pods_of_other_schedulers_get_and_keep_no_reservation() -> None:
    """A tenant may give a pod a node, the annotation, the label and a ConfigMap; the GPU would count for no queue."""
    async with running(Node("n1"), user("forged", scheduler="mine")) as (requests, _):
        requests.visible = {"forged": "GPU-1"}
        await asyncio.sleep(0.05)
        assert (requests.created, requests.deleted) == ([], [])
    async with running(Node("n1"), user("placed"), user("forged", scheduler="mine")) as (requests, _):
        requests.visible = {"placed": "GPU-1", "forged": "GPU-1"}
        await asyncio.sleep(0.05)
        assert set(requests.created) == {DEVICE.reservation}
        assert requests.deleted == []
    async with running(Node("n1"), user("forged", scheduler="mine"), reservation("GPU-1")) as (requests, _):
        await asyncio.sleep(0.05)
        assert requests.deleted == [reservation("").key]


async def test_which_devices_are_held_while_no_reservation_shows_it() -> None:
    """The device of a bind that is under way, and one whose reservation was lost; not one that was never reserved."""
    group = (DEVICE.node, DEVICE.group)
    async with running(Node("n1"), user("a"), reservation("GPU-1")) as (requests, store):
        await asyncio.sleep(0.05)
        assert requests.controller.awaited() == frozenset()
        store.remove(Pod, reservation("").key)
        assert requests.controller.awaited() == {group}
        await asyncio.sleep(0.05)
        assert requests.controller.awaited() == {group}
        store.put(reservation("GPU-1"))
        assert requests.controller.awaited() == frozenset()
    async with running(Node("n1"), user("a")) as (requests, _):
        assert requests.controller.awaited() == {group}, "after a start it is not known yet what the pod was told"
        requests.visible = {"a": "GPU-1"}
        await asyncio.sleep(0.05)
        assert requests.created
        assert requests.controller.awaited() == {group}
    async with running(Node("n1"), user("forged")) as (requests, _):
        await asyncio.sleep(0.05)
        assert (requests.created, set(requests.deleted)) == ([], {"ml/forged"})
        assert requests.controller.awaited() == frozenset()
    async with running(Node("n1")) as (requests, store):
        assume(requests, store)
        await asyncio.sleep(0.05)
        assert requests.controller.awaited() == {group}
        assert store.get(Pod, "ml/b") is not None


async def test_a_reservation_in_use_is_looked_at_again(monkeypatch: Any) -> None:
    """The API server knew of a user that the store did not show, and does not show when it has gone."""
    monkeypatch.setattr(gpu_reservations, "IN_USE_S", 0.05, raising=False)
    async with running(Node("n1"), reservation("GPU-1")) as (requests, _):
        requests.users_there = ["ml/late"]
        await asyncio.sleep(0.02)
        assert requests.deleted == []
        requests.users_there = []
        await asyncio.sleep(0.15)
        assert requests.deleted == [reservation("").key]


async def test_no_node_is_blamed_for_an_api_server_that_does_not_answer() -> None:
    """It would get no shares for up to ten minutes after that."""
    async with running(Node("n1")) as (requests, store):
        requests.failure = ApiFailure("POST", "/x", 0, "NoAnswer", "by the test")
        assert not (await refused(acquire(requests, store))).is_of_node
    async with running(Node("n1"), config=Config(reservation=ReservationSettings())) as (requests, store):
        assert not (await refused(acquire(requests, store))).is_of_node


async def test_who_waits_for_a_device_of_a_node_that_goes_to_another_pool_is_told() -> None:
    """Else the pod would count as placed there, and its bind be prepared, for ever."""
    config = Config(node_pool="a", node_pool_label="pool", reservation=SETTINGS)
    async with running(Node("n1", labels={"pool": "a"}), config=config) as (requests, store):
        acquired = acquire(requests, store)
        await asyncio.sleep(0.05)
        assert requests.created == [DEVICE.reservation]
        store.put(Node("n1", labels={"pool": "b"}))
        store.put(reservation("GPU-1"))
        assert "node pool" in str(await refused(acquired))


async def test_a_reservation_that_has_ended_holds_nothing() -> None:
    """The kubelet has the device back, and a pod that is bound now would share it with whoever gets it."""
    async with running(Node("n1")) as (requests, store):
        store.put(reservation("GPU-1"))
        assert requests.controller.reserved(DEVICE) == "GPU-1"
        store.put(replace(reservation("GPU-1"), phase=Phase.FAILED))
        assert requests.controller.reserved(DEVICE) == ""


async def test_whoever_comes_while_an_unused_reservation_leaves_may_get_another_device() -> None:
    """Nobody is left who was told which one it was, so nothing is lost: the next pods of the group are not refused."""
    async with running(Node("n1"), user("a"), reservation("GPU-0")) as (requests, store):
        requests.visible = {"a": "GPU-0"}
        await asyncio.sleep(0.05)
        store.remove(Pod, "ml/a")
        await requests.seen()
        assert requests.deleted == [reservation("").key]
        await comes_as_it_leaves(requests, store)


async def test_whoever_comes_while_a_lost_reservation_without_users_leaves_may_get_another_device() -> None:
    async with running(Node("n1"), user("a"), reservation("GPU-0")) as (requests, store):
        requests.visible = {"a": "GPU-0"}
        await asyncio.sleep(0.05)
        store.put(replace(reservation("GPU-0"), deleted_ns=1))  # by somebody else
        store.remove(Pod, "ml/a")
        await requests.seen()
        assert requests.deleted == []
        await comes_as_it_leaves(requests, store)


async def comes_as_it_leaves(requests: Requests, store: Store) -> None:
    """A pod wants the device while the last reservation goes, and gets the one that the next says."""
    store.put(replace(reservation("GPU-0"), deleted_ns=1))
    acquired = acquire(requests, store)
    await requests.seen()
    assert requests.created == []
    store.remove(Pod, reservation("").key)
    await requests.seen()
    assert requests.created == [DEVICE.reservation]
    store.put(replace(reservation("GPU-1"), uid="r2"))
    await requests.seen()
    async with asyncio.timeout(5.0):
        assert await acquired == "GPU-1"


@pytest.mark.parametrize("change", [{"deleted_ns": 1}, {"phase": Phase.FAILED}])
@pytest.mark.parametrize("rest", [None, {}, {"deleted_ns": 1}])
async def test_a_device_that_the_kubelet_has_freed_is_no_conflict(
    change: dict[str, Any], rest: dict[str, Any] | None
) -> None:
    """The reservation that had it may be shown for long, and its node must not be closed. ``rest``: a pod is on it."""
    before = replace(reservation("GPU-0"), name="before", uid="0", gpu_groups=("h",), **change)
    async with running(Node("n1"), before) as (requests, store):
        requests.users_there = ["ml/x"]
        if rest is not None:
            store.put(replace(user("x"), gpu_groups=("h",), **rest))
        acquired = acquire(requests, store)
        store.put(replace(reservation("GPU-0"), created_ns=1))
        await requests.seen()
        if rest is None:
            assert await acquired == "GPU-0"
        else:
            assert "both report device GPU-0" in str(await refused(acquired))


async def test_no_node_is_blamed_for_a_reservation_that_was_lost() -> None:
    async with running(Node("n1"), user("a"), reservation("GPU-0")) as (requests, store):
        requests.visible = {"a": "GPU-0"}
        await requests.seen()
        store.remove(Pod, reservation("").key)
        acquired = acquire(requests, store)
        await requests.seen()
        store.put(replace(reservation("GPU-1"), uid="r2"))
        failure = await refused(acquired)
        assert "now for GPU-1 instead of GPU-0" in str(failure)
        assert not failure.is_of_node
    async with running(Node("n1"), user("forged")) as (requests, store):
        failure = await refused(acquire(requests, store))
        assert "had to leave" in str(failure)
        assert not failure.is_of_node


async def test_a_device_is_forgotten_when_its_node_goes_to_another_node_pool() -> None:
    """By the time it comes back, the group of that name may be of another device."""
    config = Config(node_pool="a", node_pool_label="pool", reservation=SETTINGS)
    node = Node("n1", labels={"pool": "a"})
    async with running(node, user("a"), reservation("GPU-0"), config=config) as (requests, store):
        requests.visible = {"a": "GPU-0"}
        await requests.seen()
        store.put(Node("n1", labels={"pool": "b"}))
        store.remove(Pod, "ml/a")
        store.remove(Pod, reservation("").key)
        await requests.seen()
        store.put(node)
        acquired = acquire(requests, store)
        await requests.seen()
        store.put(replace(reservation("GPU-1"), uid="r2"))
        await requests.seen()
        assert await acquired == "GPU-1"
