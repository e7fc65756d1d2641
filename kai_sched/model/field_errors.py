"""The error for a field that cannot be read, and how wrong types are worded for users. The caller adds the file and the
object.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from kai_sched.api.legal import QUOTED_MAX as QUOTED_MAX
from kai_sched.api.legal import shown as shown

# Called with (field, message) for a field that is ignored; the rest of the object is used.
Warn = Callable[[str, str], None]

Part = TypeVar("Part")

# Whole messages are cut to this many characters.
MESSAGE_MAX = 1000


def as_json(value: object) -> str:
    """The value as JSON, shortened if it is long."""
    try:
        return msgspec.json.encode(value).decode()[:QUOTED_MAX]
    except (OverflowError, RecursionError, UnicodeEncodeError):
        return shown(value)


def _cut(message: str) -> str:
    """The message, without its middle if it is long: the error is at the beginning, the remedy at the end."""
    half = MESSAGE_MAX // 2
    return message if len(message) <= MESSAGE_MAX else f"{message[:half]} ... {message[-half:]}"


class FieldError(ValueError):
    """A field makes the object unusable. ``field`` is its path, such as "spec.priority"; the message has the remedy."""

    def __init__(self, field: str, message: str) -> None:
        self.field, self.message = _cut(field), _cut(message)
        super().__init__(f"{self.field}: {self.message}" if self.field else self.message)


class TypeFault(FieldError):
    """A value has the wrong type."""


_PLAIN_TYPES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def wrong_type(error: msgspec.ValidationError, raw: bytes | memoryview, field: str = "") -> TypeFault:
    """A decoding error in the words of users. ``raw`` is the part that was decoded, ``field`` the path of that part."""
    message, _, path = str(error).partition(" - at `$")
    path = _name_keys(path.rstrip("`"), raw, message)
    where = f"{field}{path}" if field else path.lstrip(".")
    names = re.findall(r"`([^`]*)`", message)
    if message.startswith("Object missing required field") and names:
        return TypeFault(f"{where}.{names[0]}".lstrip("."), "missing: give it a value")
    if len(names) == 2:
        expected, got = (_plain(name) for name in names)
        quotes = "a text" in expected and got in ("a whole number", "a number", "true or false")
        return TypeFault(
            where, f"expected {expected}, got {got}: {'put it in quotes' if quotes else 'correct the value'}"
        )
    return TypeFault(where, f"{message[:1].lower()}{message[1:].replace('`', '')}: correct the value")


def decode_part(decoder: msgspec.json.Decoder[Part], raw: bytes | memoryview, field: str) -> Part:
    """Decode a part of an object that sits at ``field``. Raises FieldError."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise wrong_type(error, raw, field) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TypeFault(field, f"not valid JSON ({error}): correct the file") from None
    except RecursionError:
        raise TypeFault(field, "nested too deeply for a Kubernetes object") from None


def _plain(union: str) -> str:
    names = [name for name in union.split(" | ") if name != "null"] or ["null"]
    if {"int", "str"} <= set(names):
        return "a quantity"
    return " or ".join(_PLAIN_TYPES.get(name, name) for name in names)


def _name_keys(path: str, raw: bytes | memoryview, message: str) -> str:
    """The decoder writes ``[...]`` for a key of a mapping: look for the first entry of the type complained about."""
    got = re.search(r"got `([^`]*)`", message)
    if "[...]" not in path or got is None:
        return path
    parts = re.findall(r"\.([A-Za-z0-9_]+)|\[(\d+)\]|\[(\.\.\.)\]", path)
    try:
        node: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return path  # another value of the object is beyond what can be decoded
    named = ""
    for name, index, any_key in parts:
        if any_key and isinstance(node, dict):
            wanted = _JSON_TYPES.get(got[1], object)
            name = next((key for key, value in node.items() if type(value) is wanted), "...")
        if name:
            named += f".{name}"
            node = node.get(name) if isinstance(node, dict) else None
        elif index:
            named += f"[{index}]"
            node = node[int(index)] if isinstance(node, list) else None
    return named
