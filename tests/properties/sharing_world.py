"""A cluster in memory with pods that share GPUs: an API server that is late, loses answers and fails, kubelets with a
device plugin, and the real executor before it, which may be killed at any moment.

Time is that of ``VirtualLoop``: it jumps to whatever is due next, so minutes of waiting take none.
"""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from collections.abc import AsyncGenerator
from typing import Any

from kai_sched.api import core, names
from kai_sched.cluster.claim_requests import ClaimWriter
from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.pod_binder import BindFailure, PodBinder
from kai_sched.cluster.sharing_requests import SharingRequests
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.run import run_cycle
from kai_sched.lowering.cache import Cache
from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.read.kinds import POD, QUEUE, Kind, Reader
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.delivery.bind_tracker import BindTracker
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.operator.delivery.cycle_executor import CycleExecutor
from kai_sched.operator.delivery.eviction_tracker import EvictionTracker
from kai_sched.operator.delivery.gpu_reservations import GpuReservations
from kai_sched.operator.delivery.share_binder import ShareBinder
from kai_sched.operator.intake.event_sink import EventSink
from kai_sched.plan.effects import Bind, Evict

Object = dict[str, Any]
NODE: Kind = ("v1", "Node")
NAMESPACE = ReservationSettings().namespace
NODES, GPUS = 2, 2
# Nobody is evicted, so that who runs and who waits follows from what comes and goes.
CONFIG = Config(actions=("allocate",), reservation=ReservationSettings(image="kai-sched"), proves_shares=True)
LATE_S = 2.0  # the longest that a request, an answer or an event of the watch takes


