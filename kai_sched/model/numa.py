"""The NUMA zones of nodes, what pods hold of them, and what of a pod's request has to be aligned (semantics 12.4).

Amounts are in scheduler units, by resource (``model.resources``).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from kai_sched.api.names import NVIDIA_GPU
from kai_sched.model.resources import CPU, GPU, MEMORY, quantity_text

PLUGIN = "numa"
ZONES_MAX = 16  # of a node; the kubelet allows 8 unless it is told otherwise
CONTAINERS_MAX = 64  # of a pod whose containers are aligned one by one
Amounts = tuple[tuple[str, float], ...]

_TRAILING = re.compile(r"(\d{1,18})$", re.ASCII)


class Alignment(enum.IntEnum):
    """The policy of the kubelet's topology manager. From RESTRICTED on a node refuses pods that it cannot align."""

    NONE = 0
    BEST_EFFORT = 1
    RESTRICTED = 2
    SINGLE = 3


class ZoneAmounts(NamedTuple):
    """What a pod holds of one zone, with the amounts by resource, sorted."""

    zone: str
    amounts: Amounts


Placement = tuple[ZoneAmounts, ...]
NO_PLACEMENT: Placement = ()


@dataclass(frozen=True, slots=True)
class NodeZone:
    """A zone of a node: what pods can have of it in all, and what is available as the agent of the node reports it."""

    name: str
    allocatable: Mapping[str, float]
    available: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeZones:
    """A NodeResourceTopology: the zones of the node of the same name, in order, and how its kubelet aligns pods.

    ``pod_scope``: a pod is aligned as a whole, and not each of its containers by itself.
    """

    name: str
    uid: str = ""
    policy: Alignment = Alignment.NONE
    pod_scope: bool = False
    zones: tuple[NodeZone, ...] = ()

    @property
    def key(self) -> str:
        return self.name


class ContainerRequest(NamedTuple):
    """What of a container's request is aligned. ``first``: an init container that ends before the others start."""

    first: bool
    amounts: Amounts


class NumaRequest(NamedTuple):
    """What of a pod's request is aligned: for the pod as a whole, and by container.

    Of a pod that is not ``guaranteed`` these are devices alone. ``containers`` has those first that end before the
    others start, then sidecars, then the other containers; those with nothing to align are left out.
    """

    guaranteed: bool
    pod: Amounts
    containers: tuple[ContainerRequest, ...]


def at_most(request: NumaRequest, resource: str, most: float) -> NumaRequest:
    """The request of a pod that asks for no more than ``most`` of the resource; its last containers get less."""
    whole = tuple((name, min(amount, most) if name == resource else amount) for name, amount in request.pod)
    containers, left = [], most
    for container in request.containers:
        given = [(name, min(amount, left) if name == resource else amount) for name, amount in container.amounts]
        left -= 0.0 if container.first else sum(amount for name, amount in given if name == resource)
        if kept := tuple((name, amount) for name, amount in given if amount):
            containers.append(ContainerRequest(container.first, kept))
    return NumaRequest(request.guaranteed, whole, tuple(containers))


def zone_order(name: str) -> tuple[int, str]:
    """The sort key of zones: by the number at the end of the name, those without one first, then by name."""
    found = _TRAILING.search(name)
    return (int(found[1]) if found else -1), name


def is_device(resource: str) -> bool:
    """Whether pods of all classes of service get the resource by the device."""
    return resource not in (CPU, MEMORY) and not resource.startswith("hugepages-")


def placement_text(placement: Placement) -> str:
    """The placement as the annotations have it: JSON, with quantities by resource."""
    zones = [
        {"zone": zone, "amount": {_wire_name(name): quantity_text(name, amount) for name, amount in amounts}}
        for zone, amounts in placement
    ]
    return msgspec.json.encode(zones).decode()


def _wire_name(resource: str) -> str:
    """The name of the resource in the API. Whose GPUs they are does not matter to who reads it."""
    return NVIDIA_GPU if resource == GPU else resource
