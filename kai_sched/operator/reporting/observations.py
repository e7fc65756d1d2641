"""The latest status of each object that the informers saw, kept until the status thread takes it.

The status observer and the grouper fill it in the event loop, the status reporter takes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from kai_sched.api import names
from kai_sched.reconcile.status.owner_reconciler import GroupOwner, OwnerIndex
from kai_sched.reconcile.status.pod_conditions import PodCondition
from kai_sched.reconcile.status.reconciler import StatusReconciler


@dataclass(frozen=True, slots=True)
class KubernetesGroup:
    """A PodGroup of Kubernetes itself."""

    uid: str
    status: bytes
    generation: int


# An observation: of a queue or group its uid, status and fault, of a pod its uid and condition, of a group its owner.
# None: the object is gone.
Facts = tuple[str, bytes, str] | tuple[str, PodCondition | None] | KubernetesGroup | GroupOwner | None
Found = dict[tuple[str, str], Facts]

QUEUE, POD_GROUP, POD, OWNER = "Queue", "PodGroup", "Pod", "owner"
KUBERNETES_GROUP = names.KUBERNETES_GROUPS


class Observations:
    """For one event loop. There is at most one observation for each object that is there, and for each one that was
    taken and has gone since: a standby, which takes none, keeps nothing of objects that are gone.

    The methods are those of ``StatusReconciler``.

    Attributes
    ----------
    owners
        The owners of pod groups.
    unschedulable
        The waiting pods of this scheduler whose condition says that another node could help.
    """

    def __init__(self) -> None:
        self._found: Found = {}
        self._taken: set[tuple[str, str]] = set()  # what the reconciler knows: all else need not be forgotten
        self.unschedulable: set[str] = set()
        self.owners = OwnerIndex(self._observe_owner)

    def take(self) -> Found:
        """Return all observations since the last call."""
        found, self._found = self._found, {}
        self._taken.update(found)
        self._taken.difference_update([each for each, facts in found.items() if facts is None])
        return found

    def observe_queue(self, name: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """See StatusReconciler."""
        self._found[QUEUE, name] = (uid, raw_status, fault)

    def observe_pod_group(self, key: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """See StatusReconciler."""
        self._found[POD_GROUP, key] = (uid, raw_status, fault)

    def observe_kubernetes_group(self, key: str, uid: str, raw_status: bytes, generation: int) -> None:
        """See StatusReconciler."""
        self._found[KUBERNETES_GROUP, key] = KubernetesGroup(uid, raw_status, generation)

    def observe_pod(self, key: str, uid: str, condition: PodCondition | None) -> None:
        """See StatusReconciler."""
        waits = condition is not None and (condition.status, condition.reason) == ("False", names.UNSCHEDULABLE)
        (self.unschedulable.add if waits else self.unschedulable.discard)(key)
        self._found[POD, key] = (uid, condition)

    def forget_queue(self, name: str) -> None:
        """See StatusReconciler."""
        self._forget(QUEUE, name)

    def forget_pod_group(self, key: str) -> None:
        """See StatusReconciler."""
        self._forget(POD_GROUP, key)

    def forget_kubernetes_group(self, key: str) -> None:
        """See StatusReconciler."""
        self._forget(KUBERNETES_GROUP, key)

    def forget_pod(self, key: str) -> None:
        """See StatusReconciler."""
        self.unschedulable.discard(key)
        self._forget(POD, key)

    def _observe_owner(self, group: str, owned: GroupOwner | None) -> None:
        if owned is None:
            self._forget(OWNER, group)
        else:
            self._found[OWNER, group] = owned

    def _forget(self, kind: str, key: str) -> None:
        if (kind, key) in self._taken:
            self._found[kind, key] = None
        else:
            self._found.pop((kind, key), None)


def observe_all(found: Found, reconciler: StatusReconciler) -> None:
    """Hand the observations to the reconciler. A status that is no JSON object counts as empty."""
    for (kind, key), facts in found.items():
        try:
            _observe(reconciler, kind, key, facts)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if isinstance(facts, KubernetesGroup):
                _observe(reconciler, kind, key, replace(facts, status=b""))
                continue
            assert isinstance(facts, tuple), "only statuses are decoded"
            _observe(reconciler, kind, key, (facts[0], b"", facts[2] if len(facts) == 3 else ""))


def _observe(reconciler: StatusReconciler, kind: str, key: str, facts: Facts) -> None:
    match kind, facts:
        case "Queue", None:
            reconciler.forget_queue(key)
        case "Queue", (str(uid), bytes(status), str(fault)):
            reconciler.observe_queue(key, uid, status, fault)
        case "PodGroup", None:
            reconciler.forget_pod_group(key)
        case "PodGroup", (str(uid), bytes(status), str(fault)):
            reconciler.observe_pod_group(key, uid, status, fault)
        case names.KUBERNETES_GROUPS, None:
            reconciler.forget_kubernetes_group(key)
        case names.KUBERNETES_GROUPS, KubernetesGroup():
            reconciler.observe_kubernetes_group(key, facts.uid, facts.status, facts.generation)
        case "Pod", None:
            reconciler.forget_pod(key)
        case "Pod", (str(uid), PodCondition() | None as condition):
            reconciler.observe_pod(key, uid, condition)
        case "owner", GroupOwner() | None:
            reconciler.observe_owner(key, facts)
