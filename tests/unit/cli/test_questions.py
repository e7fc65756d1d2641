"""``kai-sched explain``, ``fit``, ``diff``, and ``simulate`` with changes, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from kai_sched.cli.main import app
from tests.unit.cli.busy_cluster import NOW, Manifest, node, queue, workload

# 16 GPUs, of which "rich" holds 12 with a quota of 8; "poor" has a quota of 8 and holds none.
BASE = [
    node("node-a", 8),
    node("node-b", 8),
    node("node-c", 8, unschedulable=True),
    queue("rich", "", 8, -1),
    queue("poor", "", 8, 8),
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "train"}, "value": 50},
    *workload("PyTorchJob/llama-sft", "rich", 2, 4, 120, ["node-a", "node-a"]),
    *workload("Job/sweep-1", "rich", 1, 4, 60, ["node-b"]),
]
WAITS = workload("PyTorchJob/whisper", "poor", 2, 8, 30)


def job(name: str, gpus: int, pods: int = 1, queue: str = "poor") -> Manifest:
    """A Job as its user writes it."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    template = {
        "metadata": {"labels": {"kai.scheduler/queue": queue}},
        "spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]},
    }
    meta = {"name": name, "namespace": "ml", "labels": {"kai.scheduler/queue": queue}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def write(path: Path, items: list[Manifest]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """The cluster in which "whisper" waits."""
    return write(tmp_path / "cluster.json", [*BASE, *WAITS])


@pytest.fixture
def base(tmp_path: Path) -> str:
    """The cluster in which nothing waits."""
    return write(tmp_path / "base.json", BASE)


def ask(*arguments: str, stdin: str | None = None, now: str | None = NOW) -> Result:
    """In this process: a new one takes a second."""
    return CliRunner().invoke(app, [*arguments, *(["--now", now] if now else [])], input=stdin)


class TestExplain:
    def test_why_and_what_would_start_it(self, cluster: str) -> None:
        done = ask("explain", "whisper", cluster)
        assert done.exit_code == 0
        text = " ".join(done.stdout.split())
        assert text.startswith("ml-poor/whisper PyTorchJob, queue poor, priority train (50), waiting 30m needs 2 pods")
        assert "limit: queue poor may hold 8 GPUs; it holds 0, and this asks for 16 GPUs" in text
        assert "Who holds the GPUs: rich 12 (+4 over quota)" in text
        assert "Any one of these starts it" in text
        assert "4 GPUs per pod instead of 8" in text

    def test_the_flags_of_each_change_start_it(self, cluster: str) -> None:
        """What ``-o wide`` prints is what ``simulate`` takes."""
        document = json.loads(ask("explain", "whisper", cluster, "-o", "json").stdout)
        wide = ask("explain", "whisper", cluster, "-o", "wide").stdout
        assert document["suggestions"]
        for each in document["suggestions"]:
            assert " ".join(each["flags"]) in wide
            options = [part for flag in each["flags"] for part in flag.split(" ", 1)]
            told = ask("simulate", cluster, *options).stdout
            assert "starts: whisper (PyTorchJob)" in told, each

    def test_data(self, cluster: str) -> None:
        document = json.loads(ask("explain", "ml-poor/whisper", cluster, "-o", "json").stdout)
        assert (document["apiVersion"], document["kind"]) == ("kai-sched.io/v1", "Explanation")
        assert document["workload"]["kind"] == "PyTorchJob"
        assert document["constraints"]
        assert yaml.safe_load(ask("explain", "whisper", cluster, "-o", "yaml").stdout) == document

    def test_after_a_change(self, cluster: str) -> None:
        done = ask("explain", "whisper", cluster, "--set", "queue/poor.gpu.limit=16", "--add-nodes", "2:like=node-a")
        assert "It starts without any change: evicts nobody." in done.stdout

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("whispr", "error: NAME: there is no workload 'whispr': did you mean 'whisper'?"),
            ("s", "error: NAME: 's' may be ml-"),
        ],
    )
    def test_a_name_that_is_not_clear(self, cluster: str, name: str, told: str) -> None:
        done = ask("explain", name, cluster)
        assert (done.exit_code, done.stdout) == (2, "")
        assert told in done.stderr

    def test_a_scenario_is_no_cluster_to_ask_about(self, tmp_path: Path) -> None:
        header = {"apiVersion": "kai-sched.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "x"}}
        path = tmp_path / "scenario.json"
        path.write_text(json.dumps({**header, "spec": {"now": NOW, "actions": ["allocate"], "objects": BASE}}))
        done = ask("explain", "whisper", str(path))
        assert (done.exit_code, done.stdout) == (2, "")
        assert "a scenario file is no cluster to ask about: name files with Kubernetes objects" in done.stderr

    def test_without_a_cluster(self) -> None:
        done = ask("explain", "whisper")
        assert done.exit_code == 2
        assert "name files with a cluster, or read a running one with --cluster" in done.stderr


class TestFit:
    @pytest.mark.parametrize(
        ("asked", "status", "told"),
        [
            (job("one", 4), 0, "ml/one (Job, queue poor) runs now: 1 pod, 4 GPUs on node-b; evicts nobody"),
            (
                job("big", 8),
                4,
                "ml/big (Job, queue poor) runs once others have left: 1 pod, 8 GPUs on node-b; evicts sweep-1",
            ),
            (job("more", 16), 3, "ml/more (Job, queue poor) waits: limit 8 < 0 + 16"),
        ],
        ids=["runs", "evicts", "waits"],
    )
    def test_the_answer_and_its_exit_status(
        self, base: str, tmp_path: Path, asked: Manifest, status: int, told: str
    ) -> None:
        path = tmp_path / "work.yaml"
        path.write_text(yaml.safe_dump(asked))
        done = ask("fit", str(path), "--on", base, "--exit-code")
        assert done.stdout.startswith(told)
        assert done.stdout.count("\n") == 1
        assert done.exit_code == status
        assert ask("fit", str(path), "--on", base).exit_code == 0

    def test_several_workloads_have_the_status_of_the_worst(self, base: str, tmp_path: Path) -> None:
        runs, waits = (tmp_path / f"{name}.yaml" for name in ("runs", "waits"))
        runs.write_text(yaml.safe_dump(job("one", 4)))
        waits.write_text(yaml.safe_dump(job("more", 16)))
        done = ask("fit", str(runs), str(waits), "--on", base, "--exit-code")
        assert (done.exit_code, done.stdout.count("\n")) == (3, 2)
        document = json.loads(ask("fit", str(tmp_path / "runs.yaml"), str(waits), "--on", base, "-o", "json").stdout)
        assert {each["workload"]["name"]: each["verdict"] for each in document["items"]} == {
            "one": "runs",
            "more": "waits",
        }

    @pytest.mark.parametrize("spelt", ["folder", "folder/", "folder/../folder", "folder/work.yaml"])
    def test_workloads_are_found_however_their_place_is_spelt(self, base: str, tmp_path: Path, spelt: str) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "work.yaml").write_text(yaml.safe_dump(job("one", 4)))
        done = ask("fit", f"{tmp_path}/{spelt}", "--on", base)
        assert (done.exit_code, done.stdout.startswith("ml/one (Job, queue poor) runs now")) == (0, True), done.stderr

    def test_what_the_files_add_to_the_cluster_is_told(self, tmp_path: Path, base: str) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
        path = write(tmp_path / "own.json", [node("own", 64), queue("own", "", 64, -1), namespace, job("big", 64)])
        done = ask("fit", path, "--on", base)
        assert "WORKLOAD: adds Node own, Queue own to the cluster, and the answer is for" in done.stderr
        assert "adds" not in ask("fit", write(tmp_path / "one.json", [namespace, job("one", 4)]), "--on", base).stderr

    def test_from_standard_input(self, base: str) -> None:
        done = ask("fit", "-", "--on", base, "--exit-code", stdin=yaml.safe_dump(job("one", 4)))
        assert (done.exit_code, done.stdout.startswith("ml/one (Job, queue poor) runs now")) == (0, True), done.stderr

    def test_after_a_change(self, base: str, tmp_path: Path) -> None:
        path = tmp_path / "work.yaml"
        path.write_text(yaml.safe_dump(job("big", 8)))
        done = ask("fit", str(path), "--on", base, "--exit-code", "--uncordon", "node-c")
        assert (done.exit_code, "runs now: 1 pod, 8 GPUs on node-c" in done.stdout) == (0, True)

    def test_bad_input_has_status_2(self, base: str, tmp_path: Path) -> None:
        nothing = write(tmp_path / "nothing.json", [queue("x", "", 0, -1)])
        done = ask("fit", nothing, "--on", base, "--exit-code")
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"error: WORKLOAD: no pod of this scheduler in {nothing}: name files with workloads" in done.stderr
        assert ask("fit", str(tmp_path / "missing.yaml"), "--on", base, "--exit-code").exit_code == 2
        assert ask("fit", nothing, "--exit-code").exit_code == 2
        assert "name files with the cluster by --on" in ask("fit", nothing).stderr


