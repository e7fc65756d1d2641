"""Whatever text gets into a request, the server reads one request for what was meant, or none is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.group_requests import create_group, get_group, mark_pod
from kai_sched.cluster.login import Credentials
from kai_sched.cluster.owner_reader import OwnerReader
from kai_sched.cluster.paths import Path, object_path, objects_path, only
from kai_sched.cluster.status_writer import path_of
from kai_sched.plan.effects import Ref
from kai_sched.reconcile.grouping.owners import ObjectReference
from kai_sched.reconcile.grouping.workload_errors import GroupingError

SMUGGLED = "x HTTP/1.1\r\nHost: k\r\n\r\nDELETE /api/v1/namespaces/victim/pods/p"
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(codec=None), max_size=5),  # lone surrogates, too
    st.sampled_from(["", ".", "..", "a/b", "%2e", "?watch=1", "#f", "a b", "a\r\nX: y", SMUGGLED, "x" * 9000, "é"]),
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?", fullmatch=True),
)


class Wire:
    """A server that keeps the first line of each request, and answers whatever a test wants."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.answer: Callable[[str], bytes] = lambda _: b"{}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *headers = head.split("\r\n")
                self.lines.append(line)
                length = next((each for each in headers if each.lower().startswith("content-length:")), ":0")
                await reader.readexactly(int(length.partition(":")[2]))
                body = self.answer(line.split(" ")[1])
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class _Login:
    in_cluster = False


def play(work: Callable[[Wire, Api], Coroutine[Any, Any, None]]) -> None:
    """Run it with a client of a new server."""

    async def run() -> None:
        wire = Wire()
        server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        known = Credentials(url, None, False, None, None, "Bearer", "T", None, None, ())
        api = Api(_Login(), known, 8)  # type: ignore[arg-type]
        try:
            await work(wire, api)
        finally:
            await api.close()
            server.close()

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(version=TEXTS, resource=TEXTS, namespace=TEXTS, name=TEXTS, value=TEXTS)
@example("v1", "pods", "ml", "a", SMUGGLED)
@example("rbac.authorization.k8s.io/v1", "roles", "ml", "system:a b?\r\n#", "a")
@example("rbac.authorization.k8s.io/v1", "roles", "ml", "\ud800", "a")
@example("v1", "pods", "ml", SMUGGLED, "a")
@example("v1", "pods", "ml", "a", "\ud800")
def test_a_request_is_the_one_that_was_meant(
    version: str, resource: str, namespace: str, name: str, value: str
) -> None:
    async def work(wire: Wire, api: Api) -> None:
        wire.answer = lambda _: b'{"metadata": {}}'
        try:
            path = object_path(version, resource, namespace, name)
            async for _ in api.list_pages(path, {"continue": value, **only(value)}, limit=7):
                pass
        except ApiFailure:
            assert wire.lines == []
            return
        (line,) = wire.lines
        verb, target, protocol = line.split(" ")
        assert (verb, protocol) == ("GET", "HTTP/1.1")
        parts = urlsplit(target)
        root = ["", *(("apis", *version.split("/")) if "/" in version else ("api", version))]
        scope = ["namespaces", namespace] if namespace else []
        assert [unquote(each) for each in parts.path.split("/")] == [*root, *scope, resource, name]
        assert not {".", ".."} & set(parts.path.split("/"))
        pairs = [each.split("=", 1) for each in parts.query.split("&")]
        escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        assert {unquote(key.replace("+", " ")): unquote(found.replace("+", " ")) for key, found in pairs} == {
            "limit": "7",
            "continue": value,
            "fieldSelector": f"metadata.name={escaped}",
        }

    play(work)


@settings(max_examples=40, deadline=None)
@given(version=TEXTS, kind=TEXTS, namespace=TEXTS, name=TEXTS, resource=TEXTS, whole=st.booleans())
@example("batch/v1", "Job", "ml", SMUGGLED, "jobs", False)
@example("batch/v1", "Job", "ml", "train", "../../nodes", False)
@example("batch/v1", "Job", "ml", "train", "jobs?watch=1", True)
def test_an_owner_is_asked_for_by_its_path_or_not_at_all(
    version: str, kind: str, namespace: str, name: str, resource: str, whole: bool
) -> None:
    """Neither what tenants nor what other API servers call things asks for anything else."""

    def answer(path: str) -> bytes:
        if path == "/apis":
            return json.dumps({"groups": [{"versions": [{"groupVersion": version}]}]}).encode()
        return json.dumps({"resources": [{"name": resource, "kind": kind}], "metadata": {"name": name}}).encode()

    async def work(wire: Wire, api: Api) -> None:
        wire.answer = answer
        with suppress(ApiFailure, GroupingError):
            await OwnerReader(api, lambda: 0.0).fetch(ObjectReference(version, kind, namespace, name, whole=whole))
        for line in wire.lines:
            verb, target, _ = line.split(" ")
            assert verb == "GET"
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            scope = f"/namespaces/{namespace}" if namespace else ""
            assert target in ("/apis", root, f"{root}{scope}/{resource}/{name}")

    play(work)


@settings(max_examples=40, deadline=None)
@given(key=TEXTS, raw=st.binary(max_size=30))
@example("ml/../../x", b"{}")
@example("ml/a", b"\xff")
@example("ml/a", b'{"metadata":{"resourceVersion":"x"}}')
def test_writes_of_the_grouper_raise_nothing_else(key: str, raw: bytes) -> None:
    async def work(wire: Wire, api: Api) -> None:
        wire.answer = lambda _: raw
        for call in (create_group(api, key, b"{}"), get_group(api, key), mark_pod(api, key, {"uid": "u"})):
            with suppress(ApiFailure):
                await call
        assert all(len(line.split(" ")) == 3 and ".." not in line for line in wire.lines)

    play(work)


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_paths_of_writes_raise_nothing_else(namespace: str, name: str) -> None:
    for make in (
        lambda: path_of(Ref("v1", "Pod", namespace, name, "u"), "status"),
        lambda: objects_path("v1", "events", namespace),
    ):
        with suppress(ApiFailure):
            path = make()
            assert path.isascii()
            assert path.isprintable()
            assert path.count("/") in (3, 5, 7)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=40))
@example(b"\x00\x00")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
@example(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")
@example(b"HTTP/1.1 999999999 \xff\r\n\r\n")
def test_whatever_is_answered_is_a_failure_of_the_request(garbage: bytes) -> None:
    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(garbage)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        known = Credentials(url, None, False, None, None, None, None, None, None, ())
        api = Api(_Login(), known, 8)  # type: ignore[arg-type]
        with pytest.raises(ApiFailure):
            await api.request("GET", Path("/x"), timeout_s=2.0)
        await api.close()
        server.close()

    asyncio.run(run())
