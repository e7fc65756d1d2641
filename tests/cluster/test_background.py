"""Background pods and steady shares on a real API server, by the manifests of their guides."""

from __future__ import annotations

import yaml

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until
from tests.tree import ROOT

BACKGROUND, STEADY = ROOT / "examples" / "background", ROOT / "examples" / "steady-shares"


def test_a_background_pod_makes_room(cluster: Cluster, operator: StartOperator) -> None:
    """A gang takes the GPU of one check, whose event says why; the other check stays, and its successor waits."""
    operator("--no-default-queues")
    cluster.add_queues("vision")
    cluster.add_nodes(2, 4)
    cluster.kubectl("apply", "-f", str(BACKGROUND / "queue.yaml"), "-f", str(BACKGROUND / "health-check.yaml"))
    template = yaml.safe_load((BACKGROUND / "health-check.yaml").read_text())["spec"]["template"]
    labels = template["metadata"]["labels"]
    checks = ["gpu-check-0", "gpu-check-1"]
    for name in checks:
        node = {"nodeSelector": {"kubernetes.io/hostname": f"node-{name[-1]}"}}
        cluster.create(objects.pod(name, "maintenance", 1, labels=labels, **node))
    cluster.wait_bound(checks)

    cluster.create_all(objects.gang("train", 2, "vision", 4))
    bound = cluster.wait_bound(["train-0", "train-1"])
    assert {bound["train-0"], bound["train-1"]} == {"node-0", "node-1"}
    for name in checks:
        event = cluster.wait_event(name, names.EVICT)
        assert "it is a background pod, and others are placed on its node" in event["message"]
        assert event["metadata"]["annotations"][names.EVICTOR_ACTION_ANNOTATION] == "backgroundpods"

    cluster.create(objects.pod("gpu-check-2", "maintenance", 1, labels=labels))
    cluster.wait_condition("Pod", "gpu-check-2", names.POD_SCHEDULED, status="False")
    assert cluster.bound().keys() == {"train-0", "train-1"}


def test_what_fits_beside_background_pods_disturbs_nobody(cluster: Cluster, operator: StartOperator) -> None:
    operator("--no-default-queues")
    cluster.add_queues("vision", "maintenance")
    cluster.add_nodes(1, 4)
    mark = {names.BACKGROUND_LABEL: "true", names.PRIORITY_CLASS_LABEL: "train"}
    cluster.create(objects.pod("check", "maintenance", 1, labels=mark))
    cluster.wait_bound(["check"])
    cluster.create(objects.pod("train", "vision", 3))
    bound = cluster.wait_bound(["train"])
    assert bound["train"] == bound["check"]
    assert not cluster.events("check", names.EVICT)


def test_steady_shares_reclaim_where_free_gpus_are_scattered(cluster: Cluster, operator: StartOperator) -> None:
    """The queues of the guide: without the setting a pod with two GPUs waits; with it one pod of vision leaves."""
    cluster.kubectl("apply", "-f", str(STEADY / "settings.yaml"))
    operator("--no-default-queues")
    documents = list(yaml.safe_load_all((STEADY / "cluster.yaml").read_text()))
    for queue in [each for each in documents if each and each["kind"] == "Queue"]:
        cluster.apply(queue)
    cluster.add_nodes(6, 2)
    for number in range(1, 7):
        queue, gpus = ("search" if number == 6 else "vision"), 2 if number == 1 else 1
        place = {"nodeSelector": {"kubernetes.io/hostname": f"node-{number - 1}"}}
        note = {names.SAFE_TO_CONSOLIDATE_ANNOTATION: "false"}
        cluster.create(objects.pod(f"run-{number}", queue, gpus, annotations=note, **place))
    cluster.wait_bound([f"run-{number}" for number in range(1, 7)])
    cluster.create(objects.pod("rerank", "search", 2))
    cluster.wait_bound(["rerank"])

    def gone() -> bool:
        return len([pod for pod in cluster.list("Pod") if pod["metadata"]["name"].startswith("run-")]) == 5

    wait_until(gone, "one pod of vision to leave")
