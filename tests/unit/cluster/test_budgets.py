"""What requests may take from each other, from the next leader, and what a refusal says of our rights."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kai_sched.cluster import client
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.login import Login
from kai_sched.cluster.paths import objects_path, pod_path
from tests.unit.cluster.conftest import ApiServer, Guard, status

RBAC = 'pods is forbidden: User "system:serviceaccount:kai:kai-sched" cannot'
MISSING = [
    f'{RBAC} list resource "pods" in API group "" at the cluster scope',
    f'{RBAC} create resource "pods/binding" in API group "" in the namespace "ml"',
    'podgroups.scheduling.run.ai "pg-x" is forbidden: User "kai" cannot get resource "podgroups" in API group '
    '"scheduling.run.ai" in the namespace "ml": RBAC: clusterrole.rbac.authorization.k8s.io "kai" not found',
    'forbidden: User "kai" cannot get path "/apis"',
]
OTHERS = [
    'podgroups.scheduling.run.ai "pg-x" is forbidden: exceeded quota: team-a, requested: '
    "count/podgroups.scheduling.run.ai=1, used: count/podgroups.scheduling.run.ai=2, limited: "
    "count/podgroups.scheduling.run.ai=2",
    "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no labels, please",
    "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: x is forbidden: User "
    '"kai" cannot get resource "pods" in API group ""',
    'admission webhook "validation.gatekeeper.sh" denied the request: [policy] pods is forbidden: User "kai" cannot '
    'patch resource "pods" in API group ""',
    'pods "a" is forbidden: unable to create new content in namespace ml because it is being terminated',
    'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged',
    "Forbidden",
]


@pytest.mark.parametrize(("message", "is_missing"), [*((m, True) for m in MISSING), *((m, False) for m in OTHERS)])
async def test_only_a_missing_right_is_told_as_one(server: ApiServer, api: Api, message: str, is_missing: bool) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return status(403, "Forbidden", message)

    server.answer = answer
    with pytest.raises(ApiFailure) as caught:
        await api.request("PATCH", objects_path("v1", "pods", "ml"), body=b"{}")
    assert caught.value.is_missing_right == is_missing
    assert api.refusals() == (f"may not PATCH pods: {message}" if is_missing else "")


async def test_a_missing_right_is_forgotten(server: ApiServer) -> None:
    """After it was granted, and after a while in which nobody needed it."""
    is_granted, now = False, 0.0

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response() if is_granted else status(403, "Forbidden", MISSING[0])

    server.answer = answer
    login = Login(str(server.kubeconfig))
    api = Api(login, await login.load(), 4, lambda: now)
    for path in (objects_path("v1", "pods"), objects_path("v1", "nodes")):
        with pytest.raises(ApiFailure):
            await api.request("GET", path)
    assert api.refusals().count("may not GET") == 2
    is_granted = True
    await api.request("GET", objects_path("v1", "pods"))
    assert api.refusals() == f"may not GET nodes: {MISSING[0]}"
    now += client.REFUSAL_S
    assert api.refusals() == ""
    await api.close()


async def test_binds_that_hang_keep_nobody_waiting(server: ApiServer) -> None:
    """More of them than there are connections; all else goes through at once."""
    hung = 0

    async def answer(request: web.BaseRequest) -> web.Response:
        nonlocal hung
        if request.path.endswith("/binding"):
            hung += 1
            await server.ended.wait()
        return web.json_response({"metadata": {}, "items": []})

    server.answer = answer
    api = await Api.connect(str(server.kubeconfig), connections=64)
    binds = [asyncio.create_task(api.request("POST", pod_path(f"ml/p{n}", "binding"), body=b"{}")) for n in range(100)]
    async with asyncio.timeout(5.0):
        while hung < api.binds_at_once:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
    async with asyncio.timeout(1.0):
        await api.request("DELETE", pod_path("ml/victim"), body=b"{}")
        await api.request("PATCH", pod_path("ml/a", "status"), body=b"{}")
        assert [page async for page, _ in api.list_pages(objects_path("v1", "pods"), {})] == [[]]
    assert hung == api.binds_at_once == 48
    for bind in binds:
        bind.cancel()
    await asyncio.gather(*binds, return_exceptions=True)
    async with asyncio.timeout(1.0):
        await asyncio.gather(*(api.request("GET", pod_path(f"ml/p{n}")) for n in range(100)))
    await api.close()


async def test_a_write_ends_before_another_may_lead(server: ApiServer, api: Api, guard: Guard) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        await server.ended.wait()
        return web.Response()

    server.answer = answer
    guard.guarded_s = 0.05
    with pytest.raises(ApiFailure, match="Timeout"):
        async with asyncio.timeout(2.0):
            await api.request("POST", pod_path("ml/a", "binding"), body=b"{}")
    with pytest.raises(TimeoutError):  # what writes nothing has its time
        async with asyncio.timeout(0.2):
            await api.request("GET", pod_path("ml/a"))


async def test_the_guard_is_asked_again_once_connected(server: ApiServer, api: Api, guard: Guard) -> None:
    """The lease may end while the connection is made: nothing is sent then."""
    seen, asked = [], []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.method)
        return web.Response()

    def says() -> bool:
        asked.append(len(seen))
        return len(asked) % 2 == 1  # yes before connecting, no after

    server.answer = answer
    guard.says = says
    with pytest.raises(ApiFailure) as caught:
        await api.request("POST", pod_path("ml/a", "binding"), body=b"{}")
    assert (caught.value.status, caught.value.reason, seen, len(asked)) == (0, "NotLeader", [], 2)
    await api.request("GET", pod_path("ml/a"))
    assert (seen, len(asked)) == (["GET"], 2)