class _Jump(selectors.DefaultSelector):
    """Waits for nothing: instead the time moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to what is due next."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


class Server:
    """The API server and the kubelets. ``faults`` is the part of the requests that fail, half of them carried out."""

    def __init__(self, seed: int, nodes: int = NODES, gpus: int = GPUS) -> None:
        self.gpus = gpus
        self.chance = random.Random(seed)
        self.faults = 0.0
        self.pods: dict[str, Object] = {}
        self.maps: dict[str, Object] = {}
        self.queues = _queues()
        self.nodes = {f"node-{n}": _node(f"node-{n}", gpus) for n in range(nodes)}
        self.mute: set[str] = set()
        self.refused: list[str] = []  # pods that found no device on their node
        self.paths: list[str] = []  # of all requests but lists
        self.version = 0
        self._uid = 0
        self._watch: asyncio.Queue[tuple[Kind, str, bytes]] | None = None

    # What the cluster does

    def put(self, pod: Object) -> None:
        """Add a pod, or show a new version of it."""
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        if "uid" not in pod["metadata"]:
            self._uid += 1
            pod["metadata"]["uid"] = f"uid-{self._uid}"
        self.pods[_key(pod)] = pod
        self._tell("MODIFIED", pod)

    def end(self, key: str) -> None:
        """The pod is gone, and what it owns."""
        pod = self.pods.pop(key)
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.maps = {name: each for name, each in self.maps.items() if _owner(each) != pod["metadata"]["uid"]}
        self._tell("DELETED", pod)

    def die(self, node: str) -> None:
        """The node is gone, and with it its pods, as the garbage collector of pods has it."""
        self._tell("DELETED", self.nodes.pop(node), NODE)
        for key in [key for key, pod in self.pods.items() if pod["spec"].get("nodeName") == node]:
            self.end(key)

    def join(self, node: str) -> None:
        """A node comes."""
        self.version += 1
        self.nodes[node] = _node(node, self.gpus, self.version)
        self._tell("ADDED", self.nodes[node], NODE)

    def _tell(self, event: str, content: Object, kind: Kind = POD) -> None:
        if self._watch is not None:
            self._watch.put_nowait((kind, event, json.dumps(content).encode()))

    def watch(self) -> tuple[list[bytes], asyncio.Queue[tuple[Kind, str, bytes]]]:
        """What there is, and what will be told from now on."""
        self._watch = asyncio.Queue()
        return [json.dumps(pod).encode() for pod in self.pods.values()], self._watch

    def kubelets(self) -> None:
        """Pods that have come to a node are admitted or refused; those that leave, or whose node is gone, go."""
        for key, pod in sorted(self.pods.items()):
            if pod["metadata"].get("deletionTimestamp") or pod["spec"].get("nodeName", "") not in {"", *self.nodes}:
                self.end(key)
        for key, pod in list(self.pods.items()):
            node = pod["spec"].get("nodeName")
            if not node or pod["status"]["phase"] != "Pending" or node in self.mute:
                continue
            wanted = int(pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", 0))
            free = self._free(node)
            if wanted > len(free):
                self.refused.append(key)
                self.put(pod | {"status": {"phase": "Failed"}})
                continue
            notes = {"devices": ",".join(free[:wanted])}
            if pod["metadata"]["namespace"] == NAMESPACE:
                notes[names.RESERVED_DEVICE_ANNOTATION] = free[0]
            self.put(_merged(pod, {"metadata": {"annotations": notes}, "status": {"phase": "Running"}}))

    def _free(self, node: str) -> list[str]:
        taken = {
            device
            for pod in self.pods.values()
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running"
            for device in pod["metadata"]["annotations"].get("devices", "").split(",")
        }
        return [device for device in (f"GPU-{node}-{n}" for n in range(self.gpus)) if device not in taken]

    # What the scheduler asks

    async def list_pages(self, path: str, params: dict[str, str]) -> AsyncGenerator[tuple[list[bytes], str], None]:
        assert path.endswith("/pods")
        await self._travel()
        node = params["fieldSelector"].partition("=")[2]
        there = [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == node]
        yield [json.dumps(pod).encode() for pod in there], str(self.version)

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: object) -> bytes:
        self.paths.append(path)
        await self._travel()
        if self.chance.random() < self.faults / 2:
            raise ApiFailure(method, path, self.chance.choice((0, 429, 500)), "Lost", "not carried out")
        answer = self._carry_out(method, path, json.loads(body) if body else {})
        if self.chance.random() < self.faults / 2:
            raise ApiFailure(method, path, 0, "Timeout", "carried out, but nobody heard of it")
        await self._travel()
        return json.dumps(answer).encode()

    async def _travel(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.0, LATE_S if self.faults else 0.01))

    def _carry_out(self, method: str, path: str, content: Object) -> Object:
        parts = path.split("/")
        namespace, plural, name, part = (*parts[parts.index("namespaces") + 1 :], "", "")[:4]
        table = self.pods if plural == "pods" else self.maps
        key = f"{namespace}/{name or content['metadata']['name']}"
        if method == "POST" and not part:
            if key in table:
                raise ApiFailure(method, path, 409, "AlreadyExists", key)
            if plural == "pods":
                self.put(content | {"status": {"phase": "Pending"}})
            else:
                self.maps[key] = content
            return content
        found = table.get(key)
        if found is None:
            raise ApiFailure(method, path, 404, "NotFound", key)
        if method == "GET":
            return found
        uid = content.get("preconditions", content.get("metadata", {})).get("uid", found["metadata"].get("uid"))
        if uid != found["metadata"].get("uid"):
            raise ApiFailure(method, path, 409, "Conflict", "another uid")
        if plural != "pods":
            table[key] = _merged(found, content)
        elif method == "DELETE":
            self.put(_merged(found, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        elif part == "binding":
            if found["spec"].get("nodeName"):
                raise ApiFailure(method, path, 409, "Conflict", "it has a node")
            if content["metadata"].get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
                raise ApiFailure(method, path, 409, "Conflict", "another version")
            self.put(_merged(found, {"spec": {"nodeName": content["target"]["name"]}}))
        else:
            self.put(_merged(found, content))
        return self.pods.get(key, {}) if plural == "pods" else table[key]


class Replica:
    """The executor as one process has it: informers, cycles, binds, reservations. ``kill`` ends it in mid-sentence."""

    def __init__(self, server: Server, loop: VirtualLoop) -> None:
        self.server = server
        self.loop = loop
        rng = random.Random(server.chance.random())
        clock = Clock(loop.time, lambda: int(loop.time() * 1e9))
        self.store = Store()
        overlay = Overlay(self.store)
        trigger, news = CycleTrigger(overlay), asyncio.Event()
        reader = Reader(CONFIG)

        def changed(matters: bool) -> None:
            trigger.request(matters)
            news.set()

        self.sink = EventSink(self.store, overlay, reader, _Gate(), CONFIG, changed, lambda *_: None)
        api: Any = server
        claims = ClaimReservations(ClaimWriter(api, lambda _: (), rng), overlay.claims, trigger.request)
        self.reports = _Reports()
        self.binds = BindTracker(self.store, overlay, trigger, self.reports, clock, claims)
        evictions = EvictionTracker(self.store, overlay, FifoQueue[Evict](), self.reports, trigger, clock)
        requests = SharingRequests(api, rng)
        binder = PodBinder(api, FifoQueue(), self.binds, rng)
        self.reservations = GpuReservations(
            requests, (self.store, overlay), news, lambda: CONFIG, lambda _: None, "", clock, rng
        )
        self.binds.retries.awaited_devices = self.reservations.awaited
        self.shares = ShareBinder(requests, self.reservations, self.store, lambda: CONFIG, binder.submit, self.binds)
        self.executor = CycleExecutor(evictions, self.binds, lambda group, _: self.shares.submit(group), lambda _: None)
        self._parts = (self._follow, self._decide, binder.run, self.reservations.run)
        self._tasks: list[asyncio.Task[None]] = []
        self._trigger, self._cache, self._tracker = trigger, Cache(), HintTracker()

    async def start(self) -> None:
        listed, self._watch = self.server.watch()
        for kind, objects in ((QUEUE, self.server.queues), (NODE, self.server.nodes.values())):
            for each in objects:
                self.sink.changed(kind, json.dumps(each).encode())
        self.sink.begin(POD)
        for raw in listed:
            self.sink.item(POD, raw)
        self.sink.finish(POD)
        self._tasks = [asyncio.create_task(part()) for part in self._parts]

    async def kill(self) -> None:
        """End all tasks, whatever they do."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, self.shares.stop(), return_exceptions=True)

    def check(self) -> None:
        """No part has ended by itself."""
        for task in self._tasks:
            if task.done():
                task.result()
                raise AssertionError(task)

    async def _follow(self) -> None:
        while True:
            kind, event, raw = await self._watch.get()
            await asyncio.sleep(self.server.chance.uniform(0.0, LATE_S if self.server.faults else 0.01))
            (self.sink.deleted if event == "DELETED" else self.sink.changed)(kind, raw)

    async def _decide(self) -> None:
        while True:
            self._trigger.clear()
            now, view = self.loop.time(), self.store.cluster()
            hints = self.binds.retries.next_hints(now, self._tracker, self.binds.retries.awaited_devices())
            result = run_cycle(view, CONFIG, int(now * 1e9), self._cache, hints=hints)
            self.binds.retries.settle(view, result, hints)
            self._tracker.record(view, result, CONFIG)
            await self.executor.carry_out(DecidedCycle(view, result, 0.0, CONFIG))
            end = self.binds.retries.next_end(now)
            await self._trigger.wait(None if end is None else max(0.01, end - now))


