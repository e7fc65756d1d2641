"""Extended resources for which DeviceClasses stand, from files to allocations: a claim is made where no device plugin
serves them, and goes with its pod.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cycle.test_claims import CLASS, EXACT, FREE, claim, node, pod, queue, simulate, thing

GPU = "nvidia.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NIC = "example.com/nic"


def stands_for(resource: str, name: str = "gpu", driver: str = "gpu.example.com", **meta: Any) -> dict[str, Any]:
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    return thing("DeviceClass", name, metadata=meta, spec={"selectors": [selector], "extendedResourceName": resource})


def asking(name: str, queue: str = "q", node: str = "", **resources: int) -> dict[str, Any]:
    """A pod that asks for resources; in their names "__" is ".", and "_" is "/"."""
    found = pod(name, "", queue, node)
    found["spec"]["resourceClaims"] = []
    amounts = {key.replace("__", ".").replace("_", "/"): str(count) for key, count in resources.items()}
    found["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return found


def gpus(name: str, count: int, queue: str = "q", node: str = "", resource: str = GPU) -> dict[str, Any]:
    return asking(name, queue, node, **{resource.replace("/", "_").replace(".", "__"): count})


def offering(name: str, resource: str, count: int) -> dict[str, Any]:
    """A node whose device plugin offers the resource."""
    return thing("Node", name, status={"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "20", resource: count}})


def nics(name: str, count: int) -> dict[str, Any]:
    """A slice with network cards of the node."""
    devices = [{"name": f"nic-{number}"} for number in range(count)]
    pool = {"name": f"{name}-nics", "resourceSliceCount": 1}
    spec = {"driver": "nic.example.com", "nodeName": name, "pool": pool, "devices": devices}
    return thing("ResourceSlice", f"{name}-nics", spec=spec)


def devices_of(cycle: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """Request and device of all that the pod got."""
    claims = cycle["decided"][f"a/{name}"].get("resourceClaims", {})
    return [(each["request"], each["device"]) for claim in claims.values() for each in claim["devices"]["results"]]


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_a_claim_is_made_where_no_node_offers_the_resource(tmp_path: Path, resource: str) -> None:
    objects = [*node("n", 3), queue("q"), stands_for(GPU)]
    pods = [gpus("x", 1, resource=resource), gpus("y", 2, resource=resource), gpus("z", 1, resource=resource)]
    first, second = simulate(tmp_path, *objects, *pods, cycles=2)
    assert devices_of(first, "x") == [("container-0-request-0", "gpu-0")]
    assert devices_of(first, "y") == [("container-0-request-0", "gpu-1"), ("container-0-request-0", "gpu-2")]
    assert first["decided"]["a/z"]["status"] == "Pending"
    assert [name.startswith("a/x-extended-resources-") for name in first["decided"]["a/x"]["resourceClaims"]] == [True]
    for found in (first, second):
        assert found["queues"]["q"]["allocated"]["gpu"] == 3
        assert found["nodes"]["n"]["idleGPUs"] == 0.0
    assert second["decided"]["a/z"]["status"] == "Pending"


def test_a_node_that_offers_the_resource_serves_it_by_its_device_plugin(tmp_path: Path) -> None:
    objects = [offering("m", GPU, 1), *node("n", 1), queue("q"), stands_for(GPU)]
    pods = [gpus(name, 1) for name in ("x", "y", "z")]
    (found,) = simulate(tmp_path, *objects, *pods)
    by_node = {found["decided"][f"a/{name}"]["node"]: devices_of(found, name) for name in ("x", "y")}
    assert by_node == {"m": [], "n": [("container-0-request-0", "gpu-0")]}
    assert found["decided"]["a/z"]["status"] == "Pending"


def test_the_devices_of_a_node_that_offers_them_as_well_are_not_given_away(tmp_path: Path) -> None:
    """The device plugin would hand out the same devices."""
    both = node("n", 2)
    both[0]["status"]["allocatable"][GPU] = "2"
    (found,) = simulate(tmp_path, *both, queue("q"), stands_for(GPU), gpus("p", 1))
    assert "its GPUs are devices for ResourceClaims" in found["podGroups"]["a/p"]["message"]


def test_each_node_needs_requests_for_what_it_does_not_offer(tmp_path: Path) -> None:
    classes = [stands_for(GPU), stands_for(NIC, "nic", "nic.example.com")]
    asked = {"nvidia__com_gpu": 1, "example__com_nic": 1}
    one = [offering("m", GPU, 1), nics("m", 1)]
    (found,) = simulate(tmp_path, *one, queue("q"), *classes, asking("p", **asked))
    assert devices_of(found, "p") == [("container-0-request-0", "nic-0")]
    other = [*node("n", 1), nics("n", 1)]
    (found,) = simulate(tmp_path, *other, queue("q"), *classes, asking("p", **asked))
    assert devices_of(found, "p") == [("container-0-request-0", "nic-0"), ("container-0-request-1", "gpu-0")]
    (found,) = simulate(tmp_path, *node("n", 1), queue("q"), *classes, asking("p", **asked))
    assert "cannot allocate all claims" in found["podGroups"]["a/p"]["message"]
    assert "(its request for example.com/nic: no node can use a device" in found["podGroups"]["a/p"]["message"]
    assert found["nodes"]["n"]["idleGPUs"] == 1.0


def test_a_selector_that_fails_is_told_where_another_node_offers_the_resource(tmp_path: Path) -> None:
    bad = thing("DeviceClass", "gpu.example.com", spec={"selectors": [{"cel": {"expression": "no =="}}]})
    bad["spec"]["extendedResourceName"] = NIC
    full = offering("m", NIC, 1)
    full["status"]["allocatable"]["cpu"] = "0"
    (found,) = simulate(tmp_path, full, *node("n", 1), queue("q"), bad, asking("p", example__com_nic=1, cpu=1))
    assert (
        "cannot allocate all claims (its request for example.com/nic: 'no ==' cannot be comp"
        in found["podGroups"]["a/p"]["message"]
    )


def test_gpus_count_once_for_the_queue_and_only_gpus_do(tmp_path: Path) -> None:
    classes = [stands_for(GPU), stands_for(NIC, "nic", "nic.example.com")]
    objects = [*node("n", 4), nics("n", 4), queue("q", 0), *classes]
    limited = {"quota": 0, "limit": 2, "overQuotaWeight": 1}
    objects[3] = thing("Queue", "q", spec={"resources": {"cpu": FREE, "memory": FREE, "gpu": limited}})
    pods = [gpus("x", 1), gpus("y", 1, resource=IMPLICIT), gpus("z", 1), asking("nic", example__com_nic=2)]
    first, second = simulate(tmp_path, *objects, *pods, cycles=2)
    assert [first["decided"][f"a/{name}"]["status"] for name in "xyz"] == ["Binding", "Binding", "Pending"]
    assert len(devices_of(first, "nic")) == 2
    assert second["queues"]["q"]["allocated"]["gpu"] == 2
    assert second["decided"]["a/z"]["status"] == "Pending"


def test_a_reclaim_frees_the_devices_of_its_victims(tmp_path: Path) -> None:
    objects = [*node("n", 2), queue("q", 0), queue("mine", 2), stands_for(GPU), gpus("old", 2)]
    (first,) = simulate(tmp_path, *objects)
    assert len(devices_of(first, "old")) == 2
    held = first["decided"]["a/old"]["resourceClaims"]
    ((key, allocation),) = held.items()
    running = [gpus("old", 2, node="n"), made(key.partition("/")[2], "old", allocation)]
    first, second = simulate(tmp_path, *objects[:-1], *running, gpus("new", 2, "mine"), cycles=2)
    assert (first["evicted"], first["decided"]["a/new"]["status"]) == (["a/old"], "Pipelined")
    assert [device for _, device in devices_of(second, "new")] == ["gpu-0", "gpu-1"]
    assert second["decided"]["a/old"]["status"] == "Pending"


def made(name: str, pod: str, allocation: dict[str, Any], reserved: bool = True) -> dict[str, Any]:
    """The claim that was made for extended resources of the pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}
    results = allocation["devices"]["results"]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": len(results)}
    status: dict[str, Any] = {"allocation": allocation}
    if reserved:
        status["reservedFor"] = [{"resource": "pods", "name": pod, "uid": pod}]
    marks = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return thing(
        "ResourceClaim",
        name,
        "a",
        metadata={"annotations": marks, "ownerReferences": [owner]},
        spec={"devices": {"requests": [{"name": results[0]["request"], "exactly": exactly}]}},
        status=status,
    )


