"""Ray clusters that change their size: by their autoscaler, by people, by the reclaim of others, by upgrades."""

from __future__ import annotations

from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT, Workloads
from tests.cluster.faults import evictions
from tests.cluster.processes import wait_until
from tests.cluster.workload_objects import (
    apply,
    groups_of,
    pods_of,
    ray_cluster,
    ray_service,
    wait_one_group,
    wait_running,
)

WORKLOAD_OPERATORS = ("kuberay",)


def scale(cluster: Cluster, name: str, **sizes: int) -> None:
    """As Ray's autoscaler does, and as people do."""
    operations = [{"op": "replace", "path": f"/spec/workerGroupSpecs/0/{key}", "value": n} for key, n in sizes.items()]
    cluster.patch("RayCluster", name, operations, how="application/json-patch+json")


def workers(cluster: Cluster, phase: str) -> list[str]:
    pods = [pod for pod in pods_of(cluster) if pod["metadata"].get("labels", {}).get("ray.io/group") == "workers"]
    return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == phase]


def wait_workers(cluster: Cluster, running: int, pending: int, timeout_s: float = 60.0) -> None:
    def there() -> bool:
        found = len(workers(cluster, "Running")), len(workers(cluster, "Pending"))
        assert found == (running, pending), f"{found}"
        return True

    wait_until(there, f"{running} workers running and {pending} pending", timeout_s)


def sizes(group: Object) -> tuple[int, dict[str, int]]:
    return group["spec"]["minMember"], {each["name"]: each["minMember"] for each in group["spec"]["subGroups"]}


def wait_sizes(cluster: Cluster, least: int, **sub_groups: int) -> None:
    def there() -> bool:
        found = sizes(wait_one_group(cluster))
        assert found == (least, sub_groups), f"{found}"
        return True

    wait_until(there, f"a group of {least}")


def test_workers_beyond_the_minimum_come_and_go(workloads: Workloads) -> None:
    """2 to 6 workers of 1 GPU: it grows over its share, gives back down to its minimum, and grows again."""
    cluster, mark = workloads.cluster, workloads.plane.audit.mark()
    cluster.apply(objects.queue("owner", quota=6))
    cluster.apply(objects.queue("team", quota=2))
    cluster.add_nodes(1, gpus=8)
    apply(cluster, ray_cluster("elastic", 2, 2, most=6))
    wait_running(cluster, 3)
    scale(cluster, "elastic", replicas=6)
    wait_running(cluster, 7)
    wait_sizes(cluster, 3, headgroup=1, workers=2)

    cluster.create_all(objects.pod(f"own-{n}", "owner") for n in range(8))
    wait_workers(cluster, 2, 4)
    cluster.wait_condition("Pod", next(iter(workers(cluster, "Pending"))), "PodScheduled", status="False")
    bound = [name for name in cluster.bound() if name.startswith("own-")]
    assert len(bound) == 6
    victims = evictions(workloads.plane.audit, mark, ACCOUNT)
    assert (len(victims), set(victims.values())) == (4, {1})
    assert all(name.startswith("elastic-workers-") for name in victims)
    wait_sizes(cluster, 3, headgroup=1, workers=2)

    for n in range(8):
        cluster.delete("Pod", f"own-{n}", "default", grace_s=0)
    wait_workers(cluster, 6, 0)
    scale(cluster, "elastic", replicas=3)
    wait_workers(cluster, 3, 0)
    assert len(evictions(workloads.plane.audit, mark, ACCOUNT)) == 4


def test_a_cluster_that_does_not_fit_starts_when_it_is_made_smaller(workloads: Workloads) -> None:
    """Once with fewer replicas, which changes its pods, once with a smaller minimum, which does not."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=2)
    apply(cluster, ray_cluster("large", 4, 0))
    wait_sizes(cluster, 5, headgroup=1, workers=4)
    assert cluster.bound() == {}
    scale(cluster, "large", replicas=2, maxReplicas=2)
    wait_sizes(cluster, 3, headgroup=1, workers=2)
    wait_running(cluster, 3)
    cluster.delete("RayCluster", "large")
    wait_until(lambda: not groups_of(cluster), "the group being gone")

    apply(cluster, ray_cluster("large", 4, 4))
    wait_sizes(cluster, 5, headgroup=1, workers=4)
    scale(cluster, "large", minReplicas=2)
    wait_workers(cluster, 2, 2, timeout_s=90.0)
    wait_sizes(cluster, 3, headgroup=1, workers=2)


def test_a_suspended_cluster_comes_back_into_its_group(workloads: Workloads) -> None:
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1)
    apply(cluster, ray_cluster("rests", 2, 2))
    wait_running(cluster, 3)
    group = wait_one_group(cluster)
    cluster.patch("PodGroup", group["metadata"]["name"], {"spec": {"markUnschedulable": False}})
    cluster.patch("RayCluster", "rests", {"spec": {"suspend": True}})
    wait_until(lambda: not cluster.list("Pod", "default"), "no pods", 60.0)
    assert wait_one_group(cluster)["metadata"]["uid"] == group["metadata"]["uid"]
    cluster.patch("RayCluster", "rests", {"spec": {"suspend": False}})
    wait_running(cluster, 3)
    again = wait_one_group(cluster)
    assert again["metadata"]["uid"] == group["metadata"]["uid"]
    assert again["spec"] == {**group["spec"], "markUnschedulable": False}


def test_two_clusters_of_a_service_share_its_group(workloads: Workloads) -> None:
    """An upgrade: the new cluster is made beside the old one, which goes on serving."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1)
    apply(cluster, ray_service("serves", 2))
    wait_running(cluster, 3)
    # What KubeRay writes once Ray answers; there is no Ray here.
    status = cluster.get("RayService", "serves")["status"]
    first = status["pendingServiceStatus"]["rayClusterName"]
    serving = {"activeServiceStatus": status["pendingServiceStatus"], "pendingServiceStatus": {"rayClusterName": ""}}
    cluster.patch("RayService", "serves", {"status": serving}, subresource="/status")
    image = "/spec/rayClusterConfig/headGroupSpec/template/spec/containers/0/image"
    change = [{"op": "replace", "path": image, "value": "newer"}]
    cluster.patch("RayService", "serves", change, how="application/json-patch+json")

    def side_by_side() -> set[str]:
        pods = [pod["metadata"] for pod in wait_running(cluster, 6)]
        assert {pod["labels"]["ray.io/cluster"] for pod in pods} > {first}
        found = {pod.get("annotations", {}).get("pod-group-name", "") for pod in pods}
        assert len(found) == 1, f"{found}"
        return found

    found = wait_until(side_by_side, "both clusters running in one group", 60.0)
    group = wait_one_group(cluster)
    assert {group["metadata"]["name"]} == found
    assert group["metadata"]["name"].startswith("pg-serves-")
    assert sizes(group) == (3, {"headgroup": 1, "workers": 2})
