"""The tables of jobs and sets: queue, priority, preemptibility, turn and times of each group, why it is refused, and
the set of each pod (semantics 0.4).

A job is a PodGroup or a bare pod. Its sets form a tree (``sub_group_tree``). The tables are made in two steps, as the
order of tasks depends on the sets and the tables refer to the tasks: ``lower_jobs`` gives the columns that do not
depend on tasks, ``make_sets`` and ``make_jobs`` the tables.

Invariant: jobs are in the order of creation, uid and name; the sets of a job lie side by side, the root first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.cached_rows import GroupCell, Names, PodCell
from kai_sched.lowering.distinct import distinct
from kai_sched.lowering.limits import UNSET, grace, whole
from kai_sched.lowering.queues import QueueRows
from kai_sched.lowering.sub_group_tree import Layout
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.objects import PriorityClass
from kai_sched.model.priorities import PREEMPTIBLE_BELOW, default_priority
from kai_sched.model.store import Cluster
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import DEFERRED, Flags, Ints, Jobs, Longs, Sets, Turn
from kai_sched.snapshot.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class JobRows:
    """Columns of the jobs in canonical order, before their tasks are known.

    Attributes
    ----------
    rows
        (J,) rows of the cache's group table.
    queue
        (J,) row of the queue; NULL where the queue does not exist or is ignored.
    priority, preemptible
        (J,) 0 where the queue is NULL.
    refused
        (J,) the Verdict that keeps the job from being scheduled; 0 for none.
    turn
        (J,) a Turn: first, ordinary, later, or pipelined onto free room before.
    n_first
        (J,) for how many pods the job goes first.
    times
        (4, J) last start, end of the preemption delay, stale since (ns since the epoch), grace (ns; NULL: no end).
    layout
        (J,) numbers of the cache's layouts.
    set_ptr
        (J + 1,) the sets of job j are set_ptr[j]:set_ptr[j + 1].
    """

    rows: Longs
    queue: Ints
    priority: Longs
    preemptible: Flags
    refused: Flags
    turn: Flags
    n_first: Ints
    times: Longs
    layout: Longs
    set_ptr: Ints


def lower_jobs(
    cluster: Cluster, cache: Cache, queues: QueueRows, hints: SchedulingHints, grace_s: float, now_ns: int
) -> JobRows:
    """The columns of all jobs: the PodGroups and the bare pods in the cache.

    Parameters
    ----------
    grace_s
        The staleness grace, in seconds, of groups that do not set one; negative: no end.
    now_ns
        The time of the cycle, in nanoseconds since the epoch.
    """
    rows = cache.groups.ordered()
    columns = cache.groups.cells.take(rows, axis=1)
    queue = take(rows_of(cache.queue_names, queues.row_of), columns[GroupCell.QUEUE])
    layout = columns[GroupCell.LAYOUT]
    known = queue != NULL
    refused = np.where(known, 0, int(Verdict.NO_QUEUE)).astype(np.uint8)
    refused[known] = np.where(queues.is_leaf[queue[known]], 0, int(Verdict.QUEUE_NOT_LEAF))
    refused[(refused == 0) & (columns[GroupCell.GIVEN_UP] == 1)] = int(Verdict.BACKED_OFF)
    priority = _priorities(cluster, cache)[columns[GroupCell.PRIORITY_CLASS]]
    explicit = columns[GroupCell.PREEMPTIBLE]
    preemptible = np.where(explicit == NULL, priority < PREEMPTIBLE_BELOW, explicit == 1)
    sizes = np.array([len(each.parent) for each in cache.layouts], np.int64)
    set_ptr = np.zeros(rows.size + 1, np.int32)
    np.cumsum(sizes[layout], out=set_ptr[1:])
    times = columns[GroupCell.LAST_START : GroupCell.GRACE + 1]
    times[3, times[3] == UNSET] = grace(grace_s)
    _defer_searches(times[1], cache, rows, hints, now_ns)
    turn, n_first = _turns(cache, rows, hints)
    return JobRows(
        rows=rows,
        queue=queue,
        priority=np.where(known, priority, 0),
        preemptible=(preemptible & known).astype(np.uint8),
        refused=refused,
        turn=turn,
        n_first=n_first,
        times=times,
        layout=layout,
        set_ptr=set_ptr,
    )


def _turns(cache: Cache, rows: Longs, hints: SchedulingHints) -> tuple[Flags, Ints]:
    """(J,) the Turn of each job and (J,) for how many pods it goes first, as the hints say.

    The key of a hint may stand for a PodGroup and for a bare pod of the same name; it holds for both. ``rows`` (J,) are
    rows of the cache's group table.
    """
    found, n_first = np.zeros(rows.size, np.uint8), np.zeros(rows.size, np.int32)
    named = hints.pipelined_free | hints.first.keys() | hints.deferred
    if not named:
        return found, n_first
    place = np.empty(len(cache.groups.objects), np.int64)
    place[rows] = np.arange(rows.size)
    for key in named:
        for row in (cache.groups.row_of.get(key), cache.groups.row_of.get(bare_pod_group_key(key))):
            if row is None:
                continue
            j = place[row]
            if key in hints.deferred:
                found[j] = Turn.LATER
            elif key in hints.first:
                found[j], n_first[j] = Turn.FIRST, hints.first[key]
            else:
                found[j] = Turn.PIPELINED_FREE
    return found, n_first


def _defer_searches(waits_until: Longs, cache: Cache, rows: Longs, hints: SchedulingHints, now_ns: int) -> None:
    """Mark the jobs whose search for victims is deferred with DEFERRED, in place.

    ``waits_until`` (J,) is the end of each job's preemption delay; a delay that still runs is kept. ``rows`` (J,) are
    rows of the cache's table of groups.
    """
    if hints.searched or hints.may_search:
        rests = np.array([hints.defers_search(group.key) for group in cache.groups.objects[rows]], bool)
        waits_until[rests & (waits_until <= now_ns)] = DEFERRED


def _priorities(cluster: Cluster, cache: Cache) -> Longs:
    """The value of each numbered priority class: its own, else that of the cluster's default class, else 50."""
    values = np.full(len(cache.priority_classes), whole(default_priority(cluster.priority_classes)), np.int64)
    for name, row in cache.priority_classes.items():
        known: PriorityClass | None = cluster.priority_classes.get(name)
        if known is not None:
            values[row] = whole(known.value)
    return values


