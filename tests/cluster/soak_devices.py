"""What must hold of GPUs that pods share and of devices that claims have, at each moment of the watches.

Parts of a shared GPU add up to one at most: by the group that the scheduler gives it, and by the device that the
containers are told to use. A device is allocated to one claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

# When somebody deletes a reservation pod its device is free, and may be another group's before the pods that had it
# are gone: the kubelet decides that.
LOST_S = 60.0
UNTOLD_S = 30.0  # after which the containers of a bound pod have to know their devices

Device = tuple[str, str]  # node or pool, and name


@dataclass(slots=True)
class Part:
    """What a bound pod has of each of its shared GPUs, and since when its containers have to be told."""

    node: str
    share: Fraction
    since_s: float  # when it was bound, or its containers were told no more
    is_reported: bool = False  # that nothing was told


class DeviceJudge:
    """Told of pods that hold parts of GPUs, of what their containers see, and of claims. ``fault`` takes faults."""

    def __init__(self, fault: Callable[[str], None]) -> None:
        self._fault = fault
        self._groups: dict[Device, dict[str, Fraction]] = defaultdict(dict)  # parts by pod, of each group of a node
        self._seen: dict[Device, dict[str, Fraction]] = defaultdict(dict)  # the same of each device
        self._held: dict[str, Part] = {}  # by pod that is bound
        self._told: dict[str, tuple[str, ...]] = {}  # the devices that each pod was told
        self._lost: dict[str, float] = {}  # when a reservation pod of the node was deleted by others
        self._claims: dict[str, frozenset[Device]] = {}
        self._holders: dict[Device, str] = {}

    def groups_on(self, node: str) -> int:
        """How many GPUs of the node are shared now."""
        return sum(bool(users) and where == node for (where, _), users in self._groups.items())

    def hold(self, pod: str, node: str, groups: Collection[str], share: Fraction, now_s: float) -> None:
        """The pod is bound, with that part of the GPU of each of these groups."""
        self._held[pod] = Part(node, share, now_s)
        for group in groups:
            users = self._groups[node, group]
            users[pod] = share
            if sum(users.values()) > 1:
                self._fault(f"GPU group {group} of {node} is over-packed: {_listed(users)}")
        self._see(pod, now_s)

    def free(self, pod: str) -> None:
        """The pod has ended or is gone."""
        self._held.pop(pod, None)
        _without(self._groups, pod)
        _without(self._seen, pod)

    def tell(self, pod: str, devices: tuple[str, ...], now_s: float) -> None:
        """The containers of the pod are told to use these devices; none where that is taken back."""
        if self._told.get(pod, ()) == devices:
            return
        _without(self._seen, pod)
        self._told[pod] = devices
        if devices:
            self._see(pod, now_s)
        else:
            del self._told[pod]
            # The garbage collector is faster than the watch that tells of the end of the pod.
            if pod in self._held:
                self._held[pod].since_s = now_s

    def look(self, now_s: float) -> None:
        """Which containers have not been told in time?"""
        for pod, part in self._held.items():
            if pod not in self._told and not part.is_reported and now_s - part.since_s > UNTOLD_S:
                part.is_reported = True
                self._fault(f"the container of pod {pod} was not told its GPUs in {UNTOLD_S:g} s")

    def lose(self, node: str, now_s: float) -> None:
        """Somebody deletes a reservation pod of the node."""
        self._lost[node] = now_s

    def claim(self, name: str, devices: frozenset[Device]) -> None:
        """These devices are allocated to the claim now."""
        for device in self._claims.pop(name, ()):
            if self._holders.get(device) == name:
                del self._holders[device]
        if not devices:
            return
        self._claims[name] = devices
        for device in sorted(devices):
            holder = self._holders.setdefault(device, name)
            if holder != name:
                self._fault(f"device {device[1]} of {device[0]} is allocated to claims {holder} and {name}")

    def claims_listed(self, found: Mapping[str, frozenset[Device]]) -> None:
        """All claims that there are: what the others had may be another's by now."""
        for name, devices in list(self._claims.items()):
            if found.get(name) != devices:
                self.claim(name, frozenset())
        for name, devices in found.items():
            self.claim(name, devices)

    def _see(self, pod: str, now_s: float) -> None:
        if pod not in self._held or pod not in self._told:
            return
        part = self._held[pod]
        node = part.node
        for device in self._told[pod]:
            users = self._seen[node, device]
            users[pod] = part.share
            if sum(users.values()) > 1 and now_s - self._lost.get(node, -LOST_S) >= LOST_S:
                self._fault(f"device {device} of {node} is over-packed: {_listed(users)}")


def _without(shares: dict[Device, dict[str, Fraction]], pod: str) -> None:
    for where in [where for where, users in shares.items() if users.pop(pod, None) and not users]:
        del shares[where]


def _listed(users: Mapping[str, Fraction]) -> str:
    return ", ".join(f"{pod} {float(share):g}" for pod, share in sorted(users.items()))
