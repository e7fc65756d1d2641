"""When the status of a queue is written; ``status.queue_status`` has its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kai_sched.api import names
from kai_sched.api.queue import QueueStatus
from kai_sched.model.config import Config
from kai_sched.model.objects import Queue
from kai_sched.plan import reasons
from kai_sched.plan.effects import PatchStatus, Ref, Write
from kai_sched.reconcile.status.group_reconciler import AMOUNTS_PAUSE_NS
from kai_sched.reconcile.status.merge import merge_patch
from kai_sched.reconcile.status.object_reconciler import ObjectReconciler, ReconcileFault, StatusInput
from kai_sched.reconcile.status.queue_status import queue_findings, queue_statuses
from kai_sched.reconcile.status.shown_objects import Finding, ShownObject, ShownObjects, patch_findings
from kai_sched.reconcile.status.write_throttle import Content

# Fields of the status that are not amounts: conditions are findings, and a change of children is written at once.
_OTHERS = ("conditions", "childQueues")
AMOUNTS = tuple(
    field.alias for field in QueueStatus.model_fields.values() if field.alias and field.alias not in _OTHERS
)
_TYPES = frozenset({names.ORPHAN, names.INVALID})


class QueueReconciler(ObjectReconciler):
    """Usage is summed up the tree, so all queues are reconciled when a pod or a share has changed."""

    kind = "Queue"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self._tracked = ShownObjects()
        self._wanted: dict[str, dict[str, Any]] = {}
        self._orphans: dict[str, Finding] = {}

    def observe(self, name: str, uid: str, raw_status: bytes, fault: str) -> None:
        """The API server shows the queue so. Raises msgspec.DecodeError if the status is no JSON object."""
        before = self._tracked.get(name)
        self._tracked.observe(name, uid, raw_status, fault)
        if before is not None and before is not self._tracked.get(name):
            self._throttle.forget(before)
        self.mark((name,))

    def forget(self, name: str) -> None:
        """The queue is gone."""
        gone = self._tracked.forget(name)
        if gone is not None:
            self._throttle.forget(gone)

    def mark_all(self) -> None:
        """Reconcile all queues."""
        self.mark(self._tracked.keys())

    def writes(self, inputs: StatusInput, most: int, faults: list[ReconcileFault]) -> list[Write]:
        """See ``ObjectReconciler.writes``."""
        if self._marked:
            self._wanted = queue_statuses(inputs.cluster, inputs.result.queues, self.config, inputs.usage)
            self._orphans = queue_findings(inputs.cluster, self.config)
        return super().writes(inputs, most, faults)

    def _reconcile(self, key: str, inputs: StatusInput) -> list[Write]:
        tracked = self._tracked.get(key)
        if tracked is None:
            return []
        self._throttle.open(tracked)
        patch = self._patch(key, tracked, inputs)
        self._throttle.close(tracked)
        return [PatchStatus(Ref(names.QUEUE_VERSION, "Queue", "", key, tracked.uid), patch)] if patch else []

    def _patch(self, name: str, tracked: ShownObject, inputs: StatusInput) -> dict[str, Any]:
        queue = inputs.cluster.queues.get(name)
        known = name in self._wanted and queue is not None and queue.uid == tracked.uid
        if not known and not tracked.fault:
            return {}
        findings = [self._orphans[name]] if known and name in self._orphans else []
        if tracked.fault:
            findings = [(names.INVALID, "SpecNotUsable", tracked.fault)]
        elif (Queue, name) in inputs.result.left_out:
            reason = reasons.left_out(f"Queue {name}", inputs.result.left_out[Queue, name])
            findings = [(names.INVALID, reason.code, reason.message)]
        patch = patch_findings(tracked, _TYPES, findings, self._throttle, inputs.now_ns)
        if known:
            patch |= self._amounts(tracked, self._wanted[name])
        return patch

    def _amounts(self, tracked: ShownObject, wanted: Mapping[str, Any]) -> dict[str, Any]:
        shown = {name: tracked.status[name] for name in ("childQueues", *AMOUNTS) if tracked.status.get(name)}
        if not self._throttle.due(tracked, "amounts", _content(wanted), _content(shown), AMOUNTS_PAUSE_NS):
            return {}
        return merge_patch(shown, wanted)


def _content(status: Mapping[str, Any]) -> Content:
    return status.get("childQueues"), {name: status.get(name) for name in AMOUNTS}
