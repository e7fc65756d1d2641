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


class TestDiff:
    def test_the_times_of_two_clusters_are_told_apart(self, tmp_path: Path) -> None:
        times = {"a": "2026-01-01T09:00:00Z", "b": "2026-01-02T09:00:00Z"}
        paths = []
        for name, time in times.items():
            (tmp_path / name).mkdir()
            dump = {"apiVersion": "kai-sched.io/v1", "kind": "ClusterDump", "metadata": {"time": time}, "items": BASE}
            (tmp_path / name / "dump.json").write_text(json.dumps(dump))
            paths.append(str(tmp_path / name))
        done = ask("diff", *paths, now=None)
        assert done.stderr.splitlines() == [
            f"as of 2026-01-01 09:00 UTC, the time of the dump ({paths[0]})",
            f"as of 2026-01-02 09:00 UTC, the time of the dump ({paths[1]})",
        ]


class TestSwappedArguments:
    REMEDY = "the name comes first: kai-sched explain NAME CLUSTER\n"

    def test_a_file_in_place_of_the_name(self, cluster: str) -> None:
        message = f"error: NAME: {cluster} is a file: {self.REMEDY}"
        assert told("explain", cluster, "whisper") == told("explain", cluster) == message
        assert told("explain", cluster, cluster) == message

    def test_a_workload_may_be_called_as_a_file(
        self, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "whisper").write_text("")
        monkeypatch.chdir(tmp_path)
        assert ask("explain", "whisper", cluster).exit_code == 0
        assert "--runtime: there is no workload" in told("explain", "whisper", cluster, "--runtime", "job/nobody=2h")
