"""The documents about why pods wait. Units are those of ``report.documents``."""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field

from kai_sched.report.documents import AnswerDocument


class ChunkDocument(AnswerDocument, kw_only=True):
    """Pods that have to be placed together.

    Attributes
    ----------
    placed
        How many of them found a node.
    asked
        How many there are.
    """

    placed: int
    asked: int


class ShortDocument(AnswerDocument, kw_only=True):
    """Nodes that lack a resource: CPU in cores, memory in bytes, others in devices.

    Attributes
    ----------
    nodes
        How many nodes lack it.
    asked
        What the pod asks for.
    most_free
        The largest amount that is free on one of these nodes.
    """

    nodes: int
    asked: float
    most_free: float


class NodesDocument(AnswerDocument, kw_only=True):
    """What keeps a pod from the nodes.

    Attributes
    ----------
    every
        Number of nodes of the pool.
    short
        By resource: the nodes that lack it.
    verdicts
        By what else keeps the pod away, in words: the number of nodes.
    """

    every: int = field(name="all")
    short: dict[str, ShortDocument]
    verdicts: dict[str, int]


class FreeDocument(AnswerDocument, kw_only=True):
    """What there is of a resource on nodes that accept pods: CPU in cores, memory in bytes, others in devices.

    Attributes
    ----------
    free
        What is free.
    total
        The capacity.
    """

    free: float
    total: float


class ReasonDocument(AnswerDocument, kw_only=True):
    """Why pods wait. Which keys there are depends on the reason. CPU is in cores, memory in bytes, others in devices.

    Attributes
    ----------
    code
        The code of the reason (docs/pending.md).
    message
        The reason in one line.
    queue
        The queue of which a limit or a quota is exceeded; "" for the size of the largest node.
    resource
        The resource of which there is too little by that limit.
    limit
        The limit, the quota or the size of the largest node; null is unlimited.
    held
        What is held already.
    asked
        What is asked for at once.
    pod
        Key of the pod that fits no node.
    pods
        The pods that had to be placed with it.
    nodes
        What keeps it from the nodes.
    free
        By resource: what is free in the cluster.
    holders
        By queue: what it holds of the resource ``holdersOf``, the largest first.
    holders_of
        The resource of which there is too little.
    per_action
        By action that evicts: why it made no room.
    """

    code: str
    message: str
    queue: str | UnsetType = UNSET
    resource: str | UnsetType = UNSET
    limit: float | UnsetType | None = UNSET
    held: float | UnsetType = UNSET
    asked: float | UnsetType = UNSET
    pod: str | UnsetType = UNSET
    pods: ChunkDocument | UnsetType = UNSET
    nodes: NodesDocument | UnsetType = UNSET
    free: dict[str, FreeDocument] | UnsetType = UNSET
    holders: dict[str, float] | UnsetType = UNSET
    holders_of: str | UnsetType = UNSET
    per_action: dict[str, str] | UnsetType = UNSET
