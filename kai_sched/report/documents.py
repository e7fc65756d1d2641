"""Answers as documents, for JSON, YAML and ``to_dict()``: keys, units, and what is always there.

Names are as in the API (camelCase). Amounts are in devices (GPUs), cores (CPU), bytes (memory) and seconds, and what is
unlimited is null, unless a field says otherwise. docs/answers.schema.json is made from these classes and their
docstrings by `make docs`. A key that may be missing has UNSET by default.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

API_VERSION: Literal["kai-sched.io/v1"] = "kai-sched.io/v1"


class AnswerDocument(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What all documents and their parts have in common."""


class WorkloadDocument(AnswerDocument, kw_only=True):
    """A workload as its user wrote it.

    Attributes
    ----------
    kind
        Its kind; PodGroup where that has no owner, Pod where there is no PodGroup.
    namespace
        Its namespace.
    name
        Its name, or that of the PodGroup or the pod.
    pod_group
        The key of its group in results, "namespace/name".
    """

    kind: str
    namespace: str
    name: str
    pod_group: str


class AmountsDocument(AnswerDocument, kw_only=True):
    """An amount of each resource of a queue; null is unlimited.

    Attributes
    ----------
    cpu
        CPU, in cores.
    memory
        Memory, in bytes.
    gpu
        GPUs, in devices.
    """

    cpu: float | None
    memory: float | None
    gpu: float | None


class QueueDocument(AnswerDocument, kw_only=True):
    """A queue at the end of a cycle.

    Attributes
    ----------
    name
        Its name.
    parent
        The queue above it; "" for a queue at the top.
    depth
        How many queues are above it.
    priority
        The higher one gets what is over the quotas first.
    quota
        What it is guaranteed.
    limit
        What it can hold at most.
    fair_share
        What it is entitled to in this cycle.
    allocated
        What its pods hold, those that are placed in this cycle included.
    requested
        What its pods hold and ask for.
    """

    name: str
    parent: str
    depth: int
    priority: int
    quota: AmountsDocument
    limit: AmountsDocument
    fair_share: AmountsDocument
    allocated: AmountsDocument
    requested: AmountsDocument


class RoomDocument(AnswerDocument, kw_only=True):
    """How much of the main resource there is at the end of the cycle: GPUs in devices, or CPU in cores.

    Attributes
    ----------
    resource
        "gpu"; "cpu" in a cluster without GPUs.
    nodes
        Nodes of the pool.
    total
        The capacity of all of them.
    used
        What pods hold, those that are bound in this cycle included.
    free
        What is free on nodes that accept pods.
    unusable
        The capacity of the nodes that accept none (cordoned or not ready).
    unusable_nodes
        How many these are.
    """

    resource: str
    nodes: int
    total: float
    used: float
    free: float
    unusable: float
    unusable_nodes: int


class WaitingDocument(AnswerDocument, kw_only=True):
    """A workload, or several equal ones, of which pods wait.

    Attributes
    ----------
    name
        Their names as one.
    workloads
        Each of them.
    queue
        Their queue; "" where they name none.
    pods
        Pods of each that wait.
    gpus_per_pod
        GPUs that each of these pods asks for, in devices; 0 where pods differ.
    gpus
        GPUs that the pods of one workload ask for, in devices.
    pods_running
        Pods of each that run.
    waiting_seconds
        Seconds since the oldest pod that waits was created; 0 where that is not known.
    code
        The code of the reason (docs/pending.md).
    why
        The reason in a few words.
    message
        The whole reason, of the first of them.
    """

    name: str
    workloads: list[WorkloadDocument]
    queue: str
    pods: int
    gpus_per_pod: float
    gpus: float
    pods_running: int
    waiting_seconds: float
    code: str
    why: str
    message: str


class RunningDocument(AnswerDocument, kw_only=True):
    """A workload that has nodes.

    Attributes
    ----------
    workload
        Which one.
    queue
        Its queue.
    pods
        Pods of it that have nodes.
    gpus
        GPUs that they hold, in devices.
    nodes
        By node: the number of these pods.
    """

    workload: WorkloadDocument
    queue: str
    pods: int
    gpus: float
    nodes: dict[str, int]


class PlacedDocument(RunningDocument, kw_only=True):
    """A workload that gets nodes in this cycle.

    Attributes
    ----------
    workload
        Which one.
    queue
        Its queue.
    pods
        Pods of it that get nodes.
    gpus
        GPUs that they get, in devices.
    nodes
        By node: the number of these pods.
    starts_now
        Whether its pods are bound in this cycle; else they wait until others have left.
    after
        Whom they wait for, in words; "" for nobody.
    """

    starts_now: bool
    after: str


class VictimDocument(AnswerDocument, kw_only=True):
    """A workload that loses pods.

    Attributes
    ----------
    workload
        Which one.
    queue
        Its queue.
    pods
        How many of its pods are evicted.
    of_pods
        How many pods it has.
    gpus
        GPUs that these pods held, in devices.
    up_seconds
        Seconds since the workload started; 0 where that is not known.
    moved
        How many of these pods have a place on another node already.
    """

    workload: WorkloadDocument
    queue: str
    pods: int
    of_pods: int
    gpus: float
    up_seconds: float
    moved: int


class HeadlineDocument(AnswerDocument, kw_only=True):
    """All evictions of one action for one workload.

    Attributes
    ----------
    winner
        The workload that gets the room; null for a gang that is below its minimum for too long.
    queue
        Its queue.
    action
        The action that evicts.
    rule
        The rule by which it does, in words.
    victims
        Who loses pods.
    pods
        How many pods are evicted in all.
    gpus
        The GPUs that they held, in devices.
    text
        All of this in one sentence.
    """

    winner: WorkloadDocument | None = field(name="for")
    queue: str
    action: str
    rule: str
    victims: list[VictimDocument]
    pods: int
    gpus: float
    text: str


class OverviewDocument(AnswerDocument, kw_only=True):
    """The state of a cluster in one cycle, as people read it.

    Attributes
    ----------
    api_version
        The version of the form.
    kind
        What the document is.
    text
        The line about the cluster.
    room
        How much of the main resource there is.
    queues
        The queues, depth first.
    waiting
        Workloads that wait, the oldest first; equal ones as one.
    placed
        Workloads that get nodes.
    evictions
        Who is evicted for whom.
    running
        Workloads that run and are not touched.
    finished_pods
        Number of pods that have ended.
    suspended_workloads
        Number of workloads of the input that have no pods, as they are suspended.
    suspended_by_kueue
        How many of these wait in Kueue.
    other_schedulers
        By name of another scheduler: the number of pods that wait for it.
    """

    api_version: Literal["kai-sched.io/v1"] = API_VERSION
    kind: Literal["Overview"] = "Overview"
    text: str
    room: RoomDocument
    queues: list[QueueDocument]
    waiting: list[WaitingDocument]
    placed: list[PlacedDocument]
    evictions: list[HeadlineDocument]
    running: list[RunningDocument]
    finished_pods: int
    suspended_workloads: int
    suspended_by_kueue: int
    other_schedulers: dict[str, int]
