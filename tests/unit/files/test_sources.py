"""What a file may be: compressed, in another encoding, a plain list of objects; and folders that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest

from kai_sched.files.load import load
from tests.unit.files.inputs import Write, clean, queue, told

TEAM = json.dumps(queue("team"))
YAML = "# größer\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n"


@pytest.mark.parametrize("name", ["in.json.gz", "in.yaml.gz", "in.yml.GZ", "in.json", "without-an-ending"])
def test_compressed_files_are_read_by_their_content(tmp_path: Path, name: str) -> None:
    text = YAML if ".y" in name else TEAM
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    (case,) = clean(str(tmp_path / name))
    cluster = case.store.cluster()
    assert list(cluster.nodes or cluster.queues) == (["n"] if ".y" in name else ["team"])


def test_compressed_standard_input_and_files_of_folders(tmp_path: Path) -> None:
    (case,) = clean("-", stdin=io.BytesIO(gzip.compress(TEAM.encode())))
    assert list(case.store.cluster().queues) == ["team"]
    (tmp_path / "in.json.gz").write_bytes(gzip.compress(TEAM.encode()))
    assert list(clean(str(tmp_path))[0].store.cluster().queues) == ["team"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("text", [YAML, TEAM])
def test_other_encodings(tmp_path: Path, encoding: str, text: str) -> None:
    """As Windows PowerShell writes files."""
    (tmp_path / "in.yaml").write_bytes(text.encode(encoding))
    assert len(clean(str(tmp_path / "in.yaml"))) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(TEAM.encode() * 100, mtime=0)[:-20], "not a complete gzip file: write it again"),
        (b"\x1f\x8bnothing", "not a complete gzip file"),
        (gzip.compress(b"\xff", mtime=0), "not UTF-8 text"),
        (b"PK\x03\x04....", "not a complete ZIP archive: get the snapshot again"),
        (b"\x28\xb5\x2f\xfd....", "compressed by zstd"),
        (b"\xff\xfea", "not UTF-16 text"),
        (b"\xff\xfe\x00\xd8", "not UTF-16 text"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "in.yaml"
    path.write_bytes(content)
    (line,) = told(load([str(path)]))
    assert line.startswith(f"error: {path}: ")
    assert words in line


def test_files_that_are_too_large_once_they_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kai_sched.files.sources.UNPACKED_MAX", 1000)
    (tmp_path / "in.json").write_bytes(gzip.compress(b" " * 1001))
    (line,) = told(load([str(tmp_path / "in.json")]))
    assert "more than 1,000 bytes once it is unpacked: split it" in line


@pytest.mark.parametrize("name", ["in.json", "in.yaml"])
def test_a_plain_list_of_objects(write: Write, name: str) -> None:
    text = json.dumps([queue("a"), queue("b"), {"kind": "List", "apiVersion": "v1", "items": [queue("c")]}])
    if name == "in.yaml":
        text = "# not JSON\n" + text
    (case,) = clean(write(name, text))
    assert sorted(case.store.cluster().queues) == ["a", "b", "c"]


def test_an_object_of_a_plain_list_is_named_by_its_number(write: Write) -> None:
    (line,) = told(load([write("in.json", json.dumps([queue("a"), {"kind": "Queue"}]))]))
    assert "in.json, document 1, item 2: apiVersion: missing" in line


def test_folders_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is named, and one within it."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "in.json").write_text(TEAM)
    scandir = os.scandir
    for locked in (tmp_path, tmp_path / "inner"):

        def refuse(path: str, locked: Path = locked) -> object:
            if Path(path) == locked:
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", refuse)
            (line,) = told(load([str(tmp_path)]))
        assert line == f"error: {locked}: cannot be read: Permission denied: check the path and its permissions"
