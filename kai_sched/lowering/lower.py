"""From a view to a snapshot: the status of each pod, which pods become tasks and in which order, and what alike jobs
must have in common (semantics 0.1, 1.3, 3.8).

``cycle.run`` calls ``lower`` once per cycle. The order of the work: bring the cache up to date, lower queues and jobs,
give each pod its status, its job and its node, choose and order the tasks, then lower classes, signatures, jobs
and nodes. ``cycle.lift`` uses ``Lowered`` to turn rows of the solution back into names.

Invariant: all tables are in canonical order (``snapshot.columns`` has the order of each table), whatever the order of
the input and whatever the cache holds. Equal clusters give equal snapshots, byte for byte.

Letters for sizes in shapes: T tasks, J jobs, S sets, C classes, N nodes, Q queues, R resources, A inter-pod terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.cached_rows import GroupCell, PodCell
from kai_sched.lowering.claims.requests import lower_claims
from kai_sched.lowering.claims.tables import ClaimRows, find_claims
from kai_sched.lowering.class_records import TaskColumns
from kai_sched.lowering.constraints import lower_signatures
from kai_sched.lowering.devices import DeviceRows, lower_devices
from kai_sched.lowering.equivalence import constraint_kinds, job_equivalence
from kai_sched.lowering.exclusive_claims import ExclusiveRows
from kai_sched.lowering.holdings import Holdings, find_holdings, with_refused_victims
from kai_sched.lowering.jobs import (
    JobRows,
    lower_jobs,
    make_jobs,
    make_sets,
    marks_of_jobs,
    memberships,
    rows_of,
    take,
)
from kai_sched.lowering.limits import duration, moment
from kai_sched.lowering.nodes import lower_nodes, node_list
from kai_sched.lowering.numa import NumaRows, lower_numa
from kai_sched.lowering.pod_classes import ClassRows, lower_classes
from kai_sched.lowering.queues import QueueRows, lower_queues
from kai_sched.lowering.topologies import TopologyRows, lower_topologies
from kai_sched.lowering.volumes import VolumeRows
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.objects import Node, Phase
from kai_sched.model.store import Cluster
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.sorting import in_order
from kai_sched.snapshot.tables import Ints, Jobs, Longs, Sets, Snapshot, Status, Tasks, freeze


@dataclass(frozen=True, slots=True)
class Lowered:
    """The snapshot, and what each of its rows stands for.

    Attributes
    ----------
    snapshot
        The tables for the solver.
    queues
        The queue of each row, and the queues that are ignored.
    nodes
        (N,) the nodes.
    groups
        (J,) the PodGroup of each job; a bare pod has one that was made for it.
    layouts
        (J,) the sets of each job.
    bare
        (J,) whether the job is a bare pod.
    pods
        (T,) the pod of each task.
    gpu_groups
        (G,) the group of each GPU device that is in use at the start; "" for the others.
    omitted_pods, omitted_status
        Pods that the solver does not need to see, such as pending pods of other schedulers, and their statuses.
    resources
        (R,) the resource of each column of amounts: CPU, memory, GPUs and pods first.
    refusals
        (C,) the claim, volume, ConfigMap or feature for which a class fits no node; "" where there is none.
    searched
        ``SchedulingHints.searched``, for the explanations.
    claims
        The claims for devices, and what the rows of their tables stand for.
    volumes
        The claims that wait for volumes, the free volumes, what their rows stand for, and what drivers say of nodes.
    exclusive
        The claims for one pod alone.
    topologies
        The topologies that constraints name, and what the rows of their domains stand for.
    numa
        The NUMA zones of nodes, and what their rows and columns stand for.
    """

    snapshot: Snapshot
    queues: QueueRows
    nodes: list[Node]
    groups: npt.NDArray[np.object_]
    layouts: npt.NDArray[np.object_]
    bare: npt.NDArray[np.bool_]
    pods: npt.NDArray[np.object_]
    gpu_groups: list[str]
    omitted_pods: npt.NDArray[np.object_]
    omitted_status: npt.NDArray[np.int8]
    resources: tuple[str, ...]
    refusals: list[str]
    searched: Mapping[str, tuple[int, ...]]
    claims: ClaimRows
    volumes: VolumeRows
    exclusive: ExclusiveRows
    topologies: TopologyRows
    numa: NumaRows


@dataclass(frozen=True, slots=True)
class _PlacedPods:
    """The pods that become tasks, in canonical order: their rows in the cache, and where they stand.

    All but ``omitted`` are (T,). ``omitted`` are the rows of the other pods.
    """

    rows: Longs
    status: npt.NDArray[np.int8]
    job: Ints
    sets: Ints
    node: Ints
    nominated: Ints
    omitted: Longs


def lower(cluster: Cluster, config: Config, now_ns: int, cache: Cache, hints: SchedulingHints = NO_HINTS) -> Lowered:
    """Make the tables of a cycle at ``now_ns`` (ns since the epoch). LoweringError names all that cannot be lowered.

    ``cache`` is changed in place; an exception empties it, as does another config. ``hints``: see ``SchedulingHints``.
    """
    cache.sync(cluster, config)
    nodes, queues = node_list(cache), _queue_rows(cluster, cache, config, hints)
    jobs = lower_jobs(cluster, cache, queues, hints, config.staleness_grace_s, moment(now_ns))
    pods = _place_pods(cache, jobs, nodes, now_ns, config, hints)
    objects, placed = cache.pods.objects[pods.rows], (pods.node, pods.status)
    claims = find_claims(cluster, cache, nodes, objects, placed, config)
    holdings = find_holdings(cache, objects, pods.rows, placed, config, hints.awaited_devices)
    classes = lower_classes(cache, cluster, config, nodes, _columns_of(cache, pods, objects, holdings, hints), claims)
    devices = lower_devices(nodes, objects, pods.node, holdings, classes.table.shares[classes.of_task])
    legacy, groups = _with_legacy_mig(pods, classes, len(nodes)), cache.groups.objects[jobs.rows]
    node_table, taint_sets = lower_nodes(nodes, cache, classes, config, legacy, hints.closed_nodes, claims)
    job_table, set_table, topologies = _job_tables(cluster, cache, nodes, classes, pods, jobs, config)
    numa = lower_numa(cluster, cache, nodes, objects, classes.of_task, placed, classes.resources, config)
    dra = lower_claims(claims, classes.claims, _brief(pods, classes, groups, hints), len(objects), cache, nodes)
    snapshot = Snapshot(
        queues=freeze(queues.table),
        nodes=freeze(node_table),
        devices=freeze(devices.table),
        tasks=freeze(_tasks(cache, pods, classes.of_task, devices)),
        classes=freeze(classes.table),
        signatures=freeze(lower_signatures(classes.signatures, cache, nodes, taint_sets)),
        terms=freeze(classes.terms),
        term_roles=freeze(classes.term_roles),
        host_ports=freeze(classes.host_ports),
        volumes=freeze(classes.volumes.table),
        topologies=freeze(topologies.table),
        numa=freeze(numa.zones),
        numa_requests=freeze(numa.requests),
        jobs=job_table,
        sets=set_table,
        dra_devices=dra.devices,
        dra_requests=dra.requests,
        dra_claims=dra.claims,
        n_domains=classes.n_domains,
    )
    return Lowered(
        snapshot=snapshot,
        queues=queues,
        nodes=nodes,
        groups=groups,
        layouts=_layouts(cache)[jobs.layout],
        bare=cache.groups.cells[GroupCell.BARE, jobs.rows] == 1,
        pods=objects,
        gpu_groups=devices.groups,
        omitted_pods=cache.pods.objects[pods.omitted],
        omitted_status=_statuses(cache, pods.omitted, now_ns, config),
        resources=classes.resources,
        refusals=classes.refusals,
        searched=hints.searched,
        claims=claims,
        volumes=classes.volumes,
        exclusive=classes.exclusive,
        topologies=topologies,
        numa=numa,
    )


def _queue_rows(cluster: Cluster, cache: Cache, config: Config, hints: SchedulingHints) -> QueueRows:
    """The table of queues; as it was made last where they are the same."""
    made_of = cluster.queues, hints.elsewhere
    if cache.queues is None or cache.queues[0] != made_of:
        cache.queues = made_of, lower_queues(cluster.queues, config, hints.elsewhere)
    found: QueueRows = cache.queues[1]
    return found


def _layouts(cache: Cache) -> npt.NDArray[np.object_]:
    """The numbered layouts of the cache."""
    found = np.empty(len(cache.layouts), object)
    found[:] = cache.layouts
    return found


def _topologies(cluster: Cluster, cache: Cache, jobs: JobRows, nodes: list[Node], config: Config) -> TopologyRows:
    """The domains and constraints; none where the plugin is off."""
    used = np.flatnonzero(np.bincount(jobs.layout)) if "topology" in config.plugins else np.zeros(0, np.int64)
    return lower_topologies(cache, used, cluster.topologies, nodes)


def _job_tables(
    cluster: Cluster,
    cache: Cache,
    nodes: list[Node],
    classes: ClassRows,
    pods: _PlacedPods,
    jobs: JobRows,
    config: Config,
) -> tuple[Jobs, Sets, TopologyRows]:
    """The tables of jobs and sets, and topologies; jobs are alike by their classes, constraints, traits and queues."""
    topologies = _topologies(cluster, cache, jobs, nodes, config)
    waits, traits = _not_placed(pods.status), _traits(jobs, config)
    set_table = make_sets(cache, jobs, pods.sets, pods.status == Status.SUCCEEDED, topologies.constraints)
    kinds = constraint_kinds(set_table) if topologies.any else None
    alike = job_equivalence(classes.kind, pods.job, pods.sets, waits, traits, jobs.queue, kinds)
    marks = marks_of_jobs(cache, jobs, pods.job, pods.rows)
    return freeze(make_jobs(jobs, set_table.task_ptr, alike, marks)), freeze(set_table), topologies


def _brief(
    pods: _PlacedPods, classes: ClassRows, groups: npt.NDArray[np.object_], hints: SchedulingHints
) -> npt.NDArray[np.uint8]:
    """(C,) ``DraRequests.brief``: 1 for classes that only groups of ``SchedulingHints.brief`` wait for."""
    found = np.zeros(len(classes.claims), np.uint8)
    if hints.brief:
        brief = np.array([group.key in hints.brief for group in groups] + [False], np.uint8)
        waits = pods.status == Status.PENDING
        found[classes.of_task[waits]] = 1
        np.minimum.at(found, classes.of_task[waits], brief[pods.job[waits]])
    return found


def _movable(pods: _PlacedPods) -> npt.NDArray[np.bool_]:
    """(T,) whether the task may get a node: pending pods need one, and running ones may be moved to make room."""
    return np.asarray((pods.status >= Status.PENDING) & (pods.status <= Status.RUNNING) & (pods.job != NULL))


def _columns_of(
    cache: Cache, pods: _PlacedPods, objects: npt.NDArray[np.object_], holdings: Holdings, hints: SchedulingHints
) -> TaskColumns:
    """What classes are made from."""
    placed = (pods.node, pods.status)
    numbers = with_refused_victims(cache, holdings.classes, pods.rows, placed, hints.refused_victims)
    node = np.where(pods.status >= Status.PIPELINED, pods.node, np.int32(NULL))
    return TaskColumns(objects, numbers, pods.status == Status.PENDING, _movable(pods), node)


def _tasks(cache: Cache, pods: _PlacedPods, classes: Ints, devices: DeviceRows) -> Tasks:
    """The table of tasks; ``classes`` (T,) are their classes."""
    return Tasks(
        job=pods.job,
        set=pods.sets,
        cls=classes,
        node=pods.node,
        nominated=pods.nominated,
        status=pods.status,
        foreign=cache.pods.cells[PodCell.FOREIGN, pods.rows].astype(np.uint8),
        share_ptr=devices.share_ptr,
        device=devices.device,
    )


def _with_legacy_mig(pods: _PlacedPods, classes: ClassRows, n_nodes: int) -> npt.NDArray[np.bool_]:
    """(N,) whether pods of jobs are on the node that ask for MIG devices in the legacy way."""
    found = np.zeros(n_nodes, bool)
    found[pods.node[classes.legacy_mig[classes.of_task] & (pods.node != NULL) & (pods.job != NULL)]] = True
    return found


def _place_pods(
    cache: Cache, jobs: JobRows, nodes: list[Node], now_ns: int, config: Config, hints: SchedulingHints
) -> _PlacedPods:
    """Give each pod in the cache its status, job, set and node, and choose those that become tasks.

    A pod becomes a task if it is in a job, or if it holds room on a node of the pool. A live bind request counts as the
    node of its pod, with the status Binding.
    """
    rows, cells = cache.pods.ordered(), cache.pods.cells
    status = _statuses(cache, rows, now_ns, config)
    job, sets = memberships(cache, rows, jobs)
    node, binding = (take(_node_rows(cache, nodes), cells[each, rows]) for each in (PodCell.NODE, PodCell.BINDING))
    binds = binding != NULL
    node[binds], status[binds] = binding[binds], Status.BINDING
    wanted = (job != NULL) | ((node != NULL) & (status >= Status.PIPELINED))
    order = _task_order(cells, rows, sets, wanted)
    chosen = rows[order]
    nominated = _nominated(cache, chosen, hints.nominated_nodes)
    return _PlacedPods(
        rows=chosen,
        status=status[order],
        job=job[order],
        sets=sets[order],
        node=node[order],
        nominated=take(_node_rows(cache, nodes), nominated),
        omitted=rows[~wanted],
    )


def _node_rows(cache: Cache, nodes: list[Node]) -> Ints:
    """The row of each node that the cache has numbered; NULL for those that are not in the pool."""
    found: Ints | None = cache.columns.get("rows")
    if found is None or found.size < len(cache.node_names):
        found = cache.columns["rows"] = rows_of(cache.node_names, {node.name: n for n, node in enumerate(nodes)})
    return found


def _nominated(cache: Cache, rows: Longs, hints: Mapping[str, str]) -> Longs:
    """(T,) the number of the nominated node of the pods in these ``rows`` (T,), or NULL.

    ``hints`` has a node by pod (``SchedulingHints.nominated_nodes``); it replaces the nominated node of the pod.
    """
    found: Longs = cache.pods.cells[PodCell.NOMINATED, rows]
    if hints:
        place = np.full(cache.pods.objects.size, NULL, np.int64)
        place[rows] = np.arange(rows.size)
        for key, node in hints.items():
            row = cache.pods.row_of.get(key)
            if row is not None and place[row] != NULL:
                found[place[row]] = cache.node_names.row(node)
    return found


def _statuses(cache: Cache, rows: Longs, now_ns: int, config: Config) -> npt.NDArray[np.int8]:
    """(T,) the status of the pods in these ``rows`` (T,), from phase, node, deletion time and gates (semantics 0.1).

    A running pod that has been leaving for longer than ``Config.stuck_in_releasing_s`` is StuckInReleasing.
    """
    cells = cache.pods.cells
    phase, deleted = cells[PodCell.PHASE, rows], cells[PodCell.DELETED, rows]
    leaving = deleted != 0
    stuck = leaving & (now_ns - deleted > duration(config.stuck_in_releasing_s))
    waiting = np.where(
        cells[PodCell.NODE, rows] != NULL,
        Status.BOUND,
        np.where(cells[PodCell.GATED, rows] == 1, Status.GATED, Status.PENDING),
    )
    running = np.where(stuck, Status.STUCK_IN_RELEASING, np.where(leaving, Status.RELEASING, Status.RUNNING))
    known = np.where(phase == Phase.SUCCEEDED, Status.SUCCEEDED, Status.UNKNOWN)
    status = np.where(phase == Phase.RUNNING, running, known)
    return np.where(phase == Phase.PENDING, np.where(leaving, Status.RELEASING, waiting), status).astype(np.int8)


def _traits(jobs: JobRows, config: Config) -> Longs:
    """(J,) numbers that are equal for jobs that may be equivalent.

    With ``victims: original`` that is the priority; else the priority and whether the job is preemptible.
    """
    return jobs.priority if config.victims == "original" else np.asarray(2 * jobs.priority + jobs.preemptible)


def _not_placed(status: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """(T,) whether the task is neither placed nor running: it is pending, gated, finished or leaving."""
    return (status < Status.PIPELINED) | (status > Status.RUNNING)


def _task_order(cells: Longs, rows: Longs, sets: Ints, wanted: npt.NDArray[np.bool_]) -> Longs:
    """Places in ``rows`` (T,) of the wanted pods, in canonical order of tasks.

    The order is: set (sets are ordered by job), then the task order of the plugins; pods without a job come last.
    ``rows``, ``sets`` and ``wanted``, (T,) each, are ordered by creation and uid. The sort is stable, so that creation
    and uid break the remaining ties. ``cells`` are those of the cache.
    """
    chosen = np.flatnonzero(wanted)
    by_set = np.where(sets[chosen] == NULL, sets.max(initial=0) + 1, sets[chosen])
    in_rows = rows[chosen]
    ranks = [cells[cell, in_rows] for cell in (PodCell.TASK_PRIORITY, PodCell.LABELLED, PodCell.RAY, PodCell.KUBEFLOW)]
    return chosen[in_order([*ranks, by_set])]
