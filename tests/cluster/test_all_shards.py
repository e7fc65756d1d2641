"""One process for all SchedulingShards, on a real API server: each pool gets its pods, shards come and change while it
runs, and one with a mistake costs the others nothing.
"""

from __future__ import annotations

from typing import Any

import yaml

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.tree import ROOT

SETTINGS = ROOT / "examples" / "shards" / "settings.yaml"


def in_pool(content: Object, pool: str) -> Object:
    """The same object, of the node pool."""
    content["metadata"].setdefault("labels", {})[names.NODE_POOL_LABEL] = pool
    return content


def shard(name: str, **spec: Any) -> str:
    return yaml.safe_dump(
        {"apiVersion": names.CONFIG_VERSION, "kind": "SchedulingShard", "metadata": {"name": name}, "spec": spec}
    )


def add_pool(cluster: Cluster, pool: str, gpus: int = 8) -> str:
    (node,) = cluster.add_nodes(1, gpus, prefix=f"{pool}-node")
    cluster.kubectl("label", "node", node, f"{names.NODE_POOL_LABEL}={pool}")
    return node


def start(cluster: Cluster, operator: StartOperator) -> Operator:
    """The shards of the example, a node in each pool, and a queue."""
    cluster.kubectl("apply", "-f", str(SETTINGS))
    replica = operator("--all-shards", "--no-default-queues")
    cluster.add_queues("team")
    for pool in ("a100", "h100"):
        add_pool(cluster, pool)
    cluster.add_nodes(1, 8, prefix="plain")
    return replica


def test_one_process_serves_the_pools_of_all_shards(cluster: Cluster, operator: StartOperator) -> None:
    start(cluster, operator)
    cluster.create_all([in_pool(objects.pod("a", "team"), "a100"), in_pool(objects.pod("h", "team"), "h100")])
    group, *pods = objects.gang("gang", 2, "team")
    cluster.create_all([in_pool(group, "h100"), *pods, objects.pod("plain", "team")])
    found = cluster.wait_bound(["a", "h", "gang-0", "gang-1", "plain"])
    assert found == {
        "a": "a100-node-0",
        "h": "h100-node-0",
        "gang-0": "h100-node-0",
        "gang-1": "h100-node-0",
        "plain": "plain-0",
    }
    leases = [lease["metadata"]["name"] for lease in cluster.list("Lease", "kai-scheduler")]
    assert leases == ["kai-scheduler"]

    def held() -> bool:
        return cluster.get("Queue", "team").get("status", {}).get("allocated", {}).get(objects.GPU) == "5"

    wait_until(held, "what the queue holds in all pools, told once")
    # What does not fit is told by the shard of its pool, and counts in its condition.
    group, *pods = objects.gang("large", 1, "team", gpus=16)
    cluster.create_all([in_pool(group, "a100"), *pods])
    wait_until(
        lambda: bool(cluster.get("PodGroup", "large").get("status", {}).get("schedulingConditions")), "the group"
    )
    (condition,) = cluster.get("PodGroup", "large")["status"]["schedulingConditions"]
    assert condition["nodePool"] == "a100"


def test_a_shard_that_is_created_later_is_served(cluster: Cluster, operator: StartOperator) -> None:
    replica = start(cluster, operator)
    add_pool(cluster, "l40")
    cluster.create(in_pool(objects.pod("early", "team"), "l40"))
    condition = cluster.wait_condition("Pod", "early", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    assert "no SchedulingShard has node pool 'l40'" in condition["message"]
    wait_until(lambda: replica.logs("pool.not_served"), "the log line about the pool")
    cluster.kubectl("apply", "-f", "-", input=shard("l40", partitionLabelValue="l40"))
    assert cluster.wait_bound(["early"])["early"] == "l40-node-0"
    cluster.kubectl("delete", "schedulingshard", "l40")
    wait_until(lambda: "l40" not in replica.logs("settings.changed")[-1]["shards"], "the end of the shard")
    cluster.create_all([in_pool(objects.pod("late", "team"), "l40"), in_pool(objects.pod("a", "team"), "a100")])
    cluster.wait_bound(["a"])
    cluster.wait_condition("Pod", "late", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)


def test_a_mistake_in_one_shard_is_told_and_the_others_go_on(cluster: Cluster, operator: StartOperator) -> None:
    """One that was readable before keeps its settings; a new one is not served until it is corrected."""
    replica = start(cluster, operator)
    bad = {"max-consolidation-preemptees": "many"}
    cluster.kubectl("apply", "-f", "-", input=shard("a100", partitionLabelValue="a100", args=bad))
    cluster.kubectl("apply", "-f", "-", input=shard("l40", partitionLabelValue="l40", args=bad))

    def told() -> bool:
        lines = [line for line in replica.logs("settings.problem") if "max-consolidation-preemptees" in line["problem"]]
        return {line["object"] for line in lines} == {"SchedulingShard a100", "SchedulingShard l40"}

    wait_until(told, "the log lines about both shards")
    add_pool(cluster, "l40")
    of_pools = {name: in_pool(objects.pod(name, "team"), pool) for name, pool in (("a", "a100"), ("h", "h100"))}
    cluster.create_all([*of_pools.values(), in_pool(objects.pod("l", "team"), "l40")])
    assert cluster.wait_bound(["a", "h"]) == {"a": "a100-node-0", "h": "h100-node-0"}
    cluster.kubectl("apply", "-f", "-", input=shard("l40", partitionLabelValue="l40"))
    assert cluster.wait_bound(["l"])["l"] == "l40-node-0"
