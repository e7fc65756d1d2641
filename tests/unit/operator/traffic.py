"""An operator in this process, before an API server in memory, and pods that come and go without end.

Of what the operator is made of, all but kopf, the lease and HTTP is there: bytes come from lists and watches, cycles
decide and act, binds, groups, statuses and events are written. Each pod has a name, labels, an anti-affinity term,
requests and a claim of its own; some have owners, groups, sub-groups, faults or no room; namespaces, queues, priority
classes and nodes are replaced as well.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import json
import random
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kai_sched.api import names
from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.login import Credentials
from kai_sched.cluster.paths import GROUPS
from kai_sched.model.read.kinds import POD, POD_GROUP, QUEUE, Kind
from kai_sched.operator.app import build_intake, connect
from kai_sched.operator.base import Base
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.recorder import CycleRecorder
from kai_sched.operator.http.live_page import LivePage
from kai_sched.operator.http.pages import Pages
from kai_sched.operator.http.webhook_service import WebhookService
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.intake.sources import SOURCES
from kai_sched.operator.options import RunOptions
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.worlds import FREE, NODE
from tests.unit.resident import resident_bytes

Object = dict[str, Any]

BATCH = 100
ALIVE_BATCHES = 2
NODES, GPUS = 8, 2
CLAIM: Kind = ("v1", "PersistentVolumeClaim")
VOLUME: Kind = ("v1", "PersistentVolume")
NAMESPACE: Kind = ("v1", "Namespace")
PRIORITY_CLASS: Kind = ("scheduling.k8s.io/v1", "PriorityClass")
DEADLINE_S, HOUR_S = 60.0, 3600.0
_LIBC = ctypes.CDLL(None)


class Lease:
    """Always held, or never."""

    created, ended, failure, state, holder, identity = False, False, "", "held", "us", "us"
    guarded_s = 5.0

    def __init__(self, leads: bool) -> None:
        self._leads = leads

    def held(self) -> bool:
        return self._leads

    def start(self, name: str) -> None:
        pass

    async def wait_held(self) -> None:
        if not self._leads:
            await asyncio.Event().wait()

    async def wait_lost(self) -> None:
        await asyncio.Event().wait()

    async def release(self, timeout_s: float = 0.0) -> None:
        pass


class Server:
    """What the operator asks, answered from memory. Lists and watches show what is ``put`` and ``remove``d."""

    def __init__(self) -> None:
        self.objects: dict[Kind, dict[str, Object]] = defaultdict(dict)
        self.version = 1
        self.binds_at_once = 48
        self.asked = 0
        self.evicted = 0
        self._kinds = {source.path: source.kind for source in SOURCES}
        self._watched: dict[Kind, asyncio.Queue[bytes]] = {}

    def put(self, kind: Kind, content: Object) -> None:
        """Add or replace an object."""
        self._change(kind, content, "MODIFIED" if _key(content) in self.objects[kind] else "ADDED")
        self.objects[kind][_key(content)] = content

    def remove(self, kind: Kind, key: str) -> None:
        """The object is gone; nothing where it is absent."""
        content = self.objects[kind].pop(key, None)
        if content is not None:
            self._change(kind, content, "DELETED")

    def _change(self, kind: Kind, content: Object, event: str) -> None:
        self.version += 1
        content["metadata"]["resourceVersion"] = str(self.version)
        raw = json.dumps(content)
        if kind in self._watched:
            self._watched[kind].put_nowait(f'{{"type":"{event}","object":{raw}}}'.encode())

    def credentials(self) -> Credentials:
        return Credentials("memory", None, False, None, None, None, None, None, None, ())

    async def list_pages(self, path: str, *_: object, **__: object) -> AsyncGenerator[tuple[list[bytes], str], None]:
        """As of Api; what changes from now on is for the next watch."""
        kind = self._kinds.get(path)
        if kind is None:  # owners: they are got one by one
            yield [], "1"
            return
        self._watched[kind] = asyncio.Queue()
        yield [json.dumps(content).encode() for content in self.objects[kind].values()], str(self.version)

    async def watch(self, path: str, *_: object, **__: object) -> AsyncGenerator[bytes, None]:
        """As of Api; it never ends."""
        lines = self._watched[self._kinds[path]]
        yield b""
        while True:
            yield await lines.get()

    def refusals(self) -> str:
        return ""

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> bytes:
        """As of Api."""
        self.asked += 1
        await asyncio.sleep(0)
        parts = path.split("/")
        content = json.loads(body) if body else {}
        if "namespaces" not in parts or parts[-1] == "events":
            return self._outside(path)
        at = parts.index("namespaces")
        namespace, plural, name, part = (*parts[at + 1 : at + 5], "", "")[:4]
        if plural == "podgroups":
            return self._write(method, path, POD_GROUP, f"{namespace}/{name}", content)
        if plural == "pods" and method == "DELETE":
            self.evicted += 1
            self.remove(POD, f"{namespace}/{name}")
            return b"{}"
        if plural == "pods":
            change = {"spec": {"nodeName": content["target"]["name"]}} if part == "binding" else content
            return self._write(method, path, POD, f"{namespace}/{name}", change)
        owner = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {names.QUEUE_LABEL: "team"}}
        return json.dumps({"kind": "PartialObjectMetadata", "metadata": owner}).encode()

    def _outside(self, path: str) -> bytes:
        """Which groups there are, and which kinds; events, and statuses of queues."""
        if path == GROUPS:
            versions = [{"groupVersion": version} for version in ("apps/v1", "batch/v1")]
            return json.dumps({"groups": [{"versions": versions}]}).encode()
        kinds = [("jobs", "Job"), ("replicasets", "ReplicaSet")]
        found = [{"name": plural, "kind": kind, "namespaced": True} for plural, kind in kinds]
        return json.dumps({"metadata": {"resourceVersion": "1"}, "resources": found}).encode()

    def _write(self, method: str, path: str, kind: Kind, key: str, change: Object) -> bytes:
        if method == "POST" and kind == POD_GROUP:
            change["metadata"] |= {"uid": f"uid-{self.version}", "namespace": key.partition("/")[0]}
            self.put(kind, change)
            return json.dumps(change).encode()
        there = self.objects[kind].get(key)
        if there is None:
            raise ApiFailure(method, path, 404, "NotFound", "there is none")
        meta = change.get("metadata", {})
        if meta.get("uid", there["metadata"]["uid"]) != there["metadata"]["uid"]:
            raise ApiFailure(method, path, 409, "Conflict", "another uid")
        if method == "GET":
            return json.dumps(there).encode()
        merged = change if method == "PUT" else _merged(there, change)
        self.put(kind, merged)
        return json.dumps(merged).encode()


class Traffic:
    """``run`` is a context in which the operator runs; ``pods`` is how many have come so far.

    ``settle_s`` is how long it takes until all that is put off has been done. Unless it ``leads`` the operator is a
    standby, and another one binds the pods.
    """

    def __init__(self, settle_s: float = 1.5, leads: bool = True) -> None:
        self._settle_s = settle_s
        self._leads = leads
        self.server = Server()
        options, settings = RunOptions(), LiveSettings(RunOptions().config, "default")
        api: Any = self.server
        self.later_s = 0.0  # what the operator's clock is ahead of the machine's
        clock = Clock(lambda: time.monotonic() + self.later_s, lambda: time.time_ns() + round(self.later_s * 1e9))
        lease: Any = Lease(leads)
        self.pages = Pages(Metrics("kai", clock.monotonic), lambda: (True, "us"))
        webhooks, rng = WebhookService(options, api, settings, self.pages), random.Random(1)
        recorder = CycleRecorder(Path("unused"), clock.monotonic, time.time)
        self.base = Base(
            options,
            settings,
            api,
            lease,
            self.pages,
            webhooks,
            LivePage(False, "", clock),
            "kai-scheduler/us",
            recorder,
            clock,
            rng,
            asyncio.Event(),
        )
        self.intake = build_intake(self.base)
        self.operator = connect(self.base, self.intake)
        self.pods = 0
        self._number = itertools.count()
        self._batches: deque[list[tuple[Kind, str]]] = deque()
        self._nodes: deque[str] = deque()

    def series(self) -> int:
        """How many lines a scrape has."""
        return self.pages.metrics.render().count(b"\n")

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Traffic]:
        for name, above in (("org", ""), ("team", "org")):
            self.server.put(QUEUE, _queue(name, above))
        await self.operator.start()
        try:
            yield self
        finally:
            await self.operator.stop()
            assert self.operator.failure == ""

    async def come_and_go(self, pods: int) -> None:
        """So many more, a batch at a time; those that can be bound are, before the next ones come."""
        for _ in range(0, pods, BATCH):
            await self._come()
            if len(self._batches) > ALIVE_BATCHES:
                self._leave()

    async def go(self) -> None:
        """All pods go, and an hour passes: what is kept for a time only is forgotten."""
        self.later_s += HOUR_S
        for _ in range(2):  # the second time, what was to be told when the hour was over has been told
            await self._come()
            while self._batches:
                self._leave()
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.sleep(self._settle_s)  # for what is looked at a second later
                await self.intake.writes.drained()

    async def idle(self) -> None:
        """A cycle with nothing in it: what is kept of the last one is nothing then."""
        self.server.put(NAMESPACE, {"metadata": _meta("idle")})
        self.server.remove(NAMESPACE, "idle")
        await asyncio.sleep(self._settle_s)

    def _leave(self) -> None:
        """The oldest batch goes, and with its namespace the PodGroups that were made in it."""
        gone = self._batches.popleft()
        namespace = gone[0][1]
        for kind, key in gone:
            self.server.remove(kind, key)
        for key in [key for key in self.server.objects[POD_GROUP] if key.startswith(f"{namespace}/")]:
            self.server.remove(POD_GROUP, key)

    async def _come(self) -> None:
        number = next(self._number)
        made = self._surroundings(number)
        self._batches.append([(kind, _key(content)) for kind, content in made])
        wanted = []
        for place in range(BATCH):
            around, pod, fits = _pod(number, number * BATCH + place)
            for kind, content in (*around, (POD, pod)):
                made.append((kind, content))
                self._batches[-1].append((kind, _key(content)))
            wanted += [_key(pod)] if fits else []
        for kind, content in made:
            self.server.put(kind, content)
        self.pods += BATCH
        async with asyncio.timeout(DEADLINE_S):
            for key in wanted:
                if not self._leads:
                    await self._bind(key)
                while not (content := self.server.objects[POD][key])["spec"].get("nodeName"):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                self.server.put(POD, content | {"status": {"phase": "Running"}})

    async def _bind(self, key: str) -> None:
        """As the operator that leads does, once ours has seen the pod."""
        while key not in self.intake.sink.known(POD):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        pod = self.server.objects[POD][key]
        self.server.put(POD, pod | {"spec": pod["spec"] | {"nodeName": self._nodes[-1]}})

    def _surroundings(self, number: int) -> list[tuple[Kind, Object]]:
        """A namespace, a queue and a priority class for the batch; a node goes, another comes."""
        while len(self._nodes) < NODES or number % 10 == 9:
            name = f"node-{number}-{len(self._nodes)}"
            self._nodes.append(name)
            self.server.put(NODE, _node(name))
            if len(self._nodes) > NODES:
                self.server.remove(NODE, self._nodes.popleft())
                break
        return [
            (NAMESPACE, {"metadata": {"name": f"space-{number}", "uid": f"space-{number}"}}),
            (QUEUE, _queue(f"team-{number}", "org")),
            (PRIORITY_CLASS, {"metadata": {"name": f"class-{number}", "uid": f"class-{number}"}, "value": 60}),
        ]


def trimmed_bytes() -> int:
    """What this process holds, after all that is garbage has been given back."""
    gc.collect()
    _LIBC.malloc_trim(0)
    return resident_bytes()


def _pod(batch: int, n: int) -> tuple[list[tuple[Kind, Object]], Object, bool]:
    """The pod of that number, what comes with it, and whether it is sure to be bound."""
    space, name = f"space-{batch}", f"pod-{n}"
    labels = {names.QUEUE_LABEL: f"team-{batch}" if n % 2 else "team", "job-name": f"job-{n}"}
    request = {"cpu": f"{10 + n / 1e6:.6f}m", "memory": str(2**20 + n)}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job-name": f"job-{n}"}}}
    claim = {"metadata": _meta(f"data-{n}", space), "spec": {"volumeName": f"volume-{n}"}, "status": {"phase": "Bound"}}
    reference = {"namespace": space, "name": f"data-{n}", "uid": f"uid-data-{n}"}
    volume = {"metadata": _meta(f"volume-{n}"), "spec": {"claimRef": reference}, "status": {"phase": "Bound"}}
    around: list[tuple[Kind, Object]] = [(CLAIM, claim), (VOLUME, volume)]
    meta: Object = _meta(name, space) | {"labels": labels, "annotations": {}}
    match n % 5:
        case 0:
            meta["annotations"][names.POD_GROUP_ANNOTATION] = f"group-{n}"
            sub = {"name": f"part-{n}", "minMember": 1}
            labels[names.SUB_GROUP_LABEL] = f"part-{n}"
            spec = {"queue": labels[names.QUEUE_LABEL], "minMember": 1, "subGroups": [sub]}
            around.append((POD_GROUP, {"metadata": _meta(f"group-{n}", space), "spec": spec}))
        case 1:
            meta["ownerReferences"] = [_owner("batch/v1", "Job", n)]
        case 2:
            meta["ownerReferences"] = [_owner("apps/v1", "ReplicaSet", n)]
        case 3 if n % 50 == 3:
            meta["ownerReferences"] = [_owner(f"team-{n}.example.com/v1", "Widget", n)]
    gpus, fits = 0, n % 50 != 3  # nobody knows a Widget
    if n % 25 in (6, 7):  # each second batch with a priority that drives those of the one before from the GPUs
        gpus, fits = 1, False
        labels["priorityClassName"] = "inference" if batch % 2 else f"class-{batch}"
    elif n % 25 == 11:
        labels[names.QUEUE_LABEL], fits = f"nobody-{n}", False
    elif n % 50 == 12:
        gpus, fits = 100 + n, False
    elif n % 50 == 13:
        request["cpu"], fits = f"{n} cores", False
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "resources": {"requests": request | limits, "limits": limits}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{n}"}}],
        "nodeSelector": {},
    }
    return around, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}, fits


def _meta(name: str, namespace: str = "") -> Object:
    born = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"name": name, "uid": f"uid-{name}"} | born | ({"namespace": namespace} if namespace else {})


def _owner(version: str, kind: str, n: int) -> Object:
    return {"apiVersion": version, "kind": kind, "name": f"owner-{n}", "uid": f"uid-owner-{n}", "controller": True}


def _node(name: str) -> Object:
    size = {"cpu": "1000", "memory": "1000Gi", "pods": "1000", "nvidia.com/gpu": str(GPUS)}
    ready = [{"type": "Ready", "status": "True"}]
    meta = _meta(name) | {"labels": {"kubernetes.io/hostname": name}}
    return {"metadata": meta, "spec": {}, "status": {"allocatable": size, "conditions": ready}}


def _queue(name: str, above: str) -> Object:
    spec = {"resources": {"cpu": FREE, "memory": FREE, "gpu": FREE}} | ({"parentQueue": above} if above else {})
    return {"metadata": _meta(name), "spec": spec}


def _key(content: Object) -> str:
    meta = content["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def _merged(old: Object, change: Object) -> Object:
    """The merge patch. Lists, as conditions, are replaced as a whole."""
    new = dict(old)
    for name, value in change.items():
        before = new.get(name)
        new[name] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return new
