"""``kai-sched dump`` and ``--cluster``: what is refused before anything is read, and how a cluster is named."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from kai_sched.files.private_file import write_private
from tests.unit.cli.command import COMMAND, ROOT, environment, run


def kubeconfig(path: Path, server: str = "http://127.0.0.1:1") -> str:
    """A kubeconfig whose API server does not answer."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "prod",
    }
    path.write_text(json.dumps(content))
    return str(path)


def test_a_file_that_is_there_a_folder_and_a_missing_folder_are_refused_before_the_cluster_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "there").touch()
    texts = {
        "there": "exists: name another file, or overwrite it with --force",
        ".": "is a folder: name a file in it",
        "no/file": "there is no folder",
    }
    for name, text in texts.items():
        found = run("dump", "-o", str(tmp_path / name), KUBECONFIG=str(tmp_path / "none"))
        assert (found.returncode, found.stdout) == (2, "")
        (line,) = found.stderr.splitlines()
        assert line.startswith("error: --output: ")
        assert text in line


def test_a_dump_is_not_written_to_a_terminal() -> None:
    ours, theirs = pty.openpty()
    try:
        command = [*COMMAND, "dump", "-o", "-"]
        found = subprocess.run(
            command, stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT, env=environment(), timeout=60, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert found.returncode == 2
    assert b"a dump is no text for a terminal" in found.stderr


@pytest.mark.parametrize("command", [("dump", "-o", "-"), ("simulate", "--cluster")], ids=lambda each: each[0])
def test_a_login_that_cannot_be_used_names_the_file_and_the_remedy(tmp_path: Path, command: tuple[str, ...]) -> None:
    missing = run(*command, "--kubeconfig", str(tmp_path / "none"))
    remedy = "correct it, or name another with --kubeconfig or KUBECONFIG"
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == f"error: kubeconfig {tmp_path / 'none'}: no such file: {remedy}\n"

    path = kubeconfig(tmp_path / "config")
    other = run(*command, "--kubeconfig", path, "--context", "test")
    assert other.returncode == 2
    problem = "--context: there is no context 'test' (contexts: prod)"
    assert other.stderr == f"error: kubeconfig {path}: {problem}: name one of them with --context\n"

    silent = run(*command, "--kubeconfig", path)
    assert silent.returncode == 2
    (line,) = silent.stderr.splitlines()
    assert line.startswith("error: cluster prod: cannot connect to http://127.0.0.1:1: ")
    assert f"check the context prod of kubeconfig {path}" in line


@pytest.mark.parametrize("command", [("dump", "-o", "-"), ("simulate", "--cluster")], ids=lambda each: each[0])
def test_without_a_kubeconfig_there_are_no_contexts(tmp_path: Path, command: tuple[str, ...]) -> None:
    found = run(*command, "--context", "nowhere", HOME=str(tmp_path), KUBECONFIG="")
    why = "there is no kubeconfig (KUBECONFIG is not set, and there is no ~/.kube/config)"
    remedy = "name a kubeconfig with --kubeconfig or KUBECONFIG"
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"error: --context: {why}, so no context 'nowhere' can be used: {remedy}\n"


def test_files_or_a_cluster_have_to_be_named_and_a_context_needs_the_cluster() -> None:
    nothing = run("simulate")
    assert (nothing.returncode, "read a running one with --cluster" in nothing.stderr) == (2, True)
    alone = run("simulate", "x.yaml", "--context", "prod")
    assert (alone.returncode, "--context is for --cluster" in alone.stderr) == (2, True)


def test_a_private_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def breaking() -> object:
        yield b"half"
        raise ValueError("by the test")

    with pytest.raises(ValueError, match="by the test"):
        write_private(path, breaking(), overwrite=True)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    write_private(path, [b"one", b"two"], overwrite=False)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"onetwo", 0o600)
    with pytest.raises(FileExistsError):
        write_private(path, [b"three"], overwrite=False)
    assert path.read_bytes() == b"onetwo"
    write_private(path, [b"three"], overwrite=True)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"three", [path])
