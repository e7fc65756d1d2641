"""What ``kai-sched simulate`` shows of a busy cluster: on a terminal, in a pipe, and with each flag that chooses."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios

import pytest
import yaml
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from kai_sched.cli.main import app
from tests.unit.cli.busy_cluster import GPU_NODES, LONGEST, NOW, TREE, write
from tests.unit.cli.command import COMMAND, ROOT, environment, run

WAITING = [
    "pod/ml-vision/debug-typo",
    f"pytorchjob/ml-nlp/{LONGEST}",
    "pytorchjob/ml-vision/sam3-video-segmentation-pretrain",
    "pytorchjob/ml-speech/whisper-v4-multilingual-finetune",
    "raycluster/ml-search/cross-encoder-distill",
    *(f"job/ml-sandbox/hpo-sweep-trial-{number:03}" for number in range(40, 52)),
]
PLACED = ["pytorchjob/ml-ads/ads-embedding-refresh"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("busy"))


def simulate(cluster: str, *options: str) -> Result:
    """In this process: a new one takes a second."""
    return CliRunner().invoke(app, ["simulate", "--now", NOW, *options, cluster])


def names(cluster: str, *options: str) -> list[str]:
    done = simulate(cluster, "-o", "name", *options)
    assert done.exit_code == 0, done.stderr
    return done.stdout.splitlines()


def on_terminal(width: int, *arguments: str, **changes: str) -> list[str]:
    """The lines that the command writes on a terminal of so many columns, without colours."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, width, 0, 0))
    command = [*COMMAND, *arguments]
    env = environment(TERM="xterm-256color", NO_COLOR="1", **changes)
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL, cwd=ROOT, env=env) as process:
        os.close(terminal)
        seen = b""
        try:
            while part := os.read(controller, 65536):
                seen += part
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
    os.close(controller)
    assert process.returncode == 0
    return seen.decode().splitlines()


@pytest.mark.slow
def test_on_a_terminal_it_fits_60_lines_of_100_columns_and_no_name_is_broken(cluster: str) -> None:
    lines = on_terminal(100, "simulate", "--now", NOW, cluster)
    assert len(lines) <= 60
    assert max(cell_len(line) for line in lines) <= 100
    text = "\n".join(lines)
    assert "hpo-sweep-trial-{040..051} (12)" in text
    assert "\n  llama3-405b-" in text
    assert LONGEST not in text
    assert "…" in text
    assert "\nNot listed: 16 running workloads (--all), 60 finished pods, 130 pods waiting for other schedulers" in text


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 100, 200])
def test_on_any_terminal_lines_fit(cluster: str, width: int) -> None:
    lines = on_terminal(width, "simulate", "--now", NOW, "--all", cluster)
    assert max(cell_len(line) for line in lines) <= width


@pytest.mark.slow
def test_in_a_pipe_there_is_one_record_a_line_with_every_name_in_full(cluster: str) -> None:
    done = run("simulate", "--now", NOW, "--all", cluster)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)  # a warning about the queue that is misspelt
    assert "…" not in done.stdout
    (row,) = [line for line in done.stdout.splitlines() if LONGEST in line]
    assert row.split()[:4] == [LONGEST, "PyTorchJob", "nlp", "8x8"]
    (evicts,) = [line for line in done.stdout.splitlines() if line.startswith("  To place")]
    assert evicts == (
        "  To place 8 GPUs for ads-embedding-refresh this evicts assistant-serving-llama-70b (assistant): "
        "4 pods, 32 GPUs, up 15h; 24 GPUs stay free"
    )
    (runs,) = [line for line in done.stdout.splitlines() if "ads-two-tower-retraining" in line]
    assert all(name in runs for name in GPU_NODES[17:20])


def test_the_summary_and_the_queues(cluster: str) -> None:
    lines = simulate(cluster).stdout.splitlines()
    assert lines[0] == "Cluster  40 nodes, 200 GPUs: 160 used, 24 free, 16 on 2 unusable nodes"
    assert lines[2].split() == ["QUEUE", "(GPUS)", "USED", "FAIR", "SHARE", "QUOTA", "WAITING"]
    queues = [line.split()[0] for line in lines[3 : lines.index("", 3)]]
    assert sorted(queues) == sorted([*TREE, *(name for leaves in TREE.values() for name in leaves)])


def test_names_are_those_that_wait_or_start_and_with_all_those_that_run(cluster: str) -> None:
    assert names(cluster) == [*WAITING, *PLACED]
    everything = names(cluster, "--all")
    assert everything[: len(WAITING) + 1] == [*WAITING, *PLACED]
    assert "raycluster/ml-search/search-ranking-batch" in everything
    assert len(everything) == len(WAITING) + len(PLACED) + 16


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--pending"], WAITING),
        (["-n", "ml-nlp"], [WAITING[1]]),
        (["-n", "ml-speech", "-q", "ads"], []),
        (["-q", "speech"], [WAITING[3]]),
        (["--queue", "research"], WAITING[1:4]),
        (["-l", f"app={LONGEST}"], [WAITING[1]]),
        (["--selector", "app", "-q", "ads"], PLACED),
        (["-q", "product", "--pending"], [WAITING[4]]),
        (["--sort", "name", "-q", "research"], [WAITING[1], WAITING[2], WAITING[3]]),
        (["--sort", "gpus", "-q", "research"], [WAITING[1], WAITING[2], WAITING[3]]),
        (["--sort", "queue", "--pending", "-n", "ml-vision"], [WAITING[2], WAITING[0]]),
        (["--sort", "age", "--pending", "-n", "ml-vision"], [WAITING[0], WAITING[2]]),
    ],
    ids=" ".join,
)
def test_flags_choose_and_sort(cluster: str, options: list[str], found: list[str]) -> None:
    assert names(cluster, *options) == found


