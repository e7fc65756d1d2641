"""Reads device classes, resource slices, resource claims and device taint rules (resource.k8s.io)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import msgspec

from kai_sched.api import core, dra, names
from kai_sched.model.claims.objects import (
    AllocatedDevice,
    Allocation,
    AttributeValue,
    Capacity,
    ClaimRequests,
    Device,
    DeviceClass,
    DeviceConstraint,
    DeviceOption,
    DeviceRequest,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
    Version,
)
from kai_sched.model.claims.selectors import SELECTORS_MAX
from kai_sched.model.constraints import Taint, Toleration
from kai_sched.model.field_errors import FieldError, Warn, shown
from kai_sched.model.objects import NO_LABELS
from kai_sched.model.read.constraints import read_node_selector
from kai_sched.model.read.meta import identity, namespace_of, time_ns
from kai_sched.model.resources import QuantityError, parse_quantity

_MODES = ("", "ExactCount", "All")
_EFFECTS = ("NoSchedule", "NoExecute", "None")
_OPERATORS = ("", "Exists", "Equal")
_OPTIONS_MAX = 8  # of a prioritised list, as the API server takes them


def read_device_class(wire: dra.WireDeviceClass) -> DeviceClass:
    """Raises FieldError. What its selectors say is found out later (``claims.selectors``)."""
    meta, spec = wire.metadata or core.Meta(), wire.spec or dra.DeviceClassSpec()
    # Scenario files name a class like the resource that it stands for, with a domain and a slash.
    domain, slash, rest = (meta.name or "").partition("/")
    if slash and "." in domain:
        identity(msgspec.structs.replace(meta, name=rest))
    else:
        identity(meta)
    selectors = _selectors(spec.selectors, "spec.selectors")
    return DeviceClass(
        meta.name or "",
        selectors,
        spec.extended_resource_name or "",
        time_ns(meta.creation_timestamp, "metadata.creationTimestamp", _ignore),
        tuple(spec.config or ()),
    )


def _ignore(field: str, message: str) -> None:
    """A time that cannot be read decides ties alone."""


def read_device_taint_rule(wire: dra.WireDeviceTaintRule) -> DeviceTaintRule:
    """Raises FieldError. What its selectors say is found out later (``claims.selectors``)."""
    name, spec = identity(wire.metadata or core.Meta()), wire.spec or dra.TaintRuleSpec()
    if spec.taint is None or not spec.taint.key:
        raise FieldError("spec.taint.key", "missing: give it a value")
    selector = spec.device_selector or dra.TaintSelector()
    return DeviceTaintRule(
        name,
        _taint(spec.taint, "spec.taint"),
        selector.driver or "",
        selector.pool or "",
        selector.device or "",
        selector.device_class_name or "",
        _selectors(selector.selectors, "spec.deviceSelector.selectors"),
        spec.device_selector is not None,
    )


def read_resource_slice(wire: dra.WireResourceSlice, warn: Warn) -> ResourceSlice:
    """Raises FieldError: devices that are half known would be given away wrongly.

    Devices with binding conditions are left out.
    """
    slice_name = identity(wire.metadata or core.Meta())
    spec = wire.spec or dra.SliceSpec()
    pool = spec.pool or dra.Pool()
    for field, value in (("spec.driver", spec.driver), ("spec.pool.name", pool.name)):
        if not value:
            raise FieldError(field, "missing: give it a value")
    counters = _counters(spec.shared_counters, "spec.sharedCounters")
    return ResourceSlice(
        slice_name,
        spec.driver or "",
        pool.name or "",
        pool.generation or 0,
        1 if pool.resource_slice_count is None else pool.resource_slice_count,
        counters,
        tuple(_devices(spec, warn)),
    )


def _devices(spec: dra.SliceSpec, warn: Warn) -> Iterator[Device]:
    for i, each in enumerate(spec.devices or ()):
        path = f"spec.devices[{i}]"
        if each.binding_conditions:
            message = "not supported yet, so the device is not allocated: use a driver without binding conditions"
            warn(f"{path}.bindingConditions", message)
        else:
            yield _device(each, spec, path)


def _device(wire: dra.WireDevice, spec: dra.SliceSpec, path: str) -> Device:
    if not wire.name:
        raise FieldError(f"{path}.name", "missing: give it a value")
    where = wire if spec.per_device_node_selection else spec
    at = path if spec.per_device_node_selection else "spec"
    selector = where.node_selector
    driver = spec.driver or ""
    uses = []
    for i, use in enumerate(wire.consumes_counters or ()):
        for name, amount in (use.counters or {}).items():
            value = _amount(amount.value, f"{path}.consumesCounters[{i}].counters.{name}.value")
            uses.append((use.counter_set or "", name, value))
    return Device(
        wire.name,
        {_qualified(name, driver): _attribute(each) for name, each in sorted((wire.attributes or {}).items())},
        {
            _qualified(name, driver): _capacity(each, f"{path}.capacity.{name}")
            for name, each in sorted((wire.capacity or {}).items())
        },
        tuple(sorted(uses)),
        tuple(_taint(taint, f"{path}.taints[{i}]") for i, taint in enumerate(wire.taints or ())),
        where.node_name or "",
        read_node_selector(selector, f"{at}.nodeSelector") if selector else None,
        bool(where.all_nodes),
        bool(wire.allow_multiple_allocations),
        bool(wire.binds_to_node),
    )


def _qualified(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _attribute(wire: dra.Attribute) -> AttributeValue:
    if wire.version is not None:
        return Version(wire.version)
    found = (value for value in (wire.truth, wire.number, wire.string) if value is not None)
    return next(found, "")


def _amount(quantity: core.Quantity | None, field: str) -> Fraction:
    if quantity is None:
        raise FieldError(field, "missing: give it a value")
    try:
        value = parse_quantity(quantity)
    except QuantityError as error:
        raise FieldError(field, str(error)) from None
    if value < 0:
        raise FieldError(field, f"{shown(quantity)} is below 0: give 0 or more")
    return value


def _capacity(wire: dra.WireCapacity, path: str) -> Capacity:
    policy = wire.request_policy or dra.CapacityPolicy()
    bounds = policy.valid_range or dra.CapacityRange()

    def optional(quantity: core.Quantity | None, name: str) -> Fraction | None:
        return None if quantity is None else _amount(quantity, f"{path}.requestPolicy.{name}")

    return Capacity(
        _amount(wire.value, f"{path}.value"),
        optional(policy.default, "default"),
        tuple(sorted(_amount(each, f"{path}.requestPolicy.validValues") for each in policy.valid_values or ())),
        (optional(bounds.min, "validRange.min") or Fraction(0)) if policy.valid_range else None,
        optional(bounds.max, "validRange.max"),
        optional(bounds.step, "validRange.step"),
    )


def _counters(sets: list[dra.CounterSet] | None, path: str) -> tuple[tuple[str, str, Fraction], ...]:
    return tuple(
        (each.name or "", name, _amount(value.value, f"{path}[{i}].counters.{name}.value"))
        for i, each in enumerate(sets or ())
        for name, value in sorted((each.counters or {}).items())
    )


def _taint(wire: dra.WireDeviceTaint, path: str) -> Taint:
    if wire.effect not in _EFFECTS:
        raise FieldError(f"{path}.effect", f"{shown(wire.effect)} is not an effect: use {', '.join(_EFFECTS)}")
    return Taint(wire.key or "", wire.value or "", wire.effect)


def _selectors(wire: list[dra.WireSelector] | None, path: str) -> tuple[str, ...]:
    found = []
    for i, each in enumerate(wire or ()):
        expression = each.cel.expression if each.cel else None
        if not expression:
            raise FieldError(f"{path}[{i}].cel.expression", "missing: give it an expression")
        found.append(expression)
    return tuple(found)


class ClaimReader:
    """Reads the claims of one cluster; equal requests become one object."""

    def __init__(self, queue_label: str) -> None:
        self._queue_label = queue_label
        self._known: dict[ClaimRequests, ClaimRequests] = {}

    def read(self, wire: dra.WireResourceClaim) -> ResourceClaim:
        """The claim. What it asks for and cannot be read makes its pods wait (``ClaimRequests.fault``): devices that it
        has must not be given to others. Raises FieldError where it has no name, or an allocation that cannot be read.
        """
        meta, status = wire.metadata or core.Meta(), wire.status or dra.ClaimStatus()
        spec = (wire.spec or dra.ResourceClaimSpec()).devices or dra.DeviceClaim()
        labels, annotations = meta.labels or NO_LABELS, meta.annotations or NO_LABELS
        try:
            asks = _asks(spec)
        except FieldError as error:
            asks = ClaimRequests(fault=f"{error.field}: {error.message}")
        if len(self._known) > 10_000:
            self._known.clear()
        owners = (each.uid or "" for each in meta.owner_references or () if each.kind == "Pod")
        return ResourceClaim(
            namespace_of(meta),
            identity(meta),
            meta.uid or "",
            self._known.setdefault(asks, asks),
            _allocation(status.allocation) if status.allocation else None,
            tuple((each.name or "", each.uid or "") for each in status.reserved_for or () if each.resource == "pods"),
            next(owners, ""),
            labels.get(self._queue_label, ""),
            annotations.get(names.EXTENDED_CLAIM_ANNOTATION) == "true",
            bool(meta.deletion_timestamp),
            tuple(spec.config or ()),
        )


def _asks(spec: dra.DeviceClaim) -> ClaimRequests:
    requests = tuple(_request(each, f"spec.devices.requests[{i}]") for i, each in enumerate(spec.requests or ()))
    _distinct([each.name for each in requests], "spec.devices.requests")
    names_of = {each.name for each in requests}
    names_of |= {f"{each.name}/{option.name}" for each in requests for option in each.options if not each.exact}
    constraints = []
    for i, each in enumerate(spec.constraints or ()):
        attribute = each.match_attribute or each.distinct_attribute
        path = f"spec.devices.constraints[{i}]"
        if not attribute:
            raise FieldError(f"{path}.matchAttribute", "missing: give it the name of an attribute")
        for k, name in enumerate(each.requests or ()):
            if name not in names_of:
                raise FieldError(f"{path}.requests[{k}]", f"there is no request {shown(name)}: use the name of one")
        distinct = each.match_attribute is None
        constraints.append(DeviceConstraint(attribute, tuple(each.requests or ()), distinct))
    n_selectors = sum(len(option.selectors) for request in requests for option in request.options)
    if n_selectors > SELECTORS_MAX:
        raise FieldError("spec.devices.requests", f"{n_selectors} selectors: give {SELECTORS_MAX} at most")
    return ClaimRequests(requests, tuple(constraints))


def _request(wire: dra.WireDeviceRequest, path: str) -> DeviceRequest:
    if wire.exactly is not None and wire.first_available:
        raise FieldError(path, "exactly and firstAvailable are given: remove one")
    if wire.exactly is not None:
        return DeviceRequest(wire.name or "", (_option(wire.exactly, f"{path}.exactly", ""),))
    if not wire.first_available:
        raise FieldError(path, "neither exactly nor firstAvailable is given: give one of them")
    path = f"{path}.firstAvailable"
    if len(wire.first_available) > _OPTIONS_MAX:
        raise FieldError(path, f"{len(wire.first_available)} options: give {_OPTIONS_MAX} at most")
    options = tuple(_option(each, f"{path}[{i}]", each.name or "") for i, each in enumerate(wire.first_available))
    _distinct([each.name for each in options], path)
    return DeviceRequest(wire.name or "", options, exact=False)


def _distinct(found: list[str], path: str) -> None:
    """Raise FieldError where a name is missing or occurs twice."""
    for i, name in enumerate(found):
        if not name:
            raise FieldError(f"{path}[{i}].name", "missing: give it a name")
        if name in found[:i]:
            raise FieldError(f"{path}[{i}].name", f"{shown(name)} is the name of another one: give each its own")


def _option(wire: dra.WireRequest, path: str, name: str) -> DeviceOption:
    if not wire.device_class_name:
        raise FieldError(f"{path}.deviceClassName", "missing: give it the name of a DeviceClass")
    mode = wire.allocation_mode or ""
    if mode not in _MODES:
        raise FieldError(f"{path}.allocationMode", f"{shown(mode)} is not a mode: use ExactCount or All")
    if mode == "All" and wire.count:
        raise FieldError(f"{path}.count", "the mode All takes all devices: remove the count, or the mode")
    if mode != "All" and wire.count is not None and (wire.count < 1 or wire.count != int(wire.count)):
        raise FieldError(f"{path}.count", f"{shown(wire.count)} is no whole number above 0: correct it")
    asked = (wire.capacity.requests if wire.capacity else None) or {}
    return DeviceOption(
        wire.device_class_name,
        name,
        _selectors(wire.selectors, f"{path}.selectors"),
        None if mode == "All" else int(wire.count or 1),
        bool(wire.admin_access),
        tuple(_tolerations(wire.tolerations or (), f"{path}.tolerations")),
        tuple(sorted((key, _amount(value, f"{path}.capacity.requests.{key}")) for key, value in asked.items())),
    )


def _tolerations(wire: Iterable[core.WireToleration], path: str) -> Iterator[Toleration]:
    for i, each in enumerate(wire):
        if (each.operator or "") not in _OPERATORS:
            raise FieldError(f"{path}[{i}].operator", f"{shown(each.operator)} is not an operator: use Exists or Equal")
        yield Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")


def _allocation(wire: dra.WireAllocation) -> Allocation:
    return read_allocation(wire, "status.allocation")


def read_allocation(wire: dra.WireAllocation, path: str) -> Allocation:
    """The allocation at ``path`` of an object. Raises FieldError."""
    results = (wire.devices.results if wire.devices else None) or ()
    return Allocation(
        tuple(
            AllocatedDevice(
                each.request or "",
                each.driver or "",
                each.pool or "",
                each.device or "",
                bool(each.admin_access),
                _consumed(each.consumed_capacity or {}, f"{path}.devices.results[{i}].consumedCapacity"),
                each.share_id or "",
            )
            for i, each in enumerate(results)
        ),
        read_node_selector(wire.node_selector, f"{path}.nodeSelector") if wire.node_selector else None,
    )


def _consumed(amounts: Mapping[str, core.Quantity], path: str) -> tuple[tuple[str, Fraction], ...]:
    return tuple(sorted((name, _amount(value, f"{path}.{name}")) for name, value in amounts.items()))
