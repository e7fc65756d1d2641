"""A grouper before an API server in memory, which keeps owners, PodGroups and pods, and tells the sink of changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from kai_sched.api import names
from kai_sched.cluster.client import ApiFailure
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, PodGroup, PriorityClass
from kai_sched.model.read.kinds import Kind
from kai_sched.model.store import Store
from kai_sched.operator.grouping.kubernetes_groups import KubernetesGroups
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.intake.status_observer import StatusObserver
from kai_sched.operator.reporting.observations import Observations
from kai_sched.plan.effects import Emit
from kai_sched.reconcile.status.owner_reconciler import OwnerIndex
from tests.unit.operator.builders import Grouping, Intake

Object = dict[str, Any]
PLURALS = {"Job": "jobs", "CronJob": "cronjobs", "RayCluster": "rayclusters", "PodGroup": "podgroups", "Pod": "pods"}
PLURALS |= {"RayService": "rayservices", "Workload": "workloads", "Deployment": "deployments", "JobSet": "jobsets"}
KINDS = {
    "apps/v1": ("Deployment",),
    "batch/v1": ("Job", "CronJob"),
    "example.com/v1": ("Workload",),
    "jobset.x-k8s.io/v1alpha2": ("JobSet",),
    "ray.io/v1": ("RayCluster", "RayService"),
}
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups"


def job(name: str = "train", least: int = 2, **labels: str) -> Object:
    """A Job whose pods start together."""
    meta = {"labels": {"kai.scheduler/queue": "team", **labels}}
    meta["annotations"] = {"kai.scheduler/batch-min-member": str(least)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta | {"name": name, "uid": f"uid-{name}"}}


def ray_cluster(name: str, workers: int) -> Object:
    """A RayCluster of a head and so many workers."""
    spec = {"workerGroupSpecs": [{"groupName": "workers", "replicas": workers, "minReplicas": workers}]}
    meta = {"name": name, "uid": f"uid-{name}", "labels": {"kai.scheduler/queue": "team"}}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": spec}


def workload(name: str, **annotations: str) -> Object:
    """A workload of a kind without a rule."""
    meta = {"name": name, "uid": f"uid-{name}", "annotations": annotations, "labels": {"kai.scheduler/queue": "team"}}
    return {"apiVersion": "example.com/v1", "kind": "Workload", "metadata": meta}


def deployment(name: str = "web") -> Object:
    """A Deployment, each of whose pods is a group."""
    return {**job(name), "apiVersion": "apps/v1", "kind": "Deployment"}


def below(owner: Object, content: Object) -> Object:
    """The content, owned by the owner."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**content, "metadata": {**content["metadata"], "ownerReferences": [reference]}}


