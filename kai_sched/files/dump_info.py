"""What a dump or a snapshot archive says about its cluster beside the objects: the time, the settings, what is missing;
and how either is recognised among the documents of the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kai_sched.api import core
from kai_sched.files.dump import DUMP
from kai_sched.files.dump_settings import SHARING, config_of, snapshot_config
from kai_sched.files.snapshot_archive import RAW_OBJECTS
from kai_sched.files.sources import FilePosition
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, Warn, decode_part
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import Kind
from kai_sched.model.read.meta import time_ns

# One of them is in each dump or snapshot: the other documents are not decoded for this.
_MARKS = (f'"{DUMP[1]}"'.encode(), b'"rawObjects"')


class _Metadata(core.Wire):
    time: str | None = None
    version: str | None = None
    context: str | None = None
    namespaces: list[str] | None = None
    unreadable: list[str] | None = None


class _Document(core.Wire):
    api_version: object = None
    kind: object = None
    metadata: msgspec.Raw = core.ABSENT
    settings: dict[str, Any] | None = None
    items: list[msgspec.Raw] | None = None
    config: object = None
    scheduler_params: object = None
    raw_objects: dict[str, list[msgspec.Raw] | None] | None = None


class _DumpHead(core.Wire):
    api_version: object = None
    kind: object = None
    raw_objects: msgspec.Raw = core.ABSENT


_head = msgspec.json.Decoder(_DumpHead)
_document = msgspec.json.Decoder(_Document)
_metadata = msgspec.json.Decoder(_Metadata | None)


@dataclass(frozen=True, slots=True)
class DumpInfo:
    """What a dump or a snapshot archive says about its cluster.

    Attributes
    ----------
    is_snapshot
        Whether it is a snapshot archive of the original's form.
    config
        The settings of the scheduler, before the objects Config and SchedulingShard change them.
    shard
        The SchedulingShard that counts; "" for the default one.
    time_ns
        When the objects were read; None where it does not say.
    namespaces
        The namespaces whose objects it holds; None for all.
    unreadable
        What could not be listed.
    """

    source: FilePosition
    is_snapshot: bool
    config: Config
    shard: str = ""
    time_ns: int | None = None
    version: str = ""
    context: str = ""
    namespaces: tuple[str, ...] | None = None
    unreadable: tuple[str, ...] = ()

    def warnings(self) -> list[Problem]:
        """What the dump does not have, so that decisions may be others than in its cluster."""
        return [
            Problem(str(self.source), "", "", f"the dump lacks what could not be listed: {each}")
            for each in self.unreadable
        ]


@dataclass(frozen=True, slots=True)
class OpenedDump:
    """A dump with its objects, undecoded, and the kind of those that do not say it."""

    info: DumpInfo
    objects: Sequence[tuple[Kind, msgspec.Raw]]


def open_dump(source: FilePosition, document: bytes | memoryview, problems: list[Problem]) -> OpenedDump | None:
    """The dump or snapshot that the document is; None where it is neither. Its errors become problems."""
    raw = bytes(document)
    if not any(mark in raw for mark in _MARKS):
        return None
    try:
        head = _head.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # a list of objects, or what the reader of objects reports
    is_dump = head.kind == DUMP[1]
    if not is_dump and (head.kind is not None or head.raw_objects == core.ABSENT):
        return None

    def warn(field: str, message: str) -> None:
        problems.append(Problem(str(source), "", field, message))

    try:
        if is_dump and head.api_version != DUMP[0]:
            raise FieldError("apiVersion", f"this version reads dumps of {DUMP[0]}: write the dump with this version")
        found = decode_part(_document, raw, "")
        info = _info(source, found, not is_dump, warn)
    except FieldError as error:
        problems.append(Problem(str(source), "", error.field, error.message, fatal=True))
        info, found = DumpInfo(source, not is_dump, Config()), _Document()
    problems.extend(info.warnings())
    return OpenedDump(info, _objects(found, is_dump, warn))


def _objects(found: _Document, is_dump: bool, warn: Warn) -> list[tuple[Kind, msgspec.Raw]]:
    if is_dump:
        return [(("", ""), each) for each in found.items or ()]
    objects: list[tuple[Kind, msgspec.Raw]] = []
    for name, each in (found.raw_objects or {}).items():
        kind = RAW_OBJECTS.get(name)
        if kind is not None:
            objects += [(kind, item) for item in each or ()]
        elif each:
            warn(f"rawObjects.{name}", f"{len(each)} ignored: this version does not know this part of a snapshot")
    return objects


def _info(source: FilePosition, found: _Document, is_snapshot: bool, warn: Warn) -> DumpInfo:
    """Raises FieldError."""
    meta = (decode_part(_metadata, found.metadata, "metadata") if found.metadata else None) or _Metadata()
    settings: Mapping[str, Any] = found.settings or {}
    if is_snapshot and found.settings is None:
        config = snapshot_config(found.config, found.scheduler_params, warn)
    else:
        # Nobody turned it on, unless somebody says so.
        settings = {SHARING: False, **settings}
        config = config_of({name: value for name, value in settings.items() if name != "shard"}, warn)
    shard = settings.get("shard", "")
    if not isinstance(shard, str):
        raise FieldError("settings.shard", "expected the name of a SchedulingShard: write the dump again")
    return DumpInfo(
        source,
        is_snapshot,
        config,
        shard=shard,
        time_ns=time_ns(meta.time, "metadata.time") if meta.time else None,
        version=meta.version or "",
        context=meta.context or "",
        namespaces=None if meta.namespaces is None else tuple(meta.namespaces),
        unreadable=tuple(meta.unreadable or ()),
    )
