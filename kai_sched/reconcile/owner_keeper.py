"""Owners of pods: what their people are told of the queue that they name or do not name, and of what is in the way."""

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
from kai_sched.reconcile.kept import Kept, Moment
from kai_sched.reconcile.ledger import Subject

# Why something waits for longer than until its other pods are there.
LASTING = frozenset((reasons.NO_FIT, reasons.OVER_LIMIT, reasons.OVER_QUOTA, reasons.NOT_SUPPORTED))


@dataclass(frozen=True, slots=True)
class Owned:
    """A pod group of an owner, and what names its queue."""

    owner: Ref
    choice: QueueChoice


def is_unlabelled(pod: Pod, group: PodGroup | None, owned: Owned | None) -> bool:
    """Whether the pod is in the default queue because nobody named one. ``owned``: what is known of its group."""
    if not pod.group:
        return not pod.queue
    if group is None or group.queue != names.DEFAULT_QUEUE:
        return False
    return owned is not None and not owned.choice.field


class Owners:
    """The owners of pod groups by the groups' keys, as those know them who decide the groups.

    ``told`` hears of each change: the group, and None where it has no pods any more.
    """

    def __init__(self, told: Callable[[str, Owned | None], None]) -> None:
        self._told = told
        self._owned: dict[str, Owned] = {}

    def observe(self, group: str, owner: Ref, choice: QueueChoice) -> None:
        """The group "namespace/name" belongs to the owner."""
        owned = Owned(owner, choice)
        if self._owned.get(group) != owned:
            self._owned[group] = owned
            self._told(group, owned)

    def forget(self, group: str) -> None:
        """The group has no pods any more."""
        if self._owned.pop(group, None) is not None:
            self._told(group, None)

    def owner_of(self, group: str) -> Ref | None:
        """Whose the group is."""
        owned = self._owned.get(group)
        return None if owned is None else owned.owner

    def is_unlabelled(self, pod: Pod, group: PodGroup | None) -> bool:
        """Whether the pod is in the default queue because nobody named one."""
        return is_unlabelled(pod, group, self._owned.get(pod.group_key) if pod.group else None)


class OwnerKeeper(Kept):
    """By the uid of the owner, whatever number of groups it has."""

    kind = "owner"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self._owned: dict[str, Owned] = {}
        self._groups: dict[str, dict[str, None]] = {}  # of each owner
        self._subjects: dict[str, Subject] = {}

    def observe(self, group: str, owned: Owned | None) -> None:
        """See ``Owners``."""
        before = self._owned.pop(group, None)
        if before is not None:
            self._groups.get(before.owner.uid, {}).pop(group, None)
            self.mark((before.owner.uid,))
        if owned is not None:
            self._owned[group] = owned
            self._groups.setdefault(owned.owner.uid, {})[group] = None
            self.mark((owned.owner.uid,))

    def get(self, group: str) -> Owned | None:
        """What is known of the group."""
        return self._owned.get(group)

    def mark_groups(self, groups: Iterable[str]) -> None:
        """Look at the owners of these groups."""
        self.mark(owned.owner.uid for group in groups if (owned := self._owned.get(group)) is not None)

    def mark_all(self) -> None:
        """Look at all of them."""
        self.mark(self._groups.keys())

    def _keys(self, subject: Subject) -> Iterable[str]:
        return (subject.uid,)

    def _look(self, key: str, moment: Moment) -> list[Write]:
        groups = self._groups.get(key)
        if not groups:
            self._groups.pop(key, None)
            gone = self._subjects.pop(key, None)
            if gone is not None:
                self._ledger.forget(gone)
            return []
        subject = self._subjects.get(key)
        if subject is None:
            subject = self._subjects[key] = Subject(next(iter(groups)), key)
        self._ledger.open(subject)
        found: list[Write] = []
        for group in groups:
            found += self._due(group, self._owned[group], subject, moment)
        self._ledger.close(subject)
        return found

    def _due(self, key: str, owned: Owned, subject: Subject, moment: Moment) -> list[Write]:
        found: list[Write] = []
        state, group = moment.result.groups.get(key), moment.cluster.pod_groups.get(key)
        if state is None or group is None:
            return found
        if group.queue == names.DEFAULT_QUEUE and not owned.choice.field and self._ledger.tell(subject, "queue/"):
            found.append(events.queue_label_missing(owned.owner, self._config.queue_label))
        reason = state.reason
        if reason is not None and reason.code in (reasons.NO_QUEUE, reasons.QUEUE_NOT_LEAF):
            is_label = owned.choice.name == group.queue
            place = (owned.choice.subject, owned.choice.field) if is_label else (f"PodGroup {key}", "spec.queue")
            if self._ledger.tell(subject, f"queue/{group.queue}"):
                found.append(events.queue_unusable(owned.owner, *place, group.queue, reason, key))
            return found
        lasts = reason is not None and reason.code in LASTING and owned.owner.kind != "Pod"
        if lasts and reason and self._ledger.tell(subject, f"reason/{reason.code}"):
            found.append(events.waits(owned.owner, key, reason))
        return found
