"""The bounded caches of the readers: how many parsed values they keep, by their raw text."""

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
    """A cache of at most ``entries`` values whose keys have at most ``size`` characters together.

    It keeps at least the last half of what was used. There are two generations: an entry that is read moves to the
    young one; when that is full, the old generation is dropped and the young one becomes old. A lookup stays cheap, as
    no order of use is kept.
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
        """The value of the key; None if there is none."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is None:
                return None
            self._keep(key, found)
        return found[0]

    def put(self, key: Key, value: Value, size: int) -> Value:
        """Keep the value, unless its key is too large; ``size`` is the size of the key. Returns the value."""
        if size <= KEY_MAX:
            self._keep(key, (value, size))
        return value

    def _keep(self, key: Key, entry: tuple[Value, int]) -> None:
        if len(self._young) >= self._entries or self._size + entry[1] > self._most:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[key] = entry
        self._size += entry[1]


class TextPool:
    """Returns equal texts as one object, to save memory. Unlike ``sys.intern`` it forgets texts."""

    def __init__(self) -> None:
        self._texts: Recent[str, str] = Recent()

    def one(self, text: str) -> str:
        """An equal text that was passed in before, if it is still known; else the text itself."""
        known = self._texts.get(text)
        return self._texts.put(text, text, len(text)) if known is None else known