def allocation(node: str, *devices: str) -> dict[str, Any]:
    common = {"request": "container-0-request-0", "driver": "gpu.example.com", "pool": node}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    results = [{**common, "device": device} for device in devices]
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}


def test_claims_that_others_made_hold_their_devices_and_do_not_count_again(tmp_path: Path) -> None:
    """Their names are those that Kubernetes makes up, and another scheduler has placed one of the pods."""
    objects = [*node("n", 4), queue("q"), stands_for(GPU)]
    foreign = gpus("foreign", 1, node="n")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    objects += [gpus("old", 1, node="n"), made("old-extended-resources-x7k2p", "old", allocation("n", "gpu-1"))]
    objects += [foreign, made("foreign-extended-resources-abcde", "foreign", allocation("n", "gpu-0"))]
    (found,) = simulate(tmp_path, *objects, gpus("x", 2), gpus("y", 1))
    assert [device for _, device in devices_of(found, "x")] == ["gpu-2", "gpu-3"]
    assert found["decided"]["a/y"]["status"] == "Pending"
    assert found["queues"]["q"]["allocated"]["gpu"] == 3


def test_a_claim_that_a_pod_names_counts_whatever_its_annotations_say(tmp_path: Path) -> None:
    """Users can annotate their claims, and must not get GPUs beyond the limit of the queue by it."""
    objects = [*node("n", 2), CLASS, claim("c", [EXACT])]
    objects[-1]["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    limited = {"quota": 0, "limit": 0, "overQuotaWeight": 1}
    limit = thing("Queue", "q", spec={"resources": {"cpu": FREE, "memory": FREE, "gpu": limited}})
    (found,) = simulate(tmp_path, *objects, limit, pod("p", "c"))
    assert found["podGroups"]["a/p"]["reason"] == "OverLimit"
    running, free = pod("p", "c", node="n"), queue("q")
    (found,) = simulate(tmp_path, *objects, free, running)
    assert found["queues"]["q"]["allocated"]["gpu"] == 1


def test_a_pod_goes_where_the_claim_of_an_earlier_attempt_has_its_devices(tmp_path: Path) -> None:
    objects = [*node("m", 1), *node("n", 1), offering("o", GPU, 1), queue("q"), stands_for(GPU)]
    claim = made("p-extended-resources-x7k2p", "p", allocation("n", "gpu-0"))
    (found,) = simulate(tmp_path, *objects, claim, gpus("p", 1), gpus("q", 1), gpus("r", 1))
    assert found["decided"]["a/p"]["node"] == "n"
    assert list(found["decided"]["a/p"]["resourceClaims"]) == ["a/p-extended-resources-x7k2p"]
    assert {found["decided"][f"a/{name}"]["node"] for name in "qr"} == {"m", "o"}


def test_the_devices_of_a_live_bind_request_are_taken(tmp_path: Path) -> None:
    request = thing("BindRequest", "p", "a")
    request["apiVersion"] = "scheduling.run.ai/v1alpha2"
    extended = {"allocation": allocation("n", "gpu-0")}
    request["spec"] = {"podName": "p", "selectedNode": "n", "extendedResourceClaimAllocation": extended}
    (found,) = simulate(tmp_path, *node("n", 2), queue("q"), stands_for(GPU), request, gpus("p", 1), gpus("x", 1))
    assert devices_of(found, "x") == [("container-0-request-0", "gpu-1")]


def test_the_newer_class_of_two_stands_for_a_resource(tmp_path: Path) -> None:
    old = stands_for(NIC, "a-old", "gpu.example.com", creationTimestamp="2026-01-01T00:00:00Z")
    new = stands_for(NIC, "b-new", "nic.example.com", creationTimestamp="2026-01-02T00:00:00Z")
    (found,) = simulate(tmp_path, *node("n", 1), nics("n", 1), queue("q"), old, new, asking("p", example__com_nic=1))
    assert devices_of(found, "p") == [("container-0-request-0", "nic-0")]


def test_what_is_wrong_with_the_class_is_told_unless_some_node_offers_the_resource(tmp_path: Path) -> None:
    broken = stands_for(NIC, "nic", "nic.example.com")
    broken["spec"]["selectors"] = [{"cel": {"expression": "device.nothing"}}]
    objects = [*node("n", 1), queue("q"), broken, asking("p", example__com_nic=1)]
    (found,) = simulate(tmp_path, *objects)
    message = found["podGroups"]["a/p"]["message"]
    assert "spec.selectors[0].cel.expression of its DeviceClass nic" in message
    (found,) = simulate(tmp_path, *objects, offering("m", NIC, 1))
    assert found["decided"]["a/p"]["node"] == "m"


@pytest.mark.parametrize("classes", [[], [stands_for(NIC, "nic", "nic.example.com")]])
def test_a_class_that_is_missing_is_named_unless_some_node_offers_the_resource(
    tmp_path: Path, classes: list[dict[str, Any]]
) -> None:
    """Also in a cluster that has no classes, slices and claims at all."""
    objects = [offering("m", NIC, 1), queue("q"), *classes]
    (found,) = simulate(tmp_path, *objects, gpus("p", 1, resource=IMPLICIT))
    assert found["podGroups"]["a/p"]["message"] == (
        "pod a/p can run on no node: its request for deviceclass.resource.kubernetes.io/gpu names the DeviceClass "
        "gpu, which does not exist: create it, or correct the name"
    )
    (found,) = simulate(tmp_path, *objects, offering("n", IMPLICIT, 1), gpus("p", 1, resource=IMPLICIT))
    assert found["decided"]["a/p"]["node"] == "n"
    (found,) = simulate(tmp_path, *node("n", 1), *objects[1:], CLASS, gpus("p", 1, resource=IMPLICIT))
    assert found["decided"]["a/p"]["node"] == "n"


def test_amounts_of_resources_are_those_that_users_write(tmp_path: Path) -> None:
    (found,) = simulate(tmp_path, *node("n", 1), queue("q"), asking("p", example__com_nic=2))
    message = found["podGroups"]["a/p"]["message"]
    assert "asks for 2 example.com/nic; the largest node has 0 example.com/nic" in message


def test_more_devices_than_a_claim_can_have_are_refused(tmp_path: Path) -> None:
    (found,) = simulate(tmp_path, *node("n", 40), queue("q"), stands_for(GPU), gpus("p", 33))
    assert "a claim can have 32 at most" in found["podGroups"]["a/p"]["message"]
    two = gpus("p", 17)
    two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "b"})
    (found,) = simulate(tmp_path, *node("n", 40), queue("q"), stands_for(GPU), two)
    assert "ask for 34 devices: a claim can have 32 at most" in found["podGroups"]["a/p"]["message"]
