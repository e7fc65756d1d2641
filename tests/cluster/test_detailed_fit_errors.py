"""``detailed-fit-errors`` on a real API server: conditions name every node, and events what fits into them."""

from __future__ import annotations

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until

NODES = 60


def test_the_condition_lists_all_nodes_and_the_event_some(cluster: Cluster, operator: StartOperator) -> None:
    shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "default"}}
    cluster.create_all([{**shard, "spec": {"args": {"detailed-fit-errors": "true"}}}])
    operator("--no-default-queues")
    cluster.add_nodes(NODES, gpus=1)
    cluster.add_nodes(1, gpus=8, prefix="large")
    cluster.add_queues("team")
    cluster.create_all(objects.gang("first", 1, gpus=2))
    cluster.wait_bound(["first-0"])
    cluster.create_all(objects.gang("second", 1, gpus=8))

    def message() -> str:
        conditions = cluster.get("PodGroup", "second").get("status", {}).get("schedulingConditions") or [{}]
        return str(conditions[-1].get("message", ""))

    wait_until(lambda: "large-0: lacks the 8 GPUs" in message(), "the node in the condition of the group")
    assert message().count("lacks the 8 GPUs that the pod asks for (1 free)") == NODES
    told = cluster.wait_event("second-0", "Unschedulable")["message"]
    assert told.endswith("...")
    assert len(told.encode()) <= 1024
