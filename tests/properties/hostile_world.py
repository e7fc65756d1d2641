"""A small sane cluster, hostile objects beside it, and what an API server would have to say about both.

The sane part is the namespace ``sane``, the queues below ``org`` and the tainted nodes s1 and s2, where one gang binds,
another waits for room and somebody has to go for it. What is hostile has a namespace, a queue and a node of its own:
``evil``, ``evil`` and ``a``, and may ask for all of that. Every other name is ``a`` too, as that is what a sane name is
in ``hostile_wire``, so that what is put into an object refers to something that is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import structlog
from hypothesis import strategies as st

from kai_sched import Cache, CycleResult, Store, run_cycle
from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import NAMESPACED, Kind
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.reporting.observations import Observations, observe_all
from kai_sched.plan.effects import Write
from kai_sched.reconcile.status.reconciler import StatusReconciler
from kai_sched.telemetry.unexpected import FaultLog
from tests.properties.expressions import expressions
from tests.properties.hostile_values import encode, shown
from tests.properties.hostile_wire import Site, hostile, put, schema_of, sites, whole
from tests.unit.operator.builders import Intake, observer_of

Object = dict[str, Any]

NOW_NS = 1_800_000_000 * 10**9
CLASS_VALUE = 50
CREATED = "2027-01-15T07:00:00Z"
GPU = names.NVIDIA_GPU
ROOM = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
VERSIONS = {
    "Queue": names.QUEUE_VERSION,
    "PodGroup": names.POD_GROUP_VERSION,
    "BindRequest": names.BIND_REQUEST_VERSION,
    "SchedulingShard": names.CONFIG_VERSION,
    "Config": names.CONFIG_VERSION,
    "Topology": names.TOPOLOGY_VERSION,
    "NodeResourceTopology": names.NODE_TOPOLOGY_VERSION,
    **dict.fromkeys(("StorageClass", "CSIDriver", "CSIStorageCapacity", "CSINode"), names.STORAGE_VERSION),
    "PriorityClass": "scheduling.k8s.io/v1",
    "DeviceClass": names.DRA_VERSION,
    "ResourceSlice": names.DRA_VERSION,
    "ResourceClaim": names.DRA_VERSION,
    "DeviceTaintRule": names.DRA_TAINT_VERSION,
}


def kind_of(kind: str) -> Kind:
    """With its version."""
    return VERSIONS.get(kind, "v1"), kind


def thing(kind: str, name: str, namespace: str = "", **content: Any) -> Object:
    """An object of any kind; ``labels`` and ``annotations`` go into its metadata."""
    meta: Object = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}", "creationTimestamp": CREATED}
    meta |= {"namespace": namespace} if namespace else {}
    for field in ("labels", "annotations"):
        meta |= {field: content.pop(field)} if field in content else {}
    return {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": meta, **content}


def pod(name: str, namespace: str, queue: str, gpus: int, *, node: str = "", group: str = "", **spec: Any) -> Object:
    """A pod of ours; on the sane nodes where it is sane, else on the node ``a``."""
    asks = {"cpu": "1"} | ({GPU: str(gpus)} if gpus else {})
    sane = namespace == "sane"
    content: Object = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "a", "resources": {"requests": asks}}],
        "nodeSelector": {"pool": "sane"} if sane else {"a": "a"},
    }
    content |= {"tolerations": [{"key": "sane", "operator": "Exists"}]} if sane else {}
    content |= ({"nodeName": node} if node else {}) | spec
    marks = {names.QUEUE_LABEL: queue, names.PRIORITY_CLASS_LABEL: "a"}
    marks |= {} if sane else {"a": "a", "kubernetes.io/hostname": "a"}
    notes = {names.POD_GROUP_ANNOTATION: group} if group else {}
    phase = "Running" if node else "Pending"
    return thing("Pod", name, namespace, labels=marks, annotations=notes, spec=content, status={"phase": phase})


def node(name: str, **spec: Any) -> Object:
    """A node that is ready; ``a`` is for what is hostile."""
    marks = {"kubernetes.io/hostname": name} | ({"pool": "sane"} if name.startswith("s") else {"a": "a"})
    ready = {"type": "Ready", "status": "True"}
    return thing("Node", name, labels=marks, spec=spec, status={"allocatable": ROOM, "conditions": [ready]})


def queue(name: str, parent: str = "", gpus: int = -1) -> Object:
    """A queue that gets its GPUs and nothing over them: what others ask for changes nothing for it."""
    gpu = {"quota": gpus, "limit": -1, "overQuotaWeight": 0}
    spec = {"resources": {"cpu": FREE, "memory": FREE, "gpu": gpu}} | ({"parentQueue": parent} if parent else {})
    return thing("Queue", name, spec=spec)


def group(name: str, namespace: str, queue: str, least: int, **spec: Any) -> Object:
    """A PodGroup whose pods may be evicted."""
    content = {"queue": queue, "minMember": least, "priorityClassName": "a", **spec}
    return thing("PodGroup", name, namespace, spec=content)


def sane_objects() -> list[Object]:
    """Blue has 12 of 16 GPUs, 8 of them guaranteed; green asks for its 8, so one of blue's pods has to go."""
    only = {"key": "sane", "value": "only", "effect": "NoSchedule"}
    found = [node("s1", taints=[only]), node("s2", taints=[only]), node("a")]
    found += [queue("org"), queue("blue", "org", 8), queue("green", "org", 8), queue("evil", gpus=8)]
    found += [thing("PriorityClass", "a", value=CLASS_VALUE), thing("Namespace", "sane"), thing("Namespace", "evil")]
    for number, where in enumerate(("s1", "s1", "s2")):
        name = f"blue{number}"
        found += [group(name, "sane", "blue", 1), pod(name, "sane", "blue", 4, node=where, group=name)]
    found += [group("large", "sane", "green", 2), group("small", "sane", "green", 2)]
    found += [pod(f"large-{number}", "sane", "green", 4, group="large") for number in range(2)]
    found += [pod(f"small-{number}", "sane", "green", 0, group="small") for number in range(2)]
    return [*found, pod("held", "evil", "evil", 3, node="a"), pod("rival", "evil", "evil", 3)]


