"""The allocation of the tables of a search for victims (``tables``), once a cycle, with zeros where nothing is said."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_type_hints

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Longs, Snapshot
from kai_sched.solver.allocation import longest_job
from kai_sched.solver.eviction.minimal.tables import MinimalTables, Supply
from kai_sched.solver.eviction.original.tables import MOST_TRIED, LeafVictims, OriginalTables
from kai_sched.solver.eviction.tables import (
    MOST_KINDS,
    Counts,
    JobOrder,
    Kinds,
    Lists,
    OrderedJobs,
    QueueHeap,
    QueueWeights,
    Rooms,
    Search,
    SearchJobs,
    SearchNodes,
    SearchQueues,
    SearchSets,
    SearchTasks,
)

Table = TypeVar("Table", bound=tuple[Any, ...])

_BY_RESOURCE = ("old_held", "old_fixed", "remains", "involved", "overpaid")  # of SearchQueues


def make_search(snapshot: Snapshot) -> Search:
    """Allocate a search for this snapshot in which nothing is listed, marked or remembered yet.

    The caller keeps it for the cycle: ``candidates.list_candidates`` fills its lists for each action.
    """
    n_tasks, n_jobs, n_queues = snapshot.tasks.job.size, snapshot.jobs.queue.size, snapshot.queues.parent.size
    (n_nodes, n_resources), longest = snapshot.nodes.allocatable.shape, longest_job(snapshot)
    return Search(
        *make_job_orders(snapshot),
        _columns(Counts, 1)._replace(scarce=np.zeros(3, np.int64)),
        _columns(SearchTasks, n_tasks),
        _columns(SearchJobs, n_jobs),
        _columns(SearchNodes, n_nodes),
        _columns(SearchSets, snapshot.sets.parent.size),
        _columns(SearchQueues, n_queues, dict.fromkeys(_BY_RESOURCE, (n_queues, 3))),
        _columns(Rooms, n_nodes, {"requests": (n_nodes, n_resources)}),
        _columns(Kinds, MOST_KINDS),
        _columns(Lists, n_tasks + 1),
        make_minimal_tables(n_tasks, snapshot.sets.parent.size, n_nodes, n_queues, longest),
        make_original_tables(n_tasks, n_nodes, n_queues),
        np.zeros((n_nodes, n_resources)),
        np.zeros(snapshot.n_domains, np.int64),
        np.zeros(snapshot.n_domains, np.int64),
        np.zeros((n_nodes, snapshot.host_ports.ptr.size - 1), np.int64),
        np.zeros(snapshot.volumes.group.size, np.int64),
        np.zeros(snapshot.n_domains, np.int64),
        np.zeros((n_jobs, 3)),
        np.zeros((n_jobs, 3)),
        np.zeros(longest, np.int64),
        np.full(n_jobs, NULL, np.int64),
        np.full(n_jobs, NULL, np.int64),
        request_ranks(snapshot.classes.request),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
        np.full(snapshot.tasks.device.size, NULL, np.int64),
        *(np.full(snapshot.dra_claims.device.size, NULL, np.int64) for _ in range(2)),
    )


def make_minimal_tables(n_tasks: int, n_sets: int, n_nodes: int, n_queues: int, longest: int) -> MinimalTables:
    """Allocate what the search for few victims has for itself; the longest job has so many tasks (``longest``)."""
    columns: list[Any] = [
        *np.zeros((4, 1), np.int64),
        *np.zeros((4, n_tasks + 1), np.int64),
        np.zeros(n_sets, np.int64),
        np.zeros(n_tasks + 1, np.int64),
        *np.zeros((5, n_nodes), np.int64),
        *np.zeros((2, n_queues)),
        np.zeros(MOST_KINDS, np.int64),
        *np.zeros((2, longest), np.int64),
        Supply(np.zeros(n_nodes, np.int64), *np.zeros((4, n_nodes)), *np.zeros((2, n_queues), np.int64)),
    ]
    return MinimalTables(*columns)


def make_original_tables(n_tasks: int, n_nodes: int, n_queues: int) -> OriginalTables:
    """Allocate what the search of v0.17.0 has for itself."""
    columns: list[Any] = [
        *np.zeros((5, 1), np.int64),
        np.zeros(n_tasks + 1, np.int64),
        *np.zeros((3, n_nodes), np.int64),
        np.zeros(n_nodes, np.uint8),
        *(np.zeros(n_queues, kind) for kind in (float, int, float, float, int, int)),
        _columns(LeafVictims, n_queues),
        np.zeros((MOST_TRIED, 2), np.int64),
    ]
    return OriginalTables(*columns)


def request_ranks(request: Floats) -> Longs:
    """(C,) the place of each row of ``request`` (C, R) among all rows in order, equal for equal rows."""
    ranks = np.zeros(request.shape[0], np.int64)
    if request.shape[0] > 1:
        order = np.lexsort(request.T[::-1])
        ranks[order[1:]] = np.cumsum((request[order[1:]] != request[order[:-1]]).any(axis=1))
    return ranks


def make_job_orders(snapshot: Snapshot) -> tuple[JobOrder, JobOrder]:
    """Allocate empty lists and heaps of contenders and of victims.

    All jobs of each leaf are sorted once by priority and number of pods; both orders share that. Jobs without a queue
    have no place.
    """
    n_queues, jobs = snapshot.queues.parent.size, snapshot.jobs
    n_jobs = jobs.queue.size
    known = np.flatnonzero(jobs.queue != NULL)
    queue = jobs.queue[known]
    by_size, place, base = np.zeros((3, max(n_jobs, n_queues + 1)), np.int64)
    np.cumsum(np.bincount(queue, minlength=n_queues), out=base[1 : n_queues + 1])
    by_size[: known.size] = known[np.lexsort((-np.diff(jobs.task_ptr)[known], -jobs.priority[known], queue))]
    place[by_size[: known.size]] = np.arange(known.size)
    shared = {"by_size": by_size[:n_jobs], "place": place[:n_jobs]}
    contenders, victims = (
        JobOrder(
            last_first,
            _columns(QueueHeap, n_queues + 1)._replace(base=base[: n_queues + 1]),
            _columns(QueueWeights, n_queues, dict.fromkeys(("request", "left", "taken"), (n_queues, 3))),
            _columns(OrderedJobs, n_jobs)._replace(**shared),
            np.zeros((n_jobs, 3)),
        )
        for last_first in (0, 1)
    )
    return contenders, victims


def _columns(of: type[Table], length: int, shapes: dict[str, tuple[int, ...]] | None = None) -> Table:
    """Allocate a table with zeros in columns of this ``length``, except those whose shape is in ``shapes``.

    Columns of one type are rows of one array, which makes fewer arrays to allocate.
    """
    shapes = shapes or {}
    n_longs, n_floats, order = _layout(of, tuple(shapes))
    arrays = [
        *np.zeros((n_longs, length), np.int64),
        *np.zeros((n_floats, length)),
        *[np.zeros(shape) for shape in shapes.values()],
    ]
    return of(*[arrays[at] for at in order])


@cache
def _layout(of: type[Any], others: tuple[str, ...]) -> tuple[int, int, tuple[int, ...]]:
    """Return how many columns of a table hold integers and how many hold floats, without these ``others``.

    Then comes, by column, its place among the integers, the floats and ``others``, in this order.
    """
    kinds = {name: kind for name, kind in get_type_hints(of).items() if name not in others}
    longs = [name for name, kind in kinds.items() if kind == Longs]
    floats = [name for name, kind in kinds.items() if kind == Floats]
    listed = [*longs, *floats, *others]
    return len(longs), len(floats), tuple(listed.index(name) for name in of._fields)
