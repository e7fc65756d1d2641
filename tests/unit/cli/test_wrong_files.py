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


@pytest.fixture
def plan(cluster: str, tmp_path: Path) -> str:
    """Its plan."""
    return saved(tmp_path / "plan.json", "simulate", cluster, "-o", "json")


def saved(path: Path, *arguments: str) -> str:
    """The file with what the command prints."""
    path.write_text(ask(*arguments).stdout)
    return str(path)


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
    def test_a_plan_and_a_cluster(self, cluster: str, plan: str) -> None:
        message = (
            f"error: {plan}: a plan, but {cluster} is a cluster: "
            f"name two of a kind (`kai-sched simulate {cluster} -o json` prints its plan)\n"
        )
        assert told("diff", cluster, plan) == told("diff", plan, cluster) == message

    def test_a_plan_and_a_folder(self, plan: str, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        assert f"{plan}: a plan, but {tmp_path / 'folder'} is a cluster" in told("diff", str(tmp_path / "folder"), plan)

    def test_a_difference(self, cluster: str, plan: str, tmp_path: Path) -> None:
        found = saved(tmp_path / "set.json", "simulate", cluster, "--set", "queue/poor.gpu.quota=4", "-o", "json")
        message = (
            f"error: {found}: is a Difference, not a plan: "
            "make the plan without --set or another change (`kai-sched simulate CLUSTER -o json`)\n"
        )
        assert told("diff", plan, found) == told("diff", found, cluster) == message

    def test_another_answer(self, cluster: str, plan: str, tmp_path: Path) -> None:
        found = saved(tmp_path / "why.json", "explain", "whisper", cluster, "-o", "json")
        message = f"error: {found}: is an Explanation, not a plan: make the plan with `kai-sched simulate CLUSTER"
        assert told("diff", plan, found).startswith(message)

    @pytest.mark.parametrize("length", [200, -2])
    def test_a_plan_that_is_cut_short(self, cluster: str, plan: str, tmp_path: Path, length: int) -> None:
        cut = tmp_path / "cut.json"
        cut.write_text(Path(plan).read_text()[:length])
        for others in ([str(cut), plan], [plan, str(cut)], [str(cut), cluster], [cluster, str(cut)]):
            message = told("diff", *others)
            assert message.startswith(f"error: {cut}: line 1, column ")
            assert message.endswith("not valid JSON: it ends too early: correct the file\n")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "empty: write it again"),
            ('{"apiVersion": "v1", ', "line 1, column 21: not valid JSON: it ends too early: correct the file"),
            (None, "there is no such file: correct the path"),
        ],
        ids=["empty", "cut", "missing"],
    )
    def test_a_plan_and_what_cannot_be_read(self, plan: str, tmp_path: Path, content: str | None, message: str) -> None:
        other = tmp_path / "other.json"
        if content is not None:
            other.write_text(content)
        assert told("diff", plan, str(other)) == f"error: {other}: {message}\n"

    def test_plans_that_are_not_one_of_json(self, cluster: str, plan: str, tmp_path: Path) -> None:
        as_yaml = saved(tmp_path / "plan.yaml", "simulate", cluster, "-o", "yaml")
        assert told("diff", plan, as_yaml) == f"error: {as_yaml}: a plan as YAML: print it with -o json\n"
        several = tmp_path / "several.json"
        several.write_text(Path(plan).read_text() * 2)
        assert told("diff", plan, str(several)) == f"error: {several}: 2 plans: name a file with one\n"

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
