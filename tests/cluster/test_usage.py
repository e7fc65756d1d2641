"""Time-based fair share with the scheduler's own accounts, on a real API server, through the end of a leader."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.cluster.prometheus import Prometheus
from tests.tree import ROOT

TOOLS = ("prometheus",)
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


def test_a_prometheus_says_what_was_used(
    cluster: Cluster, operator: StartOperator, system_namespace: str, tmp_path: Path
) -> None:
    """Of 8 GPUs one queue has had 6 for the minute that counts, or for as much of it as Prometheus has seen."""
    assert system_namespace
    replica = operator("--no-default-queues")
    prometheus = Prometheus(tmp_path, f"127.0.0.1:{replica.port}")
    try:
        cluster.add_nodes(1, gpus=8)
        cluster.add_queues("early", "late", quota=0)
        cluster.create_all(objects.gang("early", 6, "early", preemptibility="preemptible"))
        cluster.wait_bound([f"early-{number}" for number in range(6)])
        prometheus.value('kai_queue_allocated_gpus{queue_name="early"} == 6')
        extra = {"queryResolution": "1s", "gpuCapacityMetric": "vector(8)"}
        extra |= {"cpuCapacityMetric": "vector(1000)", "memoryCapacityMetric": "vector(1e12)"}
        usage = {
            "clientType": "prometheus",
            "connectionString": f"http://127.0.0.1:{prometheus.port}",
            "usageParams": {"windowSize": "1m", "fetchInterval": "1s", "extraParams": extra},
        }
        shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "default"}}
        cluster.create_all([{**shard, "spec": {"usageDBConfig": usage}}])
        wait_until(lambda: of_queue(replica, "kai_queue_gpu_usage", "early") > 0.2, "the usage being fetched", 90.0)
        assert of_queue(replica, "kai_queue_gpu_usage", "late") == 0.0
        assert replica.logs("usage.not_fetched") == []
        # With a half-life what is newer counts more.
        before = of_queue(replica, "kai_queue_gpu_usage", "early")
        halved = {"usageParams": {"halfLifePeriod": "10s"}}
        cluster.patch("SchedulingShard", "default", {"spec": {"usageDBConfig": halved}})
        wait_until(
            lambda: of_queue(replica, "kai_queue_gpu_usage", "early") > before + 0.1, "that it counts more", 60.0
        )
        # It goes on with what it knows while the database is away, and says so.
        prometheus.process.end()
        wait_until(lambda: replica.logs("usage.not_fetched"), "the failure being told", 60.0)
        assert of_queue(replica, "kai_queue_gpu_usage", "early") > before
    finally:
        prometheus.process.end()


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


def test_all_begin_with_nothing_when_a_cron_expression_fires(
    cluster: Cluster, operator: StartOperator, system_namespace: str
) -> None:
    """Each minute, though without that the past would count for an hour."""
    params = {"windowType": "cron", "cronString": "* * * * *", "fetchInterval": "1s"}
    shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "default"}}
    empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": system_namespace}}
    usage = {"clientType": "internal", "usageParams": params}
    cluster.create_all([{**shard, "spec": {"usageDBConfig": usage}}, empty])
    cluster.add_nodes(1, gpus=8)
    cluster.add_queues("early")
    replica = operator("--no-default-queues")
    cluster.create_all(objects.gang("early", 8, "early"))
    cluster.wait_bound([f"early-{number}" for number in range(8)])
    wait_until(lambda: of_queue(replica, "kai_queue_gpu_usage", "early") > 0.5, "the usage being counted", 60.0)
    for number in range(8):
        cluster.delete("Pod", f"early-{number}", grace_s=0)
    wait_until(lambda: of_queue(replica, "kai_queue_gpu_usage", "early") == 0.0, "the next minute", 90.0)
    never = {"usageParams": {"cronString": "0 0 30 2 *"}}
    cluster.patch("SchedulingShard", "default", {"spec": {"usageDBConfig": never}})
    (problem,) = wait_until(lambda: replica.logs("settings.problem"), "the mistake being told")
    assert "usageDBConfig.usageParams.cronString" in problem["problem"]
    assert "never fires" in problem["problem"]
