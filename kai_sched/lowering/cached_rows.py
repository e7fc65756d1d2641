"""The row tables and the numbers of names that ``lowering.cache`` keeps between cycles, and the columns of its pods and
groups.

``lowering.cache`` fills the tables, so that the cost of a cycle depends on the changes, not on the size of the cluster.
It reads objects in blocks, column by column: one attribute of some hundred objects is read faster than all of one.
Row numbers and the numbers of ``Names`` never appear in a snapshot, as they depend on the history of the cache.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kai_sched.model.claims.objects import DeviceClass, DeviceTaintRule, ResourceSlice
from kai_sched.model.objects import Node, Pod, PodGroup, StorageClass
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.sorting import in_order

# Kinds from which devices are made, and what ``Cache.columns`` has under ``STORAGE``.
OF_DEVICES = frozenset({ResourceSlice, DeviceClass, DeviceTaintRule, Node})
OF_STORAGE = frozenset({StorageClass, StorageDriver, StorageCapacity, NodeVolumes})
STORAGE = "storage"

# New rows are merged into the order if there are this many times as many old rows; else sorting all is cheaper.
MERGED = 16
# Tables with so many rows are larger than what a CPU keeps at hand: they are read in half the time where their rows lie
# in order.
LAID_OUT = 10_000


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
    NOT_CONSOLIDATED = 15  # 1: consolidation does not move it
    BACKGROUND = 16  # 1: it counts as absent while others are placed


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
    GIVEN_UP = 10  # 1: not tried in this pool, as its scheduling backoff says


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

    def rows(self, names: Iterable[Any]) -> list[int]:
        """The number of each name, as ``row``."""
        rows = self._rows
        return [rows.setdefault(name, len(rows)) for name in names]

    def rows_or_null(self, names: Iterable[str]) -> list[int]:
        """The number of each name; NULL for ""."""
        rows = self._rows
        return [rows.setdefault(name, len(rows)) if name else NULL for name in names]

    def items(self) -> Iterable[tuple[Any, int]]:
        return self._rows.items()


class RowTable:
    """Objects of one kind as rows of an integer matrix, with a sort key each: a tuple that begins with a whole number.

    Attributes
    ----------
    row_of
        The row by key of the object.
    cells
        (n_columns, capacity) the matrix, column by column: a cycle reads few columns of all rows. Rows that are in use
        are those in ``row_of``.
    objects
        (capacity,) the object of each row; None where the row is free.

    Notes
    -----
    ``put`` costs O(changes). ``ordered`` costs O(changes * log n) plus one copy of the order if few rows changed, and a
    sort of all rows otherwise, which gives them other numbers.
    """

    def __init__(self, n_columns: int) -> None:
        self.row_of: dict[str, int] = {}
        self.cells: npt.NDArray[np.int64] = np.zeros((n_columns, 64), np.int64)
        self.objects: npt.NDArray[np.object_] = np.empty(64, object)
        self._keys: list[Any] = []
        self._free: list[int] = []
        # Rows to remove from the order, and then rows to insert.
        self._left: set[int] = set()
        self._came: set[int] = set()
        self._ordered: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._strewn = 0  # rows that came since all lay in their order

    def __len__(self) -> int:
        return len(self.row_of)

    def put(self, objects: Mapping[str, Any], sort_keys: Sequence[Any], cells: npt.NDArray[np.int64]) -> None:
        """Add or replace objects, by key. An object keeps its row; a new object gets a free row.

        ``sort_keys`` and ``cells``, (n_columns, len(objects)), are in the order of the objects.
        """
        if not objects:
            return
        rows = self._claim_all(objects, sort_keys)
        self._reserve(len(self._keys))
        self.cells[:, rows] = cells
        items = np.empty(len(rows), object)
        items[:] = list(objects.values())
        self.objects[rows] = items

    def _claim_all(self, objects: Mapping[str, Any], sort_keys: Sequence[Any]) -> list[int]:
        """The row of each object. Where all are new, as at the start, they get rows in their order."""
        if not self._free and self.row_of.keys().isdisjoint(objects):
            rows = list(range(len(self._keys), len(self._keys) + len(objects)))
            self._keys.extend(sort_keys)
            self.row_of.update(zip(objects, rows, strict=True))
            self._came.update(rows)
            return rows
        return [self._claim(key, sort_key) for key, sort_key in zip(objects, sort_keys, strict=True)]

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
        n_columns, before = self.cells.shape
        if size > before:
            room = max(size, 2 * before)
            cells = np.zeros((n_columns, room), np.int64)
            cells[:, :before] = self.cells
            objects = np.empty(room, object)
            objects[:before] = self.objects
            self.cells, self.objects = cells, objects

    def ordered(self) -> npt.NDArray[np.int64]:
        """(len(self),) all rows in use, by sort key."""
        if self._left:
            self._ordered = self._ordered[~np.isin(self._ordered, list(self._left))]
            self._left = set()
        if self._came:
            key = self._keys.__getitem__
            if len(self._came) * MERGED < self._ordered.size and self._strewn < self._ordered.size:
                self._strewn += len(self._came)
                came = sorted(self._came, key=key)
                places = [bisect_left(self._ordered, key(row), key=key) for row in came]
                self._ordered = np.insert(self._ordered, places, came)
            else:
                self._ordered, self._strewn = self._sorted([*self._ordered.tolist(), *self._came]), 0
                if self._ordered.size >= LAID_OUT:
                    self._lay_out(self._ordered)
            self._came = set()
        return self._ordered

    def _lay_out(self, order: npt.NDArray[np.int64]) -> None:
        """Move the rows so that they lie in this order of all in use: it is faster to read them one after the other."""
        place = np.empty(len(self._keys), np.int64)
        place[order] = np.arange(order.size)
        self.row_of = dict(zip(self.row_of, place[list(self.row_of.values())].tolist(), strict=True))
        self._keys = [self._keys[row] for row in order.tolist()]
        self._free = []
        self.cells[:, : order.size] = self.cells.take(order, axis=1)
        self.objects[: order.size] = self.objects[order]
        self.objects[order.size :] = None
        self._ordered = np.arange(order.size)

    def _sorted(self, rows: list[int]) -> npt.NDArray[np.int64]:
        """The rows by sort key. Sorting whole numbers, and by the rest of the key where they are equal, is faster."""
        try:
            first = np.array([self._keys[row][0] for row in rows], np.int64)
        except OverflowError:
            return np.array(sorted(rows, key=self._keys.__getitem__), np.int64)
        order = in_order([first])
        by_first, first = np.array(rows, np.int64)[order].tolist(), first[order]
        begins = np.flatnonzero(np.concatenate(([True], first[1:] != first[:-1], [True])))
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            if end > begin + 1:
                by_first[begin:end] = sorted(by_first[begin:end], key=self._keys.__getitem__)
        return np.array(by_first, np.int64)


def by_age(objects: Mapping[str, Pod] | Mapping[str, PodGroup]) -> list[tuple[int, str, str]]:
    """Sort keys for a row table: the oldest first, then by uid and key."""
    return [(item.created_ns, item.uid, key) for key, item in objects.items()]
