from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from kai_sched.cluster.client import Api
from kai_sched.cluster.reflector import Kind, Reflector, ReflectorTimings, WatchSource
from tests.unit.cluster.conftest import ApiServer, status
from tests.unit.cluster.store import Store, until

POD = ("v1", "Pod")
PODS = WatchSource(POD, "/api/v1/pods")
QUEUES = WatchSource(("scheduling.run.ai/v2", "Queue"), "/apis/scheduling.run.ai/v2/queues", optional=True)
# So long that a test in which a timeout decides, and not what it is about, fails.
QUICK = ReflectorTimings(watch_s=600.0, stalled_s=600.0, retry_first_s=0.01, retry_last_s=0.05, absent_s=0.01)


class Mirror:
    """Keeps the names and versions of what it is told, and each call."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        self.objects: dict[str, str] = {}
        self.calls: list[str] = []
        self._listed: dict[str, str] = {}

    def begin(self, kind: Kind) -> None:
        self._note("begin", kind)
        self._listed = {}

    def item(self, kind: Kind, raw: msgspec.Raw) -> None:
        self.kinds.add(kind)
        self._listed |= self._read(raw)

    def finish(self, kind: Kind) -> None:
        self._note("finish", kind)
        self.objects = self._listed

    def changed(self, kind: Kind, raw: msgspec.Raw) -> None:
        self._note("changed", kind)
        self.objects |= self._read(raw)

    def deleted(self, kind: Kind, raw: msgspec.Raw) -> None:
        self._note("deleted", kind)
        for name in self._read(raw):
            del self.objects[name]

    def _note(self, call: str, kind: Kind) -> None:
        self.calls.append(call)
        self.kinds.add(kind)

    @staticmethod
    def _read(raw: msgspec.Raw) -> dict[str, str]:
        metadata = json.loads(bytes(raw))["metadata"]
        return {metadata["name"]: metadata["resourceVersion"]}


@pytest_asyncio.fixture
async def store(server: ApiServer) -> Store:
    store = Store()
    server.answer = store.answer
    return store


@pytest.fixture
def mirror() -> Mirror:
    return Mirror()


@asynccontextmanager
async def running(reflector: Reflector, store: Store) -> AsyncIterator[None]:
    task = asyncio.create_task(reflector.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])
        store.end_watches()
    assert task.cancelled()


def reflect(api: Api, mirror: Mirror, source: WatchSource = PODS, timings: ReflectorTimings = QUICK) -> Reflector:
    return Reflector(api, source, mirror, Random(1), timings)


async def test_list_in_pages_then_watch(api: Api, store: Store, mirror: Mirror) -> None:
    for n in range(1200):
        store.apply(f"p{n}")
    reflector = reflect(api, mirror)
    assert (reflector.listed, reflector.synced, reflector.state) == (False, False, "pods: not listed yet")
    async with running(reflector, store):
        await until(lambda: reflector.synced)
        assert mirror.objects == store.contents()
        store.apply("p7")
        store.apply("new")
        store.delete("p8")
        await until(lambda: mirror.objects == store.contents())
        assert (reflector.listed, reflector.synced, reflector.state) == (True, True, "synced")
    assert store.asked == ["list", "list", "list", "watch"]
    assert mirror.calls == ["begin", "finish", "changed", "changed", "deleted"]
    assert mirror.kinds == {POD}


@pytest.mark.parametrize("cut", [False, True])
async def test_watch_that_ends_is_resumed_without_a_list(api: Api, store: Store, mirror: Mirror, cut: bool) -> None:
    store.apply("a")
    store.cut = cut
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: bool(store.watches))
        for n in range(5):
            store.apply(f"seen{n}")
            await until(lambda: mirror.objects == store.contents())
            store.refuse["watch"] = [lambda: status(503, "ServiceUnavailable", "by the test")] * 10_000
            store.end_watches()
            await until(lambda: not store.watches)
            store.apply(f"missed{n}")
            store.delete(f"seen{n}")
            store.refuse["watch"].clear()
            await until(lambda: mirror.objects == store.contents())
        await until(lambda: reflector.synced)
    assert store.asked.count("list") == 1
    assert mirror.calls.count("changed") == 10  # none twice


async def test_watch_is_resumed_from_a_bookmark(api: Api, store: Store, mirror: Mirror) -> None:
    """Nothing of this kind changed, but what the list named would be too old to watch from."""
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: bool(store.watches))
        store.version += 50
        store.bookmark()
        store.compact()
        store.apply("a")
        await until(lambda: mirror.objects == store.contents())
        store.end_watches()
        store.apply("b")
        await until(lambda: mirror.objects == store.contents())
    assert store.asked.count("list") == 1


@pytest.mark.parametrize("how", ["status", "event"])
async def test_too_old_a_version_is_listed_again(api: Api, store: Store, mirror: Mirror, how: str) -> None:
    for name in "abc":
        store.apply(name)
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: bool(store.watches))
        store.forgetful = True
        store.delete("a")
        store.apply("d")
        store.forgetful = False
        store.compact()
        if how == "status":
            store.end_watches()
        else:
            store.error(410, "Expired")
        await until(lambda: mirror.objects == store.contents())
        assert reflector.synced
    assert store.asked.count("list") == 2
    assert mirror.calls == ["begin", "finish", "begin", "finish"]


async def test_list_that_breaks_off_begins_anew(server: ApiServer, api: Api, store: Store, mirror: Mirror) -> None:
    for n in range(700):
        store.apply(f"p{n}")
    refused = False

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal refused
        if "continue" in request.query and not refused:
            refused = True
            store.delete("p3")
            return status(410, "Expired", "The provided continue parameter is too old")
        return await store.answer(request)

    server.answer = answer
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: reflector.synced)
        assert mirror.objects == store.contents()
    assert mirror.calls == ["begin", "begin", "finish"]


@pytest.mark.slow
async def test_stalled_watch_is_resumed(api: Api, store: Store, mirror: Mirror) -> None:
    """Not a byte comes and the connection stays: only the time tells."""
    reflector = reflect(api, mirror, timings=ReflectorTimings(stalled_s=0.2, retry_first_s=0.01))
    async with running(reflector, store):
        await until(lambda: reflector.synced)
        store.stalled = True
        store.apply("a")
        asked = len(store.asked)
        while len(store.asked) < asked + 3:
            assert reflector.synced  # quiet kinds are the rule, and nothing is known to be wrong
            await asyncio.sleep(0.002)
        store.stalled = False
        await until(lambda: mirror.objects == store.contents())
    assert store.asked.count("list") == 1


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_watch_refused_for_now_is_resumed(api: Api, store: Store, mirror: Mirror, code: int) -> None:
    store.refuse["watch"] = [lambda: status(code, "No", "by the test")] * 3
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: bool(store.watches))
        store.apply("a")
        await until(lambda: mirror.objects == store.contents())
    assert store.asked == ["list", "watch", "watch", "watch", "watch"]


async def test_version_that_the_server_never_had_is_listed_again(api: Api, store: Store, mirror: Mirror) -> None:
    """As after etcd was restored from a backup."""
    for n in range(3):
        store.apply(f"p{n}")
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: reflector.synced and bool(store.watches))
        store.objects.clear()
        store.history.clear()
        store.version = 3
        store.refuse["watch"] = [lambda: status(504, "Timeout", "Too large resource version: 103, current: 3")]
        store.apply("restored")
        store.end_watches()
        await until(lambda: mirror.objects == store.contents())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: status(500, "InternalError", "by the test"),
        lambda: web.Response(text="<html>"),
        lambda: web.Response(text='{"metadata": {"resourceVersion": "1"}, "items": 3}'),
        lambda: web.Response(status=404, text="not found"),
    ],
)
async def test_list_that_fails_is_tried_until_it_succeeds(
    api: Api, store: Store, mirror: Mirror, wrong: Callable[[], web.Response]
) -> None:
    store.apply("a")
    store.refuse["list"] = [wrong] * 4
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: len(store.refuse["list"]) == 0)
        assert not reflector.listed
        await until(lambda: reflector.synced)
        assert mirror.objects == store.contents()


async def test_event_that_cannot_be_read(api: Api, store: Store, mirror: Mirror) -> None:
    store.refuse["watch"] = [lambda: web.Response(text="<html>\n"), lambda: web.Response(text='{"type": "ADDED"}\n')]
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        store.apply("a")
        await until(lambda: mirror.objects == store.contents())
        await until(lambda: reflector.synced)


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_what_is_forbidden_is_named(api: Api, store: Store, mirror: Mirror, verb: str) -> None:
    forbidden = f'pods is forbidden: User "kai" cannot {verb} resource "pods" in API group "" at the cluster scope'
    store.refuse[verb] = [lambda: status(403, "Forbidden", forbidden)] * 1000
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: reflector.state == f"403 Forbidden: may not {verb} pods: {forbidden}")
        assert not reflector.synced
        assert reflector.listed == (verb == "watch")
        store.refuse[verb].clear()
        store.apply("a")
        await until(lambda: reflector.synced and mirror.objects == store.contents())
        assert reflector.state == "synced"


async def test_waits_grow_and_have_an_end(server: ApiServer, api: Api, store: Store, mirror: Mirror) -> None:
    at = []

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        at.append(asyncio.get_running_loop().time())
        return status(500, "InternalError", "by the test")

    server.answer = answer
    timings = ReflectorTimings(retry_first_s=0.04, retry_last_s=0.08)
    async with running(reflect(api, mirror, timings=timings), store):
        await until(lambda: len(at) > 4)
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert [gap >= least for gap, least in zip(gaps, [0.02, 0.04, 0.04, 0.04], strict=False)] == [True] * 4


@pytest.mark.slow
async def test_server_says_when_to_come_again(api: Api, store: Store, mirror: Mirror) -> None:
    loop = asyncio.get_running_loop()
    store.refuse["list"] = [lambda: web.Response(status=429, headers={"Retry-After": "1"})]
    reflector = reflect(api, mirror)
    began = loop.time()
    async with running(reflector, store):
        await until(lambda: reflector.synced)
    assert loop.time() - began >= 0.99


async def test_optional_source_comes_and_goes(api: Api, store: Store, mirror: Mirror) -> None:
    absent = [lambda: web.Response(status=404, text="404 page not found")] * 10_000
    store.refuse["list"] = absent.copy()
    reflector = reflect(api, mirror, QUEUES)
    async with running(reflector, store):
        await until(lambda: len(store.asked) > 5)
        assert (reflector.listed, reflector.synced) == (True, True)
        assert reflector.state == "queues: not known to the API server, so there are none (is the CRD installed?)"
        assert mirror.calls == ["begin", "finish"]
        store.apply("q")
        store.refuse["list"].clear()
        await until(lambda: mirror.objects == store.contents())
        await until(lambda: reflector.state == "synced" and bool(store.watches))
        store.refuse = {"list": absent.copy(), "watch": absent.copy()}
        store.end_watches()
        await until(lambda: mirror.objects == {})
        assert reflector.state.startswith("queues: not known")


async def test_metadata_only(api: Api, store: Store, mirror: Mirror) -> None:
    source = WatchSource(POD, "/api/v1/pods", params=(("labelSelector", "x"),), metadata_only=True)
    reflector = reflect(api, mirror, source)
    async with running(reflector, store):
        await until(lambda: bool(store.watches))
    assert store.headers == [
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ]


@pytest.mark.parametrize("part", ["begin", "item", "finish", "changed", "deleted"])
async def test_a_sink_that_raises_is_told_everything_anew(api: Api, store: Store, mirror: Mirror, part: str) -> None:
    store.apply("a")
    working = getattr(mirror, part)
    raised: list[bool] = []

    def raising(*args: object) -> None:
        if not raised:
            raised.append(True)
            raise ZeroDivisionError("by the test")
        working(*args)

    setattr(mirror, part, raising)
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: reflector.synced)
        if part == "changed":
            store.apply("b")
        elif part == "deleted":
            store.delete("a")
        await until(lambda: bool(raised))
        await until(lambda: reflector.synced and mirror.objects == store.contents())
    assert store.asked.count("list") == 2


async def test_a_sink_that_raises_is_not_called_in_step(api: Api, store: Store, mirror: Mirror) -> None:
    def raising(_: Kind) -> None:
        raise ZeroDivisionError("by the test")

    mirror.finish = raising  # type: ignore[method-assign]
    reflector = reflect(api, mirror)
    async with running(reflector, store):
        await until(lambda: "unexpected ZeroDivisionError: by the test" in reflector.state)
        assert not reflector.synced
