"""What surrounds the package: the CI script, the image, the packaging."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tree import ROOT

LEFT_OUT = "CONFORMANCE WAS LEFT OUT"
SPREAD = "--numprocesses=auto --dist=worksteal"
SAYS_WHAT_IT_HAS = 'test test-all:\n\t@echo "make $@, CI=$$CI, conformance=$${KAI_CONFORMANCE_DIR-none}"\n'


def said(conformance: str) -> list[str]:
    """What the Makefile of the copy says if CI runs with these data."""
    return [f"make {target}, CI=true, conformance={conformance}" for target in ("test", "test-all")]


def programs(folder: Path, *missing: str) -> Path:
    """A folder with all that PATH has, but for these programs."""
    folder.mkdir()
    for place in map(Path, os.get_exec_path()):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name not in missing and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A bare copy with the script, and with a Makefile that only says what it was called with. Go is in its PATH."""
    path = tmp_path / "checkout"
    (path / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", path / ".ci")
    (path / "Makefile").write_text(SAYS_WHAT_IT_HAS)
    programs(tmp_path / "programs", "go")
    go = tmp_path / "programs" / "go"
    go.write_text("#!/bin/sh\n")
    go.chmod(0o755)
    return path


def run_ci(checkout: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the script as it is, with the real make."""
    names = ("CI", "KAI_CONFORMANCE_DIR", "KAI_TEST_KUBECONFIG", "PYTEST_ADDOPTS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["PATH"] = str(checkout.parent / "programs")
    command = [checkout / ".ci" / "run"]
    return subprocess.run(command, env=environment | given, capture_output=True, text=True, check=False)


def conformance_data(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "fairshare.jsonl").touch()
    return folder


def test_ci_fails_without_go(checkout: Path) -> None:
    (checkout.parent / "programs" / "go").unlink()
    done = run_ci(checkout)
    assert done.returncode == 1
    assert "go is not in PATH" in done.stderr
    assert "Install Go" in done.stderr
    assert "make test" not in done.stdout


def test_ci_says_last_that_conformance_was_left_out(checkout: Path) -> None:
    done = run_ci(checkout)
    *before, last = done.stdout.splitlines()
    assert (done.returncode, before) == (0, said("none"))
    assert last.startswith(LEFT_OUT)


def test_ci_fails_as_the_tests_do_and_still_says_what_was_left_out(checkout: Path) -> None:
    (checkout / "Makefile").write_text("test:\n\t@echo failed; exit 3\n")
    done = run_ci(checkout)
    assert done.returncode == 2  # make's word for a recipe that failed
    assert done.stdout.splitlines()[-1].startswith(LEFT_OUT)
    conformance_data(checkout.parent / "shared" / "conformance")
    done = run_ci(checkout)
    assert (done.returncode, done.stdout) == (2, "failed\n")


def test_ci_uses_the_conformance_data_beside_the_checkout(checkout: Path) -> None:
    folder = conformance_data(checkout.parent / "shared" / "conformance")
    done = run_ci(checkout)
    assert (done.returncode, done.stdout.splitlines()) == (0, said(str(folder)))


def test_ci_uses_the_conformance_data_that_are_named(checkout: Path) -> None:
    conformance_data(checkout.parent / "shared" / "conformance")
    named = conformance_data(checkout.parent / "named")
    done = run_ci(checkout, KAI_CONFORMANCE_DIR=str(named))
    assert (done.returncode, done.stdout.splitlines()) == (0, said(str(named)))


@pytest.mark.parametrize("beside", ["empty folder", "file", "broken link"])
def test_ci_fails_on_conformance_data_that_cannot_be_used(checkout: Path, beside: str) -> None:
    place = checkout.parent / "shared" / "conformance"
    place.parent.mkdir()
    if beside == "empty folder":
        place.mkdir()
    elif beside == "file":
        place.touch()
    else:
        place.symlink_to("nowhere")
    for given in ({}, {"KAI_CONFORMANCE_DIR": str(place)}, {"KAI_CONFORMANCE_DIR": ""}):
        done = run_ci(checkout, **given)
        assert (done.returncode, done.stdout) == (1, "")
        assert "is not a folder with a file fairshare.jsonl" in done.stderr


@pytest.mark.parametrize("name", ["KAI_TEST_KUBECONFIG", "PYTEST_ADDOPTS"])
def test_ci_refuses_what_leaves_tests_out(checkout: Path, name: str) -> None:
    done = run_ci(checkout, **{name: "-k nothing"})
    assert done.returncode == 1
    assert f"{name} is set" in done.stderr
    assert "make test" not in done.stdout


def recipe(*targets: str) -> str:
    """The commands that make would run for targets of the real Makefile."""
    names = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "TESTED")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    command = ["make", "--dry-run", "--always-make", f"PYTHON={sys.executable}", *targets]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_every_test_is_run_by_test_all_or_by_test_long() -> None:
    """Both run the whole tree, one without what is marked as long, in three parts, the other with that alone."""
    commands = re.findall(r"-m pytest (.*)", recipe("test-all"))
    rules = commands[0].removeprefix("--quiet ")
    assert rules.startswith("tests/test_architecture.py ")
    full = "--hypothesis-profile=full -m"
    left_out = " ".join(f"--ignore={path}" for path in rules.split())
    assert commands[1:4] == [
        f"{full} 'not (long or cluster or browser or alone)' {left_out} {SPREAD}",
        f"{full} 'cluster and not (long or alone)' --numprocesses=2 --dist=loadfile",
        f"{full} '(browser or alone) and not long'",
    ]
    long = recipe("test-long")
    assert re.findall(r"-m pytest (.*)", long) == ["--hypothesis-profile=full -m long"]
    assert re.findall(r"-m tests.cluster.soak (.*)", long) == ["--minutes 2"]


def test_ci_does_not_run_again_what_make_test_ran() -> None:
    """Of its tests those with generated examples are, with more of them."""
    assert re.search(
        r"^export TESTED=yes\nmake test\nmake test-all\Z", (ROOT / ".ci" / "run").read_text().strip(), re.M
    )
    commands = re.findall(r"-m pytest (.*)", recipe("test-all", "TESTED=yes"))
    again = "'not (long or cluster or browser or alone) and (slow or hypothesis)'"
    assert commands[1].startswith(f"--hypothesis-profile=full -m {again} ")


def test_what_is_long_is_left_out_of_the_fast_tests() -> None:
    chosen = ["'not slow and not cluster and not browser and not long' " + SPREAD]
    assert re.findall(r"-m pytest .* -m (.*)", recipe("test-fast")) == chosen


def test_people_run_the_checks_the_quick_tests_and_a_few_live_ones() -> None:
    """The last line says what was left out; live tests run where their programs are there, and none is built."""
    text = recipe("test")
    rules, quick, live = re.findall(r"-m pytest (.*)", text)
    assert rules.startswith("--quiet tests/test_architecture.py")
    assert quick.startswith("--hypothesis-profile=fast -m 'not slow and not cluster and not browser and not long'")
    assert live.startswith("-m essential tests/cluster")
    assert "-m tests.cluster.components built etcd kubernetes kwok" in text
    assert not re.search(r"-m tests.cluster.components(?! built)", text)
    assert re.search(r"echo 'Left out: .*\n.*make test-all.*make test-long.*\Z", text.strip())


def test_all_tests_have_a_browser() -> None:
    """The tests in Chromium fail without it, so it is there before them."""
    assert re.search(r"^test-all:.* chromium\b", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "-m tests.browser.chromium" in recipe("chromium")


def test_image_is_built_from_what_there_is() -> None:
    """Each path that the Dockerfile copies from the checkout exists, and .dockerignore lets it through; but for the
    wheel, which is made (`make dist`)."""
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    paths = {path for line in copied for path in line.split()}
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    let_through = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert paths == let_through
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == ["dist/*.whl"]


def test_image_runs_the_installed_command_as_nobody() -> None:
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    command = next(iter(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]))
    assert f'ENTRYPOINT ["{command}"]' in stages[-1]
    assert "USER 10000:10000" in stages[-1]


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    everything = project["dependencies"] + project["optional-dependencies"]["operator"]
    for lock, ranges in (
        ("runtime", everything),
        ("dev", everything + project["optional-dependencies"]["dev"]),
    ):
        text = (ROOT / "requirements" / f"{lock}.txt").read_text()
        names = {re.split(r"[<>=]", entry)[0].lower() for entry in ranges}
        assert names - set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE)) == set()
