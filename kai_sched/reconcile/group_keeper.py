"""Pod groups: their status, annotations and events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.keys import split_key
from kai_sched.model.objects import PodGroup
from kai_sched.model.times import format_time
from kai_sched.plan import reasons
from kai_sched.plan.effects import Annotate, PatchStatus, Ref, Write
from kai_sched.plan.result import GroupState
from kai_sched.reconcile import events
from kai_sched.reconcile.kept import Kept, Moment
from kai_sched.reconcile.ledger import SECOND_NS, Content
from kai_sched.reconcile.merge import merge_patch
from kai_sched.reconcile.pod_conditions import event_reason
from kai_sched.reconcile.podgroup_status import (
    contradiction,
    decisive,
    is_stale,
    queue_details,
    resources_status,
    scheduling_conditions,
    shortage,
    with_end,
)
from kai_sched.reconcile.subjects import Shown, Subjects, list_of, patch_findings
from kai_sched.reconcile.tally import GroupTally

_SCHEDULING = "scheduling"
_INVALID = frozenset({names.INVALID})
# Amounts move with every pod; readers need no more than this.
AMOUNTS_PAUSE_NS = SECOND_NS


class GroupKeeper(Kept):
    """Remembers which groups hold room, to see when one starts from nothing."""

    kind = "PodGroup"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._subjects = Subjects()
        self._pool = config.node_pool or names.DEFAULT_POOL
        self._grace_s = config.staleness_grace_s
        self._holds: dict[str, tuple[str, bool]] = {}  # uid, and whether it held room when it was last looked at
        self._started_ns: dict[str, tuple[str, int]] = {}  # uid, and the start that is to be written

    def observe(self, key: str, uid: str, raw_status: bytes, fault: str) -> None:
        """The group is there so. Raises msgspec.DecodeError for a status that is no JSON object."""
        before = self._subjects.get(key)
        self._subjects.observe(key, uid, raw_status, fault)
        if before is not None and before is not self._subjects.get(key):
            self._ledger.forget(before)
        self.mark((key,))

    def forget(self, key: str) -> None:
        """The group is gone."""
        before = self._subjects.forget(key)
        if before is not None:
            self._ledger.forget(before)
            self.mark((key,))

    def mark_all(self) -> None:
        """Look at all of them."""
        self.mark(self._subjects.keys())

    def reword(self, keys: Iterable[str]) -> None:
        """Only the wording of what is told of these has changed: that can wait where it waits already."""
        waiting = self._subjects.get
        self.mark(key for key in keys if (subject := waiting(key)) is not None and not subject.rewords(_SCHEDULING))

    def _look(self, key: str, moment: Moment) -> list[Write]:
        subject = self._subjects.get(key)
        if subject is None:
            self._holds.pop(key, None)
            self._started_ns.pop(key, None)
            return []
        self._ledger.open(subject)
        found = self._due(key, subject, moment)
        self._ledger.close(subject)
        return found

    def _due(self, key: str, subject: Shown, moment: Moment) -> list[Write]:
        namespace, name = split_key(key)
        ref = Ref(names.POD_GROUP_VERSION, "PodGroup", namespace, name, subject.uid)
        group = moment.cluster.pod_groups.get(key)
        members, state = moment.tally.groups.get(key), moment.result.groups.get(key)
        if group is None or group.uid != subject.uid:
            return self._patch(ref, self._fault_patch(subject, subject.fault, moment.now_ns)) if subject.fault else []
        if members is None or state is None:
            return []
        found = self._patch(ref, self._status_patch(subject, group, state, members, moment))
        found += self._annotations(ref, subject, group, members, moment.now_ns)
        found += self._events(ref, subject, group, state, members)
        self._holds[key] = (group.uid, bool(members.counts.held))
        if not members.counts.held:
            self._started_ns.pop(key, None)
        return found

    def _patch(self, ref: Ref, patch: dict[str, Any]) -> list[Write]:
        return [PatchStatus(ref, patch)] if patch else []

    def _fault_patch(self, subject: Shown, fault: str, now_ns: int) -> dict[str, Any]:
        findings = [(names.INVALID, "SpecNotUsable", fault)] if fault else []
        return patch_findings(subject, _INVALID, findings, self._ledger, now_ns)

    def _status_patch(
        self, subject: Shown, group: PodGroup, state: GroupState, members: GroupTally, moment: Moment
    ) -> dict[str, Any]:
        tally, now_ns = moment.tally, moment.now_ns
        patch = self._fault_patch(subject, subject.fault or contradiction(group), now_ns)
        amounts = resources_status(members, tally)
        shown = subject.status.get("resourcesStatus") or {}
        if self._ledger.due(subject, "amounts", (None, amounts), (None, shown), AMOUNTS_PAUSE_NS):
            patch["resourcesStatus"] = merge_patch(shown, amounts) if amounts else None
        before = list_of(subject.status, "schedulingConditions")
        details = None
        if state.reason is not None:
            state = replace(state, reason=with_end(state.reason, group, members, self._grace_s))
            details = queue_details(state.reason, members, tally, moment.queues) if state.reason else None
        after = scheduling_conditions(before, state, self._pool, details, now_ns)
        if self._ledger.due(subject, _SCHEDULING, _content(after), _content(before)):
            patch["schedulingConditions"] = after or None
        return patch

    def _annotations(self, ref: Ref, subject: Shown, group: PodGroup, members: GroupTally, now_ns: int) -> list[Write]:
        changes: dict[str, str | None] = {}
        stale = is_stale(group, members)
        if self._ledger.due(subject, "stale", (stale, None), (group.stale_since_ns != 0, None)):
            changes[names.STALE_ANNOTATION] = format_time(now_ns) if stale else None
        start_ns = self._start_ns(group, members, now_ns)
        if self._ledger.due(subject, "start", (start_ns, None), (group.last_start_ns // SECOND_NS * SECOND_NS, None)):
            changes[names.LAST_START_ANNOTATION] = format_time(start_ns)
        return [Annotate(ref, changes)] if changes else []

    def _start_ns(self, group: PodGroup, members: GroupTally, now_ns: int) -> int:
        """When the group last came to hold room, in whole seconds; what its annotation says where that is not known."""
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

    def _events(self, ref: Ref, subject: Shown, group: PodGroup, state: GroupState, members: GroupTally) -> list[Write]:
        found: list[Write] = []
        reason = state.reason
        if reason is not None and reason.code != reasons.NOT_TRIED:
            event = event_reason(reason) or names.NOT_READY
            kind = names.NORMAL if event in (names.UNSCHEDULABLE, names.NOT_READY) else names.WARNING
            if self._ledger.tell(subject, f"{event}/{reason.code}", _is_told(subject, reason.code)):
                found.append(events.emit(ref, kind, event, reason.message))
        if is_stale(group, members) and self._ledger.tell(subject, names.STALE_JOB):
            found.append(events.stale_job(ref, shortage(group, members)))
        return found


def _is_told(subject: Shown, code: str) -> bool:
    """Whether the newest scheduling condition in the API server gives this very reason."""
    shown = list_of(subject.status, "schedulingConditions")
    return bool(shown) and code in [each.get("reason") for each in shown[-1].get("reasons") or ()]


def _content(conditions: list[dict[str, Any]]) -> Content:
    return decisive(conditions), [each.get("message") for each in conditions]
