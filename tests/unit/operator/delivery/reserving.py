"""The controller of reservation pods before a store, with requests that go nowhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from kai_sched.cluster.failure import ApiFailure
from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, Shape
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.delivery import gpu_reservations
from kai_sched.operator.delivery.gpu_reservations import GpuReservations, ReservationFailure
from kai_sched.reconcile.gpu_reservation import GpuGroup

DEVICE = GpuGroup("n1", "g")
HALF = Shape((("pods", 1.0),), share=GpuShare(1, 0.5))
SETTINGS = ReservationSettings(image="kai-sched")


class Requests:
    """What the API server is asked; ``visible`` is what pods were told, ``users`` who uses the device there."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.visible: dict[str, str] = {}
        self.users_there: list[str] = []
        self.lists = 0
        self.failure: ApiFailure | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.controller: GpuReservations
        self.news = asyncio.Event()

    async def seen(self) -> None:
        """The controller has looked at what the store shows now."""
        self.news.set()
        await asyncio.sleep(0.05)

    async def create(self, pod: dict[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        self.created.append(pod["metadata"]["name"])

    async def delete(self, key: str, uid: str) -> None:
        assert uid
        self.deleted.append(key)

    async def users(self, device: GpuGroup, config: Config) -> Sequence[str]:
        assert device.node == DEVICE.node
        assert config.reservation.namespace == SETTINGS.namespace
        self.lists += 1
        found = list(self.users_there)
        self.meanwhile()
        return found

    async def image_of(self, key: str) -> str:
        self.meanwhile()
        return key

    async def visible_device(self, pod: Pod, group: str) -> str:
        assert group in pod.gpu_groups
        return self.visible.get(pod.name, "")


def user(name: str, shape: Shape = HALF, scheduler: str = "kai-scheduler") -> Pod:
    return Pod("ml", name, shape, uid=name, node="n1", phase=Phase.RUNNING, gpu_groups=("g",), scheduler=scheduler)


def reservation(uuid: str) -> Pod:
    labels = {"app": SETTINGS.app_label}
    name = DEVICE.reservation
    return Pod(
        SETTINGS.namespace, name, Shape(), uid="r", labels=labels, node="n1", gpu_groups=("g",), reserved_device=uuid
    )


@asynccontextmanager
async def running(
    *objects: Node | Pod, config: Config | None = None, give_back_s: float = 0.0
) -> AsyncIterator[tuple[Requests, Store]]:
    """The controller before a store with these objects, as long as the context lasts."""
    store, requests = Store(), Requests()
    for each in objects:
        store.put(each)
    given: Any = requests
    used = config or Config(reservation=SETTINGS)
    controller = GpuReservations(
        given, (store, Overlay(store)), requests.news, lambda: used, lambda _: None, "", Clock(), random.Random(1)
    )
    requests.controller = controller
    task = asyncio.create_task(controller.run())
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gpu_reservations, "GIVE_BACK_S", give_back_s)
            yield requests, store
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def assume(requests: Requests, store: Store) -> None:
    """A pod is to be bound to the device."""
    store.put(replace(user("b"), node="", gpu_groups=(), phase=Phase.PENDING))
    assert requests.controller._users._overlay.assume("ml/b", "b", "n1", ("g",))


def acquire(requests: Requests, store: Store) -> asyncio.Task[str]:
    """The bind of such a pod is prepared."""
    assume(requests, store)
    return asyncio.create_task(requests.controller.acquire(DEVICE, ()))


async def refused(acquired: asyncio.Task[str]) -> ReservationFailure:
    async with asyncio.timeout(5.0):
        with pytest.raises(ReservationFailure) as found:
            await acquired
    return found.value
