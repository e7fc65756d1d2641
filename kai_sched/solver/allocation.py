"""The allocation of the working state and of scratch space (``state``), once a cycle.

Each buffer of the state is laid out by name: a dictionary says the shape of each view, in the order in which the views
lie in the buffer. The views and their offsets follow from it.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot
from kai_sched.solver.claim_state import ClaimState, make_claim_steps, make_picks
from kai_sched.solver.state import (
    Book,
    DeviceState,
    Division,
    DomainState,
    Finder,
    Offsets,
    Returning,
    Scratch,
    SetState,
    State,
    Survey,
    TaskState,
    TopologySearch,
    Tree,
    VolumeState,
    ZoneScratch,
    ZoneState,
)

Number = TypeVar("Number", np.float64, np.int64)
Shapes = dict[str, tuple[int, ...]]


def make_state(snapshot: Snapshot) -> State:
    """Return a state with zeros for amounts and counters and NULL for nodes; ``stages.fair_share`` fills it."""
    floats, amounts, offsets = _buffer(_float_shapes(snapshot), np.float64)
    integers, counts, integer_offsets = _buffer(_integer_shapes(snapshot), np.int64)
    offsets |= integer_offsets
    counts["node"][:] = NULL
    return State(
        floats=floats,
        integers=integers,
        at=Offsets(**{name: offsets[name] for name in Offsets._fields}),
        idle=amounts["idle"],
        releasing=amounts["releasing"],
        book=Book(**{name: amounts[name] for name in Book._fields}),
        spare=amounts["spare"],
        task=TaskState(**{name: counts[name] for name in TaskState._fields}),
        sets=SetState(**{name: counts[name] for name in SetState._fields}),
        domains=DomainState(**{name: counts[name] for name in DomainState._fields}),
        devices=DeviceState(now=counts["device_now"], later=counts["device_later"]),
        shares=counts["shares"],
        claims=_claim_state(counts),
        volumes=VolumeState(
            holder=counts["holder"], users=counts["users"], volume=counts["volume"], node=counts["made_on"]
        ),
        leaving_domains=DomainState(matched=counts["leaving_matched"], carried=counts["leaving_carried"]),
        ports=counts["ports"],
        leaving_ports=counts["leaving_ports"],
        zones=ZoneState(free=amounts["zone_free"], leaving=amounts["zone_leaving"], held=amounts["zone_held"]),
    )


def _claim_state(counts: dict[str, npt.NDArray[np.int64]]) -> ClaimState:
    """Return the views for claims, of which two have other names than their offsets."""
    other_names = {"device": "claim_device", "option": "claim_option"}
    return ClaimState(**{name: counts[other_names.get(name, name)] for name in ClaimState._fields})


def _float_shapes(snapshot: Snapshot) -> Shapes:
    """Return the shape of each view of ``State.floats``, in the order of the buffer."""
    n_nodes, n_resources = snapshot.nodes.allocatable.shape
    n_rows = snapshot.queues.parent.size + 1  # and the cluster
    return {
        "idle": (n_nodes, n_resources),
        "releasing": (n_nodes, n_resources),
        "quota": (n_rows, 3),
        "limit": (n_rows, 3),
        "fair": (n_rows, 3),
        "share": (n_rows, 3),
        "steady": (n_rows, 3),
        "keep": (n_rows, 3),
        "held": (n_rows, 3),
        "held_fixed": (n_rows, 3),
        "asked": (n_rows, 3),
        "priority": (n_rows,),
        "spare": (n_nodes, 2),
        "zone_free": (snapshot.numa.free.size,),
        "zone_leaving": (snapshot.numa.free.size,),
        "zone_held": snapshot.numa.held.shape,
    }


def _integer_shapes(snapshot: Snapshot) -> Shapes:
    """Return the shape of each view of ``State.integers``, in the order of the buffer."""
    n_tasks, n_sets, n_domains = snapshot.tasks.job.size, snapshot.sets.parent.size, snapshot.n_domains
    n_devices, n_shares = snapshot.devices.reserved.size, snapshot.tasks.device.size
    n_claims, n_slots = snapshot.dra_claims.shared.size, snapshot.dra_claims.device.size
    slices, volumes, n_waiting = snapshot.dra_devices, snapshot.volumes, snapshot.volumes.group.size
    n_volumes = 1 + int(max(volumes.near_volume.max(initial=NULL), volumes.far_volume.max(initial=NULL)))
    n_nodes, n_ports = snapshot.nodes.condition.size, snapshot.host_ports.ptr.size - 1
    return {
        "status": (n_tasks,),
        "node": (n_tasks,),
        "active": (n_sets,),
        "pending": (n_sets,),
        "waiting": (n_sets,),
        "cursor": (n_sets,),
        "matched": (n_domains,),
        "carried": (n_domains,),
        "device_now": (n_devices,),
        "device_later": (n_devices,),
        "shares": (n_shares,),
        "users_now": (n_claims,),
        "users_later": (n_claims,),
        "claim_device": (n_slots,),
        "claim_option": (n_slots,),
        "uses_now": slices.shared.shape,
        "uses_later": slices.shared.shape,
        "used_now": slices.limit.shape,
        "used_later": slices.limit.shape,
        "counted_now": slices.total.shape,
        "counted_later": slices.total.shape,
        "elsewhere": (1,),
        "holder": (n_volumes,),
        "users": (n_waiting,),
        "volume": (n_waiting,),
        "made_on": (n_waiting,),
        "leaving_matched": (n_domains,),
        "leaving_carried": (n_domains,),
        "ports": (n_nodes, n_ports),
        "leaving_ports": (n_nodes, n_ports),
    }


def _buffer(
    shapes: Shapes, dtype: type[Number]
) -> tuple[npt.NDArray[Number], dict[str, npt.NDArray[Number]], dict[str, int]]:
    """Return a buffer of zeros, its views, which lie one behind the other, and the position at which each begins."""
    buffer = np.zeros(sum(map(math.prod, shapes.values())), dtype)
    views, offsets, end = {}, {}, 0
    for name, shape in shapes.items():
        offsets[name], end = end, end + math.prod(shape)
        views[name] = buffer[offsets[name] : end].reshape(shape)
    return buffer, views, offsets


def longest_job(snapshot: Snapshot) -> int:
    """Return the number of tasks of the largest job."""
    return int(np.diff(snapshot.jobs.task_ptr).max(initial=0))


def make_finder(snapshot: Snapshot) -> Finder:
    """Return a finder that knows no node.

    A block has about sqrt(N) nodes, so that comparing all blocks costs as much as searching one.
    """
    n_nodes = snapshot.nodes.condition.size
    n_classes = snapshot.classes.signature.size
    block = max(8, int(n_nodes**0.5))
    n_blocks = -(-n_nodes // block)
    return Finder(
        block=np.array([block, 0, 0], np.int64),
        stamp=np.zeros(n_blocks, np.int64),
        seen=np.full((n_classes, n_blocks), NULL, np.int64),
        best=np.full((n_classes, n_blocks), NULL, np.int64),
        points=np.zeros((n_classes, n_blocks)),
        preference=np.zeros((n_classes, n_blocks)),
        verdicts=np.zeros((snapshot.signatures.toleration.size, n_nodes), np.uint8),
        dynamic=np.zeros(n_classes, np.uint8),
        refused=snapshot.classes.refused.copy(),
        steps=make_claim_steps(snapshot),
    )


def make_tree(snapshot: Snapshot) -> Tree:
    """Return empty heaps, with room for all jobs in their leaves."""
    n_queues, n_jobs = snapshot.queues.parent.size, snapshot.jobs.queue.size
    job_ptr = np.zeros(n_queues + 1, np.int32)
    known = snapshot.jobs.queue[snapshot.jobs.queue != NULL]
    np.cumsum(np.bincount(known, minlength=n_queues), out=job_ptr[1:])
    return Tree(
        queue_heap=np.zeros(n_queues, np.int32),
        queue_size=np.zeros(n_queues + 1, np.int32),
        dirty=np.zeros(n_queues, np.uint8),
        extra=np.zeros((n_queues, 3)),
        job_ptr=job_ptr,
        job_size=np.zeros(n_queues, np.int32),
        job_heap=np.zeros(n_jobs, np.int32),
        sorted_jobs=np.zeros(n_jobs, np.int32),
        request=np.zeros((n_jobs, 3)),
        stage=np.zeros(n_jobs, np.int32),
    )


def make_scratch(snapshot: Snapshot) -> Scratch:
    """Return scratch space for the largest job."""
    n_sets, longest = snapshot.sets.parent.size, longest_job(snapshot)
    return Scratch(
        survey=Survey(*np.zeros((2, n_sets), np.int32)),
        order=np.zeros(n_sets, np.int32),
        stack=np.zeros(n_sets + 1, np.int32),
        chunk=np.zeros(longest, np.int32),
        node=np.zeros(longest, np.int32),
        devices=np.zeros(int(snapshot.classes.shares.max(initial=0)), np.int64),
        shares=np.zeros(snapshot.tasks.device.size, np.int64),
        picks=make_picks(snapshot),
        volumes=np.zeros(int(np.diff(snapshot.volumes.ptr).max(initial=0)), np.int64),
        roomy=np.zeros(snapshot.nodes.condition.size, np.uint8),
        excluded=np.zeros(longest, np.uint8),
        returning=Returning(*np.zeros((2, n_sets), np.int32)),
        need=np.zeros(3),
        topology=_make_topology_search(snapshot),
        zones=_make_zone_scratch(snapshot),
        work=Division(*np.zeros((len(Division._fields), snapshot.queues.parent.size))),
        wanted=np.zeros(snapshot.signatures.toleration.size, np.uint8),
        largest=np.zeros(snapshot.nodes.allocatable.shape[1]),
        own=np.zeros((snapshot.nodes.allocatable.shape[0], 3)),
        steady=np.zeros(1, np.int64),
        overshoot=np.ones(1),
    )


def _make_zone_scratch(snapshot: Snapshot) -> ZoneScratch:
    """Return space for the zones of the node that has the most."""
    n_zones, n_resources = snapshot.numa.free.shape
    most = int(np.diff(snapshot.numa.ptr).max(initial=0)) if n_zones else 0
    return ZoneScratch(
        left=np.zeros(most * n_resources),
        draw=np.zeros(most * n_resources),
        need=np.zeros(n_resources),
        rest=np.zeros(n_resources),
        chosen=np.zeros(most, np.int64),
        used=np.zeros(most, np.int64),
        saved=np.zeros(snapshot.numa.held.size),
    )


def _make_topology_search(snapshot: Snapshot) -> TopologySearch:
    """Return no frames, with room for as many as sets with a constraint lie in each other in some job."""
    # As many again for a victim that is placed while frames of the preemptor are open.
    n_frames, n_domains = 2 * constraint_depth(snapshot), snapshot.topologies.level.size
    n_nodes, n_resources = snapshot.nodes.allocatable.shape
    return TopologySearch(
        size=np.zeros(2, np.int64),
        counts=np.zeros(3, np.int64),
        parts=np.zeros(1, np.int64),
        set=np.zeros(n_frames, np.int32),
        first=np.zeros(n_frames, np.int32),
        end=np.zeros(n_frames, np.int32),
        floats=np.zeros(n_frames, np.int64),
        integers=np.zeros(n_frames, np.int64),
        candidate=np.zeros((n_frames, n_domains), np.int32),
        n_candidates=np.zeros(n_frames, np.int32),
        tried=np.zeros(n_frames, np.int32),
        points=np.zeros((n_frames, n_domains)),
        offered=np.zeros(n_nodes, np.uint8),
        verdicts=np.zeros(n_nodes, np.uint8),
        need=np.zeros(n_resources),
        largest=np.zeros(n_resources),
        free=np.zeros((n_domains, n_resources)),
        pods=np.zeros(n_domains),
        ratio=np.zeros(n_domains),
        fits=np.zeros(n_domains, np.uint8),
        order=np.zeros(n_domains, np.int32),
        begins=np.zeros(int(snapshot.topologies.level.max(initial=0)) + 2, np.int32),
        holder=np.zeros(n_domains, np.int64),
        blocked=np.zeros(3, np.int64),
    )


def constraint_depth(snapshot: Snapshot) -> int:
    """Return the largest number of sets with a constraint on a path from a root to a pod set."""
    sets = snapshot.sets
    if not snapshot.topologies.level.size and not sets.fault.any():
        return 0
    has_constraint = (sets.topology != NULL) | (sets.fault != 0)
    if not has_constraint.any():
        return 0
    depth, above = has_constraint.astype(np.int64), sets.parent
    while (above != NULL).any():  # Bound: the depth of the trees.
        depth += (above != NULL) & has_constraint[above]
        above = np.where(above == NULL, NULL, sets.parent[above])
    return int(depth.max())
