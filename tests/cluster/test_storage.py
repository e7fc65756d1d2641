"""What storage drivers say of nodes, on real CSIDrivers, CSIStorageCapacities and CSINodes; and claims for one pod."""

from __future__ import annotations

import time

import pytest

from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_until
from tests.cluster.test_volumes import SELECTED, claim, pod_with, storage_class
from tests.tree import ROOT

DRIVER = "disk.example.com"
EXAMPLES = ROOT / "examples" / "storage"


def driver() -> Object:
    spec = {"storageCapacity": True}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}


def capacity(node: str, size: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"of-{node}", "namespace": "default"},
        "storageClassName": "made",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}},
        "capacity": size,
    }


def limits(node: str, count: int) -> Object:
    spec = {"drivers": [{"name": DRIVER, "nodeID": node, "topologyKeys": None, "allocatable": {"count": count}}]}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}, "spec": spec}


def bound_claim(name: str, mode: str = "ReadWriteOnce") -> list[Object]:
    """A claim, and the volume of the driver that is kept for it: the controller binds them."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": [mode],
            "csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"},
            "claimRef": {"namespace": "default", "name": name},
        },
    }
    wanted = claim(name, "")
    wanted["spec"] |= {"accessModes": [mode], "volumeName": name}
    return [volume, wanted]


def selected(cluster: Cluster, name: str) -> str:
    """The node for which the driver is to make a volume for the claim."""

    def annotation() -> str:
        found = cluster.get("PersistentVolumeClaim", name, "default")["metadata"].get("annotations", {})
        assert SELECTED in found, found
        return str(found[SELECTED])

    return wait_until(annotation, f"a node for claim {name}")


@pytest.fixture
def stage(cluster: Cluster, controller_manager: ControlPlane, operator: StartOperator) -> Cluster:
    """Two nodes, a queue, the controllers of Kubernetes, and the operator."""
    assert controller_manager.processes
    cluster.add_queues("team")
    cluster.add_nodes(2)
    operator()
    return cluster


def test_volumes_are_made_where_there_is_capacity(stage: Cluster) -> None:
    """The driver, which is not there, would make the volume of the first claim; until then its room is taken."""
    stage.create_all([driver(), storage_class("made", DRIVER), capacity("node-0", "2Gi"), capacity("node-1", "8Gi")])
    stage.create(claim("first", "made"))
    stage.create(pod_with("first", "first"))
    assert selected(stage, "first") == "node-1"
    stage.create(claim("second", "made"))
    stage.create(pod_with("second", "second"))
    condition = stage.wait_condition("Pod", "second", "PodScheduled", status="False")
    assert "5Gi storage of class made" in condition["message"] or "no capacity" in condition["message"], condition
    stage.patch("CSIStorageCapacity", "of-node-0", {"capacity": "6Gi"}, "default")
    assert selected(stage, "second") == "node-0"


def test_a_claim_that_is_too_large_is_told_the_largest_capacity(stage: Cluster) -> None:
    stage.create_all([driver(), storage_class("made", DRIVER), capacity("node-0", "2Gi"), capacity("node-1", "3Gi")])
    stage.create(claim("data", "made"))
    stage.create(pod_with("trainer", "data"))
    condition = stage.wait_condition("Pod", "trainer", "PodScheduled", status="False")
    said = "asks for 5Gi storage of class made; the most on one node is 3Gi storage of class made"
    assert said in condition["message"], condition


def test_a_node_gets_no_more_volumes_than_it_can_attach(stage: Cluster) -> None:
    """One on each of two nodes; the third pod starts when the first is gone."""
    stage.create_all([limits("node-0", 1), limits("node-1", 1)])
    for name in ("one", "two", "three"):
        stage.create_all(bound_claim(name))
        stage.create(pod_with(name, name))
        if name != "three":
            stage.wait_bound([name])
    assert sorted(stage.bound().values()) == ["node-0", "node-1"]
    condition = stage.wait_condition("Pod", "three", "PodScheduled", status="False")
    assert f"2 of 2 nodes lack the 1 attachable volume of {DRIVER}" in condition["message"], condition
    stage.delete("Pod", "one", "default")
    stage.wait_bound(["three"])


def test_a_claim_for_one_pod_alone_is_used_by_one_pod(stage: Cluster) -> None:
    stage.create_all(bound_claim("data", "ReadWriteOncePod"))
    stage.create(pod_with("old", "data"))
    stage.wait_bound(["old"])
    stage.create(pod_with("new", "data"))
    condition = stage.wait_condition("Pod", "new", "PodScheduled", status="False")
    assert "default/data is for one pod alone (ReadWriteOncePod), and pod default/old" in condition["message"], (
        condition
    )
    time.sleep(2.0)
    assert "nodeName" not in stage.pod("new")["spec"]
    stage.delete("Pod", "old", "default")
    stage.wait_bound(["new"])


def test_the_example_is_what_the_page_says(cluster: Cluster, operator: StartOperator) -> None:
    """The API server takes all its objects; one volume is to be made, on the node with the large disk."""
    for name in ("settings.yaml", "cluster.yaml"):
        cluster.kubectl("apply", "-f", str(EXAMPLES / name))
    names = ("node-1", "node-2")
    for name in names:
        cluster.patch("Node", name, {"spec": {"taints": None}})
    operator()
    cluster.kubectl("apply", "-f", str(EXAMPLES / "pods.yaml"))
    asked = [cluster.get("PersistentVolumeClaim", f"scratch-{n}", "default") for n in (1, 2)]
    assert [each["spec"]["accessModes"] for each in asked] == [["ReadWriteOncePod"]] * 2

    def chosen() -> list[str]:
        found = [cluster.get("PersistentVolumeClaim", f"scratch-{n}", "default")["metadata"] for n in (1, 2)]
        nodes = [each["annotations"][SELECTED] for each in found if SELECTED in each.get("annotations", {})]
        assert nodes, found
        return nodes

    assert wait_until(chosen, "a node for a claim") == ["node-2"]
    # Both came in the same second, so their uids say which of them is first.
    first = cluster.get("PersistentVolumeClaim", "scratch-1", "default")["metadata"].get("annotations", {})
    waiting = "train-2" if SELECTED in first else "train-1"
    condition = cluster.wait_condition("Pod", waiting, "PodScheduled", status="False")
    assert "storage of class scratch" in condition["message"], condition
    assert chosen() == ["node-2"]
