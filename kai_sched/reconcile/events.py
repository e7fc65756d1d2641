"""The reason and the wording of Events (API 6.4) about binds, pipelined pods, queues and stale gangs, and their longest
message.
"""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.plan.effects import Emit, Ref, SetCondition
from kai_sched.plan.reasons import Reason
from kai_sched.reconcile.status.pod_conditions import event_reason

MESSAGE_MAX = 1024  # bytes; the API server takes no longer notes


def cut(message: str) -> str:
    """The message as far as the API server takes it."""
    raw = message.encode()
    return message if len(raw) <= MESSAGE_MAX else raw[: MESSAGE_MAX - 3].decode(errors="ignore") + "..."


def emit(ref: Ref, kind: str, reason: str, message: str) -> Emit:
    """An event whose message is cut to what the API server takes; ``kind`` is Normal or Warning."""
    return Emit(ref, kind, reason, cut(message))


def scheduled(pod: Ref, node: str, pool: str) -> Emit:
    """The API server took the bind."""
    where = f"{node} of node pool {pool or names.DEFAULT_POOL}"
    return emit(pod, names.NORMAL, names.SCHEDULED, f"pod {pod.key} is bound to node {where}")


def pipelined(pod: Ref, what: str) -> Emit:
    """The pod has a place and is not bound yet; ``what`` is said of it (``plan.waits``)."""
    return emit(pod, names.NORMAL, names.PIPELINED, f"pod {pod.key} {what}")


def failed_binding(pod: Ref, node: str, error: str) -> tuple[Emit, SetCondition]:
    """The API server refused the bind, or could not be asked; it is tried again."""
    message = f"binding pod {pod.key} to node {node} failed: {error}"
    return (
        emit(pod, names.WARNING, names.FAILED_BINDING, message),
        SetCondition(pod, names.POD_SCHEDULED, "False", names.BINDING_ERROR, message),
    )


def queue_label_missing(ref: Ref, label: str) -> Emit:
    """A pod, or a workload, that names no queue."""
    what = "pod" if ref.kind == "Pod" else ref.kind
    message = (
        f"{what} {ref.key} has no label {label}, so it belongs to queue {names.DEFAULT_QUEUE}: set the label to the "
        "queue that it should run in"
    )
    return emit(ref, names.WARNING, names.QUEUE_LABEL_MISSING, message)


def queue_unusable(owner: Ref, subject: str, field: str, queue: str, reason: Reason, group: str) -> Emit:
    """A workload that cannot run in the queue that ``field`` of ``subject`` names, and what counts now: its group."""
    said = f"{field} of {subject} names queue {queue!r}" if field else f"nothing names another queue than {queue!r}"
    return emit(owner, names.WARNING, event_reason(reason), f"{said}: {reason.message}; the PodGroup is {group}")


def waits(owner: Ref, group: str, reason: Reason) -> Emit:
    """A workload of which something is not scheduled."""
    return emit(owner, names.WARNING, event_reason(reason) or reason.code, f"PodGroup {group}: {reason.message}")


def stale_job(group: Ref, shortage: str) -> Emit:
    """The group runs with fewer pods than it needs; ``shortage`` says which minimum is not reached."""
    return emit(group, names.NORMAL, names.STALE_JOB, f"pod group {group.key} runs incomplete: {shortage}")
