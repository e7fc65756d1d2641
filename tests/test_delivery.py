"""What surrounds the package: the CI script, the image, the packaging."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from tests.tree import ROOT


def run_ci(checkout: Path, conformance: str | None) -> subprocess.CompletedProcess[str]:
    """Run .ci/run in a bare copy, where `make` only says what it was asked and with which conformance folder."""
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci")
    programs = checkout / "programs"
    programs.mkdir()
    (programs / "make").write_text('#!/bin/sh\necho "make $* with ${KAI_CONFORMANCE_DIR-nothing}"\n')
    (programs / "make").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "KAI_CONFORMANCE_DIR"}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    if conformance is not None:
        environment["KAI_CONFORMANCE_DIR"] = conformance
    return subprocess.run([checkout / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)


def test_ci_runs_the_tests_without_conformance_data(tmp_path: Path) -> None:
    assert run_ci(tmp_path / "checkout", None).stdout == "make test with nothing\n"


def test_ci_finds_conformance_data_beside_the_checkout(tmp_path: Path) -> None:
    folder = tmp_path / "shared" / "conformance"
    folder.mkdir(parents=True)
    assert run_ci(tmp_path / "checkout", None).stdout == f"make test with {folder}\n"


def test_ci_takes_the_folder_that_is_named(tmp_path: Path) -> None:
    assert run_ci(tmp_path / "checkout", str(tmp_path)).stdout == f"make test with {tmp_path}\n"


def test_ci_fails_where_the_folder_named_is_missing(tmp_path: Path) -> None:
    for missing in (str(tmp_path / "nowhere"), ""):
        result = run_ci(tmp_path / f"checkout{len(missing)}", missing)
        assert (result.returncode, result.stdout) == (1, "")
        assert f"KAI_CONFORMANCE_DIR names '{missing}'" in result.stderr


def test_image_is_built_from_what_there_is() -> None:
    """Each path that the Dockerfile copies from the checkout exists, and .dockerignore lets it through."""
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    paths = {path for line in copied for path in line.split()}
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    let_through = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert paths == let_through
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_image_runs_the_installed_command_as_nobody() -> None:
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    command = next(iter(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]))
    assert f'ENTRYPOINT ["{command}"]' in stages[-1]
    assert "USER 10000:10000" in stages[-1]
    kernels = [re.findall(r"(?:KAI_SCHED_CACHE_DIR|NUMBA_\w+)=\S+", stage) for stage in stages]
    assert kernels[-1] == kernels[-2] != [], "the image must look for kernels where, and as, its build compiled them"


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for lock, ranges in (
        ("runtime", project["dependencies"]),
        ("dev", project["dependencies"] + project["optional-dependencies"]["dev"]),
    ):
        text = (ROOT / "requirements" / f"{lock}.txt").read_text()
        names = {re.split(r"[<>=]", entry)[0].lower() for entry in ranges}
        assert names - set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE)) == set()
