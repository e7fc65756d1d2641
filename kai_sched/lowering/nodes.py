"""The table of nodes: allocatable amounts, cordons and conditions, GPU devices and their memory, MIG, taints, and which
nodes count as capacity (semantics 0.3, 2.1).

Invariant: nodes are in the order of their names. Columns that depend on nodes only are cached until a node changes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kai_sched.api import names
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.claims.tables import ClaimRows
from kai_sched.lowering.devices import device_memories
from kai_sched.lowering.pod_classes import ClassRows
from kai_sched.model.config import Config
from kai_sched.model.constraints import Taint
from kai_sched.model.objects import Node
from kai_sched.model.resources import GPU, mig_gpus
from kai_sched.snapshot.gpu_kinds import BY_DEVICES, MigMode
from kai_sched.snapshot.tables import Flags, Floats, Ints, Nodes
from kai_sched.snapshot.verdicts import Verdict

MIG_STRATEGIES = {"single": MigMode.SINGLE, "mixed": MigMode.MIXED}
CONDITIONS = {
    "MemoryPressure": Verdict.MEMORY_PRESSURE,
    "DiskPressure": Verdict.DISK_PRESSURE,
    "PIDPressure": Verdict.PID_PRESSURE,
    "NetworkUnavailable": Verdict.NETWORK_UNAVAILABLE,
}


def node_list(cache: Cache) -> list[Node]:
    """(N,) the nodes of the pool, by name."""
    found = cache.columns.get("nodes")
    if found is None:
        found = cache.columns["nodes"] = np.empty(len(cache.nodes), object)
        found[:] = [node for _, node in sorted(cache.nodes.items())]
    return list(found)


def lower_nodes(
    nodes: list[Node],
    cache: Cache,
    classes: ClassRows,
    config: Config,
    legacy: npt.NDArray[np.bool_],
    closed: frozenset[str],
    claims: ClaimRows,
) -> tuple[Nodes, list[tuple[Taint, ...]]]:
    """The node table, and the distinct taint lists that its column ``taints`` refers to.

    Parameters
    ----------
    nodes
        (N,) the nodes in canonical order.
    classes
        The resource of each column of ``allocatable`` (R,), and what nodes have of those for volumes.
    legacy
        (N,) whether pods are there that ask for MIG devices in the legacy way.
    closed
        ``SchedulingHints.closed_nodes``.
    claims
        The GPUs of slices on the nodes, if there are slices: a node with such GPUs gives them to claims alone, also
        where it says that it has as many for others, as they are the same devices. And the resources for which
        DeviceClasses stand: nodes that do not offer them have as much as devices say.
    """
    kept, gpus, resources = cache.column, claims.gpus, classes.resources
    allocatable = np.zeros((len(nodes), len(resources)))
    n_of_nodes = len(resources) - classes.amounts.shape[1]
    for r, resource in enumerate(resources[:n_of_nodes]):
        amounts = kept(("allocatable", resource), lambda name=resource: _amounts(nodes, name))  # type: ignore[misc]
        allocatable[:, r] = amounts
        if claims.extended is not None and resource in claims.extended.backed and resource != GPU:
            allocatable[amounts <= 0.0, r] = BY_DEVICES
    allocatable[:, n_of_nodes:] = classes.amounts
    by_claims = np.zeros(len(nodes), bool) if gpus is None else gpus > 0.0
    if gpus is not None:
        allocatable[by_claims, resources.index(GPU)] = gpus[by_claims]
    taint_sets: dict[tuple[Taint, ...], int] = cache.columns.setdefault("taint sets", {})
    taints = kept("taints", lambda: _numbered([node.taints for node in nodes], taint_sets))
    condition = kept("condition", lambda: np.array([int(_condition(node)) for node in nodes], np.uint8))
    mig = kept("mig", lambda: np.array([int(_mig(node)) for node in nodes], np.uint8))
    devices = kept("devices", lambda: np.array([_devices(node) for node in nodes], np.float64))
    offered = kept(("allocatable", GPU), lambda: _amounts(nodes, GPU)) > 0.0
    cpu_only = ~offered & (mig == MigMode.NO_MIG) & ~by_claims
    table = Nodes(
        allocatable=allocatable,
        mig_gpus=kept("mig_gpus", lambda: np.array([_mig_gpus(node) for node in nodes], np.float64)).copy(),
        counted=np.where(condition == 0, kept("counted", lambda: _counted(nodes, config)), 0).astype(np.uint8),
        devices=np.where(by_claims, 0.0 if gpus is None else gpus, devices).astype(np.float64),
        device_memory=device_memories(nodes, cache, config).copy(),
        cpu_only=cpu_only.astype(np.uint8),
        condition=condition.copy(),
        mig=mig.copy(),
        legacy_mig=legacy.astype(np.uint8),
        closed=np.array([node.name in closed for node in nodes] if closed else np.zeros(len(nodes)), np.uint8),
        claims_only=(by_claims * (1 + offered)).astype(np.uint8),
        taint_set=taints.copy(),
    )
    return table, list(taint_sets)


def _numbered(taints: list[tuple[Taint, ...]], numbers: dict[tuple[Taint, ...], int]) -> Ints:
    """(N,) the number of each list of taints; a list without one gets the next number in ``numbers``."""
    return np.array([numbers.setdefault(each, len(numbers)) for each in taints], np.int32)


def _amounts(nodes: list[Node], resource: str) -> Floats:
    return np.array([node.allocatable.get(resource, 0.0) for node in nodes], np.float64)


def _counted(nodes: list[Node], config: Config) -> Flags:
    """(N,) what a healthy node adds to the cluster's capacity: 1 for all of it, 2 for all but GPUs.

    The latter holds if scheduling is restricted to worker nodes and the node is no GPU worker.
    """
    restricted = config.restrict_node_scheduling
    return np.array([2 if restricted and config.gpu_worker_label not in node.labels else 1 for node in nodes], np.uint8)


def _devices(node: Node) -> float:
    """The number of GPU devices: the label of GPU feature discovery, else the allocatable GPUs."""
    try:
        return float(int(node.labels[names.GPU_COUNT_LABEL]))
    except (KeyError, ValueError):
        return float(int(node.allocatable.get(GPU, 0.0)))


def _condition(node: Node) -> Verdict:
    """The verdict that keeps all pods away from the node, OK if there is none; a cordon comes before bad conditions."""
    if node.unschedulable:
        return Verdict.UNSCHEDULABLE
    if not node.bad_conditions:
        return Verdict.OK
    return CONDITIONS.get(node.bad_conditions[0], Verdict.NOT_READY)


@lru_cache(maxsize=256)
def _mig_names(resources: tuple[str, ...]) -> tuple[str, ...]:
    """The names of MIG devices among these resources of a node, in their order.

    Kept by the names, as most nodes offer the same resources and nearly none has MIG devices.
    """
    return tuple(name for name in resources if name.startswith(names.MIG_PREFIX))


def _mig(node: Node) -> MigMode:
    """What kinds of devices the node has; the label of the GPU operator comes before the resources."""
    label = node.labels.get(names.MIG_ENABLED_LABEL)
    if label is not None:
        is_mig = label.lower() in ("true", "1", "t")
    else:
        is_mig = any(node.allocatable[name] > 0 for name in _mig_names(tuple(node.allocatable)))
    if not is_mig:
        return MigMode.NO_MIG
    return MIG_STRATEGIES.get(node.labels.get(names.MIG_STRATEGY_LABEL, ""), MigMode.ANY)


def _mig_gpus(node: Node) -> float:
    """The GPUs that the MIG devices of the node count as."""
    offered = _mig_names(tuple(node.allocatable))
    return sum(mig_gpus(name) * node.allocatable[name] for name in offered) if offered else 0.0
