"""``kai-sched simulate`` from the outside: what it prints, and what it says of input that it cannot use."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.command import COMMAND, ROOT, environment, run

NOON = "2026-01-01T12:00:00Z"
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
TEAMS_TIME = "as of 2026-01-01 09:30 UTC, the newest time in the files\n"  # of examples/teams


def pod(name: str, node: str = "", deleted: bool = False) -> list[dict[str, Any]]:
    """A pod with one GPU in a group of its own name."""
    meta = {"namespace": "ml", "name": name, "creationTimestamp": NOON}
    labels = {"kai.scheduler/queue": "team-a"}
    ends = {"deletionTimestamp": NOON} if deleted else {}
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "schedulerName": "kai-scheduler",
        "nodeName": node,
        "containers": [{"name": "main", "resources": resources}],
    }
    return [
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": meta,
            "spec": {"queue": "team-a", "minMember": 1},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, **ends, "labels": labels, "annotations": {"pod-group-name": name}},
            "spec": spec,
            "status": {"phase": "Running" if node else "Pending"},
        },
    ]


def objects() -> list[dict[str, Any]]:
    """One GPU, which a pod is about to leave, and one pod that wants it."""
    allocatable = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "1", "pods": "110"}
    shares = {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": UNLIMITED}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"allocatable": allocatable}},
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "team-a"},
            "spec": {"resources": shares},
        },
        *pod("leaves", "node-1", deleted=True),
        *pod("wants"),
    ]


def plain(folder: Path, items: list[dict[str, Any]] | None = None) -> str:
    file = folder / "cluster.json"
    items = objects() if items is None else items
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def scenario(folder: Path, **spec: Any) -> str:
    file = folder / "scenario.json"
    spec = {"actions": ["allocate"], "cycles": 1, "now": NOON, "objects": objects(), **spec}
    header = {"apiVersion": "kai-sched.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "one GPU"}}
    file.write_text(json.dumps({**header, "spec": spec}))
    return str(file)


@pytest.mark.slow
def test_the_example_tells_its_three_stories() -> None:
    done = run("simulate", "examples/teams")
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    assert f"19 used, 5 free {TEAMS_TIME.strip()}" in words
    assert "bert-finetuning PodGroup team-a 2 pods, 8 GPU gpu-node-1 (2)" in words
    assert "llama-pretraining PodGroup team-a 3x8 GPU 10m no room; claim 16 < 9 + 24" in words
    assert "resnet-sweep PodGroup team-b 5 pods, 10 GPU gpu-node-2 (2), gpu-node-3 (3)" in words
    assert "team-b 10 8 8 ██████████▌ +2 over quota" in words


@pytest.mark.slow
def test_the_order_of_files_does_not_matter() -> None:
    files = sorted(str(path) for path in (ROOT / "examples" / "teams").glob("*.yaml"))
    answers = [json.loads(run("simulate", "-o", "json", *order).stdout) for order in (files, files[::-1])]
    assert answers[0]["cycles"] == answers[1]["cycles"]


@pytest.mark.slow
def test_a_scenario_is_one_line_in_the_agreed_form(tmp_path: Path) -> None:
    file = scenario(tmp_path, cycles=2)
    done = run("simulate", "--output", "json", file)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    answer = json.loads(done.stdout)
    assert (answer["file"], answer["name"], list(answer)) == (
        file,
        "one GPU",
        ["apiVersion", "kind", "file", "name", "cycles"],
    )
    assert (answer["apiVersion"], answer["kind"]) == ("kai-sched.io/v1", "Simulation")
    first, second = answer["cycles"]
    assert list(first) == ["decided", "settled", "evicted", "moved", "nodes", "podGroups"]
    assert first["decided"] == {
        "ml/leaves": {"status": "Releasing", "node": "node-1"},
        "ml/wants": {"status": "Pipelined", "node": "node-1"},
    }
    assert {key: state["status"] for key, state in first["settled"].items()} == {
        "ml/leaves": "Pending",
        "ml/wants": "Pending",
    }
    # both are pending now, of the same age: the smaller uid, or else name, goes first
    assert second["decided"]["ml/leaves"] == {"status": "Binding", "node": "node-1"}
    assert second["settled"]["ml/leaves"] == {"status": "Running", "node": "node-1"}
    assert second["podGroups"]["ml/wants"]["reason"] == "PodSchedulingErrors"
    assert second["nodes"] == {"node-1": {"idleGPUs": 0.0, "releasingGPUs": 0.0}}


@pytest.mark.slow
def test_groups_that_keep_terminating_keep_their_node(tmp_path: Path) -> None:
    done = run("simulate", "-o", "json", scenario(tmp_path, cycles=2, keepsTerminating=["leaves"]))
    second = json.loads(done.stdout)["cycles"][1]
    assert [second["decided"][key]["status"] for key in ("ml/leaves", "ml/wants")] == ["Releasing", "Pipelined"]


@pytest.mark.slow
def test_in_a_plain_cluster_the_pod_that_leaves_is_gone(tmp_path: Path) -> None:
    answer = json.loads(run("simulate", "-o", "json", "--cycles", "2", "--now", NOON, plain(tmp_path)).stdout)
    assert answer["cycles"][1]["settled"] == {"ml/wants": {"status": "Running", "node": "node-1"}}
    assert answer["cycles"][1]["queues"]["team-a"]["allocated"]["gpu"] == 1
    assert answer["problems"] == []


def two_that_give_way() -> list[dict[str, Any]]:
    """Two free nodes, one for ``a`` alone: consolidation gives ``a`` that one and ``b`` what ``a`` was to have."""
    _, queue, *_ = objects()
    allocatable = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "1", "pods": "110"}
    taints = [{"key": "only", "value": "others", "effect": "NoSchedule"}]
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": spec,
            "status": {"allocatable": allocatable},
        }
        for name, spec in (("node-1", {}), ("node-2", {"taints": taints}))
    ]
    first, second = pod("a"), pod("b")
    first[1]["spec"]["tolerations"] = [{"operator": "Exists"}]
    return [*nodes, queue, *first, *second]


@pytest.mark.slow
def test_room_that_is_promised_twice_is_given(tmp_path: Path) -> None:
    """In a plain cluster; a scenario whose clock stands still is asked the same again, and answers the same."""
    items = two_that_give_way()
    spec = {"objects": items, "actions": ["allocate", "consolidation"], "cycles": 3}

    def ends(*arguments: str) -> set[str]:
        done = run("simulate", "-o", "json", "--now", NOON, *arguments)
        return {state["status"] for state in json.loads(done.stdout)["cycles"][-1]["decided"].values()}

    assert ends("--cycles", "3", plain(tmp_path, items)) == {"Running"}
    assert ends(scenario(tmp_path, **spec)) == {"Pipelined"}
    assert ends(scenario(tmp_path, **spec, secondsBetweenCycles=1)) == {"Running"}


@pytest.mark.slow
def test_several_cycles_are_a_line_each_and_the_table_of_the_last(tmp_path: Path) -> None:
    lines = run("simulate", "--cycles", "2", "--now", NOON, plain(tmp_path)).stdout.splitlines()
    assert lines[:2] == ["Cycle 1: 0 pods bound, 1 pipelined, 0 evicted; nothing waits", ""]
    assert lines[2] == "Cluster  1 node, 1 GPU: 1 used, 0 free"
    assert lines[-2:] == ["STARTS NOW  1 pod in 1 workload", "  wants  PodGroup  team-a  1 pod, 1 GPU  node-1"]


@pytest.mark.slow
def test_several_clusters_are_told_apart(tmp_path: Path) -> None:
    done = run("simulate", scenario(tmp_path), plain(tmp_path), "--now", NOON)
    assert f"one GPU ({tmp_path}/scenario.json)" in done.stdout
    assert f"cluster ({tmp_path}/cluster.json)" in done.stdout


@pytest.mark.slow
def test_standard_input() -> None:
    text = yaml.safe_dump_all(objects())
    done = run("simulate", "--now", NOON, "-", stdin=text)
    assert done.returncode == 0
    assert "  wants  PodGroup  team-a  1 pod, 1 GPU  node-1\n" in done.stdout


@pytest.mark.slow
def test_yaml_says_the_same_as_json(tmp_path: Path) -> None:
    file = plain(tmp_path)
    as_yaml, as_json = (run("simulate", "--now", NOON, "-o", form, file).stdout for form in ("yaml", "json"))
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--actions", "allocate,nonsense"], "error: --actions: there is no action 'nonsense'"),
        (["--now", "yesterday"], "error: --now: 'yesterday' is not a time"),
        (["missing.yaml"], "error: missing.yaml: there is no such file"),
        (["--config", "missing.yaml"], "error: missing.yaml: "),
        (["--solver", "compiled"], "error: --solver: compiled, but KAI_SCHED_JIT=off is set: unset it"),
    ],
)
def test_what_cannot_be_used_is_told_on_a_line_and_nothing_is_decided(options: list[str], told: str) -> None:
    done = run("simulate", "examples/teams", *options, KAI_SCHED_JIT="off")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(told)


@pytest.mark.slow
def test_broken_input_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"kind": ')
    done = run("simulate", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {tmp_path}/broken.json")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_warnings_do_not_stop_the_rest(tmp_path: Path) -> None:
    stray = pod("stray")
    stray[0]["spec"]["queue"] = "no\x1b[2J-such-queue"
    done = run("simulate", "--now", NOON, plain(tmp_path, [*objects(), *stray]))
    assert done.returncode == 0
    assert done.stderr.startswith("warning: ")
    assert "  wants  PodGroup  team-a  1 pod, 1 GPU  node-1\n" in done.stdout
    assert "there is no queue 'no\\x1b[2J-such-queue'" in done.stdout
    assert "\x1b" not in done.stderr + done.stdout


@pytest.mark.slow
def test_a_file_that_gives_nothing_is_an_error(tmp_path: Path) -> None:
    """The kind is misspelt."""
    typo = tmp_path / "typo.yaml"
    typo.write_text("apiVersion: ray.io/v1\nkind: RayClustr\nmetadata: {name: a}\n")
    done = run("simulate", plain(tmp_path), str(typo))
    assert (done.returncode, done.stdout) == (2, "")
    told = f"error: {typo}: it has no object that the scheduler uses (RayClustr): correct the kind, or leave"
    assert told in done.stderr


@pytest.mark.slow
def test_pods_of_other_schedulers_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    stray = pod("stray")[1:]
    stray[0]["spec"]["schedulerName"] = "default-scheduler"
    del stray[0]["metadata"]["annotations"]
    done = run("simulate", "--now", NOON, plain(tmp_path, [*objects(), *stray]))
    assert "1 pod waiting for other schedulers (default-scheduler)." in done.stdout
    theirs = run(
        "simulate", "--now", NOON, "--scheduler-name", "default-scheduler", plain(tmp_path, [*objects(), *stray])
    )
    assert "1 pod waiting for other schedulers (kai-scheduler)." in theirs.stdout


@pytest.mark.slow
def test_the_solver_compiled_and_interpreted_say_the_same() -> None:
    first, second = (
        run("simulate", "examples/teams", "-o", "json", "--now", NOON, "--solver", solver, KAI_SCHED_JIT="")
        for solver in ("compiled", "interpreted")
    )
    assert first.stdout == second.stdout != ""
    assert (first.returncode, second.returncode) == (0, 0)


@pytest.mark.slow
def test_reasons_of_wide_tables_are_whole() -> None:
    (row,) = [
        line for line in run("simulate", "examples/teams", "-o", "wide").stdout.splitlines() if "errors" in line.lower()
    ]
    assert "ml-team-a/llama-pretraining  PodSchedulingErrors  0 of 3 pods of the gang fit; " in row
    assert "Free in all: 5 of 24 GPUs. Held by: team-b 10 GPUs, team-a 9 GPUs; " in row


@pytest.mark.slow
def test_room_that_nobody_can_use_is_not_called_free(tmp_path: Path) -> None:
    items = objects()
    items[0]["spec"] = {"unschedulable": True}
    done = run("simulate", "--now", NOON, plain(tmp_path, [*items[:2], *pod("wants")]))
    assert done.stdout.startswith("Cluster  1 node, 1 GPU: 0 used, 0 free, 1 on 1 unusable node\n")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [*COMMAND, "simulate", "examples/teams", "-o", "yaml"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read().decode() == TEAMS_TIME


@pytest.mark.slow
def test_output_that_cannot_be_written_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "simulate", "examples/teams"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "error: the output cannot be written: No space left on device\n",
    )


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_on_a_terminal_only_and_not_against_the_users_will(changes: dict[str, str], coloured: bool) -> None:
    controller, terminal = pty.openpty()
    command = [*COMMAND, "simulate", "examples/teams"]
    with subprocess.Popen(
        command, stdout=terminal, cwd=ROOT, env=environment(TERM="xterm-256color", **changes)
    ) as process:
        os.close(terminal)
        seen = b""
        try:
            while part := os.read(controller, 65536):
                seen += part
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
    os.close(controller)
    assert process.returncode == 0
    assert b"resnet-sweep" in seen
    assert (b"\x1b[" in seen) is coloured


@pytest.mark.slow
def test_no_colours_in_a_pipe_even_where_they_are_forced() -> None:
    assert "\x1b" not in run("simulate", "examples/teams", FORCE_COLOR="1").stdout


def test_the_library_example_runs() -> None:
    done = subprocess.run(
        [COMMAND[0], "examples/library.py"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(KAI_SCHED_JIT="off"),
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["bind ml/small-0 to node-1", "bind ml/small-1 to node-1"]
    assert lines[2].startswith("ml/large waits (PodSchedulingErrors): ")
