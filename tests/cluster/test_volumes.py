"""Claims that wait for their first consumer: the pod goes where its volumes can be, and is bound after them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_until

SELECTED = "volume.kubernetes.io/selected-node"


def storage_class(name: str, provisioner: str = "kubernetes.io/no-provisioner") -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, node: str, storage: str, size: str = "10Gi", **spec: Any) -> Object:
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        }
        | spec,
    }


def claim(name: str, storage: str, size: str = "5Gi") -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "resources": {"requests": {"storage": size}},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def pod_with(name: str, *claims: str, **fields: Any) -> Object:
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": each}} for n, each in enumerate(claims)]
    return objects.pod(name, volumes=volumes, **fields)


@pytest.fixture
def stage(cluster: Cluster, controller_manager: ControlPlane, operator: StartOperator) -> Cluster:
    """Three nodes, a queue, the controllers of Kubernetes, and the operator."""
    assert controller_manager.processes
    cluster.add_queues("team")
    cluster.add_nodes(3)
    operator()
    return cluster


def test_a_pod_goes_to_the_node_of_the_only_volume_that_fits(stage: Cluster) -> None:
    stage.create(storage_class("local"))
    stage.create(volume("small", "node-0", "local", "1Gi"))
    stage.create(volume("good", "node-2", "local"))
    stage.create(claim("data", "local"))
    stage.create(pod_with("trainer", "data"))
    assert stage.wait_bound(["trainer"]) == {"trainer": "node-2"}
    bound = stage.get("PersistentVolumeClaim", "data", "default")
    assert (bound["status"]["phase"], bound["spec"]["volumeName"]) == ("Bound", "good")


def test_a_gang_gets_a_volume_for_each_of_its_pods(stage: Cluster) -> None:
    """One volume on each of two nodes: the two pods of the gang part, though bin-packing would put them together."""
    stage.create(storage_class("local"))
    for n in range(2):
        stage.create(volume(f"disk-{n}", f"node-{n}", "local"))
        stage.create(claim(f"data-{n}", "local"))
    stage.create(objects.pod_group("pair", min_member=2))
    for n in range(2):
        stage.create(pod_with(f"pair-{n}", f"data-{n}", group="pair"))
    assert sorted(stage.wait_bound(["pair-0", "pair-1"]).values()) == ["node-0", "node-1"]


def test_a_gang_that_lacks_a_volume_waits_whole(stage: Cluster) -> None:
    """Two volumes for three pods: no claim gets one. With a third volume each pod is bound, with one of its own."""
    stage.create(storage_class("local"))
    for n in range(3):
        stage.create(claim(f"data-{n}", "local"))
    for n in range(2):
        stage.create(volume(f"disk-{n}", f"node-{n}", "local"))
    stage.create(objects.pod_group("trio", min_member=3))
    for n in range(3):
        stage.create(pod_with(f"trio-{n}", f"data-{n}", group="trio"))
    condition = stage.wait_condition("Pod", "trio-0", "PodScheduled", status="False")
    assert "no volume for its claims" in condition["message"], condition
    assert "default/data-" in condition["message"], condition
    time.sleep(3.0)
    for n in range(3):
        assert "nodeName" not in stage.pod(f"trio-{n}")["spec"]
        assert "volumeName" not in stage.get("PersistentVolumeClaim", f"data-{n}", "default")["spec"]
    stage.create(volume("disk-2", "node-0", "local"))
    stage.wait_bound([f"trio-{n}" for n in range(3)])
    volumes = [stage.get("PersistentVolumeClaim", f"data-{n}", "default")["spec"]["volumeName"] for n in range(3)]
    assert sorted(volumes) == ["disk-0", "disk-1", "disk-2"]


def test_single_pods_never_get_one_volume_twice(stage: Cluster) -> None:
    """Four pods for two volumes, all at once: two are bound, and two wait."""
    stage.create(storage_class("local"))
    for n in range(2):
        stage.create(volume(f"disk-{n}", "node-1", "local"))
    for n in range(4):
        stage.create(claim(f"data-{n}", "local"))
        stage.create(pod_with(f"single-{n}", f"data-{n}"))

    def bound() -> list[str]:
        found = [f"single-{n}" for n in range(4) if "nodeName" in stage.pod(f"single-{n}")["spec"]]
        assert len(found) == 2, found
        return found

    wait_until(bound, "two pods on nodes")
    for n in set(range(4)) - {int(name[-1]) for name in bound()}:
        condition = stage.wait_condition("Pod", f"single-{n}", "PodScheduled", status="False")
        assert "no free PersistentVolume for its claims" in condition["message"]


def test_a_volume_is_made_for_the_node_that_was_chosen(stage: Cluster) -> None:
    """The test plays the provisioner: it makes a volume once the claim says for which node."""
    stage.create(storage_class("made", "example.com/disk"))
    stage.create(claim("data", "made"))
    stage.create(pod_with("trainer", "data"))

    def selected() -> Object:
        found = stage.get("PersistentVolumeClaim", "data", "default")
        assert SELECTED in found["metadata"].get("annotations", {}), found["metadata"]
        return found

    wanted = wait_until(selected, "a node for the claim")
    assert "nodeName" not in stage.pod("trainer")["spec"]
    node = wanted["metadata"]["annotations"][SELECTED]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    stage.create(volume("new", node, "made", claimRef=reference | {"uid": wanted["metadata"]["uid"]}))
    assert stage.wait_bound(["trainer"]) == {"trainer": node}


def test_a_pod_whose_claim_is_missing_says_so_and_is_not_unschedulable(stage: Cluster) -> None:
    stage.create(pod_with("trainer", "data"))
    condition = stage.wait_condition("Pod", "trainer", "PodScheduled", status="False")
    assert condition["reason"] == "DependencyMissing"
    assert "PersistentVolumeClaim default/data does not exist" in condition["message"]
    stage.create(storage_class("local"))
    stage.create(volume("good", "node-1", "local"))
    stage.create(claim("data", "local"))
    assert stage.wait_bound(["trainer"]) == {"trainer": "node-1"}
