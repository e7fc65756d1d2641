"""A program of a user of the package, as its type checker sees it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT
from tests.unit.cli.command import environment

PROGRAM = """
import kai_sched
from kai_sched import LoadedCluster

cluster = kai_sched.load(["examples/teams", {"kind": "Node"}, b""])
reveal_type(cluster)
result = cluster.with_queue("team-a", gpu_quota=3, memory_quota="2Gi").drain("gpu-node-1").simulate(cycles=2)
reveal_type(result.queues["team-a"].fair_share.gpu)
reveal_type(result.waiting[0].why)
reveal_type(result.evictions[0].victims[0].gpus)
reveal_type(result.pods["ml/x"].node)
reveal_type(cluster.explain("x").suggestions[0][0].text)
reveal_type(cluster.fit("x.yaml")[0].verdict)
reveal_type(cluster.diff(cluster).starts[0].name)
reveal_type(result.to_dict())
kai_sched.load(5)
cluster.simulate(now=5)
cluster.with_queue("team-a", gpu_qota=3)
result.queue
"""
REVEALED = [
    "kai_sched.notebook.loaded_cluster.LoadedCluster",
    "float",
    "str",
    "float",
    "str",
    "str",
    "Literal['runs'] | Literal['evicts'] | Literal['waits']",
    "str",
    "dict[str, Any]",
]
ERRORS = ["arg-type", "arg-type", "call-arg", "attr-defined"]


@pytest.mark.slow
def test_types_reach_the_user(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    text = done.stdout.replace("builtins.", "")
    assert re.findall(r'Revealed type is "(.*)"', text) == REVEALED
    assert re.findall(r"program.py:\d+: error: .*\[([a-z-]+)\]", text) == ERRORS, text
