"""Which files are read: those named, those in folders, the standard input; whether a file is compressed, in which
encoding, and whether it is YAML or JSON.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from kai_sched.files import json_input
from kai_sched.files.errors import BrokenInput
from kai_sched.files.snapshot_archive import ZIP, unpack
from kai_sched.model.problems import Problem
from kai_sched.telemetry.pace import Pace

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
GZIP_SUFFIX = ".gz"
ZIP_SUFFIX = ".zip"
_GZIP = b"\x1f\x8b"
# A compressed file may be a thousand times as large once it is unpacked.
UNPACKED_MAX = 2**31
_ARCHIVES = {
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
}
# The longest first: that of UTF-32 begins with that of UTF-16.
_ENCODINGS = {
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
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
        unread: list[OSError] = []
        found = [
            os.path.join(folder, name)
            for folder, _, files in os.walk(path, onerror=unread.append)
            for name in files
            if name.lower().removesuffix(GZIP_SUFFIX).endswith((*SUFFIXES, ZIP_SUFFIX)) and not name.startswith(".")
        ]
        problems.extend(
            Problem(str(error.filename or path), "", "", _unreadable(error), fatal=True) for error in unread
        )
        if not found and not unread:
            endings = ", ".join((*SUFFIXES, ZIP_SUFFIX))
            message = f"no file in this folder ends in {endings}, or one of these and {GZIP_SUFFIX}"
            problems.append(Problem(path, "", "", f"{message}: name the files", fatal=True))
        yield from sorted(found)


def read_bytes(path: str, stdin: BinaryIO | None) -> bytes:
    """The whole file, unpacked, and in UTF-8 if it says that it has another encoding. Raises BrokenInput."""
    if path == STDIN:
        if stdin is None:
            raise BrokenInput("there is no standard input to read: name a file")
        return _as_text(stdin.read())
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise BrokenInput("there is no such file: correct the path") from None
    except OSError as error:
        raise BrokenInput(_unreadable(error)) from None
    return _as_text(data)


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}: check the path and its permissions"


def _as_text(data: bytes) -> bytes:
    if data.startswith(_GZIP):
        data = _unpacked(data)
    if data.startswith(ZIP):
        data = unpack(data, UNPACKED_MAX)
    for magic, what in _ARCHIVES.items():
        if data.startswith(magic):
            raise BrokenInput(
                f"{what}, which is not read: unpack it (gzip is read as it is, and snapshots in ZIP archives)"
            )
    encoding = next((name for mark, name in _ENCODINGS.items() if data.startswith(mark)), "")
    # Neither YAML nor JSON has zero bytes, and both begin with an ASCII character: it is UTF-16 without a mark.
    if not encoding and len(data) > 1 and (data[0] == 0) != (data[1] == 0):
        encoding = "utf-16-be" if data[0] == 0 else "utf-16-le"
    if not encoding:
        return data
    try:
        return data.decode(encoding).encode()
    except UnicodeError:
        raise BrokenInput(f"not {encoding.upper()} text, although it begins like one: save the file as UTF-8") from None


def _unpacked(data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            found = file.read(UNPACKED_MAX + 1)
    except (OSError, EOFError, zlib.error):
        raise BrokenInput("not a complete gzip file: write it again") from None
    if len(found) > UNPACKED_MAX:
        raise BrokenInput(f"more than {UNPACKED_MAX:,} bytes once it is unpacked: split it into several files")
    return found


def documents(path: str, data: bytes, pace: Pace) -> Iterator[bytes | memoryview]:
    """The file's documents as JSON, the empty ones left out. Raises BrokenInput."""
    is_json = path.lower().removesuffix(GZIP_SUFFIX).endswith(".json")
    if is_json or json_input.may_be_json(data):
        try:
            yield from list(json_input.documents(data))
            return
        except BrokenInput:
            # A YAML file may begin with a brace as well, so only a name that says JSON makes this final.
            if is_json or not _is_yaml(data):
                raise
    from kai_sched.files import yaml_input  # not for inputs of JSON only, as most dumps of clusters are

    size = f"{len(data) / 1e6:,.0f} MB"
    if len(data) > LARGE_YAML_BYTES:
        pace.say(f"reading {FilePosition(path)}: {size} of YAML; `kubectl get ... -o json` is read many times faster")
    yield from yaml_input.documents(
        data, lambda share: pace.tick(f"reading {FilePosition(path)}: {share:.0%} of {size}")
    )


def _is_yaml(data: bytes) -> bool:
    from kai_sched.files import yaml_input

    try:
        for _ in yaml_input.documents(data, lambda _: None):
            pass
    except BrokenInput:
        return False
    return True
