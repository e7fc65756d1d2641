"""Reads fields of owners of any kind: what absent and null mean, and the error for a wrong type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kai_sched.api.custom import INT32_MAX
from kai_sched.model.field_errors import as_json, shown
from kai_sched.reconcile.grouping.workload_errors import GroupingError

_NOTHING: Mapping[str, Any] = {}
COUNT_MAX = INT32_MAX


class Fields:
    """A mapping inside an object. Absent and null fields read as None, zero or empty; a wrong type is an error.

    ``values`` are the raw fields.
    """

    __slots__ = ("_path", "_subject", "values")

    def __init__(self, subject: str, path: str, values: Mapping[str, Any]) -> None:
        self._subject = subject
        self._path = path
        self.values = values

    def at(self, *names: str) -> Fields:
        """Return the mapping in a field. Raises GroupingError."""
        found = self
        for name in names:
            value = found._typed(name, dict, "a mapping")
            found = Fields(self._subject, found.path(name), _NOTHING if value is None else value)
        return found

    def has(self, name: str) -> bool:
        """Return whether the field has a value."""
        return self.values.get(name) is not None

    def entries(self, name: str) -> list[Fields]:
        """Return the mappings of a list. Raises GroupingError."""
        found = []
        for i, value in enumerate(self._typed(name, list, "a list") or ()):
            if not isinstance(value, dict):
                raise self.error(f"{name}[{i}]", _wrong("a mapping", value))
            found.append(Fields(self._subject, f"{self.path(name)}[{i}]", value))
        return found

    def each(self) -> Iterator[tuple[str, Fields]]:
        """Return the mappings in a mapping by name, in their order. Raises GroupingError."""
        return ((name, self.at(name)) for name in self.values)

    def count(self, name: str) -> int | None:
        """Return a whole number of 0 or more. Raises GroupingError."""
        value = self._typed(name, int, "a whole number")
        if value is None:
            return None
        if not 0 <= value <= COUNT_MAX:
            raise self.error(name, f"{shown(value)} is not a number from 0 to {COUNT_MAX}: correct the value")
        return int(value)

    def flag(self, name: str) -> bool:
        """Raises GroupingError."""
        return bool(self._typed(name, bool, "true or false"))

    def text(self, name: str) -> str:
        """Raises GroupingError."""
        return str(self._typed(name, str, "a text") or "")

    def texts(self, name: str) -> dict[str, str]:
        """Labels or annotations. Raises GroupingError."""
        found = self._typed(name, dict, "a mapping") or {}
        for key, value in found.items():
            if not isinstance(value, str):
                raise self.error(f"{name}[{key}]", _wrong("a text", value))
        return dict(found)

    def changed(self, values: Mapping[str, Any]) -> Fields:
        """Return the mapping with other values for some fields."""
        return Fields(self._subject, self._path, {**self.values, **values})

    def error(self, name: str, message: str) -> GroupingError:
        """Return the error for the field of that name, or for the mapping if the name is empty."""
        return GroupingError(self._subject, self.path(name), message)

    def path(self, name: str) -> str:
        """Return the path of the field in the object."""
        return f"{self._path}.{name}" if self._path and name else self._path or name

    def _typed(self, name: str, wanted: type, words: str) -> Any:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise self.error(name, _wrong(words, value))
        return value


def _wrong(words: str, value: object) -> str:
    return f"expected {words}, got {as_json(value)}: correct the value"


def whole_number(text: str) -> int | None:
    """Return the number in a label or an annotation; None if the text is no number."""
    digits = text.removeprefix("-").removeprefix("+")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None
