"""Workloads that come and go on a real API server, and the watches that follow them for the judge.

All of it runs on an event loop in a thread of its own. What the API server or a webhook cannot answer now is tried
again, as controllers do; the judge is told of pods once they are there.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from kai_sched.api import names
from tests.cluster import claims, sharing
from tests.cluster.client import MERGE, Object, collection, path_to
from tests.cluster.device_plugin import NAMESPACE as RESERVATIONS
from tests.cluster.soak_clock import ServedClock
from tests.cluster.soak_devices import Device
from tests.cluster.soak_judge import Followed, Judge, Wanted
from tests.cluster.soak_workloads import Workload

T = TypeVar("T")

CONNECTIONS = 48
# Pods: where the machine is slower than the rate no more come. A third of them have a GPU, and the nodes 1,400: in a
# cluster that is full pods are moved, which the judge could not tell from a fault.
UNDER_WAY_MAX = 1_500
NEVER_S = 5.0  # so long those stay for which there is no room
LOOK_S = 0.25
# For a request: the API server is restarted within, and lets go of the connection to webhooks that stand still.
PATIENCE_S = 120.0
RETRY_S, RETRY_MAX_S = 0.5, 4.0
NAMESPACE = "default"


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - as on the wire
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    uid: str = ""
    deletionTimestamp: str | None = None  # noqa: N815 - as on the wire


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815 - as on the wire


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[msgspec.Raw]


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode


class Load:
    """``start`` it, ``stop_coming`` ends the arrivals, ``wait_gone`` returns when all is gone. ``rate``: pods a second.

    ``failure`` is what ended it before its time, ``again`` how often requests had to be repeated, by the answer.
    """

    def __init__(self, server: str, token: str, authority: Path, judge: Judge, rate: float, seed: int) -> None:
        self.judge = judge
        self.clock = ServedClock()  # the judge's
        self.failure: BaseException | None = None
        self.coming_s = 0.0  # how long pods came
        self.again: Counter[str] = Counter()
        self._server, self._token, self._authority = server, token, authority
        self._rate = rate
        self._chance = random.Random(seed)
        self._enough = threading.Event()
        self._under_way = 0
        self._reserved: dict[str, Device] = {}  # node and GPU group, by uid of each reservation pod that stays
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run_loop, name="load", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def check(self) -> None:
        """Raise what ended it, if something did."""
        if self.failure is not None:
            raise self.failure

    def ask(self, function: Callable[[], T]) -> T:
        """What the function returns on the loop's thread, which is the judge's."""
        assert self._loop is not None, "it has begun"

        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(30.0)

    def wait_gone(self, timeout_s: float) -> None:
        """Return once all workloads have gone. Raises AssertionError at the deadline, and what ended it."""
        self._thread.join(timeout_s)
        self.check()
        assert not self._thread.is_alive(), f"{self._under_way} pods are still there"

    def stop_coming(self) -> None:
        """No more workloads; those that are there are followed to their end."""
        self._enough.set()

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as failure:
            self.failure = failure

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        tls = ssl.create_default_context(cafile=self._authority)
        headers = {"Authorization": f"Bearer {self._token}"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        # The watches have connections beside those of the requests.
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        self._slots = asyncio.Semaphore(CONNECTIONS)
        session = aiohttp.ClientSession(self._server, connector=connector, headers=headers, timeout=timeout)
        async with session as self._session:
            mark = quote(f"{names.SHARED_GPU_LABEL}=true")
            self._helpers = [
                asyncio.create_task(each)
                for each in (
                    self._look(),
                    self._watch(f"{collection('Pod')}?", self._listed_pods, self._seen_pod),
                    self._watch(f"{collection('ResourceClaim')}?", self._listed_claims, self._seen_claim),
                    self._watch(f"{collection('ConfigMap')}?labelSelector={mark}&", self._listed_maps, self._seen_map),
                )
            ]
            try:
                await self._come()
            finally:
                for helper in self._helpers:
                    helper.cancel()
                await asyncio.gather(*self._helpers, return_exceptions=True)

    async def _come(self) -> None:
        started_s = due_s = time.monotonic()
        number = 0
        async with asyncio.TaskGroup() as tasks:
            while not self._enough.is_set():
                for helper in self._helpers:
                    assert not helper.done(), helper
                workload = Workload(number, self._chance)
                number += 1
                due_s += len(workload.pods) / self._rate
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                while self._under_way > UNDER_WAY_MAX and not self._enough.is_set():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                self._under_way += len(workload.pods)
                tasks.create_task(self._live(workload))
            self.coming_s = time.monotonic() - started_s

    async def _live(self, workload: Workload) -> None:
        pods = [one.name for one in workload.wanted]
        for content in workload.before:
            made = await self._create(content)
            if made["kind"] == "Job":
                meta = {key: made["metadata"][key] for key in ("name", "uid")}
                for pod in workload.pods:
                    pod["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", **meta}]
        if workload.kind in ("gang", "job"):
            self.judge.gang(workload.name, pods)
        await asyncio.gather(
            *(self._make(pod, wanted) for pod, wanted in zip(workload.pods, workload.wanted, strict=True))
        )
        if workload.kind == "never":
            await asyncio.sleep(NEVER_S)
        else:
            while any(map(_is_awaited, map(self.judge.pods.get, pods))):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            ends_s = time.monotonic() + workload.life_s
            while time.monotonic() < ends_s and workload.name not in self.judge.ended:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        for name in pods:
            self.judge.leave(name)
        await asyncio.gather(*(self._delete("Pod", name) for name in pods))
        for content in workload.before:
            await self._delete(content["kind"], content["metadata"]["name"])
        await self._until_gone(pods)
        self.judge.forget(workload.name, pods)
        self._under_way -= len(pods)

    async def _until_gone(self, pods: list[str]) -> None:
        """The watch tells of their end, if late after a restart of the API server."""
        ends_s = time.monotonic() + PATIENCE_S
        while not all(self.judge.pods[name].is_gone for name in pods):
            assert time.monotonic() < ends_s, f"the watch does not tell of the end of {pods}"
            await asyncio.sleep(0.2)

    async def _make(self, pod: Object, wanted: Wanted) -> None:
        await self._create(pod)
        self.judge.make(wanted, self.clock.now_s())

    async def _create(self, content: Object) -> Object:
        path = path_to(content["kind"], content["metadata"]["name"])
        made = await self._request("POST", collection(content["kind"], NAMESPACE), content, there=path)
        if content["kind"] in ("PersistentVolume", "PersistentVolumeClaim"):  # as the volume controller would
            status = {"status": {"phase": "Bound"}}
            await self._request("PATCH", f"{path}/status", status)
        return made

    async def _delete(self, kind: str, name: str) -> None:
        path = path_to(kind, name)
        held = kind in ("PersistentVolume", "PersistentVolumeClaim")
        if held:  # nobody is there who takes off the finalizer of volume protection
            await self._request("PATCH", path, {"metadata": {"finalizers": None}}, gone=True)
        await self._request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}, gone=True)

    async def _request(
        self, method: str, path: str, body: object = None, gone: bool = False, there: str = ""
    ) -> Object:
        """The answer, once there is one. ``there``: where the object is that an earlier attempt may have created."""
        ends_s = time.monotonic() + PATIENCE_S
        tried = 0
        while True:
            status, content = await self._attempt(method, path, body)
            if status == 409 and there and tried:
                method, path, body = "GET", there, None
                continue
            is_passing = status in (0, 429) or status >= 500
            if not is_passing or time.monotonic() > ends_s:
                assert 200 <= status < 300 or (gone and status == 404), f"{method} {path}: {status} {content}"
                return content
            self.again[str(status) if status else "no answer"] += 1
            await asyncio.sleep(min(RETRY_S * 2**tried, RETRY_MAX_S))
            tried += 1

    async def _attempt(self, method: str, path: str, body: object) -> tuple[int, Object]:
        """Status and content of the answer; status 0 where there is none."""
        kind = MERGE if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        try:
            async with (
                self._slots,
                self._session.request(method, path, data=data, headers={"Content-Type": kind}) as answer,
            ):
                text = await answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else {"text": text.decode()}
        except (aiohttp.ClientError, TimeoutError) as failure:
            return 0, {"text": str(failure)}

    # What we see

    async def _watch(
        self, path: str, listed: Callable[[list[msgspec.Raw], float], None], seen: Callable[[str, msgspec.Raw], None]
    ) -> None:
        """Follow all objects of a kind. An API server that has much to do ends watches of who is slow.

        ``listed`` takes all that there is, and when it was asked for.
        """
        version = ""
        while True:
            try:
                if not version:
                    asked_s = self.clock.now_s()
                    found = _decode_list(await self._get(path.rstrip("?&")))
                    listed(found.items, asked_s)
                    version = found.metadata.resourceVersion
                async for line in self._lines(f"{path}watch=1&resourceVersion={version}"):
                    event = _decode_event(line)
                    if event.type == "ERROR":
                        version = ""
                        break
                    seen(event.type, event.object)
                    version = _decode_pod(event.object).metadata.resourceVersion
            except aiohttp.ClientError as failure:
                if isinstance(failure, aiohttp.ClientResponseError):  # such as 410
                    version = ""
                await asyncio.sleep(RETRY_S)

    def _listed_pods(self, items: list[msgspec.Raw], asked_s: float) -> None:
        """See what there is, and what is there no more."""
        found = [_decode_pod(item) for item in items]
        there = {pod.metadata.name for pod in found if pod.metadata.namespace == NAMESPACE}
        # Those that are gone first: somebody else may have their room by now.
        for name in [name for name, pod in self.judge.pods.items() if pod.made_s < asked_s and name not in there]:
            self.judge.gone(name)
        self._lose(self._reserved.keys() - {pod.metadata.uid for pod in found})
        for item in items:
            self._seen_pod("MODIFIED", item)

    def _seen_reservation(self, event: str, pod: _Pod) -> None:
        """One that goes without having been told to is lost: the simulated kubelets delete pods by their name alone.

        So they may hit the next one of that name.
        """
        meta = pod.metadata
        if event == "DELETED":
            self._lose(self._reserved.keys() & {meta.uid})
        elif meta.deletionTimestamp:
            self._reserved.pop(meta.uid, None)
        else:
            self._reserved[meta.uid] = pod.spec.nodeName, meta.labels.get(names.GPU_GROUP_LABEL, "")

    def _lose(self, uids: Iterable[str]) -> None:
        for uid in list(uids):
            self.judge.unreserve(*self._reserved.pop(uid), self.clock.now_s())

    def _seen_pod(self, event: str, content: msgspec.Raw) -> None:
        pod = _decode_pod(content)
        meta = pod.metadata
        if meta.namespace == RESERVATIONS:
            self._seen_reservation(event, pod)
        if meta.namespace != NAMESPACE:
            return
        if event == "DELETED":
            self.judge.gone(meta.name)
            return
        group = meta.annotations.get(names.POD_GROUP_ANNOTATION, "")
        # The simulated kubelets let the pods of Jobs succeed as soon as they run.
        ended = pod.status.phase in ("Succeeded", "Failed")
        gpus = sharing.groups_of({"metadata": {"labels": meta.labels}})
        self.judge.seen(meta.name, pod.spec.nodeName, group, self.clock.now_s(), ended, gpus)

    def _listed_claims(self, items: list[msgspec.Raw], _: float) -> None:
        self.judge.devices.claims_listed(dict(_claim(item) for item in items))

    def _seen_claim(self, event: str, content: msgspec.Raw) -> None:
        name, devices = _claim(content)
        self.judge.devices.claim(name, frozenset() if event == "DELETED" else devices)

    def _listed_maps(self, items: list[msgspec.Raw], _: float) -> None:
        for item in items:
            self._seen_map("MODIFIED", item)

    def _seen_map(self, event: str, content: msgspec.Raw) -> None:
        found: Object = msgspec.json.decode(content)
        owners = found["metadata"].get("ownerReferences") or []
        told = (found.get("data") or {}).get(names.VISIBLE_DEVICES_ENV, "")
        if owners and not found["metadata"]["name"].endswith("-evar"):  # which says the same
            devices = () if event == "DELETED" else tuple(filter(None, told.split(",")))
            self.judge.devices.tell(owners[0]["name"], devices, self.clock.now_s())

    async def _get(self, path: str) -> bytes:
        async with self._session.get(path) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def _lines(self, path: str) -> AsyncIterator[bytes]:
        rest = b""
        async with self._session.get(path) as answer:
            answer.raise_for_status()
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.judge.look(self.clock.now_s())


def _is_awaited(pod: Followed | None) -> bool:
    """Whether it still has to be bound. One that is late has been told of: what comes after it is worth knowing."""
    return pod is not None and pod.bound_s is None and not pod.is_late and not pod.leaves


def _claim(content: msgspec.Raw) -> tuple[str, frozenset[Device]]:
    found: Any = msgspec.json.decode(content)
    return found["metadata"]["name"], frozenset(claims.allocated(found))
