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

# The first rows of axis r; other resources follow by name.
CPU, MEMORY, GPU, PODS = range(4)


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


class Turn(enum.IntEnum):
    """When a job is tried: among the others, before all of them (a gang that is torn), or not in this cycle."""

    ORDINARY = 0
    FIRST = 1
    LATER = 2


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
    """The configuration in numbers. Points of a scoring plugin: 0 = off; placement: 0 off, 1 binpack, 2 spread."""

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


def freeze(table: Any) -> Any:
    """Make every array of the table read-only, so that no kernel can compile that writes to it."""
    for column in table:
        column.flags.writeable = False
    return table
