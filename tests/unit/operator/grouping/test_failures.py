"""The grouper: what is gone, impossible, refused or raises costs its own pods only, and is told where it belongs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from structlog.testing import capture_logs

from kai_sched.cluster.client import ApiFailure
from kai_sched.operator.grouping import workload_grouper
from kai_sched.reconcile.grouping.registry import group_of
from tests.unit.operator.grouped import GROUPS, Played, below, deployment, job, settle, until, workload

NAME = "pg-train-uid-train"

pytestmark = pytest.mark.usefixtures("hundredths")


async def test_an_owner_that_is_deleted_with_its_pods_warns_nobody(played: Played) -> None:
    """First the owner goes, then its pods one by one, then its PodGroup, as the garbage collector comes to them."""
    owner = played.api.put(job())
    pods = [played.owned(owner, name, node="n1") for name in "abc"]
    played.start()
    await settle(played)
    asked = played.api.asked_for("GET", "/jobs/train")
    del played.api.objects["/apis/batch/v1/namespaces/ml/jobs/train"]
    for pod in pods:
        path = f"/api/v1/namespaces/ml/pods/{pod['metadata']['name']}"
        meta = played.api.objects[path]["metadata"]
        played.api.put({**pod, "metadata": {**meta, "deletionTimestamp": "2026-01-01T12:00:00Z"}})
    with capture_logs() as logs:
        played.api.delete("/api/v1/namespaces/ml/pods/a")
        await asyncio.sleep(0.1)
        played.api.delete(f"{GROUPS}/{NAME}")
        await asyncio.sleep(0.2)
        for name in "bc":
            played.api.delete(f"/api/v1/namespaces/ml/pods/{name}")
        await settle(played)
    assert (played.events, logs) == ([], [])
    assert played.api.asked_for("GET", "/jobs/train") == asked


async def test_pods_that_outlive_their_owner_are_told_of(played: Played) -> None:
    """A look is brought about by one that goes; the one that it was decided by may be gone itself."""
    owner = played.api.put(job())
    for name in "ab":
        played.owned(owner, name, node="n1")
    played.start()
    await settle(played)
    del played.api.objects["/apis/batch/v1/namespaces/ml/jobs/train"]
    played.api.delete("/api/v1/namespaces/ml/pods/b")
    await until(lambda: played.events)
    (event,) = played.events
    assert (event.ref.key, event.ref.uid) == ("ml/a", "uid-a")


IMPOSSIBLE = ["", ".", "..", "a b", "a\nb", "a/b", "A", "a_b", "?watch=1", "%2e", "x" * 254, "-a", "a..b", "é"]


@pytest.mark.parametrize("name", IMPOSSIBLE, ids=repr)
async def test_an_impossible_owner_is_told_and_never_asked_for(played: Played, name: str) -> None:
    """Its pod waits; all others are grouped."""
    bad = job(name)
    bad["metadata"]["uid"] = "uid-bad"
    played.owned(bad, "bad")
    played.owned(played.api.put(job()), "good")
    played.start()
    await until(lambda: played.place("good") is not None and played.events)
    (event,) = played.events
    assert event.ref.key == "ml/bad"
    assert event.message.startswith("Pod ml/bad: metadata.ownerReferences[0].name: the owner's name is impossible: ")
    assert "make it anew with an owner that is there" in event.message
    assert played.place("bad") is None
    paths = {path for _, path, _ in played.api.asked}
    assert {path for path in paths if "/jobs/" in path} == {"/apis/batch/v1/namespaces/ml/jobs/train"}


@pytest.mark.parametrize("version", ["", "batch/v1/x", "../v1", "batch/", "Batch/v1", "batch/v1?x=1", "batch/v 1"])
async def test_an_impossible_api_version_is_told_and_never_asked_for(played: Played, version: str) -> None:
    bad = {**job("bad"), "apiVersion": version}
    played.owned(bad, "bad")
    played.start()
    await until(lambda: played.events)
    assert "metadata.ownerReferences[0].apiVersion: the owner's apiVersion is impossible: " in played.events[0].message
    assert played.api.asked == []


async def test_the_name_of_a_group_that_cannot_be_is_told(played: Played) -> None:
    """That of a CronJob's run is the pod's second owner's, which nobody looks at."""
    cron = {**job("nightly"), "kind": "CronJob"}
    played.api.objects["/apis/batch/v1/namespaces/ml/cronjobs/nightly"] = cron
    pod = played.owned(cron, "a")
    run = {"apiVersion": "batch/v1", "kind": "Job", "name": "../../x", "uid": "u"}
    pod["metadata"]["ownerReferences"].append(run)
    played.api.put(pod)
    played.start()
    await until(lambda: played.events)
    assert "its PodGroup cannot have the name that follows from the owner's" in played.events[0].message
    assert {verb for verb, _, _ in played.api.asked} == {"GET"}


