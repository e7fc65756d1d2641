"""The texts about pending groups: the code, the sentence with its numbers, and the remedy of each reason.

``cycle.explain`` collects the facts. The sentences are made from plain values, so that they can be tested without a
cluster. Units are those of users: cores, GPUs, and bytes as Kubernetes writes them (Gi, or G if that is the round
number). docs/pending.md explains every code and text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kai_sched.model.problems import some_of as some_of
from kai_sched.plan.amounts import KINDS, is_of_volumes, number, show_amount, show_number


@dataclass(frozen=True, slots=True)
class Gate:
    """A bound that is exceeded: of which queue and resource, what it is, what is held, and what is asked for at once.

    The limit of a queue, or its quota for work that is not preemptible; without a queue the largest node. Amounts are
    in scheduler units.
    """

    queue: str
    resource: str
    bound: float
    held: float
    need: float


@dataclass(frozen=True, slots=True)
class Free:
    """What is free of a resource, in scheduler units.

    Attributes
    ----------
    amount, total
        What is free on nodes that accept pods, and the capacity of these nodes.
    apart
        What is free on the other nodes.
    shared
        What of ``amount`` is left of GPUs that pods share, which no pod with whole GPUs gets.
    """

    amount: float
    total: float
    apart: float
    shared: float


@dataclass(frozen=True, slots=True)
class NoFit:
    """The facts about a pod that fits no node. Amounts are in scheduler units.

    Attributes
    ----------
    pod
        Key of the pod.
    placed, asked
        Pods of the chunk that found a node, and all pods of it.
    room
        How many such pods the cluster has room for.
    n_nodes
        Nodes of the pool.
    short
        By resource: nodes that lack it, the amount requested, the largest free amount on one node.
    overcommitted
        By resource that the pod does not ask for: nodes whose pods hold more of it than the node has.
    verdicts
        Number of nodes by the text of what keeps the pod away.
    free
        By resource: what is free.
    holders, holders_of
        Queues with what they hold of one resource, largest first, and that resource.
    in_all
        By resource that the gang as a whole lacks: the amount that it requests.
    together
        What pods of the gang lack together, in words; "" where that is not known or is in ``in_all``.
    share
        What of GPUs the pod asks for and the most that there is of it, in words, where amounts do not say it.
    listed
        Each node with what it lacks, in words, which is told instead of how many lack what; "" unless that is wanted.
    """

    pod: str
    placed: int
    asked: int
    room: int
    n_nodes: int
    short: Mapping[str, tuple[int, float, float]]
    overcommitted: Mapping[str, int]
    verdicts: Mapping[str, int]
    free: Mapping[str, Free]
    holders: Sequence[tuple[str, float]]
    holders_of: str
    in_all: Mapping[str, float] = field(default_factory=dict)
    share: tuple[str, str] = ("", "")
    together: str = ""
    listed: str = ""

    @property
    def freed_later(self) -> bool:
        """Whether no pod found a node when the group was tried, and at the end of the cycle there is room for all."""
        return not self.placed and 0 < self.asked <= self.room


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for pending pods.

    Attributes
    ----------
    code
        A reason of the original (API 6.3) or one of this project.
    message
        One line for users.
    queue
        The queue whose limit or quota is exceeded; "" for other reasons.
    missing
        Whether the pod refers to an object that does not exist or is not usable, so that no node could help.
    gate
        The numbers of a limit or a quota that is exceeded.
    facts
        What keeps a pod from the nodes, where no node has room.
    tries
        (action, text) of each evicting action that made no room.
    """

    code: str
    message: str
    queue: str = ""
    missing: bool = False
    # Numbers behind the message; they change with it.
    gate: Gate | None = field(default=None, compare=False, repr=False)
    facts: NoFit | None = field(default=None, compare=False, repr=False)
    tries: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)


OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"
NO_QUEUE = "QueueDoesNotExist"
NO_FIT = "PodSchedulingErrors"
NOT_READY = "NotReady"
# Of this project (docs/differences.md): the original gives no reason in these cases.
QUEUE_NOT_LEAF = "QueueIsNotALeaf"
NOT_SUPPORTED = "NotSupported"
NOT_TRIED = "NotTried"
OVER_WORK = "OverWorkLimit"
SCHEDULER_ERROR = "SchedulerError"  # the name that kube-scheduler uses, too
DELAYED = "PreemptionDelayNotElapsed"
BACKED_OFF = "SchedulingBackoff"  # of this project, as those above
NO_DOMAIN = "Not enough resources for the workload"  # the literal of the original

# What keeps all pods from a node, by the state that the node is in (``NoFit.verdicts``).
NODE_NOT_READY, NODE_CORDONED, NETWORK_UNAVAILABLE = "not ready", "cordoned (unschedulable)", "network unavailable"
MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE = "memory pressure", "disk pressure", "PID pressure"
NODE_STATES = {NODE_NOT_READY, NODE_CORDONED, NETWORK_UNAVAILABLE, MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE}

MOST_HOLDERS = 3
LEAST_SHOWN = 0.001


