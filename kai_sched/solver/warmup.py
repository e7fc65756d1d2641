"""Which kernels are compiled into the cache in advance, and the empty snapshot on which they are called.

Numba compiles a kernel for the types of its arguments, not for their sizes, so empty tables of the right types are
enough. ``kai-sched warmup`` does this while an image is built.

Invariant: afterwards no process that uses the cache compiles anything. A kernel that is called by Python and by no
stage has to be called here, or the first process that needs it compiles it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import numpy as np

from kai_sched.snapshot.claim_tables import DraClaims, DraDevices, DraRequests
from kai_sched.snapshot.columns import NULL, SCHEMA
from kai_sched.snapshot.numa_tables import NumaRequests, NumaZones
from kai_sched.snapshot.tables import (
    Classes,
    Devices,
    HostPorts,
    Jobs,
    Nodes,
    Queues,
    Sets,
    Settings,
    Signatures,
    Snapshot,
    Tasks,
    TermRoles,
    Terms,
    Topologies,
    Volumes,
    freeze,
)
from kai_sched.solver import jit
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.kernels.feasibility import judge_signature
from kai_sched.solver.pipeline import count_amounts, solve
from kai_sched.solver.stages.fair_share import divide

Table = TypeVar("Table")

EVERYTHING = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")


def compile_all() -> None:
    """Run all stages, and the kernels that stages do not call, once with the types of real snapshots.

    Afterwards the cache is marked as complete, which lets it be used on a read-only file system (``solver.jit``).
    """
    solve(empty_snapshot(), plain_settings(), EVERYTHING).line()
    count_amounts(empty_snapshot(), plain_settings(), np.zeros(0, np.int32))
    column = np.zeros(1)
    divide(1.0, 1.0, column, column, column, column, column, np.zeros(1, np.int64), np.zeros(1, np.int64))
    sides_of(0, 0, freeze((np.full(1, NULL, np.int32),))[0])
    empty = empty_snapshot()
    judge_signature(0, empty.nodes, empty.signatures, np.zeros(0, np.uint8))
    jit.mark_warm()


def plain_settings() -> Settings:
    """Return settings with 1 in every field, of the type of the field, so that no stage is switched off."""
    columns: dict[str, Any] = {name: kind(1) for name, kind in get_type_hints(Settings).items()}
    return Settings(**columns)


def empty_snapshot() -> Snapshot:
    """Return the snapshot of an empty cluster: all axes have length 0, but for resources, which are 4.

    The columns are read-only, as those of real snapshots are: numba has a type of its own for such arrays.
    """
    return Snapshot(
        queues=_empty(Queues),
        nodes=_empty(Nodes),
        devices=_empty(Devices),
        tasks=_empty(Tasks),
        classes=_empty(Classes),
        signatures=_empty(Signatures),
        terms=_empty(Terms),
        term_roles=_empty(TermRoles),
        host_ports=_empty(HostPorts),
        volumes=_empty(Volumes),
        topologies=_empty(Topologies),
        numa=_empty(NumaZones),
        numa_requests=_empty(NumaRequests),
        jobs=_empty(Jobs),
        sets=_empty(Sets),
        dra_devices=_empty(DraDevices),
        dra_requests=_empty(DraRequests),
        dra_claims=_empty(DraClaims),
        n_domains=0,
    )


def _empty(table: Callable[..., Table]) -> Table:
    """Return the table with empty, read-only columns of the types in the schema.

    TypeError if the columns of the table are not those of the schema.
    """
    columns = {}
    for name, spec in SCHEMA[table.__name__].items():
        shape = [int(axis) if axis.isdigit() else _length(axis) for axis in spec.axes.split()]
        columns[name] = np.zeros(shape, spec.dtype)
    frozen: Table = freeze(table(**columns))
    return frozen


def _length(axis: str) -> int:
    """Return the length of an axis: offsets are one or two longer than their axis, resources are 4, all else is 0."""
    if "+" in axis:
        return int(axis.split("+")[1])
    return 4 if axis == "r" else 0


if __name__ == "__main__":
    compile_all()
