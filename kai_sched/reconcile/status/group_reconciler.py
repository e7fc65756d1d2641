"""When the status, annotations and Events of a PodGroup are written; ``status.group_status`` has their content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kai_sched.api import names
from kai_sched.model.config import Config, pool_of_conditions
from kai_sched.model.keys import split_key
from kai_sched.model.objects import PodGroup
from kai_sched.model.times import format_time
from kai_sched.plan import reasons
from kai_sched.plan.effects import Annotate, PatchStatus, Ref, Write
from kai_sched.plan.result import GroupState
from kai_sched.reconcile import events
from kai_sched.reconcile.status.group_status import (
    contradiction,
    decisive,
    is_stale,
    queue_details,
    resources_status,
    scheduling_conditions,
    shortage,
    with_end,
)
from kai_sched.reconcile.status.merge import merge_patch
from kai_sched.reconcile.status.object_reconciler import ObjectReconciler, StatusInput
from kai_sched.reconcile.status.pod_conditions import event_reason
from kai_sched.reconcile.status.shown_objects import ShownObject, ShownObjects, list_of, patch_findings
from kai_sched.reconcile.status.usage import GroupUsage
from kai_sched.reconcile.status.write_throttle import SECOND_NS, Content

_SCHEDULING = "scheduling"
_INVALID = frozenset({names.INVALID})
# Amounts change with every pod; nobody reads them more often.
AMOUNTS_PAUSE_NS = SECOND_NS


class GroupReconciler(ObjectReconciler):
    """Remembers which groups hold room, so that it sees when one starts."""

    kind = "PodGroup"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._tracked = ShownObjects()
        self.config = config
        self._holds: dict[str, tuple[str, bool]] = {}  # uid, and whether the group held room the last time
        self._started_ns: dict[str, tuple[str, int]] = {}  # uid, and the start that is to be written

    def observe(self, key: str, uid: str, raw_status: bytes, fault: str) -> None:
        """The API server shows the PodGroup so. Raises msgspec.DecodeError if the status is no JSON object."""
        before = self._tracked.get(key)
        self._tracked.observe(key, uid, raw_status, fault)
        if before is not None and before is not self._tracked.get(key):
            self._throttle.forget(before)
        self.mark((key,))

    def forget(self, key: str) -> None:
        """The group is gone."""
        before = self._tracked.forget(key)
        if before is not None:
            self._throttle.forget(before)
            self.mark((key,))

    def mark_all(self) -> None:
        """Reconcile all groups."""
        self.mark(self._tracked.keys())

    def reword(self, keys: Iterable[str]) -> None:
        """Only messages about these have changed: reconcile those for which no new wording waits yet."""
        waiting = self._tracked.get
        self.mark(key for key in keys if (tracked := waiting(key)) is not None and not tracked.rewords(_SCHEDULING))

    def _reconcile(self, key: str, inputs: StatusInput) -> list[Write]:
        tracked = self._tracked.get(key)
        if tracked is None:
            self._holds.pop(key, None)
            self._started_ns.pop(key, None)
            return []
        self._throttle.open(tracked)
        found = self._due(key, tracked, inputs)
        self._throttle.close(tracked)
        return found

    def _due(self, key: str, tracked: ShownObject, inputs: StatusInput) -> list[Write]:
        namespace, name = split_key(key)
        ref = Ref(names.POD_GROUP_VERSION, "PodGroup", namespace, name, tracked.uid)
        group = inputs.cluster.pod_groups.get(key)
        members, state = inputs.usage.groups.get(key), inputs.result.groups.get(key)
        if group is None or group.uid != tracked.uid:
            return self._patch(ref, self._fault_patch(tracked, tracked.fault, inputs.now_ns)) if tracked.fault else []
        if members is None or state is None:
            return []
        found = self._patch(ref, self._status_patch(tracked, group, state, members, inputs))
        found += self._annotations(ref, tracked, group, members, inputs.now_ns)
        found += self._events(ref, tracked, group, state, members)
        self._holds[key] = (group.uid, bool(members.counts.held))
        if not members.counts.held:
            self._started_ns.pop(key, None)
        return found

    def _patch(self, ref: Ref, patch: dict[str, Any]) -> list[Write]:
        return [PatchStatus(ref, patch)] if patch else []

    def _fault_patch(self, tracked: ShownObject, fault: str, now_ns: int) -> dict[str, Any]:
        findings = [(names.INVALID, "SpecNotUsable", fault)] if fault else []
        return patch_findings(tracked, _INVALID, findings, self._throttle, now_ns)

    def _status_patch(
        self, tracked: ShownObject, group: PodGroup, state: GroupState, members: GroupUsage, inputs: StatusInput
    ) -> dict[str, Any]:
        usage, now_ns = inputs.usage, inputs.now_ns
        patch = self._fault_patch(tracked, tracked.fault or contradiction(group), now_ns)
        amounts = resources_status(members, usage)
        shown = tracked.status.get("resourcesStatus") or {}
        if self._throttle.due(tracked, "amounts", (None, amounts), (None, shown), AMOUNTS_PAUSE_NS):
            patch["resourcesStatus"] = merge_patch(shown, amounts) if amounts else None
        before = list_of(tracked.status, "schedulingConditions")
        details = None
        if state.reason is not None:
            state = replace(state, reason=with_end(state.reason, group, members, self.config.staleness_grace_s))
            details = queue_details(state.reason, members, usage, inputs.queues) if state.reason else None
        after = scheduling_conditions(before, state, pool_of_conditions(group.labels, self.config), details, now_ns)
        if self._throttle.due(tracked, _SCHEDULING, _content(after), _content(before)):
            patch["schedulingConditions"] = after or None
        return patch

    def _annotations(
        self, ref: Ref, tracked: ShownObject, group: PodGroup, members: GroupUsage, now_ns: int
    ) -> list[Write]:
        changes: dict[str, str | None] = {}
        stale = is_stale(group, members)
        if self._throttle.due(tracked, "stale", (stale, None), (group.stale_since_ns != 0, None)):
            changes[names.STALE_ANNOTATION] = format_time(now_ns) if stale else None
        start_ns = self._start_ns(group, members, now_ns)
        if self._throttle.due(tracked, "start", (start_ns, None), (group.last_start_ns // SECOND_NS * SECOND_NS, None)):
            changes[names.LAST_START_ANNOTATION] = format_time(start_ns)
        return [Annotate(ref, changes)] if changes else []

    def _start_ns(self, group: PodGroup, members: GroupUsage, now_ns: int) -> int:
        """When the group last began to hold room, in whole seconds; if that is not known, what its annotation says."""
        shown_ns = group.last_start_ns // SECOND_NS * SECOND_NS
        if not members.counts.held:
            return shown_ns
        uid, start_ns = self._started_ns.get(group.key, ("", 0))
        if uid == group.uid:
            return start_ns
        before = self._holds.get(group.key)
        if before != (group.uid, False) and (shown_ns or before == (group.uid, True)):
            return shown_ns
        self._started_ns[group.key] = (group.uid, now_ns // SECOND_NS * SECOND_NS)
        return self._started_ns[group.key][1]

    def _events(
        self, ref: Ref, tracked: ShownObject, group: PodGroup, state: GroupState, members: GroupUsage
    ) -> list[Write]:
        found: list[Write] = []
        reason = state.reason
        if reason is not None and reason.code != reasons.NOT_TRIED:
            event = event_reason(reason) or names.NOT_READY
            kind = names.NORMAL if event in (names.UNSCHEDULABLE, names.NOT_READY) else names.WARNING
            if self._throttle.may_emit(tracked, f"{event}/{reason.code}", _is_shown(tracked, reason.code)):
                found.append(events.emit(ref, kind, event, reason.message))
        if is_stale(group, members) and self._throttle.may_emit(tracked, names.STALE_JOB):
            found.append(events.stale_job(ref, shortage(group, members)))
        return found


def _is_shown(tracked: ShownObject, code: str) -> bool:
    """Whether the newest scheduling condition in the API server has this reason."""
    shown = list_of(tracked.status, "schedulingConditions")
    return bool(shown) and code in [each.get("reason") for each in shown[-1].get("reasons") or ()]


def _content(conditions: list[dict[str, Any]]) -> Content:
    return decisive(conditions), [each.get("message") for each in conditions]
