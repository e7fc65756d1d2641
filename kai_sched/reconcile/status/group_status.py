"""The content of a PodGroup's status (API 6.1, 6.3): conditions, amounts, details of the queue, staleness,
contradictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kai_sched.api import names
from kai_sched.model.checks import short_of, tree_fault
from kai_sched.model.objects import PodGroup
from kai_sched.model.times import format_time
from kai_sched.plan import reasons
from kai_sched.plan.reasons import Reason
from kai_sched.plan.result import QUEUE_RESOURCES, GroupState, QueueState
from kai_sched.reconcile.status.usage import GroupUsage, QueueUsage, resource_list

# Reasons that leave the conditions of a group unchanged: it was not tried, is not complete, or was tried before.
SILENT = frozenset({reasons.NOT_TRIED, reasons.NOT_READY, reasons.BACKED_OFF})
_WAITING = frozenset({"Pending", "Gated", "Pipelined", "Binding"})


def resources_status(group: GroupUsage, usage: QueueUsage) -> dict[str, Any]:
    """Return ``status.resourcesStatus`` without empty fields."""
    held = resource_list(usage.amounts(group.counts.held))
    fields = {
        "allocated": held,
        "allocatedNonPreemptible": {} if group.preemptible else held,
        "requested": resource_list(usage.amounts(group.counts.asked)),
    }
    return {name: value for name, value in fields.items() if value}


def scheduling_conditions(
    previous: Sequence[Mapping[str, Any]],
    state: GroupState,
    pool: str,
    details: Mapping[str, Any] | None,
    now_ns: int,
) -> list[Any]:
    """``status.schedulingConditions`` as they should be, given those that are there.

    Other pools' conditions are kept; this pool's newest goes to the end. ``details`` are the ``queue_details`` of the
    reason, if it has some.
    """
    if not state.counts.keys() & _WAITING:
        return []
    reason = state.reason
    if reason is None or reason.code in SILENT or "Pending" not in state.counts:
        return list(previous)
    entry: dict[str, Any] = {"reason": reason.code, "message": reason.message}
    if details is not None:
        entry["details"] = {"queueDetails": details}
    wanted = {
        "type": names.UNSCHEDULABLE_ON_NODE_POOL,
        "nodePool": pool,
        "reason": names.UNSCHEDULABLE,
        "message": reason.message,
        "reasons": [entry],
        "transitionID": str(_last_id(previous) + 1),
        "lastTransitionTime": format_time(now_ns),
        "status": "True",
    }
    if previous and _same(previous[-1], wanted):
        return list(previous)
    return [each for each in previous if each.get("nodePool") != pool] + [wanted]


def _same(condition: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(condition.get(field) == wanted[field] for field in ("type", "nodePool", "reason", "message", "status"))


def _last_id(conditions: Sequence[Mapping[str, Any]]) -> int:
    texts = [condition.get("transitionID") for condition in conditions]
    return max((int(text) for text in texts if isinstance(text, str) and text.isdecimal()), default=0)


def decisive(conditions: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the part of the conditions whose changes are written at once: no texts, times and counters."""
    return [
        (
            condition.get("type"),
            condition.get("nodePool"),
            condition.get("reason"),
            condition.get("status"),
            [each.get("reason") for each in condition.get("reasons") or ()],
        )
        for condition in conditions
    ]


def queue_details(
    reason: Reason, group: GroupUsage, usage: QueueUsage, queues: Mapping[str, QueueState]
) -> dict[str, Any] | None:
    """Return the amounts of the blocking queue and of the group; None if no limit or quota blocks the group."""
    queue = queues.get(reason.queue)
    if queue is None:
        return None
    requested = resource_list(usage.amounts(group.counts.asked))
    fields: dict[str, Any] = {
        "name": queue.name,
        "queueRequestedResources": _triple(queue.requested),
        "queueDeservedResources": _triple(queue.quota),
        "queueAllocatedResources": _triple(queue.allocated),
        "queueAllocatedNonPreemptibleResources": _triple(queue.allocated_non_preemptible),
        "queueResourceLimits": _triple(queue.limit),
        "podGroupRequestedResources": requested,
        "podGroupRequestedNonPreemptibleResources": {} if group.preemptible else requested,
    }
    return {name: value for name, value in fields.items() if value}


def _triple(amounts: tuple[float, float, float]) -> dict[str, str]:
    return resource_list(dict(zip(QUEUE_RESOURCES, amounts, strict=True)))


def is_stale(group: PodGroup, usage: GroupUsage) -> bool:
    """Return whether the group runs with fewer pods than its sub-groups need, while none has finished."""
    return bool(usage.used) and not usage.finished and shortage(group, usage) != ""


def with_end(reason: Reason, group: PodGroup, usage: GroupUsage, grace_s: float) -> Reason:
    """Return the reason, and for a stale group also when its pods are evicted. ``grace_s`` is the grace period in
    seconds of groups that do not set one; a negative period never ends."""
    grace_s = grace_s if group.staleness_grace_s is None else group.staleness_grace_s
    if not group.stale_since_ns or grace_s < 0 or not is_stale(group, usage):
        return reason
    end = format_time(group.stale_since_ns + round(grace_s * 1e9))
    text = f"{reason.message}; it runs incomplete ({shortage(group, usage)}), and what runs is evicted at {end}"
    return replace(reason, message=text)


def shortage(group: PodGroup, usage: GroupUsage) -> str:
    """Return which minimum the pods on nodes do not reach, in words, or an empty string."""
    if tree_fault(group) is not None:
        return ""
    short = short_of(group, usage.used)
    return short[1] if short else ""


def contradiction(group: PodGroup) -> str:
    """Return what contradicts itself in the specification of the group, with the field, or an empty string."""
    if group.min_member is not None and group.min_sub_group is not None:
        return "spec.minMember: minMember and minSubGroup exclude each other: leave one of them out"
    for i, each in enumerate(group.sub_groups):
        if each.min_member is not None and each.min_sub_group is not None:
            return f"spec.subGroups[{i}]: minMember and minSubGroup exclude each other: leave one of them out"
    fault = tree_fault(group)
    if fault is None:
        return ""
    return f"{fault[0]}: {fault[1]}; until then the sub-groups are ignored and the minimum is 1 pod"
