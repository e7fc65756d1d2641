"""/get-snapshot: when it answers, with what, and where it listens."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from kai_sched.cluster.failure import ApiFailure
from kai_sched.model.config import Config
from kai_sched.operator.http.listener import ListenFailure, listen
from kai_sched.operator.http.snapshot_server import PODS_MAX, SnapshotServer, snapshot_address

NODE = b'{"metadata":{"name":"n1","managedFields":[]},"status":{"allocatable":{"cpu":"4"}}}'


@dataclass
class ShortApi:
    """An API server with one node. ``failure`` is what every list answers instead, ``version`` what /version does."""

    failure: ApiFailure | None = None
    version: ApiFailure | bytes = b'{"major":"1"}'
    asked: list[str] = field(default_factory=list)

    async def list_pages(self, path: str, *_: Any) -> Any:
        self.asked.append(path)
        if self.failure is not None:
            raise self.failure
        yield [NODE] if path == "/api/v1/nodes" else [], "7"

    async def request(self, _method: str, path: str, **_: Any) -> bytes:
        if path != "/version":
            return b'{"kind":"APIResourceList","groupVersion":"v1"}'
        if isinstance(self.version, ApiFailure):
            raise self.version
        return self.version


async def get(server: SnapshotServer, path: str = "/get-snapshot") -> tuple[int, str, bytes]:
    listener = await listen(server.application(), "127.0.0.1:0")
    try:
        address = f"http://127.0.0.1:{listener.port}{path}"
        async with aiohttp.ClientSession() as session, session.get(address) as answer:
            return answer.status, answer.content_type, await answer.read()
    finally:
        await listener.stop()


def server(api: ShortApi, pods: int | None = 1) -> SnapshotServer:
    config = Config(scheduler_name="mine", node_pool="a")
    any_api: Any = api
    return SnapshotServer(any_api, lambda: config, lambda: pods, lambda: 1_800_000_000 * 10**9)


async def test_the_archive_has_the_objects_and_the_settings_in_force() -> None:
    status, content_type, body = await get(server(ShortApi()))
    assert (status, content_type) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        found = json.loads(archive.read("snapshot.json"))
    (node,) = found["rawObjects"]["nodes"]
    assert node["metadata"] == {"name": "n1"}
    assert found["schedulerParams"]["schedulerName"] == "mine"
    assert found["discovery"]["serverVersion"] == {"major": "1"}
    assert found["metadata"]["time"] == "2027-01-15T08:00:00Z"


async def test_a_server_that_does_not_tell_its_version_has_none_in_the_archive() -> None:
    refused = ApiFailure("GET", "/version", 403, "Forbidden", "no")
    _, _, body = await get(server(ShortApi(version=refused)))
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        found = json.loads(archive.read("snapshot.json"))
    assert found["discovery"]["serverVersion"] == {}
    assert {each["kind"] for each in found["discovery"]["resources"]} == {"APIResourceList"}


@pytest.mark.parametrize(
    ("pods", "status", "text"),
    [(None, 404, "before the first cycle"), (PODS_MAX + 1, 503, f"a snapshot is made of {PODS_MAX} at most")],
)
async def test_it_is_refused_before_the_first_cycle_and_of_too_many_pods(
    pods: int | None, status: int, text: str
) -> None:
    api = ShortApi()
    found = await get(server(api, pods))
    assert found[0] == status
    assert text in found[2].decode()
    assert api.asked == []


async def test_other_paths_are_unknown() -> None:
    status, _, body = await get(server(ShortApi()), "/get-job-order")
    assert (status, body) == (404, b"no plugin serves /get-job-order: /get-snapshot is served\n")


async def test_an_api_server_that_does_not_answer_is_told() -> None:
    failure = ApiFailure("GET", "/api/v1/pods", 0, "NoAnswer", "cut")
    status, _, body = await get(server(ShortApi(failure)))
    assert status == 503
    assert b"the cluster cannot be read: GET /api/v1/pods: NoAnswer: cut" in body


async def test_it_listens_on_loopback_alone_and_not_at_all_with_port_0() -> None:
    assert snapshot_address(8081) == "127.0.0.1:8081"
    one, two, none = (server(ShortApi()) for _ in range(3))
    await none.listen(0)
    taken = await listen(one.application(), "127.0.0.1:0")
    with pytest.raises(ListenFailure, match=f"cannot listen on 127.0.0.1:{taken.port}"):
        await two.listen(taken.port)
    await taken.stop()
    await none.stop()
