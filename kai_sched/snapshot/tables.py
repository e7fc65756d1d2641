"""The frozen tables that the solver reads: structs of arrays, described column by column in ``columns.SCHEMA``."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
GPU = int(Resource.GPU)
PODS = int(Resource.PODS)


class Status(enum.IntEnum):
    """Where a task stands. The groups of semantics 0.1 (ActiveAllocated and so on) are ranges of it."""

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
    EVICTED = 11  # inside a search only: on its way out, and may be placed again


class Verdict(enum.IntEnum):
    """Why a node, a class of pods or a job is refused. Kernels return these; ``plan.reasons`` words them."""

    OK = 0
    # about a node and a class
    NO_ROOM = 1
    NO_POD_SLOT = 2
    NOT_READY = 3
    UNSCHEDULABLE = 4
    MEMORY_PRESSURE = 5
    DISK_PRESSURE = 6
    PID_PRESSURE = 7
    NETWORK_UNAVAILABLE = 8
    MIG_ONLY = 9
    TAINT = 10
    NODE_AFFINITY = 11
    VOLUME_AFFINITY = 12
    WORKER_LABEL = 13
    HOST_PORT = 14
    POD_AFFINITY = 15
    POD_ANTI_AFFINITY = 16
    EXISTING_ANTI_AFFINITY = 17
    # about a class
    TOO_LARGE = 20
    CLAIM_MISSING = 21
    CLAIM_LOST = 22
    CLAIM_DELETED = 23
    CLAIM_UNBOUND = 24
    VOLUME_MISSING = 25
    CONFIG_MAP_MISSING = 26
    NOT_SUPPORTED = 27
    # about a job
    NO_QUEUE = 30
    QUEUE_NOT_LEAF = 31
    GANG_NOT_READY = 32
    OVER_LIMIT = 33
    OVER_QUOTA = 34
    NO_FIT = 35
    NO_CHUNK = 36
    NO_HELP = 37  # only actions that evict came to it, and they could not help


class Turn(enum.IntEnum):
    """When a job is tried: among the others, before all of them with some of its pods, or not in this cycle.

    PIPELINED_FREE: among the others; an earlier cycle pipelined it onto room that was free already.
    """

    ORDINARY = 0
    FIRST = 1
    LATER = 2
    PIPELINED_FREE = 3


class Action(enum.IntEnum):
    """The actions that evict."""

    NONE = 0
    CONSOLIDATION = 1
    RECLAIM = 2
    PREEMPT = 3
    STALE_GANG = 4


class Help(enum.IntEnum):
    """What an action that evicts could do for a job that waits."""

    NOT_TRIED = 0
    HELPED = 1
    DELAYED = 2  # its preemption delay has not elapsed
    NOT_PREEMPTIBLE = 3  # only such jobs have others moved
    OVER_SHARE = 4  # its queue would be above its fair share
    OVER_QUOTA = 5  # it is not preemptible and would be above the quota
    LIKE_ANOTHER = 6  # one like it found nothing
    NOBODY = 7  # there is no victim
    NO_ROOM = 8  # not even with all victims gone
    SHARES = 9  # shares do not allow to take as much as is needed
    NOT_FOUND = 10  # no set of victims did
    THEIR_TURN = 11  # those who would have to leave are before it in the queue for the room that they leave
    TOO_LONG = 12  # the searches of the cycle had taken too long before it was done


RESTS = 2**62  # of ``Jobs.waits_until``, later than any time: not in this cycle, as others are owed their turn


class Generator(enum.IntEnum):
    """How sets of victims are made of what is accumulated (semantics 4.5)."""

    NONE = 0
    NODE_LOCAL = 1
    MULTI_NODE = 2


class Placement(enum.IntEnum):
    """What is preferred of two nodes: the one with less room, the one of which a larger part is free, or neither."""

    OFF = 0
    BINPACK = 1
    SPREAD = 2


class TermKind(enum.IntEnum):
    REQUIRED = 0
    ANTI = 1
    PREFERRED = 2


class Bond(enum.IntEnum):
    """How a class is tied to an inter-pod term or a host port."""

    NEED = 0  # a required affinity term
    CARRY = 1  # an anti-affinity or preferred term of its own
    MATCH = 2  # a term, of whatever class, that matches its pods
    PORT = 3


class Queues(NamedTuple):
    parent: Ints
    child_ptr: Ints
    child: Ints
    quota: Floats
    limit: Floats
    weight: Floats
    priority: Longs
    usage: Floats
    preempt_runtime: Longs
    reclaim_runtime: Longs
    by_uid: Ints


class Nodes(NamedTuple):
    allocatable: Floats
    shared_gpus: Floats
    counted: Flags
    devices: Floats
    cpu_only: Flags
    condition: Flags
    mig: Flags
    taint_set: Ints


class Tasks(NamedTuple):
    job: Ints
    set: Ints
    cls: Ints
    node: Ints
    nominated: Ints
    status: npt.NDArray[np.int8]
    foreign: Flags


class Classes(NamedTuple):
    request: Floats
    quota: Floats
    signature: Ints
    cpu_only: Flags
    refused: Flags


class Signatures(NamedTuple):
    toleration: Ints
    tolerated: Flags
    selector_ptr: Ints
    selector_verdict: Flags
    term_ptr: Ints
    requirement_ptr: Ints
    requirement: Ints
    truth: Flags
    whole_gpu: Flags


class Terms(NamedTuple):
    kind: Flags
    domain: Ints


class Bonds(NamedTuple):
    ptr: Ints
    entry: Ints
    self_match: Flags


class Jobs(NamedTuple):
    queue: Ints
    priority: Longs
    preemptible: Flags
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
    parent: Ints
    child_ptr: Ints
    child_end: Ints
    minimum: Ints
    task_ptr: Ints


class Snapshot(NamedTuple):
    """One cycle's input.

    ``ports`` (P, P) is 1 where two host ports cannot be held on one node. ``n_domains`` is the length of the
    inter-pod counters that ``Terms.domain`` points into.
    """

    queues: Queues
    nodes: Nodes
    tasks: Tasks
    classes: Classes
    signatures: Signatures
    terms: Terms
    bonds: Bonds
    ports: Flags
    jobs: Jobs
    sets: Sets
    n_domains: int


class Settings(NamedTuple):
    """The configuration in numbers. Points of a scoring plugin: 0 = off; ``*_placement``: a Placement."""

    k_value: float
    nominated_points: float
    affinity_points: float
    available_points: float
    cpu_node_points: float
    gpu_placement: int
    cpu_placement: int
    elastic_order: int
    priority_order: int
    allocate_depth: int  # jobs looked at per leaf queue; a very large number = all
    consolidation_depth: int
    reclaim_depth: int
    preempt_depth: int
    now: int  # ns since the epoch
    min_runtime: int  # 1: jobs that started lately are protected
    preempt_runtime: int  # ns, where no queue says otherwise
    reclaim_runtime: int
    reclaim_by_ancestor: int  # 1: the queue below the common ancestor says how long, 0: the victim's own
    saturation: float  # by how much a queue above its share must stay behind its siblings
    consolidating_reclaim: int  # 1: victims that find another place do not count as taken
    most_moved: int  # victim jobs of one consolidation at the most; 0: the action is off
    most_work: int  # what the searches of one action may cost: a victim looked at or simulated, or a queue put in order
    signatures: int  # 1: a job like one that failed is passed over, unless it is easier
    first_generator: int  # a Generator; 0: none
    second_generator: int
    minimal: int  # 1: no victim goes without whom the rest would do; 0: the sets of victims of the original


def freeze(table: Any) -> Any:
    """Make every array of the table read-only, so that no kernel can compile that writes to it."""
    for column in table:
        column.flags.writeable = False
    return table
