"""Pods with parts of GPUs on a real API server: they share devices, which reservation pods hold until all are gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from kai_sched.api import names
from tests.cluster import objects, sharing
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.device_plugin import NAMESPACE, DevicePlugin, device_of
from tests.cluster.installed import install_webhooks, wait_authorities
from tests.cluster.processes import wait_until
from tests.tree import ROOT

pytestmark = pytest.mark.usefixtures("plugin")


@pytest.fixture
def plugin(cluster: Cluster) -> Iterator[DevicePlugin]:
    with DevicePlugin(cluster) as plugin:
        yield plugin


@pytest.fixture
def since(cluster: Cluster) -> str:
    return sharing.version(cluster)


def prepare(cluster: Cluster, nodes: int = 1, gpus: int = 2, timeout_s: int = 20) -> None:
    cluster.add_queues("team")
    cluster.add_nodes(nodes, gpus=gpus)
    sharing.turn_on(cluster, timeout_s)


def wait_reservations(cluster: Cluster, count: int) -> list[Object]:
    def as_many() -> list[Object] | None:
        found = sharing.reservations(cluster)
        assert len(found) == count, [pod["metadata"]["name"] for pod in found]
        return found or [{}]

    return wait_until(as_many, f"{count} reservation pods", 30.0)


@pytest.mark.essential
def test_two_halves_share_one_device_and_see_it(cluster: Cluster, operator: StartOperator, since: str) -> None:
    prepare(cluster)
    operator()
    for name, fraction in (("a", "0.5"), ("b", "0.25"), ("c", "0.75")):
        cluster.create(sharing.pod(name, fraction))
        cluster.wait_bound([name])
    cluster.create_all([sharing.pod("d", "0.5", 2)])
    cluster.wait_condition("Pod", "d", "PodScheduled", status="False")
    pods = {name: cluster.pod(name) for name in "abc"}
    assert sharing.groups_of(pods["a"]) == sharing.groups_of(pods["b"]) != sharing.groups_of(pods["c"])
    found = {pod["metadata"]["labels"][names.GPU_GROUP_LABEL]: device_of(pod) for pod in sharing.reservations(cluster)}
    for name, pod in pods.items():
        assert sharing.visible(cluster, name) == found[sharing.groups_of(pod)[0]]
        assert pod["metadata"]["annotations"][names.RECEIVED_TYPE_ANNOTATION] == "Fraction"
    assert cluster.get("ConfigMap", "b-maps-0")["data"]["GPU_PORTION"] == "0.25"
    assert not cluster.pod("d")["spec"].get("nodeName")
    for name in "bc":
        cluster.delete("Pod", name)
    cluster.wait_bound(["d"])
    assert len(set(sharing.visible(cluster, "d").split(","))) == 2
    for name in "ad":
        cluster.delete("Pod", name)
    wait_reservations(cluster, 0)
    assert sharing.check_history(cluster, since) > 8


def test_a_burst_fills_each_device_and_no_more(cluster: Cluster, operator: StartOperator, since: str) -> None:
    prepare(cluster, gpus=8)
    operator()
    cluster.create_all(sharing.pod(f"half-{n}") for n in range(16))
    cluster.wait_bound([f"half-{n}" for n in range(16)])
    assert len(wait_reservations(cluster, 8)) == 8
    cluster.create_all([objects.pod("whole", gpus=1)])
    for n in range(16):
        cluster.delete("Pod", f"half-{n}")
    cluster.wait_bound(["whole"])
    wait_reservations(cluster, 0)
    sharing.check_history(cluster, since)


def test_a_device_that_cannot_be_reserved_is_given_up(
    cluster: Cluster, operator: StartOperator, plugin: DevicePlugin
) -> None:
    """Its pods go elsewhere, and nothing is left on the node."""
    prepare(cluster, nodes=2, timeout_s=2)
    plugin.mute.add("node-0")
    operator()
    cluster.create_all([sharing.pod("a"), sharing.pod("b")])
    assert set(cluster.wait_bound(["a", "b"]).values()) == {"node-1"}
    left = wait_reservations(cluster, 1)
    assert left[0]["spec"]["nodeName"] == "node-1"


def test_a_reservation_that_is_deleted_by_hand_is_made_again(
    cluster: Cluster, operator: StartOperator, since: str
) -> None:
    prepare(cluster)
    operator()
    cluster.create_all([sharing.pod("a"), sharing.pod("b")])
    cluster.wait_bound(["a", "b"])
    [first] = wait_reservations(cluster, 1)

    def made_again() -> bool:
        others = [one for one in sharing.reservations(cluster) if one["metadata"]["uid"] != first["metadata"]["uid"]]
        return [device_of(one) for one in others] == [device_of(first)]

    cluster.delete("Pod", first["metadata"]["name"], NAMESPACE)
    wait_until(made_again, "the same device being reserved again", 30.0)
    assert {"a", "b"} <= cluster.bound().keys()
    sharing.check_history(cluster, since)


def test_pods_go_where_their_device_is_lost(cluster: Cluster, operator: StartOperator, plugin: DevicePlugin) -> None:
    """Somebody else has got the device meanwhile: two pods must not have it."""
    prepare(cluster, gpus=1, timeout_s=3)
    operator()
    cluster.create_all([sharing.pod("a")])
    cluster.wait_bound(["a"])
    [first] = wait_reservations(cluster, 1)
    plugin.mute.add("node-0")
    cluster.delete("Pod", first["metadata"]["name"], NAMESPACE)
    wait_until(lambda: "a" not in cluster.bound(), "the pod being deleted", 30.0)
    wait_reservations(cluster, 0)


def test_a_replica_takes_up_what_the_last_one_left(
    cluster: Cluster, operator: StartOperator, plugin: DevicePlugin, since: str
) -> None:
    """The last one was killed between the reservation and the bind."""
    prepare(cluster)
    plugin.mute.add("node-0")
    first = operator()
    cluster.create_all([sharing.pod("a"), sharing.pod("b")])
    [reserved] = wait_reservations(cluster, 1)
    first.kill()
    operator()
    plugin.mute.clear()
    cluster.wait_bound(["a", "b"], timeout_s=90.0)
    wait_reservations(cluster, 1)
    assert sharing.visible(cluster, "a") == sharing.visible(cluster, "b") != ""
    assert sharing.groups_of(cluster.pod("a")) == sharing.groups_of(cluster.pod("b"))
    sharing.check_history(cluster, since)
    assert reserved["metadata"]["namespace"] == NAMESPACE


def test_sharing_that_is_turned_off_leaves_what_runs(cluster: Cluster, operator: StartOperator, since: str) -> None:
    prepare(cluster)
    operator()
    cluster.create_all([sharing.pod("a")])
    cluster.wait_bound(["a"])
    sharing.turn_on(cluster, on=False)
    cluster.create_all([sharing.pod("late"), objects.pod("whole", gpus=1)])
    cluster.wait_bound(["whole"])
    found = cluster.wait_condition("Pod", "late", "PodScheduled", status="False")
    assert "sharing" in found["message"]
    wait_reservations(cluster, 1)
    cluster.delete("Pod", "a")
    wait_reservations(cluster, 0)
    sharing.check_history(cluster, since)


def test_the_memory_of_single_containers(cluster: Cluster, operator: StartOperator) -> None:
    """The pods of the guide: 6 GiB of one and 18 of the other fill a GPU, which the container that asks for it sees."""
    cluster.add_namespace("ml")
    (node,) = cluster.add_nodes(1, gpus=1)
    cluster.kubectl("label", "node", node, "nvidia.com/gpu.memory=24576", "--overwrite")
    cluster.kubectl("apply", "-f", "-", input=sharing.RUNTIME_CLASS)
    replica = operator(webhooks=True)
    assert replica.webhook_port
    install_webhooks(cluster, replica.webhook_port, wait_authorities(cluster))  # it goes by the refusal while off
    sharing.turn_on(cluster)
    for each in yaml.safe_load_all((ROOT / "examples/gpu-sharing/containers.yaml").read_text()):
        if each["kind"] != "Node":
            cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(each))
    cluster.wait_bound(["serve", "notebook"], "ml")
    serve, notebook = (cluster.pod(name, "ml") for name in ("serve", "notebook"))
    assert sharing.groups_of(serve) == sharing.groups_of(notebook)
    assert len(sharing.reservations(cluster)) == 1
    names_of = [{each["name"] for each in container.get("env", ())} for container in serve["spec"]["containers"]]
    assert [names.VISIBLE_DEVICES_ENV in each for each in names_of] == [False, True]
