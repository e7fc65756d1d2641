"""The request of a pod: containers, sidecars, init containers, pod-level amounts and overhead taken together, and what
the kubelet has given it while it is resized in place (semantics 0.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kai_sched.api import core
from kai_sched.model.claims.objects import ContainerDevices, is_extended
from kai_sched.model.field_errors import decode_part, shown
from kai_sched.model.read.parse_cache import Recent
from kai_sched.model.resources import CPU, MEMORY, MIG_PREFIX, PODS, QuantityError, amount, canonical, parse_quantity

Request = dict[str, float]
# (field, message): an amount that could not be read and is left out.
Finding = tuple[str, str]

SIDECAR_POLICY = "Always"
RESIZABLE = (CPU, MEMORY)  # what Kubernetes changes while a container runs
INFEASIBLE = "Infeasible"
EXTENDED_MAX = 10_000  # distinct lists of extended resources that are kept

_resources = msgspec.json.Decoder(core.ResourceRequirements | None)
_amounts = msgspec.json.Decoder(dict[str, core.Quantity] | None)


def read_amounts(quantities: Mapping[str, core.Quantity] | None, field: str) -> tuple[Request, list[Finding]]:
    """Amounts in scheduler units by resource, all GPU names added up; and findings about those that are left out."""
    amounts: Request = {}
    findings: list[Finding] = []
    for name, quantity in (quantities or {}).items():
        try:
            value = amount(name, quantity)
        except QuantityError as error:
            findings.append((f"{field}.{name}", str(error)))
            continue
        if value < 0:
            findings.append((f"{field}.{name}", f"{shown(quantity)} is below 0: give 0 or more"))
            continue
        if (is_extended(name) or name.startswith(MIG_PREFIX)) and parse_quantity(quantity).denominator != 1:
            findings.append(
                (f"{field}.{name}", f"{shown(quantity)} is no whole number: give one, as the API server asks")
            )
            continue
        key = canonical(name)
        amounts[key] = amounts.get(key, 0.0) + value
    return amounts, findings


class _Known(NamedTuple):
    """What is read of the resources of a container; ``extended`` has (resource, place, count) of extended ones."""

    request: Request
    findings: tuple[Finding, ...]
    extended: tuple[tuple[str, int, int], ...]


NOTHING = _Known({}, (), ())
NO_STATUS = core.PodStatus()


class _Given(NamedTuple):
    """What the kubelet has given each container, and the pod as a whole, of resources that can be resized.

    Empty unless the status tells. ``is_refused``: the node can never meet what the spec asks for, so the spec does not
    count.
    """

    containers: Mapping[str, Request]
    pod: Request | None
    is_refused: bool


NONE_GIVEN = _Given({}, None, False)


class RequestReader:
    """Reads requests of pods, and caches them by raw text: most pods of a cluster share a few."""

    def __init__(self) -> None:
        self._containers: Recent[bytes, _Known] = Recent()
        self._extended: dict[tuple[ContainerDevices, ...], tuple[ContainerDevices, ...]] = {}
        self._statuses: Recent[tuple[bytes, bytes], Request] = Recent()

    def read(self, spec: core.PodSpec, status: core.PodStatus = NO_STATUS) -> tuple[Request, list[Finding]]:
        """The request of the pod, with ``pods`` 1, and findings about amounts that are left out. Raises FieldError."""
        given = self._given(status) if spec.node_name else NONE_GIVEN
        total: Request = {}
        peak: Request = {}
        findings: list[Finding] = []
        for i, container in enumerate(spec.init_containers or ()):
            request = self._container(container, f"spec.initContainers[{i}]", findings)
            if container.restart_policy == SIDECAR_POLICY:
                _add(total, _held(request, given.containers.get(container.name or ""), given.is_refused))
                continue
            for name, value in request.items():
                peak[name] = max(peak.get(name, 0.0), value + total.get(name, 0.0))
        for i, container in enumerate(spec.containers or ()):
            request = self._container(container, f"spec.containers[{i}]", findings)
            _add(total, _held(request, given.containers.get(container.name or ""), given.is_refused))
        for name, value in peak.items():
            total[name] = max(total.get(name, 0.0), value)
        if raw := bytes(spec.resources):
            findings.extend(_raise_to_pod_level(total, raw, given))
        if raw := bytes(spec.overhead):
            overhead, bad = read_amounts(decode_part(_amounts, raw, "spec.overhead"), "spec.overhead")
            _add(total, overhead)
            findings.extend(bad)
        total[PODS] = 1.0
        return total, findings

    def extended(self, spec: core.PodSpec) -> tuple[ContainerDevices, ...]:
        """How much of extended resources the containers ask for. Raises FieldError."""
        inits = spec.init_containers or []
        found = tuple(
            ContainerDevices(
                container.name or "", i, i >= len(inits) or container.restart_policy == SIDECAR_POLICY, *each
            )
            for i, container in enumerate([*inits, *(spec.containers or ())])
            for each in self._known(container, "spec").extended
        )
        if len(self._extended) > EXTENDED_MAX:
            self._extended.clear()
        return self._extended.setdefault(found, found)

    def _given(self, status: core.PodStatus) -> _Given:
        """What the status tells of the resources that the kubelet has given. Raises FieldError."""
        containers = {
            each.name or "": given
            for field, statuses in (
                ("status.initContainerStatuses", status.init_container_statuses),
                ("status.containerStatuses", status.container_statuses),
            )
            for i, each in enumerate(statuses or ())
            if (given := self._status(each.resources, each.allocated_resources, f"{field}[{i}]")) is not None
        }
        pod = self._status(status.resources, status.allocated_resources, "status")
        if not containers and pod is None:
            return NONE_GIVEN
        return _Given(containers, pod, _is_refused(status))

    def _status(self, resources: msgspec.Raw, allocated: msgspec.Raw, field: str) -> Request | None:
        """The larger of what is in effect and what is allocated; None where the status tells neither."""
        raws = bytes(resources), bytes(allocated)
        if not any(raws):
            return None
        given = self._statuses.get(raws)
        if given is None:
            effective = decode_part(_resources, raws[0] or b"null", f"{field}.resources") or core.ResourceRequirements()
            parts = effective.requests, decode_part(_amounts, raws[1] or b"null", f"{field}.allocatedResources")
            # Amounts that cannot be read are left out: the spec counts, which says the same of most pods.
            amounts = [read_amounts(part, field)[0] for part in parts]
            given = {
                name: max(each.get(name, 0.0) for each in amounts)
                for name in RESIZABLE
                if any(name in each for each in amounts)
            }
            self._statuses.put(raws, given, sum(map(len, raws)))
        return given

    def container_request(self, container: core.Container) -> Request:
        """What the container requests by itself, but for amounts that are left out. Raises FieldError."""
        return self._known(container, "spec").request

    def _container(self, container: core.Container, field: str, findings: list[Finding]) -> Request:
        known = self._known(container, field)
        findings.extend((f"{field}.resources.{path}", message) for path, message in known.findings)
        return known.request

    def _known(self, container: core.Container, field: str) -> _Known:
        raw = bytes(container.resources)
        if not raw:
            return NOTHING
        known = self._containers.get(raw)
        if known is None:
            known = self._containers.put(raw, _container_request(raw, f"{field}.resources"), len(raw))
        return known


def _container_request(raw: bytes, field: str) -> _Known:
    """The requests of a container. A missing request is the limit, as the API server sets it."""
    resources = decode_part(_resources, raw, field) or core.ResourceRequirements()
    asked = resources.requests or {}
    request, bad = read_amounts(asked, "requests")
    limits = {name: value for name, value in (resources.limits or {}).items() if name not in asked}
    implied, bad_limits = read_amounts(limits, "limits")
    _add(request, implied)
    extended = []
    for place, (name, quantity) in enumerate(sorted({**limits, **asked}.items())):
        if is_extended(name) and (count := _count(quantity)):
            extended.append((name, place, count))
    return _Known(request, tuple(bad + bad_limits), tuple(extended))


def _count(quantity: core.Quantity) -> int:
    """How many devices that are; 0 where the quantity cannot be read, of which there is a finding."""
    try:
        return max(0, math.ceil(parse_quantity(quantity)))
    except QuantityError:
        return 0


def _is_refused(status: core.PodStatus) -> bool:
    """Whether the kubelet has refused the resize for good: the node is too small for it."""
    pending = (each for each in status.conditions or () if each.type == "PodResizePending" and each.status == "True")
    return status.resize == INFEASIBLE or any(each.reason == INFEASIBLE for each in pending)


def _held(request: Request, given: Request | None, is_refused: bool) -> Request:
    """What a container holds that asks for ``request`` and was ``given`` this; None: its status does not tell.

    The larger amount: a container that shrinks holds what it had until it has given it back, and one that grows shall
    find the room free. If the resize is refused, that is what was given.
    """
    if given is None:
        return request
    if is_refused:
        return {name: amount for name, amount in request.items() if name not in RESIZABLE} | given
    if all(request.get(name, 0.0) >= amount for name, amount in given.items()):
        return request
    return request | {name: max(request.get(name, 0.0), amount) for name, amount in given.items()}


def _raise_to_pod_level(total: Request, raw: bytes, given: _Given) -> list[Finding]:
    """Raise the total to the pod-level request, in place; a limit counts as a request where there is none."""
    resources = decode_part(_resources, raw, "spec.resources") or core.ResourceRequirements()
    asked, bad = read_amounts(resources.requests, "spec.resources.requests")
    limits = {name: value for name, value in (resources.limits or {}).items() if canonical(name) not in total | asked}
    implied, bad_limits = read_amounts(limits, "spec.resources.limits")
    for name, value in _held(asked | implied, given.pod, given.is_refused).items():
        total[name] = max(total.get(name, 0.0), value)
    return bad + bad_limits


def _add(total: Request, more: Mapping[str, float]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + value
