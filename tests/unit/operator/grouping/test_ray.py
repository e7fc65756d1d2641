"""Ray clusters whose pods come and go: replicas of several hosts, and services that another version has grouped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator.grouped import GROUPS, Object, Played, ray_cluster, settle, until

GROUP = "pg-ray-uid-ray"


pytestmark = pytest.mark.usefixtures("hundredths")


def worker(played: Played, cluster: Object, replica: int, host: int, **more: Any) -> str:
    """A worker of the cluster, with the labels that KubeRay gives it."""
    name = f"{cluster['metadata']['name']}-{replica}-{host}"
    labels = {"ray.io/cluster": cluster["metadata"]["name"], "ray.io/group": "workers", **more.pop("labels", {})}
    played.owned(cluster, name, labels={**labels, "ray.io/worker-group-replica-index": str(replica)}, **more)
    return name


def parts(played: Played, name: str = GROUP) -> list[str]:
    group = played.group(name)
    return (
        [] if group is None else [f"{each.name} {each.min_member or each.min_sub_group}" for each in group.sub_groups]
    )


def hosts(played: Played) -> Object:
    """Replicas of 2 hosts, 3 of them wanted and one needed."""
    cluster = ray_cluster("ray", 3)
    cluster["spec"]["workerGroupSpecs"][0] |= {"minReplicas": 1, "numOfHosts": 2}
    return played.api.put(cluster)


async def test_sub_groups_follow_the_replicas(played: Played) -> None:
    cluster = hosts(played)
    labels = {"ray.io/cluster": "ray", "ray.io/group": "headgroup"}
    played.owned(cluster, "head", labels=labels)
    played.start()
    await until(lambda: parts(played) == ["headgroup 1", "workers 1", "workers-replica-0 2"])
    names = {replica: [worker(played, cluster, replica, host) for host in (0, 1)] for replica in (0, 1, 2)}
    await settle(played)
    leaves = [f"workers-replica-{replica} 2" for replica in (0, 1, 2)]
    assert parts(played) == ["headgroup 1", "workers 1", *leaves]
    for replica, workers in names.items():
        for name in workers:
            assert played.place(name) == (GROUP, f"workers-replica-{replica}") == played.shown(name)

    # The first goes, and with it the pod that the group was made after last goes, too: nobody is warned of that.
    for name in (*names[2], *names[0]):
        played.api.delete(f"/api/v1/namespaces/ml/pods/{name}")
    await until(lambda: parts(played) == ["headgroup 1", "workers 1", leaves[1]])
    await settle(played)
    assert [each["name"] for each in played.api.objects[f"{GROUPS}/{GROUP}"]["spec"]["subGroups"]][2:] == [
        "workers-replica-1"
    ]
    assert played.events == []


async def test_a_running_cluster_that_was_not_cut_stays_so(played: Played) -> None:
    """Another version has grouped it: its hosts keep their place, and new ones join them."""
    cluster = hosts(played)
    old = {"annotations": {"pod-group-name": GROUP}, "labels": {"kai.scheduler/subgroup-name": "workers"}}
    names = [worker(played, cluster, 0, host, node="n", **old) for host in (0, 1)]
    played.start()
    await settle(played)
    names += [worker(played, cluster, 1, host) for host in (0, 1)]
    await settle(played)
    assert {played.place(name) for name in names} == {(GROUP, "workers")}
    assert parts(played) == ["headgroup 1", "workers 2"]


async def test_a_running_service_keeps_its_group_and_its_upgrade_has_another(played: Played) -> None:
    status = {"activeServiceStatus": {"rayClusterName": "one"}, "pendingServiceStatus": {"rayClusterName": "two"}}
    meta = {"name": "serves", "uid": "uid-serves", "labels": {"kai.scheduler/queue": "team"}}
    service = played.api.put({"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": meta, "status": status})
    by = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "serves", "uid": "uid-serves", "controller": True}
    clusters = []
    for name in ("one", "two"):
        cluster = ray_cluster(name, 2)
        cluster["metadata"]["ownerReferences"] = [by]
        clusters.append(played.api.put(cluster))
    shared = "pg-serves-uid-serves"
    spec = {"minMember": 3, "queue": "moved", "subGroups": [{"name": "headgroup", "minMember": 1}]}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": shared}, "spec": spec}
    group["metadata"] = {"name": shared, "namespace": "ml", "uid": "uid-shared"}
    played.api.put(group)
    old = {"annotations": {"pod-group-name": shared}, "labels": {"kai.scheduler/subgroup-name": "workers"}}
    running = worker(played, clusters[0], 0, 0, node="n", **old)
    played.start()
    await settle(played)
    again = worker(played, clusters[0], 1, 0)
    new = worker(played, clusters[1], 0, 0)
    await settle(played)
    assert [played.place(name) for name in (running, again)] == [(shared, "workers")] * 2
    assert played.place(new) == ("pg-two-uid-two", "workers")
    kept, beside = played.group(shared), played.group("pg-two-uid-two")
    assert kept is not None
    assert beside is not None
    assert (kept.queue, kept.min_member) == ("moved", 3)
    assert (beside.queue, beside.min_member) == ("team", 3)
    owner = played.owners.owner_of("ml/pg-two-uid-two")
    assert owner is not None
    assert (owner.kind, owner.uid) == ("RayService", service["metadata"]["uid"])
