"""Owners of many pods are looked up together, before an API server in memory."""

from __future__ import annotations

import asyncio

import pytest

from kai_sched.cluster.client import ApiFailure
from kai_sched.operator.grouping import owner_cache, prefetch, workload_grouper
from tests.unit.operator.grouped import Played, job, ray_cluster, settle, until

pytestmark = pytest.mark.usefixtures("hundredths")


def many_jobs(played: Played, count: int) -> None:
    for n in range(count):
        played.owned(played.api.put(job(f"job-{n}")), f"job-{n}-0")


async def test_many_owners_are_looked_up_in_one_request(played: Played) -> None:
    many_jobs(played, prefetch.WORTH)
    played.start()
    await settle(played)
    assert played.place("job-0-0") == ("pg-job-0-uid-job-0", "")
    jobs = "/apis/batch/v1/namespaces/ml/jobs"
    await asyncio.sleep(2 * owner_cache.FRESH_S)
    assert [one for one in played.api.asked if jobs in one[1]] == [("LIST", jobs, False)]
    # What comes later needs what is newer: the same owner is looked up again.
    played.owned(played.api.put(job("job-0", 3)), "job-0-1")
    await until(lambda: played.api.asked_for("GET", f"{jobs}/job-0") == 1)
    await settle(played)
    group = played.group("pg-job-0-uid-job-0")
    assert group is not None
    assert group.min_member == 3


async def test_few_owners_are_looked_up_alone(played: Played) -> None:
    many_jobs(played, prefetch.WORTH - 1)
    played.start()
    await settle(played)
    assert (played.api.asked_for("LIST"), played.api.asked_for("GET", "/jobs/")) == (0, prefetch.WORTH - 1)


async def test_owners_that_may_not_be_listed_are_looked_up_alone(played: Played) -> None:
    async def refuse(method: str, path: str) -> None:
        if method == "LIST":
            raise ApiFailure(method, path, 403, "Forbidden", "not allowed")

    played.api.before = refuse
    many_jobs(played, prefetch.WORTH)
    played.start()
    await settle(played)
    assert played.api.asked_for("GET", "/jobs/") == prefetch.WORTH
    assert played.place("job-0-0") == ("pg-job-0-uid-job-0", "")


async def test_a_list_that_takes_long_is_given_up(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_grouper, "PREFETCH_S", 0.05)

    async def hold(method: str, _: str) -> None:
        if method == "LIST":
            await asyncio.Event().wait()

    played.api.before = hold
    many_jobs(played, prefetch.WORTH)
    played.start()
    await until(lambda: played.grouper.is_caught_up)
    assert played.place("job-0-0") == ("pg-job-0-uid-job-0", "")


async def test_not_everything_is_read_for_a_few(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "OTHERS", 2)
    many_jobs(played, prefetch.WORTH)
    for n in range(1_000):
        played.api.put(job(f"done-{n:04}"))
    played.start()
    await settle(played)
    assert played.api.asked_for("LIST") == 1, "a page holds 500"
    assert played.api.asked_for("GET", "/jobs/") == prefetch.WORTH
    assert played.place("job-0-0") == ("pg-job-0-uid-job-0", "")


async def test_a_list_ends_with_the_last_that_is_wanted(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "OTHERS", 1_000)
    many_jobs(played, prefetch.WORTH)
    for n in range(1_000):
        played.api.put(job(f"later-{n:04}"))
    played.start()
    await settle(played)
    assert (played.api.asked_for("LIST"), played.api.asked_for("GET", "/jobs/")) == (1, 0)


async def test_what_is_above_many_owners_is_looked_up_with_them(played: Played) -> None:
    for n in range(prefetch.WORTH):
        above = played.api.put(ray_cluster(f"ray-{n}", 1))
        below = job(f"job-{n}")
        meta = above["metadata"]
        reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": meta["name"], "uid": meta["uid"]}
        below["metadata"]["ownerReferences"] = [reference]
        played.owned(played.api.put(below), f"job-{n}-0")
    played.start()
    await settle(played)
    assert played.place("job-0-0") == ("pg-ray-0-uid-ray-0", "")
    assert played.api.asked_for("LIST") == 2
    clusters = [whole for verb, path, whole in played.api.asked if verb == "GET" and "/rayclusters/" in path]
    assert clusters == [True] * prefetch.WORTH, "their rule needs what a list of metadata lacks"