def bases() -> dict[str, Object]:
    """What hostile values are put into, by the name of the role."""
    storage = {"requests": {"storage": "1Gi"}}
    claim = {"storageClassName": "a", "accessModes": ["ReadWriteOnce"], "resources": storage}
    volume = {"storageClassName": "a", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    capacity = {"storageClassName": "a", "capacity": "1Gi", "nodeTopology": {"matchLabels": {"a": "a"}}}
    slices = {"driver": "a", "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}, "nodeName": "a"}
    slices |= {"devices": [{"name": "a"}, {"name": "b"}]}
    asked = {"name": "a", "exactly": {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 1}}
    taint = {"key": "a", "value": "a", "effect": "NoSchedule"}
    foreign = {"schedulerName": "default-scheduler"}
    system = pod("system", "kube-system", "", 2, node="a", **foreign)
    system["metadata"]["labels"] = {"app": "proxy"}
    owned = pod("owned", "evil", "evil", 1)
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "job"}]
    return {
        "pod that waits": pod("a", "evil", "evil", 2),
        "pod on a node": pod("holds", "evil", "evil", 2, node="a"),
        "pod in a group": pod("a-0", "evil", "evil", 1, group="a"),
        "pod of another scheduler": pod("other", "evil", "evil", 2, **foreign),
        "pod of the system": system,
        "pod of a workload": owned,
        "PodGroup": group("a", "evil", "evil", 1),
        "BindRequest": thing("BindRequest", "rival", "evil", spec={"podName": "rival", "selectedNode": "a"}),
        "Queue": queue("evil", gpus=8),
        "Node": node("b"),
        "PriorityClass": thing("PriorityClass", "b", value=60),
        "PersistentVolumeClaim": thing("PersistentVolumeClaim", "a", "evil", spec=claim, status={"phase": "Pending"}),
        "PersistentVolume": thing("PersistentVolume", "a", spec=volume, status={"phase": "Available"}),
        "StorageClass": thing("StorageClass", "a", provisioner="a", volumeBindingMode="WaitForFirstConsumer"),
        "CSIDriver": thing("CSIDriver", "a", spec={"storageCapacity": True}),
        "CSIStorageCapacity": thing("CSIStorageCapacity", "a", "evil", **capacity),
        "CSINode": thing("CSINode", "a", spec={"drivers": [{"name": "a", "allocatable": {"count": 1}}]}),
        "ConfigMap": thing("ConfigMap", "a", "evil"),
        "DeviceClass": thing("DeviceClass", "a", spec={"selectors": [{"cel": {"expression": "device.driver == 'a'"}}]}),
        "ResourceSlice": thing("ResourceSlice", "a", spec=slices),
        "ResourceClaim": thing("ResourceClaim", "a", "evil", spec={"devices": {"requests": [asked]}}),
        "DeviceTaintRule": thing("DeviceTaintRule", "a", spec={"deviceSelector": {"device": "b"}, "taint": taint}),
        "pod with a claim": pod("claims", "evil", "evil", 0, resourceClaims=[{"name": "a", "resourceClaimName": "a"}]),
        "Namespace": thing("Namespace", "evil", labels={"a": "a", "kubernetes.io/hostname": "a"}),
        "SchedulingShard": thing("SchedulingShard", "default", spec={}),
        "Config": thing("Config", "kai-config", spec={}),
        "NodeResourceTopology": thing("NodeResourceTopology", "a", zones=[{"name": "node-0", "type": "Node"}]),
        "Topology": thing(
            "Topology", "a", spec={"levels": [{"nodeLabel": "a"}, {"nodeLabel": "kubernetes.io/hostname"}]}
        ),
    }


