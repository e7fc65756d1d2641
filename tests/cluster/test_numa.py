"""NUMA zones on a real API server: a pod that no zone can hold waits, and binds say what is taken of which zone."""

from __future__ import annotations

import json

import yaml

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until
from tests.cluster.workload_operators import install_crds
from tests.tree import ROOT

TOOLS = ("node-topology",)
SETTINGS = ROOT / "examples" / "numa" / "settings.yaml"
CRD = "*crd.yaml"


def zones_of_node(name: str, gpus: int) -> dict[str, object]:
    """What an agent writes of a node with two zones, for a kubelet that takes no pod that spans both."""
    resources = [{"name": objects.GPU, "capacity": str(gpus), "allocatable": str(gpus), "available": str(gpus)}]
    return {
        "apiVersion": names.NODE_TOPOLOGY_VERSION,
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "topologyPolicies": [],
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)],
    }


def placement_of(cluster: Cluster, pod: str) -> object:
    """What the annotation says that the pod holds of zones."""
    return json.loads(cluster.get("Pod", pod)["metadata"]["annotations"][names.NUMA_PREDICTED_ANNOTATION])


def holding(zone: int, gpus: int) -> object:
    return [{"zone": f"node-{zone}", "amount": {objects.GPU: str(gpus)}}]


def test_a_pod_that_no_zone_holds_waits_for_one(cluster: Cluster, operator: StartOperator) -> None:
    """One GPU is left in each zone, so a pod with two waits; it gets the zone whose pod ends."""
    install_crds(cluster, "node-topology", CRD)
    cluster.kubectl("apply", "-f", str(SETTINGS))
    operator("--no-default-queues")
    cluster.add_queues("vision")
    (node,) = cluster.add_nodes(1, 8)
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(zones_of_node(node, 4)))
    for name in ("a", "b"):
        cluster.create(objects.pod(name, "vision", 3))
        cluster.wait_bound([name])
    assert [placement_of(cluster, name) for name in ("a", "b")] == [holding(0, 3), holding(1, 3)]

    cluster.create(objects.pod("c", "vision", 2))

    def told() -> bool:
        conditions = cluster.get("Pod", "c").get("status", {}).get("conditions", [])
        return any("cannot align the pod to its NUMA zones" in each.get("message", "") for each in conditions)

    wait_until(told, "the reason of the pod")
    cluster.delete("Pod", "b")
    cluster.wait_bound(["c"])
    assert placement_of(cluster, "c") == holding(1, 2)
