"""What is told of files that are mixed up: the file, what it is, and what to name in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.busy_cluster import NOW
from tests.unit.cli.test_questions import BASE, WAITS, ask, write


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """The cluster in which "whisper" waits."""
    return write(tmp_path / "cluster.json", [*BASE, *WAITS])


def told(*arguments: str) -> str:
    """The errors of a command that cannot use its input, and prints nothing else."""
    done = ask(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    return done.stderr


class TestScenario:
    def test_it_is_named(self, cluster: str, tmp_path: Path) -> None:
        header = {"apiVersion": "kai-sched.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "x"}}
        path = tmp_path / "scenario.json"
        path.write_text(json.dumps({**header, "spec": {"now": NOW, "actions": ["allocate"], "objects": BASE}}))
        message = f"error: {path}: a scenario file is no cluster to ask about: name files with Kubernetes objects\n"
        assert told("explain", "whisper", cluster, str(path)) == message
        assert told("simulate", str(path), "--drain", "node-a") == message
