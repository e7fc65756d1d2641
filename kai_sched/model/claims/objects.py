"""The fields of device classes, slices, taint rules, claims and allocations, as the scheduler sees the objects of
dynamic resource allocation (semantics 8.6).

Frozen and independent of the wire, as ``model.objects``. Amounts of capacity and counters are exact fractions in the
units of Kubernetes quantities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import Any

from kai_sched.model.constraints import NodeSelector, Taint, Toleration
from kai_sched.model.keys import ObjectKey, object_key, split_key
from kai_sched.model.resources import GPU, MIG_PREFIX, canonical

# The most consumers of a claim, and the most devices of one allocation, that the API server takes. The solver, which
# may not import this module, has the same numbers in ``solver.kernels.claims.search``.
CONSUMERS_MAX = 256
RESULTS_MAX = 32
EXTENDED_PREFIX = "deviceclass.resource.kubernetes.io/"
# In place of the name that a claim has in its pod: that of the claim for extended resources.
EXTENDED_CLAIM = "<extended-resources>"

# "domain/name" of an attribute or a capacity; a name without a domain belongs to the driver.
QualifiedName = str


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version as the value of an attribute."""

    text: str


AttributeValue = int | bool | str | Version


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass. ``config`` is what its driver is told, as it is on the wire."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created_ns: int = 0
    config: tuple[Mapping[str, Any], ...] = ()

    @property
    def key(self) -> str:
        return self.name

    @property
    def counts_as_gpus(self) -> bool:
        return is_gpu_name(self.name)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of one capacity a device has, and which parts of it a claim may consume.

    A request is rounded up to one of ``values``, or to ``least`` plus a multiple of ``step`` up to ``most``; without a
    policy it is taken as it is. ``default`` is what a claim that does not say consumes; None: all of it.
    """

    value: Fraction
    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None

    def consumed(self, asked: Fraction | None) -> Fraction | None:
        """What a claim that asks for so much consumes (None: does not say); None where the device cannot give it."""
        if asked is None:
            asked = self.default if self.default is not None else self.value
        if self.values:
            asked = min((value for value in self.values if value >= asked), default=None)
        elif self.least is not None:
            asked = max(asked, self.least)
            if self.step:
                asked = self.least + -((self.least - asked) // self.step) * self.step
            if self.most is not None and asked > self.most:
                return None
        return asked if asked is not None and asked <= self.value else None


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a slice, with the nodes that it can be used from.

    Attributes
    ----------
    attributes, capacity
        By qualified name.
    counters
        (counter set, counter, amount) that a use of the device takes of its pool.
    node, selector, everywhere
        The name of the node, else the nodes that the selector matches, else whether it is all nodes.
    shared
        Whether several claims may consume parts of it.
    """

    name: str
    attributes: Mapping[QualifiedName, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[QualifiedName, Capacity] = field(default_factory=dict)
    counters: tuple[tuple[str, str, Fraction], ...] = ()
    taints: tuple[Taint, ...] = ()
    node: str = ""
    selector: NodeSelector | None = None
    everywhere: bool = False
    shared: bool = False
    binds_to_node: bool = False


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A ResourceSlice: some of the devices, or the counters, of a pool."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    count: int = 1  # slices of the pool at this generation
    counters: tuple[tuple[str, str, Fraction], ...] = ()  # (counter set, counter, amount)
    devices: tuple[Device, ...] = ()

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """A DeviceTaintRule: a taint of all devices that match everything that is given; an empty text matches any.

    Attributes
    ----------
    device_class
        The class whose selectors the device must match; while there is no such class, no device does.
    selects
        Whether the rule says which devices it is about; else it is about none.
    """

    name: str
    taint: Taint
    driver: str = ""
    pool: str = ""
    device: str = ""
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    selects: bool = True

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DeviceOption:
    """An exact request for devices: the only one of a request, or one of a prioritised list.

    ``count`` is None where all matching devices are asked for. ``name`` is empty for the only one.
    """

    device_class: str
    name: str = ""
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[QualifiedName, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a claim: the first of its options that can be had. ``exact`` unless it is a prioritised list.

    ``resource``: the extended resource that the request stands for. A node that offers it needs no such request.
    """

    name: str
    options: tuple[DeviceOption, ...]
    exact: bool = True
    resource: str = ""


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """All devices of these requests (empty: of all) have the same value of the attribute or, ``distinct``, different
    ones."""

    attribute: QualifiedName
    requests: tuple[str, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class ClaimRequests:
    """What a claim asks for; the reader returns equal ones as one object. ``fault``: why it cannot be read, if so."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    fault: str = ""
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash((self.requests, self.constraints, self.fault)))
        return self._hash

    def gpus(self) -> float:
        """GPUs that count for the queue (semantics 8.6)."""
        return float(min(sum(count for _, count in self.counted()), 2**63 - 1))

    def counted(self) -> list[tuple[DeviceRequest, int]]:
        """The requests that count for the queue, and as how many GPUs: exact ones whose class is one of GPUs.

        Where containers request GPUs as such, these count already.
        """
        found = []
        for request in self.requests:
            option = request.options[0] if request.exact and canonical(request.resource) != GPU else None
            if option is not None and is_gpu_name(option.device_class):
                found.append((request, 1 if option.count is None else max(1, option.count)))
        return found


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that a claim has. ``request`` is "request", or "request/option" for one of a prioritised list."""

    request: str
    driver: str
    pool: str
    device: str
    admin: bool = False
    consumed: tuple[tuple[QualifiedName, Fraction], ...] = ()  # by name as it is in the slice
    share_id: str = ""  # of a device that several claims may use


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of a claim, and the nodes that they can be used from; ``nodes`` None: all nodes."""

    devices: tuple[AllocatedDevice, ...] = ()
    nodes: NodeSelector | None = None


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A ResourceClaim. ``config`` is what the drivers are told, as it is on the wire.

    Attributes
    ----------
    consumers
        (name, uid) of the pods that it is reserved for.
    owner
        The uid of the pod that it was made for from a template; empty: users made it.
    queue
        The queue by its label.
    extended
        Whether it was made for extended resources of its pod.
    """

    namespace: str
    name: str
    uid: str = ""
    asks: ClaimRequests = ClaimRequests()
    allocation: Allocation | None = None
    consumers: tuple[tuple[str, str], ...] = ()
    owner: str = ""
    queue: str = ""
    extended: bool = False
    deleted: bool = False
    config: tuple[Mapping[str, Any], ...] = ()

    @property
    def key(self) -> ObjectKey:
        return object_key(self.namespace, self.name)


# The kinds of dynamic resource allocation.
ClaimObject = DeviceClass | ResourceSlice | ResourceClaim | DeviceTaintRule


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """How much of an extended resource a container asks for; the reader returns equal lists of a pod as one object.

    Attributes
    ----------
    container, number
        The name of the container, and its place among the init containers and then the others.
    lasting
        Whether it runs as long as the pod: a sidecar, or no init container at all.
    resource, place
        The resource, and its place among all that the container asks for, by name.
    """

    container: str
    number: int
    lasting: bool
    resource: str
    place: int
    count: int


@dataclass(frozen=True, slots=True)
class ExtendedRequests:
    """What is in the claim that is made for a pod's extended resources on one node (API 7.6).

    ``mappings`` has (container, resource, name of the request) for each request that a container uses.
    """

    requests: tuple[DeviceRequest, ...] = ()
    mappings: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod: its name in the pod, and the name of the ResourceClaim; empty while that is not made yet.

    ``named``: the pod names the ResourceClaim itself, not a template.
    """

    name: str
    claim: str = ""
    named: bool = False


def is_extended(resource: str) -> bool:
    """Whether a DeviceClass may stand for the resource (semantics 8.6)."""
    if "/" not in resource or resource.startswith(MIG_PREFIX):
        return False
    return "kubernetes.io/" not in resource or resource.startswith(EXTENDED_PREFIX)


def extended_claim_name(pod: str, uid: str) -> str:
    """The name of the claim that is made for extended resources of the pod (API 7.6): the same for each attempt."""
    return f"{pod[:200].rstrip('.-')}-extended-resources-{sha256((uid or pod).encode()).hexdigest()[:10]}"


def made_claim(key: str, owner: str, made: ExtendedRequests) -> ResourceClaim:
    """The claim that is made for extended resources of the pod with the uid ``owner``, before anything is allocated."""
    namespace, name = split_key(key)
    return ResourceClaim(namespace, name, asks=ClaimRequests(made.requests), owner=owner, extended=True)


def is_gpu_name(name: str) -> bool:
    """Whether a device class or a driver of this name is one of GPUs (semantics 8.6)."""
    return "gpu" in name.lower()
