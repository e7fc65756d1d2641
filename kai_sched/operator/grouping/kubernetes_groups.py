"""Which changes of a PodGroup of Kubernetes have the pods that name it grouped again: those of its spec, labels and
annotations, and not those of its status.
"""

from __future__ import annotations

import msgspec

from kai_sched.api import core
from kai_sched.operator.grouping.members import source_of_group
from kai_sched.operator.grouping.requests import GroupingRequests


class _GroupMeta(core.Wire):
    uid: str | None = None
    labels: msgspec.Raw = core.ABSENT
    annotations: msgspec.Raw = core.ABSENT


class _GroupHead(core.Wire):
    metadata: _GroupMeta | None = None
    spec: msgspec.Raw = core.ABSENT


_decode = msgspec.json.Decoder(_GroupHead).decode


class KubernetesGroups:
    """For one event loop. ``requests`` gets what is to be reconciled."""

    def __init__(self, requests: GroupingRequests) -> None:
        self._requests = requests
        self._marks: dict[str, int] = {}  # a hash of what matters, by "namespace/name"

    def show(self, key: str, raw: bytes | None) -> None:
        """The API server shows the PodGroup so; ``raw`` is None if it is gone."""
        mark = None if raw is None else _mark(raw)
        if self._marks.get(key) == mark:
            return
        if mark is None:
            del self._marks[key]
        else:
            self._marks[key] = mark
        self._requests.reconcile(source_of_group(key), uncached=True)


def _mark(raw: bytes) -> int:
    try:
        head = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return hash(bytes(raw))
    meta = head.metadata or _GroupMeta()
    return hash((meta.uid, bytes(meta.labels), bytes(meta.annotations), bytes(head.spec)))
