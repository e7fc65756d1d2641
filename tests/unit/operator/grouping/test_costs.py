"""How long the grouper holds the event loop, and how often it computes what many pods have in common."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kai_sched.operator.grouping import owner_cache, workload_grouper
from kai_sched.reconcile.grouping import jobset, ray
from kai_sched.reconcile.grouping.registry import group_of
from tests.unit.operator.grouped import Object, Played, below, job, ray_cluster, settle

pytestmark = pytest.mark.usefixtures("hundredths")


async def test_others_get_the_loop_between_pods_that_take_long(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    seen: list[int] = []

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def slow(*args: Any) -> Any:
        seen.append(turns)
        time.sleep(0.003)
        return group_of(*args)

    monkeypatch.setattr(workload_grouper, "group_of", slow)
    owner = played.api.put(job())
    for n in range(15):
        played.owned(owner, f"pod-{n}")
    running = asyncio.create_task(other())
    played.start()
    await settle(played)
    running.cancel()
    assert len(set(seen)) == len(seen) >= 15


def job_set(played: Played, jobs: int) -> Object:
    """A JobSet "js" of so many Jobs, none of which is there yet."""
    meta = {"name": "js", "uid": "uid-js", "labels": {"kai.scheduler/queue": "team"}}
    spec = {"replicatedJobs": [{"name": "w", "replicas": jobs, "template": {"spec": {}}}]}
    top = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}
    return played.api.put(top)


def add_job(played: Played, top: Object, n: int) -> None:
    """One Job of the JobSet, and its pod."""
    label = "jobset.sigs.k8s.io"
    labels = {f"{label}/replicatedjob-name": "w", f"{label}/job-index": str(n)}
    played.owned(played.api.put(below(top, job(f"w-{n}"))), f"pod-{n}", labels=labels)


async def test_jobs_of_a_job_set_share_what_follows_from_it(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is reconciled alone: eight at a time, with the answer of one of them."""
    jobs, built = 60, []
    working = jobset._sub_groups

    def counting(*args: Any) -> Any:
        built.append(args)
        return working(*args)

    monkeypatch.setattr(jobset, "_sub_groups", counting)
    monkeypatch.setattr(owner_cache, "FRESH_S", 5.0)
    top = job_set(played, jobs)
    for n in range(jobs):
        add_job(played, top, n)
    played.start()
    await settle(played)
    assert [played.place(f"pod-{n}") for n in range(jobs)] == [("pg-js-uid-js", f"w-replica-{n}") for n in range(jobs)]
    assert len(built) <= jobs / 2


async def test_jobs_that_come_one_after_the_other_are_asked_about_once(played: Played) -> None:
    """The answer about the JobSet may be older than a Job; then the Job is decided again, with the next answer."""
    jobs = 100

    async def slow(_method: str, _path: str) -> None:
        await asyncio.sleep(0.004)

    played.api.before = slow
    top = job_set(played, jobs)
    played.start()
    await asyncio.sleep(0.1)
    for n in range(jobs):
        add_job(played, top, n)
        await asyncio.sleep(0.002)
    await settle(played)
    while played.intake.groups._pending:  # noqa: ASYNC110 - tells nobody
        await asyncio.sleep(0.05)
    assert played.place("pod-0") == ("pg-js-uid-js", "w-replica-0")
    assert played.api.asked_for("GET") <= 4 * jobs


async def test_hosts_of_a_ray_cluster_are_counted_once_for_all_that_are_decided_together(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    working = ray._indices

    def counting(*args: Any) -> Any:
        counted.append(args)
        return working(*args)

    monkeypatch.setattr(ray, "_indices", counting)
    cluster = ray_cluster("ray", 10)
    cluster["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 4
    played.api.put(cluster)
    for n in range(40):
        labels = {"ray.io/cluster": "ray", "ray.io/group": "workers", "ray.io/worker-group-replica-index": str(n // 4)}
        played.owned(cluster, f"pod-{n}", labels=labels)
    played.start()
    await settle(played)
    places = [played.place(f"pod-{n}") for n in range(40)]
    assert places == [("pg-ray-uid-ray", f"workers-replica-{n // 4}") for n in range(40)]
    assert len(counted) < 10
