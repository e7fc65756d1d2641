"""Workloads that come and go on a real API server, each pod like no other, and the watch that follows them.

Bare pods, pods of Jobs that start together, and gangs with a PodGroup; their requests, labels, anti-affinity terms,
volumes and claims are their own. All of it runs on an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import MERGE, Object, collection, path_to
from tests.cluster.soak_judge import Judge, Wanted

CONNECTIONS = 48
# Pods: where the machine is slower than the rate no more come. Half of them have a GPU, and the nodes 1,600: in a
# cluster that is full pods are moved, which the judge could not tell from a fault.
UNDER_WAY_MAX = 2_000
LIFE_S = (2.0, 8.0)
NEVER_S = 5.0  # so long those stay for which there is no room
LOOK_S = 0.25
NODE_GPUS, NODE_MILLI_CPU = 8, 64_000
QUEUES = 4


class _Meta(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815 - as on the wire
    annotations: dict[str, str] = {}


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
    items: list[_Pod]


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode


class Workload:
    """What is made for one workload: ``before`` its pods, the pods, and which of all that is to be deleted."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.name = f"work-{number}"
        self.kind = chance.choices(("bare", "gang", "job", "never"), (40, 29, 30, 1))[0]
        self.life_s = chance.uniform(*LIFE_S)
        self.before: list[Object] = []
        self.pods: list[Object] = []
        self.wanted: list[Wanted] = []
        self._queue = f"team-{number % QUEUES}"
        self._apart = chance.random() < 0.5
        size = chance.randint(2, 5) if self.kind in ("gang", "job") else 1
        if self.kind == "gang":
            self.before.append(objects.pod_group(self.name, self._queue, size))
        elif self.kind == "job":
            self.before.append(_job(self.name, self._queue, size))
        for index in range(size):
            self._add(f"{self.name}-{index}", chance)

    def _add(self, name: str, chance: random.Random) -> None:
        gpus = NODE_GPUS + 1 if self.kind == "never" else chance.choice((0, 1))
        milli_cpu = chance.randint(50, 999)
        mark = self.name if self._apart else name
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job-name": mark}}}
        spec: dict[str, Any] = {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        }
        draw = chance.random()
        if draw < 0.1:
            self.before += _claim(f"data-{name}")
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
        elif draw < 0.2:
            settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": objects.meta(f"settings-{name}")}
            self.before.append(settings | {"data": {"name": name}})
            spec["volumes"] = [{"name": "settings", "configMap": {"name": f"settings-{name}"}}]
        group = self.name if self.kind == "gang" else None
        labels = {"job-name": mark, "pod": name}
        pod = objects.pod(name, self._queue, gpus, group=group, cpu=f"{milli_cpu}m", labels=labels, **spec)
        self.pods.append(pod)
        self.wanted.append(Wanted(name, self.name, milli_cpu, gpus, self.kind != "never", self._apart))