class _Gate:
    """All pods of the tests are bare pods, which are shown as they are."""

    def take(self, wire: core.WirePod, pod: Pod) -> Pod | None:
        assert wire
        return pod

    def gone(self, key: str) -> None:
        pass

    def show(self, key: str, raw: bytes | None, found: PodGroup | None) -> None:
        pass


class _Reports:
    """Hears what binds and evictions came to; keeps why binds were given up."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def failed(self, bind: Bind, failure: BindFailure, _: float | None) -> None:
        self.failures.append(f"{bind.pod}: {failure.message}")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def pod(name: str, fraction: str, devices: int = 1) -> Object:
    """A pod that asks for a part of each of some devices, or for whole ones where the fraction is "1"."""
    whole = fraction == "1"
    limits = {"cpu": "1", **({"nvidia.com/gpu": str(devices)} if whole else {})}
    notes = {
        names.GPU_FRACTION_ANNOTATION: fraction,
        names.GPU_DEVICES_ANNOTATION: str(devices),
        names.SHARED_GPU_CONFIG_MAP_ANNOTATION: f"{name}-maps",
    }
    container = {"name": "main", "resources": {"requests": limits, "limits": limits}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "labels": {names.QUEUE_LABEL: "team"},
            "annotations": {} if whole else notes,
        },
        "spec": {"schedulerName": "kai-scheduler", "containers": [container]},
        "status": {"phase": "Pending"},
    }


def _queues() -> list[Object]:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"cpu": free, "memory": free, "gpu": free}}
    above = {"metadata": _meta("org"), "spec": spec}
    return [above, {"metadata": _meta("team"), "spec": spec | {"parentQueue": "org"}}]


def _node(name: str, gpus: int, version: int = 1) -> Object:
    size = {"cpu": "640", "memory": "64Gi", "pods": "1000", "nvidia.com/gpu": str(gpus)}
    status = {"allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = _meta(name, labels={names.GPU_MEMORY_LABEL: "1000"}) | {"resourceVersion": str(version)}
    return {"metadata": meta, "spec": {}, "status": status}


def _meta(name: str, **more: Any) -> Object:
    return {"name": name, "uid": name, "resourceVersion": "1", **more}


def _key(content: Object) -> str:
    return f"{content['metadata']['namespace']}/{content['metadata']['name']}"


def _owner(content: Object) -> str:
    found: str = content["metadata"]["ownerReferences"][0]["uid"]
    return found


def _merged(content: Object, change: Object) -> Object:
    """As a merge patch has it: null removes."""
    found = dict(content)
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = _merged(found.get(key) or {}, value)
        else:
            found[key] = value
    return found
