"""What the allocator of Kubernetes accepts and what it does not: the check of tests/cluster/allocator.py can fail."""

from __future__ import annotations

import copy
import re

import pytest

from tests.cluster import allocator, claims, objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster

TOOLS = ("allocator",)

NODE = "node-0"


def allocate(claim: Object, *devices: str, request: str = "gpu", node: str = NODE, **fields: object) -> Object:
    """The claim with these devices of the node."""
    result = {"request": request, "driver": claims.DRIVER, "pool": node} | fields
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    claim["status"] = {
        "allocation": {
            "devices": {"results": [result | {"device": device} for device in devices]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [name]}]},
        }
    }
    return claim


def exactly(name: str, **spec: object) -> Object:
    """A claim for one device, with more fields of its request."""
    claim = claims.claim(name)
    claim["spec"]["devices"]["requests"][0]["exactly"] |= spec
    return claim


def selecting(name: str, expression: str) -> Object:
    return exactly(name, selectors=[{"cel": {"expression": expression}}])


def refused(*given: Object, slices: list[Object] | None = None) -> dict[str, str]:
    """The reasons by name of the claim."""
    found = allocator.refused(
        {
            "nodes": [objects.node(NODE), objects.node("node-1")],
            "classes": [claims.device_class()],
            "slices": [claims.resource_slice(NODE), claims.resource_slice("node-1")] if slices is None else slices,
            "claims": list(given),
        }
    )
    return {claim.removeprefix("default/"): reason for claim, reason in found.items()}


def test_what_is_written_to_a_real_api_server_is_judged(cluster: Cluster) -> None:
    """Allocations that a scheduler could have written, then the same device twice, and one that is not selected."""
    cluster.create(claims.device_class())
    for node in cluster.add_nodes(2, gpus=0):
        cluster.create(claims.resource_slice(node))
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{}/status"

    def write(claim: Object, device: str) -> None:
        made = cluster.find("ResourceClaim", claim["metadata"]["name"]) or cluster.create(claim)
        cluster.request("PUT", path.format(claim["metadata"]["name"]), allocate(made, device))

    last = f"device.attributes['{claims.DRIVER}'].index == 1"
    write(claims.claim("a"), "dev-0")
    write(selecting("b", last), "dev-1")
    assert allocator.accepted(cluster) == 2
    cluster.delete("ResourceClaim", "a")
    write(selecting("c", last), "dev-0")
    with pytest.raises(AssertionError, match=r"default/c.*no allocation is found with dev-0"):
        allocator.accepted(cluster)
    cluster.delete("ResourceClaim", "c")
    write(claims.claim("d"), "dev-1")
    with pytest.raises(AssertionError) as twice:
        allocator.accepted(cluster)
    assert "default/b" in str(twice.value)
    assert "default/d" in str(twice.value)


def test_each_claim_is_judged_beside_the_others() -> None:
    a, b = allocate(claims.claim("a"), "dev-0"), allocate(claims.claim("b"), "dev-1")
    assert refused(a, b, claims.claim("waits")) == {"a": "", "b": ""}
    c = allocate(claims.claim("c", 2), "dev-0", "dev-1", node="node-1")
    assert refused(a, b, c) == {"a": "", "b": "", "c": ""}
    found = refused(a, b, allocate(claims.claim("c", 2), "dev-0", "dev-1"))
    assert all(found.values()), found


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        pytest.param(allocate(claims.claim("c"), "dev-2"), "no allocation", id="no-such-device"),
        pytest.param(allocate(claims.claim("c"), "dev-0", "dev-1"), "would get dev-0", id="too-many"),
        pytest.param(allocate(claims.claim("c", 2), "dev-0"), "no allocation", id="too-few"),
        pytest.param(allocate(claims.claim("c"), "dev-0", request="other"), "for gpu", id="other-request"),
        pytest.param(allocate(claims.claim("c"), "dev-0", adminAccess=True), "admin access", id="admin-access"),
        pytest.param(allocate(claims.claim("c"), "dev-0", pool="node-1"), "no allocation", id="pool-of-another-node"),
        pytest.param(allocate(claims.claim("c"), "dev-0", node="node-9"), "no node matches", id="no-such-node"),
        pytest.param(
            allocate(exactly("c", allocationMode="All", count=0), "dev-0"), "would get dev-0.*dev-1", id="not-all"
        ),
        pytest.param(
            allocate(claims.claim("c", constraints=[{"matchAttribute": f"{claims.DRIVER}/none"}]), "dev-0"),
            "no allocation",
            id="constraint",
        ),
    ],
)
def test_what_the_claim_does_not_ask_for_is_refused(forged: Object, why: str) -> None:
    [reason] = refused(forged).values()
    assert re.search(why, reason), reason


