"""A memory that forgets: what readers have seen lately, bounded by number and by size."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

ENTRIES_MAX = 8192
# Characters or bytes of all keys together, and of one. What is read of a text takes some ten times its size.
SIZE_MAX = 4 * 2**20
KEY_MAX = 16 * 2**10

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Keeps at least the last half of ``entries``, and at most all of them.

    There are two generations. What is asked for moves to the young one; when that is full, the old one goes and the
    young one becomes old. That costs a lookup next to nothing, and needs no order of use.
    """

    def __init__(self, entries: int = ENTRIES_MAX, size: int = SIZE_MAX) -> None:
        self._entries = entries // 2
        self._most = size // 2
        self._size = 0
        self._young: dict[Key, tuple[Value, int]] = {}
        self._old: dict[Key, tuple[Value, int]] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: Key) -> Value | None:
        """What is remembered for the key; None where that is nothing."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is None:
                return None
            self._keep(key, found)
        return found[0]

    def put(self, key: Key, value: Value, size: int) -> Value:
        """Remember the value, unless its key is too large to be kept; ``size`` is the key's. Returns the value."""
        if size <= KEY_MAX:
            self._keep(key, (value, size))
        return value

    def _keep(self, key: Key, entry: tuple[Value, int]) -> None:
        if len(self._young) >= self._entries or self._size + entry[1] > self._most:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[key] = entry
        self._size += entry[1]


class TextPool:
    """Gives equal texts that come near each other as one object. Interned ones are for ever on some Pythons."""

    def __init__(self) -> None:
        self._texts: Recent[str, str] = Recent()

    def one(self, text: str) -> str:
        """The text, as the object that was given for it lately."""
        known = self._texts.get(text)
        return self._texts.put(text, text, len(text)) if known is None else known
