"""Compile every kernel into the cache by running each stage once, on a snapshot with one row of everything."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import SCHEMA
from kai_sched.snapshot.tables import (
    Bonds,
    Classes,
    Jobs,
    Nodes,
    Queues,
    Sets,
    Settings,
    Signatures,
    Snapshot,
    Tasks,
    Terms,
    freeze,
)
from kai_sched.solver import jit
from kai_sched.solver.pipeline import solve
from kai_sched.solver.stages.fair_share import divide

EVERYTHING = ("allocate",)


def compile_all() -> None:
    """Run all stages once with the types of real snapshots, and mark the cache as complete."""
    solve(empty_snapshot(), Settings(1.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 1, 1, 1), EVERYTHING)
    column = np.zeros(1)
    divide(1.0, 1.0, column, column, column, column, column, np.zeros(1, np.int64), np.zeros(1, np.int64))
    jit.mark_warm()


def empty_snapshot() -> Snapshot:
    """A snapshot of an empty cluster: the types are all that compilation needs."""

    def empty(table: type) -> object:
        columns = []
        for name, spec in SCHEMA[table.__name__].items():
            shape = [3 if axis == "3" else _length(axis) for axis in spec.axes.split()]
            columns.append(np.zeros(shape, spec.dtype))
            assert table.__annotations__[name], name
        return freeze(table(*columns))

    tables = [empty(table) for table in (Queues, Nodes, Tasks, Classes, Signatures, Terms, Bonds)]
    ports = np.zeros((0, 0), np.uint8)
    ports.flags.writeable = False
    return Snapshot(*tables, ports, empty(Jobs), empty(Sets), 0)  # type: ignore[arg-type]


def _length(axis: str) -> int:
    """Offsets are one longer than their axis, resources are four at least, all else is empty."""
    if "+" in axis:
        return int(axis.split("+")[1])
    return 4 if axis == "r" else 0