class Load:
    """``start`` it, ``stop_coming`` ends the arrivals, ``wait_gone`` returns when all is gone. ``rate``: pods a second.

    ``failure`` is what ended it before its time.
    """

    def __init__(self, server: str, token: str, authority: Path, judge: Judge, rate: float, seed: int) -> None:
        self.judge = judge
        self.failure: BaseException | None = None
        self.coming_s = 0.0  # how long pods came
        self._server, self._token, self._authority = server, token, authority
        self._rate = rate
        self._chance = random.Random(seed)
        self._enough = threading.Event()
        self._under_way = 0
        self._thread = threading.Thread(target=self._run_loop, name="load", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def wait_gone(self, timeout_s: float) -> None:
        """Return once all workloads have gone. Raises AssertionError at the deadline, and what ended it."""
        self._thread.join(timeout_s)
        if self.failure is not None:
            raise self.failure
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
        tls = ssl.create_default_context(cafile=self._authority)
        headers = {"Authorization": f"Bearer {self._token}"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        # The watch has a connection beside those of the requests.
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        self._slots = asyncio.Semaphore(CONNECTIONS)
        session = aiohttp.ClientSession(self._server, connector=connector, headers=headers, timeout=timeout)
        async with session as self._session:
            watch = asyncio.create_task(self._watch())
            look = asyncio.create_task(self._look())
            try:
                await self._come()
                for helper in (watch, look):
                    assert not helper.done(), helper
            finally:
                watch.cancel()
                look.cancel()
                await asyncio.gather(watch, look, return_exceptions=True)

    async def _come(self) -> None:
        started_s = due_s = time.monotonic()
        number = 0
        async with asyncio.TaskGroup() as tasks:
            while not self._enough.is_set():
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
            # One that is late has been told of: what comes after it is still worth knowing.
            due = lambda one: one is not None and one.bound_s is None and not one.is_late  # noqa: E731
            while any(map(due, map(self.judge.pods.get, pods))):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            await asyncio.sleep(workload.life_s)
        for name in pods:
            self.judge.leave(name)
        group = self.judge.groups.get(workload.name)
        await asyncio.gather(*(self._delete("Pod", name) for name in pods))
        for content in workload.before:
            await self._delete(content["kind"], content["metadata"]["name"])
        if workload.kind == "job" and group:  # as the garbage collector would
            await self._delete("PodGroup", group)
        await asyncio.sleep(2.0)  # the watch tells of their end
        self.judge.forget(workload.name, pods)
        self._under_way -= len(pods)

    async def _make(self, pod: Object, wanted: Wanted) -> None:
        await self._create(pod)
        self.judge.make(wanted, time.monotonic())

    async def _create(self, content: Object) -> Object:
        made = await self._request("POST", collection(content["kind"], "default"), content)
        if content["kind"] in ("PersistentVolume", "PersistentVolumeClaim"):  # as the volume controller would
            status = {"status": {"phase": "Bound"}}
            await self._request("PATCH", path_to(content["kind"], content["metadata"]["name"]) + "/status", status)
        return made

    async def _delete(self, kind: str, name: str) -> None:
        path = path_to(kind, name)
        held = kind in ("PersistentVolume", "PersistentVolumeClaim")
        if held:  # nobody is there who takes off the finalizer of volume protection
            await self._request("PATCH", path, {"metadata": {"finalizers": None}}, gone=True)
        await self._request("DELETE", path, {"gracePeriodSeconds": 0}, gone=True)

    async def _request(self, method: str, path: str, body: object = None, gone: bool = False) -> Object:
        kind = MERGE if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        while True:
            async with (
                self._slots,
                self._session.request(method, path, data=data, headers={"Content-Type": kind}) as answer,
            ):
                content: Object = json.loads(await answer.read())
                if answer.status == 429:
                    await asyncio.sleep(1.0)
                    continue
                assert answer.status < 300 or (gone and answer.status == 404), f"{method} {path}: {content}"
                return content

    async def _watch(self) -> None:
        """Follow all pods. An API server that has much to do ends watches of who is slow."""
        version = ""
        while True:
            if not version:
                version = await self._list()
            async for line in self._lines(f"{collection('Pod')}?watch=1&resourceVersion={version}"):
                event = _decode_event(line)
                if event.type == "ERROR":
                    version = ""
                    break
                version = self._seen(event.type, _decode_pod(event.object))

    async def _list(self) -> str:
        """See what there is, and what is there no more; the version to watch from."""
        known = set(self.judge.pods)
        found = _decode_list(await self._get(collection("Pod")))
        # Those that are gone first: somebody else may have their room by now.
        for name in known - {pod.metadata.name for pod in found.items}:
            self.judge.gone(name)
        for pod in found.items:
            self._seen("MODIFIED", pod)
        return found.metadata.resourceVersion

    def _seen(self, event: str, pod: _Pod) -> str:
        meta = pod.metadata
        if event == "DELETED":
            self.judge.gone(meta.name)
        else:
            group = meta.annotations.get(names.POD_GROUP_ANNOTATION, "")
            # The simulated kubelets let the pods of Jobs succeed as soon as they run.
            ended = pod.status.phase in ("Succeeded", "Failed")
            self.judge.seen(meta.name, pod.spec.nodeName, group, time.monotonic(), ended)
        return meta.resourceVersion

    async def _get(self, path: str) -> bytes:
        async with self._session.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.read()

    async def _lines(self, path: str) -> AsyncIterator[bytes]:
        rest = b""
        async with self._session.get(path) as answer:
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.judge.look(time.monotonic())


def _job(name: str, queue: str, size: int) -> Object:
    """A Job whose pods start together. No controller makes them."""
    marks = {"labels": {names.QUEUE_LABEL: queue}, "annotations": {"kai.scheduler/batch-min-member": str(size)}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    spec = {"parallelism": size, "completions": size, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": objects.meta(name, **marks), "spec": spec}


def _claim(name: str) -> list[Object]:
    """A claim, and the volume that it is bound to."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": objects.meta(name),
        "spec": {
            "capacity": size,
            "accessModes": modes,
            "hostPath": {"path": "/data"},
            "storageClassName": "by-hand",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": objects.meta(name),
        "spec": {
            "accessModes": modes,
            "resources": {"requests": size},
            "storageClassName": "by-hand",
            "volumeName": name,
        },
    }
    return [volume, claim]
