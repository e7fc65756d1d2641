"""What is known of requests that failed."""

from __future__ import annotations

import gc
import random
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

import msgspec
import pytest
from aiohttp import web

from kai_sched.cluster import retry
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api
from kai_sched.cluster.delivery import Delivery, deliver
from kai_sched.cluster.failure import ApiFailure, refused
from tests.unit.cluster.conftest import ApiServer, status

OTHER = 'Pod "x" is invalid: metadata.uid: Invalid value: "25668bd6-5266": field is immutable'


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (422, OTHER, (409, "Conflict")),
        (422, 'Pod "x" is invalid: spec.nodeName: Invalid value: "n": field is immutable', (422, "Invalid")),
        (422, 'Pod "x" is invalid: metadata.uid: Required value', (422, "Invalid")),
        (500, OTHER, (500, "Invalid")),
    ],
)
def test_another_object_of_the_name_is_a_conflict(code: int, message: str, expected: tuple[int, str]) -> None:
    """The API server says so itself unless the other one comes while it carries the patch out."""
    body = msgspec.json.encode({"reason": "Invalid", "message": message, "code": code})
    found = refused("PATCH", "/api/v1/pods/x", code, "", "", body, "")
    assert (found.status, found.reason) == expected
    assert message in found.message


KEPT = (ApiFailure, TracebackType)
CUT, CLOSED = -1, -2  # the connection ends in the midst of the answer, or before it


class Deletion(Delivery[bytes]):
    def __init__(self, api: Api) -> None:
        self._api = api

    async def send(self) -> bytes:
        return await self._api.request("DELETE", "/x")


@pytest.mark.parametrize("delivered", [False, True], ids=["request", "delivery"])
@pytest.mark.parametrize("code", [404, 409, 500, CUT, CLOSED])
async def test_what_fails_is_freed_at_once(server: ApiServer, api: Api, code: int, delivered: bool) -> None:
    """Failures are many where pods come and go. One that is in a cycle of references waits for a full collection."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if code not in (CUT, CLOSED):
            return status(code, "Anything", "no")
        response = web.StreamResponse()
        if code == CUT:
            response.content_length = 1000
            await response.prepare(request)
            await response.write(b"begun")
        assert request.transport is not None
        request.transport.abort()
        return response

    server.answer = answer
    write, policy = Deletion(api), replace(retry.STATUSES, attempts=2, backoff=Backoff(0.0, 0.0))
    before = [id(each) for each in gc.get_objects() if isinstance(each, KEPT)]
    gc.disable()
    try:
        with suppress(ApiFailure):
            await (deliver(write, policy, random.Random(0)) if delivered else write.send())
        left = [each for each in gc.get_objects() if isinstance(each, KEPT) and id(each) not in before]
    finally:
        gc.enable()
    assert left == []