def test_only_what_waits(cluster: str) -> None:
    lines = simulate(cluster, "--pending").stdout.splitlines()
    titles = [line.split("  ")[0] for line in lines if line and not line.startswith(" ")]
    assert titles == [
        "Cluster",
        "WAITING",
        "Not listed: 60 finished pods, 130 pods waiting for other schedulers (default-scheduler).",
    ]


def test_without_headers_there_are_no_titles(cluster: str) -> None:
    done = simulate(cluster, "--no-headers", "--all")
    assert not any(word in done.stdout for word in ("QUEUE", "WAITING", "STARTS", "EVICTIONS", "RUNNING"))
    assert f"  {LONGEST}  " in done.stdout


def test_csv(cluster: str) -> None:
    done = simulate(cluster, "-o", "csv", "--now", NOW)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [f"{row['kind'].lower()}/{row['namespace']}/{row['name']}" for row in rows if row["state"] == "waiting"] == (
        WAITING
    )
    (row,) = [row for row in rows if row["name"] == LONGEST]
    assert (row["queue"], row["pods"], row["gpus"], row["code"]) == ("nlp", "8", "64", "PodSchedulingErrors")
    assert (row["waitingSeconds"], row["podGroup"].startswith(f"ml-nlp/pg-{LONGEST}")) == ("3300", True)
    bare = simulate(cluster, "-o", "csv", "--no-headers").stdout.splitlines()
    assert len(bare) == len(rows)


def test_records_are_all_that_is_printed_also_after_several_cycles(cluster: str) -> None:
    """Of the last cycle, in which the others have left."""
    first, *rows = simulate(cluster, "-o", "csv", "--cycles", "2").stdout.splitlines()
    assert first.startswith("kind,namespace,name,")
    assert all(row.count(",") >= first.count(",") for row in rows)
    assert all(name.count("/") == 2 for name in names(cluster, "--cycles", "2"))


def test_a_line_about_a_cycle_counts_all_pods(cluster: str) -> None:
    lines = simulate(cluster, "--cycles", "2", "--pending").stdout.splitlines()
    assert lines[0] == "Cycle 1: 0 pods bound, 1 pipelined, 4 evicted; 32 pods in 17 workloads wait"


def test_wide_has_pod_groups_and_whole_reasons(cluster: str) -> None:
    (row,) = [line for line in simulate(cluster, "-o", "wide").stdout.splitlines() if line.startswith(f"  {LONGEST}")]
    assert f"ml-nlp/pg-{LONGEST}-0a6fb154-a837-4dcd-8299-ed6e811c8fa7  PodSchedulingErrors  0 of 8 pods" in row


def test_data_has_a_version_and_a_summary(cluster: str) -> None:
    done = simulate(cluster, "-o", "json")
    document = json.loads(done.stdout)
    assert (document["apiVersion"], document["kind"]) == ("kai-sched.io/v1", "Simulation")
    (cycle,) = document["cycles"]
    summary = cycle["summary"]
    assert summary["room"] == {
        "resource": "gpu",
        "nodes": 40,
        "total": 200.0,
        "used": 160.0,
        "free": 24.0,
        "unusable": 16.0,
        "unusableNodes": 2,
    }
    assert [each["name"] for each in summary["waiting"]][-1] == "hpo-sweep-trial-{040..051}"
    (reason,) = [each for key, each in cycle["reasons"].items() if LONGEST in key]
    assert reason["nodes"]["short"]["gpu"] == {"nodes": 35, "asked": 8.0, "mostFree": 0.0}
    assert yaml.safe_load(simulate(cluster, "-o", "yaml").stdout) == document


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-q", "visoin"], "error: --queue: there is no queue 'visoin': did you mean 'vision'?"),
        (["-n", "ml-nlpp"], "error: --namespace: there is no namespace 'ml-nlpp': did you mean 'ml-nlp'?"),
        (["-l", "app===x"], "error: --selector: 'app===x' is no label selector: write key=value, key!=value"),
        (["--set", "queue/nlp.gpus=8"], "error: --set: 'queue/nlp.gpus=8' is no setting of a queue"),
        (["--add-nodes", "two"], "error: --add-nodes: 'two' is no number of nodes: write it as 2:like=NODE"),
        (["--drain", "ip"], "error: --drain: there is no node 'ip'"),
        (["--uncordon", "ip"], "error: --uncordon: there is no node 'ip'"),
        (["--remove", "nothing-like-it"], "error: --remove: there is no workload 'nothing-like-it'"),
        (["--override", "missing.yaml"], "error: --override: missing.yaml: there is no such file"),
        (["--drain", GPU_NODES[0], "-o", "csv"], "error: --output: changes are printed as a difference"),
        (["--drain", GPU_NODES[0], "--pending"], "error: --pending: changes are printed as a difference"),
        (["--drain", GPU_NODES[0], "--cycles", "2"], "error: --cycles: changes are printed as a difference"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_told_with_its_flag(cluster: str, options: list[str], told: str) -> None:
    done = simulate(cluster, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
