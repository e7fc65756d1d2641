"""A group of pods whose direct owners differ: each of them may go while the others stay."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.api import core
from kai_sched.operator.grouping import workload_grouper
from kai_sched.operator.grouping.wanted_group import WantedGroup
from kai_sched.reconcile.grouping.manifest import Grouping, QueueChoice
from tests.unit.operator.grouped import GROUPS, Object, Played, below, job, settle, until, workload

NAME = "pg-top-uid-top"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
PODS = "/api/v1/namespaces/ml/pods"

pytestmark = pytest.mark.usefixtures("hundredths")


async def two_jobs(played: Played, last: str = "a") -> tuple[Object, Object]:
    """Jobs "a" and "b" of a workload, with a pod each; that of ``last`` is decided last."""
    top = played.api.put(workload("top"))
    owners = {name: played.api.put(below(top, job(name))) for name in "ab"}
    played.start()
    for name in sorted(owners, key=lambda each: each == last):
        played.owned(owners[name], f"{name}-0", node="n1")
        await settle(played)
    return owners["a"], owners["b"]


@pytest.mark.parametrize("last", ["a", "b"])
async def test_a_group_outlives_each_owner_of_its_pods(played: Played, last: str) -> None:
    await two_jobs(played, last)
    del played.api.objects[f"{JOBS}/a"]
    played.api.delete(f"{PODS}/a-0")
    await asyncio.sleep(0.3)
    assert played.events == []
    assert not played.intake.requests.reconciles.has_failed("uid-a")
    played.api.delete(f"{GROUPS}/{NAME}")
    await until(lambda: f"{GROUPS}/{NAME}" in played.api.objects)
    assert played.place("b-0") == (NAME, "")


async def test_a_group_does_not_outlive_its_workload(played: Played) -> None:
    """The garbage collector comes to the workload, one Job, its pod, and the PodGroup, and then to the rest."""
    await two_jobs(played)
    del played.api.objects["/apis/example.com/v1/namespaces/ml/workloads/top"], played.api.objects[f"{JOBS}/a"]
    played.api.delete(f"{PODS}/a-0")
    played.api.delete(f"{GROUPS}/{NAME}")
    played.api.asked.clear()
    await asyncio.sleep(0.2)
    assert played.api.asked_for("POST") == 0
    played.api.delete(f"{PODS}/b-0")
    await settle(played)
    assert f"{GROUPS}/{NAME}" not in played.api.objects


async def test_a_pod_that_leaves_after_its_owner_is_not_told_of_a_pod_of_another_one(played: Played) -> None:
    a, _ = await two_jobs(played)
    played.owned(a, "a-1", node="n1")
    await settle(played)
    del played.api.objects[f"{JOBS}/a"]
    leaving = played.api.objects[f"{PODS}/a-0"]
    played.api.put({**leaving, "metadata": {**leaving["metadata"], "deletionTimestamp": "2026-01-01T12:00:00Z"}})
    played.api.delete(f"{PODS}/a-1")
    await asyncio.sleep(0.3)
    assert played.events == []


async def test_a_change_is_seen_while_only_pods_of_another_owner_wait(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that decides about the group has pods on nodes alone, and it is what is asked."""
    monkeypatch.setattr(workload_grouper, "RESYNC_S", 0.02)
    a, b = await two_jobs(played)
    played.owned(a, "a-1")
    await settle(played)
    played.owned(b, "b-1", node="n1")
    await settle(played)
    group = f"{GROUPS}/{NAME}"
    assert played.api.objects[group]["spec"]["minMember"] == 1
    played.api.put(workload("top", **{"kai.scheduler/batch-min-member": "3"}))
    await until(lambda: played.api.objects[group]["spec"]["minMember"] == 3)


@pytest.mark.parametrize("gone", ["a-1", "b-0"])
async def test_a_size_that_changes_as_pods_of_either_owner_go_is_followed(played: Played, gone: str) -> None:
    a, _ = await two_jobs(played)
    played.owned(a, "a-1", node="n1")
    await settle(played)
    await asyncio.sleep(0.1)
    played.api.put(workload("top", **{"kai.scheduler/batch-min-member": "2"}))
    played.api.delete(f"{PODS}/{gone}")
    await until(lambda: played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["minMember"] == 2)


NOTHING: Any = {"metadata": {"name": NAME}, "spec": {}}
PLAIN = Grouping(NOTHING, "", QueueChoice("", "", ""), ())


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "c", ""])), max_size=40))
def test_a_group_is_that_of_a_source_that_it_has_pods_of(news: list[tuple[int, str]]) -> None:
    """Pods come, go (""), and change their owner; what is decided about those that are gone may be late."""
    group: WantedGroup | None = None
    there: dict[str, str] = {}
    for number, source in news:
        name = str(number)
        pod = core.WirePod(core.Meta(name=name, uid=source))
        if not source:
            there.pop(name, None)
            if group is not None:
                group.loses(name)
        else:
            there[name] = source
            group = group or WantedGroup(b"", source, pod)
            if group.takes(PLAIN, source, pod, name):
                group.source, group.like, group.is_sure = source, pod, True
        if group is not None:
            assert group.members == there
            late = core.WirePod(core.Meta(name="late", uid="c"))
            assert group.takes(PLAIN, "c", late, None) == ("c" in there.values())
            assert not there or group.source in there.values()
            assert group.like.metadata is not None
            assert not there or group.like.metadata.uid == group.source
        if not there:
            group = None
