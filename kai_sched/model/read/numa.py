"""Reads what NUMA alignment goes by: the zones of nodes, what of a request is aligned, and what pods hold of zones
(semantics 12.4).

Without the plugin `numa` nothing is read, so that pods that differ in containers alone stay one shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kai_sched.api import core, names
from kai_sched.api.node_topology import WireNodeTopology, WirePlacement, WireZone
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, Warn, decode_part, shown
from kai_sched.model.numa import (
    CONTAINERS_MAX,
    NO_PLACEMENT,
    PLUGIN,
    ZONES_MAX,
    Alignment,
    Amounts,
    ContainerRequest,
    NodeZone,
    NodeZones,
    NumaRequest,
    Placement,
    ZoneAmounts,
    is_device,
    zone_order,
)
from kai_sched.model.read.meta import identity
from kai_sched.model.read.parse_cache import Recent
from kai_sched.model.read.requests import SIDECAR_POLICY, Request, RequestReader, read_amounts
from kai_sched.model.resources import CPU, MEMORY, PODS

Quantities = Iterable[tuple[str | None, core.Quantity | None]]

GUARANTEED = "Guaranteed"
POD_SCOPE = "pod"
NODE_ZONE = "Node"
CORE = 1000.0  # millicores
TOO_MANY = f"more than {CONTAINERS_MAX} containers that NUMA zones have to hold"

_POLICIES = {
    "best-effort": Alignment.BEST_EFFORT,
    "restricted": Alignment.RESTRICTED,
    "single-numa-node": Alignment.SINGLE,
}
# How older agents say both policy and scope.
_WORDS = {
    "BestEffort": (Alignment.BEST_EFFORT, False),
    "BestEffortContainerLevel": (Alignment.BEST_EFFORT, False),
    "BestEffortPodLevel": (Alignment.BEST_EFFORT, True),
    "Restricted": (Alignment.RESTRICTED, False),
    "RestrictedContainerLevel": (Alignment.RESTRICTED, False),
    "RestrictedPodLevel": (Alignment.RESTRICTED, True),
    "SingleNUMANodeContainerLevel": (Alignment.SINGLE, False),
    "SingleNUMANodePodLevel": (Alignment.SINGLE, True),
}

_placements = msgspec.json.Decoder(list[WirePlacement])
_resources = msgspec.json.Decoder(core.ResourceRequirements | None)


class NumaReader:
    """Reads for one configuration. ``is_on``: the plugin is; else everything reads as if there were no zones."""

    def __init__(self, config: Config, requests: RequestReader) -> None:
        arguments = config.plugins.get(PLUGIN)
        self.is_on = arguments is not None
        # Agents report anew what is available with each pod that comes and goes. What does not count is not read.
        self._reads_available = not reconstructs(arguments or {})
        self._requests = requests
        self._guaranteed: Recent[bytes, bool] = Recent()

    def node_zones(self, wire: WireNodeTopology, warn: Warn) -> NodeZones:
        """Raises FieldError, for malformed quantities too."""
        meta = wire.metadata or core.Meta()
        name, uid = identity(meta), meta.uid or ""
        if not self.is_on:
            return NodeZones(name, uid)
        policy, pod_scope = _policy(wire, warn)
        found: dict[str, NodeZone] = {}
        for i, zone in enumerate(wire.zones or ()):
            if zone.type != NODE_ZONE:
                continue
            if not zone.name or zone.name in found:
                raise FieldError(f"zones[{i}].name", f"{shown(zone.name)}: give each zone a name of its own")
            found[zone.name] = self._zone(zone, f"zones[{i}]")
        if len(found) > ZONES_MAX:
            raise FieldError("zones", f"{len(found)} zones of type {NODE_ZONE}: {ZONES_MAX} are the most")
        zones = sorted(found.values(), key=lambda zone: zone_order(zone.name))
        return NodeZones(name, uid, policy, pod_scope, tuple(zones))

    def _zone(self, zone: WireZone, field: str) -> NodeZone:
        resources = [each for each in zone.resources or () if each.name]
        allocatable = [(each.name, each.allocatable) for each in resources]
        available = [(each.name, each.available) for each in resources] if self._reads_available else []
        return NodeZone(
            zone.name or "", _amounts(allocatable, f"{field}.allocatable"), _amounts(available, f"{field}.available")
        )

    def request(self, spec: core.PodSpec, status: core.PodStatus, total: Request) -> NumaRequest | None:
        """What of the pod's request is aligned; None: nothing. ``total`` is what the containers request together."""
        guaranteed = status.qos_class == GUARANTEED if status.qos_class else self._is_guaranteed(spec)
        inits, others = spec.init_containers or [], spec.containers or []
        requests = [self._requests.container_request(each) for each in inits]
        sidecars = [each.restart_policy == SIDECAR_POLICY for each in inits]
        apart = [request for request, stays in zip(requests, sidecars, strict=True) if not stays]
        together = [request for request, stays in zip(requests, sidecars, strict=True) if stays]
        together += [self._requests.container_request(each) for each in others]
        pod = dict(total)
        if cpu := _exclusive_cpu(requests, sidecars, together):
            pod[CPU] = cpu
        else:
            pod.pop(CPU, None)
        listed = [(True, each) for each in apart] + [(False, each) for each in together]
        found = [ContainerRequest(first, amounts) for first, each in listed if (amounts := _aligned(each, guaranteed))]
        whole = _aligned(pod, guaranteed)
        return NumaRequest(guaranteed, whole, tuple(found)) if guaranteed or whole else None

    def _is_guaranteed(self, spec: core.PodSpec) -> bool:
        """As Kubernetes derives the class of service, where the status does not say it."""
        if raw := bytes(spec.resources):
            return self._is_limited(raw)
        containers = (*(spec.init_containers or ()), *(spec.containers or ()))
        return bool(containers) and all(self._is_limited(bytes(each.resources)) for each in containers)

    def _is_limited(self, raw: bytes) -> bool:
        """Whether limits of CPU and memory are set and requested in full."""
        known = self._guaranteed.get(raw) if raw else False
        if known is None:
            resources = decode_part(_resources, raw, "resources") or core.ResourceRequirements()
            limits, requests = (read_amounts(part, "")[0] for part in (resources.limits, resources.requests))
            each = ((limits.get(name, 0.0), requests.get(name)) for name in (CPU, MEMORY))
            known = all(limit > 0.0 and request in (None, limit) for limit, request in each)
            self._guaranteed.put(raw, known, len(raw))
        return known

    def placement(self, annotations: Mapping[str, str], warn: Warn) -> tuple[Placement, bool]:
        """What the pod holds of zones as its annotations say, and whether that was observed. Bad ones are ignored."""
        for key in (names.NUMA_OBSERVED_ANNOTATION, names.NUMA_PREDICTED_ANNOTATION):
            if text := annotations.get(key):
                field = f"metadata.annotations[{key}]"
                try:
                    wires = decode_part(_placements, text.encode(), field)
                    found = read_placement(wires, field)
                except (FieldError, UnicodeEncodeError) as error:
                    message = error.message if isinstance(error, FieldError) else "no text"
                    warn(field, f"{message}; what the pod holds of NUMA zones is not known from it")
                    continue
                if found:
                    return found, key == names.NUMA_OBSERVED_ANNOTATION
        return NO_PLACEMENT, False


