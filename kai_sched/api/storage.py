"""Structs of CSIDriver, CSINode and CSIStorageCapacity (storage.k8s.io/v1): only the fields that are read, decoded from
JSON by msgspec.
"""

from __future__ import annotations

from msgspec import field

from kai_sched.api.core import LabelSelector, Meta, Quantity, Wire


class DriverSpec(Wire):
    storage_capacity: bool | None = None


class WireStorageDriver(Wire):
    metadata: Meta | None = None
    spec: DriverSpec | None = None


class Attachable(Wire):
    count: int | None = None


class NodeDriver(Wire):
    name: str | None = None
    allocatable: Attachable | None = None


class NodeDrivers(Wire):
    drivers: list[NodeDriver] | None = None


class WireNodeVolumes(Wire):
    metadata: Meta | None = None
    spec: NodeDrivers | None = None


class WireStorageCapacity(Wire):
    metadata: Meta | None = None
    storage_class: str | None = field(default=None, name="storageClassName")
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    node_topology: LabelSelector | None = None
