"""What happens before the binds of a group whose pods share GPUs: the devices are reserved, then ConfigMaps and labels
of the pods are written (API 7.3, 7.4).

The claim binder hands groups over. While a group waits, its pods stay assumed, so nobody else gets their room. Groups
without shares go straight on, but for whole GPUs on a node where a shared device is being freed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kai_sched.cluster.failure import ApiFailure
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.cluster.sharing_requests import MapTaken, SharingRequests
from kai_sched.model.config import Config
from kai_sched.model.constraints import Toleration
from kai_sched.model.gpu_memory import memory_limit, usable_memory_mib
from kai_sched.model.objects import Node, Pod
from kai_sched.model.read.sharing import read_gpu_annotations
from kai_sched.model.resources import GPU
from kai_sched.model.store import Store
from kai_sched.operator.delivery.gpu_reservations import ReservationFailure
from kai_sched.operator.delivery.preparation import BindChecker, Preparation, request_failure
from kai_sched.plan.effects import Bind
from kai_sched.reconcile.gpu_reservation import (
    GpuGroup,
    device_maps,
    portion_text,
    sharing_patch,
)

SHARING = "GPUSharing"
WRITES_MAX = 32  # of all groups together: the binds of others have to get through between them
NO_MAP = (
    "the pod was created while GPU sharing was off, so its container would not learn which GPU it has: "
    "delete the pod and create it again"
)


class Reservations(Protocol):
    """Reserves devices. ``gpu_reservations.GpuReservations`` is one."""

    async def acquire(self, device: GpuGroup, tolerations: tuple[Toleration, ...]) -> str:
        """Return the UUID of the device, once it is reserved. Raises ReservationFailure."""

    def reserved(self, device: GpuGroup) -> str:
        """The UUID of the device as its reservation pod shows it now; "" without one."""

    def is_closing(self, node: str) -> bool:
        """Whether a device of the node is being freed that its pods need."""

    async def wait_freed(self, node: str) -> None:
        """Return once no such device is being freed, or after a while."""


class Observer(BindChecker, Protocol):
    """Hears what became of the preparation. The bind tracker is one, with ``group_retries`` behind it."""

    def reserved(self, node: str, succeeded: bool) -> None:
        """The devices of the node that a group wanted were reserved, or one could not be, by a fault of the node."""


class ShareBinder:
    """Prepares groups, then submits their binds.

    Parameters
    ----------
    requests
        Sends ConfigMaps and labels.
    reservations
        Reserves devices.
    store
        The cluster as the informers show it.
    config
        Returns the settings in force.
    submit
        Called with a group once its pods are prepared, and with the resourceVersions that the pods have then, by uid.
    observer
        Hears of binds of a group that cannot be prepared.
    """

    def __init__(
        self,
        requests: SharingRequests,
        reservations: Reservations,
        store: Store,
        config: Callable[[], Config],
        submit: Callable[[Sequence[Bind], Mapping[str, str]], None],
        observer: Observer,
    ) -> None:
        self._requests = requests
        self._reservations = reservations
        self._store = store
        self._config = config
        self._submit = submit
        self._observer = observer
        self._writes = asyncio.Semaphore(WRITES_MAX)
        self._versions: dict[str, str] = {}  # of pods with their labels, by uid, until their group is bound
        self._preparation = Preparation("shares", self._prepare, self._hand_on, observer)
        self.stop = self._preparation.stop

    def submit(self, group: Sequence[Bind]) -> None:
        """Prepare the pods of the group where they share GPUs, then bind them."""
        if any(bind.gpu_groups for bind in group) or any(map(self._has_to_wait, group)):
            self._preparation.start(group)
        else:
            self._submit(group, {})

    def _has_to_wait(self, bind: Bind) -> bool:
        """Whether the pod gets whole GPUs of a node that still frees one of them: the kubelet would refuse the pod."""
        pod = self._store.get(Pod, bind.pod)
        takes_gpus = pod is not None and any(name == GPU for name, _ in pod.shape.request)
        return takes_gpus and not bind.gpu_groups and self._reservations.is_closing(bind.node)

    def _hand_on(self, group: Sequence[Bind]) -> None:
        """Bind the pods as they are with the labels of their devices: users may change them until then."""
        self._submit(group, {bind.uid: self._versions.pop(bind.uid, "") for bind in group})

    async def _prepare(self, group: Sequence[Bind]) -> BindFailure | None:
        """Return why the group cannot be bound, or None once it can."""
        pods = {bind.pod: pod for bind in group if (pod := self._store.get(Pod, bind.pod)) is not None}
        shares = [bind for bind in group if bind.gpu_groups]
        for bind in shares:
            why = self._observer.check(bind)
            if why:
                return BindFailure(OBSOLETE, why)
            if not pods[bind.pod].device_map:
                return BindFailure(SHARING, f"{bind.pod}: {NO_MAP}")
        closing = sorted({bind.node for bind in group if self._has_to_wait(bind)})
        freed = asyncio.create_task(self._wait_freed(closing), name="freed GPUs")
        try:
            uuids, failure = await self._reserve(shares, pods)
            if failure is None:
                await freed
        finally:
            freed.cancel()
        why = next((why for bind in shares if (why := self._observer.check(bind))), "")  # that took a while
        if why:
            return BindFailure(OBSOLETE, why)
        if failure is not None:
            return failure
        outcomes = await asyncio.gather(
            *(self._write(bind, pods[bind.pod], uuids) for bind in shares), return_exceptions=True
        )
        failed = next((_as_failure(outcome) for outcome in outcomes if outcome is not None), None)
        lost = [device for device, uuid in uuids.items() if self._reservations.reserved(device) != uuid]
        if lost:
            failed = failed or BindFailure(SHARING, f"a reservation on node {lost[0].node} was lost meanwhile")
        if failed:
            for bind in shares:
                self._versions.pop(bind.uid, None)
        return failed

    async def _wait_freed(self, nodes: Iterable[str]) -> None:
        await asyncio.gather(*map(self._reservations.wait_freed, nodes))

    async def _reserve(
        self, shares: Sequence[Bind], pods: Mapping[str, Pod]
    ) -> tuple[dict[GpuGroup, str], BindFailure | None]:
        """Return the UUIDs of all devices of the group, and why one could not be reserved."""
        tolerations = {
            GpuGroup(bind.node, name): pods[bind.pod].shape.tolerations for bind in shares for name in bind.gpu_groups
        }
        outcomes = await asyncio.gather(
            *(self._reservations.acquire(*each) for each in tolerations.items()), return_exceptions=True
        )
        uuids: dict[GpuGroup, str] = {}
        failure = None
        worked: dict[str, bool] = {}  # by node: False where one of its devices failed by its fault
        for device, outcome in zip(tolerations, outcomes, strict=True):
            if isinstance(outcome, str):
                uuids[device] = outcome
                worked.setdefault(device.node, True)
                continue
            failure = failure or _as_failure(outcome)
            if isinstance(outcome, ReservationFailure) and outcome.is_of_node:
                worked[device.node] = False
        for node, succeeded in worked.items():
            self._observer.reserved(node, succeeded)
        return uuids, failure

    async def _write(self, bind: Bind, pod: Pod, uuids: Mapping[GpuGroup, str]) -> BindFailure | None:
        """Write what the pod gets; return why it cannot be bound even so."""
        config, node, share = self._config(), self._store.get(Node, bind.node), pod.shape.share
        if node is None or share is None:
            raise ReservationFailure(f"{bind.pod} or node {bind.node} changed meanwhile")
        groups = sorted(bind.gpu_groups)
        own = [uuids[GpuGroup(bind.node, group)] for group in groups]
        settings = config.reservation
        portion = portion_text(share, usable_memory_mib(node, config))
        limit = memory_limit(share, node, config) if settings.hami_core else ""
        maps = device_maps(pod, own, portion, limit, settings)
        patch = sharing_patch(pod, groups, own, settings)
        async with self._writes:
            shown = await self._requests.prepare(bind.pod, maps, patch)
        # The informer may not show yet that the pod asks for more. From now on admission lets nobody change it.
        if read_gpu_annotations(shown.annotations or {}, lambda *_: None).share != share:
            return BindFailure(OBSOLETE, f"pod {bind.pod} asks for other parts of GPUs meanwhile")
        self._versions[bind.uid] = shown.resource_version or ""
        return None


def _as_failure(error: BindFailure | BaseException) -> BindFailure:
    if isinstance(error, BindFailure):
        return error
    if isinstance(error, ReservationFailure):
        return BindFailure(SHARING, str(error), error.status)
    if isinstance(error, MapTaken):
        return BindFailure(SHARING, str(error))
    if isinstance(error, ApiFailure):
        return request_failure(error, SHARING)
    raise error