def memberships(cache: Cache, rows: Longs, jobs: JobRows) -> tuple[Ints, Ints]:
    """(T,) the job and (T,) the set of each pod.

    Both are NULL where the pod is in no job, or names a sub-group that its PodGroup does not have. ``rows`` (T,)
    are rows of the cache's table of pods.
    """
    job_of_id = np.full(len(cache.group_ids), NULL, np.int32)
    job_of_id[cache.groups.cells[GroupCell.ID, jobs.rows]] = np.arange(jobs.rows.size, dtype=np.int32)
    job = take(job_of_id, cache.pods.cells[PodCell.GROUP, rows])
    member = np.flatnonzero(job != NULL)
    names = {row: name for name, row in cache.sub_groups.items()}
    pairs = jobs.layout[job[member]] * len(names) + cache.pods.cells[PodCell.SUB_GROUP, rows[member]]
    of_pod = distinct(pairs, len(cache.layouts) * len(names))
    local = np.array(
        [_local_set(cache.layouts[pair // len(names)], names[pair % len(names)]) for pair in of_pod.values.tolist()],
        np.int32,
    )
    found = local[of_pod.inverse]
    sets = np.full(job.size, NULL, np.int32)
    sets[member] = np.where(found == NULL, NULL, jobs.set_ptr[job[member]] + found)
    job[sets == NULL] = NULL
    return job, sets


def _local_set(layout: Layout, name: str) -> int:
    return layout.pod_sets.get(name, NULL)


def make_sets(
    cache: Cache, jobs: JobRows, task_sets: Ints, succeeded: npt.NDArray[np.bool_], constraints: Ints
) -> Sets:
    """The table of sets. A pod that has succeeded lowers the minimum of its pod set (semantics 0.4).

    Parameters
    ----------
    jobs
        The columns from ``lower_jobs``.
    task_sets
        (T,) the set of each task in canonical order; NULL for tasks of no job, which come last.
    succeeded
        (T,) whether the task has succeeded.
    constraints
        ``TopologyRows.constraints``.
    """
    n_sets = int(jobs.set_ptr[-1])
    task_ptr = np.zeros(n_sets + 1, np.int32)
    np.cumsum(np.bincount(task_sets[task_sets != NULL], minlength=n_sets), out=task_ptr[1:])
    sizes = np.diff(jobs.set_ptr)
    base = np.repeat(jobs.set_ptr[:-1], sizes)
    first = np.zeros(len(cache.layouts) + 1, np.int64)
    np.cumsum([len(each.parent) for each in cache.layouts], out=first[1:])
    entry = np.arange(n_sets) - base + np.repeat(first[jobs.layout], sizes)
    parent = _joined(cache.layouts, "parent")[entry]
    done = np.bincount(task_sets[succeeded & (task_sets != NULL)], minlength=n_sets)
    topology, required, preferred, fault = (np.ascontiguousarray(column) for column in constraints[entry].T)
    return Sets(
        parent=np.where(parent == NULL, NULL, parent + base).astype(np.int32),
        child_ptr=(_joined(cache.layouts, "child_ptr")[entry] + base).astype(np.int32),
        child_end=(_joined(cache.layouts, "child_end")[entry] + base).astype(np.int32),
        minimum=np.maximum(_joined(cache.layouts, "minimum")[entry] - done, 0).astype(np.int32),
        task_ptr=task_ptr,
        topology=topology,
        required=required,
        preferred=preferred,
        fault=fault,
    )


def make_jobs(jobs: JobRows, task_ptr: Ints, alike: tuple[Ints, Ints], marks: tuple[Flags, Flags]) -> Jobs:
    """The table of jobs.

    Parameters
    ----------
    task_ptr
        (S + 1,) that of the sets.
    alike
        The columns of ``job_equivalence``.
    marks
        What ``marks_of_jobs`` returned.
    """
    not_consolidated, background = marks
    last_start, waits_until, stale_since, grace = jobs.times
    equivalence, queue_equivalence = alike
    return Jobs(
        queue=jobs.queue,
        priority=jobs.priority,
        preemptible=jobs.preemptible,
        not_consolidated=not_consolidated,
        background=background,
        refused=jobs.refused,
        turn=np.where((background == 1) & (jobs.turn != Turn.LATER), Turn.BACKGROUND, jobs.turn).astype(np.uint8),
        n_first=jobs.n_first,
        last_start=last_start,
        waits_until=waits_until,
        stale_since=stale_since,
        grace=grace,
        equivalence=equivalence,
        queue_equivalence=queue_equivalence,
        set_ptr=jobs.set_ptr,
        task_ptr=task_ptr[jobs.set_ptr],
    )


def marks_of_jobs(cache: Cache, jobs: JobRows, of_task: Ints, rows: Longs) -> tuple[Flags, Flags]:
    """(J,) 1 for jobs of which consolidation moves no pod, and 1 for those that count as absent (6, 11.5).

    A job is not moved if one of its pods must not be, and in the background if all are, and it is preemptible.
    ``of_task`` (T,) are the jobs of tasks, NULL for none, and ``rows`` (T,) their rows in the cache's table of pods.
    """
    n_jobs = jobs.queue.size
    marks = cache.pods.cells[PodCell.NOT_CONSOLIDATED, rows], cache.pods.cells[PodCell.BACKGROUND, rows]
    if not any(mark.any() for mark in marks):
        return np.zeros(n_jobs, np.uint8), np.zeros(n_jobs, np.uint8)
    member = of_task != NULL
    owner = of_task[member]
    unsafe, absent = (np.bincount(owner, mark[member], n_jobs) for mark in marks)
    background = (absent > 0) & (absent == np.bincount(owner, minlength=n_jobs)) & (jobs.preemptible == 1)
    return (unsafe > 0).astype(np.uint8), background.astype(np.uint8)


def _joined(layouts: list[Layout], column: str) -> npt.NDArray[np.int64]:
    return np.array([value for layout in layouts for value in getattr(layout, column)], np.int64)


def rows_of(names: Names, row_of: dict[str, int]) -> Ints:
    """(len(names),) the row in this snapshot of each numbered name; NULL where ``row_of`` does not have it."""
    rows = np.full(len(names), NULL, np.int32)
    for name, number in names.items():
        rows[number] = row_of.get(name, NULL)
    return rows


def take(rows: Ints, numbers: Longs) -> Ints:
    """``rows[numbers]``, of the shape of ``numbers``; NULL where the number is NULL."""
    if not rows.size:
        return np.full(numbers.size, NULL, np.int32)
    return np.where(numbers == NULL, np.int32(NULL), rows[numbers])
