"""Errors of lowering that name the objects at fault.

``cycle.quarantine`` leaves these objects out and runs the cycle again, without having to search for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.model.objects import Object


@dataclass(frozen=True, slots=True)
class ObjectError:
    """The error that one object causes; ``key`` is its key in the store."""

    kind: type[Object]
    key: str
    error: Exception


class LoweringError(Exception):
    """Some objects cannot be lowered; ``errors`` has one entry for each."""

    def __init__(self, errors: list[ObjectError]) -> None:
        first = errors[0]
        more = f" and {len(errors) - 1} more objects" if len(errors) > 1 else ""
        error = f"{type(first.error).__name__}: {first.error}"
        super().__init__(f"{first.kind.__name__} {first.key}{more}: {error}")
        self.errors = errors


class TermWorkError(Exception):
    """Inter-pod terms are compared with more label sets than they may be; no single object is to blame."""


class ErrorCollector:
    """Collects the errors of many objects, so that one exception names them all."""

    def __init__(self) -> None:
        self._found: list[ObjectError] = []

    def add(self, kind: type[Object], key: str, error: Exception) -> None:
        """Note that the object caused the error. What no single object is to blame for is raised at once."""
        if isinstance(error, TermWorkError):
            raise error
        self._found.append(ObjectError(kind, key, error))

    def end(self) -> None:
        """Raise LoweringError if any error was added."""
        if self._found:
            raise LoweringError(self._found) from self._found[0].error
