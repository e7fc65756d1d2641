"""How long workloads of files run at most."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_sched.files.items import Item
from kai_sched.files.run_times import Deadline, WorkloadName, bounded, deadlines
from kai_sched.files.sources import FilePosition

STARTED = "2026-11-22T10:00:00Z"
STARTED_NS = 1_795_341_600 * 10**9


def item(kind: str = "Job", version: str = "batch/v1", **parts: Any) -> Item:
    meta = {"name": "train", "namespace": "ml", **parts.pop("metadata", {})}
    return Item(FilePosition("a.yaml"), (version, kind), json.dumps({"metadata": meta, **parts}).encode())


def found(each: Item) -> Deadline | None:
    return deadlines([each]).get(WorkloadName(each.kind[1], "ml", "train"))


def test_a_job_counts_from_its_start() -> None:
    job = item(spec={"activeDeadlineSeconds": 3600}, status={"startTime": STARTED})
    assert found(job) == Deadline(3600.0, STARTED_NS)


def test_a_job_that_has_not_started_has_no_start() -> None:
    assert found(item(spec={"activeDeadlineSeconds": 3600})) == Deadline(3600.0, 0)


def test_rayjobs_have_deadlines_and_rayclusters_have_not() -> None:
    spec = {"activeDeadlineSeconds": 60}
    assert found(item("RayJob", "ray.io/v1", spec=spec)) == Deadline(60.0, 0)
    assert found(item("RayCluster", "ray.io/v1", spec=spec)) is None


@pytest.mark.parametrize(("kind", "version"), [("PyTorchJob", "kubeflow.org/v1"), ("Job", "batch/v1")])
def test_kueues_label_counts_for_every_kind(kind: str, version: str) -> None:
    labels = {"kueue.x-k8s.io/max-exec-time-seconds": "7200"}
    assert found(item(kind, version, metadata={"labels": labels})) == Deadline(7200.0, 0)


def test_the_shorter_one_counts() -> None:
    labels = {"kueue.x-k8s.io/max-exec-time-seconds": "7200"}
    assert found(item(metadata={"labels": labels}, spec={"activeDeadlineSeconds": 60})) == Deadline(60.0, 0)


@pytest.mark.parametrize("value", [0, -5, "60", True, 1.5, None, [60], 10**30])
def test_what_the_api_server_refuses_bounds_nothing(value: object) -> None:
    assert found(item(spec={"activeDeadlineSeconds": value})) in (None, Deadline(60.0, 0) if value == "60" else None)


@pytest.mark.parametrize("value", ["", "-5", "1.5", "\u0663", "9" * 40])
def test_a_label_that_is_no_number_bounds_nothing(value: str) -> None:
    assert found(item(metadata={"labels": {"kueue.x-k8s.io/max-exec-time-seconds": value}})) is None


def test_a_start_that_cannot_be_read_is_not_said() -> None:
    for start in ("soon", 5, {"a": 1}):
        assert found(item(spec={"activeDeadlineSeconds": 9}, status={"startTime": start})) == Deadline(9.0, 0)


def manifest(**parts: Any) -> dict[str, Any]:
    meta = {"name": "train", "namespace": "ml", "uid": "u", "labels": {"app": "x"}, "managedFields": []}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, **parts}


def test_of_a_running_cluster_only_deadlines_are_kept() -> None:
    spec = {"activeDeadlineSeconds": 60, "template": {"spec": {"containers": []}}}
    kept = bounded(manifest(spec=spec, status={"startTime": STARTED, "active": 1}))
    assert kept == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "uid": "u"},
        "spec": {"activeDeadlineSeconds": 60},
        "status": {"startTime": STARTED},
    }


@pytest.mark.parametrize(
    "parts",
    [
        {"spec": {}},
        {"spec": {"activeDeadlineSeconds": 60, "suspend": True}},
        {"spec": {"activeDeadlineSeconds": 60}, "status": {"completionTime": STARTED}},
        {"spec": {"activeDeadlineSeconds": 60}, "status": {"endTime": STARTED}},
        {"spec": []},
    ],
)
def test_workloads_without_one_or_that_do_not_run_are_left_out(parts: dict[str, Any]) -> None:
    assert bounded(manifest(**parts)) is None


def test_an_object_that_cannot_be_read_is_told_by_others() -> None:
    assert deadlines([Item(FilePosition("a"), ("batch/v1", "Job"), b'{"spec": []}')]) == {}
