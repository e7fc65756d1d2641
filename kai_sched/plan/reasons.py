"""Why a pod group is not (wholly) placed: a code from the field's vocabulary and a sentence with the numbers.

The sentences are made from plain values, so that they can be tested without a cluster. Units are those people use:
cores, GPUs, and bytes as Kubernetes writes them (Gi, or G where that is the round number).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is a literal of API 6.3 or one of ours; ``message`` is for people, one line.

    ``queue`` is the queue whose limit or quota is in the way. ``missing`` says that the pod refers to something that
    is not there or not usable, so that no node could help.
    """

    code: str
    message: str
    queue: str = ""
    missing: bool = False


OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"
NO_QUEUE = "QueueDoesNotExist"
NO_FIT = "PodSchedulingErrors"
NOT_READY = "NotReady"
# Ours (docs/differences.md): the original passes these over without a word.
QUEUE_NOT_LEAF = "QueueIsNotALeaf"
NOT_SUPPORTED = "NotSupported"
NOT_TRIED = "NotTried"
SCHEDULER_ERROR = "SchedulerError"  # as Kubernetes' own scheduler says it

DELAYED = "PreemptionDelayNotElapsed"

MOST_NAMES = 10
MOST_HOLDERS = 3


def show_amount(resource: str, amount: float) -> str:
    """The amount of the resource (scheduler units) in words, with three decimals at most."""
    if math.isinf(amount):
        return "unlimited"
    match resource:
        case "cpu":
            return f"{_number(amount / 1000)} CPU core{'' if amount == 1000 else 's'}"
        case "memory":
            return f"{_bytes(amount)} memory"
        case "gpu":
            return f"{_number(amount)} GPU{'' if amount == 1 else 's'}"
        case "pods":
            return f"{_number(amount)} pod slot{'' if amount == 1 else 's'}"
        case _:
            return f"{_number(amount)} {resource}"


