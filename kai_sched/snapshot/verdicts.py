"""Why a node, a class of pods or a job is refused: the codes that kernels return."""

from __future__ import annotations

import enum


class Verdict(enum.IntEnum):
    """Why a node, a class of pods or a job is refused. Kernels return these; ``cycle.explain`` puts them into words.

    Codes below 20, from 38 to 42 and from 47 to 49 are about a node and a class (semantics 12.2), those from 20 and 50
    about a class on all nodes (12.1), and those from 30 to 37 and from 43 to 46 about a job (3.9). Codes must stay
    below ``solver.stages.explain.N_VERDICTS``.
    """

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
    NO_MIG = 18
    NO_GPU_MEMORY = 19
    # about a class
    TOO_LARGE = 20
    CLAIM_MISSING = 21
    CLAIM_LOST = 22
    CLAIM_DELETED = 23
    CLAIM_UNBOUND = 24
    VOLUME_MISSING = 25
    CONFIG_MAP_MISSING = 26
    NOT_SUPPORTED = 27
    DEVICE_CLAIM = 28  # a claim for devices, or one of its classes, cannot be used
    OVER_WORK = 29  # its pods would cost more work than a cycle has for them
    # about a job
    NO_QUEUE = 30
    QUEUE_NOT_LEAF = 31
    GANG_NOT_READY = 32
    OVER_LIMIT = 33
    OVER_QUOTA = 34
    NO_FIT = 35
    NO_CHUNK = 36
    NO_HELP = 37  # only actions that evict tried it, and they could not help
    # about a node and a class, too
    NO_CLAIMED_DEVICES = 38  # the claims of the pod cannot all be allocated there
    CLAIMS_ONLY = 39  # GPUs of the node are for claims
    CLAIMS_TOO_HARD = 40  # whether they can was not found out within the bound on work
    NOT_RESERVED = 41  # a GPU could not be reserved for sharing there
    NO_VOLUME = 42  # a claim of the pod finds no free volume there, and none is made
    # about a set of a job
    NO_TOPOLOGY = 43  # the Topology that its constraint names does not exist
    NO_LEVEL = 44  # the topology has no such level, or the constraint names none
    NO_DOMAIN = 45  # no domain can hold all its pods
    # about a job, again
    BACKED_OFF = 46  # it was tried once, and is not to be tried again
    # about a node and a class, again
    NOT_ALIGNED = 47  # its NUMA zones cannot hold the pod under the policy of its kubelet
    NO_CAPACITY = 48  # a volume of the size that a claim asks for cannot be made there
    NOT_ATTACHABLE = 49  # the node can have no more volumes of a driver attached
    # about a class, again
    CLAIM_IN_USE = 50  # a claim is for one pod alone, and another one uses it