def no_queue(name: str, leaves: Sequence[str], above: str | None, is_bare: bool = False) -> Reason:
    """The queue does not exist or is ignored.

    Parameters
    ----------
    leaves
        Names of the queues that accept pods.
    above
        None: the queue does not exist. Else it is ignored, because the queue ``above`` it does not exist, or ("")
        because its parents form a cycle.
    is_bare
        Whether the group is a bare pod, whose label names the queue; else ``spec.queue`` of the PodGroup does.
    """
    if above:
        remedy = f"create {above!r}, or correct spec.parentQueue"
        return Reason(NO_QUEUE, f"queue {name!r} is ignored: queue {above!r} above it does not exist; {remedy}")
    if above is not None:
        return Reason(NO_QUEUE, f"queue {name!r} is ignored: its parents form a cycle; correct spec.parentQueue")
    there = f"the queues that accept pods are {some_of(leaves)}" if leaves else "there is no queue that accepts pods"
    place = "the pod's label" if is_bare else "spec.queue of the PodGroup"
    return Reason(NO_QUEUE, f"queue {name!r} does not exist: {there}; create it, or correct {place}")


def queue_not_leaf(name: str, leaves: Sequence[str]) -> Reason:
    """The queue has children."""
    return Reason(
        QUEUE_NOT_LEAF, f"queue {name!r} has child queues and accepts no pods itself: use one of {some_of(leaves)}"
    )


def not_supported(what: str) -> Reason:
    """The group uses ``what``, which this version does not support."""
    return Reason(NOT_SUPPORTED, f"this version does not support {what}: the group stays pending")


def sharing_off() -> Reason:
    """The group asks for a part of a GPU, and pods may not share GPUs here."""
    text = (
        "its pods ask for a part of a GPU, and GPU sharing is off unless the Config kai-config turns it on "
        "(spec.global.gpuSharing): turn it on there, or ask for whole GPUs"
    )
    return Reason(NOT_SUPPORTED, text)


def left_out(what: str, problem: str) -> Reason:
    """The scheduler fails on an object and goes on without it."""
    return Reason(
        SCHEDULER_ERROR,
        f"the scheduler fails on {what} ({problem}) and ignores it; it tries again when the object changes and every "
        "five minutes: correct the object, or report a bug of the scheduler",
    )


def not_ready(parts: Sequence[tuple[str, int, int, int]]) -> Reason:
    """The gang is incomplete. ``parts``: (pod set, pods needed, pods that exist, gated pods) of each short pod set."""
    texts = []
    for name, needed, there, gated in parts:
        of_set = "" if name == "default" else f" of sub-group {name}"
        texts.append(
            f"{there} of {needed} pods{of_set} exist"
            + (f", {gated} of them held back by scheduling gates" if gated else "")
        )
    return Reason(
        NOT_READY,
        "the gang is not complete: " + "; ".join(texts or ["too few of its sub-groups can reach their minimum"]),
    )


def gated(count: int) -> Reason:
    """All pending pods have scheduling gates."""
    return Reason(NOT_READY, f"{count} pod{' is' if count == 1 else 's are'} held back by scheduling gates")


def over_limit(queue: str, resource: str, limit: float, allocated: float, need: float) -> Reason:
    """The group would exceed a limit, or would have before other pods left the queue in the same cycle."""
    return Reason(
        OVER_LIMIT,
        f"queue {queue} may hold {show_amount(resource, limit)}; it holds {show_amount(resource, allocated)} and the "
        f"group asks for {show_amount(resource, need)} more{_since(allocated + need <= limit)}",
        gate=Gate(queue, resource, limit, allocated, need),
    )


def over_quota(queue: str, resource: str, quota: float, allocated: float, need: float) -> Reason:
    """Non-preemptible work would exceed a quota."""
    return Reason(
        OVER_QUOTA,
        f"queue {queue} guarantees {show_amount(resource, quota)} to non-preemptible work; such work holds "
        f"{show_amount(resource, allocated)} and the group asks for {show_amount(resource, need)} more"
        + (_since(True) if allocated + need <= quota else ": raise the quota, or make the group preemptible"),
        gate=Gate(queue, resource, quota, allocated, need),
    )


def _since(fits_now: bool) -> str:
    return "; other pods left the queue later in this cycle, so the next cycle tries again" if fits_now else ""


def too_large(pod: str, resource: str, asked: float, largest: float) -> Reason:
    """The pod is larger than the largest node."""
    asks, has = show_amount(resource, asked), show_amount(resource, largest)
    gate = Gate("", resource, largest, 0.0, asked)
    there = "the most on one node is" if is_of_volumes(resource) else "the largest node has"
    return Reason(NO_FIT, f"pod {pod} asks for {asks}; {there} {has}", gate=gate)


def too_much_memory(pod: str, wanted: str, most: str) -> Reason:
    """The pod asks for more memory of one GPU than any has. ``wanted`` and ``most`` are as in ``NoFit.share``."""
    return Reason(NO_FIT, f"pod {pod} asks for {wanted}; {most}")


