"""Compiled or interpreted: by the work there is, by what is in the cache, and as it is wanted."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kai_sched
from kai_sched import library
from kai_sched.files.load import load
from kai_sched.model.config import Config
from kai_sched.model.constraints import PodTerm
from kai_sched.model.objects import Node, Phase, Pod, Shape
from kai_sched.model.store import Cluster
from kai_sched.telemetry.progress import Progress
from tests.unit.cli.command import ROOT, environment

ALL = ("allocate", "reclaim")


@pytest.mark.parametrize(
    ("effort_s", "n_nodes", "solver", "warm", "done"),
    [
        (library.LOAD_S, 1, "auto", True, "interpreted"),
        (library.LOAD_S, 1, "auto", False, "interpreted"),
        (library.LOAD_S + 1, 1, "auto", True, ""),
        (library.LOAD_S + 1, 1, "auto", False, "interpreted"),
        (library.COMPILE_S, 1, "auto", False, "interpreted"),
        (library.COMPILE_S + 1, 1, "auto", True, ""),
        (library.COMPILE_S + 1, 1, "auto", False, "compiled"),
        (0.0, library.MANY_NODES, "auto", True, ""),
        (0.0, library.MANY_NODES, "auto", False, "interpreted"),
        (0.0, 1, "compiled", True, ""),
        (0.0, 1, "compiled", False, "compiled"),
        (library.COMPILE_S + 1, 1, "interpreted", True, "interpreted"),
    ],
)
def test_the_choice(
    effort_s: float, n_nodes: int, solver: str, warm: bool, done: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr("kai_sched.solver.jit.warm", lambda: warm)
    monkeypatch.setattr("kai_sched.solver.jit.interpret", lambda: calls.append("interpreted"))
    monkeypatch.setattr("kai_sched.solver.warmup.compile_all", lambda: calls.append("compiled"))
    stream = io.StringIO()
    library.choose(effort_s, n_nodes, solver, Progress(stream))
    assert calls == ([done] if done else [])
    assert ("compiling the solver" in stream.getvalue()) is (done == "compiled")


def test_equal_pods_count_once_and_those_that_run_not_at_all() -> None:
    shape = Shape(request=(("pods", 1.0),))
    alike = [Pod("ml", f"alike-{number}", shape) for number in range(4)]
    running = Pod("ml", "running", Shape(), node="node-1", phase=Phase.RUNNING)
    nodes = [Node("node-1"), Node("node-2")]
    effort_s = library.effort_s(Cluster.of([*nodes, *alike, running]), ["allocate"])
    assert effort_s == pytest.approx(4 * library.POD_S + 2 * library.PAIR_S)


def test_pods_that_look_at_each_other_count_each() -> None:
    shape = Shape(anti_affinity=(PodTerm("kubernetes.io/hostname", ()),))
    pods = [Pod("ml", f"apart-{number}", shape) for number in range(3)]
    effort_s = library.effort_s(Cluster.of([Node("node-1"), *pods]), ALL)
    assert effort_s == pytest.approx(3 * library.POD_S + 3 * library.PAIR_S)


def test_where_pods_may_be_evicted_each_that_runs_counts_for_each_that_waits() -> None:
    pods = [Pod("ml", f"waits-{number}", Shape()) for number in range(3)]
    pods += [Pod("ml", f"runs-{number}", Shape(), node="node-1", phase=Phase.RUNNING) for number in range(2)]
    cluster = Cluster.of(pods)
    more_s = library.effort_s(cluster, ALL) - library.effort_s(cluster, ["allocate"])
    assert more_s == pytest.approx(6 * library.VICTIM_S)


def python(code: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """What a program that uses the library prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**changes), check=True, cwd=ROOT)


def test_a_small_cluster_is_decided_at_once_where_nothing_is_compiled(tmp_path: Path) -> None:
    """The example of docs/library.md, before anything was warmed up."""
    code = (
        "import sys, runpy; runpy.run_path('examples/library.py', run_name='__main__'); print('numba' in sys.modules)"
    )
    done = python(code, KAI_SCHED_CACHE_DIR=str(tmp_path), KAI_SCHED_JIT="")
    assert done.stdout.endswith("False\n"), done
    assert done.stdout.startswith("bind ml/small-0")
    assert done.stderr == ""


def test_a_cluster_without_selectors_is_decided_without_the_cel_library() -> None:
    code = "import sys, runpy; runpy.run_path('examples/library.py', run_name='__main__'); print('cel' in sys.modules)"
    assert python(code).stdout.endswith("False\n")


def test_the_public_names_are_shown() -> None:
    assert {"Cluster", "Config", "run_cycle", "__version__"} == set(dir(kai_sched)) & {
        *("Cluster", "Config", "run_cycle", "__version__", "Any", "annotations")
    }


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: load("/in.yaml"), TypeError, "write load(['/in.yaml'])"),
        (lambda: load(b"in.yaml"), TypeError, "load takes a list of paths"),  # type: ignore[arg-type]
        (lambda: load(Path("in.yaml")), TypeError, "write load(['in.yaml'])"),  # type: ignore[arg-type]
        (lambda: load([Path("in.yaml")]), TypeError, "load takes paths as texts"),  # type: ignore[list-item]
        (lambda: Config(actions="allocate"), TypeError, "write ('allocate',)"),  # type: ignore[arg-type]
        (lambda: Config(actions=("foo",)), ValueError, "there is no action 'foo': use some of allocate, "),
        (lambda: Config(victims="fewest"), ValueError, "victims is one of minimal, original"),
        (lambda: Cluster.of([{}]), TypeError, "not of dict: kai_sched.load(objects)"),  # type: ignore[list-item]
        (lambda: Cluster.of(["in.yaml"]), TypeError, "not of str"),  # type: ignore[list-item]
    ],
)
def test_wrong_arguments_are_told_at_once(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
