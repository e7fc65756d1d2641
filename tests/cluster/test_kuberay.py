"""KubeRay with us as its batch scheduler: gangs, queues, priorities, and what people see of them."""

from __future__ import annotations

import pytest
import yaml

from kai_sched.api import names
from tests.cluster import components
from tests.cluster.client import Object
from tests.cluster.conftest import ACCOUNT, Workloads
from tests.cluster.processes import wait_until
from tests.cluster.workload_objects import (
    apply,
    groups_of,
    live_groups,
    pods_of,
    ray_cluster,
    ray_job,
    ray_service,
    simulated_groups,
    wait_one_group,
    wait_running,
)

WORKLOAD_OPERATORS = ("kuberay",)


def sample() -> list[Object]:
    """KubeRay's own example for us: two queues and a cluster."""
    (path,) = components.shipped("kuberay", "ray-cluster.kai-scheduler.yaml")
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def test_the_sample_of_kuberay_runs_unchanged(workloads: Workloads) -> None:
    cluster, mark = workloads.cluster, workloads.plane.audit.mark()
    cluster.add_nodes()
    apply(cluster, *sample())
    pods = wait_running(cluster, 3)
    assert {queue["metadata"]["name"] for queue in cluster.list("Queue")} == {"department-1", "team-a"}
    group = wait_one_group(cluster)
    owner = cluster.get("RayCluster", "raycluster-sample")
    assert group["metadata"]["name"] == f"pg-raycluster-sample-{owner['metadata']['uid']}"
    assert group["spec"] == {
        "minMember": 3,
        "queue": "team-a",
        "priorityClassName": "train",
        "subGroups": [{"name": "headgroup", "minMember": 1}, {"name": "worker", "minMember": 2}],
    }
    assert group["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": "raycluster-sample",
            "uid": owner["metadata"]["uid"],
        }
    ]

    def told() -> bool:
        found = live_groups(cluster)
        assert [each["pods"] for each in found] == [{"headgroup": 1, "worker": 2}], f"{found}"
        return True

    wait_until(told, "all pods saying where they belong")
    assert live_groups(cluster) == simulated_groups(sample())
    # Each thing is written once: the group, and what each pod belongs to.
    written = workloads.plane.audit.since(mark, ACCOUNT)
    assert [(one.verb, one.status) for one in written if one.subject == "podgroups" and one.verb != "patch"].count(
        ("create", 201)
    ) == 1
    patched = sorted(one.name for one in written if (one.verb, one.subject) == ("patch", "pods"))
    assert patched == sorted(pod["metadata"]["name"] for pod in pods)


def test_a_cluster_that_must_not_be_preempted_is_refused_over_quota(workloads: Workloads) -> None:
    cluster = workloads.cluster
    cluster.add_nodes()
    *queues, ray = sample()
    queues[1]["spec"]["resources"]["cpu"]["quota"] = 2000
    ray["metadata"]["labels"][names.PRIORITY_CLASS_LABEL] = "build"
    apply(cluster, *queues, ray)
    group = wait_one_group(cluster)
    assert group["spec"]["priorityClassName"] == "build"
    event = cluster.wait_event(group["metadata"]["name"], names.UNSCHEDULABLE)
    assert "queue team-a guarantees 2 CPU cores to non-preemptible work" in event["message"]
    (pod, *_) = wait_until(lambda: pods_of(cluster), "its pods")
    cluster.wait_condition("Pod", pod["metadata"]["name"], names.POD_SCHEDULED, reason=names.QUEUE_OVER_QUOTA)
    assert cluster.bound() == {}
    # With the quota that it needs it runs.
    cluster.patch("Queue", "team-a", {"spec": {"resources": {"cpu": {"quota": 3000}}}})
    wait_running(cluster, 3)


def test_a_head_and_its_workers_start_whole_or_not_at_all(workloads: Workloads) -> None:
    """Five GPUs are asked for and four are there."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=4)
    apply(cluster, ray_cluster("whole", 4, 4, head_gpus=1))
    group = wait_one_group(cluster)
    assert group["spec"]["minMember"] == 5
    cluster.wait_event(group["metadata"]["name"], names.UNSCHEDULABLE)
    pods = pods_of(cluster)
    assert len(pods) == 5
    for pod in pods:
        cluster.wait_condition("Pod", pod["metadata"]["name"], names.POD_SCHEDULED, reason=names.UNSCHEDULABLE)
    assert cluster.bound() == {}
    for kind, name in (("pod", pods[0]["metadata"]["name"]), ("podgroup", group["metadata"]["name"])):
        shown = cluster.kubectl("describe", kind, name)
        assert "4 of 5 pods of the gang fit" in shown, shown[-2500:]
        assert "there is room for 4 such pods only" in shown, shown[-2500:]
    cluster.add_nodes(1, gpus=1, prefix="more")
    wait_running(cluster, 5)


def test_a_queue_that_is_corrected_on_the_cluster_is_followed(workloads: Workloads) -> None:
    """KubeRay does not pass the new label on to the pods that wait."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    ray = ray_cluster("typo", 2, 2)
    ray["metadata"]["labels"][names.QUEUE_LABEL] = "taem"
    apply(cluster, ray)
    group = wait_one_group(cluster)
    cluster.wait_condition(
        "Pod", wait_until(lambda: pods_of(cluster), "its pods")[0]["metadata"]["name"], names.POD_SCHEDULED
    )
    assert (group["spec"]["queue"], cluster.bound()) == ("taem", {})
    cluster.patch("RayCluster", "typo", {"metadata": {"labels": {names.QUEUE_LABEL: "team"}}})
    wait_running(cluster, 3, 40.0)
    assert wait_one_group(cluster)["spec"]["queue"] == "team"


