"""The queues and pod groups whose status is kept, as the API server shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kai_sched.model.times import format_time
from kai_sched.reconcile.ledger import Content, Ledger, Subject

# (type, reason, message) of a condition that is True.
Finding = tuple[str, str, str]

_decoder = msgspec.json.Decoder(dict[str, Any] | None)


@dataclass(slots=True, eq=False)
class Shown(Subject):
    """One object, its status in the API server, and what makes its specification unusable."""

    status: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


class Subjects:
    """By name or "namespace/name"."""

    def __init__(self) -> None:
        self._found: dict[str, Shown] = {}

    def observe(self, key: str, uid: str, raw_status: bytes, fault: str) -> None:
        """The object is there so. Raises msgspec.DecodeError for a status that is no JSON object."""
        status = (_decoder.decode(raw_status) if raw_status else None) or {}
        found = self._found.get(key)
        if found is None or found.uid != uid:
            found = self._found[key] = Shown(key, uid)
        found.status, found.fault = status, fault

    def get(self, key: str) -> Shown | None:
        """The object; None where it is not there."""
        return self._found.get(key)

    def forget(self, key: str) -> Shown | None:
        """The object is gone; what was known of it."""
        return self._found.pop(key, None)

    def keys(self) -> Iterable[str]:
        """All of them."""
        return self._found.keys()


def patch_findings(
    subject: Shown, types: frozenset[str], findings: Sequence[Finding], ledger: Ledger, now_ns: int
) -> dict[str, Any]:
    """The patch of ``status.conditions`` after which, of our ``types``, it has just these; empty where none is due.

    Conditions of other types are left as they are, as are ours that say the same already.
    """
    before = list_of(subject.status, "conditions")
    ours = {each.get("type"): each for each in before if each.get("type") in types}
    after = [each for each in before if each.get("type") not in types]
    for kind, reason, message in findings:
        wanted = {"type": kind, "status": "True", "reason": reason, "message": message}
        known = ours.get(kind, {})
        same = all(known.get(name) == value for name, value in wanted.items())
        after.append(known if same else {**wanted, "lastTransitionTime": format_time(now_ns)})
    if not ledger.due(subject, "conditions", _content(after), _content(before)):
        return {}
    return {"conditions": after or None}


def _content(conditions: list[dict[str, Any]]) -> Content:
    decisive = sorted([str(each.get(name)) for name in ("type", "status", "reason")] for each in conditions)
    return decisive, sorted(str(each.get("message")) for each in conditions)


def list_of(status: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """The objects in a list of the status; whatever else is there is left out."""
    found = status.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