def reconstructs(arguments: Mapping[str, str]) -> bool:
    """Whether what is available of zones follows from what pods hold; else agents report it. True unless it is off."""
    return arguments.get("reconstructAvailable", "true").strip().lower() not in ("false", "f", "0")


def read_placement(wires: Iterable[WirePlacement], field: str) -> Placement:
    """What a pod holds of zones, by the name of the zone; a zone that is there twice adds up. Raises FieldError."""
    found: dict[str, Request] = {}
    for i, wire in enumerate(wires):
        if not wire.zone:
            raise FieldError(f"{field}[{i}].zone", "missing: name a zone")
        amounts = _amounts((wire.amount or {}).items(), f"{field}[{i}].amount")
        zone = found.setdefault(wire.zone, {})
        for name, amount in amounts.items():
            zone[name] = zone.get(name, 0.0) + amount
    if len(found) > ZONES_MAX:
        raise FieldError(field, f"{len(found)} zones: {ZONES_MAX} are the most")
    return tuple(ZoneAmounts(zone, _sorted(amounts)) for zone, amounts in sorted(found.items()))


def _policy(wire: WireNodeTopology, warn: Warn) -> tuple[Alignment, bool]:
    """Policy, and whether the scope is the pod: by the attributes, else by the one word of older agents."""
    attributes = {each.name: each.value or "" for each in wire.attributes or ()}
    policy, scope = attributes.get("topologyManagerPolicy"), attributes.get("topologyManagerScope")
    if policy is None:
        word = (wire.topology_policies or [""])[0]
        found, pod_scope = _WORDS.get(word, (Alignment.NONE, False))
        return found, pod_scope if scope is None else scope == POD_SCOPE
    if policy not in _POLICIES and policy != "none":
        warn("attributes", f"topologyManagerPolicy {shown(policy)} is not known, so pods are not aligned there")
    return _POLICIES.get(policy, Alignment.NONE), scope == POD_SCOPE


def _amounts(quantities: Quantities, field: str) -> Request:
    """Amounts by resource. Raises FieldError for what is no quantity: half an object would be filled wrongly."""
    given = {name: quantity for name, quantity in quantities if name and quantity is not None}
    amounts, findings = read_amounts(given, field)
    for where, message in findings:
        raise FieldError(where, message)
    return amounts


def _exclusive_cpu(inits: list[Request], sidecars: list[bool], together: list[Request]) -> float:
    """Millicores of the pod as a whole: only containers count that ask for whole cores."""
    before, peak = 0.0, 0.0
    for request, stays in zip(inits, sidecars, strict=True):
        if stays:
            before += _cores(request)
        else:
            peak = max(peak, before + _cores(request))
    return max(peak, sum(map(_cores, together)))


def _cores(request: Mapping[str, float]) -> float:
    """The millicores of a container that asks for whole cores; 0 of others, whose CPU is shared."""
    cpu = request.get(CPU, 0.0)
    return cpu if cpu % CORE == 0.0 else 0.0


def _aligned(request: Mapping[str, float], guaranteed: bool) -> Amounts:
    """What of a request is aligned: of guaranteed pods all but CPU that is shared, else devices."""
    return _sorted(
        {
            name: amount
            for name, amount in request.items()
            if amount and name != PODS and (is_device(name) or (guaranteed and (name != CPU or amount % CORE == 0.0)))
        }
    )


def _sorted(amounts: Mapping[str, float]) -> Amounts:
    return tuple(sorted(amounts.items()))
