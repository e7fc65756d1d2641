"""Devices that have more to them, of a real driver where it makes such: partitions, shares, taints, conditions.

Each allocation is one that the allocator of Kubernetes would make.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kai_sched.api import names
from tests.cluster import allocator, claims, dra_driver
from tests.cluster.client import Object, Refused
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import WORKLOADS, ControlPlane
from tests.cluster.processes import wait_until

TOOLS = ("dra", "allocator")

ADMIN_ACCESS = {"resource.kubernetes.io/admin-access": "true"}
FULL = f"'full' in device.attributes['{claims.DRIVER}']"
PART = f"'partition' in device.attributes['{claims.DRIVER}']"


@pytest.fixture
def since(cluster: Cluster) -> str:
    return claims.version(cluster)


@pytest.fixture
def one_node(cluster: Cluster) -> str:
    cluster.add_queues("team")
    cluster.create(claims.device_class())
    [name] = cluster.add_nodes(1, gpus=0)
    return name


def wait_slices(cluster: Cluster, count: int = 1) -> list[Object]:
    def there() -> list[Object] | None:
        found = cluster.list("ResourceSlice")
        return list(found) if len(found) == count else None

    return wait_until(there, f"{count} slices", 60.0)


def add(cluster: Cluster, name: str, *requests: Object) -> str:
    """A pod with a claim of its own with these requests; the claim is the pod's namesake."""
    content = claims.claim(name)
    content["spec"]["devices"]["requests"] = list(requests)
    cluster.create(content)
    cluster.create(claims.pod(name, name))
    return name


def remove(cluster: Cluster, name: str) -> None:
    """The pod goes; what kube-controller-manager does for its claim does the test."""
    cluster.delete("Pod", name)
    content = cluster.get("ResourceClaim", name, "default")
    del content["status"]
    cluster.request("PUT", f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}/status", content)


def exactly(selector: str = "", **spec: Any) -> Object:
    """A request for one device."""
    return {"name": "gpu", "exactly": option(selector, **spec)}


def option(selector: str = "", **spec: Any) -> Object:
    """What one device is asked for by."""
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {"deviceClassName": claims.DRIVER, "selectors": selectors} | spec


def wait_waiting(cluster: Cluster, name: str) -> None:
    cluster.wait_condition("Pod", name, "PodScheduled", status="False")


def the_results(cluster: Cluster, name: str) -> list[Object]:
    return claims.results(cluster.get("ResourceClaim", name, "default"))


def devices_of(cluster: Cluster, names: Sequence[str]) -> set[str]:
    return {each["device"] for name in names for each in the_results(cluster, name)}


@pytest.fixture
def partitions(cluster: Cluster, own_plane: ControlPlane, one_node: str) -> Object:
    """A GPU as the driver divides it: four partitions and the whole of it use the same counters.

    This driver puts counters and devices into two slices, as Kubernetes has it since 1.35; the API server of 1.34 wants
    them in one, and refuses the devices. So the slice is made of both that the driver has sent.
    """
    mark = own_plane.audit.mark()

    def sent() -> dict[str, tuple[Object, int]]:
        """What, and the status of the answer, by the part of a slice that there is."""
        entries = own_plane.audit.since(mark, WORKLOADS, "resourceslices")
        specs = [(entry.raw["requestObject"]["spec"], entry.status) for entry in entries if entry.verb == "create"]
        parts = ("sharedCounters", "devices")
        found = {part: (spec[part], status) for spec, status in specs for part in parts if spec.get(part)}
        assert len(found) == len(parts), specs
        return found

    with dra_driver.running(own_plane, [one_node], "--gpu-partitions=4", devices=1):
        parts = wait_until(sent, "both slices of the driver", 60.0)
    assert [parts[part][1] for part in ("sharedCounters", "devices")] == [201, 422]
    for each in cluster.list("ResourceSlice"):
        cluster.delete("ResourceSlice", each["metadata"]["name"])
    found = claims.resource_slice(one_node)
    found["spec"] |= {part: content for part, (content, _) in parts.items()}
    return cluster.create(found)


