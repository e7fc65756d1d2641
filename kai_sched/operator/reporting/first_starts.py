"""When a pod group runs for the first time, and how long it has waited for that since it was created.

A group has started once its minimum is bound. What ran before this process did is known by the annotation of its last
start and by pods that hold nodes, so that a new leader counts no group again. A start during which the leader changes
is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kai_sched.model.checks import DEFAULT_SET, short_of
from kai_sched.model.objects import PodGroup
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult, GroupState

# The states of pods that hold no node yet, or that a cycle has just given one.
_NEW = frozenset({"Pending", "Gated", "Pipelined", "Binding"})


@dataclass(slots=True)
class _Starting:
    """A group whose minimum is not bound yet: the sub-group of each pod under way, and of those that are bound."""

    group: PodGroup
    pods: dict[str, str] = field(default_factory=dict)
    bound: Counter[str] = field(default_factory=Counter)


class FirstStarts:
    """For one thread. ``report`` gets the queue of each group that has started, and the seconds that it waited.

    Groups are told apart by key and uid; those that we make are shown without a uid until the API server has them.
    """

    def __init__(self, report: Callable[[str, float], None]) -> None:
        self._report = report
        self._starting: dict[str, _Starting] = {}  # by key of the group
        self._group_of: dict[str, str] = {}  # the key of the group, by uid of a pod under way
        # When pods of no such group were bound, by uid. A cycle of several shards is told when the last one has
        # decided: what the first one binds may be done by then.
        self._early: dict[str, int] = {}
        self._started: dict[str, str] = {}  # uid by key of groups whose annotation does not say yet that they started

    def decided(self, cluster: Cluster, result: CycleResult) -> None:
        """A cycle has decided; its binds are about to be sent, or have been."""
        for bind in result.effects:
            if not isinstance(bind, Bind):
                continue
            pod = cluster.pods[bind.pod]
            group = cluster.pod_groups.get(pod.group_key) if pod.group else None
            if group is None or (group.key in self._started and _is_one(self._started[group.key], group.uid)):
                continue
            starting = self._starting.get(group.key)
            if starting is not None and not _is_one(starting.group.uid, group.uid):
                self._drop(group.key)
                starting = None
            if starting is None:
                if group.last_start_ns or _ran(result.groups.get(group.key)):
                    continue
                starting = self._starting[group.key] = _Starting(group)
            starting.group = group
            starting.pods[bind.uid] = pod.sub_group or DEFAULT_SET
            self._group_of[bind.uid] = group.key
        early, self._early = self._early, {}
        for pod_uid, done_ns in early.items():
            if pod_uid in self._group_of:
                self.bound(pod_uid, done_ns)

    def bound(self, pod_uid: str, done_ns: int) -> None:
        """The API server has accepted the bind of this pod."""
        key = self._group_of.pop(pod_uid, "")
        starting = self._starting.get(key)
        if starting is None:
            self._early[pod_uid] = done_ns
            return
        starting.bound[starting.pods.pop(pod_uid)] += 1
        group = starting.group
        if short_of(group, starting.bound) is None:
            self._drop(key)
            self._started[key] = group.uid
            self._report(group.queue, (done_ns - group.created_ns) / 1e9)

    def forget(self, cluster: Cluster) -> None:
        """Drop groups that are gone, and those whose annotation says that they have started; learn the others' uids."""
        for key, starting in list(self._starting.items()):
            if _of(cluster, key, starting.group.uid) is None:
                self._drop(key)
        for key, uid in list(self._started.items()):
            group = _of(cluster, key, uid)
            if group is None or group.last_start_ns:
                del self._started[key]
            else:
                self._started[key] = group.uid

    def _drop(self, key: str) -> None:
        for pod_uid in self._starting.pop(key).pods:
            self._group_of.pop(pod_uid, None)


def _ran(state: GroupState | None) -> bool:
    """Whether pods of the group held nodes before this cycle."""
    return state is not None and not state.counts.keys() <= _NEW


def _of(cluster: Cluster, key: str, uid: str) -> PodGroup | None:
    """The group, unless another one has its name by now."""
    group = cluster.pod_groups.get(key)
    return group if group is not None and _is_one(group.uid, uid) else None


def _is_one(uid: str, other: str) -> bool:
    """Whether two groups of one key are the same, as far as is known."""
    return not uid or not other or uid == other