async def test_a_pod_whose_rule_raises_costs_itself_only(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(pod: Any, *rest: Any) -> Any:
        if pod.metadata.name == "bad":
            raise ZeroDivisionError("by the test")
        return group_of(pod, *rest)

    monkeypatch.setattr(workload_grouper, "group_of", raising)
    owner = played.api.put(job())
    for name in ("bad", "good"):
        played.owned(owner, name)
    played.start()
    await until(lambda: played.shown("good") == (NAME, None) and played.events)
    (event,) = played.events
    assert event.ref.key == "ml/bad"
    assert "unexpected ZeroDivisionError: by the test" in event.message
    monkeypatch.setattr(workload_grouper, "group_of", group_of)
    await until(lambda: played.shown("bad") == (NAME, None))


@pytest.mark.parametrize("part", ["pod_write", "group_write", "pods_of"])
async def test_what_raises_is_tried_again(played: Played, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    groups, calls = played.intake.groups, []
    working = getattr(groups, part)

    def raising(*args: Any) -> Any:
        calls.append(args)
        if len(calls) < 3:
            raise RuntimeError("by the test")
        return working(*args)

    monkeypatch.setattr(groups, part, raising)
    played.owned(played.api.put(job()), "a")
    played.start()
    await until(lambda: played.shown("a") == (NAME, None))


async def test_many_sources_that_fail_for_one_mistake_are_tried_less_and_less_often(played: Played) -> None:
    """It is in the workload that is above all of them, and each finds what another one has read of it."""
    top = played.api.put(workload("top", **{"kai.scheduler/batch-min-member": "many"}))
    for n in range(20):
        played.owned(played.api.put(below(top, job(f"job-{n}"))), f"pod-{n}")
    played.start()
    await until(lambda: len(played.events) == 20)
    await asyncio.sleep(0.5)
    requests, asked = played.intake.requests.reconciles, played.api.asked_for("GET", "/workloads/top")
    assert asked <= 20 * 7, "doubling from 0.02 s there are 6 in half a second, and those before the first failure"
    assert all(requests.has_failed(f"uid-job-{n}") for n in range(20))
    played.api.put(workload("top"))
    await until(lambda: all(played.place(f"pod-{n}") for n in range(20)))
    await settle(played)
    assert not any(requests.has_failed(f"uid-job-{n}") for n in range(20))


@pytest.mark.parametrize("kind", ["pods", "podgroups"])
async def test_a_write_that_a_quota_or_a_policy_refuses_is_told(played: Played, kind: str) -> None:
    is_refused = True

    async def refuse(method: str, path: str) -> None:
        if is_refused and method in ("POST", "PATCH") and f"/{kind}" in path:
            raise ApiFailure(method, path, 403, "Forbidden", "exceeded quota: team-a")

    played.api.before = refuse
    played.owned(played.api.put(job()), "a")
    played.start()
    await until(lambda: played.events)
    (event,) = played.events
    what = "Pod ml/a" if kind == "pods" else f"PodGroup ml/{NAME}"
    assert (event.ref.kind, event.message) == (
        "Pod" if kind == "pods" else "Job",
        f"{what} cannot be written: exceeded quota: team-a",
    )
    is_refused = False
    await until(lambda: played.shown("a") == (NAME, None))


@pytest.mark.parametrize("values", [["often", "often", "often"], ["often", "seldom", "often"]], ids=["same", "other"])
async def test_a_mistake_in_pods_of_a_workload_is_told_once(
    played: Played, monkeypatch: pytest.MonkeyPatch, values: list[str]
) -> None:
    """Not once for each pod, nor again as they are decided again, one after the other."""
    monkeypatch.setattr(workload_grouper, "RESYNC_S", 0.02)
    monkeypatch.setattr(workload_grouper, "RESYNCED_PER_SECOND", 1000)
    owner = played.api.put(deployment())
    for n, value in enumerate(values):
        played.owned(owner, f"web-{n}", labels={"kai.scheduler/preemptibility": value})
    played.start()
    await until(lambda: played.api.asked_for("GET", "/deployments/web") > 5)
    assert {event.ref.kind for event in played.events} == {"Deployment"}
    field = "metadata.labels[kai.scheduler/preemptibility]"
    told = sorted(re.sub(r"^Pod ml/web-\d: (.*) is neither .*", r"\1", event.message) for event in played.events)
    assert told == sorted({f"{field}: {value!r}" for value in values})


async def test_groups_of_a_workload_that_are_refused_for_one_reason_are_told_once(played: Played) -> None:
    async def refuse(method: str, path: str) -> None:
        if method == "POST":
            raise ApiFailure(method, path, 403, "Forbidden", "exceeded quota: team")

    played.api.before = refuse
    owner = played.api.put(deployment())
    for n in range(3):
        played.owned(owner, f"web-{n}")
    played.start()
    await until(lambda: played.api.asked_for("POST") > 12)
    (event,) = played.events
    assert event.ref.kind == "Deployment"


async def test_a_conflict_that_a_look_does_not_explain_is_waited_out(played: Played) -> None:
    """What cannot be seen, and yet is in the way, costs a few requests and no more."""

    async def refuse(method: str, path: str) -> None:
        if method == "POST":
            raise ApiFailure(method, path, 409, "AlreadyExists", "it is there")

    played.api.before = refuse
    played.owned(played.api.put(job()), "a")
    played.start()
    await until(lambda: played.api.asked_for("POST") == 2)
    await asyncio.sleep(0.2)
    assert played.api.asked_for("POST") <= 5
