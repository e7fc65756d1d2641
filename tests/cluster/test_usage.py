"""Time-based fair share with the scheduler's own accounts, on a real API server, through the end of a leader."""

from __future__ import annotations

import base64
import json

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.tree import ROOT

CONFIG_MAP = "kai-scheduler-usage"
SHARD = ROOT / "examples" / "past-usage" / "shard.yaml"
SOONER = {"windowSize": "1h", "halfLifePeriod": "0s", "fetchInterval": "1s"}


def of_queue(replica: Operator, metric: str, queue: str) -> float:
    """The value of a metric of the queue."""
    found = [
        value
        for (name, labels), value in replica.metrics().items()
        if name == metric and ("queue_name", queue) in labels
    ]
    assert len(found) == 1, metric
    return found[0]


def bound_pods(cluster: Cluster, prefix: str) -> list[str]:
    """The names of the pods that begin so and have a node."""
    pods = [pod for pod in cluster.list("Pod") if pod["spec"].get("nodeName")]
    return [name for name in (pod["metadata"]["name"] for pod in pods) if name.startswith(prefix)]


def test_the_past_counts_and_the_next_leader_knows_it(
    cluster: Cluster, operator: StartOperator, system_namespace: str
) -> None:
    cluster.kubectl("apply", "-f", str(SHARD))
    cluster.patch("SchedulingShard", "default", {"spec": {"usageDBConfig": {"usageParams": SOONER}}})
    empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": system_namespace}}
    cluster.create_all([empty])
    cluster.add_nodes(1, gpus=8)
    cluster.add_queues("early", "late", quota=0)
    first = operator("--no-default-queues")

    # The one queue has all GPUs for some seconds.
    for number in range(8):
        cluster.create_all(objects.gang(f"early-{number}", 1, "early", preemptibility="preemptible"))
    cluster.wait_bound([f"early-{number}-0" for number in range(8)])
    wait_until(lambda: of_queue(first, "kai_queue_gpu_usage", "early") > 0.8, "the usage being counted", 60.0)
    assert of_queue(first, "kai_queue_gpu_usage", "org") > 0.8
    assert of_queue(first, "kai_queue_gpu_usage", "late") == 0.0
    cluster.create_all(objects.gang("late", 1, "late", preemptibility="preemptible", priorityClassName="train"))
    first.kill()

    # The next leader reads what was kept, and lends the GPUs again to whoever had fewer.
    kept = cluster.get("ConfigMap", CONFIG_MAP, system_namespace)
    assert json.loads(kept["data"]["usage"])["early"]["gpu"] > 0.8
    assert base64.b64decode(kept["binaryData"]["accounts"])
    second = operator("--no-default-queues")
    wait_until(lambda: of_queue(second, "kai_queue_gpu_usage", "early") > 0.5, "the accounts being read", 60.0)
    for number in range(7):
        cluster.create_all(objects.gang(f"late-{number}", 1, "late", preemptibility="preemptible"))
    # Weights are equal. A queue that used all has the strength max(0, 1/2 + (1/2 - 1)), the other one 1/2 + 1/2.
    wait_until(lambda: of_queue(second, "kai_queue_fair_share_gpu", "late") >= 6.0, "the share that is owed", 60.0)
    assert of_queue(second, "kai_queue_fair_share_gpu", "early") <= 2.0
    assert second.logs("usage.not_kept") == []
    # In the end it has it: more than half of the GPUs, which without a past would be 4 and 4.
    wait_until(lambda: len(bound_pods(cluster, "late")) >= 6, "the pods of the other queue", 120.0)
