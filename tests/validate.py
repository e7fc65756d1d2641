"""Does a snapshot keep its schema: types, axes, rows that exist, no NaN. For tests and debugging."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL, SCHEMA
from kai_sched.snapshot.tables import Snapshot

TABLES = {
    "Queues": "queues",
    "Nodes": "nodes",
    "Tasks": "tasks",
    "Classes": "classes",
    "Devices": "devices",
    "Signatures": "signatures",
    "Terms": "terms",
    "TermRoles": "term_roles",
    "HostPorts": "host_ports",
    "Topologies": "topologies",
    "Jobs": "jobs",
    "Sets": "sets",
    "DraDevices": "dra_devices",
    "DraRequests": "dra_requests",
    "DraClaims": "dra_claims",
}
# Where the length of each axis is read off.
AXES = {
    "q": ("queues", "parent"),
    "n": ("nodes", "condition"),
    "t": ("tasks", "job"),
    "c": ("classes", "signature"),
    "k": ("signatures", "toleration"),
    "a": ("terms", "kind"),
    "j": ("jobs", "queue"),
    "s": ("sets", "parent"),
    "g": ("devices", "reserved"),
    "x": ("tasks", "device"),
    "v": ("dra_devices", "shared"),
    "h": ("topologies", "level"),
    "w": ("topologies", "leaf"),
    "e": ("dra_devices", "limit"),
    "u": ("dra_devices", "total"),
    "o": ("dra_requests", "wanted"),
    "i": ("dra_claims", "shared"),
    "y": ("dra_claims", "device"),
}


class SnapshotError(ValueError):
    """A snapshot that breaks its schema; names the table and the column."""


def validate(snapshot: Snapshot) -> None:
    """Raise SnapshotError at the first column that is not as ``columns.SCHEMA`` says."""
    length = {axis: len(getattr(getattr(snapshot, table), column)) for axis, (table, column) in AXES.items()}
    length["p"] = len(snapshot.host_ports.ptr) - 1
    length["r"] = snapshot.nodes.allocatable.shape[1]
    for name, attribute in TABLES.items():
        table = getattr(snapshot, attribute)
        if tuple(SCHEMA[name]) != table._fields:
            raise SnapshotError(f"{name}: columns {table._fields} are not those of the schema")
        for column, spec in SCHEMA[name].items():
            values = getattr(table, column)
            where = f"{name}.{column}"
            if values.dtype != np.dtype(spec.dtype):
                raise SnapshotError(f"{where}: {values.dtype} instead of {spec.dtype}")
            if values.flags.writeable or not values.flags.c_contiguous:
                raise SnapshotError(f"{where}: not frozen, or not contiguous")
            _check_shape(where, values.shape, spec.axes.split(), length)
            if spec.row_of and values.size and not (values.min() >= NULL and values.max() < length[spec.row_of]):
                raise SnapshotError(f"{where}: a row that axis {spec.row_of} does not have")
            if values.dtype.kind == "f" and np.isnan(values).any():
                raise SnapshotError(f"{where}: not a number")


def _check_shape(where: str, shape: tuple[int, ...], axes: list[str], length: dict[str, int]) -> None:
    if len(shape) != len(axes):
        raise SnapshotError(f"{where}: {len(shape)} axes instead of {len(axes)}")
    for actual, axis in zip(shape, axes, strict=True):
        if axis == "*":
            continue
        base, _, extra = axis.partition("+")
        wanted = int(axis) if axis.isdigit() else length[base] + int(extra or 0)
        if actual != wanted:
            raise SnapshotError(f"{where}: axis {axis} is {actual} long instead of {wanted}")