class TestChanges:
    """Each with its flag: the output is the difference."""

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            (["--set", "queue/poor.gpu.limit=16", "--add-nodes", "2:like=node-a"], "starts: whisper (PyTorchJob)"),
            (["--uncordon", "node-c"], "queue rich: fair share 8 -> 12"),
            (["--set", "workload/whisper.gpus=4"], "starts: whisper (PyTorchJob)"),
            (["--set", "queue/poor.gpu.quota=4"], "queue poor: quota 8 -> 4"),
            (["--add-nodes", "1:like=node-a"], "queue rich: fair share 8 -> 12 GPUs"),
            (["--drain", "node-b"], "no longer runs: sweep-1 (Job)"),
            (["--remove", "sweep-1"], "gone: sweep-1 (Job)"),
            (["--remove", "job/sweep-1", "--remove", "llama-sft"], "gone: llama-sft (PyTorchJob), sweep-1 (Job)"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_each_flag(self, cluster: str, options: list[str], told: str) -> None:
        done = ask("simulate", cluster, *options)
        assert done.exit_code == 0, done.stderr
        assert any(line.startswith(told) for line in done.stdout.splitlines()), done.stdout

    def test_objects_of_a_file_replace_others(self, cluster: str, tmp_path: Path) -> None:
        path = write(tmp_path / "override.json", [queue("poor", "", 16, 16), node("node-d", 8), node("node-e", 8)])
        done = ask("simulate", cluster, "--override", path)
        assert "starts: whisper (PyTorchJob)" in done.stdout.splitlines()
        assert any(line.startswith("queue poor: quota 8 -> 16") for line in done.stdout.splitlines())

    def test_data(self, cluster: str) -> None:
        done = ask("simulate", cluster, "--remove", "sweep-1", "-o", "json")
        document = json.loads(done.stdout)
        assert (document["apiVersion"], document["kind"]) == ("kai-sched.io/v1", "Difference")
        assert [each["name"] for each in document["gone"]] == ["sweep-1"]

    def test_two_clusters(self, cluster: str, base: str) -> None:
        done = ask("diff", base, cluster)
        assert done.exit_code == 0
        assert "new: whisper (PyTorchJob)" in done.stdout.splitlines()
        assert "gone: whisper (PyTorchJob)" in ask("diff", cluster, base).stdout.splitlines()
        assert ask("diff", base, base).stdout == "nothing differs\n"

    def test_two_clusters_of_which_one_is_missing(self, base: str) -> None:
        done = ask("diff", base, "missing.json")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "missing.json: there is no such file" in done.stderr
