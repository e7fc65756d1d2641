"""Pods that their owners gave a node, another scheduler and annotations keep no GPU from anybody (semantics 8.2)."""

from __future__ import annotations

from kai_sched.api import names
from tests.cluster import objects, sharing
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator

NODES, GPUS = 2, 4


def forged(name: str, node: str, scheduler: str) -> objects.Object:
    notes = {names.GPU_FRACTION_ANNOTATION: "0.01", names.GPU_DEVICES_ANNOTATION: str(GPUS)}
    labels = {f"{names.GPU_GROUPS_PREFIX}{name}-{n}": f"{name}-{n}" for n in range(GPUS)}
    made = objects.pod(name, "team", 0, annotations=notes, nodeName=node, scheduler=scheduler)
    made["metadata"]["labels"] |= labels
    return made


def test_with_and_without_sharing_others_get_all_gpus(cluster: Cluster, operator: StartOperator) -> None:
    cluster.add_queues("team")
    nodes = cluster.add_nodes(NODES, gpus=GPUS)
    cluster.create_all(
        forged(f"{scheduler}-{node}", node, scheduler)
        for node in nodes
        for scheduler in ("default-scheduler", "kai-scheduler")
    )
    operator()
    first = [f"first-{n}" for n in range(NODES * GPUS // 2)]
    cluster.create_all(objects.pod(name, "team", 1) for name in first)
    cluster.wait_bound(first)
    sharing.turn_on(cluster)
    second = [f"second-{n}" for n in range(NODES * GPUS // 2)]
    cluster.create_all(objects.pod(name, "team", 1) for name in second)
    cluster.wait_bound(second)
    assert sharing.reservations(cluster) == []
