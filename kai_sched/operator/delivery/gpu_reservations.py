"""Reservation pods of shared GPUs: when one is created, adopted, given up or deleted, and what follows where it is lost
or contradicts another one (API 7.3).

Level-triggered, by device: each reconciliation compares who uses the device with the reservation pods that there are.
Invariants: the name of a reservation pod is made of node and group, so there is never a second one; one is deleted only
after the API server has said that no pod on the node shares its device.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from kai_sched.api import names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.delivery import Workers
from kai_sched.cluster.failure import ApiFailure
from kai_sched.cluster.sharing_requests import SharingRequests
from kai_sched.cluster.work_queue import WorkQueue
from kai_sched.model.config import Config, in_pool
from kai_sched.model.constraints import Toleration
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Pod
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.delivery.device_users import DeviceUsers
from kai_sched.operator.delivery.device_waiters import DeviceWaiters
from kai_sched.plan.effects import Emit, Ref
from kai_sched.reconcile.gpu_reservation import GpuGroup, reservation_pod

WORKERS = 32
BACKOFF = Backoff(0.2, 30.0)
CLOSING_S = 10.0  # the longest that a pod waits for devices that are being freed on its node
CLOSING_POLL_S = 0.05
RESYNC_S = 1.0
GIVE_BACK_S = 0.3  # for how long a device has no user before it is given back: a cycle may place the next pod there
IN_USE_S = 10.0  # after which a device is looked at again that the API server says is in use
DOOMED_MAX = 1_000  # from then on those that are gone are forgotten
FAKE_GPU_LABEL = "run.ai/fake.gpu"
NO_IMAGE = (
    "no image is known for reservation pods: set spec.binder.resourceReservation.image in kai-config, "
    "or run the scheduler as a pod"
)


class ReservationFailure(Exception):
    """A device could not be reserved. ``status`` is the HTTP status of the API server, 0 without one. ``is_of_node``
    says whether the node is at fault, so that other devices there may not be reserved either."""

    def __init__(self, message: str, status: int = 0, *, is_of_node: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.is_of_node = is_of_node


class GpuReservations:
    """For one event loop; acts only while ``run`` runs.

    Parameters
    ----------
    requests
        Sends what is decided.
    shown
        The cluster as the informers show it, with what is under way.
    store_changed
        Set after each change of the store.
    config
        Returns the settings in force.
    emit
        Takes events.
    own_pod
        The key of the scheduler's own pod, whose image reservation pods run where the settings name none.
    clock, rng
        The time, and jitter of retries.
    """

    def __init__(
        self,
        requests: SharingRequests,
        shown: tuple[Store, Overlay],
        store_changed: asyncio.Event,
        config: Callable[[], Config],
        emit: Callable[[Sequence[Emit]], None],
        own_pod: str,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._requests = requests
        self._store = shown[0]
        self._news = store_changed
        self._config = config
        self._emit = emit
        self._own_pod = own_pod
        self._monotonic = clock.monotonic
        self._users = DeviceUsers(*shown, config)
        self._queue: WorkQueue[GpuGroup] = WorkQueue(rng, BACKOFF, patient=False)
        self._workers = Workers("reservations", self._queue, self._reconcile, WORKERS)
        self._waiting = DeviceWaiters(clock.monotonic)
        self._since: dict[GpuGroup, float] = {}  # since when the device is awaited (monotonic)
        self._unused: dict[GpuGroup, float] = {}  # since when the device has a reservation pod and no user (monotonic)
        self._known: dict[GpuGroup, str] = {}  # the devices that reservation pods have reported
        self._judged: set[GpuGroup] = set()  # the devices that were looked at since somebody wanted them
        self._doomed: set[str] = set()  # uids of reservation pods that have been told to go
        self._own_image = ""

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._workers.run())
            tasks.create_task(self._follow())

    async def acquire(self, device: GpuGroup, tolerations: tuple[Toleration, ...]) -> str:
        """Return the UUID of the device, once it is reserved. Raises ReservationFailure."""
        self._queue.add(device)
        try:
            return await self._waiting.wait(device, tolerations)
        finally:
            self._queue.add(device)  # the pod may be gone by now

    async def wait_freed(self, node: str) -> None:
        """Return once no device is being freed that pods of the node need, or after CLOSING_S."""
        for _ in range(round(CLOSING_S / CLOSING_POLL_S)):
            if not self.is_closing(node):
                return
            await asyncio.sleep(CLOSING_POLL_S)

    def reserved(self, device: GpuGroup) -> str:
        """The UUID of the device as its reservation pod shows it now; "" without one that stays and holds it."""
        self._catch_up()
        found = self._users.reservations(device)
        return next((pod.reserved_device for pod in found if not (self._leaves(pod) or pod.has_ended)), "")

    def awaited(self) -> frozenset[tuple[str, str]]:
        """``SchedulingHints.awaited_devices``: (node, group) of devices that pods share and no reservation pod holds.

        Such a pod is being bound, or its reservation was lost and is made again; until it is known whether the pod was
        told a device, it counts as one that was.
        """
        self._catch_up()
        return frozenset((each.node, each.group) for each in self._users.unreserved() if self._may_hold(each))

    def _may_hold(self, device: GpuGroup) -> bool:
        is_expected = device in self._known or device in self._since or device not in self._judged
        return is_expected or self._users.is_being_bound(device)

    def is_closing(self, node: str) -> bool:
        """Whether a device of the node is being freed that its pods need."""
        self._catch_up()
        return self._users.is_closing(node)

    def _is_wanted(self, device: GpuGroup) -> bool:
        """Whether a pod uses the device or is being bound to it, as the store shows now."""
        self._catch_up()
        return bool(self._users.users(device))

    async def _follow(self) -> None:
        while True:
            self._news.clear()
            self._catch_up()
            with suppress(TimeoutError):
                async with asyncio.timeout(RESYNC_S):  # a bind that was given up changes the store, too
                    await self._news.wait()

    def _catch_up(self) -> None:
        for device in self._users.catch_up():
            self._queue.add(device)

    # One device

    async def _reconcile(self, device: GpuGroup) -> None:
        self._catch_up()
        try:
            if self._is_ours(device):
                await self._settle(device)
            else:
                self._drop(device)
        except ApiFailure as failure:
            self._waiting.fail(device, ReservationFailure(str(failure), failure.status, is_of_node=False))
            self._queue.failed(device)
        except ReservationFailure as failure:
            self._judged.add(device)
            self._waiting.fail(device, failure)
            self._queue.failed(device)
        else:
            (self._judged.add if self._is_wanted(device) else self._judged.discard)(device)
            self._queue.done(device)

    def _is_ours(self, device: GpuGroup) -> bool:
        """Whether the node is in the node pool of this scheduler, or gone: another one may be about to bind pods."""
        node = self._store.get(Node, device.node)
        return node is None or in_pool(node.labels, self._config())

    def _drop(self, device: GpuGroup) -> None:
        """The node is in another node pool, whose scheduler deals with the device."""
        self._known.pop(device, None)
        self._since.pop(device, None)
        self._unused.pop(device, None)
        self._users.forget_request(device)
        self._waiting.fail(
            device, ReservationFailure(f"node {device.node} went to another node pool", is_of_node=False)
        )

    async def _settle(self, device: GpuGroup) -> None:
        found = self._users.reservations(device)
        stay = [pod for pod in found if not self._leaves(pod)]
        for extra in stay[1:]:
            await self._delete(extra)
        first = stay[0] if stay else None
        for pod in found:
            if pod.uid in self._doomed and not pod.deleted_ns:  # the request may have been lost
                await self._delete(pod)
        is_wanted = self._is_wanted(device)
        if is_wanted or first is None:
            self._unused.pop(device, None)
        if not is_wanted:
            gone = f"the pods for GPU group {device.group} of node {device.node} are gone"
            self._waiting.fail(device, ReservationFailure(gone, is_of_node=False))
            await self._abandon(device, first, found)
        elif first is not None and first.reserved_device and not first.has_ended:
            await self._reported(device, first)
        else:
            self._check_waiters(device)
            await self._reserve(device, first, found)

    async def _reserve(self, device: GpuGroup, first: Pod | None, found: Sequence[Pod]) -> None:
        """The device has users, and no reservation pod that holds it. ``first`` and ``found``: see ``_abandon``."""
        if first is None and found:
            await self._wait_gone(device, found[0])
        elif first is None:
            await self._create(device)
        elif first.has_ended and first.reserved_device:
            await self._delete(first)  # it had the device: the next one has to get the same
        elif first.has_ended or self._is_late(device, first):
            await self._give_up(device, first)

    def _check_waiters(self, device: GpuGroup) -> None:
        """Raise ReservationFailure once one has waited for too long, however often reservation pods were made."""
        if device not in self._waiting:
            return
        settings = self._config().reservation
        longest_s = CLOSING_S + 2 * settings.allocation_timeout_s
        wait_s = longest_s - self._waiting.waited_s(device)
        if wait_s <= 0.0:
            name, why = f"{settings.namespace}/{device.reservation}", "each was deleted, or another pod has its name"
            raise ReservationFailure(f"no reservation pod {name} held a device within {longest_s:g} s: {why}")
        self._queue.add(device, wait_s)

    async def _abandon(self, device: GpuGroup, first: Pod | None, found: Sequence[Pod]) -> None:
        """The device has no user. ``first`` is the reservation pod that stays, if one of those ``found`` does."""
        self._since.pop(device, None)
        now = self._monotonic()
        if first is not None and (wait_s := self._unused.setdefault(device, now) + GIVE_BACK_S - now) > 0.0:
            self._queue.add(device, wait_s)
        elif first is not None or (found and device in self._known):
            await self._give_back(device, first)
        elif not found:
            self._known.pop(device, None)
            wait_s = self._users.requested(device) - now
            if wait_s > 0.0:
                self._queue.add(device, wait_s)
            else:
                self._users.forget_request(device)

    def _leaves(self, pod: Pod) -> bool:
        """Whether the reservation pod is being deleted, by us or by others."""
        return pod.deleted_ns != 0 or pod.uid in self._doomed

    async def _wait_gone(self, device: GpuGroup, pod: Pod) -> None:
        if self._is_late(device, None):
            self._since.pop(device, None)
            raise ReservationFailure(f"reservation pod {pod.key} on node {pod.node} is being deleted, and does not go")

    def _is_late(self, device: GpuGroup, pod: Pod | None) -> bool:
        """Whether the device has been awaited for too long; until then it is looked at again at that time."""
        if pod is not None and pod.reserved_device:
            return False
        now = self._monotonic()
        ends = self._since.setdefault(device, now) + self._config().reservation.allocation_timeout_s
        if now < ends:
            self._queue.add(device, ends - now + 0.01)
        return now >= ends

    async def _create(self, device: GpuGroup) -> None:
        """Reserve the device. Where pods use it already, its reservation is lost, and has to be the same device."""
        users = self._users.bound(device)
        if users and device not in self._known and not any(seen for _, seen in await self._visible_devices(device)):
            await self._evict(users, f"nothing reserves their device, and nothing says which it was: {device.group}")
            left = f"pods on node {device.node} had to leave a device that nothing reserved"
            raise ReservationFailure(left, is_of_node=False)
        node, now = self._store.get(Node, device.node), self._monotonic()
        if node is None:
            raise ReservationFailure(f"node {device.node} is gone")
        since = self._since.setdefault(device, now)
        if self.is_closing(device.node) and now - since < CLOSING_S:
            self._queue.add(device, CLOSING_POLL_S)
            return
        settings = self._config().reservation
        is_fake = settings.fake_gpu_nodes or node.labels.get(FAKE_GPU_LABEL) == "true"
        image = settings.image or await self._image()
        tolerations = self._waiting.tolerations(device) or (users[0].shape.tolerations if users else ())
        if not self._is_wanted(device):
            return  # cycles take the device for free, and may have placed a pod with whole GPUs
        now = self._since[device] = self._monotonic()
        self._users.request(device, now + CLOSING_S)
        try:
            await self._requests.create(reservation_pod(device, tolerations, image, is_fake, settings))
        except ApiFailure as failure:
            if 400 <= failure.status < 500:
                self._users.forget_request(device)
            raise
        self._is_late(device, None)

    async def _visible_devices(self, device: GpuGroup) -> list[tuple[Pod, str]]:
        """Which device each pod that is bound to it was told; "" where that is not known."""
        return [(pod, await self._requests.visible_device(pod, device.group)) for pod in self._users.bound(device)]

    async def _image(self) -> str:
        if not self._own_image:
            self._own_image = await self._requests.image_of(self._own_pod)
        if not self._own_image:
            raise ReservationFailure(NO_IMAGE, is_of_node=False)
        return self._own_image

    async def _reported(self, device: GpuGroup, pod: Pod) -> None:
        """The reservation pod says which device it has."""
        uuid = pod.reserved_device
        if self._known.get(device, uuid) != uuid:
            why = f"the reservation of their GPU was lost, and is now for {uuid} instead of {self._known[device]}"
            await self._evict(self._users.bound(device), why)
            await self._delete(pod)
            raise ReservationFailure(why, is_of_node=False)
        if device not in self._known:
            # Each pod by what it was told: users may write into the ConfigMaps of their own pods.
            others = [each for each, seen in await self._visible_devices(device) if seen not in ("", uuid)]
            await self._evict(others, f"the reservation of their GPU was lost, and is now for {uuid}")
        for other in sorted(self._users.reserved_on(device.node) - {device}, key=lambda each: each.group):
            for rival in self._users.reservations(other):
                is_older = (rival.created_ns, rival.uid) < (pod.created_ns, pod.uid)
                if rival.reserved_device == uuid and is_older and self._may_have_device(other, rival):
                    self._contradicts(device, pod, rival)
        self._known[device] = uuid
        self._since.pop(device, None)
        self._waiting.reserved(device, uuid)

    def _may_have_device(self, device: GpuGroup, pod: Pod) -> bool:
        """Whether its reservation pod has the device, or a pod that was told so; else the kubelet may have it back."""
        return not (self._leaves(pod) or pod.has_ended) or self._users.is_occupied(device)

    def _contradicts(self, device: GpuGroup, pod: Pod, rival: Pod) -> None:
        """Two reservation pods say that they have the same device: the later one gets no pods. Raises."""
        text = f"{pod.key} and {rival.key} both report device {pod.reserved_device} of node {device.node}"
        self._emit([Emit(_ref(each), names.WARNING, names.RESERVATION_CONFLICT, text) for each in (pod, rival)])
        raise ReservationFailure(text)

    async def _give_up(self, device: GpuGroup, pod: Pod) -> None:
        """The reservation pod ended, or did not say in time which device it has. Raises ReservationFailure."""
        seconds = self._config().reservation.allocation_timeout_s
        how = "ended before its time" if pod.has_ended else f"did not say within {seconds:g} s which device it has"
        text = f"reservation pod {pod.key} on node {pod.node} {how}: see its events and its log"
        self._since.pop(device, None)
        await self._delete(pod)
        await self._evict(self._users.bound(device), f"their GPU is not reserved: {text}")
        raise ReservationFailure(text)

    async def _give_back(self, device: GpuGroup, pod: Pod | None) -> None:
        """Nobody wants the device. ``pod`` is the reservation pod that stays, if there is one.

        While it leaves, others may want a device of that group: as nobody is left who was told which one it was, they
        may get another one.
        """
        users = await self._requests.users(device, self._config())
        if users:
            self._queue.add(device, IN_USE_S)  # the store may never show these pods
        elif not self._is_wanted(device):
            self._known.pop(device, None)
            if pod is not None:
                await self._delete(pod)

    async def _delete(self, pod: Pod) -> None:
        """Delete the reservation pod. From now on it counts as leaving, even if the answer is lost."""
        if len(self._doomed) > DOOMED_MAX:
            self._doomed &= self._users.reservation_uids()
        self._doomed.add(pod.uid)
        await self._requests.delete(pod.key, pod.uid)

    async def _evict(self, pods: Sequence[Pod], why: str) -> None:
        """Delete pods whose device others may get."""
        text = f"deleted with all pods of its GPU: {why}"
        self._emit([Emit(_ref(pod), names.WARNING, names.RESERVATION_LOST, text) for pod in pods])
        for pod in pods:
            await self._requests.delete(pod.key, pod.uid)


def _ref(pod: Pod) -> Ref:
    return Ref("v1", "Pod", pod.namespace, pod.name, pod.uid)
