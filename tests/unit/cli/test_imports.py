"""What ``kai-sched simulate`` does not import for the dump of a plain cluster: importing takes most of its time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command import environment
from tests.unit.cli.test_simulate import objects, plain
from tests.unit.files.inputs import thing

# Libraries that other commands need, the compiler, YAML; and ours that only some inputs need.
UNUSED = (
    "aiohttp",
    "cryptography",
    "kai_sched.api.bindrequest",
    "kai_sched.api.config",
    "kai_sched.api.scheduler_file",
    "kai_sched.api.shard",
    "kai_sched.cluster",
    "kai_sched.files.controllers.registry",
    "kai_sched.operator",
    "kai_sched.reconcile.grouping",
    "kopf",
    "kubernetes_asyncio",
    "llvmlite",
    "numba",
    "numpy.ma",
    "prometheus_client",
    "rich",
    "structlog",
    "uvloop",
    "yaml",
)
RUN = """
import sys
from kai_sched.cli.main import main
try:
    main()
except SystemExit as done:
    print(done.code, *sorted(sys.modules), file=sys.stderr)
"""


def imported(folder: Path, items: list[dict[str, Any]]) -> set[str]:
    """The modules of a process that has simulated a cycle of a cluster of these objects, in JSON."""
    command = [sys.executable, "-c", RUN, "simulate", plain(folder, items)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    status, *modules = done.stderr.splitlines()[-1].split()
    assert status == "0"
    assert "kai_sched.solver.pipeline" in modules
    return set(modules)


def test_a_plain_cluster_needs_few_modules(tmp_path: Path) -> None:
    assert sorted(imported(tmp_path, objects()) & set(UNUSED)) == []


@pytest.mark.parametrize(
    ("item", "module"),
    [
        (thing("Config", "kai-config"), "kai_sched.api.config"),
        (thing("SchedulingShard", "default"), "kai_sched.api.shard"),
        (thing("Job", "train", {"template": {}}, apiVersion="batch/v1"), "kai_sched.files.controllers.registry"),
    ],
)
def test_what_an_input_needs_is_imported(item: dict[str, Any], module: str, tmp_path: Path) -> None:
    assert module in UNUSED
    assert module in imported(tmp_path, [*objects(), item])