def test_the_node_selector_and_the_config_count() -> None:
    told = [{"opaque": {"driver": claims.DRIVER, "parameters": {"a": 1}}}]
    right = allocate(claims.claim("c", config=told), "dev-0")
    right["status"]["allocation"]["devices"]["config"] = [{"source": "FromClaim", **told[0]}]
    assert refused(right) == {"c": ""}
    silent = copy.deepcopy(right)
    del silent["status"]["allocation"]["devices"]["config"]
    assert "its config is" in refused(silent)["c"]
    anywhere = copy.deepcopy(right)
    del anywhere["status"]["allocation"]["nodeSelector"]
    assert "its node selector is null" in refused(anywhere)["c"]


def divided() -> Object:
    """dev-0 and dev-1 use half of the counter each, dev-2 all of it."""
    found = claims.resource_slice(NODE, 3)
    found["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    for device, value in zip(found["spec"]["devices"], ("40Gi", "40Gi", "80Gi"), strict=True):
        device["consumesCounters"] = [{"counterSet": "gpu", "counters": {"memory": {"value": value}}}]
    return found


def share(name: str, memory: str) -> Object:
    """A claim with so much of dev-0."""
    claim = exactly(name, capacity={"requests": {"memory": memory}})
    return allocate(claim, "dev-0", shareID=f"share-{name}", consumedCapacity={"memory": memory})


def test_what_is_over_used_is_refused_here_and_in_the_history() -> None:
    """Counters of a pool, and the capacity of a device that claims share."""
    halves = [allocate(claims.claim(name), f"dev-{n}") for n, name in enumerate("ab")]
    whole = allocate(claims.claim("c"), "dev-2")
    shares = [share("a", "50Gi"), share("b", "30Gi")]
    more = share("c", "1Gi")
    for slices, right, wrong in (
        ([divided()], halves, whole),
        ([claims.resource_slice(NODE, 1, allowMultipleAllocations=True)], shares, more),
    ):
        assert refused(*right, slices=slices) == {"a": "", "b": ""}
        assert all(refused(*right, wrong, slices=slices).values())
        results = [each for claim in right for each in claims.results(claim)]
        claims.check_allocated(results, slices)
        with pytest.raises(AssertionError):
            claims.check_allocated(results + claims.results(wrong), slices)
    with pytest.raises(AssertionError, match="dev-0 of node-0 is in"):
        claims.check_allocated(claims.results(halves[0]) * 2, [divided()])


def test_a_share_says_what_it_uses() -> None:
    slices = [claims.resource_slice(NODE, 1, allowMultipleAllocations=True)]
    silent = allocate(exactly("a", capacity={"requests": {"memory": "50Gi"}}), "dev-0", shareID="share-a")
    assert "with 53687091200 memory" in refused(silent, slices=slices)["a"]
    exclusive = allocate(claims.claim("b"), "dev-0", consumedCapacity={"memory": "80Gi"})
    assert "as a share" in refused(exclusive, slices=slices)["b"]


def test_taints_of_devices_have_to_be_tolerated() -> None:
    taint = {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"}
    slices = [claims.resource_slice(NODE, 1, taints=[taint])]
    assert refused(allocate(claims.claim("c"), "dev-0"), slices=slices)["c"]
    tolerant = exactly("c", tolerations=[{"key": taint["key"], "operator": "Exists"}])
    assert refused(allocate(tolerant, "dev-0"), slices=slices) == {"c": ""}


def test_the_chosen_option_of_a_prioritised_list_counts() -> None:
    """The device is no longer the second choice where the first one takes it."""
    claim = claims.claim("c")
    selectors = [{"cel": {"expression": f"device.attributes['{claims.DRIVER}'].index == 1"}}]
    asked = {"deviceClassName": claims.DRIVER, "allocationMode": "ExactCount", "count": 1}
    options = [asked | {"name": "first", "selectors": selectors}, asked | {"name": "second"}]
    claim["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": options}]
    assert refused(allocate(claim, "dev-0", request="gpu/second")) == {"c": ""}
    assert "for gpu/first" in refused(allocate(claim, "dev-1", request="gpu/second"))["c"]
    assert refused(allocate(claim, "dev-1", request="gpu/first")) == {"c": ""}
