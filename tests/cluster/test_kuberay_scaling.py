"""Ray clusters that change their size: by their autoscaler, by people, by the reclaim of others, by upgrades."""

from __future__ import annotations

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT, Workloads
from tests.cluster.faults import evictions
from tests.cluster.processes import wait_until
from tests.cluster.workload_objects import (
    apply,
    groups_of,
    live_groups,
    pods_of,
    ray_cluster,
    ray_service,
    simulated_groups,
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


def switch(cluster: Cluster, name: str, active: str) -> None:
    """What KubeRay writes once Ray answers; there is no Ray here."""
    status = {"activeServiceStatus": {"rayClusterName": active}, "pendingServiceStatus": {"rayClusterName": ""}}
    cluster.patch("RayService", name, {"status": status}, subresource="/status")


def pods_by_cluster(cluster: Cluster) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for pod in pods_of(cluster):
        found.setdefault(pod["metadata"]["labels"]["ray.io/cluster"], []).append(pod)
    return found


def test_the_new_cluster_of_a_service_starts_whole_beside_the_old(workloads: Workloads) -> None:
    """An upgrade, with room for half of the new cluster at first. The old one serves until KubeRay deletes it."""
    cluster, mark = workloads.cluster, workloads.plane.audit.mark()
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=3)
    apply(cluster, ray_service("serves", 2))
    wait_running(cluster, 3)
    (first,) = pods_by_cluster(cluster)
    switch(cluster, "serves", first)
    image = "/spec/rayClusterConfig/headGroupSpec/template/spec/containers/0/image"
    change = [{"op": "replace", "path": image, "value": "newer"}]
    cluster.patch("RayService", "serves", change, how="application/json-patch+json")

    def begun() -> str:
        found = {name: len(pods) for name, pods in pods_by_cluster(cluster).items()}
        assert sorted(found.values()) == [3, 3], f"{found}"
        return next(iter(found.keys() - {first}))

    second = wait_until(begun, "both clusters having their pods", 60.0)
    told = cluster.wait_event("serves", names.UNSCHEDULABLE)
    assert told["involvedObject"]["kind"] == "RayService"
    assert f"PodGroup default/pg-{second}-" in told["message"]
    assert "2 of 3 pods of the gang fit" in told["message"]
    old = {pod["metadata"]["name"] for pod in pods_by_cluster(cluster)[first]}
    assert cluster.bound().keys() == old
    cluster.add_nodes(1, gpus=1, prefix="more")
    wait_running(cluster, 6)
    assert [sizes(group) for group in groups_of(cluster)] == [(3, {"headgroup": 1, "workers": 2})] * 2
    assert {group["spec"]["queue"] for group in groups_of(cluster)} == {"team"}

    switch(cluster, "serves", second)

    def switched() -> Object:
        found = pods_by_cluster(cluster).keys(), len(groups_of(cluster))
        assert found == ({second}, 1), f"{found}"
        return groups_of(cluster)[0]

    group = wait_until(switched, "the old cluster being gone with its group", 90.0)
    assert group["metadata"]["ownerReferences"][0]["name"] == second
    assert len(wait_running(cluster, 3)) == 3
    assert evictions(workloads.plane.audit, mark, ACCOUNT) == {}
    assert [event["reason"] for event in cluster.events(group["metadata"]["name"]) if "Stale" in event["reason"]] == []


def parts(cluster: Cluster) -> list[str]:
    """The sub-groups of the one group there is, with what each needs."""
    found = wait_one_group(cluster)["spec"]["subGroups"]
    return [f"{each['name']} {each.get('minMember', each.get('minSubGroup'))}" for each in found]


def test_the_hosts_of_a_replica_start_together(workloads: Workloads) -> None:
    """Replicas of 2 hosts, one GPU each: with room for three hosts there is one replica."""
    cluster = workloads.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=1)
    manifest = ray_cluster("hosts", 1, 1, most=3, hosts=2)
    apply(cluster, manifest)
    group = wait_one_group(cluster)
    cluster.wait_event(group["metadata"]["name"], names.UNSCHEDULABLE)
    assert cluster.bound() == {}
    cluster.add_nodes(1, gpus=2, prefix="more")
    wait_running(cluster, 3)
    wait_until(lambda: live_groups(cluster) == simulated_groups([manifest]), "the group as it is simulated")
    assert parts(cluster) == ["headgroup 1", "workers 1", "workers-replica-0 2"]

    scale(cluster, "hosts", replicas=2)
    wait_workers(cluster, 2, 2)
    for name in workers(cluster, "Pending"):
        cluster.wait_condition("Pod", name, names.POD_SCHEDULED, reason=names.UNSCHEDULABLE)
    assert len(cluster.bound()) == 3
    assert parts(cluster) == ["headgroup 1", "workers 1", "workers-replica-0 2", "workers-replica-1 2"]
    cluster.add_nodes(1, gpus=1, prefix="last")
    wait_workers(cluster, 4, 0)


def test_replicas_of_hosts_come_and_go_whole(workloads: Workloads) -> None:
    cluster, mark = workloads.cluster, workloads.plane.audit.mark()
    cluster.apply(objects.queue("owner", quota=3))
    cluster.apply(objects.queue("team", quota=3))
    cluster.add_nodes(1, gpus=6)
    apply(cluster, ray_cluster("hosts", 3, 1, most=3, hosts=2))
    wait_running(cluster, 7)
    replicas = {
        pod["metadata"]["name"]: pod["metadata"]["labels"].get("ray.io/worker-group-replica-name", "")
        for pod in pods_of(cluster)
    }
    # One GPU of its quota is taken back by half a replica, which is of no use without the other half.
    cluster.create_all([objects.pod("own", "owner")])
    cluster.wait_bound(["own"])
    victims = evictions(workloads.plane.audit, mark, ACCOUNT)
    assert len({replicas[name] for name in victims}) == 1, f"{victims}"
    wait_workers(cluster, 4, 2)
    cluster.delete("Pod", "own", "default", grace_s=0)
    wait_workers(cluster, 6, 0)
    # A host that is lost takes its replica with it, which KubeRay makes anew, with the same number and another name.
    lost = workers(cluster, "Running")[0]
    cluster.delete("Pod", lost, "default", grace_s=0)
    wait_until(lambda: lost not in workers(cluster, "Running"), "the host being gone")
    wait_workers(cluster, 6, 0)
    scale(cluster, "hosts", replicas=1)
    wait_workers(cluster, 2, 0)
    wait_until(lambda: len(parts(cluster)) == 3, "a sub-group for the replica that is left", 60.0)
    assert parts(cluster)[:2] == ["headgroup 1", "workers 1"]
