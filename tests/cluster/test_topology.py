"""Topology constraints on a real API server: the manifests of docs/topology.md, and whose pods go for a gang."""

from __future__ import annotations

import yaml

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until
from tests.tree import ROOT

EXAMPLES = ROOT / "examples" / "topology"
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
REQUIRED = {"topology": "data-center", "requiredTopologyLevel": "rack"}


def racks_of(cluster: Cluster, prefix: str) -> set[str]:
    """The racks of the pods whose names begin so."""
    racks = {node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in cluster.list("Node")}
    pods = [pod for pod in cluster.list("Pod") if pod["metadata"]["name"].startswith(prefix)]
    return {racks[pod["spec"]["nodeName"]] for pod in pods if pod["spec"].get("nodeName")}


def add_racks(cluster: Cluster, count: int, nodes: int, gpus: int = 8) -> None:
    """Racks with so many nodes each, two racks a zone."""
    for rack in range(count):
        labels = {ZONE: f"zone-{rack // 2}", RACK: f"rack-{rack}"}
        cluster.add_nodes(nodes, gpus, prefix=f"rack-{rack}-node", **labels)


def test_the_manifests_of_the_guide(cluster: Cluster, operator: StartOperator) -> None:
    """A Job that needs one zone gets one; one that needs a rack says why it waits, and starts in a rack that comes."""
    operator("--no-default-queues")
    add_racks(cluster, 4, 1)
    cluster.add_queues("vision")
    cluster.kubectl("apply", "-f", str(EXAMPLES / "topology.yaml"))
    cluster.kubectl("apply", "-f", str(EXAMPLES / "one-rack.yaml"))
    job = next(yaml.safe_load_all((EXAMPLES / "one-rack.yaml").read_text()))
    template = job["spec"]["template"]
    uid = cluster.get("Job", "allreduce")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "allreduce", "uid": uid, "controller": True}
    for number in range(4):
        metadata = {
            **template["metadata"],
            "name": f"allreduce-{number}",
            "namespace": "default",
            "ownerReferences": [owner],
        }
        cluster.create_all([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}])

    def told() -> bool:
        groups = cluster.list("PodGroup")
        conditions = [each for group in groups for each in group.get("status", {}).get("schedulingConditions", [])]
        text = "no rack of Topology data-center has room for all 4 pods: the roomiest has room for 2"
        return any(text in each.get("message", "") for each in conditions)

    wait_until(told, "the reason of the group")
    assert racks_of(cluster, "allreduce") == set()
    cluster.add_nodes(1, 16, prefix="wide", **{ZONE: "zone-9", RACK: "rack-9"})
    cluster.wait_bound([f"allreduce-{number}" for number in range(4)])
    assert racks_of(cluster, "allreduce") == {"rack-9"}


def test_one_rack_pays_for_a_gang(cluster: Cluster, operator: StartOperator) -> None:
    """All nodes are lent; a gang of the owner that needs one rack evicts the pods of one rack alone."""
    operator("--no-default-queues")
    add_racks(cluster, 3, 2, gpus=4)
    cluster.kubectl("apply", "-f", str(EXAMPLES / "topology.yaml"))
    cluster.apply(objects.queue("org"))
    cluster.apply(objects.queue("lender", "org", quota=8))
    cluster.apply(objects.queue("borrower", "org", quota=0, weight=0))
    lent = [objects.pod(f"lent-{number}", "borrower", 1) for number in range(24)]
    cluster.create_all(lent)
    cluster.wait_bound([f"lent-{number}" for number in range(24)])
    cluster.create_all(objects.gang("gang", 2, "lender", 4, topologyConstraint=REQUIRED))
    cluster.wait_bound(["gang-0", "gang-1"])
    taken = racks_of(cluster, "gang")
    assert len(taken) == 1
    left = [pod for pod in cluster.list("Pod") if pod["metadata"]["name"].startswith("lent-")]
    assert len(left) == 24 - 8
    assert taken.isdisjoint(racks_of(cluster, "lent-"))
