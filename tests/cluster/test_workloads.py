"""Workloads of Kubernetes' own controllers, of JobSet and of LeaderWorkerSet: grouped as `simulate` groups them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.conftest import Workloads
from tests.cluster.processes import wait_until
from tests.cluster.workload_objects import (
    apply,
    job,
    live_groups,
    pods_of,
    simulated_groups,
    template,
    workload,
)

WORKLOAD_OPERATORS = ("jobset", "lws")


def scaled(kind: str, name: str, replicas: int) -> Object:
    """A Deployment or a StatefulSet."""
    labels = {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels=labels)}
    spec |= {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return workload("apps/v1", kind, name, spec)


def cron_job(name: str, pods: int) -> Object:
    """A Job each minute."""
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job("unnamed", pods)["spec"]}}
    return workload("batch/v1", "CronJob", name, spec)


def job_set(name: str, **policy: str) -> Object:
    """A leader of one pod, and two jobs of two workers."""
    jobs = [
        {"name": "leader", "replicas": 1, "template": {"spec": job("unnamed", 1, gpus=0)["spec"]}},
        {"name": "workers", "replicas": 2, "template": {"spec": job("unnamed", 2)["spec"]}},
    ]
    spec: Object = {"replicatedJobs": jobs}
    spec |= {"startupPolicy": policy} if policy else {}
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec)


def leader_worker_set(name: str, replicas: int, size: int, policy: str) -> Object:
    """Groups of a leader and its workers."""
    spec = {
        "replicas": replicas,
        "startupPolicy": policy,
        "leaderWorkerTemplate": {"size": size, "leaderTemplate": template(0), "workerTemplate": template()},
    }
    return workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec)


@pytest.mark.parametrize(
    ("manifest", "pods"),
    [
        (job("plain", 3), 3),
        (job("indexed", 3, indexed=True), 3),
        (job("gang", 3, least=3), 3),
        (scaled("Deployment", "web", 2), 2),
        (scaled("StatefulSet", "store", 2), 2),
        (job_set("set"), 5),
        (leader_worker_set("served", 2, 3, "LeaderCreated"), 6),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)
def test_groups_are_those_of_simulate(workloads: Workloads, manifest: Object, pods: int) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    apply(cluster, manifest)
    wait_grouped(workloads, [manifest], pods)


def wait_grouped(workloads: Workloads, manifests: Sequence[Object], pods: int, warnings: Sequence[str] = ()) -> None:
    """Wait until so many pods are bound, and are grouped as `simulate` groups them, which warns so."""
    cluster, expected = workloads.cluster, simulated_groups(manifests, warnings)

    def as_simulated() -> bool:
        found = live_groups(cluster)
        assert found == expected, f"{found}\n{expected}"
        return True

    wait_until(lambda: len(cluster.bound()) == pods, f"{pods} bound pods")
    wait_until(as_simulated, "the groups being those of simulate")


def test_a_run_of_a_cron_job_is_a_group(workloads: Workloads) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    apply(cluster, cron_job("nightly", 2))
    wait_until(lambda: pods_of(cluster), "the first run", 70.0, poll_s=0.5)
    cluster.patch("CronJob", "nightly", {"spec": {"suspend": True}})
    wait_grouped(workloads, [cron_job("nightly", 2)], 2)


def test_workers_that_come_once_their_leader_is_ready_join_it(workloads: Workloads) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    workloads.plane.stop_kwok()
    manifest = leader_worker_set("ready", 1, 3, "LeaderReady")
    apply(cluster, manifest)
    wait_grouped(workloads, [manifest], 1, ["workers start once their leader is ready, so only leaders are scheduled"])
    workloads.plane.start_kwok()
    wait_until(lambda: len(cluster.bound()) == 3, "the workers being bound")

    def joined() -> bool:
        (found,) = live_groups(cluster)
        assert (found["name"], found["pods"]) == ("pg-OWNER-UID-group-0", {"leader": 1, "workers": 2}), f"{found}"
        return bool(found["spec"]["minMember"] == 3)

    wait_until(joined, "one group")


def job_set_in_steps(name: str, status: str) -> Object:
    """As ``job_set``, where the workers wait for the leader to be Ready or Complete."""
    manifest = job_set(name)
    manifest["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "leader", "status": status}]
    return manifest


@pytest.mark.parametrize(
    ("manifest", "status", "groups"),
    [
        (job_set("ordered", startupPolicyOrder="InOrder"), "Ready", ["pg-OWNER-UID"]),
        (job_set_in_steps("ready", "Ready"), "Ready", ["pg-OWNER-UID", "pg-OWNER-UID-workers"]),
        (job_set_in_steps("complete", "Complete"), "Complete", ["pg-OWNER-UID", "pg-OWNER-UID-workers"]),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)
def test_a_job_set_starts_in_steps(workloads: Workloads, manifest: Object, status: str, groups: list[str]) -> None:
    """The first step is grouped as `simulate` does, and the second one starts once its time has come."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    workloads.plane.stop_kwok()
    apply(cluster, manifest)
    wait_grouped(workloads, [manifest], 1, [f"workers starts once leader is {status}, so its pods are left out"])
    workloads.plane.start_kwok()
    wait_until(lambda: len(cluster.bound()) == 5, "the workers being bound")
    assert sorted(found["name"] for found in live_groups(cluster)) == groups


def test_a_job_that_is_made_larger_goes_on_in_its_group(workloads: Workloads) -> None:
    """An elastic, indexed Job: its new pods are as good as the first. Without kubelets, so that none of them ends."""
    cluster = workloads.cluster
    cluster.add_queues("team", limit=3)
    cluster.add_nodes()
    workloads.plane.stop_kwok()
    manifest = job("grows", 2, indexed=True)
    apply(cluster, manifest)
    wait_until(lambda: len(cluster.bound()) == 2, "two pods")
    larger = {"parallelism": 4, "completions": 4}
    cluster.patch("Job", "grows", {"spec": larger})
    wait_until(lambda: len(cluster.bound()) == 3, "what the limit allows")
    assert len(pods_of(cluster)) == 4
    cluster.add_queues("team")
    manifest["spec"] |= larger
    wait_grouped(workloads, [manifest], 4)


def test_pods_that_want_no_group_are_left_alone(workloads: Workloads) -> None:
    """One annotation opts out a workload; others name a group of their own, and nobody owns the pod."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    manifest = job("alone", 2)
    marks = {"kai.scheduler/skip-podgrouper": "true"}
    manifest["spec"]["template"]["metadata"] = {"labels": {"kai.scheduler/queue": "team"}, "annotations": marks}
    apply(cluster, manifest)
    cluster.create_all(objects.gang("own", 2))
    wait_until(lambda: len(cluster.bound()) == 4, "all being bound")
    assert [group["name"] for group in cluster_groups(workloads)] == ["own"]
    assert [pod["metadata"].get("annotations", {}).get("pod-group-name") for pod in pods_of(cluster)].count(None) == 2


def cluster_groups(workloads: Workloads) -> list[Object]:
    return [group["metadata"] for group in workloads.cluster.list("PodGroup", "default")]
