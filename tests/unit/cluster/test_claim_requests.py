"""Writes of claims for devices: what is sent, what is lost to others, and what a second attempt finds."""

from __future__ import annotations

import random

import pytest

from kai_sched.api import names
from kai_sched.cluster import delivery
from kai_sched.cluster.claim_requests import ClaimReservation, ClaimWriter
from kai_sched.cluster.claim_writes import ClaimTaken
from kai_sched.cluster.client import ApiFailure
from kai_sched.model.claims.objects import AllocatedDevice, Allocation
from kai_sched.plan.allocations import wire_allocation
from tests.unit.cluster.claim_server import ClaimServer
from tests.unit.cluster.scripted import Naps, failure

A, B = ("a", "uid-a"), ("b", "uid-b")
FIRST, SECOND = (Allocation((AllocatedDevice("gpu", "d", "n1", name),)) for name in ("dev-0", "dev-1"))
TOLD = {"opaque": {"driver": "d"}}


@pytest.fixture
def server() -> ClaimServer:
    server = ClaimServer()
    server.add("c")
    return server


@pytest.fixture
def writer(server: ClaimServer, monkeypatch: pytest.MonkeyPatch) -> ClaimWriter:
    monkeypatch.setattr(delivery, "asyncio", Naps())
    api = server  # type: ignore[assignment]
    return ClaimWriter(api, lambda name: [TOLD] if name == "gpus" else [], random.Random(1))  # type: ignore[arg-type]


def wanted(*pods: tuple[str, str], allocation: Allocation = FIRST, uid: str = "c") -> ClaimReservation:
    return ClaimReservation("ml/c", uid, allocation, pods or (A,))


async def test_the_finalizer_comes_first_then_allocation_and_reservation_at_once(
    server: ClaimServer, writer: ClaimWriter
) -> None:
    version = await writer.reserve(wanted(A, B))
    claim = server.claims["ml/c"]
    assert claim["metadata"]["resourceVersion"] == str(version)
    assert claim["metadata"]["finalizers"] == [names.CLAIM_FINALIZER]
    assert claim["status"]["reservedFor"][0] == {"resource": "pods", "name": "a", "uid": "uid-a"}
    assert (server.devices("c"), server.reserved("c")) == (["dev-0"], ["uid-a", "uid-b"])
    config = claim["status"]["allocation"]["devices"]["config"]
    assert config == [{**TOLD, "source": "FromClass", "requests": ["gpu"]}]
    path = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/c"
    assert server.asked == [("GET", path), ("PUT", path), ("PUT", f"{path}/status")]


async def test_what_is_there_already_is_not_written_again(server: ClaimServer, writer: ClaimWriter) -> None:
    first = await writer.reserve(wanted())
    assert await writer.reserve(wanted()) == first
    await writer.reserve(wanted(B))
    assert server.reserved("c") == ["uid-a", "uid-b"]
    assert [method for method, _ in server.asked] == ["GET", "PUT", "PUT", "GET", "GET", "PUT"]


async def test_a_conflict_keeps_what_somebody_else_has_written(server: ClaimServer, writer: ClaimWriter) -> None:
    await writer.reserve(wanted())
    more = {"resource": "pods", "name": "x", "uid": "x"}
    status = server.claims["ml/c"]["status"]
    server.answers["PUT"] = [lambda: server.change("c", **{**status, "reservedFor": [*status["reservedFor"], more]})]
    await writer.reserve(wanted(B))
    assert server.reserved("c") == ["uid-a", "x", "uid-b"]


async def test_an_answer_that_got_lost_is_looked_up(server: ClaimServer, writer: ClaimWriter) -> None:
    server.answers["PUT"] = [lambda: None, failure(0, "Timeout")]
    await writer.reserve(wanted())
    assert server.reserved("c") == ["uid-a"]


@pytest.mark.parametrize(
    ("status", "meta", "why"),
    [
        ({"allocation": wire_allocation(SECOND)}, {}, "was allocated by somebody else meanwhile"),
        ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted"),
        ({}, {"uid": "other"}, "was deleted and created again"),
        (
            {
                "allocation": wire_allocation(FIRST),
                "reservedFor": [{"resource": "pods", "name": f"p{n}", "uid": f"p{n}"} for n in range(256)],
            },
            {},
            "has 256 pods already",
        ),
    ],
)
async def test_a_claim_that_cannot_be_had_is_left_alone(
    server: ClaimServer, writer: ClaimWriter, status: dict[str, object], meta: dict[str, str], why: str
) -> None:
    server.claims["ml/c"]["metadata"] |= meta
    server.claims["ml/c"]["status"] = status
    with pytest.raises(ClaimTaken, match=f"ResourceClaim ml/c {why}"):
        await writer.reserve(wanted())
    assert [method for method, _ in server.asked] == ["GET"]


async def test_a_finalizer_that_is_refused_keeps_no_pod_waiting(server: ClaimServer, writer: ClaimWriter) -> None:
    server.answers["PUT"] = [failure(422, "Invalid")]
    await writer.reserve(wanted())
    assert server.reserved("c") == ["uid-a"]
    assert "finalizers" not in server.claims["ml/c"]["metadata"]


async def test_the_last_release_takes_the_allocation_too(server: ClaimServer, writer: ClaimWriter) -> None:
    await writer.reserve(wanted(A, B))
    await writer.release("ml/c", "c", "ml/a", "uid-a")
    assert (server.devices("c"), server.reserved("c")) == (["dev-0"], ["uid-b"])
    server.answers["PUT"] = [failure(503)] * 20
    await writer.release("ml/c", "c", "ml/b", "uid-b")
    assert (server.devices("c"), server.reserved("c")) == ([], [])


async def test_a_pod_that_was_bound_keeps_its_claim(server: ClaimServer, writer: ClaimWriter) -> None:
    await writer.reserve(wanted())
    server.pods["ml/a"] = {"metadata": {"name": "a", "uid": "uid-a"}, "spec": {"nodeName": "n1"}}
    await writer.release("ml/c", "c", "ml/a", "uid-a")
    assert server.reserved("c") == ["uid-a"]
    server.pods["ml/a"]["metadata"]["uid"] = "a later pod of that name"
    await writer.release("ml/c", "c", "ml/a", "uid-a")
    assert server.reserved("c") == []


async def test_nothing_to_release_is_no_error_and_a_missing_right_is(server: ClaimServer, writer: ClaimWriter) -> None:
    await writer.release("ml/gone", "gone", "ml/a", "uid-a")
    await writer.release("ml/c", "c", "ml/a", "uid-a")
    await writer.reserve(wanted())
    await writer.release("ml/c", "an earlier claim of that name", "ml/a", "uid-a")
    assert server.reserved("c") == ["uid-a"]
    server.answers["PUT"] = [failure(403)]
    with pytest.raises(ApiFailure):
        await writer.release("ml/c", "c", "ml/a", "uid-a")
