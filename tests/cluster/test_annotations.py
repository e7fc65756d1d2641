"""Annotations of workloads on a real API server, by the manifests of their guides."""

from __future__ import annotations

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_until
from tests.tree import ROOT

EXAMPLES = ROOT / "examples"


def test_a_stateful_set_starts_as_a_gang(
    controller_manager: ControlPlane, cluster: Cluster, operator: StartOperator
) -> None:
    """Room for two of its three pods is not enough."""
    assert controller_manager
    operator("--no-default-queues")
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=4)
    cluster.kubectl("apply", "-f", str(EXAMPLES / "stateful-set" / "gang.yaml"))
    pods = [f"ranks-{number}" for number in range(3)]
    wait_until(lambda: all(cluster.find("Pod", pod, "default") for pod in pods), "its pods", 30.0)
    for pod in pods:
        cluster.wait_condition("Pod", pod, names.POD_SCHEDULED, status="False")
    (group,) = cluster.list("PodGroup")
    assert group["spec"]["minMember"] == 3
    assert cluster.bound() == {}
    cluster.add_nodes(1, gpus=2, prefix="more")
    cluster.wait_bound(pods)
    cluster.kubectl("delete", "statefulset", "ranks")


def test_a_pod_that_is_not_safe_to_move_stays(cluster: Cluster, operator: StartOperator) -> None:
    """Two nodes have one free GPU each. One of their pods may be moved, and makes room for two GPUs."""
    operator("--no-default-queues")
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=2)
    cluster.kubectl("apply", "-f", str(EXAMPLES / "safe-to-consolidate" / "notebook.yaml"))
    cluster.wait_bound(["notebook"])
    cluster.add_nodes(1, gpus=2, prefix="other")
    unsafe = {names.SAFE_TO_CONSOLIDATE_ANNOTATION: "false"}
    cluster.create(
        objects.pod("pinned", gpus=1, annotations=unsafe, nodeSelector={"kubernetes.io/hostname": "other-0"})
    )
    cluster.wait_bound(["pinned"])
    cluster.create(objects.pod("wide", gpus=2))
    cluster.wait_condition("Pod", "wide", names.POD_SCHEDULED, status="False")
    cluster.kubectl("annotate", "pod", "notebook", f"{names.SAFE_TO_CONSOLIDATE_ANNOTATION}-")
    wait_until(
        lambda: cluster.bound().get("wide") == "node-0", "the pod with two GPUs in the place of the notebook", 60.0
    )
    assert "pinned" in cluster.bound()
