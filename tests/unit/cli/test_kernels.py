"""Compiled or interpreted: by the work there is, and by what is in the cache."""

from __future__ import annotations

import io

import pytest

from kai_sched.cli import kernels
from kai_sched.model.objects import Node, Phase, Pod, PodTerm, Shape
from kai_sched.model.store import Cluster
from kai_sched.telemetry.progress import Progress


@pytest.mark.parametrize(
    ("effort_s", "warm", "done"),
    [
        (kernels.LOAD_S, True, "interpreted"),
        (kernels.LOAD_S, False, "interpreted"),
        (kernels.LOAD_S + 1, True, ""),
        (kernels.LOAD_S + 1, False, "interpreted"),
        (kernels.COMPILE_S, False, "interpreted"),
        (kernels.COMPILE_S + 1, True, ""),
        (kernels.COMPILE_S + 1, False, "compiled"),
    ],
)
def test_the_choice(effort_s: float, warm: bool, done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("kai_sched.solver.jit.warm", lambda: warm)
    monkeypatch.setattr("kai_sched.solver.jit.interpret", lambda: calls.append("interpreted"))
    monkeypatch.setattr("kai_sched.solver.warmup.compile_all", lambda: calls.append("compiled"))
    stream = io.StringIO()
    kernels.choose(effort_s, Progress(stream))
    assert calls == ([done] if done else [])
    assert ("compiling the solver" in stream.getvalue()) is (done == "compiled")


def test_equal_pods_count_once_and_those_that_run_not_at_all() -> None:
    shape = Shape(request=(("pods", 1.0),))
    alike = [Pod("ml", f"alike-{number}", shape) for number in range(4)]
    running = Pod("ml", "running", Shape(), node="node-1", phase=Phase.RUNNING)
    nodes = [Node("node-1"), Node("node-2")]
    effort_s = kernels.effort_s(Cluster.of([*nodes, *alike, running]))
    assert effort_s == pytest.approx(4 * kernels.POD_S + 2 * kernels.PAIR_S)


def test_pods_that_look_at_each_other_count_each() -> None:
    shape = Shape(anti_affinity=(PodTerm("kubernetes.io/hostname", ()),))
    pods = [Pod("ml", f"apart-{number}", shape) for number in range(3)]
    effort_s = kernels.effort_s(Cluster.of([Node("node-1"), *pods]))
    assert effort_s == pytest.approx(3 * kernels.POD_S + 3 * kernels.PAIR_S)
