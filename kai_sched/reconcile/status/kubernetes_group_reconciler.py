"""When the status of a PodGroup of Kubernetes itself (scheduling.k8s.io) is written, and what it says: whether its
minimum has ever been scheduled (API 6.5).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kai_sched.api import names
from kai_sched.model.keys import group_key, split_key
from kai_sched.model.objects import PodGroup
from kai_sched.model.times import format_time
from kai_sched.plan.effects import PatchStatus, Ref, Write
from kai_sched.plan.result import GroupState
from kai_sched.reconcile.grouping.draft import group_name_of
from kai_sched.reconcile.status.group_status import SILENT, shortage
from kai_sched.reconcile.status.object_reconciler import ObjectReconciler, StatusInput
from kai_sched.reconcile.status.shown_objects import ShownObject, ShownObjects, list_of
from kai_sched.reconcile.status.usage import GroupUsage

SCHEDULED = "Scheduled"


class GroupCondition(NamedTuple):
    """The condition PodGroupInitiallyScheduled."""

    status: str
    reason: str
    message: str


class KubernetesGroupReconciler(ObjectReconciler):
    """PodGroups of Kubernetes by "namespace/name". The group that is made of each is found by name and uid."""

    kind = "PodGroup of Kubernetes"

    def __init__(self) -> None:
        super().__init__()
        self._tracked = ShownObjects()
        self._generations: dict[str, int] = {}
        self._of_group: dict[str, str] = {}  # by the key of the group that is made of it

    def observe(self, key: str, uid: str, raw_status: bytes, generation: int) -> None:
        """The API server shows the PodGroup so. Raises msgspec.DecodeError if the status is no JSON object."""
        before = self._tracked.get(key)
        if before is not None and before.uid != uid:
            self.forget(key)
        self._tracked.observe(key, uid, raw_status, "")
        self._generations[key] = generation
        self._of_group[made_of(key, uid)] = key
        self.mark((key,))

    def forget(self, key: str) -> None:
        """The PodGroup is gone."""
        before = self._tracked.forget(key)
        if before is not None:
            self._throttle.forget(before)
            self._generations.pop(key, None)
            self._of_group.pop(made_of(key, before.uid), None)

    def mark_all(self) -> None:
        """Reconcile all."""
        self.mark(self._tracked.keys())

    def mark_groups(self, groups: Iterable[str]) -> None:
        """Reconcile those of which these groups are made."""
        if self._of_group:
            self.mark(key for group in groups if (key := self._of_group.get(group)) is not None)

    def _reconcile(self, key: str, inputs: StatusInput) -> list[Write]:
        tracked = self._tracked.get(key)
        if tracked is None:
            return []
        self._throttle.open(tracked)
        found = self._due(key, tracked, inputs)
        self._throttle.close(tracked)
        return found

    def _due(self, key: str, tracked: ShownObject, inputs: StatusInput) -> list[Write]:
        name = made_of(key, tracked.uid)
        group, members = inputs.cluster.pod_groups.get(name), inputs.usage.groups.get(name)
        state = inputs.result.groups.get(name)
        others, shown = [], {}
        for each in list_of(tracked.status, "conditions"):
            if each.get("type") == names.GROUP_SCHEDULED:
                shown = each
            else:
                others.append(each)
        if group is None or members is None or state is None or shown.get("status") == "True":
            return []
        wanted = group_condition(group, members, state)
        if wanted is None:
            return []
        content = wanted[:2], wanted.message
        before = ((shown.get("status"), shown.get("reason")), shown.get("message")) if shown else None
        if not self._throttle.due(tracked, "scheduled", content, before):
            return []
        since = shown.get("lastTransitionTime") if shown.get("status") == wanted.status else None
        condition: dict[str, Any] = {
            "type": names.GROUP_SCHEDULED,
            **wanted._asdict(),
            "lastTransitionTime": since or format_time(inputs.now_ns),
        }
        if self._generations[key]:  # Kubernetes 1.37 counts none
            condition["observedGeneration"] = self._generations[key]
        ref = Ref(*names.KUBERNETES_GROUP, *split_key(key), tracked.uid)
        return [PatchStatus(ref, {"conditions": [*others, condition]})]


def made_of(key: str, uid: str) -> str:
    """The key of the group that is made of the PodGroup of Kubernetes with this key and uid."""
    namespace, name = split_key(key)
    return group_key(namespace, group_name_of(name, uid))


def group_condition(group: PodGroup, members: GroupUsage, state: GroupState) -> GroupCondition | None:
    """What is known of the group; None while that is nothing yet: its pods are not all there, or are being bound.

    Once the minimum of the group has nodes it stays true, whatever becomes of the pods.
    """
    if members.finished or (members.used and "Binding" not in state.counts and not shortage(group, members)):
        return GroupCondition("True", SCHEDULED, "the minimum of the group has been scheduled")
    reason = state.reason
    if reason is None or reason.code in SILENT or "Pending" not in state.counts:
        return None
    return GroupCondition("False", names.UNSCHEDULABLE, reason.message)
