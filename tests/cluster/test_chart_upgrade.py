"""Upgrade from 0.1.0, rollback and uninstall, with pods running: none ends, and no queue is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kai_sched.api.names import KUBERNETES_GROUPS
from tests.cluster import objects, sharing
from tests.cluster.client import Object
from tests.cluster.cluster import CRDS, Cluster
from tests.cluster.device_plugin import DevicePlugin
from tests.cluster.helm_release import DEPLOYMENT, NAMESPACE, Release
from tests.cluster.processes import wait_until

TOOLS = ("helm",)
OLD = Path(__file__).with_name("installed_0_1_0.yaml")
KEEP = {"helm.sh/resource-policy": "keep"}
QUEUES = "queues.scheduling.run.ai"


# What runs with the old chart here is this version all the same, which reads more kinds.
READ_SINCE = [
    {"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}
    for group, resources in (
        ("topology.node.k8s.io", ["noderesourcetopologies"]),
        ("storage.k8s.io", ["csidrivers", "csistoragecapacities", "csinodes"]),
        (KUBERNETES_GROUPS, ["podgroups"]),
    )
]


def old_chart(folder: Path, port: int) -> Path:
    """A chart of version 0.1.0: the objects of its manifests/, and definitions of which Queue lacks a column."""
    (folder / "templates").mkdir(parents=True)
    chart = {"apiVersion": "v2", "name": "kai-scheduler", "version": "0.1.0", "appVersion": "0.1.0"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    found = list(yaml.safe_load_all(OLD.read_text()))
    for each in found:
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "kai-scheduler":
            each["rules"] += READ_SINCE
        for hook in each.get("webhooks", ()):
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
    for path in sorted(CRDS.glob("*.*.yaml")):
        crd = yaml.safe_load(path.read_text())
        crd["metadata"]["annotations"] = KEEP
        if crd["metadata"]["name"] == QUEUES:
            crd["spec"]["versions"][0]["additionalPrinterColumns"].pop()
        found.append(crd)
    (folder / "templates" / "all.yaml").write_text(yaml.safe_dump_all(found))
    return folder


def running(cluster: Cluster) -> dict[str, str]:
    """The uid of each pod of users that runs, by its name."""
    pods: list[Object] = [pod for pod in cluster.list("Pod", "default") if pod["status"].get("phase") == "Running"]
    metas = [pod["metadata"] for pod in pods]
    return {meta["name"]: meta["uid"] for meta in metas if "deletionTimestamp" not in meta}


def start_gang(cluster: Cluster, name: str) -> dict[str, str]:
    """Have a gang of two run; all pods that run now."""
    cluster.create_all(objects.gang(name, 2))
    names = {f"{name}-0", f"{name}-1"}
    cluster.wait_bound(names)
    return wait_until(lambda: names <= running(cluster).keys() and running(cluster), f"{name} running", 60.0) or {}


def columns(cluster: Cluster) -> int:
    (version,) = cluster.get("CustomResourceDefinition", QUEUES)["spec"]["versions"]
    return len(version["additionalPrinterColumns"])


def test_no_pod_ends_and_no_queue_is_lost(release: Release, cluster: Cluster, tmp_path: Path) -> None:
    release.upgrade(chart=old_chart(tmp_path / "old", release.webhook_port))
    old = release.run()
    assert old.logs("settings.written") == []
    cluster.add_queues("team")
    cluster.add_nodes(2, gpus=8)
    before = start_gang(cluster, "first")
    wait_until(lambda: cluster.find("Queue", "default-queue"), "the default queues", 60.0)
    queues = {queue["metadata"]["name"] for queue in cluster.list("Queue")}
    assert {"team", "org", "default-queue"} <= queues
    columns_of_old = columns(cluster)

    # The definitions are upgraded, and who signs for the webhooks is left as it is.
    release.upgrade("replicas=3")
    assert columns(cluster) == columns_of_old + 1
    assert cluster.get("Deployment", DEPLOYMENT, NAMESPACE)["spec"]["replicas"] == 3
    hooks = cluster.get("ValidatingWebhookConfiguration", "validating-kai-admission")["webhooks"]
    assert all(hook["clientConfig"].get("caBundle") for hook in hooks)
    assert old.terminate() == 0
    new = release.run()
    after = start_gang(cluster, "second")
    assert before.items() <= after.items()

    release.helm("rollback", NAMESPACE, "1")
    assert "settings-folder" not in str(cluster.get("Deployment", DEPLOYMENT, NAMESPACE))
    assert new.terminate() == 0
    back = release.run()
    after = start_gang(cluster, "third")
    assert before.items() <= after.items()

    release.upgrade("global.gpuSharing=true")
    assert back.terminate() == 0
    last = release.run()
    cluster.kubectl("apply", "-f", "-", input=sharing.RUNTIME_CLASS)
    with DevicePlugin(cluster):
        cluster.create(sharing.pod("half"))
        cluster.wait_bound(["half"])
        (reservation,) = wait_until(lambda: sharing.reservations(cluster), "its reservation", 60.0)
    wait_until(lambda: "half" in running(cluster), "it running", 60.0)
    every = start_gang(cluster, "fourth")
    assert before.items() <= every.items()

    release.helm("uninstall", NAMESPACE, "--wait")
    assert last.terminate() == 0
    assert cluster.find("Deployment", DEPLOYMENT, NAMESPACE) is None
    assert cluster.find("ClusterRole", "kai-scheduler") is None
    assert running(cluster) == every
    assert {queue["metadata"]["name"] for queue in cluster.list("Queue")} == queues
    assert {group["metadata"]["name"] for group in cluster.list("PodGroup")} >= {"first", "second", "third", "fourth"}
    left = cluster.get("Pod", reservation["metadata"]["name"], sharing.NAMESPACE)
    assert left["metadata"]["uid"] == reservation["metadata"]["uid"], "the device of the pod that shares it is held"
    # Nothing of ours is in the way of others, or of a new beginning.
    cluster.create(objects.pod("of-another", queue=None, schedulerName="default-scheduler"))
    release.upgrade("global.gpuSharing=true")
    release.run()
    assert running(cluster) == every
    cluster.kubectl("delete", "runtimeclass", "nvidia")


def test_what_kai_scheduler_leaves_is_taken_over(release: Release, cluster: Cluster) -> None:
    """Its chart leaves definitions, queues and a namespace, which belong to no release, when it is removed."""
    for path in sorted(CRDS.glob("*.*.yaml")):
        cluster.kubectl("apply", "--server-side", "-f", str(path))
    cluster.kubectl("create", "namespace", sharing.NAMESPACE)
    cluster.add_queues("team")
    cluster.add_nodes(2, gpus=8)
    queue = cluster.get("Queue", "team")["metadata"]["uid"]
    with pytest.raises(AssertionError, match="cannot be imported"):
        release.upgrade("global.gpuSharing=true")
    release.upgrade("global.gpuSharing=true", flags=("--take-ownership",))
    release.run()
    pods = start_gang(cluster, "gang")
    assert cluster.get("Queue", "team")["metadata"]["uid"] == queue

    release.helm("uninstall", NAMESPACE, "--wait")
    assert running(cluster) == pods
    assert cluster.get("Queue", "team")["metadata"]["uid"] == queue
