"""The commands around ``simulate``, and what it costs to ask for help."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import kai_sched
from tests.unit.cli.command import COMMAND, ROOT, environment, run

RUNS = 7
HEAVY = ("kopf", "msgspec", "numba", "numpy", "pydantic", "rich", "structlog", "yaml")


def seconds(command: list[str]) -> float:
    """The least of several runs, as everything that disturbs makes it longer."""
    taken = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment(), check=True)
        taken.append(time.perf_counter() - started)
    return min(taken)


@pytest.mark.alone
@pytest.mark.slow
def test_help_costs_at_most_half_as_much_again_as_an_empty_application(tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("import typer\napp = typer.Typer()\n\n@app.command()\ndef main() -> None:\n    pass\n\napp()\n")
    assert seconds([*COMMAND, "--help"]) <= 1.5 * seconds([sys.executable, str(empty), "--help"])


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, typer; before = set(sys.modules); import kai_sched.cli.main\n"
        f"print(sorted(set({HEAVY!r}) & (sys.modules.keys() - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"


def test_help_names_every_command_and_option() -> None:
    top = run("--help")
    assert top.returncode == 0
    assert all(
        f"\n  {name} " in top.stdout
        for name in ("completion", "diff", "doctor", "explain", "fit", "reserve", "simulate", "version", "warmup")
    )
    assert "--install-completion" not in top.stdout
    options = run("simulate", "--help").stdout
    assert all(
        f"--{name}" in options for name in ("actions", "cycles", "now", "config", "output", "solver", "scheduler-name")
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("simulate", "examples/teams", "-o", "jsn"), "'-o': 'jsn' is not one of table, wide, name, csv, json, yaml"),
        (("simulate", "examples/teams", "--solver", "x"), "'--solver': 'x' is not one of auto, compiled, interpreted"),
        (("run", "--log-level", "x"), "'--log-level': 'x' is not one of debug, info, warning, error"),
    ],
)
def test_a_choice_that_is_none_is_told_in_plain_words(arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("output", ["JSON", "json"])
def test_choices_may_be_written_in_any_case(output: str) -> None:
    assert run("simulate", "examples/teams", "-o", output).stdout.startswith("{")


def test_version() -> None:
    assert {run(word).stdout for word in ("version", "--version", "-V")} == {f"{kai_sched.__version__}\n"}


def test_a_command_without_files_says_what_is_missing() -> None:
    done = run("simulate")
    assert (done.returncode, done.stdout) == (2, "")
    assert "name files with a cluster, or read a running one with --cluster" in done.stderr


def test_warming_up_where_nothing_is_compiled() -> None:
    done = run("warmup", KAI_SCHED_JIT="off")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing to compile" in done.stdout


def test_warming_up_where_nothing_can_be_kept() -> None:
    done = run("warmup", KAI_SCHED_CACHE_DIR="/dev/null/kernels")
    assert (done.returncode, done.stdout) == (1, "")
    assert "set KAI_SCHED_CACHE_DIR to a folder that can be written" in done.stderr
    assert "Traceback" not in done.stderr
