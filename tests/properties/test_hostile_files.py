"""Whatever stands in an object that ``simulate`` is given: it is told, or decided, and the rest is as without it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from kai_sched.cli.inputs import BAD_INPUT, InputOptions
from kai_sched.cli.simulate import Shown, SimulateOptions, simulate
from kai_sched.files.input_time import newest_time_ns
from kai_sched.files.items import Item
from kai_sched.files.run_times import SECONDS_MAX, bounded, deadlines
from kai_sched.files.sources import FilePosition
from tests.properties.hostile_values import DEEP, HUGE, encode
from tests.properties.hostile_world import BASES, SETTINGS, Hostile, hostiles, may_compete, sane_objects

LONG = settings(max_examples=3000, suppress_health_check=[*HealthCheck])
FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
ROLES = sorted(BASES)


@contextmanager
def captured() -> Iterator[tuple[io.BytesIO, io.StringIO]]:
    """What is written to stdout and stderr."""
    out, err = io.BytesIO(), io.StringIO()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.TextIOWrapper(out, encoding="utf-8", write_through=True), err
    try:
        yield out, err
    finally:
        sys.stdout.flush()
        sys.stdout.detach()
        sys.stdout, sys.stderr = before


def run(paths: Sequence[Path], output: str) -> tuple[int, bytes, str]:
    """Exit status, stdout and stderr of ``kai-sched simulate``."""
    with captured() as (out, err):
        found = InputOptions(tuple(map(str, paths)), now="2027-01-15T08:00:00Z")
        status = simulate(SimulateOptions(found, shown=Shown(output)))
        return status, out.getvalue(), err.getvalue()


def sane_plan(document: Any) -> object:
    """What is decided of the sane pods."""
    cycle = document["cycles"][0]
    decided = {key: state for key, state in cycle["decided"].items() if key.startswith("sane/")}
    return decided, [key for key in cycle["evicted"] if key.startswith("sane/")]


def write(folder: Path, found: Sequence[Hostile], suffix: str) -> list[Path]:
    """A file with what is sane, less what is hostile in its stead, and one for each hostile object."""
    taken = {(each.sane["kind"], each.sane["metadata"]["name"]) for each in found}
    sane = [each for each in sane_objects() if (each["kind"], each["metadata"]["name"]) not in taken]
    paths = [folder / "sane.json"]
    paths[0].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": sane}))
    for number, each in enumerate(found):
        paths.append(folder / f"hostile-{number}{suffix}")
        paths[-1].write_bytes(encoded(each.content, suffix))
    return paths


def encoded(content: Any, suffix: str) -> bytes:
    """As JSON, or in the words of YAML where these have them."""
    text = json.dumps(content)
    if suffix == ".json" or DEEP in text or HUGE in text or "\\ud8" in text:
        return encode(content)
    return yaml.dump(content, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True).encode()


def check(found: Sequence[Hostile], suffix: str, output: str, folder: Path) -> None:
    paths = write(folder, found, suffix)
    status, out, err = run(paths, output)
    note(err[:2000])
    assert "Traceback" not in err
    assert status in (0, BAD_INPUT)
    if status == BAD_INPUT:
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert errors
        assert all(any(path.name in line for path in paths) for line in errors), "an error names no file"
        return
    assert out
    if output in ("table", "wide"):
        return
    document = json.loads(out) if output == "json" else yaml.load(out, yaml.CSafeLoader)
    competes = any(may_compete(each.content) for each in found)
    if not competes and all(each.sane["kind"] not in SETTINGS for each in found):
        assert sane_plan(document) == _expected(), "the others' plan has changed"


_known: list[object] = []


def _expected() -> object:
    if not _known:
        raise AssertionError("the plan of the sane objects comes first")
    return _known[0]


@pytest.fixture(scope="module", autouse=True)
def _sane(tmp_path_factory: pytest.TempPathFactory) -> None:
    status, out, _ = run(write(tmp_path_factory.mktemp("sane"), [], ".json"), "json")
    assert status == 0
    _known[:] = [sane_plan(json.loads(out))]
    assert _known[0] != ({}, [])


DRAWN = {
    "found": st.lists(hostiles(ROLES), min_size=1, max_size=2),
    "suffix": st.sampled_from([".json", ".yaml"]),
    "output": st.sampled_from(["json", "json", "yaml", "wide", "table"]),
}


@given(**DRAWN)
@FIXTURES
def test_files_of_anything(tmp_path: Path, found: list[Hostile], suffix: str, output: str) -> None:
    check(found, suffix, output, tmp_path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["suspend", "schedulingPolicy", "x"]), inner), max_leaves=5
)  # fmt: skip


@given(ANYTHING, ANYTHING, ANYTHING)
@FIXTURES
def test_workloads_whose_suspension_is_anything(tmp_path: Path, suspend: object, policy: object, meta: object) -> None:
    """Only workloads whose field is true are suspended, and whatever else stands there is told or passed over."""
    template = {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]}}
    job = {"spec": {"suspend": suspend, "template": template}} | {"apiVersion": "batch/v1", "kind": "Job"}
    torch = {"spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": {"template": template}}}}
    torch |= {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    paths = write(tmp_path, [], ".json")
    for number, each in enumerate((job, torch)):
        paths.append(tmp_path / f"workload-{number}.json")
        paths[-1].write_bytes(encode(each | {"metadata": {"name": f"w{number}", "managedFields": meta}}))
    status, out, err = run(paths, "json")
    note(err[:2000])
    assert "Traceback" not in err
    assert status in (0, BAD_INPUT)
    if status == 0:
        assert sane_plan(json.loads(out)) == _expected()
        assert ("spec.suspend" in err) == (suspend is True)


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING)
def test_deadlines_of_anything(seconds: object, start: object, label: object, grace: object) -> None:
    """They bound nothing, or a workload by a number of seconds above 0; nothing raises."""
    meta = {"name": "w", "labels": {"kueue.x-k8s.io/max-exec-time-seconds": label}}
    meta |= {"deletionGracePeriodSeconds": grace, "deletionTimestamp": "2026-11-22T12:00:00Z"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
    job |= {"spec": {"activeDeadlineSeconds": seconds}, "status": {"startTime": start, "completionTime": None}}
    item = Item(FilePosition("a.json"), ("batch/v1", "Job"), encode(job))
    found = deadlines([item])
    assert all(0 < each.seconds <= SECONDS_MAX and each.started_ns >= 0 for each in found.values())
    kept = bounded(job)
    assert kept is not None or not found
    assert (newest_time_ns([item]) or 0) >= 0


OF_VOLUMES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["name", "ephemeral", "volumeClaimTemplate", "metadata", "labels", "spec", "resources"]), inner
    ), max_leaves=8
)  # fmt: skip


@given(OF_VOLUMES, OF_VOLUMES, OF_VOLUMES, OF_VOLUMES)
@FIXTURES
def test_ephemeral_volumes_of_anything(tmp_path: Path, name: object, meta: object, spec: object, more: object) -> None:
    """The claims that a controller would make are made of it, or it is told where it stands."""
    template = {"metadata": meta, "spec": spec}
    drawn = [{"name": name, "ephemeral": {"volumeClaimTemplate": template}}, {"name": "v", "ephemeral": more}]
    pod = {"apiVersion": "v1", "kind": "Pod"}
    paths = write(tmp_path, [], ".json")
    for number, volumes in enumerate((drawn, drawn[1:], more)):
        body = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        paths.append(tmp_path / f"pod-{number}.json")
        paths[-1].write_bytes(encode(pod | {"metadata": {"name": f"p{number}", "namespace": "evil"}, "spec": body}))
    status, out, err = run(paths, "json")
    note(err[:2000])
    assert "Traceback" not in err
    assert status in (0, BAD_INPUT)
    if status == 0:
        assert sane_plan(json.loads(out)) == _expected()


@pytest.mark.long
@LONG
@given(**DRAWN)
def test_files_of_anything_for_long(tmp_path: Path, found: list[Hostile], suffix: str, output: str) -> None:
    check(found, suffix, output, tmp_path)
