"""Keeps what people see up to date: which statuses, annotations, conditions and events are to be written now.

The feed tells what the API server shows (``observe_*``, ``forget_*``); after a cycle ``writes`` says what must change.
Nothing is written that is there already, and nothing twice while a write is on its way. What costs is what has changed
since the last time, in the cluster, in the result or in the API server, and what is due: the rest is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kai_sched.model.config import Config
from kai_sched.model.keys import unmarked
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Change, Cluster
from kai_sched.plan.effects import Evict, Write
from kai_sched.plan.result import CycleResult, GroupState
from kai_sched.reconcile.group_keeper import GroupKeeper
from kai_sched.reconcile.kept import Fault, Moment
from kai_sched.reconcile.ledger import SECOND_NS
from kai_sched.reconcile.owner_keeper import Owned, OwnerKeeper
from kai_sched.reconcile.pod_conditions import PodCondition
from kai_sched.reconcile.pod_keeper import PodKeeper
from kai_sched.reconcile.queue_keeper import QueueKeeper
from kai_sched.reconcile.tally import Tally

MOST_WRITES = 1_000_000


class StatusKeeper:
    """One for each scheduler that is the leader; a standby only tells it what is there. For one thread.

    ``faults`` are the objects that could not be looked at; whoever tells of them clears the list.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._queues = QueueKeeper(config)
        self._groups = GroupKeeper(config)
        self._owners = OwnerKeeper(config)
        self._pods = PodKeeper(config, self._owners)
        self._kept = (self._queues, self._groups, self._pods, self._owners)
        self._cluster: Cluster | None = None  # what was looked at last; None: everything is to be looked at
        self._result: CycleResult | None = None
        self._tally: Tally | None = None
        self._placed: frozenset[str] = frozenset()
        self._states: Mapping[str, GroupState] = {}
        self.faults: list[Fault] = []

    def observe_queue(self, name: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """The Queue is there, with this ``status`` as JSON (empty: none).

        ``fault`` says what makes its specification unusable, the field first. Raises msgspec.DecodeError for what is
        no JSON object.
        """
        self._queues.observe(name, uid, raw_status, fault)

    def observe_pod_group(self, key: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """As ``observe_queue``, for the PodGroup "namespace/name"."""
        self._groups.observe(key, uid, raw_status, fault)

    def observe_pod(self, key: str, uid: str, condition: PodCondition | None) -> None:
        """The pod "namespace/name" is there, with this condition PodScheduled."""
        self._pods.observe(key, uid, condition)

    def observe_owner(self, group: str, owned: Owned | None) -> None:
        """What is known of the owner of the group "namespace/name"; None where the group has no pods any more."""
        self._owners.observe(group, owned)
        if self._tally is not None:
            self._pods.mark(self._tally.members.get(group, ()))

    def forget_queue(self, name: str) -> None:
        """The Queue is gone; one that was never there is no error."""
        self._queues.forget(name)

    def forget_pod_group(self, key: str) -> None:
        """The PodGroup is gone."""
        self._groups.forget(key)

    def forget_pod(self, key: str) -> None:
        """The pod is gone."""
        self._pods.forget(key)

    def look_at_all(self) -> None:
        """Take nothing for unchanged the next time."""
        self._cluster = self._tally = None

    def writes(
        self, cluster: Cluster, result: CycleResult, now_ns: int, steady_ns: int, most: int = MOST_WRITES
    ) -> tuple[list[Write], float | None]:
        """What to write now, and in how many seconds to ask again at the latest if no cycle comes before (None: never).

        ``cluster`` and ``result`` are those of the last cycle. ``now_ns`` is the time that people see, in nanoseconds
        since the epoch, ``steady_ns`` one that never jumps. What is returned counts as written; what of it got lost is
        returned again after half a minute. There may be a little more than ``most``; the rest comes the next time.
        """
        tally = self._mark_changes(cluster, result)
        for kept in self._kept:
            kept.begin(steady_ns, len(self._pods.waiting))
        queues = {queue.name: queue for queue in result.queues}
        moment = Moment(cluster, result, tally, queues, self._placed, now_ns)
        found: list[Write] = []
        for kept in self._kept:
            if len(found) < most:
                found += kept.writes(moment, most - len(found), self.faults)
        if any(kept.marked for kept in self._kept):
            return found, 0.0
        next_ns = min((kept.next_ns for kept in self._kept if kept.next_ns is not None), default=None)
        return found, None if next_ns is None else max(0.0, (next_ns - steady_ns) / SECOND_NS)

    def _mark_changes(self, cluster: Cluster, result: CycleResult) -> Tally:
        """Have looked at whatever may be told otherwise than the last time; what the pods add up to now."""
        before, tally = self._cluster, self._tally
        changes = None if before is None else cluster.changes_since(before.store_id, before.serial)
        if result is not self._result or changes is None or changes:
            self._queues.mark_all()
        if tally is None or changes is None:
            tally, touched = Tally(cluster, self._config), None
        else:
            touched = tally.update(cluster, changes)
        if touched is None or changes is None:
            self._pods.renew(cluster)
            self._groups.mark_all()
            self._owners.mark_all()
        else:
            self._mark_objects(cluster, tally, changes, touched)
        if result is not self._result:
            self._mark_result(result, tally)
        self._cluster, self._result, self._tally = cluster, result, tally
        return tally

    def _mark_objects(self, cluster: Cluster, tally: Tally, changes: set[Change], touched: Iterable[str]) -> None:
        self._pods.update(sorted(key for kind, key in changes if kind is Pod), cluster)
        self._groups.mark(touched)
        groups = sorted(key for kind, key in changes if kind is PodGroup)
        self._owners.mark_groups(groups)
        for key in groups:
            self._pods.mark(tally.members.get(key, ()))

    def _mark_result(self, result: CycleResult, tally: Tally) -> None:
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
        self._owners.mark_groups(changed)
        for key in changed:
            self._pods.mark((unmarked(key), *tally.members.get(key, ())))
        for key in reworded:
            self._pods.reword((unmarked(key), *tally.members.get(key, ())))
        self._placed, self._states = placed, states


def _weight(state: GroupState) -> tuple[object, ...]:
    """All of the state that is told at once when it changes."""
    reason = state.reason
    return state.counts, state.queue, reason and (reason.code, reason.queue, reason.missing)
