"""Which statuses and conditions of objects are taken from events for the status reporter; settings go to
``live_settings``.

It is the observer of the event sink. Statuses go to ``reporting.observations``, settings to ``live_settings``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from kai_sched.api import core, names
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import KUBERNETES_GROUP, OPERATOR_CONFIG, POD, POD_GROUP, QUEUE, SHARD, Kind
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.reconcile.status.pod_conditions import PodCondition

Part = TypeVar("Part")


class _Identity(core.Wire):
    uid: str | None = None
    generation: int | None = None


class _Object(core.Wire):
    metadata: _Identity | None = None
    status: msgspec.Raw = core.ABSENT


class _Condition(core.Wire):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class _PodSpec(core.Wire):
    scheduler_name: str | None = None


class _PodStatus(core.Wire):
    conditions: list[_Condition] | None = None


class _Pod(core.Wire):
    metadata: _Identity | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode


# Called with the key of a PodGroup of Kubernetes and its raw JSON, None for one that is gone.
GroupShown = Callable[[str, bytes | None], None]


class StatusSink(Protocol):
    """Takes observations; the methods are those of ``StatusReconciler``."""

    def observe_queue(self, name: str, uid: str, raw_status: bytes, fault: str = "") -> None: ...
    def observe_pod_group(self, key: str, uid: str, raw_status: bytes, fault: str = "") -> None: ...
    def observe_kubernetes_group(self, key: str, uid: str, raw_status: bytes, generation: int) -> None: ...
    def observe_pod(self, key: str, uid: str, condition: PodCondition | None) -> None: ...
    def forget_queue(self, name: str) -> None: ...
    def forget_pod_group(self, key: str) -> None: ...
    def forget_kubernetes_group(self, key: str) -> None: ...
    def forget_pod(self, key: str) -> None: ...


class StatusObserver:
    """An observer of the event sink. Pods of other schedulers and pods with a node need no status, and are forgotten.

    So are objects whose identity or status cannot be decoded. PodGroups of Kubernetes go to ``group_shown`` as well.
    """

    def __init__(self, config: Config, settings: LiveSettings, group_shown: GroupShown, sink: StatusSink) -> None:
        self._scheduler = config.scheduler_name
        self._settings = settings
        self._group_shown = group_shown
        self._sink = sink

    def __call__(self, kind: Kind, key: str, raw: bytes | None, fault: str) -> None:
        """See ``event_sink.Observer``."""
        if kind == POD:
            self._pod(key, raw)
        elif kind in (SHARD, OPERATOR_CONFIG):
            self._settings.observe(kind, key, None if raw is None else bytes(raw))
        elif kind == QUEUE:
            shown = _status(raw)
            if shown is None:
                self._sink.forget_queue(key)
            else:
                self._sink.observe_queue(key, *shown, fault)
        elif kind == POD_GROUP:
            shown = _status(raw)
            if shown is None:
                self._sink.forget_pod_group(key)
            else:
                self._sink.observe_pod_group(key, *shown, fault)
        elif kind == KUBERNETES_GROUP:
            self._kubernetes_group(key, raw)

    def _kubernetes_group(self, key: str, raw: bytes | None) -> None:
        found = _read(_decode_object, raw)
        if found is None or found.metadata is None:
            self._sink.forget_kubernetes_group(key)
        else:
            uid, generation = found.metadata.uid or "", found.metadata.generation or 0
            self._sink.observe_kubernetes_group(key, uid, bytes(found.status), generation)
        self._group_shown(key, raw)

    def _pod(self, key: str, raw: bytes | None) -> None:
        pod = _read(_decode_pod, raw)
        if pod is None or pod.spec is None or pod.spec.scheduler_name != self._scheduler:
            self._sink.forget_pod(key)
            return
        shown = None
        for condition in (pod.status.conditions if pod.status else None) or ():
            if condition.type == names.POD_SCHEDULED:
                shown = PodCondition(condition.status or "", condition.reason or "", condition.message or "")
        self._sink.observe_pod(key, (pod.metadata and pod.metadata.uid) or "", shown)


def _status(raw: bytes | None) -> tuple[str, bytes] | None:
    """Return the uid and the status; None for an object that is gone or cannot be decoded."""
    found = _read(_decode_object, raw)
    if found is None:
        return None
    return (found.metadata and found.metadata.uid) or "", bytes(found.status)


def _read(decode: Callable[[bytes], Part], raw: bytes | None) -> Part | None:
    try:
        return None if raw is None else decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
