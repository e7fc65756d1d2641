"""What a folder of settings holds (``run --settings-folder``): which objects the scheduler writes into the cluster when
it starts, and which queues are the default queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.api.legal import name_fault
from kai_sched.files import yaml_input
from kai_sched.files.errors import BrokenInput
from kai_sched.model.read.kinds import OPERATOR_CONFIG, QUEUE, SHARD

SUFFIXES = (".yaml", ".yml")
_REMEDY = f"a settings folder holds the Config {names.CONFIG_NAME}, SchedulingShards and Queues"


@dataclass(frozen=True, slots=True)
class SettingsFolder:
    """The objects of the folder, in the order of its files.

    Attributes
    ----------
    settings
        The Config kai-config and SchedulingShards: the cluster gets each field that they set.
    queues
        The default queues, parents first; empty: the built-in ones.
    """

    settings: tuple[dict[str, Any], ...] = ()
    queues: tuple[dict[str, Any], ...] = ()


def read_settings_folder(path: str) -> SettingsFolder:
    """Read the YAML files of the folder, but for hidden ones. Raises BrokenInput with file and field, and OSError."""
    if not Path(path).is_dir():
        raise BrokenInput(f"--settings-folder {path}: no such folder: make it, or correct the path")
    found: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for file in sorted(Path(path).iterdir()):
        if file.name.startswith(".") or file.suffix not in SUFFIXES:
            continue
        for position, content in _documents(file):
            kind, name = _identity(position, content)
            if (kind, name) in found:
                raise BrokenInput(f"{position}: {kind} {name} is in {found[kind, name][0]} as well: leave one out")
            found[kind, name] = (position, content)
    objects = [content for _, content in found.values()]
    return SettingsFolder(
        tuple(content for content in objects if content["kind"] != QUEUE[1]),
        tuple(content for content in objects if content["kind"] == QUEUE[1]),
    )


def _documents(file: Path) -> Iterator[tuple[str, Any]]:
    """Each document of the file that holds something, with its position."""
    try:
        for number, content in enumerate(yaml_input.documents(file.read_bytes(), lambda _share: None), 1):
            yield f"{file}, document {number}", msgspec.json.decode(content)
    except BrokenInput as error:
        raise BrokenInput(f"{file}: no YAML: {error}") from None


def _identity(position: str, content: Any) -> tuple[str, str]:
    """Kind and name of an object that a settings folder may hold. Raises BrokenInput."""
    if not isinstance(content, dict):
        raise BrokenInput(f"{position}: no object: {_REMEDY}")
    version, kind = str(content.get("apiVersion")), str(content.get("kind"))
    if (version, kind) not in (OPERATOR_CONFIG, SHARD, QUEUE):
        raise BrokenInput(f"{position}: kind: {kind} of {version} is none of its kinds: {_REMEDY}")
    meta = content.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or name_fault(version, name):
        raise BrokenInput(f"{position}: metadata.name: {name!r} is no name: give the {kind} one")
    if (version, kind) == OPERATOR_CONFIG and name != names.CONFIG_NAME:
        raise BrokenInput(f"{position}: metadata.name: only {names.CONFIG_NAME} counts, not {name}: rename it")
    if not isinstance(content.get("spec"), dict):
        raise BrokenInput(f"{position}: spec: the {kind} {name} has none: write one, if only an empty one, {{}}")
    return kind, name
