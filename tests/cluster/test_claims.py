"""Pods with claims for devices on a real API server: their claims are allocated and reserved before they are bound."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kai_sched.api import names
from tests.cluster import allocator, claims, objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy

TOOLS = ("allocator",)


@pytest.fixture
def since(cluster: Cluster) -> str:
    return claims.version(cluster)


def prepare(cluster: Cluster, nodes: int = 1, devices: int = 2) -> None:
    cluster.add_queues("team")
    cluster.create(claims.device_class())
    for name in cluster.add_nodes(nodes, gpus=0):
        cluster.create(claims.resource_slice(name, devices))


def the_claim(cluster: Cluster, name: str) -> Object:
    return cluster.get("ResourceClaim", name, "default")


def wait_gpus(read: Callable[[], Object], allocated: int, requested: int) -> None:
    """Wait until the amounts that are read have so many GPUs, by the names of the resource and of the class."""

    def told() -> bool:
        status = read()
        for field, count in (("allocated", allocated), ("requested", requested)):
            amounts = status.get(field, {})
            assert [amounts.get(name) for name in (objects.GPU, claims.DRIVER)] == [str(count)] * 2, status
        return True

    wait_until(told, "the GPUs of claims in a status")


def queue_status(cluster: Cluster) -> Object:
    """The status of the queue; empty where it has none."""
    status: Object = cluster.get("Queue", "team").get("status", {})
    return status


def group_amounts(cluster: Cluster) -> Object:
    """The amounts in the status of the group; empty where it has none."""
    amounts: Object = cluster.get("PodGroup", "pair").get("status", {}).get("resourcesStatus", {})
    return amounts


def wait_free(cluster: Cluster, name: str) -> None:
    wait_until(lambda: not claims.allocated(the_claim(cluster, name)), f"claim {name} being free", 30.0)


def test_each_pod_gets_devices_of_its_own_and_the_last_one_waits(
    cluster: Cluster, operator: StartOperator, since: str
) -> None:
    prepare(cluster, nodes=2)
    operator()
    for n in range(5):
        cluster.create(claims.claim(f"c-{n}"))
    cluster.create_all(claims.pod(f"p-{n}", f"c-{n}") for n in range(4))
    nodes = cluster.wait_bound([f"p-{n}" for n in range(4)])
    cluster.create(claims.pod("p-4", "c-4"))
    cluster.wait_condition("Pod", "p-4", "PodScheduled", status="False")
    assert sorted(nodes.values()) == ["node-0", "node-0", "node-1", "node-1"]
    for name, node in nodes.items():
        found = the_claim(cluster, name.replace("p", "c"))
        [(pool, _)] = claims.allocated(found)
        assert pool == node
        assert claims.reserved(found) == [name]
        uid = cluster.pod(name)["metadata"]["uid"]
        assert found["status"]["reservedFor"] == [{"resource": "pods", "name": name, "uid": uid}]
    assert not claims.reserved(the_claim(cluster, "c-4"))
    wait_gpus(lambda: queue_status(cluster), 4, 5)
    assert claims.check_history(cluster, since) >= 13
    assert allocator.accepted(cluster) == 4


def test_claims_of_templates_are_freed_by_kubernetes_when_their_pods_end(
    cluster: Cluster, controller_manager: ControlPlane, operator: StartOperator, since: str
) -> None:
    assert controller_manager.processes
    prepare(cluster)
    operator()
    cluster.create(claims.template("two", 2))
    cluster.create(claims.pod("first", template="two"))
    cluster.wait_bound(["first"])
    cluster.create(claims.pod("second", template="two"))
    cluster.wait_condition("Pod", "second", "PodScheduled", status="False")
    cluster.delete("Pod", "first")
    cluster.wait_bound(["second"])
    [found] = [each for each in cluster.list("ResourceClaim", "default") if claims.reserved(each) == ["second"]]
    assert claims.allocated(found) == [("node-0", "dev-0"), ("node-0", "dev-1")]
    claims.check_history(cluster, since)
    assert allocator.accepted(cluster) == 1


def test_pods_share_a_claim_on_one_node_and_drivers_are_told_its_config(
    cluster: Cluster, operator: StartOperator
) -> None:
    cluster.add_queues("team")
    told = {"opaque": {"driver": claims.DRIVER, "parameters": {"z": "<time>", "a": 1.0}}}
    cluster.create(claims.device_class(config=[{"opaque": {"driver": claims.DRIVER, "parameters": {"mode": "fast"}}}]))
    for name in cluster.add_nodes(2, gpus=0):
        cluster.create(claims.resource_slice(name))
    operator()
    # As clients in Go write it: without spaces, and with signs that other clients need not escape.
    content = json.dumps(claims.claim("shared", config=[told]), separators=(",", ":")).replace("<", "\\u003c")
    cluster.kubectl("create", "-f", "-", input=content)
    cluster.create_all(objects.gang("pair", 2, gpus=0)[:1])
    cluster.create_all(claims.pod(f"pair-{n}", "shared", group="pair") for n in range(2))
    nodes = cluster.wait_bound(["pair-0", "pair-1"])
    assert len(set(nodes.values())) == 1
    cluster.create(claims.pod("late", "shared"))
    assert cluster.wait_bound(["late"])["late"] == nodes["pair-0"]
    wait_gpus(lambda: group_amounts(cluster), 2, 2)
    wait_gpus(lambda: queue_status(cluster), 3, 3)
    found = the_claim(cluster, "shared")
    assert claims.reserved(found) == ["late", "pair-0", "pair-1"]
    assert len(claims.allocated(found)) == 1
    config = found["status"]["allocation"]["devices"]["config"]
    assert [each["source"] for each in config] == ["FromClass", "FromClaim"]
    assert config[1]["opaque"] == told["opaque"]
    assert allocator.accepted(cluster) == 1


def test_a_claim_whose_bytes_the_api_server_does_not_give_out_is_allocated_without_finalizer(
    cluster: Cluster, operator: StartOperator
) -> None:
    """Its config was sent with spaces, and comes back without: no update of the spec's bytes would be accepted."""
    prepare(cluster)
    replica = operator()
    told = {"opaque": {"driver": claims.DRIVER, "parameters": {"sharing": "time"}}}
    assert ": " in json.dumps(told)
    cluster.create(claims.claim("c", config=[told]))
    cluster.create(claims.pod("p", "c"))
    cluster.wait_bound(["p"])
    assert claims.reserved(the_claim(cluster, "c")) == ["p"]
    assert [each["claim"] for each in replica.logs("claim.unprotected")] == ["default/c"]
    assert allocator.accepted(cluster) == 1


