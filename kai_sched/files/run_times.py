"""How long workloads run at most: ``activeDeadlineSeconds`` of Jobs and RayJobs, and Kueue's label for any kind.

A deadline that cannot be read bounds nothing: the API server would refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from kai_sched.api import core
from kai_sched.files.controllers.kinds import WORKLOADS
from kai_sched.files.items import Item
from kai_sched.model.field_errors import FieldError
from kai_sched.model.read.meta import DEFAULT_NAMESPACE, time_ns

MAX_EXEC_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
# Their deadline is that of all their pods together, and counts from status.startTime.
WITH_DEADLINE = frozenset({"Job", "RayJob"})
SECONDS_MAX = 10 * 365 * 86_400


class WorkloadName(NamedTuple):
    """Which workload: as in ``answers.workloads.Workload``."""

    kind: str
    namespace: str
    name: str


class Deadline(NamedTuple):
    """How many seconds a workload may run, and since when it has (nanoseconds since the epoch; 0: not said)."""

    seconds: float
    started_ns: int


class _BoundedSpec(core.Wire):
    active_deadline_seconds: Any = None


class _BoundedStatus(core.Wire):
    start_time: Any = None


class _BoundedWorkload(core.Wire):
    metadata: core.Meta | None = None
    spec: _BoundedSpec | None = None
    status: _BoundedStatus | None = None


_decode = msgspec.json.Decoder(_BoundedWorkload).decode


def deadlines(items: Sequence[Item]) -> dict[WorkloadName, Deadline]:
    """The deadlines of the workloads among these objects; of several the shortest."""
    found = {}
    for item in items:
        if item.kind not in WORKLOADS:
            continue
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            workload = _decode(item.raw)
            meta = workload.metadata or core.Meta()
            seconds = [each for each in _bounds(item.kind[1], workload, meta) if 0 < each <= SECONDS_MAX]
            if seconds and meta.name:
                name = WorkloadName(item.kind[1], meta.namespace or DEFAULT_NAMESPACE, meta.name)
                found[name] = Deadline(min(seconds), _started_ns(workload.status))
    return found


def bounded(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """What of a workload says how long it runs; None for one without a deadline, or that is over or suspended."""
    meta, spec, status = (_mapping(manifest.get(name)) for name in ("metadata", "spec", "status"))
    seconds = spec.get("activeDeadlineSeconds")
    label = _mapping(meta.get("labels")).get(MAX_EXEC_LABEL)
    is_over = any(status.get(name) for name in ("completionTime", "endTime")) or spec.get("suspend") is True
    if is_over or not (_is_whole(seconds) or _is_whole(label)):
        return None
    names = {name: meta[name] for name in ("name", "namespace", "uid", "creationTimestamp") if name in meta}
    labels = {"labels": {MAX_EXEC_LABEL: label}} if label is not None else {}
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": names | labels,
        "spec": {"activeDeadlineSeconds": seconds} if seconds is not None else {},
        "status": {"startTime": status["startTime"]} if "startTime" in status else {},
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _bounds(kind: str, workload: _BoundedWorkload, meta: core.Meta) -> list[float]:
    found: list[Any] = [(meta.labels or {}).get(MAX_EXEC_LABEL)]
    if kind in WITH_DEADLINE and workload.spec is not None:
        found.append(workload.spec.active_deadline_seconds)
    return [float(each) for each in found if _is_whole(each)]


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) < 12
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= SECONDS_MAX


def _started_ns(status: _BoundedStatus | None) -> int:
    text = status.start_time if status else None
    try:
        return time_ns(text, "") if isinstance(text, str) else 0
    except FieldError:
        return 0
