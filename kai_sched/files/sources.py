"""Which files are read: those named, those in folders, the standard input; and whether a file is YAML or JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from kai_sched.files import json_input, yaml_input
from kai_sched.files.faults import BrokenInput
from kai_sched.model.problems import Problem
from kai_sched.telemetry.pace import Pace

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
# YAML takes about fifty times as long as JSON.
LARGE_YAML_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position in a file: the document, and the item if the document is a list; both count from 1, 0 is none."""

    path: str
    document: int = 0
    item: int = 0

    def __str__(self) -> str:
        text = "standard input" if self.path == STDIN else self.path
        if self.document:
            text += f", document {self.document}"
        return f"{text}, item {self.item}" if self.item else text


def expand(paths: Sequence[str], problems: list[Problem]) -> Iterator[str]:
    """The files named, and those in the folders named, sorted by path."""
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            yield path
            continue
        found = [
            os.path.join(folder, name)
            for folder, _, files in os.walk(path)
            for name in files
            if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        ]
        if not found:
            message = f"no file in this folder ends in {', '.join(SUFFIXES)}: name the files"
            problems.append(Problem(path, "", "", message, fatal=True))
        yield from sorted(found)


def read_bytes(path: str, stdin: BinaryIO | None) -> bytes:
    """The whole file. Raises BrokenInput."""
    if path == STDIN:
        if stdin is None:
            raise BrokenInput("there is no standard input to read: name a file")
        return stdin.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise BrokenInput("there is no such file: correct the path") from None
    except OSError as error:
        raise BrokenInput(f"cannot be read: {error.strerror or error}: check the path and its permissions") from None


def documents(path: str, data: bytes, pace: Pace) -> Iterator[bytes | memoryview]:
    """The file's documents as JSON, the empty ones left out. Raises BrokenInput."""
    if path.lower().endswith(".json") or json_input.may_be_json(data):
        try:
            yield from list(json_input.documents(data))
            return
        except BrokenInput:
            # A YAML file may begin with a brace as well, so only a name that says JSON makes this final.
            if path.lower().endswith(".json") or not _is_yaml(data):
                raise
    size = f"{len(data) / 1e6:,.0f} MB"
    if len(data) > LARGE_YAML_BYTES:
        pace.say(f"reading {FilePosition(path)}: {size} of YAML; `kubectl get ... -o json` is read many times faster")
    yield from yaml_input.documents(
        data, lambda share: pace.tick(f"reading {FilePosition(path)}: {share:.0%} of {size}")
    )


def _is_yaml(data: bytes) -> bool:
    try:
        for _ in yaml_input.documents(data, lambda _: None):
            pass
    except BrokenInput:
        return False
    return True
