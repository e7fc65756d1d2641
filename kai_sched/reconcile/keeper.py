"""Keeps what people see up to date: which statuses, annotations, conditions and events are to be written now.

The feed tells what the API server shows (``observe_*``, ``forget_*``); after a cycle ``writes`` says what must change.
Nothing is written that is there already, and nothing twice while a write is on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import PatchStatus, Ref, Write
from kai_sched.plan.result import CycleResult
from kai_sched.reconcile.group_keeper import AMOUNTS_PAUSE_NS, GroupKeeper
from kai_sched.reconcile.ledger import SECOND_NS, Content, Ledger
from kai_sched.reconcile.merge import merge_patch
from kai_sched.reconcile.owner_keeper import OwnerKeeper
from kai_sched.reconcile.pod_conditions import PodCondition
from kai_sched.reconcile.pod_keeper import PodKeeper
from kai_sched.reconcile.queue_status import queue_findings, queue_statuses
from kai_sched.reconcile.subjects import Shown, Subjects, patch_findings
from kai_sched.reconcile.tally import Tally

AMOUNTS = ("allocated", "allocatedNonPreemptible", "requested", "fairShare")
_TYPES = frozenset({names.ORPHAN, names.INVALID})


class StatusKeeper:
    """One for each scheduler that is the leader; a standby only tells it what is there. For one thread.

    ``owners`` is told of owners and their groups.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._ledger = Ledger()
        self._queues = Subjects()
        self._groups = GroupKeeper(config, self._ledger)
        self.owners = OwnerKeeper(config, self._ledger)
        self._pods = PodKeeper(config, self._ledger, self.owners)

    def observe_queue(self, name: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """The Queue is there, with this ``status`` as JSON (empty: none).

        ``fault`` says what makes its specification unusable, the field first. Raises msgspec.DecodeError for what is
        no JSON object.
        """
        self._queues.observe(name, uid, raw_status, fault)

    def observe_pod_group(self, key: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """As ``observe_queue``, for the PodGroup "namespace/name"."""
        self._groups.subjects.observe(key, uid, raw_status, fault)

    def observe_pod(self, key: str, uid: str, condition: PodCondition | None) -> None:
        """The pod "namespace/name" is there, with this condition PodScheduled."""
        self._pods.observe(key, uid, condition)

    def forget_queue(self, name: str) -> None:
        """The Queue is gone; one that was never there is no error."""
        self._queues.forget(name)

    def forget_pod_group(self, key: str) -> None:
        """The PodGroup is gone."""
        self._groups.subjects.forget(key)

    def forget_pod(self, key: str) -> None:
        """The pod is gone."""
        self._pods.forget(key)

    def writes(
        self, cluster: Cluster, result: CycleResult, now_ns: int, steady_ns: int
    ) -> tuple[list[Write], float | None]:
        """What to write now, and in how many seconds to ask again at the latest if no cycle comes before (None: never).

        ``cluster`` and ``result`` are those of the last cycle. ``now_ns`` is the time that people see, in nanoseconds
        since the epoch, ``steady_ns`` one that never jumps. What is returned counts as written; what of it got lost is
        returned again after half a minute.
        """
        tally = Tally(cluster, self._config)
        waiting = self._pods.waiting(cluster)
        self._ledger.begin(steady_ns, len(waiting))
        found: list[Write] = []
        found += self._queue_writes(cluster, result, tally, now_ns)
        found += self._groups.writes(cluster, result, tally, now_ns)
        found += self._pods.writes(waiting, cluster, result, tally)
        found += self.owners.writes(cluster, result)
        next_ns = self._ledger.next_ns
        return found, None if next_ns is None else max(0.0, (next_ns - steady_ns) / SECOND_NS)

    def _queue_writes(self, cluster: Cluster, result: CycleResult, tally: Tally, now_ns: int) -> list[Write]:
        found: list[Write] = []
        wanted = queue_statuses(cluster, result.queues, self._config, tally)
        orphans = queue_findings(cluster, self._config)
        for name, subject in self._queues.items():
            queue = cluster.queues.get(name)
            known = name in wanted and queue is not None and queue.uid == subject.uid
            if not known and not subject.fault:
                continue
            findings = [orphans[name]] if known and name in orphans else []
            if subject.fault:
                findings = [(names.INVALID, "SpecNotUsable", subject.fault)]
            patch = patch_findings(subject, _TYPES, findings, self._ledger, now_ns)
            if known:
                patch |= self._amounts(subject, wanted[name])
            if patch:
                found.append(PatchStatus(Ref(names.QUEUE_VERSION, "Queue", "", name, subject.uid), patch))
        return found

    def _amounts(self, subject: Shown, wanted: Mapping[str, Any]) -> dict[str, Any]:
        shown = {name: subject.status[name] for name in ("childQueues", *AMOUNTS) if subject.status.get(name)}
        if not self._ledger.due(subject, "amounts", _content(wanted), _content(shown), AMOUNTS_PAUSE_NS):
            return {}
        return merge_patch(shown, wanted)


def _content(status: Mapping[str, Any]) -> Content:
    return status.get("childQueues"), {name: status.get(name) for name in AMOUNTS}
