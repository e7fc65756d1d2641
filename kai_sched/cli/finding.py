"""One line of ``kai-sched doctor``: how bad it is, what was looked at, what was found, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Gravity(StrEnum):
    """An ERROR keeps kai-sched from working; a WARNING may be meant so."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``remedy`` is empty where there is nothing to do."""

    gravity: Gravity
    what: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.gravity, self.what, self.text, self.remedy) if part)

    def to_dict(self) -> dict[str, str]:
        """As ``doctor -o json`` prints it."""
        return {"level": self.gravity.value, "what": self.what, "text": self.text, "remedy": self.remedy}
