"""Queues: their status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.objects import Queue
from kai_sched.plan import reasons
from kai_sched.plan.effects import PatchStatus, Ref, Write
from kai_sched.reconcile.group_keeper import AMOUNTS_PAUSE_NS
from kai_sched.reconcile.kept import Fault, Kept, Moment
from kai_sched.reconcile.ledger import Content
from kai_sched.reconcile.merge import merge_patch
from kai_sched.reconcile.queue_status import queue_findings, queue_statuses
from kai_sched.reconcile.subjects import Finding, Shown, Subjects, patch_findings

AMOUNTS = ("allocated", "allocatedNonPreemptible", "requested", "fairShare")
_TYPES = frozenset({names.ORPHAN, names.INVALID})


class QueueKeeper(Kept):
    """Every level of the tree is summed up, so that all queues are looked at when a pod or a share has changed."""

    kind = "Queue"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self._subjects = Subjects()
        self._wanted: dict[str, dict[str, Any]] = {}
        self._orphans: dict[str, Finding] = {}

    def observe(self, name: str, uid: str, raw_status: bytes, fault: str) -> None:
        """The queue is there so. Raises msgspec.DecodeError for a status that is no JSON object."""
        before = self._subjects.get(name)
        self._subjects.observe(name, uid, raw_status, fault)
        if before is not None and before is not self._subjects.get(name):
            self._ledger.forget(before)
        self.mark((name,))

    def forget(self, name: str) -> None:
        """The queue is gone."""
        gone = self._subjects.forget(name)
        if gone is not None:
            self._ledger.forget(gone)

    def mark_all(self) -> None:
        """Look at all of them."""
        self.mark(self._subjects.keys())

    def writes(self, moment: Moment, most: int, faults: list[Fault]) -> list[Write]:
        """See ``Kept.writes``."""
        if self._marked:
            self._wanted = queue_statuses(moment.cluster, moment.result.queues, self._config, moment.tally)
            self._orphans = queue_findings(moment.cluster, self._config)
        return super().writes(moment, most, faults)

    def _look(self, key: str, moment: Moment) -> list[Write]:
        subject = self._subjects.get(key)
        if subject is None:
            return []
        self._ledger.open(subject)
        patch = self._patch(key, subject, moment)
        self._ledger.close(subject)
        return [PatchStatus(Ref(names.QUEUE_VERSION, "Queue", "", key, subject.uid), patch)] if patch else []

    def _patch(self, name: str, subject: Shown, moment: Moment) -> dict[str, Any]:
        queue = moment.cluster.queues.get(name)
        known = name in self._wanted and queue is not None and queue.uid == subject.uid
        if not known and not subject.fault:
            return {}
        findings = [self._orphans[name]] if known and name in self._orphans else []
        if subject.fault:
            findings = [(names.INVALID, "SpecNotUsable", subject.fault)]
        elif (Queue, name) in moment.result.left_out:
            reason = reasons.left_out(f"Queue {name}", moment.result.left_out[Queue, name])
            findings = [(names.INVALID, reason.code, reason.message)]
        patch = patch_findings(subject, _TYPES, findings, self._ledger, moment.now_ns)
        if known:
            patch |= self._amounts(subject, self._wanted[name])
        return patch

    def _amounts(self, subject: Shown, wanted: Mapping[str, Any]) -> dict[str, Any]:
        shown = {name: subject.status[name] for name in ("childQueues", *AMOUNTS) if subject.status.get(name)}
        if not self._ledger.due(subject, "amounts", _content(wanted), _content(shown), AMOUNTS_PAUSE_NS):
            return {}
        return merge_patch(shown, wanted)


def _content(status: Mapping[str, Any]) -> Content:
    return status.get("childQueues"), {name: status.get(name) for name in AMOUNTS}
