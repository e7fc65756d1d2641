"""Node pools on a real API server: each has a process of its own, which leaves what is not in it alone."""

from __future__ import annotations

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until

POOL = {names.NODE_POOL_LABEL: "fast"}


def in_pool(content: Object) -> Object:
    """The same object, of the node pool."""
    content["metadata"].setdefault("labels", {}).update(POOL)
    return content


def test_a_node_pool_is_served_by_its_own_process_alone(cluster: Cluster, operator: StartOperator) -> None:
    operator("--partition-label-value", "fast")
    cluster.add_nodes(1, prefix="slow")
    cluster.add_nodes(1, prefix="fast")
    cluster.kubectl("label", "node", "fast-0", f"{names.NODE_POOL_LABEL}=fast")
    cluster.add_queues("others")
    cluster.create(in_pool(objects.queue("team")))
    cluster.create_all([*objects.gang("left", 2, "others"), objects.pod("alone", "others")])
    ours = objects.gang("ours", 2)
    cluster.create_all([in_pool(ours[0]), *ours[1:], in_pool(objects.pod("single"))])
    assert set(cluster.wait_bound(["ours-0", "ours-1", "single"]).values()) == {"fast-0"}
    # What the pool has too little room for goes nowhere else, and what is not in it is left alone.
    cluster.create(in_pool(objects.pod("more", gpus=8)))
    cluster.wait_condition("Pod", "more", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    wait_until(lambda: "status" in cluster.get("Queue", "team"), "the status of the pool's queue")
    assert set(cluster.bound()) == {"ours-0", "ours-1", "single"}
    assert [pod for pod in ("left-0", "alone") if "conditions" in cluster.pod(pod)["status"]] == []
    assert "status" not in cluster.get("PodGroup", "left")
    assert "status" not in cluster.get("Queue", "others")
    # The rest of the cluster has a process of its own, with a lease of its own.
    operator()
    nodes = cluster.wait_bound(["left-0", "left-1", "alone"])
    assert {nodes[pod] for pod in ("left-0", "left-1", "alone")} == {"slow-0"}
    leases = [lease["metadata"]["name"] for lease in cluster.list("Lease", "kai-scheduler")]
    assert sorted(leases) == ["kai-scheduler", "kai-scheduler-fast"]
