"""Which pods use which shared devices, and which reservation pods there are or may come, as the store shows it now."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kai_sched.lowering.roles import is_reservation
from kai_sched.model.config import Config
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Pod
from kai_sched.model.resources import GPU
from kai_sched.model.store import Store
from kai_sched.reconcile.gpu_reservation import GpuGroup, is_user, shared_devices


class DeviceUsers:
    """Follows the journal of the store. For one event loop.

    Pods whose bind is under way count as users, since the store shows them on their nodes.

    Parameters
    ----------
    store, overlay
        The cluster as the informers show it, with what is under way.
    config
        Returns the settings in force.
    """

    def __init__(self, store: Store, overlay: Overlay, config: Callable[[], Config]) -> None:
        self._store = store
        self._overlay = overlay
        self._config = config
        self._serial = -1
        self._uses: dict[str, tuple[GpuGroup, ...]] = {}  # by pod
        self._users: dict[GpuGroup, set[str]] = {}
        self._reserves: dict[str, tuple[GpuGroup, ...]] = {}  # by reservation pod
        self._reservations: dict[GpuGroup, set[str]] = {}
        self._on_node: dict[str, set[GpuGroup]] = {}  # devices with a user or a reservation pod
        self._whole: dict[str, tuple[str, float]] = {}  # by pod: its node, and its whole GPUs
        self._whole_on: dict[str, float] = {}  # by node
        self._requested: dict[str, dict[GpuGroup, float]] = {}  # by node: see ``request``

    def catch_up(self) -> set[GpuGroup]:
        """Take over what has changed; return the devices that it concerns."""
        if self._serial == self._store.serial:
            return set()
        changes = self._store.changes_since(self._serial)
        self._serial = self._store.serial
        keys: Iterable[str] = {key for kind, key in changes if kind is Pod} if changes is not None else self._all()
        concerned: set[GpuGroup] = set()
        for key in keys:
            concerned |= self._take(key)
        return concerned

    def users(self, device: GpuGroup) -> list[Pod]:
        """The pods that share the device, by key."""
        keys = sorted(self._users.get(device, ()))
        return [pod for key in keys if (pod := self._store.get(Pod, key)) is not None]

    def bound(self, device: GpuGroup) -> list[Pod]:
        """Those of ``users`` that the API server shows on the node, and that stay."""
        under_way = self._overlay.assumed
        return [pod for pod in self.users(device) if pod.key not in under_way and not pod.deleted_ns]

    def is_occupied(self, device: GpuGroup) -> bool:
        """Whether the API server shows a user on the node, though it may be leaving."""
        sent = self._overlay.assumed
        return any(pod.key not in sent or not sent[pod.key].node for pod in self.users(device))

    def reservations(self, device: GpuGroup) -> list[Pod]:
        """The reservation pods of the device: first those that stay and say which device they have, then the oldest."""
        keys = self._reservations.get(device, ())
        pods = [pod for key in keys if (pod := self._store.get(Pod, key)) is not None]
        return sorted(pods, key=lambda pod: (bool(pod.deleted_ns), not pod.reserved_device, pod.created_ns, pod.uid))

    def reserved_on(self, node: str) -> set[GpuGroup]:
        """The devices of the node that have a reservation pod."""
        return {each for each in self._on_node.get(node, ()) if each in self._reservations}

    def request(self, device: GpuGroup, until: float) -> None:
        """A reservation pod of the device is requested: if it does not show before, it may come ``until`` then."""
        self._requested.setdefault(device.node, {})[device] = until

    def requested(self, device: GpuGroup) -> float:
        """Until when a reservation pod of the device may come that does not show yet; 0 for none."""
        return self._requested.get(device.node, {}).get(device, 0.0)

    def forget_request(self, device: GpuGroup) -> None:
        """The reservation pod that was requested shows now, or will never come."""
        of_node = self._requested.get(device.node, {})
        of_node.pop(device, None)
        if not of_node:
            self._requested.pop(device.node, None)

    def is_closing(self, node: str) -> bool:
        """Whether a device of the node is being freed that its pods need: it has no user, but a reservation pod or one
        that may come, and with it more GPUs are taken or about to be taken than the node has."""
        requested = self._requested.get(node, {}).keys()
        if all(map(self.users, self.reserved_on(node) | requested)):
            return False
        devices = self._on_node.get(node, set()) | requested
        taken = sum(max(1, len(self._reservations.get(each, ()))) for each in devices) + self._whole_on.get(node, 0.0)
        shown = self._store.get(Node, node)
        return shown is None or taken > shown.allocatable.get(GPU, 0.0)

    def reservation_uids(self) -> set[str]:
        """The uids of all reservation pods."""
        return {pod.uid for key in self._reserves if (pod := self._store.get(Pod, key)) is not None}

    def unreserved(self) -> set[GpuGroup]:
        """The devices that pods share and no reservation pod holds."""
        return self._users.keys() - self._reservations.keys()

    def is_being_bound(self, device: GpuGroup) -> bool:
        """Whether the bind of a pod to the device is under way."""
        under_way = self._overlay.assumed  # thousands, which ``isdisjoint`` would go through
        return any(key in under_way for key in self._users.get(device, ()))

    def _all(self) -> set[str]:
        return {*self._uses, *self._reserves, *self._whole, *self._store.all(Pod)}

    def _take(self, key: str) -> set[GpuGroup]:
        pod, config = self._store.get(Pod, key), self._config()
        reserves = pod is not None and is_reservation(pod, config)
        devices = shared_devices(pod) if pod is not None and reserves else ()
        uses = shared_devices(pod) if pod is not None and is_user(pod, config) else ()
        before = {*self._uses.get(key, ()), *self._reserves.get(key, ())}
        _move(key, uses, self._uses, self._users)
        _move(key, devices, self._reserves, self._reservations)
        for device in devices:
            self.forget_request(device)
        for device in {*before, *devices, *uses}:
            there = self._on_node.setdefault(device.node, set())
            is_there = device in self._reservations or device in self._users
            (there.add if is_there else there.discard)(device)
            if not there:
                del self._on_node[device.node]
        self._count_whole(key, None if reserves else pod)
        return before | {*uses, *devices}

    def _count_whole(self, key: str, pod: Pod | None) -> None:
        """Count the GPUs that the containers of the pod have on its node, until it has ended."""
        node, gpus = self._whole.pop(key, ("", 0.0))
        if gpus:
            self._whole_on[node] -= gpus
            if not self._whole_on[node]:
                del self._whole_on[node]
        if pod is not None and pod.node and not pod.has_ended:
            request = pod.shape.request if pod.shape.containers is None else pod.shape.containers
            gpus = next((amount for name, amount in request if name == GPU), 0.0)
            if gpus:
                self._whole[key] = pod.node, gpus
                self._whole_on[pod.node] = self._whole_on.get(pod.node, 0.0) + gpus


def _move(
    key: str,
    devices: tuple[GpuGroup, ...],
    by_pod: dict[str, tuple[GpuGroup, ...]],
    by_device: dict[GpuGroup, set[str]],
) -> None:
    for device in by_pod.pop(key, ()):
        pods = by_device[device]
        pods.discard(key)
        if not pods:
            del by_device[device]
    if devices:
        by_pod[key] = devices
        for device in devices:
            by_device.setdefault(device, set()).add(key)
