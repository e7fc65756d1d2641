from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from aiohttp import web

from kai_sched.cluster import client, reflector
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.nesting import NESTING_MAX
from tests.unit.cluster.conftest import ApiServer, Guard, status


async def test_request_sends_who_and_what(server: ApiServer, api: Api) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        sent = {
            "line": f"{request.method} {request.path_qs}",
            "who": request.headers["Authorization"],
            "type": request.headers["Content-Type"],
            "accept": request.headers["Accept"],
            "body": (await request.read()).decode(),
        }
        return web.json_response(sent, status=201)

    server.answer = answer
    body = await api.request(
        "PATCH",
        "/api/v1/x",
        body=b"{}",
        content_type="application/merge-patch+json",
    )
    assert json.loads(body) == {
        "line": "PATCH /api/v1/x",
        "who": "Bearer first",
        "type": "application/merge-patch+json",
        "accept": "application/json",
        "body": "{}",
    }


async def test_parameters_are_encoded(server: ApiServer, api: Api) -> None:
    seen = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.path_qs)
        return web.json_response({"metadata": {}})

    server.answer = answer
    async for _ in api.list_pages("/api/v1/x", {"fieldSelector": "a=b,c!=d"}):
        pass
    assert seen == ["/api/v1/x?limit=500&fieldSelector=a%3Db,c!%3Dd"]


async def test_failure_tells_what_the_status_says(server: ApiServer, api: Api) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return status(409, "Conflict", "the object has been modified")

    server.answer = answer
    with pytest.raises(ApiFailure) as caught:
        await api.request("PUT", "/api/v1/x", body=b"{}")
    failure = caught.value
    assert (failure.verb, failure.path, failure.status, failure.reason) == ("PUT", "/api/v1/x", 409, "Conflict")
    assert str(failure) == "PUT /api/v1/x: 409 Conflict: the object has been modified"
    assert failure.retry_after_s is None


@pytest.mark.parametrize("where", ["header", "status"])
async def test_failure_tells_when_to_try_again(server: ApiServer, api: Api, where: str) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        if where == "header":
            return web.Response(status=429, headers={"Retry-After": "3"}, text="slow down")
        return status(429, "TooManyRequests", "slow down", details={"retryAfterSeconds": 3})

    server.answer = answer
    with pytest.raises(ApiFailure) as caught:
        await api.request("GET", "/x")
    assert (caught.value.status, caught.value.retry_after_s, caught.value.message) == (429, 3.0, "slow down")


async def test_redirect_is_a_failure(server: ApiServer, api: Api) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    server.answer = answer
    with pytest.raises(ApiFailure, match="302"):
        await api.request("GET", "/x")


async def test_no_answer_in_time(server: ApiServer, api: Api) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        await server.ended.wait()
        return web.Response()

    server.answer = answer
    with pytest.raises(ApiFailure) as caught:
        await api.request("POST", "/x", body=b"{}", timeout_s=0.05)
    assert (caught.value.status, caught.value.reason) == (0, "Timeout")


async def test_cut_connection(server: ApiServer, api: Api) -> None:
    sent = []

    async def answer(request: web.BaseRequest) -> web.Response:
        sent.append(request.method)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.answer = answer
    with pytest.raises(ApiFailure) as caught:
        await api.request("POST", "/x", body=b"{}")
    assert (caught.value.status, caught.value.reason) == (0, "NoAnswer")
    assert sent == ["POST"]


async def test_nobody_listens(server: ApiServer, api: Api) -> None:
    await server.stop()
    with pytest.raises(ApiFailure) as caught:
        await api.request("GET", "/x")
    assert (caught.value.status, caught.value.reason) == (0, "NoAnswer")
    assert caught.value.message.startswith(f"cannot connect to {server.url}: ")


