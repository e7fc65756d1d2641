"""Where the programs of the cluster tests come from, and what is said where they cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import components
from tests.tree import ROOT


def collect_without_go(empty: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What pytest makes of a cluster test where no program can be found."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "tests/cluster/test_control_plane.py", *arguments]
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", components.ASSETS)}
    given = kept | {"PATH": str(empty)} | environment
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)


def test_without_go_the_cluster_tests_are_left_out_with_a_loud_line(tmp_path: Path) -> None:
    done = collect_without_go(tmp_path)
    assert "CLUSTER TESTS LEFT OUT: Go is not installed" in done.stdout
    assert "no tests collected" in done.stdout


def test_without_go_ci_fails(tmp_path: Path) -> None:
    done = collect_without_go(tmp_path, CI="true")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "the cluster tests cannot run: Go is not installed" in done.stdout + done.stderr


def test_the_fast_tests_do_not_miss_go(tmp_path: Path) -> None:
    done = collect_without_go(tmp_path, "-m", "not slow and not cluster", CI="true")
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "LEFT OUT" not in done.stdout


def test_the_folder_of_assets_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = components.program("etcd", "etcd")
    (tmp_path / "etcd").touch()
    monkeypatch.setenv(components.ASSETS, str(tmp_path))
    assert components.program("etcd", "etcd") == tmp_path / "etcd"
    assert components.program("kwok", "kwok").parent != tmp_path
    monkeypatch.delenv(components.ASSETS)
    assert components.program("etcd", "etcd") == built


def test_the_folder_of_assets_has_one_version_of_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kube-apiserver").touch()
    monkeypatch.setenv(components.ASSETS, str(tmp_path))
    assert components.program("kubernetes", "kube-apiserver").parent == tmp_path
    assert components.program("kubernetes-1.37", "kube-apiserver").parent != tmp_path


def test_what_is_built_is_not_built_again(capsys: pytest.CaptureFixture[str]) -> None:
    components.build(["etcd"])
    assert capsys.readouterr().out == f"cluster tools: etcd: in {components.program('etcd', 'etcd').parent}\n"


def test_kwok_has_its_stages() -> None:
    names = {path.name for path in components.kwok_stages()}
    assert names == {
        "node-heartbeat.yaml",
        "node-initialize.yaml",
        "pod-complete.yaml",
        "pod-delete.yaml",
        "pod-ready.yaml",
    }