def test_a_class_with_a_selector_that_cannot_be_used_is_told_once_before_any_pod_needs_it(
    cluster: Cluster, operator: StartOperator
) -> None:
    """The API server takes it: optional selection is what this scheduler lacks."""
    prepare(cluster)
    replica = operator()
    cluster.create(claims.device_class("other", selectors=[{"cel": {"expression": "device.?driver.hasValue()"}}]))
    told = wait_until(lambda: replica.logs("object.doubtful"), "the class being told")
    cluster.kubectl("label", "deviceclass", "other", "seen=again")
    cluster.create(claims.claim("c"))
    cluster.create(claims.pod("p", "c"))
    cluster.wait_bound(["p"])
    assert told == replica.logs("object.doubtful")
    assert [(each["kind"], each["object"]) for each in told] == [("DeviceClass", "other")]
    assert "spec.selectors[0].cel.expression: 'device.?driver.hasValue()' uses optional" in told[0]["problem"]


def test_a_claim_that_somebody_else_allocates_meanwhile_is_decided_about_again(
    cluster: Cluster, operator: StartOperator, proxy: Proxy
) -> None:
    """Our write of the claim is held up until another scheduler has given it the device of another node."""
    prepare(cluster, nodes=2, devices=1)
    operator(proxy=proxy)
    held = proxy.add("PUT", ".*/resourceclaims/c$", status=503)
    cluster.create(claims.claim("c"))
    cluster.create(claims.pod("p", "c"))
    held.wait_hits()
    content = the_claim(cluster, "c")
    result = {"request": "gpu", "driver": claims.DRIVER, "pool": "node-1", "device": "dev-0"}
    name = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    nodes = {"nodeSelectorTerms": [{"matchFields": [name]}]}
    content["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": nodes}}
    cluster.request("PUT", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status", content)
    proxy.remove(held)
    assert cluster.wait_bound(["p"]) == {"p": "node-1"}
    found = the_claim(cluster, "c")
    assert claims.allocated(found) == [("node-1", "dev-0")]
    assert claims.reserved(found) == ["p"]
    assert allocator.accepted(cluster) == 1


def test_what_was_reserved_for_a_bind_that_fails_is_taken_back(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, since: str
) -> None:
    prepare(cluster, devices=1)
    operator(proxy=proxy)
    refused = proxy.add("POST", ".*/pods/p/binding$", status=403)
    for name in ("c", "d"):
        cluster.create(claims.claim(name))
    cluster.create(claims.pod("p", "c"))
    refused.wait_hits()
    wait_free(cluster, "c")
    assert not claims.reserved(the_claim(cluster, "c"))
    cluster.delete("Pod", "p")
    cluster.create(claims.pod("q", "d"))
    cluster.wait_bound(["q"])
    assert claims.check_history(cluster, since) >= 5
    assert allocator.accepted(cluster) == 1


def test_the_next_leader_binds_what_the_last_one_reserved(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, since: str
) -> None:
    """The last one was killed between the write of the claim and the bind."""
    prepare(cluster, nodes=2, devices=2)
    first = operator(proxy=proxy)
    refused = proxy.add("POST", ".*/pods/p/binding$", status=503)
    cluster.create(claims.claim("c"))
    cluster.create(claims.pod("p", "c"))
    refused.wait_hits()
    first.kill()
    before = the_claim(cluster, "c")
    assert claims.reserved(before) == ["p"]
    operator()
    [(pool, _)] = claims.allocated(before)
    assert cluster.wait_bound(["p"], timeout_s=90.0) == {"p": pool}
    assert the_claim(cluster, "c")["status"] == before["status"]
    cluster.create_all([claims.claim(f"c-{n}") for n in range(3)])
    cluster.create_all(claims.pod(f"p-{n}", f"c-{n}") for n in range(3))
    cluster.wait_bound([f"p-{n}" for n in range(3)])
    claims.check_history(cluster, since)
    assert allocator.accepted(cluster) == 4


def test_a_cluster_without_claims_waits_for_nothing_and_they_may_come_later(
    cluster: Cluster, operator: StartOperator, proxy: Proxy
) -> None:
    """The API group is not served at first."""
    absent = proxy.add("GET", "^/apis/resource.k8s.io/", status=404)
    prepare(cluster)
    replica = operator(proxy=proxy)
    absent.wait_hits(3)
    cluster.create(claims.claim("c"))
    cluster.create_all([objects.pod("plain", gpus=0), claims.pod("p", "c"), claims.extended_pod("e")])
    cluster.wait_bound(["plain"])
    found = cluster.wait_condition("Pod", "p", "PodScheduled", status="False")
    assert "ResourceClaim default/c does not exist" in found["message"]
    found = cluster.wait_condition("Pod", "e", "PodScheduled", status="False")
    assert f"names the DeviceClass {claims.DRIVER}, which does not exist: create it" in found["message"]
    assert replica.get("/readyz/scheduling")[0] == 200
    assert [each for each in replica.logs() if each["level"] in ("warning", "error")] == []
    proxy.remove(absent)
    cluster.wait_bound(["p", "e"])
    assert claims.reserved(the_claim(cluster, "c")) == ["p"]
    assert allocator.accepted(cluster) == 2  # one was made for e


def test_claims_are_made_for_extended_resources_and_freed_with_their_pods(
    cluster: Cluster, controller_manager: ControlPlane, operator: StartOperator, since: str
) -> None:
    """One node offers the resource by its device plugin; on the other one it is a device of a slice."""
    assert controller_manager.processes
    cluster.add_queues("team")
    cluster.create(claims.device_class(extendedResourceName=objects.GPU))
    cluster.add_nodes(1, gpus=1, prefix="plugin")
    cluster.create(claims.resource_slice(*cluster.add_nodes(1, gpus=0), 2))
    operator()
    cluster.create_all(objects.pod(f"p-{n}", gpus=1) for n in range(2))
    cluster.create(claims.extended_pod("p-2"))
    nodes = cluster.wait_bound([f"p-{n}" for n in range(3)])
    assert sorted(nodes.values()) == ["node-0", "node-0", "plugin-0"]
    cluster.create(objects.pod("late", gpus=1))
    cluster.wait_condition("Pod", "late", "PodScheduled", status="False")
    held = set()
    for name, node in nodes.items():
        found = claims.made_for(cluster, name)
        pod = cluster.pod(name)
        told = pod["status"].get("extendedResourceClaimStatus")
        if node == "plugin-0":
            assert (found, told) == ([], None)
            continue
        [one] = found
        meta = one["metadata"]
        assert meta["name"].startswith(f"{name}-extended-resources-")
        assert meta["annotations"][names.EXTENDED_CLAIM_ANNOTATION] == "true"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        assert meta["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
        held |= set(claims.allocated(one))
        assert claims.reserved(one) == [name]
        [mapping] = told["requestMappings"]
        assert (told["resourceClaimName"], mapping["containerName"]) == (meta["name"], "main")
        [request] = one["spec"]["devices"]["requests"]
        assert request["name"] == mapping["requestName"] == f"container-0-request-{1 if name == 'p-2' else 2}"
        assert mapping["resourceName"] == (claims.IMPLICIT if name == "p-2" else objects.GPU)
    assert held == {("node-0", "dev-0"), ("node-0", "dev-1")}
    cluster.delete("Pod", "p-2")
    assert cluster.wait_bound(["late"])["late"] == "node-0"
    wait_until(lambda: not claims.made_for(cluster, "p-2"), "the claim being gone")
    claims.check_history(cluster, since)
    assert allocator.accepted(cluster) == 2


def test_what_was_made_for_a_bind_that_fails_is_gone_and_the_next_one_gets_it(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, since: str
) -> None:
    prepare(cluster, devices=1)
    operator(proxy=proxy)
    refused = proxy.add("POST", ".*/pods/p/binding$", status=403)
    cluster.create(claims.extended_pod("p"))
    refused.wait_hits()

    def undone() -> bool:
        return not claims.made_for(cluster, "p") and "extendedResourceClaimStatus" not in cluster.pod("p")["status"]

    wait_until(undone, "the claim and the status being gone", 30.0)
    cluster.delete("Pod", "p")
    cluster.create(claims.extended_pod("q"))
    cluster.wait_bound(["q"])
    [found] = claims.made_for(cluster, "q")
    assert claims.allocated(found) == [("node-0", "dev-0")]
    claims.check_history(cluster, since)
    assert allocator.accepted(cluster) == 1


def test_the_next_leader_binds_with_the_claim_that_the_last_one_made(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, since: str
) -> None:
    """The last one was killed before it had told the pod."""
    prepare(cluster, nodes=2)
    first = operator(proxy=proxy)
    held = proxy.add("PATCH", ".*/pods/p/status$", status=503)
    cluster.create(claims.extended_pod("p"))
    held.wait_hits()
    wait_until(lambda: any(map(claims.allocated, claims.made_for(cluster, "p"))), "the claim being allocated")
    first.kill()
    [before] = claims.made_for(cluster, "p")
    [(pool, _)] = claims.allocated(before)
    operator()
    assert cluster.wait_bound(["p"], timeout_s=90.0) == {"p": pool}
    [after] = claims.made_for(cluster, "p")
    assert (after["metadata"]["uid"], after["status"]) == (before["metadata"]["uid"], before["status"])
    told = cluster.pod("p")["status"]["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == after["metadata"]["name"]
    cluster.create_all(claims.extended_pod(f"p-{n}") for n in range(3))
    cluster.wait_bound([f"p-{n}" for n in range(3)])
    claims.check_history(cluster, since)
    assert allocator.accepted(cluster) == 4
