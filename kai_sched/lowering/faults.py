"""What is raised over single objects, told with their names: nobody has to search for them."""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.model.objects import Object


@dataclass(frozen=True, slots=True)
class Fault:
    """This object makes lowering raise."""

    kind: type[Object]
    key: str
    error: Exception


class LoweringFault(Exception):
    """These objects cannot be lowered, each for itself."""

    def __init__(self, faults: list[Fault]) -> None:
        first = faults[0]
        more = f" and {len(faults) - 1} more objects" if len(faults) > 1 else ""
        error = f"{type(first.error).__name__}: {first.error}"
        super().__init__(f"{first.kind.__name__} {first.key}{more}: {error}")
        self.faults = faults


class Faults:
    """Collects them, so that all are told at once."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def add(self, kind: type[Object], key: str, error: Exception) -> None:
        """The object made this be raised. Want of memory is no object's fault, and goes on its way."""
        if isinstance(error, MemoryError):
            raise error
        self._found.append(Fault(kind, key, error))

    def end(self) -> None:
        """Raises LoweringFault where there are any."""
        if self._found:
            raise LoweringFault(self._found) from self._found[0].error