def _bytes(amount: float) -> str:
    """In the largest unit in which it takes at most three decimals, of Gi and Mi, else of G and M; else about in Gi."""
    for size, unit in ((2.0**30, "Gi"), (2.0**20, "Mi"), (1e9, "G"), (1e6, "M")):
        if abs(amount) * 1000 >= size and (amount * 1000 / size).is_integer():
            return f"{_number(amount / size)}{unit}"
    return f"{_number(amount / 2.0**30)}Gi"


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def some_of(names: Sequence[str]) -> str:
    """The names, the first ten of them where there are more."""
    shown = ", ".join(names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def no_queue(name: str, leaves: Sequence[str], above: str | None, is_bare: bool = False) -> Reason:
    """The queue is unknown; or it is left out, as ``above`` is not there, or ("") as its parents go in a circle.

    What counts is the label of a pod that ``is_bare``, and ``spec.queue`` of a group that is there, whatever labels
    say by now.
    """
    if above:
        remedy = f"create {above!r}, or correct spec.parentQueue"
        return Reason(
            NO_QUEUE, f"queue {name!r} counts for nothing, as queue {above!r} above it does not exist: {remedy}"
        )
    if above is not None:
        return Reason(
            NO_QUEUE, f"queue {name!r} counts for nothing, as its parents go in a circle: correct spec.parentQueue"
        )
    there = f"the queues that run work are {some_of(leaves)}" if leaves else "there is no queue that runs work"
    place = "the pod's label" if is_bare else "spec.queue of the PodGroup"
    return Reason(NO_QUEUE, f"queue {name!r} does not exist: {there}; create it, or correct {place}")


def queue_not_leaf(name: str, leaves: Sequence[str]) -> Reason:
    """The queue has children."""
    return Reason(
        QUEUE_NOT_LEAF, f"queue {name!r} has queues below it and runs nothing itself: use one of {some_of(leaves)}"
    )


def not_supported(what: str) -> Reason:
    """``what`` the group asks for comes with a later version."""
    return Reason(NOT_SUPPORTED, f"this version cannot schedule {what}: the group is left pending")


def left_out(what: str, problem: str) -> Reason:
    """The scheduler raises over an object, and goes on without it."""
    return Reason(
        SCHEDULER_ERROR,
        f"the scheduler fails with {what} ({problem}), so it is left out until it changes, and tried again every few "
        "minutes: correct it, or report this as a fault of the scheduler",
    )


def not_ready(parts: Sequence[tuple[str, int, int, int]]) -> Reason:
    """``parts``: (pod set, pods needed, pods there, gated ones among them) of every pod set that is short."""
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
    """All pods that wait are held back by their own gates."""
    return Reason(NOT_READY, f"{count} pod{' is' if count == 1 else 's are'} held back by scheduling gates")


def over_limit(queue: str, resource: str, limit: float, allocated: float, need: float) -> Reason:
    """A limit of the queue or of one above it is in the way, or was, before others left it in the same cycle."""
    return Reason(
        OVER_LIMIT,
        f"queue {queue} may hold {show_amount(resource, limit)}; it holds {show_amount(resource, allocated)} and the "
        f"group asks for {show_amount(resource, need)} more{_since(allocated + need <= limit)}",
    )


def over_quota(queue: str, resource: str, quota: float, allocated: float, need: float) -> Reason:
    """Non-preemptible work would go beyond a quota."""
    return Reason(
        OVER_QUOTA,
        f"queue {queue} guarantees {show_amount(resource, quota)} to non-preemptible work; such work holds "
        f"{show_amount(resource, allocated)} and the group asks for {show_amount(resource, need)} more"
        + (_since(True) if allocated + need <= quota else ": raise the quota, or make the group preemptible"),
    )


def _since(fits_now: bool) -> str:
    return ", for which there is room since others left the queue in this cycle" if fits_now else ""


def too_large(pod: str, resource: str, asked: float, largest: float) -> Reason:
    """No node could take the pod even if it were empty."""
    asks, has = show_amount(resource, asked), show_amount(resource, largest)
    return Reason(NO_FIT, f"pod {pod} asks for {asks}; the largest node has {has}")


def refused(pod: str, why: str) -> Reason:
    """Something that the pod refers to is missing or unusable."""
    return Reason(NO_FIT, f"pod {pod} can run on no node: {why}", missing=True)


def nothing_to_add() -> Reason:
    """There are pods, but too few for one more sub-group."""
    return Reason(NOT_READY, "the pending pods do not complete any further sub-group")


def no_help() -> Reason:
    """Only actions that evict came to the group."""
    return Reason(NO_FIT, "no place for the group, and nobody who makes room for it")


def delayed(seconds: float, until: str) -> Reason:
    """The group's preemption delay runs; ``until`` is the time in UTC at which it ends."""
    return Reason(
        DELAYED, f"nobody is evicted for the group before {until}: its preemption delay is {_number(seconds)} seconds"
    )


def with_help(reason: Reason, help_texts: Sequence[tuple[str, str]]) -> Reason:
    """The reason, and why each action that evicts could not help: (action, why)."""
    parts = [f"{action}: {text}" for action, text in help_texts]
    return replace(reason, message="; ".join([reason.message, *parts])) if parts else reason


def gave_way(count: int) -> Reason:
    """Allocate placed the pods, and an action that evicts gave their places to another group in the same cycle."""
    pods = "1 pod of the group" if count == 1 else f"{count} pods of the group"
    return Reason(
        NO_FIT, f"{pods} got a place in this cycle and lost it again to a group that has a better claim to it"
    )


def not_tried() -> Reason:
    """No action came to the group."""
    return Reason(NOT_TRIED, "not looked at in this cycle")


@dataclass(frozen=True, slots=True)
class NoFit:
    """The facts of a pod that found no node.

    ``verdicts``: text to number of nodes; ``short``: resource to (nodes, asked, most free on one of them);
    ``free``: resource to (free on all nodes that take pods, all that these have, free on the others); ``holders``:
    queues and what they hold of that resource, named in ``holders_of``; ``in_all``: what the gang asks for of a
    resource that is short for it as a whole.
    """

    pod: str
    placed: int
    asked: int
    room: int
    n_nodes: int
    short: Mapping[str, tuple[int, float, float]]
    verdicts: Mapping[str, int]
    free: Mapping[str, tuple[float, float, float]]
    holders: Sequence[tuple[str, float]]
    holders_of: str
    in_all: Mapping[str, float] = field(default_factory=dict)


def no_fit(facts: NoFit) -> Reason:
    """One sentence for the gang, one for the nodes, one for who has the rest."""
    opening = f"no node for pod {facts.pod}"
    if facts.asked > 1:
        opening = f"{facts.placed} of {facts.asked} pods of the gang have a place, none for pod {facts.pod}"
    parts = []
    for resource, (nodes, asked, most) in facts.short.items():
        lack = f"{nodes} of {facts.n_nodes} nodes lack the {show_amount(resource, asked)} it asks for"
        parts.append(f"{lack} (most free on one of them: {_plain(resource, most)})")
    parts += [f"{count} of {facts.n_nodes} nodes: {text}" for text, count in sorted(facts.verdicts.items())]
    if not facts.n_nodes:
        parts.append("there are no nodes")
    elif facts.room:
        parts.append(f"there is room for {facts.room} such pod{'' if facts.room == 1 else 's'} only")
    parts += [f"the gang asks for {show_amount(resource, asked)} in all" for resource, asked in facts.in_all.items()]
    text = opening + ": " + "; ".join(parts)
    for resource, (free, total, apart) in facts.free.items():
        text += f". Free in all: {_plain(resource, free)} of {show_amount(resource, total)}"
        if apart > 0:
            text += f", and {_plain(resource, apart)} on nodes that are cordoned or not ready"
    if facts.holders:
        most_holding = facts.holders[:MOST_HOLDERS]
        shown = ", ".join(f"{name} {show_amount(facts.holders_of, held)}" for name, held in most_holding)
        more = len(facts.holders) - MOST_HOLDERS
        text += f". Held by: {shown}" + (f" and {more} more" if more > 0 else "")
    return Reason(NO_FIT, text)


def _plain(resource: str, amount: float) -> str:
    return show_amount(resource, max(0.0, amount)).split(" ", 1)[0]
