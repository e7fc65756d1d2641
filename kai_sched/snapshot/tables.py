"""The frozen tables that the solver reads: structs of arrays, one row for each object of the cluster.

``columns.SCHEMA`` describes each column. The classes here name the columns for kernels, in the same order;
``solver.warmup`` fails if the two differ. Rows are in canonical order (ADR 2), so that wherever a rule breaks a tie by
name, age or uid, kernels compare rows. All arrays are read-only.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kai_sched.snapshot.claim_tables import DraClaims, DraDevices, DraRequests
from kai_sched.snapshot.numa_tables import NumaRequests, NumaZones
from kai_sched.snapshot.queue_tables import Queues as Queues
from kai_sched.snapshot.topology_tables import Topologies as Topologies
from kai_sched.snapshot.verdicts import Verdict as Verdict

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.uint8]
Amounts = tuple[float, float, float]  # CPU milli, memory bytes, GPU devices


class Resource(enum.IntEnum):
    """The first rows of axis r; other resources follow by name."""

    CPU = 0
    MEMORY = 1
    GPU = 2
    PODS = 3


CPU = int(Resource.CPU)
MEMORY = int(Resource.MEMORY)
GPU = int(Resource.GPU)
PODS = int(Resource.PODS)


class Status(enum.IntEnum):
    """Where a task stands (semantics 0.1). The order matters: groups of statuses are ranges, which kernels compare.

    PIPELINED to RUNNING are active, ALLOCATED to RUNNING allocated, PIPELINED to STUCK_IN_RELEASING used. EVICTED
    counts as pending when chunks are made, and exists only until the search that evicted the task is committed or
    undone.
    """

    SUCCEEDED = 0
    UNKNOWN = 1
    GATED = 2
    PENDING = 3
    PIPELINED = 4
    ALLOCATED = 5
    BINDING = 6
    BOUND = 7
    RUNNING = 8
    RELEASING = 9
    STUCK_IN_RELEASING = 10
    EVICTED = 11  # inside a search only: leaves if the search succeeds, and may be placed again


class Turn(enum.IntEnum):
    """When a job is tried: among the others, before all of them with some of its pods, or not in this cycle.

    ORDINARY: by queues and jobs (3.1). FIRST: before all others, with as many pods as an earlier cycle promised room
    (3.7). LATER: not in this cycle. PIPELINED_FREE: as ORDINARY, but a promise is kept. BACKGROUND: after all (11.5).
    """

    ORDINARY = 0
    FIRST = 1
    LATER = 2
    PIPELINED_FREE = 3
    BACKGROUND = 4


class Action(enum.IntEnum):
    """What evicts (semantics 4 to 7, 11.5); ``Decisions.help`` has a column for each of the first four."""

    NONE = 0
    CONSOLIDATION = 1
    RECLAIM = 2
    PREEMPT = 3
    STALE_GANG = 4
    BACKGROUND = 5


class Help(enum.IntEnum):
    """What an action that evicts found for a pending job. ``cycle.explain`` puts it into words."""

    NOT_TRIED = 0
    HELPED = 1
    DELAYED = 2  # its preemption delay has not elapsed (11.4)
    NOT_PREEMPTIBLE = 3  # consolidation moves pods only for preemptible jobs
    OVER_SHARE = 4  # its queue would be above its fair share
    OVER_QUOTA = 5  # it is not preemptible and would be above the quota
    LIKE_ANOTHER = 6  # a similar job that requests no more failed (3.8)
    NO_VICTIMS = 7  # there is no victim
    NO_ROOM = 8  # it would not fit even with all victims gone
    SHARES = 9  # shares do not allow to take as much as the chunk requests (4.7)
    NOT_FOUND = 10  # no set of victims was found that makes room
    VICTIMS_GO_FIRST = 11  # the victims would be placed again before it
    TOO_LONG = 12  # the budget of the searches was used up before it was done (4.8)


DEFERRED = 2**62  # Jobs.waits_until, later than any time: no search in this cycle, as other jobs come first (4.8)


class TermKind(enum.IntEnum):
    """Kinds of inter-pod terms (semantics 12.2, 9): required affinity, required anti-affinity, preferred of either."""

    REQUIRED = 0
    ANTI = 1
    PREFERRED = 2


class TermRole(enum.IntEnum):
    """How a class is tied to an inter-pod term or a host port (semantics 12.2): which counter it reads or raises.

    NEED reads the pods that match the term. CARRY raises ``carried``, MATCH raises ``matched`` of the node's domain, so
    that anti-affinity and preferences are seen from both sides. PORT reads and raises the pods that hold a port on the
    node.
    """

    NEED = 0  # a required affinity term
    CARRY = 1  # an anti-affinity or preferred term of its own
    MATCH = 2  # a term, of whatever class, that matches its pods
    PORT = 3


class Nodes(NamedTuple):
    """One row for each node, by name (semantics 0.3).

    ``allocatable`` (N, R) is in the units of 0.2; axis R begins with CPU, MEMORY, GPU, PODS. The others are (N,) each.
    """

    allocatable: Floats
    mig_gpus: Floats
    counted: Flags
    devices: Floats
    device_memory: Longs
    cpu_only: Flags
    condition: Flags
    mig: Flags
    legacy_mig: Flags
    closed: Flags
    claims_only: Flags
    taint_set: Ints


class Devices(NamedTuple):
    """One row for each GPU device that pods may share, by node (semantics 8.2); none where no pod asks for a share.

    The devices of node n are the rows ``ptr[n]`` to ``ptr[n + 1]``, those that pods share at the start first.
    """

    ptr: Ints
    reserved: Flags
    closed: Flags


class Tasks(NamedTuple):
    """One row for each pod, by job, set and task order (semantics 1.3); pods of no job come last. Columns are (T,).

    ``status`` is the ``Status`` at the start. Its shares are of the devices ``device[share_ptr[t]:share_ptr[t + 1]]``.
    """

    job: Ints
    set: Ints
    cls: Ints
    node: Ints
    nominated: Ints
    status: npt.NDArray[np.int8]
    foreign: Flags
    share_ptr: Ints
    device: Ints


class Classes(NamedTuple):
    """One row for each class of pods that placement cannot tell apart: same requests, constraints and term roles.

    ``request`` (C, R) is what a node must have, ``quota`` (C, 3) what counts for the queue, ``gate`` (C,) the GPUs that
    count at limits (3.4). A class with a share of GPUs has part of ``shares`` devices: ``portion`` or ``memory`` MiB of
    each. Its request of GPUs is that part, rounded down; whether a device has it is for ``kernels.devices``.
    """

    request: Floats
    quota: Floats
    gate: Floats
    shares: Ints
    portion: Floats
    memory: Longs
    signature: Ints
    cpu_only: Flags
    refused: Flags


class Signatures(NamedTuple):
    """One row for each set of static node constraints (semantics 12.2, steps 2, 5, 6 and 7), shared by classes.

    All selectors of a signature must hold, of a selector one term, of a term all requirements. ``truth`` says on which
    nodes a requirement holds, so kernels compare no strings.
    """

    toleration: Ints
    tolerated: Flags
    selector_ptr: Ints
    selector_verdict: Flags
    term_ptr: Ints
    requirement_ptr: Ints
    requirement: Ints
    truth: Flags
    gpu_kind: Flags


class Terms(NamedTuple):
    """One row for each inter-pod term of any pod (semantics 12.2).

    ``domain`` maps nodes to a range of counters that belongs to the term alone: one for each value of its topology key.
    """

    kind: Flags
    domain: Ints
    spans_nodes: Flags


class TermRoles(NamedTuple):
    """What ties a class to pods that are placed: inter-pod terms and host ports, by class (semantics 12.2).

    The roles of class c are the rows ``ptr[c]`` to ``ptr[c + 1]`` of ``entry``: a ``TermRole``, the term or port, the
    weight.
    """

    ptr: Ints
    entry: Ints
    self_match: Flags


class HostPorts(NamedTuple):
    """One row for each host port (semantics 12.2). Port p conflicts with the ports ``conflict[ptr[p]:ptr[p + 1]]``."""

    ptr: Ints
    conflict: Ints


class Volumes(NamedTuple):
    """Claims that wait for their first pod, in rows F, and free volumes for them, in rows Z (semantics 12.2).

    Class c has the claims ``claim[ptr[c]:ptr[c + 1]]``. Claim w may get the volumes of its group from row ``least[w]``
    on, the first free one of them; or one is made for it on the nodes of row ``topology[w]`` of ``made`` (M, N), if
    that is not NULL. Group g has the volumes ``far_volume[far_ptr[g]:far_ptr[g + 1]]`` on all nodes, and in the rows
    ``near_ptr[g]`` to ``near_ptr[g + 1]`` those of single nodes, by node and volume.
    """

    ptr: Ints
    claim: Ints
    group: Ints
    least: Ints
    topology: Ints
    near_ptr: Ints
    near_node: Ints
    near_volume: Ints
    far_ptr: Ints
    far_volume: Ints
    made: Flags


class Jobs(NamedTuple):
    """Jobs (pod groups), by creation time, then uid (0.4, 1.3): (J,), times in ns. Of pointers (J + 1,) to its rows."""

    queue: Ints
    priority: Longs
    preemptible: Flags
    not_consolidated: Flags
    background: Flags
    refused: Flags
    turn: Flags
    n_first: Ints
    last_start: Longs
    waits_until: Longs
    stale_since: Longs
    grace: Longs
    equivalence: Ints
    queue_equivalence: Ints
    set_ptr: Ints
    task_ptr: Ints


class Sets(NamedTuple):
    """One row for each set of each job, the root first and parents before their members (semantics 0.4).

    A set without members (``child_ptr`` equal to ``child_end``) is a pod set, whose tasks begin at ``task_ptr``
    (S + 1,). Pods of a set with a ``topology`` share a domain of its level ``required`` (10.1).
    """

    parent: Ints
    child_ptr: Ints
    child_end: Ints
    minimum: Ints
    task_ptr: Ints
    topology: Ints
    required: Ints
    preferred: Ints
    fault: Ints


class Snapshot(NamedTuple):
    """One cycle's input, complete and read-only. Rows refer to each other by number; NULL (-1) refers to none."""

    queues: Queues
    nodes: Nodes
    devices: Devices
    tasks: Tasks
    classes: Classes
    signatures: Signatures
    terms: Terms
    term_roles: TermRoles
    host_ports: HostPorts
    volumes: Volumes
    topologies: Topologies
    numa: NumaZones
    numa_requests: NumaRequests
    jobs: Jobs
    sets: Sets
    dra_devices: DraDevices
    dra_requests: DraRequests
    dra_claims: DraClaims
    n_domains: int  # domains of all terms