def path_of(content: Object) -> str:
    version, kind = content["apiVersion"], content["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/ml/{PLURALS[kind]}/{content['metadata']['name']}"


class MemoryApi:
    """Objects by path. ``before`` is awaited before each request, and may raise, ``after`` before a write is answered;
    ``seen`` is told of each change; ``kinds`` are those that own pods."""

    def __init__(self, seen: Callable[[Kind, Object | None, Object], None]) -> None:
        self.objects: dict[str, Object] = {}
        self.kinds = dict(KINDS)
        self.asked: list[tuple[str, str, bool]] = []  # verb, path, whether all of the object was asked for
        self.version = 100
        self.seen = seen
        self.before: Callable[[str, str], Awaitable[None]] | None = None
        self.after: Callable[[str, str], Awaitable[None]] | None = None

    def asked_for(self, verb: str, part: str = "") -> int:
        return sum(one[0] == verb and part in one[1] for one in self.asked)

    async def request(self, method: str, path: str, *, body: bytes | None = None, accept: str = "", **_: Any) -> bytes:
        self.asked.append((method, path, "as=" not in accept))
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(method, path)
        if method == "GET":
            return json.dumps(self._get(path)).encode()
        content = json.loads(body or b"{}")
        if method == "POST":
            path = f"{path}/{content['metadata']['name']}"
            if path in self.objects:
                raise ApiFailure(method, path, 409, "AlreadyExists", "it is there")
            content["metadata"]["uid"] = f"uid-{self.version}"
        elif method == "PUT":
            if content["metadata"]["resourceVersion"] != self._get(path, method)["metadata"]["resourceVersion"]:
                raise ApiFailure(method, path, 409, "Conflict", "it has changed")
        else:
            content = self._patched(path, content["metadata"])
        answer = json.dumps(self.put(content, path)).encode()
        if self.after is not None:
            await self.after(method, path)
        return answer

    async def list_pages(
        self, path: str, _: object, limit: int = 500, accept: str = "", **__: Any
    ) -> AsyncGenerator[tuple[list[bytes], str], None]:
        """The objects right below the path."""
        found = [self.objects[each] for each in sorted(self.objects) if each.rpartition("/")[0] == path]
        for start in range(0, len(found), limit):
            self.asked.append(("LIST", path, "as=" not in accept))
            await asyncio.sleep(0)
            if self.before is not None:
                await self.before("LIST", path)
            yield [json.dumps(each).encode() for each in found[start : start + limit]], str(self.version)

    def put(self, content: Object, path: str = "") -> Object:
        """Add or replace an object."""
        self.version += 1
        content = json.loads(json.dumps(content))
        content["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path or path_of(content)] = content
        self._tell(content, content)
        return content

    def delete(self, path: str) -> None:
        content = self.objects.pop(path)
        self._tell(None, content)

    def _tell(self, now: Object | None, content: Object) -> None:
        if content["kind"] in ("Pod", "PodGroup"):
            self.seen((content["apiVersion"], content["kind"]), now, content)

    def _get(self, path: str, method: str = "GET") -> Object:
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": each}]} for each in self.kinds]}
        version = path.removeprefix("/apis/")
        if version in self.kinds:
            return {"resources": [{"name": PLURALS[each], "kind": each} for each in self.kinds[version]]}
        if path not in self.objects:
            raise ApiFailure(method, path, 404, "NotFound", "there is none")
        return self.objects[path]

    def _patched(self, path: str, change: Object) -> Object:
        content: Object = json.loads(json.dumps(self._get(path)))
        if content["metadata"]["uid"] != change["uid"]:
            raise ApiFailure("PATCH", path, 409, "Conflict", "another uid")
        for part in ("annotations", "labels"):
            content["metadata"][part] = content["metadata"].get(part, {}) | change.get(part, {})
        return content


class Played:
    """The grouper and all around it. ``delayed``: news of the API server wait until ``deliver``."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.store = Store()
        self.store.put(PriorityClass("train", 50))
        self.changes = 0
        self.owners = OwnerIndex(lambda *_: None)
        self.intake = Intake(self.store, self.config, self._changed, self._observe, self.owners)
        settings, groups = LiveSettings(self.config, names.DEFAULT_SHARD), KubernetesGroups(self.intake.requests)
        self.news = Observations()
        self.observer = StatusObserver(self.config, settings, groups.show, self.news)
        self.sink = self.intake.sink
        self.api = MemoryApi(self._seen)
        self.delayed = False
        self._news: list[tuple[Kind, Object | None, Object]] = []
        self.events: list[Emit] = []
        self.busy = False
        self.grouping = Grouping(self.api, self.intake, lambda: self.config, self.events.extend, lambda: self.busy)
        self.grouper = self.grouping.grouper
        self.task: asyncio.Task[None] | None = None

    def _changed(self, _: bool) -> None:
        self.changes += 1

    def _observe(self, kind: Kind, key: str, raw: bytes | None, fault: str) -> None:
        self.observer(kind, key, raw, fault)

    def _seen(self, kind: Kind, now: Object | None, content: Object) -> None:
        self._news.append((kind, now, content))
        if not self.delayed:
            self.deliver()

    def deliver(self) -> None:
        """The watches tell all that has happened."""
        news, self._news = self._news, []
        for kind, now, content in news:
            if now is None:
                self.sink.deleted(kind, json.dumps(content).encode())
            else:
                self.sink.changed(kind, json.dumps(now).encode())

    def start(self) -> None:
        """This replica leads."""
        self.task = asyncio.create_task(self.grouping.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def owned(self, owner: Object, name: str, node: str = "", **metadata: Any) -> Object:
        """A pod of the owner, put into the cluster."""
        meta = owner["metadata"]
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
        about = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "ownerReferences": [reference], **metadata}
        spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]} | (
            {"nodeName": node} if node else {}
        )
        return self.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec, "status": {}})

    def place(self, name: str) -> tuple[str, str] | None:
        """Group and sub-group of the pod in the store; None where it is not there."""
        pod = self.store.get(Pod, f"ml/{name}")
        return (pod.group, pod.sub_group) if isinstance(pod, Pod) else None

    def group(self, name: str) -> PodGroup | None:
        """The PodGroup in the store."""
        found = self.store.get(PodGroup, f"ml/{name}")
        return found if isinstance(found, PodGroup) else None

    def shown(self, name: str) -> tuple[str | None, str | None]:
        """What the pod says in the API server of its group and sub-group."""
        meta = self.api.objects[f"/api/v1/namespaces/ml/pods/{name}"]["metadata"]
        return (
            meta.get("annotations", {}).get("pod-group-name"),
            meta.get("labels", {}).get("kai.scheduler/subgroup-name"),
        )


async def until(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - there is nobody to tell
            await asyncio.sleep(0.005)


async def settle(played: Played) -> None:
    """Wait until nothing is left to be done at once."""
    await asyncio.sleep(0.02)
    await until(lambda: played.grouping.pending == 0)
    await asyncio.sleep(0.02)
