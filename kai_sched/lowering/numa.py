"""The tables of NUMA zones: what is free of them, what pods hold of them, and what classes of pods ask of them
(semantics 12.4).

Only resources that zones report, that some pod requests and that are not on the list ``ignoreList`` have a column.

A pod holds no more of zones than it requests, whatever its annotations say: anybody who may write to the pod may write
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.model.config import Config
from kai_sched.model.numa import PLUGIN, Alignment, Amounts, NodeZones, NumaRequest, Placement, ZoneAmounts
from kai_sched.model.objects import Node
from kai_sched.model.read.numa import reconstructs
from kai_sched.model.resources import PODS, canonical
from kai_sched.model.store import Cluster
from kai_sched.snapshot.choices import ZonePolicy
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.numa_tables import NumaRequests, NumaZones
from kai_sched.snapshot.tables import Floats, Ints, Status

Statuses = npt.NDArray[np.int8]
Pods = npt.NDArray[np.object_]  # of Pod
_POLICY = {
    Alignment.NONE: ZonePolicy.NONE,
    Alignment.BEST_EFFORT: ZonePolicy.BEST_EFFORT,
    Alignment.RESTRICTED: ZonePolicy.RESTRICTED,
    Alignment.SINGLE: ZonePolicy.SINGLE,
}


@dataclass(frozen=True, slots=True)
class NumaRows:
    """The tables, and what their rows are about.

    Attributes
    ----------
    zones, requests
        The tables.
    names
        (N,) the names of the zones of each node, in their order.
    resources
        (B,) the resource of each column.
    """

    zones: NumaZones
    requests: NumaRequests
    names: list[tuple[str, ...]]
    resources: tuple[str, ...]


def lower_numa(
    cluster: Cluster,
    cache: Cache,
    nodes: list[Node],
    pods: Pods,
    of_task: Ints,
    placed: tuple[Ints, Statuses],
    resources: tuple[str, ...],
    config: Config,
) -> NumaRows:
    """The tables; without rows where the plugin is off or no node has zones.

    Parameters
    ----------
    pods, of_task, placed
        (T,) the pod of each task, its class, and its node and status.
    resources
        (R,) the resources that classes request.

    What a task takes of zones is in the units of ``model.resources``; amounts of a resource without a column are left
    out, as nothing could refuse them.
    """
    numa = cluster.node_zones if PLUGIN in config.plugins else {}
    known = [numa.get(node.name) for node in nodes] if numa else []
    if not any(each is not None and each.zones for each in known):
        return no_zones(len(nodes), len(pods), int(of_task.max(initial=NULL)) + 1)
    arguments = config.plugins[PLUGIN]
    ignored = {canonical(name.strip()) for name in arguments.get("ignoreList", "").split(",")} | {PODS}
    reported = {name for each in known if each is not None for zone in each.zones for name in zone.allocatable}
    aware = tuple(name for name in resources if name in reported - ignored)
    column = {name: b for b, name in enumerate(aware)}
    names = [() if each is None else tuple(zone.name for zone in each.zones) for each in known]
    requests = _requests(pods, of_task, column)
    records = _records(pods, cache, names, placed, column)
    with_request = np.diff(requests.ptr)[of_task] > 0
    zones = _zones(known, (records, with_request), placed, column, reconstructs(arguments))
    return NumaRows(zones, requests, names, aware)


def no_zones(n_nodes: int, n_tasks: int, n_classes: int) -> NumaRows:
    """The tables without rows: no class asks for zones, no task holds some, and no node has any."""
    none = np.zeros((0, 0))
    zones = NumaZones(
        ptr=np.zeros(n_nodes + 1, np.int32),
        policy=np.zeros(n_nodes, np.uint8),
        pod_scope=np.zeros(n_nodes, np.uint8),
        aware=np.zeros((n_nodes, 0), np.uint8),
        allocatable=none,
        free=none,
        held_ptr=np.zeros(n_tasks + 1, np.int32),
        held=np.zeros(0),
    )
    return NumaRows(zones, _RequestRows().table(n_classes), [()] * n_nodes, ())


@dataclass(slots=True)
class _RequestRows:
    """The rows of ``NumaRequests`` so far, and by class how many there are up to it.

    Attributes
    ----------
    ends
        By class: the row after its last request.
    guaranteed
        By class: 1 if its pods are guaranteed.
    alone
        By request: 1 for an init container that runs before the others.
    entry_ptr, entries
        By request: where its entries begin; the column and the amount of each.
    """

    ends: list[int] = field(default_factory=list)
    guaranteed: list[int] = field(default_factory=list)
    alone: list[int] = field(default_factory=list)
    entry_ptr: list[int] = field(default_factory=lambda: [0])
    entries: list[tuple[int, float]] = field(default_factory=list)

    def add(self, amounts: Amounts, alone: bool, column: Mapping[str, int]) -> None:
        """Append one request of the class that is being added; ``column`` numbers the resources that count."""
        self.entries += [(column[name], amount) for name, amount in amounts if name in column]
        self.alone.append(alone)
        self.entry_ptr.append(len(self.entries))

    def table(self, n_classes: int) -> NumaRequests:
        """The table for so many classes; those that were not added ask for nothing."""
        missing = n_classes - len(self.ends)
        return NumaRequests(
            ptr=np.array([0, *self.ends, *[len(self.alone)] * missing], np.int32),
            guaranteed=np.array([*self.guaranteed, *[0] * missing], np.uint8),
            alone=np.array(self.alone, np.uint8),
            entry_ptr=np.array(self.entry_ptr, np.int32),
            resource=np.array([b for b, _ in self.entries], np.int32),
            amount=np.array([amount for _, amount in self.entries], np.float64),
        )


def _requests(pods: Pods, of_task: Ints, column: Mapping[str, int]) -> NumaRequests:
    """What each class asks of zones; the pods of a class are of one shape."""
    found = _RequestRows()
    for t in np.unique(of_task, return_index=True)[1].tolist():
        request = pods[t].shape.numa
        if request is not None and (request.guaranteed or any(name in column for name, _ in request.pod)):
            _add(request, column, found)
        found.guaranteed.append(request is not None and request.guaranteed)
        found.ends.append(len(found.alone))
    return found.table(len(found.ends))


def _add(request: NumaRequest, column: Mapping[str, int], found: _RequestRows) -> None:
    """Append what a class asks for: the pod as a whole, then its containers in the order of ``NumaRequest``."""
    found.add(request.pod, False, column)
    for container in request.containers:
        found.add(container.amounts, container.first, column)


def _records(
    pods: Pods,
    cache: Cache,
    names: list[tuple[str, ...]],
    placed: tuple[Ints, Statuses],
    column: Mapping[str, int],
) -> dict[int, Floats]:
    """By task on a node: (zones, B) what it holds of the zones, if somebody has recorded that.

    What was observed counts before what the bind request says, and this before what was predicted.
    """
    node, status = placed
    found = {}
    for t in np.flatnonzero((node != NULL) & (status >= Status.PIPELINED)).tolist():
        pod, zones = pods[t], names[node[t]]
        if not pod.zones and not cache.bindings:
            continue
        request = None if pod.zones_observed else cache.binding(pod)
        record = request.zones if request is not None and request.zones else pod.zones
        if record and {each.zone for each in record} <= set(zones):
            found[t] = _held(record, zones, dict(pod.shape.request), column)
    return found


def _held(
    record: Placement, zones: tuple[str, ...], requested: Mapping[str, float], column: Mapping[str, int]
) -> Floats:
    """(zones, B) what of the record counts: no more than is requested, the first zones before the others."""
    held, row = np.zeros((len(zones), len(column))), {name: z for z, name in enumerate(zones)}
    left = dict(requested)
    for each in sorted(record, key=lambda each: row[each.zone]):
        for name, amount in each.amounts:
            if name in column and left.get(name, 0.0) > 0.0:
                held[row[each.zone], column[name]] = min(amount, left[name])
                left[name] -= amount
    return held


def _zones(
    known: list[NodeZones | None],
    holders: tuple[dict[int, Floats], npt.NDArray[np.bool_]],
    placed: tuple[Ints, Statuses],
    column: Mapping[str, int],
    reconstruct: bool,
) -> NumaZones:
    """The table of zones; ``holders`` are what tasks hold, and (T,) whether their class asks for some of a zone."""
    sizes = [0 if each is None else len(each.zones) for each in known]
    ptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    allocatable, available = (np.zeros((int(ptr[-1]), len(column))) for _ in range(2))
    aware = np.zeros((len(known), len(column)), np.uint8)
    for n, each in enumerate(known):
        for z, zone in enumerate(() if each is None else each.zones):
            for name, amount in zone.allocatable.items():
                if name in column:
                    aware[n, column[name]] = 1
                    allocatable[ptr[n] + z, column[name]] = amount
                    available[ptr[n] + z, column[name]] = zone.available.get(name, 0.0)
    records, with_request = holders
    held_ptr, held = _held_rows(records, with_request, max(sizes), len(column))
    free = allocatable.copy() if reconstruct else available
    for t, amounts in records.items():
        n, leaves = int(placed[0][t]), placed[1][t] == Status.RELEASING
        # What leaving pods hold is free later. Agents report it as not available.
        if reconstruct and not leaves:
            free[ptr[n] : ptr[n + 1]] -= amounts
        elif leaves and not reconstruct:
            free[ptr[n] : ptr[n + 1]] += amounts
        held[held_ptr[t] : held_ptr[t] + amounts.size] = amounts.ravel()
    return NumaZones(
        ptr=ptr,
        policy=np.array([ZonePolicy.NONE if each is None else _POLICY[each.policy] for each in known], np.uint8),
        pod_scope=np.array([each is not None and each.pod_scope for each in known], np.uint8),
        aware=aware,
        allocatable=allocatable,
        free=free,
        held_ptr=held_ptr,
        held=held,
    )


def _held_rows(
    records: Mapping[int, Floats],
    with_request: npt.NDArray[np.bool_],
    most_zones: int,
    n_columns: int,
) -> tuple[Ints, Floats]:
    """(T + 1,) where the amounts of each task begin, and zeros for these amounts.

    Only tasks have some that hold something of zones at the start, or whose class asks for some: a search may place
    them anew.
    """
    needs = with_request.copy()
    needs[list(records)] = True
    held_ptr = np.concatenate(([0], np.cumsum(needs * (most_zones * n_columns)))).astype(np.int32)
    return held_ptr, np.zeros(int(held_ptr[-1]))


def zones_in_names(held: Floats, n: int, rows: NumaRows) -> Placement:
    """What a pod on node ``n`` holds of its zones; ``held`` (M, B) has a row for each zone, and perhaps more."""
    found = []
    for name, amounts in zip(rows.names[n], held.tolist(), strict=False):
        taken = tuple(sorted((each, amount) for each, amount in zip(rows.resources, amounts, strict=True) if amount))
        if taken:
            found.append(ZoneAmounts(name, taken))
    return tuple(found)
