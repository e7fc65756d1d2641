"""Reads what storage drivers say: CSIDrivers, CSIStorageCapacities and CSINodes."""

from __future__ import annotations

from kai_sched.api import core, storage
from kai_sched.api.custom import INT32_MAX
from kai_sched.model.constraints import NodeSelector
from kai_sched.model.field_errors import FieldError
from kai_sched.model.read.constraints import read_label_selector
from kai_sched.model.read.meta import identity, namespace_of
from kai_sched.model.resources import QuantityError, amount
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver


def read_storage_driver(wire: storage.WireStorageDriver) -> StorageDriver:
    """Raises FieldError where it has no name."""
    tracks = bool(wire.spec and wire.spec.storage_capacity)
    return StorageDriver(identity(wire.metadata or core.Meta()), tracks)


def read_storage_capacity(wire: storage.WireStorageCapacity) -> StorageCapacity:
    """Without a topology it is about no node. Raises FieldError."""
    meta = wire.metadata or core.Meta()
    nodes: NodeSelector | None = ()
    if wire.node_topology is not None:
        term = read_label_selector(wire.node_topology, "nodeTopology")
        nodes = (term,) if term else None
    return StorageCapacity(
        namespace_of(meta),
        identity(meta),
        storage_class=wire.storage_class or "",
        nodes=nodes,
        size_bytes=_size_bytes(wire.capacity, "capacity"),
        largest_bytes=_size_bytes(wire.maximum_volume_size, "maximumVolumeSize"),
    )


def _size_bytes(quantity: core.Quantity | None, field: str) -> float | None:
    try:
        return None if quantity is None else amount("storage", quantity)
    except QuantityError as error:
        raise FieldError(field, str(error)) from None


def read_node_volumes(wire: storage.WireNodeVolumes) -> NodeVolumes:
    """Drivers without a count have no limit. Raises FieldError."""
    found: dict[str, int] = {}
    for i, driver in enumerate((wire.spec.drivers if wire.spec else None) or ()):
        count = driver.allocatable.count if driver.allocatable else None
        if count is None:
            continue
        if not 0 <= count <= INT32_MAX:
            field = f"spec.drivers[{i}].allocatable.count"
            raise FieldError(field, f"{count} is not a number of volumes: give one from 0 to {INT32_MAX}")
        found[driver.name or ""] = count
    return NodeVolumes(identity(wire.metadata or core.Meta()), dict(sorted(found.items())))
