"""Objects of any kind by what their dependents say of them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.owner_reader import DISCOVER_AGAIN_S, FAILED_AGAIN_S, OwnerReader
from kai_sched.reconcile.grouping.owners import ObjectReference
from tests.unit.cluster.conftest import ApiServer, status

JOB = ObjectReference("batch/v1", "Job", "ml", "train", "u1")
RESOURCES = [
    {"name": "jobs", "kind": "Job", "namespaced": True},
    {"name": "jobs/status", "kind": "Job", "namespaced": True},
    {"name": "racks", "kind": "Rack", "namespaced": False},
]
GROUPS = {"groups": [{"name": "batch", "versions": [{"groupVersion": "batch/v1"}]}]}
META = {"name": "train", "namespace": "ml", "uid": "u1", "labels": {"a": "b"}}


@pytest.fixture
def asked(server: ApiServer) -> list[tuple[str, str]]:
    """A server with one Job; path and Accept of what it is asked."""
    found: list[tuple[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        accept = request.headers["Accept"]
        found.append((request.path, accept))
        if request.path == "/apis":
            return web.json_response(GROUPS)
        if request.path == "/apis/batch/v1":
            return web.json_response({"resources": RESOURCES})
        if request.path in ("/apis/batch/v1/namespaces/ml/jobs/train", "/apis/batch/v1/racks/r1"):
            whole = {"spec": {"parallelism": 2}} if "as=" not in accept else {}
            return web.json_response({"metadata": META, **whole})
        return status(404, "NotFound", "there is none")

    server.answer = answer
    return found


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


async def test_metadata_alone_or_all_of_it(api: Api, asked: list[tuple[str, str]]) -> None:
    owners = OwnerReader(api, Clock())
    found = await owners.fetch(JOB)
    assert found is not None
    assert (found.name, found.uid, found.labels, found.body) == ("train", "u1", {"a": "b"}, {})
    whole = await owners.fetch(ObjectReference("batch/v1", "Job", "ml", "train", whole=True))
    assert whole is not None
    assert whole.body == {"spec": {"parallelism": 2}}
    partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    path = "/apis/batch/v1/namespaces/ml/jobs/train"
    assert asked[:2] == [("/apis", "application/json"), ("/apis/batch/v1", "application/json")]
    assert asked[2:] == [(path, partial), (path, "application/json")]


async def test_kinds_outside_of_namespaces(api: Api, asked: list[tuple[str, str]]) -> None:
    assert await OwnerReader(api, Clock()).fetch(ObjectReference("batch/v1", "Rack", "ml", "r1")) is not None
    assert asked[-1][0] == "/apis/batch/v1/racks/r1"


async def test_what_is_not_there(api: Api, asked: list[tuple[str, str]]) -> None:
    """An object, a kind, a group of kinds: a kind that is unknown is looked for again after a while."""
    clock = Clock()
    owners = OwnerReader(api, clock)
    assert await owners.fetch(ObjectReference("batch/v1", "Job", "ml", "other")) is None
    for _ in range(2):
        assert await owners.fetch(ObjectReference("batch/v1", "Solver", "ml", "s")) is None
        assert await owners.fetch(ObjectReference("example.com/v1", "Solver", "ml", "s")) is None
    expected = ["/apis", "/apis/batch/v1", "/apis/batch/v1/namespaces/ml/jobs/other"]
    assert [path for path, _ in asked] == expected, "a group that is not there is not asked for"
    clock.time += DISCOVER_AGAIN_S
    assert await owners.fetch(ObjectReference("example.com/v1", "Solver", "ml", "s")) is None
    assert await owners.fetch(ObjectReference("batch/v1", "Solver", "ml", "s")) is None
    assert [path for path, _ in asked] == [*expected, "/apis", "/apis/batch/v1"]


async def test_core_kinds_have_paths_of_their_own(api: Api, asked: list[tuple[str, str]]) -> None:
    assert await OwnerReader(api, Clock()).fetch(ObjectReference("v1", "Pod", "ml", "driver")) is None
    assert asked[0][0] == "/api/v1"


async def test_made_up_groups_cost_one_request_in_a_while(api: Api, asked: list[tuple[str, str]]) -> None:
    clock = Clock()
    owners = OwnerReader(api, clock)
    await owners.fetch(JOB)
    for n in range(60):
        assert await owners.fetch(ObjectReference(f"g{n}.example.com/v1", "Solver", "ml", "s")) is None
        clock.time += 0.1
    assert [path for path, _ in asked].count("/apis") == 2
    assert len(asked) == 4
    assert owners._kinds.keys() == {"batch/v1"}


async def test_many_who_ask_at_once_wait_for_one_list(api: Api, asked: list[tuple[str, str]]) -> None:
    found = await asyncio.gather(*(OwnerReader.fetch(owners, JOB) for owners in [OwnerReader(api, Clock())] * 5))
    assert None not in found
    assert [path for path, _ in asked].count("/apis") == 1


async def test_a_group_whose_server_is_broken_is_not_asked_again_at_once(server: ApiServer, api: Api) -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.json_response(GROUPS) if request.path == "/apis" else status(503, "ServiceUnavailable", "no")

    server.answer = answer
    clock = Clock()
    owners = OwnerReader(api, clock)
    for _ in range(5):
        with pytest.raises(ApiFailure, match="503"):
            await owners.fetch(JOB)
    assert asked == ["/apis", "/apis/batch/v1"]
    clock.time += FAILED_AGAIN_S
    with pytest.raises(ApiFailure, match="503"):
        await owners.fetch(JOB)
    assert asked == ["/apis", "/apis/batch/v1", "/apis/batch/v1"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"groups": 1}', b"\xff"])
async def test_an_answer_that_is_none_is_a_failure(server: ApiServer, api: Api, body: bytes) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=body)

    server.answer = answer
    with pytest.raises(ApiFailure, match="the list of groups cannot be read"):
        await OwnerReader(api, Clock()).fetch(JOB)


def forbid_objects(server: ApiServer) -> None:
    """Kinds may be asked for, the objects themselves may not."""

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/apis":
            return web.json_response(GROUPS)
        if request.path == "/apis/batch/v1":
            return web.json_response({"resources": RESOURCES})
        return status(403, "Forbidden", "jobs are not for you")

    server.answer = answer


async def test_what_may_not_be_read_is_no_missing_right_of_ours(server: ApiServer, api: Api) -> None:
    forbid_objects(server)
    with pytest.raises(PermissionError, match="jobs are not for you"):
        await OwnerReader(api, Clock()).fetch(JOB)
    assert api.refusals() == ""


@pytest.mark.parametrize("path", ["/apis", "/apis/batch/v1", "/apis/batch/v1/namespaces/ml/jobs/train"])
async def test_other_failures_are_the_callers(server: ApiServer, api: Api, path: str) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == path:
            return status(500, "InternalError", "no")
        if request.path == "/apis":
            return web.json_response(GROUPS)
        return web.json_response({"resources": RESOURCES})

    server.answer = answer
    with pytest.raises(ApiFailure, match="500 InternalError"):
        await OwnerReader(api, Clock()).fetch(JOB)


async def test_all_of_a_kind(api: Api, server: ApiServer) -> None:
    """Their metadata, in pages; what is malformed, and kinds that are unknown or know no namespaces, bring nothing."""
    found: list[tuple[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        found.append((request.path, request.headers["Accept"]))
        if request.path == "/apis":
            return web.json_response(GROUPS)
        if request.path == "/apis/batch/v1":
            return web.json_response({"resources": RESOURCES})
        if "continue" in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": 1}}]})
        head = {"resourceVersion": "7", "continue": "more"}
        return web.json_response({"metadata": head, "items": [{"metadata": META}]})

    server.answer = answer
    owners = OwnerReader(api, Clock())
    pages = [page async for page in owners.pages("batch/v1", "Job", "ml")]
    assert [[owner.reference() for owner in page] for page in pages] == [[JOB], []]
    partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert found[2:] == [("/apis/batch/v1/namespaces/ml/jobs", partial)] * 2
    for kind in ("Rack", "Solver"):
        assert [page async for page in owners.pages("batch/v1", kind, "ml")] == []
    assert len(found) == 4


async def test_a_list_that_is_refused_is_no_missing_right_of_ours(server: ApiServer, api: Api) -> None:
    forbid_objects(server)
    with pytest.raises(ApiFailure, match="jobs are not for you"):
        _ = [page async for page in OwnerReader(api, Clock()).pages("batch/v1", "Job", "ml")]
    assert api.refusals() == ""
