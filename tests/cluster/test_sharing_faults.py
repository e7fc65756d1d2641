"""Faults around pods that share GPUs: the scheduler is killed half-way through what it writes, and nodes die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from kai_sched.api import names
from tests.cluster import objects, sharing
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.device_plugin import NAMESPACE, DevicePlugin, device_of
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy

pytestmark = pytest.mark.usefixtures("plugin")

# What is held back when the scheduler is killed: all ConfigMaps but one, the labels, the binds. The first two numbers
# are how many ConfigMaps are there by then, and how many pods have a label.
HELD = {
    "second-map": (1, 0, "POST", "/configmaps$", 1),
    "label": (6, 0, "PATCH", "/pods/[abc]$", 0),
    "bind": (6, 3, "POST", "/pods/[abc]/binding$", 0),
}


@pytest.fixture
def plugin(cluster: Cluster) -> Iterator[DevicePlugin]:
    with DevicePlugin(cluster) as plugin:
        yield plugin


@pytest.fixture
def since(cluster: Cluster) -> str:
    return sharing.version(cluster)


def maps(cluster: Cluster) -> list[Object]:
    return [each for each in cluster.list("ConfigMap", "default") if "-maps-" in each["metadata"]["name"]]


def check_settled(cluster: Cluster, pods: Sequence[Object]) -> None:
    """The pods see the devices of their groups, each of which has one reservation; there is no other, nor other maps.

    The ConfigMaps of a pod are named after the first part of its name.
    """
    groups = {(pod["spec"]["nodeName"], group) for pod in pods for group in sharing.groups_of(pod)}

    def devices() -> dict[tuple[str, str], str]:
        found = sharing.reservations(cluster)
        by_group = {
            (each["spec"]["nodeName"], each["metadata"]["labels"][names.GPU_GROUP_LABEL]): device_of(each)
            for each in found
        }
        assert len(found) == len(by_group), found
        assert by_group.keys() == groups, by_group
        return by_group

    reserved = wait_until(devices, "one reservation for each shared GPU", 90.0)
    assert len(set(reserved.values())) == len(reserved)
    for pod in pods:
        own = [reserved[pod["spec"]["nodeName"], group] for group in sharing.groups_of(pod)]
        seen = sharing.visible(cluster, pod["metadata"]["name"].split("-")[0])
        assert sorted(seen.split(",")) == sorted(own), pod["metadata"]["name"]
    found = maps(cluster)
    owners = {each["metadata"]["ownerReferences"][0]["uid"] for each in found}
    assert owners == {pod["metadata"]["uid"] for pod in pods}
    assert len(found) == 2 * len(pods)


@pytest.mark.parametrize("cordoned", [False, True], ids=["same-node", "cordoned"])
@pytest.mark.parametrize("step", HELD)
def test_the_next_replica_finishes_what_a_killed_one_has_begun(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, since: str, step: str, cordoned: bool
) -> None:
    """Two quarters, and a pod with half of each of two GPUs; meanwhile their node may be closed to new pods."""
    mapped, labelled, method, path, let_pass = HELD[step]
    cluster.add_queues("team")
    cluster.add_nodes(2, gpus=2)
    sharing.turn_on(cluster)
    first = operator(proxy=proxy)
    held = proxy.add(method, path, let_pass=let_pass, hold=True)
    cluster.create_all([sharing.pod("a", "0.25"), sharing.pod("b", "0.25"), sharing.pod("c", "0.5", 2)])

    def begun() -> bool:
        pods = cluster.list("Pod", "default")
        assert (len(maps(cluster)), sum(bool(sharing.groups_of(pod)) for pod in pods)) == (mapped, labelled)
        assert len(sharing.reservations(cluster)) == 2
        return True

    held.wait_hits(3)
    wait_until(begun, f"the writes before {step}")
    first.kill()
    assert begun()
    assert cluster.bound() == {}
    [node] = {each["spec"]["nodeName"] for each in sharing.reservations(cluster)}
    if cordoned:
        cluster.patch("Node", node, {"spec": {"unschedulable": True}})
    operator()
    nodes = cluster.wait_bound("abc", timeout_s=90.0)
    assert (node in nodes.values()) is not cordoned
    check_settled(cluster, [cluster.pod(name) for name in "abc"])
    for name in "abc":
        cluster.delete("Pod", name)
    wait_until(lambda: not sharing.reservations(cluster), "no reservation being left", 60.0)
    assert sharing.check_history(cluster, since) > 8


def replica_set(name: str, fraction: str) -> Object:
    """One replica with a part of a GPU."""
    pod = sharing.pod(name, fraction)
    labels = pod["metadata"]["labels"] | {"set": name}
    meta = {"labels": labels, "annotations": pod["metadata"]["annotations"]}
    selector = {"matchLabels": {"set": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": objects.meta(name, "default", labels=labels),
        "spec": {"replicas": 1, "selector": selector, "template": {"metadata": meta, "spec": pod["spec"]}},
    }


def test_pods_of_a_node_that_is_deleted_get_gpus_of_another(
    cluster: Cluster, controller_manager: ControlPlane, operator: StartOperator, since: str
) -> None:
    """The controllers of Kubernetes delete the pods, and make them anew."""
    assert controller_manager.processes
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=2)
    sharing.turn_on(cluster)
    operator()
    cluster.create_all(replica_set(name, fraction) for name, fraction in (("a", "0.5"), ("b", "0.5"), ("c", "0.75")))

    def all_on(node: str) -> list[Object]:
        pods = [pod for pod in cluster.list("Pod", "default") if pod["spec"].get("nodeName") == node]
        assert len(pods) == 3, [pod["metadata"]["name"] for pod in pods]
        return pods

    old = wait_until(lambda: all_on("node-0"), "three pods on the first node", 60.0)
    check_settled(cluster, old)
    cluster.add_nodes(1, gpus=2, prefix="other")
    cluster.delete("Node", "node-0")
    new = wait_until(lambda: all_on("other-0"), "three pods on the other node", 150.0)
    assert not {pod["metadata"]["uid"] for pod in old} & {pod["metadata"]["uid"] for pod in new}
    check_settled(cluster, new)
    assert {each["spec"]["nodeName"] for each in cluster.list("Pod")} == {"other-0"}
    sharing.check_history(cluster, since)


def test_a_node_that_is_lost_gets_its_gpus_back_when_it_returns(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator, plugin: DevicePlugin, since: str
) -> None:
    """Its pods are deleted by force, as people do, while its kubelet does not answer: its reservation cannot end."""
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=1)
    sharing.turn_on(cluster)
    operator()
    cluster.create_all([sharing.pod("a"), sharing.pod("b")])
    cluster.wait_bound("ab")
    own_plane.stop_kwok()
    plugin.mute.add("node-0")
    cluster.add_nodes(1, gpus=1, prefix="other")
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "by the test"}
    cluster.patch("Node", "node-0", {"status": {"conditions": [lost]}}, subresource="/status")
    for name in "ab":
        cluster.delete("Pod", name, grace_s=0)
    cluster.create_all([sharing.pod("a"), sharing.pod("b")])
    assert set(cluster.wait_bound("ab").values()) == {"other-0"}

    def by_node() -> dict[str, Object]:
        return {each["spec"]["nodeName"]: each for each in sharing.reservations(cluster)}

    wait_until(lambda: by_node()["node-0"]["metadata"].get("deletionTimestamp"), "its reservation being told to go")
    cluster.create(sharing.pod("c"))
    cluster.wait_condition("Pod", "c", "PodScheduled", status="False")
    plugin.mute.clear()
    own_plane.start_kwok()
    assert cluster.wait_bound("c", timeout_s=90.0)["c"] == "node-0"
    check_settled(cluster, [cluster.pod(name) for name in "abc"])
    assert len(cluster.list("Pod", NAMESPACE)) == 2
    sharing.check_history(cluster, since)