async def test_token_that_changed_is_read_again(server: ApiServer, api: Api) -> None:
    seen = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers["Authorization"])
        if seen[-1] != "Bearer second":
            return status(401, "Unauthorized", "Unauthorized")
        return web.Response(body=await request.read())

    server.answer = answer
    server.write_token("second")
    # All at once: each is refused with the old token and sent once more with the new one.
    assert await asyncio.gather(*(api.request("POST", "/x", body=b"%d" % n) for n in range(4))) == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]
    assert sorted(seen) == ["Bearer first"] * 4 + ["Bearer second"] * 4
    assert await api.request("POST", "/x", body=b"4") == b"4"
    assert (api.credentials().scheme, api.credentials().token) == ("Bearer", "second")


async def test_token_that_stays_wrong_is_not_sent_again(server: ApiServer, api: Api) -> None:
    seen = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.method)
        return status(401, "Unauthorized", "Unauthorized")

    server.answer = answer
    with pytest.raises(ApiFailure, match="401 Unauthorized"):
        await api.request("GET", "/x")
    assert seen == ["GET"]


async def test_login_that_cannot_be_renewed_is_told(server: ApiServer, api: Api) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return status(401, "Unauthorized", "Unauthorized")

    server.answer = answer
    server.kubeconfig.unlink()
    with pytest.raises(ApiFailure, match="no such file"):
        await api.request("GET", "/x")
    assert api.credentials().token == "first"


async def test_guard_keeps_writes_back(server: ApiServer, api: Api, guard: Guard) -> None:
    seen = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.method)
        return web.Response()

    server.answer = answer
    guard.says = lambda: False
    with pytest.raises(ApiFailure) as caught:
        await api.request("POST", "/x", body=b"{}")
    assert (caught.value.status, caught.value.reason) == (0, "NotLeader")
    await api.request("GET", "/x")
    await api.request("PUT", "/x", body=b"{}", guarded=False)
    guard.says = lambda: True
    await api.request("DELETE", "/x")
    assert seen == ["GET", "PUT", "DELETE"]


async def test_guard_is_asked_when_a_connection_is_free(server: ApiServer, api: Api, guard: Guard) -> None:
    """Who waited for a connection and lost the lease meanwhile sends nothing."""
    arrived = asyncio.Semaphore(0)
    go_on = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.Response:
        arrived.release()
        await go_on.wait()
        return web.Response(text=request.path)

    server.answer = answer
    leads = True
    guard.says = lambda: leads
    requests = [asyncio.create_task(api.request("POST", f"/{n}", body=b"{}")) for n in range(6)]
    for _ in range(4):
        await arrived.acquire()
    leads = False
    go_on.set()
    answers = await asyncio.gather(*requests, return_exceptions=True)
    assert answers[:4] == [b"/0", b"/1", b"/2", b"/3"]
    assert [getattr(answer, "reason", None) for answer in answers[4:]] == ["NotLeader", "NotLeader"]


