"""Pending pods: their condition PodScheduled and their events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kai_sched.api import names
from kai_sched.model.checks import DEFAULT_SET
from kai_sched.model.config import Config, in_pool
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.objects import Phase, Pod
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Ref, SetCondition, Write
from kai_sched.plan.result import CycleResult, GroupState
from kai_sched.reconcile import events
from kai_sched.reconcile.kept import Kept, Moment
from kai_sched.reconcile.ledger import Subject
from kai_sched.reconcile.owner_keeper import OwnerKeeper, is_unlabelled
from kai_sched.reconcile.pod_conditions import (
    PodCondition,
    Verdict,
    judge,
    unknown_group,
    unknown_sub_group,
)
from kai_sched.reconcile.tally import Tally

_FALSE = "False"


@dataclass(slots=True, eq=False)
class PodSubject(Subject):
    """One pod, and its condition PodScheduled in the API server."""

    condition: PodCondition | None = None


class PodKeeper(Kept):
    """Only pods that name our scheduler are told anything, while they wait for a node."""

    kind = "Pod"

    def __init__(self, config: Config, owners: OwnerKeeper) -> None:
        super().__init__()
        self._config = config
        self._owners = owners
        self._subjects: dict[str, PodSubject] = {}
        self.waiting: dict[str, Pod] = {}  # our pods without a node

    def observe(self, key: str, uid: str, condition: PodCondition | None) -> None:
        """The pod is there, with this condition."""
        found = self._subjects.get(key)
        if found is None or found.uid != uid:
            if found is not None:
                self._ledger.forget(found)
            found = self._subjects[key] = PodSubject(key, uid)
        found.condition = condition
        self.mark((key,))

    def forget(self, key: str) -> None:
        """The pod is gone."""
        gone = self._subjects.pop(key, None)
        if gone is not None:
            self._ledger.forget(gone)

    def renew(self, cluster: Cluster) -> None:
        """Begin anew with all pods of this view."""
        self.waiting.clear()
        self.update(cluster.pods, cluster)

    def update(self, keys: Iterable[str], cluster: Cluster) -> None:
        """These pods have changed."""
        scheduler = self._config.scheduler_name
        for key in keys:
            pod = cluster.pods.get(key)
            self.waiting.pop(key, None)
            if (
                pod is not None
                and not pod.node
                and pod.phase == Phase.PENDING
                and pod.scheduler == scheduler
                and not pod.deleted_ns
            ):
                self.waiting[key] = pod
            if key in self._subjects:
                self.mark((key,))

    def reword(self, keys: Iterable[str]) -> None:
        """Only the wording of what is told of these has changed: that can wait where it waits already."""
        waiting = self._subjects.get
        self.mark(
            key for key in keys if (subject := waiting(key)) is not None and not subject.rewords(names.POD_SCHEDULED)
        )

    def _look(self, key: str, moment: Moment) -> list[Write]:
        subject, pod = self._subjects.get(key), self.waiting.get(key)
        if subject is None:
            return []
        self._ledger.open(subject)
        found: list[Write] = []
        if pod is not None and pod.uid == subject.uid:
            self._due(key, pod, subject, moment, found)
        self._ledger.close(subject)
        return found

    def _due(self, key: str, pod: Pod, subject: PodSubject, moment: Moment, found: list[Write]) -> None:
        cluster, tally = moment.cluster, moment.tally
        group = cluster.pod_groups.get(pod.group_key) if pod.group else None
        owned = self._owners.get(pod.group_key) if pod.group else None
        unlabelled = is_unlabelled(pod, group, owned) and in_pool(pod.labels, self._config)
        if unlabelled and self._ledger.tell(subject, names.QUEUE_LABEL_MISSING):
            found.append(events.queue_label_missing(_ref(pod), self._config.queue_label))
        if key in moment.placed or key in tally.binding or pod.gates:
            return
        verdict, marks = self._verdict(pod, key, cluster, moment.result, tally)
        if verdict is not None:
            self._tell(pod, subject, verdict, marks or verdict.always, found)

    def _verdict(
        self, pod: Pod, key: str, cluster: Cluster, result: CycleResult, tally: Tally
    ) -> tuple[Verdict | None, bool]:
        """What the pod is told, and whether its group wants the condition."""
        if not pod.group:
            # A pod without a group is a group of its own name, marked where a real one has that name.
            own = result.groups.get(bare_pod_group_key(key)) or result.groups.get(key)
            return _of_group(own), True
        group_key = pod.group_key
        group = cluster.pod_groups.get(group_key)
        if group is None:
            return (unknown_group(group_key) if in_pool(pod.labels, self._config) else None), True
        members = tally.groups.get(group_key)
        if members is None:
            return None, True
        sub_group = pod.sub_group or DEFAULT_SET
        if sub_group not in members.sets:
            return unknown_sub_group(sub_group, group_key, members.sets), True
        return _of_group(result.groups.get(group_key)), group.mark_unschedulable

    def _tell(self, pod: Pod, subject: PodSubject, verdict: Verdict, marks: bool, found: list[Write]) -> None:
        shown = subject.condition
        before = None if shown is None else ((shown.status, shown.reason), shown.message)
        decisive = (_FALSE, verdict.reason)
        known = before is not None and before[0] == decisive
        if verdict.event and self._ledger.tell(subject, f"{verdict.event}/{verdict.reason}", known):
            found.append(events.emit(_ref(pod), names.WARNING, verdict.event, verdict.message))
        if marks and self._ledger.due(subject, names.POD_SCHEDULED, (decisive, verdict.message), before):
            found.append(SetCondition(_ref(pod), names.POD_SCHEDULED, _FALSE, verdict.reason, verdict.message))


def _of_group(state: GroupState | None) -> Verdict | None:
    return None if state is None or state.reason is None else judge(state.reason)


def _ref(pod: Pod) -> Ref:
    return Ref("v1", "Pod", pod.namespace, pod.name, pod.uid)
