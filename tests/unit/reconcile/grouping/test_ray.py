"""Ray: the clusters of a service are gangs of their own, and so is each replica of a worker group of several hosts."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.objects import Pod, PodGroup, SubGroup
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.workloads import QUEUE, Thing, World, grouping, line, member, owner, pod

HEAD = {"ray.io/group": "headgroup"}
RAY = "ray.io/v1 RayCluster"


def hosts(*groups: Thing, **more: Any) -> Thing:
    """A RayCluster of these worker groups."""
    return owner(RAY, "rc", labels=QUEUE, spec={"headGroupSpec": {}, "workerGroupSpecs": groups}, **more)


TPU: Thing = {"groupName": "tpu", "replicas": 2, "minReplicas": 1, "numOfHosts": 4}


def host(replica: int | None, number: int = 0, sub_group: str = "", group: str = "", cluster: str = "rc") -> Pod:
    """A pod of the worker group that is there, with the labels that KubeRay gives it."""
    labels = {"ray.io/cluster": cluster, "ray.io/group": "tpu"}
    if replica is not None:
        labels["ray.io/worker-group-replica-index"] = str(replica)
    return member(f"{cluster}-{replica}-{number}", labels, sub_group=sub_group, group=group)


def told(*there: Pod, labels: Thing | None = None, top: Thing | None = None) -> str:
    """The sub-groups, and that of a pod with these labels; of the head without."""
    top = top or hosts(TPU)
    found = grouping(pod("p", top, labels={"ray.io/cluster": "rc", **(labels or HEAD)}), World((top,), there=there))
    assert found.notes == ()
    return line(found).partition("team-a train | ")[2]


class TestHosts:
    def test_each_replica_is_a_part_of_its_worker_group(self) -> None:
        """As many as are needed where none is there yet; KubeRay numbers them from 0."""
        top = hosts({**TPU, "minReplicas": 2}, {"groupName": "cpu", "replicas": 3})
        assert line(grouping(pod("p", top, labels=HEAD), World((top,)))) == (
            "pg-rc-uid-rc of RayCluster rc (uid-rc) | 12 | team-a train | "
            "headgroup 1, tpu 2 parts, tpu/tpu-replica-0 4, tpu/tpu-replica-1 4, cpu 3 | headgroup"
        )

    def test_a_pod_says_which_replica_it_is_of(self) -> None:
        labels = {"ray.io/group": "tpu", "ray.io/worker-group-replica-index": "3"}
        parts = "headgroup 1, tpu 1 parts, tpu/tpu-replica-3 4"
        assert told(host(3), labels=labels) == f"{parts} | tpu-replica-3"
        # The pod that a group was made after may be gone: its replica is none any more.
        assert told(host(1), labels=labels).startswith("headgroup 1, tpu 1 parts, tpu/tpu-replica-1 4 | ")

    def test_replicas_beyond_the_minimum_and_holes(self) -> None:
        """Those that are there, and where they are too few the numbers that KubeRay gives next."""
        parts = "headgroup 1, tpu 1 parts, tpu/tpu-replica-{} 4, tpu/tpu-replica-{} 4 | headgroup"
        assert told(host(2), host(0), host(0, 1)) == parts.format(0, 2)
        two = hosts({**TPU, "minReplicas": 2})
        assert told(host(1), top=two) == parts.replace("1 parts", "2 parts").format(0, 1)

    def test_pods_of_others_do_not_count(self) -> None:
        """Those of another cluster, of another worker group, and of the cluster that had the name before."""
        other = member("x", {"ray.io/cluster": "rc", "ray.io/group": "cpu", "ray.io/worker-group-replica-index": "5"})
        before = host(7, sub_group="tpu", group="pg-rc-uid-before")
        assert told(host(9, cluster="r2"), other, before) == (
            "headgroup 1, tpu 1 parts, tpu/tpu-replica-0 4 | headgroup"
        )

    def test_without_the_labels_all_hosts_are_one_part(self) -> None:
        """KubeRay before 1.6, or with the feature off."""
        assert told(host(None), labels={"ray.io/group": "tpu"}) == "headgroup 1, tpu 4 | tpu"

    def test_what_is_in_one_part_stays_there(self) -> None:
        """A running cluster that another version has grouped: none of its pods may lose its place."""
        old = host(0, sub_group="tpu", group="pg-rc-uid-rc")
        new = {"ray.io/group": "tpu", "ray.io/worker-group-replica-index": "1"}
        assert told(old, host(1), labels=new) == "headgroup 1, tpu 4 | tpu"

    def test_a_pod_without_the_label_among_others_that_have_it(self) -> None:
        top = hosts(TPU)
        the_pod = pod("p", top, labels={"ray.io/cluster": "rc", "ray.io/group": "tpu"})
        found = grouping(the_pod, World((top,), there=(host(0), host(None))))
        assert line(found).endswith("tpu/tpu-replica-0 4 | ")
        (note,) = found.notes
        assert (note.subject, note.field) == ("Pod ml/p", "metadata.labels[ray.io/worker-group-replica-index]")
        assert "'' is not the number of a replica" in note.message

    def test_the_topology_is_that_of_the_worker_group(self) -> None:
        """As without replicas: all of them together."""
        level = {"kai.scheduler/topology": "net", "kai.scheduler/topology-required-placement": "rack"}
        top = hosts({**TPU, "template": {"metadata": {"annotations": level}}})
        assert told(top=top) == "headgroup 1, tpu 1 parts in net:rack, tpu/tpu-replica-0 4 | headgroup"

    @pytest.mark.parametrize(
        ("workers", "message"),
        [
            ({**TPU, "minReplicas": 10_001, "replicas": 10_001}, "minReplicas: 10,001 replicas of several hosts each"),
            ({**TPU, "groupName": "a" * 60}, "groupName: 'aaaa"),
        ],
    )
    def test_what_no_pod_group_can_hold(self, workers: Thing, message: str) -> None:
        top = hosts(workers)
        with pytest.raises(GroupingError) as error:
            grouping(pod("p", top, labels=HEAD), World((top,)))
        assert f"RayCluster ml/rc: spec.workerGroupSpecs[0].{message}" in str(error.value)


STATUS: Thing = {
    "activeServiceStatus": {"rayClusterName": "rs-1"},
    "pendingServiceStatus": {"rayClusterName": "rs-2"},
}
SERVICE = owner("ray.io/v1 RayService", "rs", labels=QUEUE, status=STATUS)
OLD = owner(RAY, "rs-1", SERVICE, spec={"workerGroupSpecs": [{"groupName": "a", "replicas": 2}]})
NEW = owner(RAY, "rs-2", SERVICE, spec={"workerGroupSpecs": [{"groupName": "b", "replicas": 3}]})
SHARED = PodGroup("ml", "pg-rs-uid-rs", uid="u", sub_groups=(SubGroup("headgroup", min_member=1),))


class TestServices:
    def told(self, cluster: Thing, world: World, group: str) -> str:
        labels = {"ray.io/cluster": cluster["metadata"]["name"], "ray.io/group": group}
        return line(grouping(pod("p", cluster, labels=labels), world))

    def test_each_cluster_is_a_group_of_its_own(self) -> None:
        """It goes with its cluster; queue and the rest are those of the service."""
        world = World((SERVICE, OLD, NEW))
        assert self.told(OLD, world, "headgroup") == (
            "pg-rs-1-uid-rs-1 of RayCluster rs-1 (uid-rs-1) | 3 | team-a train | headgroup 1, a 2 | headgroup"
        )
        assert self.told(NEW, world, "b") == (
            "pg-rs-2-uid-rs-2 of RayCluster rs-2 (uid-rs-2) | 4 | team-a train | headgroup 1, b 3 | b"
        )

    def test_labels_and_the_owner_that_is_told_are_those_of_the_service(self) -> None:
        labels = {**QUEUE, "priorityClassName": "inference"}
        service = owner("ray.io/v1 RayService", "rs", labels=labels, annotations={"kai.scheduler/topology": "net"})
        cluster = owner(RAY, "rs-1", service, labels={"kai.scheduler/queue": "other"}, spec={})
        found = grouping(pod("p", cluster, labels=HEAD), World((service, cluster)))
        assert found.queue.subject == "RayService ml/rs"
        assert found.manifest["metadata"]["labels"] == labels
        assert found.manifest["spec"]["priorityClassName"] == "inference"
        assert found.manifest["spec"]["topologyConstraint"] == {"topology": "net"}
        assert "kind: RayService" in found.manifest["metadata"]["annotations"]["kai.scheduler/top-owner-metadata"]

    def test_a_cluster_that_is_in_the_group_of_the_service_stays_there(self) -> None:
        """Made by another version: nothing that runs changes its group. The next cluster has its own."""
        there = (member("q", {"ray.io/cluster": "rs-1"}, group="pg-rs-uid-rs"),)
        world = World((SERVICE, OLD, NEW), {"ml/pg-rs-uid-rs": SHARED}, there)
        assert self.told(OLD, world, "a").startswith("pg-rs-uid-rs of RayService rs (uid-rs) | 3 |")
        assert self.told(NEW, world, "b").startswith("pg-rs-2-uid-rs-2 of RayCluster rs-2 (uid-rs-2) | 4 |")

    def test_an_upgrade_in_steps_begins_with_the_minimum(self) -> None:
        """KubeRay makes the new cluster with no replicas at first, and gives it as many as it needs at the least."""
        workers = {"groupName": "a", "replicas": 0, "minReplicas": 2}
        cluster = owner(RAY, "rs-2", SERVICE, spec={"workerGroupSpecs": [workers]})
        assert "headgroup 1, a 2 |" in self.told(cluster, World((SERVICE, cluster)), "a")