async def test_list_follows_its_pages(server: ApiServer, api: Api) -> None:
    pages = {None: (["a", "b"], "next"), "next": (["c"], "last"), "last": (None, "")}
    asked = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(dict(request.query))
        items, more = pages[request.query.get("continue")]
        return web.json_response(
            {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": more}, "items": items}
        )

    server.answer = answer
    found = [
        ([bytes(raw) for raw in items], version)
        async for items, version in api.list_pages("/pods", {"labelSelector": "x"}, limit=2)
    ]
    assert found == [([b'"a"', b'"b"'], "7"), ([b'"c"'], "7"), ([], "7")]
    assert asked == [
        {"limit": "2", "labelSelector": "x"},
        {"limit": "2", "labelSelector": "x", "continue": "next"},
        {"limit": "2", "labelSelector": "x", "continue": "last"},
    ]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff"])
async def test_list_that_cannot_be_read(server: ApiServer, api: Api, body: bytes) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    server.answer = answer
    with pytest.raises(ApiFailure, match="the list cannot be read"):
        async for _ in api.list_pages("/pods", {}):
            pass


async def test_watch_gives_whole_lines(server: ApiServer, api: Api) -> None:
    big = b'{"x":"' + b"y" * 4_000_000 + b'"}'
    lines = [b'{"a":1}', big, b'{"b":2}', b'{"c":3}']

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert dict(request.query) == {
            "labelSelector": "x",
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": "7",
            "timeoutSeconds": "300",
        }
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(lines[0][:3])
        await response.write(lines[0][3:] + b"\n" + big)
        await response.write(b"\n" + lines[2] + b"\n" + lines[3] + b"\n")
        return response

    server.answer = answer
    got = [line async for line in api.watch("/pods", {"labelSelector": "x"}, "7", timeout_s=300, stalled_s=10)]
    assert got == [b"", *lines]


async def test_watch_without_a_byte_is_stalled(server: ApiServer, api: Api) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        await server.ended.wait()
        return response

    server.answer = answer
    async with aclosing(api.watch("/pods", {}, "7", timeout_s=300, stalled_s=0.1)) as lines:
        assert [await anext(lines), await anext(lines)] == [b"", b"{}"]
        with pytest.raises(ApiFailure) as caught:
            await anext(lines)
    assert (caught.value.status, caught.value.reason) == (0, "Timeout")


@pytest.mark.slow
async def test_events_right_after_another_are_read_together(
    server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        for n in range(6):
            await response.write(b"%d\n" % n)
            written += 1
            await asyncio.sleep(0.01)
        await server.ended.wait()
        return response

    server.answer = answer
    monkeypatch.setattr(client, "GATHER_S", 0.5)
    async with aclosing(api.watch("/pods", {}, "7", timeout_s=300, stalled_s=10)) as lines:
        assert [await anext(lines), await anext(lines)] == [b"", b"0"]
        assert written < 6
        assert await anext(lines) == b"1"
        assert written == 6
        monkeypatch.setattr(client, "GATHER_S", 3600.0)  # all of them were read at once, not one after each wait
        async with asyncio.timeout(5.0):
            assert [await anext(lines) for _ in range(4)] == [b"2", b"3", b"4", b"5"]


async def test_watch_that_is_never_accepted(server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        await server.ended.wait()
        return web.Response()

    server.answer = answer
    monkeypatch.setattr(client, "ANSWER_S", 0.05)
    with pytest.raises(ApiFailure, match="no answer in time"):
        await anext(api.watch("/pods", {}, "7", timeout_s=300, stalled_s=600))


async def test_watches_take_no_slots(server: ApiServer, api: Api) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(text="here")
        response = web.StreamResponse()
        await response.prepare(request)
        await server.ended.wait()
        return response

    server.answer = answer
    watches = [api.watch("/pods", {}, "7", timeout_s=300, stalled_s=60) for _ in range(6)]
    for watch in watches:
        assert await anext(watch) == b""
    assert await api.request("GET", "/x") == b"here"
    for watch in watches:
        await watch.aclose()


async def test_another_server_than_the_kubeconfig_names(server: ApiServer) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="here")

    server.answer = answer
    server.write_user({"token": "t"}, cluster={"server": "https://192.0.2.1:6443"})
    api = await Api.connect(str(server.kubeconfig), server=server.url + "/")
    assert await api.request("GET", "/x") == b"here"
    await api.close()


async def test_an_object_that_is_nested_as_deep_as_can_be_breaks_no_list(server: ApiServer, api: Api) -> None:
    """Tenants choose the depth of some fields, such as the parameters of claims. Python's own limit is 1,000 levels."""
    deep = b"[" * NESTING_MAX + b"]" * NESTING_MAX
    page = b'{"metadata":{"continue":""},"items":[{"spec":%b},{"spec":1}]}' % deep

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=page, content_type="application/json")

    server.answer = answer
    found = [len(items) async for items, _ in api.list_pages("/api/v1/x", {})]
    assert found == [2]
    event = b'{"type":"ADDED","object":{"spec":%b}}' % deep
    assert await asyncio.to_thread(lambda: len(reflector._decode_event(event).object)) == len(deep) + len('{"spec":}')
