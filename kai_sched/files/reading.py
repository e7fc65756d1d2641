"""Reads an object again without the fields that are wrong, so that all of them are told at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from kai_sched.model.field_errors import FieldError, Warn

# The most faults of one object that are told in one run.
FAULTS_MAX = 20
Found = TypeVar("Found")
_INDEX = re.compile(r"\[(\d+)\]")


def read_with_faults(
    read: Callable[[bytes, Warn], Found], raw: bytes, warn: Warn
) -> tuple[Found | None, list[FieldError]]:
    """What ``read`` makes of the object without its wrong fields, None for nothing; and what is wrong with these."""
    faults: list[FieldError] = []

    def warn_of_others(field: str, message: str) -> None:
        # What follows from a field that was left out is no finding.
        if not any(_overlap(field, fault.field) for fault in faults):
            warn(field, message)

    while True:
        try:
            return read(raw, warn_of_others), faults
        except FieldError as error:
            if any(_overlap(error.field, fault.field) for fault in faults):
                return None, faults
            faults.append(error)
            rest = without(raw, error.field) if len(faults) < FAULTS_MAX else None
            if rest is None:
                return None, faults
            raw = rest


def _overlap(field: str, other: str) -> bool:
    """Whether one of the paths is the other, or leads to it."""
    short, long = sorted((field, other), key=len)
    return long.startswith(short) and (len(long) == len(short) or long[len(short)] in ".[")


def without(raw: bytes, path: str) -> bytes | None:
    """The object without the field at the path; None where it has none there. Keys of mappings may have dots."""
    try:
        content: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return msgspec.json.encode(content) if path and _take_out(content, path) else None


def _take_out(node: Any, path: str) -> bool:
    """Take the field out of the mapping or list, in place; whether it was there."""
    path = path.removeprefix(".")
    if isinstance(node, list):
        found = _INDEX.match(path)
        if found is None or int(found[1]) >= len(node):
            return False
        rest = path[found.end() :]
        if rest:
            return _take_out(node[int(found[1])], rest)
        node[int(found[1])] = {}
        return True
    if not isinstance(node, dict):
        return False
    for key in sorted(node, key=len, reverse=True):
        for written in (key, f"[{key}]"):
            if path == written:
                del node[key]
                return True
            if (
                written
                and path.startswith((f"{written}.", f"{written}["))
                and _take_out(node[key], path[len(written) :])
            ):
                return True
    return False
