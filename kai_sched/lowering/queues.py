"""The table of queues: which queues count, their tree, quotas, limits, weights, priorities and minimum runtimes
(semantics 1.4).

Invariants: parents have lower rows than their children, siblings are in the order of age, uid and name, and
"unlimited" (-1 in the API) is infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.limits import duration, whole
from kai_sched.model.config import Config, sees_queue
from kai_sched.model.hints import NO_POOLS, NOTHING, PoolAmounts, QueueAmounts
from kai_sched.model.objects import UNLIMITED, Queue, Share
from kai_sched.model.queue_tree import missing_above, rooted_queues
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Longs, Queues

SYNTHETIC_ROOT = "default"
_NO_AMOUNTS = QueueAmounts()


@dataclass(frozen=True, slots=True)
class QueueRows:
    """The queue table and what its rows stand for.

    Attributes
    ----------
    table
        Columns (Q,) and, for amounts, (Q, 3): CPU in millicores, memory in bytes, GPUs in devices.
    queues
        (Q,) the queue of each row.
    row_of
        The row by name.
    left_out
        Ignored queues, with the queue above that does not exist; "" where the parents form a cycle.
    """

    table: Queues
    queues: tuple[Queue, ...]
    row_of: dict[str, int]
    left_out: Mapping[str, str]

    @property
    def is_leaf(self) -> npt.NDArray[np.bool_]:
        """(Q,) whether the queue has no children, so that it runs work."""
        leaf: npt.NDArray[np.bool_] = np.diff(self.table.child_ptr)[: len(self.queues)] == 0
        return leaf


def visible_queues(queues: Mapping[str, Queue], config: Config) -> dict[str, Queue]:
    """The queues that count, each with the parent that counts for fairness.

    Without full hierarchy fairness, all queues with a parent become children of one unlimited root, and the departments
    are left out.
    """
    visible = {name: queue for name, queue in queues.items() if sees_queue(queue.labels, config)}
    if not config.full_hierarchy_fairness:
        unlimited = Share(UNLIMITED, UNLIMITED, 1.0)
        below = {name: replace(queue, parent=SYNTHETIC_ROOT) for name, queue in visible.items() if queue.parent}
        visible = below | {SYNTHETIC_ROOT: Queue(SYNTHETIC_ROOT, cpu=unlimited, memory=unlimited, gpu=unlimited)}
    return visible


def lower_queues(queues: Mapping[str, Queue], config: Config, elsewhere: PoolAmounts = NO_POOLS) -> QueueRows:
    """The table of the queues that hang together with a root. Rows are ordered by depth, age, uid and name.

    ``elsewhere`` is ``SchedulingHints.elsewhere``.
    """
    visible = visible_queues(queues, config)
    found = rooted_queues(visible)
    depth: dict[str, int] = {}
    for name, queue in found.items():
        path = []
        while name not in depth and queue.parent:
            path.append(name)
            name, queue = queue.parent, found[queue.parent]
        base = depth.setdefault(name, 0)
        for step, below in enumerate(reversed(path), 1):
            depth[below] = base + step
    rows = sorted(found.values(), key=lambda queue: (depth[queue.name], queue.created_ns, queue.uid, queue.name))
    row_of = {queue.name: row for row, queue in enumerate(rows)}
    parent = np.array([row_of[queue.parent] if queue.parent else NULL for queue in rows], np.int32)
    n_queues = len(rows)
    above = np.where(parent == NULL, n_queues, parent)
    child = np.argsort(above, kind="stable").astype(np.int32)
    child_ptr = np.zeros(n_queues + 2, np.int32)
    np.cumsum(np.bincount(above, minlength=n_queues + 1), out=child_ptr[1:])
    others = [elsewhere.queues.get(queue.name, _NO_AMOUNTS) for queue in rows]
    table = Queues(
        parent=parent,
        child_ptr=child_ptr,
        child=child,
        quota=_triples(rows, "quota"),
        limit=_triples(rows, "limit"),
        weight=_triples(rows, "weight"),
        priority=np.array([whole(queue.priority) for queue in rows], np.int64),
        usage=np.array([queue.usage for queue in rows], np.float64).reshape(n_queues, 3),
        preempt_runtime=_durations([queue.preempt_min_runtime_s for queue in rows]),
        reclaim_runtime=_durations([queue.reclaim_min_runtime_s for queue in rows]),
        by_uid=np.array(sorted(range(n_queues), key=lambda row: (rows[row].uid, rows[row].name)), np.int32),
        held_elsewhere=_amounts([each.held for each in others]),
        fixed_elsewhere=_amounts([each.held_fixed for each in others]),
        asked_elsewhere=_amounts([each.requested for each in others]),
        capacity_elsewhere=_amounts([elsewhere.capacity]),
    )
    left_out = {name: missing_above(name, visible) for name in visible if name not in found}
    return QueueRows(table, tuple(rows), row_of, left_out)


def _durations(seconds: list[float | None]) -> Longs:
    """(Q,) nanoseconds; NULL where the duration is not set, 0 where it is negative."""
    return np.array([NULL if each is None else max(0, duration(each)) for each in seconds], np.int64)


def _amounts(triples: list[tuple[float, float, float]]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array(triples, np.float64).reshape(len(triples), len(NOTHING))


def _triples(rows: list[Queue], field: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    values = np.array(
        [[getattr(share, field) for share in (queue.cpu, queue.memory, queue.gpu)] for queue in rows], np.float64
    )
    values = values.reshape(len(rows), 3)
    return values if field == "weight" else np.where(values == UNLIMITED, np.inf, values)
