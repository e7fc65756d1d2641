"""Structs of the kinds of dynamic resource allocation (resource.k8s.io): only the fields that are read, decoded from
JSON bytes by msgspec.

As in ``core``, every field may be null as well as absent, and structs that share a name with a domain object
(``model.claims.objects``) begin with ``Wire``.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from kai_sched.api.core import Meta, Quantity, Selector, Wire, WireToleration


class CelSelector(Wire):
    expression: str | None = None


class WireSelector(Wire):
    cel: CelSelector | None = None


class DeviceClassSpec(Wire):
    selectors: list[WireSelector] | None = None
    config: list[dict[str, Any]] | None = None
    extended_resource_name: str | None = None


class WireDeviceClass(Wire):
    metadata: Meta | None = None
    spec: DeviceClassSpec | None = None


class Attribute(Wire):
    """One of the four is set."""

    number: int | None = field(default=None, name="int")
    truth: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRange(Wire):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityPolicy(Wire):
    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: CapacityRange | None = None


class WireCapacity(Wire):
    value: Quantity | None = None
    request_policy: CapacityPolicy | None = None


class CounterValue(Wire):
    value: Quantity | None = None


class CounterUse(Wire):
    counter_set: str | None = None
    counters: dict[str, CounterValue] | None = None


class WireDeviceTaint(Wire):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class TaintSelector(Wire):
    device_class_name: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    selectors: list[WireSelector] | None = None


class TaintRuleSpec(Wire):
    device_selector: TaintSelector | None = None
    taint: WireDeviceTaint | None = None


class WireDeviceTaintRule(Wire):
    metadata: Meta | None = None
    spec: TaintRuleSpec | None = None


class WireDevice(Wire):
    name: str | None = None
    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, WireCapacity] | None = None
    consumes_counters: list[CounterUse] | None = None
    node_name: str | None = None
    node_selector: Selector | None = None
    all_nodes: bool | None = None
    taints: list[WireDeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class CounterSet(Wire):
    name: str | None = None
    counters: dict[str, CounterValue] | None = None


class Pool(Wire):
    name: str | None = None
    generation: int | None = None
    resource_slice_count: int | None = None


class SliceSpec(Wire):
    driver: str | None = None
    pool: Pool | None = None
    node_name: str | None = None
    node_selector: Selector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None
    devices: list[WireDevice] | None = None


class WireResourceSlice(Wire):
    metadata: Meta | None = None
    spec: SliceSpec | None = None


class CapacityRequests(Wire):
    requests: dict[str, Quantity] | None = None


class WireRequest(Wire):
    """An exact request, or one alternative of a prioritised list, which has a name of its own."""

    name: str | None = None
    device_class_name: str | None = None
    selectors: list[WireSelector] | None = None
    allocation_mode: str | None = None
    count: int | float | None = None
    admin_access: bool | None = None
    tolerations: list[WireToleration] | None = None
    capacity: CapacityRequests | None = None


class WireDeviceRequest(Wire):
    name: str | None = None
    exactly: WireRequest | None = None
    first_available: list[WireRequest] | None = None


class WireConstraint(Wire):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Wire):
    requests: list[WireDeviceRequest] | None = None
    constraints: list[WireConstraint] | None = None
    config: list[dict[str, Any]] | None = None


class ResourceClaimSpec(Wire):
    devices: DeviceClaim | None = None


class WireResult(Wire):
    request: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None
    consumed_capacity: dict[str, Quantity] | None = None
    share_id: str | None = field(default=None, name="shareID")


class AllocatedDevices(Wire):
    results: list[WireResult] | None = None
    config: list[dict[str, Any]] | None = None


class WireAllocation(Wire):
    devices: AllocatedDevices | None = None
    node_selector: Selector | None = None


class Consumer(Wire):
    resource: str | None = None
    name: str | None = None
    uid: str | None = None


class ClaimStatus(Wire):
    allocation: WireAllocation | None = None
    reserved_for: list[Consumer] | None = None


class WireResourceClaim(Wire):
    metadata: Meta | None = None
    spec: ResourceClaimSpec | None = None
    status: ClaimStatus | None = None
