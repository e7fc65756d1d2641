"""Splits the documents of files into single objects, lists taken apart, and keeps the position of each for messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from kai_sched.api import core
from kai_sched.files.dump_info import DumpInfo, open_dump
from kai_sched.files.errors import BrokenInput
from kai_sched.files.sources import FilePosition, documents, expand, read_bytes
from kai_sched.model.field_errors import FieldError, Warn, decode_part
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import NAMESPACED, Kind
from kai_sched.model.read.meta import DEFAULT_NAMESPACE
from kai_sched.telemetry.pace import Pace

_header = msgspec.json.Decoder(core.Header)
_list = msgspec.json.Decoder(list[msgspec.Raw])
_LIST = "List"


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a file, not yet read."""

    source: FilePosition
    kind: Kind
    raw: bytes

    @property
    def subject(self) -> str:
        """Such as "Pod ml/train-0", as far as the object says it. Slow: for messages."""
        try:
            found: Any = msgspec.json.decode(_header.decode(self.raw).metadata)
        except (msgspec.DecodeError, RecursionError):
            found = None
        meta = found if isinstance(found, dict) else {}
        if self.kind[1] in NAMESPACED and isinstance(meta.get("name"), str) and not meta.get("namespace"):
            meta["namespace"] = DEFAULT_NAMESPACE
        names = [meta[key] for key in ("namespace", "name") if isinstance(meta.get(key), str)]
        return f"{self.kind[1]} {'/'.join(names)}".strip()


def problem_in(item: Item, field: str, message: str, fatal: bool = False) -> Problem:
    """A finding about a field of the item."""
    return Problem(str(item.source), item.subject, field, message, fatal)


def warner(item: Item, problems: list[Problem]) -> Warn:
    """A function for readers that adds warnings about the item to ``problems``."""

    def warn(field: str, message: str) -> None:
        problems.append(problem_in(item, field, message))

    return warn


def without_older(items: Sequence[Item], newer: Collection[str]) -> list[Item]:
    """The items without those that an item of the files and folders ``newer`` takes the place of."""
    folders = tuple(path.rstrip("/") + "/" for path in newer)
    is_newer = [item.source.path in newer or item.source.path.startswith(folders) for item in items]
    kinds = {item.kind for item, new in zip(items, is_newer, strict=True) if new}
    last: dict[tuple[Kind, str], int] = {}
    for place, item in enumerate(items):
        if is_newer[place]:
            last[item.kind, item.subject] = place
    return [
        item
        for place, item in enumerate(items)
        if item.kind not in kinds or last.get((item.kind, item.subject), place) == place
    ]


def read_items(
    paths: Sequence[str],
    stdin: BinaryIO,
    pace: Pace,
    problems: list[Problem],
    dumps: list[DumpInfo],
    contents: Mapping[str, bytes],
) -> Iterator[Item]:
    """All objects of the files and folders in their order. What dumps say beside their objects goes to ``dumps``.

    ``contents`` has what stands in place of the files of these names.
    """
    seen: set[str] = set()
    for path in expand(paths, problems):
        if path in seen:
            problems.append(Problem(str(FilePosition(path)), "", "", "named twice: name it once", fatal=True))
            continue
        seen.add(path)
        count = 0
        try:
            data = contents[path] if path in contents else read_bytes(path, stdin)
            for count, document in enumerate(documents(path, data, pace), 1):
                place = FilePosition(path, count)
                dump = open_dump(place, document, problems)
                if dump is None:
                    yield from unfold(place, document, problems)
                    continue
                dumps.append(dump.info)
                for number, (kind, raw) in enumerate(dump.objects, 1):
                    yield from unfold(FilePosition(path, count, number), raw, problems, kind)
        except BrokenInput as error:
            problems.append(Problem(str(FilePosition(path)), "", "", str(error), fatal=True))
            continue
        if not count:
            problems.append(
                Problem(str(FilePosition(path)), "", "", "empty: leave it out, or write it again", fatal=True)
            )


def _entries(raw: bytes | memoryview) -> list[msgspec.Raw] | None:
    """The entries of a plain list of objects; None for anything else."""
    if bytes(memoryview(raw)[:64]).lstrip()[:1] != b"[":
        return None
    with suppress(msgspec.DecodeError, RecursionError):
        found = _list.decode(raw)
        if all(bytes(entry)[:1] == b"{" for entry in found):
            return found
    return None


def unfold(
    source: FilePosition, document: bytes | memoryview, problems: list[Problem], kind: Kind = ("", "")
) -> Iterator[Item]:
    """The document's object, or all objects of a list, lists in lists included. ``kind``: of those that say none."""
    todo: list[tuple[FilePosition, bytes | memoryview, Kind]] = [(source, document, kind)]
    while todo:
        place, raw, inherited = todo.pop()
        if (entries := _entries(raw)) is not None:
            todo.extend(
                (FilePosition(place.path, place.document, place.item or number), entries[number - 1], inherited)
                for number in range(len(entries), 0, -1)
            )
            continue
        try:
            header = decode_part(_header, raw, "")
        except FieldError as fault:
            message = (
                fault.message if fault.field else "not a Kubernetes object: take it out, or give it apiVersion and kind"
            )
            problems.append(Problem(str(place), "", fault.field, message, fatal=True))
            continue
        kind = (header.api_version or inherited[0], header.kind or inherited[1])
        if not all(kind):
            missing = "apiVersion" if kind[1] else "kind"
            problems.append(
                Problem(str(place), "", missing, "missing: without it this is no Kubernetes object", fatal=True)
            )
        elif kind[1].endswith(_LIST) and header.items is not msgspec.UNSET:
            # Lists of one kind may leave it out of their items.
            inner = ("", "") if kind[1] == _LIST else (kind[0], kind[1].removesuffix(_LIST))
            items = header.items or []
            todo.extend(
                (FilePosition(place.path, place.document, place.item or number), items[number - 1], inner)
                for number in range(len(items), 0, -1)
            )
        else:
            # Items of lists stay views of the whole text: copying all of them would take as long as reading them.
            yield Item(place, kind, bytes(raw) if isinstance(raw, memoryview) else raw)
