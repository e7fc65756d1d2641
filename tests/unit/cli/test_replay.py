"""``kai-sched replay``: the same plan or another one, the first difference, and files that cannot be used."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

from kai_sched import __version__
from kai_sched.cycle.run import run_cycle
from kai_sched.files.recording import CycleInputs, CycleRecording, encode_recording
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS
from kai_sched.model.objects import Node, Pod, PodGroup, Queue, Shape, Share
from kai_sched.model.store import Cluster
from kai_sched.plan.plan_text import digest_of, plan_lines
from tests.unit.cli.command import run

NOW_NS = 1_800_000_000 * 10**9
ALL = Share(-1.0, -1.0, 1.0)
OBJECTS = (
    Node("n1", allocatable={"cpu": 8000.0, "memory": 1e9, "pods": 10.0}),
    Queue("all", cpu=ALL, memory=ALL, gpu=ALL),
    Queue("team", parent="all", cpu=ALL, memory=ALL, gpu=ALL),
    PodGroup("ns", "g", queue="team", min_member=1),
    Pod("ns", "p", Shape((("cpu", 1000.0), ("pods", 1.0))), "u1", group="g", scheduler="kai-scheduler"),
)


def recorded(version: str = __version__) -> CycleRecording:
    inputs = CycleInputs(Cluster.of(OBJECTS), Config(), NOW_NS, NO_HINTS)
    plan = plan_lines(run_cycle(inputs.cluster, inputs.config, inputs.now_ns))
    return CycleRecording(inputs, plan, "", version)


def write(path: Path, *recordings: CycleRecording) -> str:
    path.write_bytes(gzip.compress(b"".join(encode_recording(each) + b"\n" for each in recordings)))
    return str(path)


def test_the_same_plan_is_confirmed_with_its_digest(tmp_path: Path) -> None:
    one = recorded()
    found = run("replay", write(tmp_path / "cycles.json.gz", one, one))
    digest = digest_of(list(one.plan))
    line = f"2027-01-15T08:00:00Z, 1 pod: the same plan {digest} (1 bound, 0 pipelined, 0 evicted)\n"
    assert (found.returncode, found.stdout, found.stderr) == (0, 2 * line, "")


def test_another_plan_is_shown_with_its_first_difference(tmp_path: Path) -> None:
    one = recorded()
    elsewhere = [one.plan[0].replace(b'"n1"', b'"n2"'), *one.plan[1:]]
    found = run("replay", write(tmp_path / "cycles.json.gz", replace(one, plan=elsewhere)))
    assert found.returncode == 1
    first, second = found.stdout.splitlines()
    assert f"recorded plan {digest_of(elsewhere)} " in first
    assert f", now plan {digest_of(list(one.plan))} " in first
    assert second.strip().startswith('first difference: recorded ["Bind",["ns/p","u1","n2"')
    assert '"n1"' in second


def test_a_failure_that_does_not_come_again_is_a_difference(tmp_path: Path) -> None:
    failed = replace(recorded(), plan=[], error="ValueError: no")
    found = run("replay", write(tmp_path / "cycles.json.gz", failed))
    assert found.returncode == 1
    assert "recorded error, ValueError: no, now plan " in found.stdout


def test_a_recording_of_another_version_is_decided_with_a_warning(tmp_path: Path) -> None:
    found = run("replay", write(tmp_path / "cycles.json.gz", recorded("0.0.0")))
    assert found.returncode == 0
    assert found.stderr.startswith("warning: version 0.0.0 recorded this cycle, and this is ")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "cycles.json.gz"
    missing = run("replay", str(path))
    assert (missing.returncode, missing.stderr) == (2, f"error: {path}: there is no such file: correct the path\n")
    path.write_bytes(b"")
    empty = run("replay", str(path))
    assert (empty.returncode, empty.stderr) == (2, f"error: {path}: empty: record the cycles again\n")
    path.write_text('{"apiVersion": "v1", "kind": "List"}')
    other = run("replay", str(path))
    assert other.returncode == 2
    assert other.stderr.startswith(f"error: {path}: document 1: List of v1, not a CycleRecording of kai-sched.io/v1: ")
