"""Writes of claims for extended resources: what is made before a bind, what a second attempt finds, and how it is all
taken back.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kai_sched.api import names
from kai_sched.cluster import delivery
from kai_sched.cluster.claim_requests import ClaimWriter
from kai_sched.cluster.claim_writes import ClaimTaken
from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.extended_claim_requests import ExtendedReservation
from kai_sched.model.claims.objects import AllocatedDevice, Allocation, DeviceOption, DeviceRequest, ExtendedRequests
from tests.unit.cluster.claim_server import ClaimServer
from tests.unit.cluster.scripted import Naps, failure

NAME = "p-extended-resources-1"
REQUEST = "container-0-request-1"
TOLD = {"opaque": {"driver": "d"}}
MAPPING = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": REQUEST}


def allocation(device: str = "dev-0") -> Allocation:
    return Allocation((AllocatedDevice(REQUEST, "d", "n1", device),))


def wanted(device: str = "dev-0", count: int = 1) -> ExtendedReservation:
    request = DeviceRequest(REQUEST, (DeviceOption("gpus", count=count),), resource="example.com/gpu")
    made = ExtendedRequests((request,), (("main", "example.com/gpu", REQUEST),))
    return ExtendedReservation(f"ml/{NAME}", "ml/p", "uid-p", allocation(device), made)


@pytest.fixture
def server() -> ClaimServer:
    server = ClaimServer()
    server.pods["ml/p"] = {"metadata": {"uid": "uid-p"}, "spec": {}, "status": {"phase": "Pending"}}
    return server


@pytest.fixture
def writer(server: ClaimServer, monkeypatch: pytest.MonkeyPatch) -> ClaimWriter:
    monkeypatch.setattr(delivery, "asyncio", Naps())
    api: Any = server
    return ClaimWriter(api, lambda name: [TOLD] if name == "gpus" else [], random.Random(1))


def told(server: ClaimServer) -> Any:
    return server.pods["ml/p"]["status"].get("extendedResourceClaimStatus")


async def test_the_claim_is_made_allocated_and_told_to_the_pod(server: ClaimServer, writer: ClaimWriter) -> None:
    version = await writer.make(wanted())
    claim = server.claims[f"ml/{NAME}"]
    meta = claim["metadata"]
    assert meta["resourceVersion"] == str(version)
    assert meta["annotations"] == {names.EXTENDED_CLAIM_ANNOTATION: "true"}
    assert meta["finalizers"] == [names.CLAIM_FINALIZER]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}
    assert meta["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    exactly = {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 1}
    assert claim["spec"] == {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}
    assert (server.devices(NAME), server.reserved(NAME)) == (["dev-0"], ["uid-p"])
    assert claim["status"]["allocation"]["devices"]["config"] == [
        {**TOLD, "source": "FromClass", "requests": [REQUEST]}
    ]
    assert told(server) == {"resourceClaimName": NAME, "requestMappings": [MAPPING]}
    assert [method for method, _ in server.asked] == ["GET", "POST", "PUT", "PATCH"]


@pytest.mark.parametrize("lost", ["POST", "PUT", "PATCH"])
async def test_an_attempt_that_was_cut_off_is_taken_up(server: ClaimServer, writer: ClaimWriter, lost: str) -> None:
    server.answers[lost] = [failure(0, "Timeout")]
    await writer.make(wanted())
    first = server.claims[f"ml/{NAME}"]
    assert await writer.make(wanted()) == int(first["metadata"]["resourceVersion"])
    assert server.claims[f"ml/{NAME}"] == first
    assert told(server)["resourceClaimName"] == NAME


async def test_a_claim_that_was_made_although_nobody_heard_of_it_is_found(
    server: ClaimServer, writer: ClaimWriter
) -> None:
    await writer.make(wanted())
    server.answers["GET"] = [failure(404)]
    await writer.make(wanted())
    assert len(server.claims) == 1


@pytest.mark.parametrize(
    ("other", "why"),
    [(wanted("dev-1"), "has other devices"), (wanted(count=2), "has other devices")],
    ids=["allocation", "requests"],
)
async def test_another_claim_of_an_earlier_attempt_is_not_used(
    server: ClaimServer, writer: ClaimWriter, other: ExtendedReservation, why: str
) -> None:
    await writer.make(wanted())
    with pytest.raises(ClaimTaken, match=why):
        await writer.make(other)
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")
    await writer.make(other)
    assert server.devices(NAME) == [other.allocation.devices[0].device]


async def test_a_claim_of_somebody_else_is_left_alone(server: ClaimServer, writer: ClaimWriter) -> None:
    server.add(NAME)
    before = server.claims[f"ml/{NAME}"]
    with pytest.raises(ClaimTaken, match="was not made for pod ml/p: delete it"):
        await writer.make(wanted())
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")
    assert server.claims[f"ml/{NAME}"] == before


async def test_a_claim_that_is_being_deleted_is_not_used(server: ClaimServer, writer: ClaimWriter) -> None:
    await writer.make(wanted())
    server.claims[f"ml/{NAME}"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(ClaimTaken, match="is being deleted"):
        await writer.make(wanted())


async def test_an_api_server_without_the_feature_is_told_of(server: ClaimServer, writer: ClaimWriter) -> None:
    """The pod would start without devices."""
    server.keeps_status = False
    with pytest.raises(ClaimTaken, match="feature gate DRAExtendedResource"):
        await writer.make(wanted())


async def test_all_is_taken_back_and_no_moment_has_devices_without_finalizer(
    server: ClaimServer, writer: ClaimWriter
) -> None:
    await writer.make(wanted())
    seen: list[tuple[bool, bool]] = []
    server.watch = lambda _, claim: seen.append(
        ("allocation" in claim["status"], bool(claim["metadata"].get("finalizers")))
    )
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")
    assert (server.claims, told(server)) == ({}, None)
    assert seen == [(False, True), (False, False)]
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")
    del server.pods["ml/p"]
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")


async def test_a_pod_that_somebody_else_has_bound_keeps_its_claim(server: ClaimServer, writer: ClaimWriter) -> None:
    await writer.make(wanted())
    server.pods["ml/p"]["spec"] = {"nodeName": "n1"}
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")
    assert server.reserved(NAME) == ["uid-p"]


async def test_the_claim_of_a_pod_that_is_gone_is_deleted(server: ClaimServer, writer: ClaimWriter) -> None:
    await writer.make(wanted())
    server.pods["ml/p"]["metadata"]["uid"] = "another"
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")
    assert server.claims == {}


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "PUT"])
async def test_a_deletion_is_repeated_until_it_succeeds(server: ClaimServer, writer: ClaimWriter, method: str) -> None:
    await writer.make(wanted())
    server.answers[method] = [failure(503)] * 5
    await writer.delete(f"ml/{NAME}", "ml/p", "uid-p")
    assert server.claims == {}


async def test_what_is_forbidden_is_told(server: ClaimServer, writer: ClaimWriter) -> None:
    server.answers["POST"] = [failure(403, "Forbidden")]
    with pytest.raises(ApiFailure):
        await writer.make(wanted())