class Settings(NamedTuple):
    """The configuration in numbers (semantics 1.2, 1.3). A switch is 1 for on and 0 for off; times are in ns.

    Points are those of a scoring plugin that wins (9), 0 where the plugin is off. ``*_placement``
    is a ``Placement``. A depth is the number of jobs of each leaf queue that the action tries (3.1), a very large
    number for all. ``priority_order`` and ``elastic_order`` switch steps of the job order.
    """

    k_value: float  # how strongly past usage counts (2.3)
    nominated_points: float  # nominatednode
    affinity_points: float  # podaffinity, for each unit of weight
    available_points: float  # nodeavailability
    cpu_node_points: float  # resourcetype
    sharing_points: float  # gpusharingorder, for nodes with a used device that has room
    numa_points: float  # numa, divided by the zones that the pod would span
    gpu_order: int  # a GpuOrder
    gpu_placement: int
    cpu_placement: int
    elastic_order: int
    priority_order: int
    allocate_depth: int  # jobs tried of each leaf queue; a very large number: all
    consolidation_depth: int
    reclaim_depth: int
    preempt_depth: int
    now: int  # ns since the epoch
    min_runtime: int  # 1: jobs that started recently are protected (11.1)
    preempt_runtime: int  # ns, where no queue says otherwise
    reclaim_runtime: int
    reclaim_by_ancestor: int  # 1: the runtime of the queue below the common ancestor, 0: of the victim's own
    saturation: float  # at least 1: what u holds is multiplied by it (4.7)
    steady: int  # 1: queues below their steady share may reclaim (4.9)
    consolidating_reclaim: int  # 1: victims that get another place do not count as losses (4.7)
    most_moved: int  # jobs that one consolidation may move; 0: the action is off (6)
    search_work: int  # budget of an action (4.8): victims examined or simulated, and queues sorted, count 1 each
    signatures: int  # 1: a job similar to one that failed is skipped, unless it is easier (3.8)
    first_generator: int  # a Generator, 0: none (4.5)
    second_generator: int
    shared: int  # 1: fair shares are those of the whole cluster (2.8)
    minimal: int  # 1: victims: minimal, 0: victims: original (4.5)


def freeze(table: Any) -> Any:
    """Make every array of the table read-only, in place, and return the table.

    Numba compiles read-only arrays as a type of their own, so a kernel that writes to the snapshot does not compile.
    """
    for column in table:
        column.flags.writeable = False
    return table
