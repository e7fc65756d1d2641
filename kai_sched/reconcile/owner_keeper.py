"""Owners of pods: what their people are told of the queue that they name, or do not name."""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Cluster
from kai_sched.plan import reasons
from kai_sched.plan.effects import Emit, Ref
from kai_sched.plan.result import CycleResult
from kai_sched.reconcile import events
from kai_sched.reconcile.grouping.manifest import QueueChoice
from kai_sched.reconcile.ledger import Ledger, Subject


@dataclass(frozen=True, slots=True)
class Owned:
    """A pod group of an owner, and what names its queue."""

    owner: Ref
    choice: QueueChoice


class OwnerKeeper:
    """Knows the owners of pod groups by the groups' keys."""

    def __init__(self, config: Config, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        self._owned: dict[str, Owned] = {}
        self._subjects: dict[str, Subject] = {}  # by the owner's uid

    def observe(self, group: str, owner: Ref, choice: QueueChoice) -> None:
        """The group "namespace/name" belongs to the owner."""
        self._owned[group] = Owned(owner, choice)

    def forget(self, group: str) -> None:
        """The group has no pods any more."""
        self._owned.pop(group, None)

    def owner_of(self, group: str) -> Ref | None:
        """Whose the group is."""
        owned = self._owned.get(group)
        return None if owned is None else owned.owner

    def is_unlabelled(self, pod: Pod, group: PodGroup | None) -> bool:
        """Whether the pod is in the default queue because nobody named one."""
        if not pod.group:
            return not pod.queue
        if group is None or group.queue != names.DEFAULT_QUEUE:
            return False
        owned = self._owned.get(group.key)
        return owned is not None and not owned.choice.field

    def writes(self, cluster: Cluster, result: CycleResult) -> list[Emit]:
        """What is due now."""
        there = {owned.owner.uid for owned in self._owned.values()}
        self._subjects = {uid: subject for uid, subject in self._subjects.items() if uid in there}
        found: list[Emit] = []
        for key, owned in self._owned.items():
            state, group = result.groups.get(key), cluster.pod_groups.get(key)
            if state is None or group is None:
                continue
            if group.queue == names.DEFAULT_QUEUE and not owned.choice.field and self._tell(owned, key, ""):
                found.append(events.queue_label_missing(owned.owner, self._config.queue_label))
            reason = state.reason
            if reason is not None and reason.code in (reasons.NO_QUEUE, reasons.QUEUE_NOT_LEAF):
                is_label = owned.choice.name == group.queue
                place = (owned.choice.subject, owned.choice.field) if is_label else (f"PodGroup {key}", "spec.queue")
                if self._tell(owned, key, group.queue):
                    found.append(events.queue_unusable(owned.owner, *place, group.queue, reason))
        return found

    def _tell(self, owned: Owned, key: str, queue: str) -> bool:
        subject = self._subjects.setdefault(owned.owner.uid, Subject(key, owned.owner.uid))
        return self._ledger.tell(subject, f"queue/{queue}")
