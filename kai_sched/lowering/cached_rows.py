"""The row tables and the numbers of names that ``lowering.cache`` keeps between cycles, and the columns of its pods and
groups.

``lowering.cache`` fills the tables, so that the cost of a cycle depends on the changes, not on the size of the cluster.
Row numbers and the numbers of ``Names`` never appear in a snapshot, as they depend on the history of the cache.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.errors import ErrorCollector
from kai_sched.model.objects import Object

# New rows are merged into the order if there are this many times as many old rows; else sorting all is cheaper.
MERGED = 16
Entry = tuple[str, Any, Any, tuple[int, ...]]  # key, sort key, object, cells


class PodCell(enum.IntEnum):
    """Columns of the cache's table of pods."""

    GROUP = 0
    SUB_GROUP = 1
    CLASS = 2
    NODE = 3
    BINDING = 4
    NOMINATED = 5
    PHASE = 6
    DELETED = 7
    GATED = 8
    FOREIGN = 9
    KUBEFLOW = 10  # the task order begins here, smaller first (1.3: kubeflow, ray, taskorder)
    RAY = 11
    LABELLED = 12
    TASK_PRIORITY = 13
    LABEL_SET = 14  # number of the pod's namespace and labels; NULL while there are no inter-pod terms


class GroupCell(enum.IntEnum):
    """Columns of the cache's table of pod groups."""

    ID = 0
    QUEUE = 1
    PRIORITY_CLASS = 2
    PREEMPTIBLE = 3
    LAYOUT = 4
    BARE = 5
    LAST_START = 6
    MAY_EVICT_AT = 7
    STALE_SINCE = 8
    GRACE = 9


class Names:
    """Consecutive numbers for names. A name keeps its number, even if nothing uses it, until the cache is reset."""

    def __init__(self) -> None:
        self._rows: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, name: Any) -> int:
        """The number of the name; a name without one gets the next number."""
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = len(self._rows)
        return found

    def items(self) -> Iterable[tuple[Any, int]]:
        return self._rows.items()


class RowTable:
    """Objects of one kind as rows of an integer matrix, with a sort key each.

    Attributes
    ----------
    row_of
        The row by key of the object.
    cells
        (capacity, n_columns) the matrix; rows that are in use are those in ``row_of``.
    objects
        (capacity,) the object of each row; None where the row is free.

    Notes
    -----
    ``put`` costs O(changes). ``ordered`` costs O(changes * log n) plus one copy of the order if few rows changed, and a
    sort of all rows otherwise.
    """

    def __init__(self, n_columns: int) -> None:
        self.row_of: dict[str, int] = {}
        self.cells: npt.NDArray[np.int64] = np.zeros((64, n_columns), np.int64)
        self.objects: npt.NDArray[np.object_] = np.empty(64, object)
        self._keys: list[Any] = []
        self._free: list[int] = []
        # Rows to remove from the order, and then rows to insert.
        self._left: set[int] = set()
        self._came: set[int] = set()
        self._ordered: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.row_of)

    def put(self, entries: list[Entry]) -> None:
        """Add or replace objects. An object keeps its row; a new object gets a free row."""
        if not entries:
            return
        rows = self._claim_all(entries)
        self._reserve(len(self._keys))
        n_columns = self.cells.shape[1]
        # Twice as fast as an array of tuples, of which a whole cluster has many.
        flat = chain.from_iterable([cells for _, _, _, cells in entries])
        self.cells[rows] = np.fromiter(flat, np.int64, len(rows) * n_columns).reshape(len(rows), n_columns)
        items = np.empty(len(rows), object)
        items[:] = [item for _, _, item, _ in entries]
        self.objects[rows] = items

    def _claim_all(self, entries: list[Entry]) -> list[int]:
        """The row of each entry. An empty table, as at the start, gets its rows in the order of the entries."""
        if not self._keys:
            row_of = {key: row for row, (key, _, _, _) in enumerate(entries)}
            if len(row_of) == len(entries):
                self.row_of = row_of
                self._keys = [sort_key for _, sort_key, _, _ in entries]
                self._came = set(range(len(entries)))
                return list(range(len(entries)))
        return [self._claim(key, sort_key) for key, sort_key, _, _ in entries]

    def _claim(self, key: str, sort_key: Any) -> int:
        row = self.row_of.get(key)
        if row is None:
            if self._free:
                row = self._free.pop()
                self._keys[row] = sort_key
            else:
                row = len(self._keys)
                self._keys.append(sort_key)
            self.row_of[key] = row
            self._came.add(row)
        elif self._keys[row] != sort_key:
            self._keys[row] = sort_key
            self._left.add(row)
            self._came.add(row)
        return row

    def remove(self, keys: Iterable[str]) -> None:
        """Remove the objects with these keys; unknown keys are ignored."""
        gone = {row for key in keys if (row := self.row_of.pop(key, None)) is not None}
        for row in sorted(gone):
            self.objects[row] = None
            self._keys[row] = None
            self._free.append(row)
        self._left |= gone
        self._came -= gone

    def _reserve(self, size: int) -> None:
        if size > len(self.cells):
            room = max(size, 2 * len(self.cells))
            cells = np.zeros((room, self.cells.shape[1]), np.int64)
            cells[: len(self.cells)] = self.cells
            objects = np.empty(room, object)
            objects[: len(self.objects)] = self.objects
            self.cells, self.objects = cells, objects

    def ordered(self) -> npt.NDArray[np.int64]:
        """(len(self),) all rows in use, by sort key."""
        if self._left:
            self._ordered = self._ordered[~np.isin(self._ordered, list(self._left))]
            self._left = set()
        if self._came:
            key = self._keys.__getitem__
            came = sorted(self._came, key=key)
            if len(came) * MERGED < self._ordered.size:
                places = [bisect_left(self._ordered, key(row), key=key) for row in came]
                self._ordered = np.insert(self._ordered, places, came)
            else:
                self._ordered = np.array(sorted([*self._ordered.tolist(), *came], key=key), np.int64)
            self._came = set()
        return self._ordered


def put_all(table: RowTable, entries: list[Entry], kind: type[Object]) -> None:
    """Write the entries. Raises LoweringError with the objects that have numbers that no row can hold."""
    try:
        table.put(entries)
    except Exception:
        errors = ErrorCollector()
        for key, _, _, cells in entries:
            try:
                np.array(cells, np.int64)
            except Exception as error:
                errors.add(kind, key, error)
        errors.end()
        raise