def test_partitions_of_a_gpu_and_the_whole_of_it_take_turns(
    cluster: Cluster, operator: StartOperator, partitions: Object, since: str
) -> None:
    assert len(partitions["spec"]["devices"]) == 5
    assert all(each["consumesCounters"] for each in partitions["spec"]["devices"])
    operator()
    parts = [add(cluster, f"part-{n}", exactly(PART)) for n in range(4)]
    cluster.wait_bound(parts)
    assert devices_of(cluster, parts) == {f"gpu-0-partition-{n}" for n in range(4)}
    assert allocator.accepted(cluster) == 4
    add(cluster, "full", exactly(FULL))
    add(cluster, "any", exactly())
    wait_waiting(cluster, "full")
    wait_waiting(cluster, "any")
    freed = devices_of(cluster, ["part-1"])
    remove(cluster, "part-1")
    cluster.wait_bound(["any"])
    assert devices_of(cluster, ["any"]) == freed
    for name in ("part-0", "part-2", "part-3"):
        assert "full" not in cluster.bound()
        remove(cluster, name)
    assert allocator.accepted(cluster) == 1
    remove(cluster, "any")
    cluster.wait_bound(["full"])
    assert devices_of(cluster, ["full"]) == {"gpu-0-full"}
    add(cluster, "late", exactly(PART))
    wait_waiting(cluster, "late")
    assert allocator.accepted(cluster) == 1
    assert claims.check_history(cluster, since) > 12


def test_a_prioritised_list_falls_to_its_second_choice(
    cluster: Cluster, operator: StartOperator, partitions: Object, since: str
) -> None:
    """The whole GPU, else two partitions of it, else one."""
    assert partitions
    options = [option(FULL, name="full"), option(PART, name="two", count=2), option(PART, name="one")]
    request = {"name": "gpu", "firstAvailable": options}
    operator()
    for name, chosen, count in (("a", "full", 1), ("b", "two", 2), ("c", "one", 1)):
        if name == "b":
            remove(cluster, "a")
            add(cluster, "part", exactly(PART))
            cluster.wait_bound(["part"])
        add(cluster, name, request)
        cluster.wait_bound([name])
        assert [each["request"] for each in the_results(cluster, name)] == [f"gpu/{chosen}"] * count
        assert allocator.accepted(cluster) == {"a": 1, "b": 2, "c": 3}[name]
    add(cluster, "late", request)
    wait_waiting(cluster, "late")
    assert claims.check_history(cluster, since) > 8


def capacity(memory: str, compute: str = "10") -> Object:
    return exactly(capacity={"requests": {"memory": memory, "compute": compute}})


def test_devices_that_claims_share_give_each_its_part(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator, one_node: str, since: str
) -> None:
    """Each of two GPUs has 80 GiB, of which claims get whole GiB, and all where they do not say how much."""
    with dra_driver.running(own_plane, [one_node], "--gpu-allow-multiple-allocations"):
        [found] = wait_slices(cluster)
        assert all(each["allowMultipleAllocations"] for each in found["spec"]["devices"])
        operator()
        large = [add(cluster, f"large-{n}", capacity("30.5Gi")) for n in range(4)]
        cluster.wait_bound(large)
        results = [each for name in large for each in the_results(cluster, name)]
        assert sorted(each["device"] for each in results) == ["gpu-0", "gpu-0", "gpu-1", "gpu-1"]
        consumed = [each["consumedCapacity"] for each in results]
        assert {(claims.amount(each["memory"]), each["compute"]) for each in consumed} == {(31 << 30, "10")}
        assert len({each["shareID"] for each in results}) == 4
        for name, request in (("larger", capacity("18.5Gi")), ("busy", capacity("1Gi", "81")), ("all", exactly())):
            add(cluster, name, request)
            wait_waiting(cluster, name)
        small = [add(cluster, f"small-{n}", capacity("18Gi")) for n in range(2)]
        cluster.wait_bound(small)
        assert devices_of(cluster, small) == {"gpu-0", "gpu-1"}
        assert allocator.accepted(cluster) == 6
        first = {each["device"]: name for name in large for each in the_results(cluster, name)}
        remove(cluster, first["gpu-1"])
        cluster.wait_bound(["larger"])
        assert devices_of(cluster, ["larger"]) == {"gpu-1"}
        assert not {"busy", "all"} & cluster.bound().keys()
        assert allocator.accepted(cluster) == 6
        for name in large + small:
            if name in cluster.bound() and devices_of(cluster, [name]) == {"gpu-0"}:
                remove(cluster, name)
        wait_until(lambda: {"busy", "all"} & cluster.bound().keys(), "one of those that need most of a GPU")
        assert claims.check_history(cluster, since) > 16
        assert allocator.accepted(cluster) == len(cluster.bound())


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_of_a_device_keeps_pods_off_that_do_not_tolerate_it(
    cluster: Cluster, operator: StartOperator, one_node: str, since: str, effect: str
) -> None:
    taint = {"key": "example.com/broken", "value": "yes", "effect": effect}
    found = claims.resource_slice(one_node, 3)
    found["spec"]["devices"][0]["taints"] = [taint]
    assert cluster.create(found)["spec"]["devices"][0]["taints"][0].items() >= taint.items()
    operator()
    plain = [add(cluster, f"plain-{n}", exactly()) for n in range(2)]
    cluster.wait_bound(plain)
    assert devices_of(cluster, plain) == {"dev-1", "dev-2"}
    others = [{"key": "example.com/other", "operator": "Exists"}, {"key": taint["key"], "value": "no"}]
    add(cluster, "other", exactly(tolerations=others))
    wait_waiting(cluster, "other")
    for n, toleration in enumerate(({"key": taint["key"], "value": "yes", "effect": effect}, {"operator": "Exists"})):
        name = add(cluster, f"tolerant-{n}", exactly(tolerations=[toleration]))
        cluster.wait_bound([name])
        assert devices_of(cluster, [name]) == {"dev-0"}
        assert allocator.accepted(cluster) == 3
        remove(cluster, name)
    assert "other" not in cluster.bound()
    assert claims.check_history(cluster, since) > 10