def refused(pod: str, why: str) -> Reason:
    """Something that the pod refers to is missing or unusable."""
    return Reason(NO_FIT, f"pod {pod} can run on no node: {why}", missing=True)


def over_work(pod: str, why: str) -> Reason:
    """What the pod asks for would take more work than a cycle has for it."""
    return Reason(OVER_WORK, f"pod {pod} takes more work than a cycle has for it: {why}")


def nothing_to_add() -> Reason:
    """The group runs, and its pending pods are too few for one more sub-group."""
    return Reason(NOT_READY, "the pending pods are too few for one more sub-group")


def no_help() -> Reason:
    """Only evicting actions tried the group, and none made room."""
    return Reason(NO_FIT, "no room for the group, and no pod was evicted for it")


def backed_off(pool: str) -> Reason:
    """The group was tried once in this node pool, and is not to be tried again."""
    text = (
        f"it found no place in node pool {pool}, and is not tried again, as spec.schedulingBackoff of its PodGroup "
        "says: set that to -1, or give the group the label of another pool"
    )
    return Reason(BACKED_OFF, text)


def delayed(seconds: float, until: str) -> Reason:
    """The preemption delay of the group has not ended; ``until`` is its end in UTC."""
    return Reason(
        DELAYED, f"no pod is evicted for the group before {until}: its preemption delay is {number(seconds)} seconds"
    )


def with_help(reason: Reason, help_texts: Sequence[tuple[str, str]]) -> Reason:
    """The reason, followed by (action, text) of each evicting action that made no room."""
    parts = [f"{action}: {text}" for action, text in help_texts]
    return replace(reason, message="; ".join([reason.message, *parts]), tries=tuple(help_texts)) if parts else reason


def gave_way(count: int) -> Reason:
    """Allocate placed the pods, and an evicting action gave their room to another group in the same cycle."""
    pods = "1 pod of the group" if count == 1 else f"{count} pods of the group"
    return Reason(
        NO_FIT, f"{pods} got a place in this cycle and lost it to a group with a better claim (fair share or priority)"
    )


def not_tried() -> Reason:
    """No action tried the group."""
    return Reason(NOT_TRIED, "the group was not tried in this cycle")


def no_fit(facts: NoFit) -> Reason:
    """The reason with all facts: for the gang, for the nodes, for the free room, and for the queues that hold it."""
    opening = f"no node for pod {facts.pod}"
    if facts.asked > 1:
        opening = f"{facts.placed} of {facts.asked} pods of the gang fit; there is no node for pod {facts.pod}"
    parts = [facts.listed] if facts.listed else _counted(facts)
    if not facts.n_nodes:
        parts.append("there are no nodes")
    elif facts.together:
        parts.append(facts.together)
    elif facts.freed_later:
        parts.append("later decisions of this cycle made room, and the next cycle tries again")
    elif facts.room and facts.room >= facts.asked > 1:
        parts.append("each pod of the gang would fit by itself, and not all of them together")
    elif facts.room:
        parts.append(f"there is room for {facts.room} such pod{'' if facts.room == 1 else 's'} only")
    parts += [f"the gang asks for {show_amount(resource, asked)} in all" for resource, asked in facts.in_all.items()]
    text = opening + ": " + "; ".join(parts)
    for resource, free in facts.free.items():
        text += f". Free in all: {show_number(resource, max(0.0, free.amount))} of {show_amount(resource, free.total)}"
        text += of_shared(free.shared)
        if free.apart > 0:
            text += f", and {show_number(resource, free.apart)} on nodes that are cordoned or not ready"
    if facts.holders:
        most_holding = facts.holders[:MOST_HOLDERS]
        shown = ", ".join(f"{name} {show_amount(facts.holders_of, held)}" for name, held in most_holding)
        more = len(facts.holders) - MOST_HOLDERS
        text += f". Held by: {shown}" + (f" and {more} more" if more > 0 else "")
    return Reason(NO_FIT, text, facts=facts)


def _counted(facts: NoFit) -> list[str]:
    """How many nodes lack what."""
    parts = []
    for resource, (nodes, asked, most) in facts.short.items():
        lack, there = f"the {show_amount(resource, asked)} it asks for", "most free on one of them"
        if resource == "gpu" and facts.share[0]:
            lack, there = facts.share[0], "most free of one GPU"
        there = f"{there}: {show_number(resource, max(0.0, most))}"
        if resource == "gpu" and facts.share[1]:
            there = facts.share[1]
        parts.append(f"{nodes} of {facts.n_nodes} nodes lack {lack} ({there})")
    parts += [
        f"{nodes} of {facts.n_nodes} nodes take no pod at all, as their pods hold more {KINDS.get(resource, resource)} "
        "than the node has"
        for resource, nodes in facts.overcommitted.items()
    ]
    parts += [f"{count} of {facts.n_nodes} nodes: {text}" for text, count in sorted(facts.verdicts.items())]
    return parts


def of_shared(gpus: float) -> str:
    """After what is free of GPUs: how much of it is left of those that pods share; "" for nothing."""
    return f" ({number(gpus)} left of shared ones)" if gpus >= LEAST_SHOWN else ""