BASES = bases()
TENANTS = [role for role in BASES if role.startswith("pod ")] + ["PodGroup"]
ADMINISTRATORS = [role for role in BASES if role not in TENANTS]
SETTINGS = ("SchedulingShard", "Config")


@dataclass(frozen=True)
class Hostile:
    """An object as it was, and as somebody has made it. ``changes``: what was put where."""

    role: str
    sane: Object
    content: Object
    changes: tuple[tuple[Site, Any], ...]

    def __repr__(self) -> str:
        return f"{self.role}: " + ", ".join(f"{site!r} = {shown(value)}" for site, value in self.changes)

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """How hypothesis shows it."""
        printer.text(f"<{self!r}>")

    @property
    def kind(self) -> Kind:
        return kind_of(self.sane["kind"])


def sites_of(kind: str, versions: bool = False) -> dict[str, list[Site]]:
    """The places of an object in groups that are about as important: no one with all that a status could say."""
    found: dict[str, list[Site]] = {}
    for site in sites(schema_of(kind)):
        if site.path and (versions or site.path[-1] != "resourceVersion"):
            depth = 1 if site.path[0] == "status" and kind not in ("Node", "Pod") else 2
            found.setdefault(".".join(map(str, site.path[:depth])), []).append(site)
    return found


def hostiles(roles: Sequence[str], most: int = 3, versions: bool = False) -> st.SearchStrategy[Hostile]:
    """One object with one to ``most`` hostile values in it; ``versions``: its resourceVersion, too, may be one."""
    places = {kind: sites_of(kind, versions) for kind in {BASES[role]["kind"] for role in roles}}
    entire = {kind: whole(schema_of(kind)) for kind in places}

    @st.composite
    def one(draw: st.DrawFn) -> Hostile:
        role = draw(st.sampled_from(roles))
        sane = content = BASES[role]
        mine = places[sane["kind"]]
        changes = []
        for _ in range(draw(st.integers(1, most))):
            site = draw(st.sampled_from(mine[draw(st.sampled_from(sorted(mine)))]))
            is_cel = site.path[-2:] == ("cel", "expression") and draw(st.booleans())
            value = draw(expressions() if is_cel else hostile(site.node))
            content = put(content, entire[sane["kind"]], site.path, value)
            changes.append((site, value))
        return Hostile(role, sane, content, tuple(changes))

    return one()


