"""Queues and PodGroups as the API server shows them, and the patch of ``status.conditions``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kai_sched.model.times import format_time
from kai_sched.reconcile.status.write_throttle import Content, TrackedObject, WriteThrottle

# type, reason and message of a condition with the status True
Finding = tuple[str, str, str]

_decoder = msgspec.json.Decoder(dict[str, Any] | None)


@dataclass(slots=True, eq=False)
class ShownObject(TrackedObject):
    """One object with its status, and with what makes its specification unusable (empty: nothing)."""

    status: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


class ShownObjects:
    """Objects of one kind, by name or "namespace/name"."""

    def __init__(self) -> None:
        self._found: dict[str, ShownObject] = {}

    def observe(self, key: str, uid: str, raw_status: bytes, fault: str) -> None:
        """The API server shows the object so. Raises msgspec.DecodeError if the status is no JSON object."""
        status = (_decoder.decode(raw_status) if raw_status else None) or {}
        found = self._found.get(key)
        if found is None or found.uid != uid:
            found = self._found[key] = ShownObject(key, uid)
        found.status, found.fault = status, fault

    def get(self, key: str) -> ShownObject | None:
        """Return the object, or None."""
        return self._found.get(key)

    def forget(self, key: str) -> ShownObject | None:
        """Forget the object, and return it."""
        return self._found.pop(key, None)

    def keys(self) -> Iterable[str]:
        """The keys of all objects."""
        return self._found.keys()


def patch_findings(
    tracked: ShownObject, types: frozenset[str], findings: Sequence[Finding], throttle: WriteThrottle, now_ns: int
) -> dict[str, Any]:
    """Return the patch of ``status.conditions`` after which these are the only ones of ``types``, empty if none is due.

    Conditions of other types are left as they are, as are ours that say the same already.
    """
    before = list_of(tracked.status, "conditions")
    ours = {each.get("type"): each for each in before if each.get("type") in types}
    after = [each for each in before if each.get("type") not in types]
    for kind, reason, message in findings:
        wanted = {"type": kind, "status": "True", "reason": reason, "message": message}
        known = ours.get(kind, {})
        same = all(known.get(name) == value for name, value in wanted.items())
        after.append(known if same else {**wanted, "lastTransitionTime": format_time(now_ns)})
    if not throttle.due(tracked, "conditions", _content(after), _content(before)):
        return {}
    return {"conditions": after or None}


def _content(conditions: list[dict[str, Any]]) -> Content:
    decisive = sorted([str(each.get(name)) for name in ("type", "status", "reason")] for each in conditions)
    return decisive, sorted(str(each.get("message")) for each in conditions)


def list_of(status: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the JSON objects in a list of the status; other values are left out."""
    found = status.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