def test_worker_groups_that_do_not_say_how_many(workloads: Workloads) -> None:
    """KubeRay makes as many workers as are needed at the least."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    ray = ray_cluster("unsaid", 2, 2)
    del ray["spec"]["workerGroupSpecs"][0]["replicas"]
    apply(cluster, ray)
    wait_running(cluster, 3)
    assert wait_one_group(cluster)["spec"]["minMember"] == 3


def test_a_deleted_cluster_leaves_nothing_behind(workloads: Workloads) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1)
    apply(cluster, ray_cluster("gone", 2, 2))
    wait_running(cluster, 3)
    wait_one_group(cluster)
    mark = workloads.plane.audit.mark()
    cluster.kubectl("delete", "raycluster", "gone", "--wait=false")

    def left() -> bool:
        found = {kind: len(cluster.list(kind, "default")) for kind in ("RayCluster", "Pod", "PodGroup")}
        assert set(found.values()) == {0}, f"{found}"
        return True

    wait_until(left, "nothing being left", 60.0)
    created = [one for one in workloads.plane.audit.since(mark, ACCOUNT) if one.verb == "create"]
    assert [one.subject for one in created if one.subject == "podgroups"] == []


@pytest.mark.parametrize(
    ("label", "reason", "texts"),
    [
        (
            "nobody",
            "QueueDoesNotExist",
            ["metadata.labels[kai.scheduler/queue] of RayCluster default/lost names queue 'nobody'", "team-a, team-b"],
        ),
        ("org", "QueueIsNotALeaf", ["names queue 'org'", "use one of team-a, team-b"]),
        (None, names.QUEUE_LABEL_MISSING, ["RayCluster default/lost has no label kai.scheduler/queue"]),
    ],
)
def test_a_queue_label_that_is_wrong_or_missing_is_told_to_the_owner(
    workloads: Workloads, label: str | None, reason: str, texts: list[str]
) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team-a", "team-b")
    cluster.add_nodes()
    apply(cluster, ray_cluster("lost", 1, 1, queue=label))
    event = cluster.wait_event("lost", reason)
    assert event["involvedObject"]["kind"] == "RayCluster"
    assert event["type"] == "Warning"
    for text in texts:
        assert text in event["message"]
    (pod, *_) = wait_until(lambda: pods_of(cluster), "its pods")
    cluster.wait_event(pod["metadata"]["name"], reason)
    assert cluster.bound() == {}
    # People correct the group, or make the queue.
    group = wait_one_group(cluster)["metadata"]["name"]
    cluster.patch("PodGroup", group, {"spec": {"queue": "team-b"}})
    wait_running(cluster, 2)
    assert cluster.get("PodGroup", group)["spec"]["queue"] == "team-b"


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode", "SidecarMode"])
def test_ray_jobs_are_grouped_in_each_mode_that_kuberay_lets_through(workloads: Workloads, mode: str) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes()
    manifest = ray_job("train", 2, mode)
    apply(cluster, manifest)
    wait_running(cluster, 3)
    wait_until(lambda: live_groups(cluster) == simulated_groups([manifest]), f"{mode} as it is simulated")
    (group,) = live_groups(cluster)
    assert (group["owner"], group["top"]["name"], group["spec"]["minMember"]) == ("ray.io/v1 RayJob", "train", 3)
    assert group["pods"] == {"headgroup": 1, "workers": 2}


def test_a_job_that_kuberay_refuses_makes_nothing(workloads: Workloads) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    apply(cluster, ray_job("refused", 1, "K8sJobMode"))
    kuberay = workloads.operators["kuberay"]
    kuberay.wait_until(lambda: "K8sJobMode" in kuberay.log.read_text(), "KubeRay refusing it")
    assert (list(cluster.list("Pod", "default")), groups_of(cluster)) == ([], [])


def test_a_service_takes_the_place_of_training(workloads: Workloads) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=2)
    apply(cluster, ray_job("training", 2))
    wait_running(cluster, 3)
    service = ray_service("serving", 2, priorityClassName="inference")
    apply(cluster, service)

    def serves() -> bool:
        running = [pod for pod in pods_of(cluster) if pod["status"].get("phase") == "Running"]
        groups = [pod["metadata"]["annotations"].get(names.POD_GROUP_ANNOTATION, "") for pod in running]
        assert sum(group.startswith("pg-serving-") for group in groups) == 3, f"{groups}"
        return True

    wait_until(serves, "the service running", 60.0)
    group = next(group for group in groups_of(cluster) if group["metadata"]["name"].startswith("pg-serving-"))
    assert group["spec"]["priorityClassName"] == "inference"
    victims = [event for event in cluster.list("Event", "default") if event["reason"] == names.EVICT]
    assert {event["metadata"]["annotations"]["evictor-action-type"] for event in victims} == {"preempt"}
    assert {event["metadata"]["annotations"]["evictor-pod-group-name"] for event in victims} == {
        group["metadata"]["name"]
    }
    (simulated,) = simulated_groups([service])
    wait_until(lambda: simulated in live_groups(cluster), "the service's group as it is simulated")
