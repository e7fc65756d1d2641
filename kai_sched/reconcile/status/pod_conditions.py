"""The reason of a pending pod's condition PodScheduled and of its Event, by the reason of its group; on
``Unschedulable`` autoscalers add nodes.

Autoscalers act on ``Unschedulable``, so only pods that another node could help get that reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.api import names
from kai_sched.plan import reasons
from kai_sched.plan.reasons import Reason, some_of

_REASONS = {
    reasons.NO_FIT: names.UNSCHEDULABLE,
    reasons.NO_DOMAIN: names.UNSCHEDULABLE,
    reasons.OVER_LIMIT: names.QUEUE_OVER_LIMIT,
    reasons.OVER_QUOTA: names.QUEUE_OVER_QUOTA,
    reasons.NOT_READY: names.GANG_NOT_READY,
}
# Events about queues have reasons of their own, so that people can search for them.
_OWN_EVENTS = frozenset({reasons.NO_QUEUE, reasons.QUEUE_NOT_LEAF})


@dataclass(frozen=True, slots=True)
class PodCondition:
    """The condition PodScheduled of a pod as the API server shows it."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """What is reported about a pending pod. ``event`` is the reason of its event, empty if only the pod group has one.

    ``always``: whatever the group's markUnschedulable says.
    """

    reason: str
    message: str
    event: str
    always: bool = False


def judge(reason: Reason) -> PodVerdict | None:
    """Return the verdict on the pending pods of a group; None if nothing is reported."""
    if reason.code in (reasons.NOT_TRIED, reasons.BACKED_OFF):
        return None
    condition = names.DEPENDENCY_MISSING if reason.missing else _REASONS.get(reason.code, reason.code)
    return PodVerdict(condition, reason.message, event_reason(reason))


def event_reason(reason: Reason) -> str:
    """Return the reason of the event of the pods, empty if only the pod group has one."""
    if reason.code == reasons.NOT_READY:
        return ""
    return reason.code if reason.code in _OWN_EVENTS else names.UNSCHEDULABLE


def unknown_sub_group(sub_group: str, group: str, there: frozenset[str]) -> PodVerdict:
    """The pod names a sub-group that its pod group ("namespace/name") does not have."""
    message = (
        f"there is no sub-group {sub_group!r} in PodGroup {group}, so the pod is never scheduled: set the label "
        f"{names.SUB_GROUP_LABEL} to one of {some_of(sorted(there))}"
    )
    return PodVerdict(names.SUB_GROUP_DOES_NOT_EXIST, message, names.UNSCHEDULABLE, always=True)


def unserved_pool(pool: str) -> PodVerdict:
    """No SchedulingShard has the node pool that the pod, or its group, names."""
    message = (
        f"no SchedulingShard has node pool {pool!r}, so nobody schedules the pod: create one with "
        "spec.partitionLabelValue, or correct the label"
        if pool
        else "no SchedulingShard has what is in no node pool, so nobody schedules the pod: give it the label of one"
    )
    return PodVerdict(names.UNSCHEDULABLE, message, names.UNSCHEDULABLE, always=True)


def unknown_group(group: str) -> PodVerdict:
    """The pod names a pod group ("namespace/name") that does not exist."""
    message = (
        f"there is no PodGroup {group}, so the pod waits for it: create it, or correct the annotation "
        f"{names.POD_GROUP_ANNOTATION}"
    )
    return PodVerdict(names.POD_GROUP_DOES_NOT_EXIST, message, names.UNSCHEDULABLE, always=True)
