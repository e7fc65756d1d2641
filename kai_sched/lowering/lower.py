"""Names to numbers: one consistent view of the cluster becomes the frozen tables of a snapshot.

All tables are in canonical order (``snapshot.columns`` tells each one's), whatever the order of the input and
whatever the cache remembers, so equal clusters give equal snapshots, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kai_sched.lowering import cache as cells
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.classes import lower_classes
from kai_sched.lowering.constraints import lower_signatures
from kai_sched.lowering.equivalence import job_equivalence
from kai_sched.lowering.jobs import JobRows, lower_jobs, make_tables, memberships, rows_of, take
from kai_sched.lowering.layouts import Layout
from kai_sched.lowering.limits import duration, moment
from kai_sched.lowering.nodes import lower_nodes, node_list
from kai_sched.lowering.queues import QueueRows, lower_queues
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.objects import Node, Phase
from kai_sched.model.store import Cluster
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Longs, Snapshot, Status, Tasks, freeze


@dataclass(frozen=True, slots=True)
class Lowered:
    """The snapshot and the way back: what each row stands for."""

    snapshot: Snapshot
    queues: QueueRows
    nodes: list[Node]
    groups: npt.NDArray[np.object_]  # (J,) PodGroup
    layouts: list[Layout]  # (J,)
    bare: npt.NDArray[np.bool_]  # (J,) the group is a pod without one
    pods: npt.NDArray[np.object_]  # (T,) Pod
    omitted_pods: npt.NDArray[np.object_]  # pods that the solver need not see
    omitted_status: npt.NDArray[np.int8]
    resources: tuple[str, ...]  # (R,)
    refusals: list[str]  # (C,) what exactly refuses a class, where something does
    searched: Mapping[str, tuple[int, ...]]  # ``SchedulingHints.searched``


def lower(cluster: Cluster, config: Config, now_ns: int, cache: Cache, hints: SchedulingHints = NO_HINTS) -> Lowered:
    """Bring the cache up to date and make the tables of this cycle."""
    cache.sync(cluster, config)
    nodes, queues = node_list(cache), lower_queues(cluster.queues, config)
    jobs = lower_jobs(cluster, cache, queues, hints, config.staleness_grace_s, moment(now_ns))
    rows = cache.pods.ordered()
    columns = _columns(cache, rows, hints.nominated_nodes)
    status = _statuses(columns, now_ns, config)
    job, sets = memberships(cache, columns, jobs)
    node_rows = rows_of(cache.node_names, {node.name: n for n, node in enumerate(nodes)})
    node = take(node_rows, columns[:, cells.NODE])
    binding = take(node_rows, columns[:, cells.BINDING])
    binds = binding != NULL
    node[binds], status[binds] = binding[binds], Status.BINDING
    wanted = (job != NULL) | ((node != NULL) & (status >= Status.PIPELINED))
    order = _task_order(columns, sets, wanted)
    columns, status, job, sets, node = columns[order], status[order], job[order], sets[order], node[order]
    # pods that wait need a node, and so may those that make room for them
    movable = (status >= Status.PENDING) & (status <= Status.RUNNING) & (job != NULL)
    classes = lower_classes(cache, cluster, config, nodes, columns[:, cells.CLASS], movable)
    tasks = Tasks(
        job,
        sets,
        classes.of_task,
        node,
        take(node_rows, columns[:, cells.NOMINATED]),
        status,
        columns[:, cells.FOREIGN].astype(np.uint8),
    )
    alike = job_equivalence(classes.kind, job, sets, _not_placed(status), _traits(jobs, config), jobs.queue)
    job_table, set_table = make_tables(cache, jobs, sets, alike)
    node_table, taint_sets = lower_nodes(nodes, cache, classes.resources, config)
    snapshot = Snapshot(
        freeze(queues.table),
        freeze(node_table),
        freeze(tasks),
        freeze(classes.table),
        freeze(lower_signatures(classes.signatures, cache, nodes, taint_sets)),
        freeze(classes.terms),
        freeze(classes.bonds),
        freeze((classes.ports,))[0],
        freeze(job_table),
        freeze(set_table),
        classes.n_domains,
    )
    omitted = rows[~wanted]
    return Lowered(
        snapshot,
        queues,
        nodes,
        cache.groups.objects[jobs.rows],
        [cache.layouts[number] for number in jobs.layout],
        cache.groups.cells[jobs.rows, cells.BARE] == 1,
        cache.pods.objects[rows[order]],
        cache.pods.objects[omitted],
        _statuses(cache.pods.cells[omitted], now_ns, config),
        classes.resources,
        classes.refusals,
        hints.searched,
    )


def _columns(cache: Cache, rows: Longs, promised: Mapping[str, str]) -> Longs:
    """The cells of the pods in these rows, (T, cells). Pods prefer the nodes that they were ``promised``, by pod."""
    columns: Longs = cache.pods.cells[rows]
    if promised:
        place = np.empty(cache.pods.cells.shape[0], np.int64)
        place[rows] = np.arange(rows.size)
        for key, node in promised.items():
            row = cache.pods.row_of.get(key)
            if row is not None:
                columns[place[row], cells.NOMINATED] = cache.node_names.row(node)
    return columns


def _statuses(columns: Longs, now_ns: int, config: Config) -> npt.NDArray[np.int8]:
    """Each pod's status (0.1)."""
    phase, deleted = columns[:, cells.PHASE], columns[:, cells.DELETED]
    leaving = deleted != 0
    stuck = leaving & (now_ns - deleted > duration(config.stuck_in_releasing_s))
    waiting = np.where(
        columns[:, cells.NODE] != NULL,
        Status.BOUND,
        np.where(columns[:, cells.GATED] == 1, Status.GATED, Status.PENDING),
    )
    running = np.where(stuck, Status.STUCK_IN_RELEASING, np.where(leaving, Status.RELEASING, Status.RUNNING))
    known = np.where(phase == Phase.SUCCEEDED, Status.SUCCEEDED, Status.UNKNOWN)
    status = np.where(phase == Phase.RUNNING, running, known)
    return np.where(phase == Phase.PENDING, np.where(leaving, Status.RELEASING, waiting), status).astype(np.int8)


def _traits(jobs: JobRows, config: Config) -> Longs:
    """(J,) what jobs must have in common to be alike: with the victims of the original the priority alone."""
    return jobs.priority if config.victims == "original" else np.asarray(2 * jobs.priority + jobs.preemptible)


def _not_placed(status: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Who waits for a place, or gives one up."""
    return (status < Status.PIPELINED) | (status > Status.RUNNING)


def _task_order(columns: Longs, sets: Ints, wanted: npt.NDArray[np.bool_]) -> Longs:
    """Rows of the wanted pods: by set, which goes by job, then in task order; those without a job last.

    ``columns`` come by creation and uid, which a stable sort keeps as the last tie-break.
    """
    chosen = np.flatnonzero(wanted)
    by_set = np.where(sets[chosen] == NULL, np.iinfo(np.int32).max, sets[chosen])
    ranks = [columns[chosen, cell] for cell in (cells.TASK_PRIORITY, cells.LABELLED, cells.RAY, cells.KUBEFLOW)]
    ranks = [rank for rank in ranks if rank.size and (rank != rank[0]).any()]
    return chosen[np.lexsort((*ranks, by_set))]
