"""What storage drivers say of nodes: how much they can still make where, and how many volumes a node can have attached
(CSIDriver, CSIStorageCapacity, CSINode).

Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.model.constraints import NodeSelector
from kai_sched.model.keys import ObjectKey, object_key


@dataclass(frozen=True, slots=True)
class StorageDriver:
    """A CSIDriver. ``tracks_capacity``: it says by CSIStorageCapacities where it can make volumes."""

    name: str
    tracks_capacity: bool = False

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """A CSIStorageCapacity: how much of a storage class can be made on the nodes of one segment.

    ``nodes`` is None for a segment of all nodes, and () for one of none. ``size_bytes`` and ``largest_bytes``, the
    largest volume, are None where the driver does not say them.
    """

    namespace: str
    name: str
    storage_class: str = ""
    nodes: NodeSelector | None = ()
    size_bytes: float | None = None
    largest_bytes: float | None = None

    @property
    def key(self) -> ObjectKey:
        return object_key(self.namespace, self.name)

    @property
    def bound_bytes(self) -> float:
        """The largest volume that can be made: as the driver says, else all that is left; 0 where it says neither."""
        return self.largest_bytes if self.largest_bytes is not None else self.size_bytes or 0.0


@dataclass(frozen=True, slots=True)
class NodeVolumes:
    """A CSINode: by driver, how many volumes the node of the same name can have attached, where that is limited."""

    name: str
    most: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.name
