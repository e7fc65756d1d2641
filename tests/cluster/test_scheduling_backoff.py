"""Groups with a scheduling backoff on a real API server: one attempt, and no more until somebody says so."""

from __future__ import annotations

import time

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until

REST_S = 3.0  # in which a group without a backoff is bound many times over


def bound(cluster: Cluster, name: str) -> bool:
    return bool(cluster.get("Pod", name)["spec"].get("nodeName"))


def test_a_group_is_tried_once(cluster: Cluster, operator: StartOperator) -> None:
    """A gang without room is told so; room that comes later is taken by others, and by it once its backoff is off."""
    operator("--no-default-queues")
    cluster.add_nodes(1, gpus=1)
    cluster.add_queues("team")
    cluster.create_all(objects.gang("gang", 2, schedulingBackoff=1))

    def told() -> bool:
        return bool(cluster.get("PodGroup", "gang").get("status", {}).get("schedulingConditions"))

    wait_until(told, "the condition of the group")
    cluster.add_nodes(1, gpus=8, prefix="more")
    cluster.create_all(objects.gang("other", 1))
    cluster.wait_bound(["other-0"])
    time.sleep(REST_S)
    assert not bound(cluster, "gang-0")
    cluster.patch("PodGroup", "gang", {"spec": {"schedulingBackoff": -1}})
    cluster.wait_bound(["gang-0", "gang-1"])
