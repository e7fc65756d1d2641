"""YAML to JSON, as kubectl reads it: which texts are numbers, booleans or null, and bounds on depth, size and aliases.

libyaml gives events, and the values are built here, so that depth, size and aliases are checked before memory grows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from kai_sched.files.errors import BrokenInput

DEPTH_MAX = 200
# Values that aliases may add to a document beyond those that are written in it.
ALIASED_MAX = 1_000_000
EVENTS_BETWEEN_REPORTS = 50_000

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_NUMBER_STARTS = frozenset("0123456789+-.")
# No sexagesimal numbers: 12:30:45 is a text.
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)", re.ASCII)
_OCTAL = re.compile(r"([-+]?)0o?([0-7_]+)", re.ASCII)
_HEX = re.compile(r"([-+]?)0x([0-9a-fA-F_]+)", re.ASCII)
_BINARY = re.compile(r"([-+]?)0b([01_]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
# JSON numbers beyond this have no exact integer form everywhere.
_INT_BITS_MAX = 63
_TAG_PREFIX = "tag:yaml.org,2002:"
_COLLECTION_TAGS = frozenset({None, "!", f"{_TAG_PREFIX}map", f"{_TAG_PREFIX}seq"})


@dataclass(slots=True)
class _Open:
    """A collection that is being built, with the number of values in it so far."""

    value: Any
    anchor: str | None
    size: int = 1
    key: str | None = None  # of a mapping: the key that waits for its value
    has_key: bool = False
    merges: list[Any] = field(default_factory=list)


def documents(data: bytes, report: Callable[[float], None]) -> Iterator[bytes]:
    """Each non-empty document as JSON. ``report`` is called with the share read so far. Raises BrokenInput."""
    builder = _Builder()
    text = _decode(data)
    try:
        events: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)
        for count, event in enumerate(events, 1):
            if count % EVENTS_BETWEEN_REPORTS == 0:
                report(min(1.0, event.start_mark.index / len(text)))
            if builder.take(event) and builder.document is not None:
                yield msgspec.json.encode(builder.document)
                builder.document = None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BrokenInput(f"{where}not valid YAML: {error.problem or error.context}: correct the file") from None
    except yaml.YAMLError as error:
        raise BrokenInput(f"not valid YAML: {' '.join(str(error).split())}: correct the file") from None


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BrokenInput(f"line {line}: not UTF-8 text: save the file as UTF-8") from None
    return text


class _Builder:
    """Builds values from events. A value with aliases is one object; each alias adds its size to the count."""

    def __init__(self) -> None:
        self.document: Any = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0

    def take(self, event: Any) -> bool:
        """True when a document is complete."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            value = _scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
            self._put(value, 1, event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._open(event, {} if kind is yaml.MappingStartEvent else [])
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._close(event)
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._anchors.clear()
            self._aliased = 0
        return kind is yaml.DocumentEndEvent

    def _open(self, event: Any, value: Any) -> None:
        if len(self._stack) >= DEPTH_MAX:
            raise _broken(event, f"nested more than {DEPTH_MAX} deep: no Kubernetes object is")
        if event.tag not in _COLLECTION_TAGS:
            raise _broken(event, f"tag {event.tag} is not known here: leave it out")
        if self._stack and self._waits_for_key():
            raise _broken(event, "a mapping's key must be a text: put it in quotes")
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._stack.append(_Open(value, event.anchor))

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        if done.merges:
            merged: dict[str, Any] = {}
            for other in done.merges:
                for key, value in other.items():
                    merged.setdefault(key, value)
            merged.update(done.value)
            done.value = merged
        if done.anchor:
            self._anchors[done.anchor] = (done.value, done.size)
        self._put(done.value, done.size, event)

    def _alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            if any(each.anchor == event.anchor for each in self._stack):
                raise _broken(event, f"alias *{event.anchor} refers to a value that contains it: write the value out")
            raise _broken(event, f"alias *{event.anchor} refers to nothing: define the anchor before it")
        value, size = known
        self._aliased += size
        if self._aliased > ALIASED_MAX:
            message = (
                f"aliases expand to more than {ALIASED_MAX:,} values: refused as an alias bomb; write the values out"
            )
            raise _broken(event, message)
        self._put(value, size, event)

    def _waits_for_key(self) -> bool:
        top = self._stack[-1]
        return isinstance(top.value, dict) and not top.has_key

    def _put(self, value: Any, size: int, event: Any) -> None:
        if not self._stack:
            self.document = value
            return
        top = self._stack[-1]
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
        elif not top.has_key:
            top.key, top.has_key = self._key(value, top, event), True
        else:
            self._set(top, value, event)

    def _key(self, value: Any, top: _Open, event: Any) -> str:
        if isinstance(value, dict | list):
            raise _broken(event, "a mapping's key must be a text: put it in quotes")
        key = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if key in top.value:
            raise _broken(event, f"key {key!r} occurs twice: remove one of them")
        return key

    def _set(self, top: _Open, value: Any, event: Any) -> None:
        top.has_key = False
        if top.key == "<<":
            others = value if isinstance(value, list) else [value]
            if not all(isinstance(other, dict) for other in others):
                raise _broken(event, "<< merges mappings only: give it a mapping or a list of them")
            top.merges.extend(others)
        else:
            top.value[top.key] = value


def _scalar(event: Any) -> Any:
    tag = event.tag
    if tag == "!":
        return event.value
    if tag is None:
        return _plain(event.value, event) if event.implicit[0] else event.value
    name = tag.removeprefix(_TAG_PREFIX)
    match name:
        case "str" | "timestamp" | "binary":
            return event.value
        case "null" | "bool" | "int" | "float":
            return _plain(event.value, event)
        case _:
            raise _broken(event, f"tag {tag} is not known here: leave it out")


def _plain(text: str, event: Any) -> Any:
    """An unquoted scalar as kubectl reads it."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        return _whole(text, 10, "")
    for pattern, base in ((_OCTAL, 8), (_HEX, 16), (_BINARY, 2)):
        if found := pattern.fullmatch(text):
            return _whole(found[2], base, found[1])
    if _FLOAT.fullmatch(text):
        value = float(text.replace("_", ""))
        if value in (float("inf"), float("-inf")):
            raise _broken(event, f"{text} is too large a number: correct it, or put it in quotes")
        return value
    if _NOT_FINITE.fullmatch(text):
        raise _broken(event, f"{text} is not a number that Kubernetes can hold: correct it, or put it in quotes")
    return text


def _whole(digits: str, base: int, sign: str) -> int | float | str:
    digits = digits.replace("_", "")
    if not digits or len(digits) > 100:
        return sign + digits
    value = int(sign + digits, base)
    return value if value.bit_length() <= _INT_BITS_MAX else float(value)


def _broken(event: Any, message: str) -> BrokenInput:
    mark = event.start_mark
    return BrokenInput(f"line {mark.line + 1}, column {mark.column + 1}: {message}")