def test_a_rule_taints_a_device_as_long_as_it_is_there(
    cluster: Cluster, operator: StartOperator, one_node: str, since: str
) -> None:
    """An administrator takes a device out of service without its driver, while the scheduler runs."""
    cluster.create(claims.resource_slice(one_node, 2))
    operator()
    rule = {"taint": {"key": "example.com/broken", "effect": "NoSchedule"}, "deviceSelector": {"device": "dev-0"}}
    cluster.create(
        {
            "apiVersion": names.DRA_TAINT_VERSION,
            "kind": "DeviceTaintRule",
            "metadata": {"name": "broken"},
            "spec": rule,
        }
    )
    add(cluster, "all", exactly(allocationMode="All"))
    wait_waiting(cluster, "all")
    add(cluster, "plain", exactly())
    cluster.wait_bound(["plain"])
    assert devices_of(cluster, ["plain"]) == {"dev-1"}
    add(cluster, "late", exactly())
    wait_waiting(cluster, "late")
    cluster.delete("Pod", "all")
    cluster.delete("DeviceTaintRule", "broken")
    cluster.wait_bound(["late"])
    assert devices_of(cluster, ["late"]) == {"dev-0"}
    assert allocator.accepted(cluster) == 2
    assert claims.check_history(cluster, since) > 4


def test_devices_with_binding_conditions_are_left_to_others(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator, one_node: str
) -> None:
    """They are not supported: the pods get other devices or wait, and the log says why."""
    [other] = cluster.add_nodes(1, gpus=0, prefix="other")
    with (
        dra_driver.running(own_plane, [one_node], "--binding-conditions", devices=1),
        dra_driver.running(own_plane, [other], devices=1),
    ):
        found = {each["spec"]["nodeName"]: each["spec"]["devices"] for each in wait_slices(cluster, 2)}
        assert [each["bindingConditions"] for each in found[one_node]] == [["BindingConditions"]]
        replica = operator()
        add(cluster, "a", exactly())
        assert cluster.wait_bound(["a"]) == {"a": other}
        add(cluster, "late", exactly())
        wait_waiting(cluster, "late")
        assert allocator.accepted(cluster) == 1
        warnings = [each for each in replica.logs() if "bindingConditions" in json.dumps(each)]
        assert warnings, replica.logs()[-5:]


def test_admin_access_takes_no_device_from_anybody(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator, one_node: str, since: str
) -> None:
    with dra_driver.running(own_plane, [one_node], devices=1):
        wait_slices(cluster)
        operator()
        add(cluster, "user", exactly())
        cluster.wait_bound(["user"])
        with pytest.raises(Refused, match="admin"):
            add(cluster, "admin", exactly(adminAccess=True))
        cluster.patch("Namespace", "default", {"metadata": {"labels": ADMIN_ACCESS}})
        admins = [add(cluster, f"admin-{n}", exactly(adminAccess=True)) for n in range(2)]
        cluster.wait_bound(admins)
        assert devices_of(cluster, admins) == devices_of(cluster, ["user"]) == {"gpu-0"}
        assert allocator.accepted(cluster) == 3
        remove(cluster, "user")
        add(cluster, "next", exactly())
        cluster.wait_bound(["next"])
        assert allocator.accepted(cluster) == 3
        assert claims.check_history(cluster, since) > 8
        cluster.patch("Namespace", "default", {"metadata": {"labels": dict.fromkeys(ADMIN_ACCESS)}})
