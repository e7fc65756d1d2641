"""Which queues, groups, pods and owners are reconciled after a cycle: those about which something has changed. It
computes the statuses, annotations, conditions and events that have to be written now.

The status reporter calls it in a thread of its own. ``observe_*`` and ``forget_*`` say what the API server shows; after
a cycle ``writes`` returns what must change. Invariants: nothing is written that the API server shows already, and
nothing is written twice while a write is under way. The cost is that of what has changed since the last call, in the
cluster, in the result or in the API server, and of what is due by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kai_sched.model.config import Config
from kai_sched.model.keys import unmarked
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Change, Cluster
from kai_sched.plan.effects import Evict, Write
from kai_sched.plan.result import CycleResult, GroupState
from kai_sched.reconcile.status.group_reconciler import GroupReconciler
from kai_sched.reconcile.status.kubernetes_group_reconciler import KubernetesGroupReconciler
from kai_sched.reconcile.status.object_reconciler import ReconcileFault, StatusInput
from kai_sched.reconcile.status.owner_reconciler import GroupOwner, OwnerReconciler
from kai_sched.reconcile.status.pod_conditions import PodCondition
from kai_sched.reconcile.status.pod_reconciler import PodReconciler
from kai_sched.reconcile.status.queue_reconciler import QueueReconciler
from kai_sched.reconcile.status.usage import QueueUsage
from kai_sched.reconcile.status.write_throttle import SECOND_NS

MOST_WRITES = 1_000_000


class StatusReconciler:
    """For one thread. On a standby only ``observe_*`` and ``forget_*`` are called.

    ``faults`` are the objects that could not be reconciled; who reports them clears the list.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._queues = QueueReconciler(config)
        self._groups = GroupReconciler(config)
        self._kubernetes = KubernetesGroupReconciler()
        self._owners = OwnerReconciler(config)
        self._pods = PodReconciler(config, self._owners)
        self._reconcilers = (self._queues, self._groups, self._kubernetes, self._pods, self._owners)
        self._cluster: Cluster | None = None  # the last view; None: reconcile everything
        self._result: CycleResult | None = None
        self._usage: QueueUsage | None = None
        self._placed: frozenset[str] = frozenset()
        self._states: Mapping[str, GroupState] = {}
        self.faults: list[ReconcileFault] = []

    def observe_queue(self, name: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """The API server shows the Queue with this ``status`` as JSON (empty: none).

        ``fault`` says what makes its specification unusable, the field first. Raises msgspec.DecodeError for what is
        no JSON object.
        """
        self._queues.observe(name, uid, raw_status, fault)

    def observe_pod_group(self, key: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """As ``observe_queue``, for the PodGroup "namespace/name"."""
        self._groups.observe(key, uid, raw_status, fault)

    def observe_kubernetes_group(self, key: str, uid: str, raw_status: bytes, generation: int) -> None:
        """As ``observe_queue``, for the PodGroup "namespace/name" of Kubernetes itself in this generation."""
        self._kubernetes.observe(key, uid, raw_status, generation)

    def observe_pod(self, key: str, uid: str, condition: PodCondition | None) -> None:
        """The API server shows the pod "namespace/name" with this condition PodScheduled."""
        self._pods.observe(key, uid, condition)

    def observe_owner(self, group: str, owned: GroupOwner | None) -> None:
        """The owner of the group "namespace/name" is this one; None: the group has no pods any more."""
        self._owners.observe(group, owned)
        if self._usage is not None:
            self._pods.mark(self._usage.members.get(group, ()))

    def forget_queue(self, name: str) -> None:
        """The Queue is gone. It need not have been observed."""
        self._queues.forget(name)

    def forget_pod_group(self, key: str) -> None:
        """The PodGroup is gone."""
        self._groups.forget(key)

    def forget_kubernetes_group(self, key: str) -> None:
        """The PodGroup of Kubernetes itself is gone."""
        self._kubernetes.forget(key)

    def forget_pod(self, key: str) -> None:
        """The pod is gone."""
        self._pods.forget(key)

    def follow(self, config: Config) -> None:
        """The settings in force are these now. All but those of amounts, times and node pools never change."""
        if _matters(config) == _matters(self._config):
            return
        self._config = self._queues.config = self._groups.config = self._pods.config = config
        self.mark_all()

    def mark_all(self) -> None:
        """Reconcile everything the next time."""
        self._cluster = self._usage = None

    def writes(
        self, cluster: Cluster, result: CycleResult, now_ns: int, steady_ns: int, most: int = MOST_WRITES
    ) -> tuple[list[Write], float | None]:
        """Return what to write now, and after how many seconds to ask again if no cycle comes before (None: never).

        Parameters
        ----------
        cluster, result
            The view and the decisions of the last cycle.
        now_ns
            The time that people see, in nanoseconds since the epoch.
        steady_ns
            A time in nanoseconds that never jumps.
        most
            How many writes are returned, or a few more; the rest comes the next time.

        What is returned counts as written. A write that gets lost is returned again after half a minute.
        """
        usage = self._mark_changes(cluster, result)
        for reconciler in self._reconcilers:
            reconciler.begin(steady_ns, len(self._pods.waiting))
        queues = {queue.name: queue for queue in result.queues}
        inputs = StatusInput(cluster, result, usage, queues, self._placed, now_ns)
        found: list[Write] = []
        for reconciler in self._reconcilers:
            if len(found) < most:
                found += reconciler.writes(inputs, most - len(found), self.faults)
        if any(reconciler.marked for reconciler in self._reconcilers):
            return found, 0.0
        due = [reconciler.next_ns for reconciler in self._reconcilers if reconciler.next_ns is not None]
        next_ns = min(due, default=None)
        return found, None if next_ns is None else max(0.0, (next_ns - steady_ns) / SECOND_NS)

    def _mark_changes(self, cluster: Cluster, result: CycleResult) -> QueueUsage:
        """Mark every object whose status may have changed since the last time; return the usage as of now."""
        before, usage = self._cluster, self._usage
        changes = None if before is None else cluster.changes_since(before.store_id, before.serial)
        if result is not self._result or changes is None or changes:
            self._queues.mark_all()
        if usage is None or changes is None:
            usage, touched = QueueUsage(cluster, self._config), None
        else:
            touched = usage.update(cluster, changes)
        if touched is None or changes is None:
            self._pods.renew(cluster)
            self._groups.mark_all()
            self._kubernetes.mark_all()
            self._owners.mark_all()
        else:
            self._mark_objects(cluster, usage, changes, touched)
        if result is not self._result:
            self._mark_result(result, usage)
        self._cluster, self._result, self._usage = cluster, result, usage
        return usage

    def _mark_objects(self, cluster: Cluster, usage: QueueUsage, changes: set[Change], touched: Iterable[str]) -> None:
        self._pods.update(sorted(key for kind, key in changes if kind is Pod), cluster)
        touched = list(touched)
        self._groups.mark(touched)
        self._kubernetes.mark_groups(touched)
        groups = sorted(key for kind, key in changes if kind is PodGroup)
        self._owners.mark_groups(groups)
        for key in groups:
            self._pods.mark(usage.members.get(key, ()))

    def _mark_result(self, result: CycleResult, usage: QueueUsage) -> None:
        placed = frozenset(effect.pod for effect in result.effects if not isinstance(effect, Evict))
        self._pods.mark(sorted(placed ^ self._placed))
        before, states = self._states, result.groups
        changed: list[str] = []
        reworded: list[str] = []
        for key, state in states.items():
            other = before.get(key)
            if other is state or other == state:
                continue
            (changed if other is None or _weight(other) != _weight(state) else reworded).append(key)
        changed += [key for key in before if key not in states]
        self._groups.mark(changed)
        self._groups.reword(reworded)
        self._kubernetes.mark_groups((*changed, *reworded))
        self._owners.mark_groups(changed)
        for key in changed:
            self._pods.mark((unmarked(key), *usage.members.get(key, ())))
        for key in reworded:
            self._pods.reword((unmarked(key), *usage.members.get(key, ())))
        self._placed, self._states = placed, states


def _matters(config: Config) -> tuple[object, ...]:
    amounts = config.gpu_memory_reserve_percent, config.gpu_memory_reserve_min_mib
    return *amounts, config.staleness_grace_s, config.node_pools, config.fair_share


def _weight(state: GroupState) -> tuple[object, ...]:
    """The part of the state whose changes are written at once; other changes only reword a message."""
    reason = state.reason
    return state.counts, state.queue, reason and (reason.code, reason.queue, reason.missing)
