"""The Events on owners of pods: no queue named, an unusable queue, or a reason to wait that lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.plan import reasons
from kai_sched.plan.effects import Ref, Write
from kai_sched.reconcile import events
from kai_sched.reconcile.grouping.manifest import QueueChoice
from kai_sched.reconcile.status.object_reconciler import ObjectReconciler, StatusInput
from kai_sched.reconcile.status.write_throttle import TrackedObject

# Reasons that last longer than until the other pods of the group have been created.
LASTING = frozenset((reasons.NO_FIT, reasons.NO_DOMAIN, reasons.OVER_LIMIT, reasons.OVER_QUOTA, reasons.NOT_SUPPORTED))


@dataclass(frozen=True, slots=True)
class GroupOwner:
    """The owner of a pod group, and what names the queue of the group."""

    owner: Ref
    choice: QueueChoice


def is_unlabelled(pod: Pod, group: PodGroup | None, owned: GroupOwner | None) -> bool:
    """Return whether the pod is in the default queue because no queue is named. ``owned``: the owner of its group."""
    if not pod.group:
        return not pod.queue
    if group is None or group.queue != names.DEFAULT_QUEUE:
        return False
    return owned is not None and not owned.choice.field


class OwnerIndex:
    """The owners of pod groups, by the keys of the groups. The grouper fills it.

    ``changed`` is called with each group and its owner, None if the group has no pods any more.
    """

    def __init__(self, changed: Callable[[str, GroupOwner | None], None]) -> None:
        self._changed = changed
        self._owned: dict[str, GroupOwner] = {}

    def observe(self, group: str, owner: Ref, choice: QueueChoice) -> None:
        """The group "namespace/name" belongs to the owner."""
        owned = GroupOwner(owner, choice)
        if self._owned.get(group) != owned:
            self._owned[group] = owned
            self._changed(group, owned)

    def forget(self, group: str) -> None:
        """The group has no pods any more."""
        if self._owned.pop(group, None) is not None:
            self._changed(group, None)

    def owner_of(self, group: str) -> Ref | None:
        """Return the owner of the group."""
        owned = self._owned.get(group)
        return None if owned is None else owned.owner

    def is_unlabelled(self, pod: Pod, group: PodGroup | None) -> bool:
        """Return whether the pod is in the default queue because no queue is named."""
        return is_unlabelled(pod, group, self._owned.get(pod.group_key) if pod.group else None)


class OwnerReconciler(ObjectReconciler):
    """Owners by uid; an owner may have any number of groups."""

    kind = "owner"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self._owned: dict[str, GroupOwner] = {}
        self._groups: dict[str, dict[str, None]] = {}  # the groups of each owner
        self._tracked: dict[str, TrackedObject] = {}

    def observe(self, group: str, owned: GroupOwner | None) -> None:
        """See ``OwnerIndex``."""
        before = self._owned.pop(group, None)
        if before is not None:
            self._groups.get(before.owner.uid, {}).pop(group, None)
            self.mark((before.owner.uid,))
        if owned is not None:
            self._owned[group] = owned
            self._groups.setdefault(owned.owner.uid, {})[group] = None
            self.mark((owned.owner.uid,))

    def get(self, group: str) -> GroupOwner | None:
        """Return the owner of the group."""
        return self._owned.get(group)

    def mark_groups(self, groups: Iterable[str]) -> None:
        """Reconcile the owners of these groups."""
        self.mark(owned.owner.uid for group in groups if (owned := self._owned.get(group)) is not None)

    def mark_all(self) -> None:
        """Reconcile all owners."""
        self.mark(self._groups.keys())

    def _keys(self, tracked: TrackedObject) -> Iterable[str]:
        return (tracked.uid,)

    def _reconcile(self, key: str, inputs: StatusInput) -> list[Write]:
        groups = self._groups.get(key)
        if not groups:
            self._groups.pop(key, None)
            gone = self._tracked.pop(key, None)
            if gone is not None:
                self._throttle.forget(gone)
            return []
        tracked = self._tracked.get(key)
        if tracked is None:
            tracked = self._tracked[key] = TrackedObject(next(iter(groups)), key)
        self._throttle.open(tracked)
        found: list[Write] = []
        for group in groups:
            found += self._due(group, self._owned[group], tracked, inputs)
        self._throttle.close(tracked)
        return found

    def _due(self, key: str, owned: GroupOwner, tracked: TrackedObject, inputs: StatusInput) -> list[Write]:
        found: list[Write] = []
        state, group = inputs.result.groups.get(key), inputs.cluster.pod_groups.get(key)
        if state is None or group is None:
            return found
        if group.queue == names.DEFAULT_QUEUE and not owned.choice.field and self._throttle.may_emit(tracked, "queue/"):
            found.append(events.queue_label_missing(owned.owner, self._config.queue_label))
        reason = state.reason
        if reason is not None and reason.code in (reasons.NO_QUEUE, reasons.QUEUE_NOT_LEAF):
            is_label = owned.choice.name == group.queue
            place = (owned.choice.subject, owned.choice.field) if is_label else (f"PodGroup {key}", "spec.queue")
            if self._throttle.may_emit(tracked, f"queue/{group.queue}"):
                found.append(events.queue_unusable(owned.owner, *place, group.queue, reason, key))
            return found
        lasts = reason is not None and reason.code in LASTING and owned.owner.kind != "Pod"
        if lasts and reason and self._throttle.may_emit(tracked, f"reason/{reason.code}"):
            found.append(events.waits(owned.owner, key, reason))
        return found
