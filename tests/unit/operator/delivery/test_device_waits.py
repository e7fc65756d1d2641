"""For how long devices are awaited, by whom, and when they are given back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kai_sched.cluster.failure import ApiFailure
from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.objects import Node, Phase, Pod, Shape
from kai_sched.operator.delivery import gpu_reservations
from tests.unit.operator.delivery.reserving import (
    DEVICE,
    SETTINGS,
    acquire,
    assume,
    refused,
    reservation,
    running,
    user,
)


async def test_a_device_that_only_a_pod_that_is_gone_waited_for_is_being_freed() -> None:
    """The kubelet would refuse a pod with whole GPUs for good, and the gang of the pod that is gone keep its room."""
    for shows in (True, False):
        async with running(Node("n1")) as (requests, store):
            acquired = acquire(requests, store)
            await requests.seen()
            assert requests.created == [DEVICE.reservation]
            if shows:
                store.put(reservation(""))
            assert not requests.controller.is_closing("n1")
            store.remove(Pod, "ml/b")
            assert requests.controller.is_closing("n1"), "the next cycle takes the device for free"
            await requests.seen()
            assert not (await refused(acquired)).is_of_node
            assert requests.controller.is_closing("n1")
            store.put(reservation("GPU-1"))
            await requests.seen()
            assert set(requests.deleted) == {reservation("").key}
            assert requests.controller.is_closing("n1")
            store.remove(Pod, reservation("").key)
            assert not requests.controller.is_closing("n1")


async def test_a_reservation_that_never_shows_is_awaited_for_a_while_only(monkeypatch: Any) -> None:
    monkeypatch.setattr(gpu_reservations, "CLOSING_S", 0.3)
    async with running(Node("n1")) as (requests, store):
        acquired = acquire(requests, store)
        await requests.seen()
        store.remove(Pod, "ml/b")
        await requests.seen()
        await refused(acquired)
        assert requests.controller.is_closing("n1")
        await asyncio.sleep(0.4)
        assert not requests.controller.is_closing("n1")


async def test_a_reservation_that_is_refused_holds_nothing() -> None:
    async with running(Node("n1")) as (requests, store):
        requests.failure = ApiFailure("POST", "/x", 403, "Forbidden", "by the test")
        await refused(acquire(requests, store))
        store.remove(Pod, "ml/b")
        assert not requests.controller.is_closing("n1")


async def test_nothing_is_reserved_for_a_pod_that_went_while_the_image_was_read() -> None:
    """A pod with whole GPUs may be on its way to the node by then."""
    async with running(Node("n1"), config=Config(reservation=ReservationSettings())) as (requests, store):
        requests.controller._own_pod = "kai/scheduler"
        requests.meanwhile = lambda: store.remove(Pod, "ml/b")
        await refused(acquire(requests, store))
        assert requests.created == []


@pytest.mark.parametrize("appears", [True, False])
async def test_nobody_waits_for_ever_while_reservations_are_made_again_and_again(
    appears: bool, monkeypatch: Any
) -> None:
    """Something deletes each one, such as a taint; or it never shows, as a pod of others has its name."""
    monkeypatch.setattr(gpu_reservations, "CLOSING_S", 0.1)
    config = Config(reservation=replace(SETTINGS, allocation_timeout_s=0.2))
    async with running(Node("n1"), config=config) as (requests, store):
        acquired = acquire(requests, store)
        for _ in range(10):
            if appears:
                store.put(reservation(""))
                await requests.seen()
                store.remove(Pod, reservation("").key)
            await requests.seen()
        assert len(requests.created) > 1
        failure = await refused(acquired)
        assert failure.is_of_node
        assert "within 0.5 s" in str(failure)


async def test_a_device_that_gets_a_pod_while_its_users_are_listed_is_kept() -> None:
    """The cycle that the end of the last pod started has placed another one, which would wait for ten seconds."""
    async with running(Node("n1"), reservation("GPU-1")) as (requests, store):
        requests.meanwhile = lambda: assume(requests, store)
        await requests.seen()
        assert (requests.lists, requests.deleted) == (1, [])


async def test_a_device_that_goes_from_one_pod_to_the_next_costs_no_request() -> None:
    async with running(Node("n1"), user("a"), reservation("GPU-0"), give_back_s=0.2) as (requests, store):
        requests.visible = {"a": "GPU-0"}
        await requests.seen()
        store.remove(Pod, "ml/a")
        await requests.seen()
        async with asyncio.timeout(5.0):
            assert await acquire(requests, store) == "GPU-0"
        await asyncio.sleep(0.25)
        assert (requests.lists, requests.deleted) == (0, [])
        store.remove(Pod, "ml/b")
        await requests.seen()
        assert requests.deleted == [], "it has had no user for a moment only"
        await asyncio.sleep(0.25)
        assert requests.deleted == [reservation("").key]


@pytest.mark.parametrize(("gpus", "is_awaited"), [(2.0, True), (3.0, False)])
async def test_a_device_that_is_freed_is_awaited_only_where_the_others_do_not_suffice(
    gpus: float, is_awaited: bool
) -> None:
    """On a node with eight GPUs one pod that ends would make all others wait."""
    whole = replace(user("whole", Shape((("gpu", 1.0),))), gpu_groups=())
    leaving = replace(reservation("GPU-0"), name="leaves", uid="0", gpu_groups=("h",), deleted_ns=1)
    async with running(Node("n1", allocatable={"gpu": gpus}), leaving, whole) as (requests, store):
        acquired = acquire(requests, store)
        await requests.seen()
        assert requests.controller.is_closing("n1") == is_awaited
        assert requests.created == ([] if is_awaited else [DEVICE.reservation])
        store.put(replace(whole, phase=Phase.SUCCEEDED))
        assert not requests.controller.is_closing("n1")
        await requests.seen()
        assert requests.created == [DEVICE.reservation]
        acquired.cancel()