class World:
    """A sink, the store behind it, a warm cache and a reconciler, as the operator has them; time stands still.

    ``objects`` are those that the API server has: what was fed last, by kind and key.
    """

    def __init__(self) -> None:
        self.settings = LiveSettings(Config(), names.DEFAULT_SHARD)
        self.settings.fixed = True
        self.store = Store()
        self.cache = Cache()
        self.reconciler, self.news = StatusReconciler(Config()), Observations()
        observer = observer_of(Config(), self.settings, self.news)
        self.intake = Intake(self.store, observer=observer, owners=self.news.owners)
        self.sink = self.intake.sink
        self.objects: dict[tuple[Kind, str], Object] = {}
        self.steady_ns = 10**12
        self._version = 0

    def list(self, objects: Iterable[Object]) -> None:
        """Complete lists of the kinds of these objects, and nothing else of these kinds."""
        by_kind: dict[Kind, list[Object]] = {}
        for each in objects:
            by_kind.setdefault(kind_of(each["kind"]), []).append(each)
        for kind, items in by_kind.items():
            self.sink.begin(kind)
            for key in [key for key in self.objects if key[0] == kind]:
                del self.objects[key]
            for each in items:
                self.sink.item(kind, self._noted(each))
            self.sink.finish(kind)

    def show(self, content: Object) -> None:
        """ADDED or MODIFIED."""
        self.sink.changed(kind_of(content["kind"]), self._noted(content))

    def drop(self, content: Object) -> None:
        """DELETED."""
        raw = self._noted(content)
        self.objects.pop((kind_of(content["kind"]), key_of(content)), None)
        self.sink.deleted(kind_of(content["kind"]), raw)

    def _noted(self, content: Object) -> bytes:
        self._version += 1
        meta = content.get("metadata")
        if isinstance(meta, dict):
            content = {**content, "metadata": {**meta, "resourceVersion": str(self._version)}}
        self.objects[kind_of(content["kind"]), key_of(content)] = content
        return encode(content)

    def decide(self, cache: Cache | None = None) -> CycleResult:
        """One cycle on what is known, with the warm cache or another."""
        return run_cycle(self.store.cluster(), self.settings.config, NOW_NS, cache or self.cache)

    def told(self, result: CycleResult) -> list[Write]:
        """What people are to be told of the cycle, and again half a minute later."""
        observe_all(self.news.take(), self.reconciler)
        found: list[Write] = []
        for _ in range(2):
            found += self.reconciler.writes(self.store.cluster(), result, NOW_NS, self.steady_ns)[0]
            self.steady_ns += 31 * 10**9
        return found


def key_of(content: Object) -> str:
    """What the API server would know the object by."""
    meta = content.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = json.dumps(meta.get("name"))
    return f"{json.dumps(meta.get('namespace') or 'default')}/{name}" if content["kind"] in NAMESPACED else name


def world_of(objects: Iterable[Object]) -> World:
    """A new one that has seen just these."""
    world = World()
    world.list(objects)
    return world


@contextmanager
def strict() -> Iterator[None]:
    """An exception that the operator did not expect, and lives on after, is raised; and nothing is logged."""

    def raised(_self: FaultLog, _part: str, _item: str, error: Exception) -> str:
        raise error

    def drop(*_: object) -> str:
        raise structlog.DropEvent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FaultLog, "note", raised)
        structlog.configure(processors=[drop])
        yield
        structlog.reset_defaults()


# What must not change


def sane_part(result: CycleResult) -> object:
    """What is decided of the sane pods: where they stand, and what is done in which order."""
    stands = {key: (state.status, state.node) for key, state in result.pods.items() if key.startswith("sane/")}
    done = [(type(each).__name__, each.pod, each.node) for each in result.effects if each.pod.startswith("sane/")]
    return stands, done


def may_compete(content: Object) -> bool:
    """Whether it may change the sane plan by right: a pod for all nodes, or another value of the sane pods' class."""
    meta = content.get("metadata")
    if content["kind"] == "PriorityClass" and isinstance(meta, dict) and meta.get("name") == "a":
        return content.get("value") != CLASS_VALUE
    spec = content.get("spec")
    if content["kind"] != "Pod" or not isinstance(spec, dict):
        return False
    selector, tolerations = spec.get("nodeSelector"), spec.get("tolerations")
    chooses = isinstance(selector, dict) and bool(selector)
    endures = isinstance(tolerations, list) and any(
        isinstance(each, dict) and not each.get("key") for each in tolerations
    )
    return endures and not chooses
