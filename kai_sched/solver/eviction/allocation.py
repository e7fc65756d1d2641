"""The allocation of the tables of a search for victims (``tables``), once a cycle, with zeros where nothing is said."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_type_hints

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.sorting import in_order
from kai_sched.snapshot.tables import Floats, Longs, Snapshot
from kai_sched.solver.allocation import constraint_depth, longest_job
from kai_sched.solver.eviction.minimal.tables import DomainTries, MinimalTables, Supply
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


def make_search(snapshot: Snapshot, minimal: bool = False) -> Search:
    """Allocate a search for this snapshot in which nothing is listed, marked or remembered yet.

    With ``minimal`` only the search for few victims may use it: the tables of the other are empty. The caller keeps it
    for the cycle: ``candidates.list_candidates`` fills its lists for each action.
    """
    n_tasks, n_jobs, n_queues = snapshot.tasks.job.size, snapshot.jobs.queue.size, snapshot.queues.parent.size
    n_sets, n_domains = snapshot.sets.parent.size, snapshot.topologies.level.size
    (n_nodes, n_resources), longest = snapshot.nodes.allocatable.shape, longest_job(snapshot)
    contenders, victims = make_job_orders(snapshot)
    return Search(
        contenders=contenders,
        victims=victims,
        counts=_columns(Counts, 1)._replace(scarce=np.zeros(3, np.int64)),
        tasks=_columns(SearchTasks, n_tasks),
        jobs=_columns(SearchJobs, n_jobs),
        nodes=_columns(SearchNodes, n_nodes),
        sets=_columns(SearchSets, n_sets),
        queues=_columns(SearchQueues, n_queues, dict.fromkeys(_BY_RESOURCE, (n_queues, 3))),
        rooms=_columns(Rooms, n_nodes, {"requests": (n_nodes, n_resources)}),
        kinds=_columns(Kinds, MOST_KINDS),
        lists=_columns(Lists, n_tasks + 1),
        minimal=make_minimal_tables(snapshot, n_tasks, longest),
        original=_no_original_tables()
        if minimal
        else make_original_tables(n_tasks, n_sets, n_nodes, n_queues, n_domains),
        freed=np.zeros((n_nodes, n_resources)),
        freed_matched=np.zeros(snapshot.n_domains, np.int64),
        freed_carried=np.zeros(snapshot.n_domains, np.int64),
        freed_ports=np.zeros((n_nodes, snapshot.host_ports.ptr.size - 1), np.int64),
        freed_users=np.zeros(snapshot.volumes.group.size, np.int64),
        domain=np.zeros(snapshot.n_domains, np.int64),
        met=np.zeros(snapshot.n_domains, np.int64),
        held=np.zeros((n_jobs, 3)),
        ask=np.zeros((n_jobs, 3)),
        pending=np.zeros(longest, np.int64),
        failed=np.full(n_jobs, NULL, np.int64),
        next_failed=np.full(n_jobs, NULL, np.int64),
        request_rank=request_ranks(snapshot.classes.request),
        chunk=np.zeros(longest, np.int64),
        hosts=np.zeros(longest, np.int64),
        home_device=np.full(snapshot.tasks.device.size, NULL, np.int64),
        home_claimed=np.full(snapshot.dra_claims.device.size, NULL, np.int64),
        home_option=np.full(snapshot.dra_claims.device.size, NULL, np.int64),
        home_zones=np.zeros(snapshot.numa.held.size),
    )


def make_minimal_tables(snapshot: Snapshot, n_tasks: int, longest: int) -> MinimalTables:
    """Allocate what the search for few victims has for itself; the longest job has so many tasks (``longest``)."""
    n_sets, n_nodes, n_queues = snapshot.sets.parent.size, snapshot.nodes.condition.size, snapshot.queues.parent.size
    n_frames = 2 * constraint_depth(snapshot)
    return MinimalTables(
        n_chosen=np.zeros(1, np.int64),
        clock=np.zeros(1, np.int64),
        refuted=np.zeros(1, np.int64),
        looked=np.zeros(1, np.int64),
        chosen=np.zeros(n_tasks + 1, np.int64),
        is_chosen=np.zeros(n_tasks + 1, np.int64),
        is_charged=np.zeros(n_tasks + 1, np.int64),
        kept=np.zeros(n_tasks + 1, np.int64),
        emptied_by=np.zeros(n_sets, np.int64),
        blockers=np.zeros(n_tasks + 1, np.int64),
        cost=np.zeros(n_nodes, np.int64),
        cost_mark=np.zeros(n_nodes, np.int64),
        barred=np.zeros(n_nodes, np.int64),
        best=np.zeros(n_nodes, np.int64),
        best_mark=np.zeros(n_nodes, np.int64),
        given=np.zeros(n_queues),
        largest_given=np.zeros(n_queues),
        with_chosen=np.zeros(MOST_KINDS, np.int64),
        pending_in_order=np.zeros(longest, np.int64),
        place=np.zeros(longest, np.int64),
        attempt=np.zeros(1, np.int64),
        refused=np.zeros(snapshot.topologies.level.size, np.int64),
        tries=DomainTries(*np.zeros((len(DomainTries._fields), n_frames), np.int64)),
        supply=Supply(
            nodes=np.zeros(n_nodes, np.int64),
            may_leave=np.zeros(n_nodes),
            side_holds=np.zeros(n_nodes),
            level_loses=np.zeros(n_nodes),
            own_loses=np.zeros(n_nodes),
            first_leaf=np.zeros(n_queues, np.int64),
            next_leaf=np.zeros(n_queues, np.int64),
        ),
    )


def make_original_tables(
    n_tasks: int, n_sets: int, n_nodes: int, n_queues: int, n_domains: int, most_tried: int = MOST_TRIED
) -> OriginalTables:
    """Allocate what the search of v0.17.0 has for itself, with room for so many failures (``most_tried``)."""
    return OriginalTables(
        restricted=np.zeros(1, np.int64),
        lacks_gpus=np.zeros(1, np.int64),
        alike=np.zeros(1, np.int64),
        precedence_known=np.zeros(1, np.int64),
        node_local=np.zeros(1, np.int64),
        chunk_mark=np.zeros(n_tasks + 1, np.int64),
        feasible=np.zeros(n_nodes, np.int64),
        counted=np.zeros(n_nodes, np.int64),
        rank=np.zeros(n_nodes, np.int64),
        offered=np.zeros(n_nodes, np.uint8),
        victim_gpus=np.zeros(n_queues),
        last_victim=np.zeros(n_queues, np.int64),
        smallest_victim=np.zeros(n_queues),
        fewest_pods=np.zeros(n_queues),
        cannot_lose=np.zeros(n_queues, np.int64),
        cannot_stay_evicted=np.zeros(n_queues, np.int64),
        leaf_victims=_columns(LeafVictims, n_queues),
        n_needs=np.zeros(1, np.int64),
        need=np.zeros(n_sets),
        is_served=np.zeros(n_sets, np.int64),
        domain_gpus=np.zeros(n_domains),
        domain_taken=np.zeros(n_domains),
        tried=np.zeros((most_tried, 2), np.int64),
    )


@cache
def _no_original_tables() -> OriginalTables:
    """The tables of the search of v0.17.0 where it cannot run: no other kernel reads or writes them."""
    return make_original_tables(0, 0, 0, 0, 0, 0)


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
    by_size[: known.size] = known[in_order((-np.diff(jobs.task_ptr)[known], -jobs.priority[known], queue))]
    place[by_size[: known.size]] = np.arange(known.size)
    shared = {"by_size": by_size[:n_jobs], "place": place[:n_jobs]}
    contenders, victims = (
        JobOrder(
            last_first=last_first,
            heap=_columns(QueueHeap, n_queues + 1)._replace(base=base[: n_queues + 1]),
            weights=_columns(QueueWeights, n_queues, dict.fromkeys(("request", "left", "taken"), (n_queues, 3))),
            jobs=_columns(OrderedJobs, n_jobs)._replace(**shared),
            held=np.zeros((n_jobs, 3)),
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
