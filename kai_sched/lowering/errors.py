"""Errors of lowering that name the objects at fault.

``cycle.quarantine`` leaves these objects out and runs the cycle again, without having to search for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from kai_sched.model.objects import Object, Pod, PodGroup

Item = TypeVar("Item", Pod, PodGroup)
BLOCK = 256  # from 100 to 400 it made no difference; 2,000 pods no longer stay in the CPU's cache


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

    def in_blocks(
        self, kind: type[Item], objects: Mapping[str, Item], take_in: Callable[[Mapping[str, Item]], None]
    ) -> None:
        """Call ``take_in`` with some of the objects at a time, by key, so many that they stay in the CPU's cache.

        Where it raises, it is called again for either half, to find the objects at fault; what no object by itself is
        to blame for is raised.
        """
        every = iter(objects.items())
        while some := dict(islice(every, BLOCK)):
            self._take(kind, some, take_in)

    def _take(self, kind: type[Item], some: Mapping[str, Item], take_in: Callable[[Mapping[str, Item]], None]) -> None:
        try:
            take_in(some)
        except TermWorkError:
            raise
        except Exception as error:
            keys, before = list(some), len(self._found)
            if len(keys) == 1:
                self.add(kind, keys[0], error)
                return
            for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
                self._take(kind, {key: some[key] for key in half}, take_in)
            if len(self._found) == before:
                raise

    def end(self) -> None:
        """Raise LoweringError if any error was added."""
        if self._found:
            raise LoweringError(self._found) from self._found[0].error
