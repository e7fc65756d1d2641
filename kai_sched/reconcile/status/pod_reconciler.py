"""Which pending pods get the condition PodScheduled and Events, and when; ``status.pod_conditions`` has the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from kai_sched.reconcile.status.object_reconciler import ObjectReconciler, StatusInput
from kai_sched.reconcile.status.owner_reconciler import OwnerReconciler, is_unlabelled
from kai_sched.reconcile.status.pod_conditions import (
    PodCondition,
    PodVerdict,
    judge,
    unknown_group,
    unknown_sub_group,
    unserved_pool,
)
from kai_sched.reconcile.status.usage import QueueUsage
from kai_sched.reconcile.status.write_throttle import TrackedObject

_FALSE = "False"


@dataclass(slots=True, eq=False)
class TrackedPod(TrackedObject):
    """One pod, and its condition PodScheduled in the API server."""

    condition: PodCondition | None = None


class PodReconciler(ObjectReconciler):
    """Only pods that name our scheduler get conditions and events, while they wait for a node."""

    kind = "Pod"

    def __init__(self, config: Config, owners: OwnerReconciler) -> None:
        super().__init__()
        self.config = config
        self._owners = owners
        self._tracked: dict[str, TrackedPod] = {}
        self.waiting: dict[str, Pod] = {}  # our pods without a node

    def observe(self, key: str, uid: str, condition: PodCondition | None) -> None:
        """The API server shows the pod with this condition."""
        found = self._tracked.get(key)
        if found is None or found.uid != uid:
            if found is not None:
                self._throttle.forget(found)
            found = self._tracked[key] = TrackedPod(key, uid)
        found.condition = condition
        self.mark((key,))

    def forget(self, key: str) -> None:
        """The pod is gone."""
        gone = self._tracked.pop(key, None)
        if gone is not None:
            self._throttle.forget(gone)

    def renew(self, cluster: Cluster) -> None:
        """Start again with all pods of this view."""
        self.waiting.clear()
        self.update(cluster.pods, cluster)

    def update(self, keys: Iterable[str], cluster: Cluster) -> None:
        """These pods have changed."""
        scheduler = self.config.scheduler_name
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
            if key in self._tracked:
                self.mark((key,))

    def reword(self, keys: Iterable[str]) -> None:
        """Only messages about these have changed: reconcile those for which no new wording waits yet."""
        waiting = self._tracked.get
        self.mark(
            key for key in keys if (tracked := waiting(key)) is not None and not tracked.rewords(names.POD_SCHEDULED)
        )

    def _reconcile(self, key: str, inputs: StatusInput) -> list[Write]:
        tracked, pod = self._tracked.get(key), self.waiting.get(key)
        if tracked is None:
            return []
        self._throttle.open(tracked)
        found: list[Write] = []
        if pod is not None and pod.uid == tracked.uid:
            self._due(key, pod, tracked, inputs, found)
        self._throttle.close(tracked)
        return found

    def _due(self, key: str, pod: Pod, tracked: TrackedPod, inputs: StatusInput, found: list[Write]) -> None:
        cluster, usage = inputs.cluster, inputs.usage
        group = cluster.pod_groups.get(pod.group_key) if pod.group else None
        owned = self._owners.get(pod.group_key) if pod.group else None
        unlabelled = is_unlabelled(pod, group, owned) and in_pool(pod.labels, self.config)
        if unlabelled and self._throttle.may_emit(tracked, names.QUEUE_LABEL_MISSING):
            found.append(events.queue_label_missing(_ref(pod), self.config.queue_label))
        if key in inputs.placed or key in usage.binding or pod.gates:
            return
        verdict, marks = self._verdict(pod, key, cluster, inputs.result, usage)
        if verdict is not None:
            self._report(pod, tracked, verdict, marks or verdict.always, found)

    def _verdict(
        self, pod: Pod, key: str, cluster: Cluster, result: CycleResult, usage: QueueUsage
    ) -> tuple[PodVerdict | None, bool]:
        """Return what the condition says, and whether the group of the pod wants the condition."""
        if not pod.group:
            # A pod without a group is a group of its own name, with a mark if a real group has that name.
            own = result.groups.get(bare_pod_group_key(key)) or result.groups.get(key)
            return _of_group(own) if own is not None else self._of_no_shard(pod.labels), True
        group_key = pod.group_key
        group = cluster.pod_groups.get(group_key)
        if group is None:
            return (unknown_group(group_key) if in_pool(pod.labels, self.config) else None), True
        members = usage.groups.get(group_key)
        if members is None:
            return self._of_no_shard(group.labels), True
        sub_group = pod.sub_group or DEFAULT_SET
        if sub_group not in members.sets:
            return unknown_sub_group(sub_group, group_key, members.sets), True
        return _of_group(result.groups.get(group_key)), group.mark_unschedulable

    def _of_no_shard(self, labels: Mapping[str, str]) -> PodVerdict | None:
        """What the condition of a pod says whose node pool no shard of this process has, if it has those of all."""
        if not self.config.node_pools or in_pool(labels, self.config):
            return None
        return unserved_pool(labels.get(self.config.node_pool_label, ""))

    def _report(self, pod: Pod, tracked: TrackedPod, verdict: PodVerdict, marks: bool, found: list[Write]) -> None:
        shown = tracked.condition
        before = None if shown is None else ((shown.status, shown.reason), shown.message)
        decisive = (_FALSE, verdict.reason)
        known = before is not None and before[0] == decisive
        if verdict.event and self._throttle.may_emit(tracked, f"{verdict.event}/{verdict.reason}", known):
            found.append(events.emit(_ref(pod), names.WARNING, verdict.event, verdict.message))
        if marks and self._throttle.due(tracked, names.POD_SCHEDULED, (decisive, verdict.message), before):
            found.append(SetCondition(_ref(pod), names.POD_SCHEDULED, _FALSE, verdict.reason, verdict.message))


def _of_group(state: GroupState | None) -> PodVerdict | None:
    return None if state is None or state.reason is None else judge(state.reason)


def _ref(pod: Pod) -> Ref:
    return Ref("v1", "Pod", pod.namespace, pod.name, pod.uid)
