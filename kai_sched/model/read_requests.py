"""The request of a pod: containers, sidecars, init containers, pod-level amounts and overhead taken together
(semantics 0.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kai_sched.api import core
from kai_sched.model.claims import ContainerDevices, is_extended
from kai_sched.model.faults import decode_part, shown
from kai_sched.model.recent import Recent
from kai_sched.model.resources import MIG_PREFIX, PODS, QuantityError, amount, canonical, parse_quantity

Request = dict[str, float]
# (field, message): an amount that could not be read and is left out.
Finding = tuple[str, str]

SIDECAR_POLICY = "Always"
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


class RequestReader:
    """Reads requests of pods, and caches them by raw text: most pods of a cluster share a few."""

    def __init__(self) -> None:
        self._containers: Recent[bytes, _Known] = Recent()
        self._extended: dict[tuple[ContainerDevices, ...], tuple[ContainerDevices, ...]] = {}

    def read(self, spec: core.PodSpec) -> tuple[Request, list[Finding]]:
        """The request of the pod, with ``pods`` 1, and findings about amounts that are left out. Raises FieldError."""
        total: Request = {}
        peak: Request = {}
        findings: list[Finding] = []
        for i, container in enumerate(spec.init_containers or ()):
            request = self._container(container, f"spec.initContainers[{i}]", findings)
            if container.restart_policy == SIDECAR_POLICY:
                _add(total, request)
                continue
            for name, value in request.items():
                peak[name] = max(peak.get(name, 0.0), value + total.get(name, 0.0))
        for i, container in enumerate(spec.containers or ()):
            _add(total, self._container(container, f"spec.containers[{i}]", findings))
        for name, value in peak.items():
            total[name] = max(total.get(name, 0.0), value)
        if raw := bytes(spec.resources):
            findings.extend(_raise_to_pod_level(total, raw))
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


def _raise_to_pod_level(total: Request, raw: bytes) -> list[Finding]:
    """Raise the total to the pod-level request, in place; a limit counts as a request where there is none."""
    resources = decode_part(_resources, raw, "spec.resources") or core.ResourceRequirements()
    asked, bad = read_amounts(resources.requests, "spec.resources.requests")
    limits = {name: value for name, value in (resources.limits or {}).items() if canonical(name) not in total | asked}
    implied, bad_limits = read_amounts(limits, "spec.resources.limits")
    for name, value in (asked | implied).items():
        total[name] = max(total.get(name, 0.0), value)
    return bad + bad_limits


def _add(total: Request, more: Mapping[str, float]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + value
