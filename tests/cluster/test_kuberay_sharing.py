"""Ray workers that share GPUs, with KubeRay, our webhooks and the rights of the component that turns sharing on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from kai_sched.api import names
from tests.cluster import components, sharing
from tests.cluster.client import Object
from tests.cluster.conftest import Workloads
from tests.cluster.device_plugin import NAMESPACE, DevicePlugin, device_of
from tests.cluster.installed import install_webhooks, wait_authorities
from tests.cluster.processes import wait_until
from tests.cluster.workload_objects import apply, pods_of, ray_cluster, wait_one_group, wait_running
from tests.tree import ROOT

WORKLOAD_OPERATORS = ("kuberay",)
WEBHOOKS = True
COMPONENT = ROOT / "manifests" / "components" / "gpu-sharing"
IMAGE = {"spec": {"binder": {"resourceReservation": {"image": {"name": "kai-sched"}}}}}


@pytest.fixture
def shared(workloads: Workloads) -> Iterator[Workloads]:
    """``workloads`` with GPU sharing turned on by the component, and reservation pods that get devices."""
    cluster, port = workloads.cluster, workloads.operator.webhook_port
    assert port is not None
    install_webhooks(cluster, port, wait_authorities(cluster))  # it goes by the refusal while sharing is off
    for name in ("namespace", "rbac", "config"):
        cluster.kubectl("apply", "--server-side", "-f", str(COMPONENT / f"{name}.yaml"))
    cluster.patch("Config", "kai-config", IMAGE)  # the operator runs outside of a pod, whose image it would take
    cluster.kubectl("apply", "-f", "-", input=sharing.RUNTIME_CLASS)
    with DevicePlugin(cluster):
        yield workloads
    cluster.kubectl("delete", "runtimeclass", "nvidia")


def told_of(workloads: Workloads, pod: Object) -> str:
    """The devices that the container of the pod is told to use."""
    prefix = pod["metadata"]["annotations"][names.SHARED_GPU_CONFIG_MAP_ANNOTATION]
    data: dict[str, str] = workloads.cluster.get("ConfigMap", f"{prefix}-0")["data"]
    assert data[names.GPU_PORTION_ENV] == "0.50"
    return data[names.VISIBLE_DEVICES_ENV]


def test_the_sample_of_kuberay_runs_unchanged(shared: Workloads) -> None:
    """Both workers are on one node, and see the one GPU that they share."""
    cluster = shared.cluster
    since = sharing.version(cluster)
    cluster.add_nodes(2, gpus=2)
    (path,) = components.shipped("kuberay", "ray-cluster.kai-gpu-sharing.yaml")
    apply(cluster, *[document for document in yaml.safe_load_all(path.read_text()) if document])
    pods = wait_running(cluster, 3)
    workers = [pod for pod in pods if pod["metadata"]["labels"]["ray.io/node-type"] == "worker"]
    assert len({pod["spec"]["nodeName"] for pod in workers}) == 1
    [group] = {tuple(sharing.groups_of(pod)) for pod in workers}
    [reservation] = sharing.reservations(cluster)
    assert [reservation["metadata"]["labels"][names.GPU_GROUP_LABEL]] == list(group)
    assert {told_of(shared, pod) for pod in workers} == {device_of(reservation)}
    variables = {
        one["name"]: one["valueFrom"] for one in workers[0]["spec"]["containers"][0]["env"] if "valueFrom" in one
    }
    assert names.VISIBLE_DEVICES_ENV in variables
    cluster.kubectl("delete", "raycluster", "raycluster-half-gpu", "--wait=false")
    wait_until(lambda: not pods_of(cluster) and not sharing.reservations(cluster), "nothing being left", 60.0)
    sharing.check_history(cluster, since)


def test_a_head_with_a_gpu_and_workers_with_halves_start_whole_or_not_at_all(shared: Workloads) -> None:
    """Three GPUs are asked for; first there are two and a half."""
    cluster = shared.cluster
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=3)
    cluster.create(sharing.pod("half"))
    cluster.wait_bound(["half"])
    ray = ray_cluster("whole", 4, 4, gpus=0, head_gpus=1)
    (workers,) = ray["spec"]["workerGroupSpecs"]
    workers["template"].setdefault("metadata", {})["annotations"] = {names.GPU_FRACTION_ANNOTATION: "0.5"}
    apply(cluster, ray)
    group = wait_until(
        lambda: [one for one in cluster.list("PodGroup", "default") if "whole" in one["metadata"]["name"]], "its group"
    )[0]
    event = cluster.wait_event(group["metadata"]["name"], names.UNSCHEDULABLE)
    assert "4 of 5 pods of the gang fit" in event["message"]
    assert set(cluster.bound()) == {"half"}
    assert len(sharing.reservations(cluster)) == 1
    cluster.delete("Pod", "half")
    wait_running(cluster, 5)
    assert len(cluster.list("Pod", NAMESPACE)) == 2
    assert wait_one_group(cluster)["spec"]["minMember"] == 5
