"""The API server's audit log: who asked what, when, and what the answer was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

# One line a request, when it is answered; two for a watch. The API server's calls to itself are left out. What drivers
# of devices send is in it, too.
SLICES = {"group": "resource.k8s.io", "resources": ["resourceslices"]}
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Request", "verbs": ["create"], "resources": [SLICES]},
        {"level": "Metadata"},
    ],
}
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One answered request. Times are in seconds since the epoch; ``subject`` is such as "pods/binding"."""

    user: str
    verb: str
    subject: str
    namespace: str
    name: str
    status: int
    received_s: float
    answered_s: float
    raw: dict[str, Any]

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES


class AuditLog:
    """The file as it grows: what was asked since a mark."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The place in the file that is now its end."""
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, mark: int = 0, user: str | None = None, subject: str | None = None) -> list[Request]:
        """The requests that were answered after the mark, in order; of one user, on one subject where given."""
        found = (_read(line) for line in self._lines(mark))
        return [
            request
            for request in found
            if (user is None or request.user == user) and (subject is None or request.subject == subject)
        ]

    def bindings(self, mark: int = 0, user: str | None = None) -> list[Request]:
        """The bindings since the mark that the API server accepted."""
        return [request for request in self.since(mark, user, "pods/binding") if request.status == 201]

    def lines_with(self, text: bytes, mark: int = 0) -> int:
        """How often the text occurs since the mark, quickly."""
        with self.path.open("rb") as file:
            file.seek(mark)
            return file.read().count(text)

    def _lines(self, mark: int) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(mark)
            for line in file:
                if line.endswith(b"\n"):  # else it is being written
                    yield line


def _read(line: bytes) -> Request:
    entry = json.loads(line)
    target = entry.get("objectRef", {})
    subject = target.get("resource", entry["requestURI"].partition("?")[0])
    if "subresource" in target:
        subject += "/" + target["subresource"]
    return Request(
        user=entry.get("impersonatedUser", entry["user"]).get("username", ""),
        verb=entry["verb"],
        subject=subject,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        status=entry.get("responseStatus", {}).get("code", 0),
        received_s=_seconds(entry["requestReceivedTimestamp"]),
        answered_s=_seconds(entry["stageTimestamp"]),
        raw=entry,
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
