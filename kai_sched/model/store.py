"""The store of all objects that the scheduler knows, its consistent views (``Cluster``), and the journal of changes.

The operator and ``files.load`` put objects in; ``run_cycle`` gets a view (``Cluster``). A journal of the changes lets
readers find out what has changed since an earlier view, at a cost that depends on the changes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kai_sched.model.claims.objects import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kai_sched.model.claims.selectors import NO_ANSWERS, SelectorAnswers
from kai_sched.model.numa import NodeZones
from kai_sched.model.objects import (
    BindRequest,
    ConfigMap,
    Namespace,
    Node,
    Object,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    StorageClass,
    Topology,
    Volume,
    VolumeClaim,
)
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver

# What a view calls the objects of each kind.
TABLES: Mapping[type, str] = {
    Queue: "queues",
    Node: "nodes",
    PodGroup: "pod_groups",
    Pod: "pods",
    BindRequest: "bind_requests",
    PriorityClass: "priority_classes",
    VolumeClaim: "volume_claims",
    Volume: "volumes",
    StorageClass: "storage_classes",
    StorageDriver: "storage_drivers",
    StorageCapacity: "storage_capacities",
    NodeVolumes: "node_volumes",
    Topology: "topologies",
    NodeZones: "node_zones",
    ConfigMap: "config_maps",
    Namespace: "namespaces",
    DeviceClass: "device_classes",
    ResourceSlice: "resource_slices",
    ResourceClaim: "resource_claims",
    DeviceTaintRule: "device_taint_rules",
}

# How many changes the journal keeps at least; a reader that is further behind reads all objects.
JOURNAL_LENGTH = 65_536

# An object that was put or removed: its kind and its key.
Change = tuple[type[Object], str]
Kind = TypeVar("Kind", bound=Object)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A consistent view of the store. All mappings are by key (``model.keys``). It may be read by another thread.

    ``store_id`` and ``serial`` identify the view: views with both equal hold the same objects.
    ``selector_answers`` has what is known of the selectors of devices; the store has none.
    """

    queues: Mapping[str, Queue]
    nodes: Mapping[str, Node]
    pod_groups: Mapping[str, PodGroup]
    pods: Mapping[str, Pod]
    bind_requests: Mapping[str, BindRequest]
    priority_classes: Mapping[str, PriorityClass]
    volume_claims: Mapping[str, VolumeClaim]
    volumes: Mapping[str, Volume]
    storage_classes: Mapping[str, StorageClass]
    storage_drivers: Mapping[str, StorageDriver]
    storage_capacities: Mapping[str, StorageCapacity]
    node_volumes: Mapping[str, NodeVolumes]
    topologies: Mapping[str, Topology]
    node_zones: Mapping[str, NodeZones]
    config_maps: Mapping[str, ConfigMap]
    namespaces: Mapping[str, Namespace]
    device_classes: Mapping[str, DeviceClass]
    resource_slices: Mapping[str, ResourceSlice]
    resource_claims: Mapping[str, ResourceClaim]
    device_taint_rules: Mapping[str, DeviceTaintRule]
    store_id: object
    serial: int  # number of changes that the store has seen
    journal: list[Change]  # appended to by the store; only entries before ``serial`` belong to this view
    journal_start: int
    selector_answers: SelectorAnswers = field(default_factory=lambda: NO_ANSWERS)

    def table(self, kind: type[Kind]) -> Mapping[str, Kind]:
        """All objects of the kind, by key."""
        found: Mapping[str, Kind] = getattr(self, TABLES[kind])
        return found

    @classmethod
    def of(cls, objects: Iterable[Object]) -> Cluster:
        """The view of a new store with these objects, for callers that keep no store. Raises TypeError."""
        store = Store()
        for item in objects:
            if type(item) not in TABLES:
                kinds = ", ".join(kind.__name__ for kind in TABLES)
                text = f"a cluster is made of objects of kai_sched.model ({kinds}), not of {type(item).__name__}"
                raise TypeError(f"{text}: kai_sched.load(objects).cluster is made of dictionaries and files")
            store.put(item)
        return store.cluster()

    def changes_since(self, store_id: object, serial: int) -> set[Change] | None:
        """What changed after the view with that serial; None for other stores and beyond the journal."""
        if store_id is not self.store_id or not self.journal_start <= serial <= self.serial:
            return None
        return set(self.journal[serial - self.journal_start : self.serial - self.journal_start])


class Store:
    """The mutable store. For one thread: its owner puts and removes objects and takes a view for each cycle."""

    def __init__(self) -> None:
        # Typed by the key: the table of a kind holds objects of that kind only.
        self._tables: dict[type, dict[str, Any]] = {kind: {} for kind in TABLES}
        self._journal: list[Change] = []
        self._journal_start = 0
        self._id = object()

    @classmethod
    def of(cls, cluster: Cluster) -> Store:
        """A new store with the objects of the view."""
        store = cls()
        for kind, name in TABLES.items():
            store._tables[kind] = dict(getattr(cluster, name))
        return store

    def restore(self, cluster: Cluster) -> None:
        """Make the store what it was when ``cluster`` was viewed; at a cost that depends on the changes since then.

        Raises ValueError for the view of another store, or where the journal does not reach back so far.
        """
        changes = self.changes_since(cluster.serial)
        if cluster.store_id is not self._id or changes is None:
            raise ValueError("the view is of another store, or too old: take a new one")
        for kind, key in changes:
            before = cluster.table(kind).get(key)
            if before is None:
                self.remove(kind, key)
            else:
                self.put(before)

    def put(self, item: Object) -> None:
        """Add the object, or replace the one of the same kind and key. Putting an equal object is no change."""
        table = self._tables[type(item)]
        key = item.key
        if table.get(key) != item:
            table[key] = item
            self._note(type(item), key)

    def remove(self, kind: type[Object], key: str) -> None:
        """Remove the object. It is no error if there is none, as events may repeat."""
        if self._tables[kind].pop(key, None) is not None:
            self._note(kind, key)

    @property
    def serial(self) -> int:
        """Number of changes so far."""
        return self._journal_start + len(self._journal)

    def changes_since(self, serial: int) -> set[Change] | None:
        """What changed after that serial; None where the journal no longer reaches that far."""
        if not self._journal_start <= serial <= self.serial:
            return None
        return set(self._journal[serial - self._journal_start :])

    def get(self, kind: type[Kind], key: str) -> Kind | None:
        """The object of this kind and key; None where there is none."""
        found: Kind | None = self._tables[kind].get(key)
        return found

    def all(self, kind: type[Kind]) -> Mapping[str, Kind]:
        """The live table of a kind, by key. It changes with the store: do not keep it or pass it to another thread."""
        found: Mapping[str, Kind] = self._tables[kind]
        return found

    def everything(self) -> Iterator[Object]:
        """All objects, kind by kind."""
        for table in self._tables.values():
            yield from table.values()

    def _note(self, kind: type[Object], key: str) -> None:
        if len(self._journal) >= 2 * JOURNAL_LENGTH:
            # a new list: views hold on to the old one
            self._journal_start += JOURNAL_LENGTH
            self._journal = self._journal[JOURNAL_LENGTH:]
        self._journal.append((kind, key))

    def cluster(self) -> Cluster:
        """A view of the current objects; O(number of objects)."""
        tables = {kind: dict(table) for kind, table in self._tables.items()}
        return Cluster(
            queues=tables[Queue],
            nodes=tables[Node],
            pod_groups=tables[PodGroup],
            pods=tables[Pod],
            bind_requests=tables[BindRequest],
            priority_classes=tables[PriorityClass],
            volume_claims=tables[VolumeClaim],
            volumes=tables[Volume],
            storage_classes=tables[StorageClass],
            storage_drivers=tables[StorageDriver],
            storage_capacities=tables[StorageCapacity],
            node_volumes=tables[NodeVolumes],
            topologies=tables[Topology],
            node_zones=tables[NodeZones],
            config_maps=tables[ConfigMap],
            namespaces=tables[Namespace],
            device_classes=tables[DeviceClass],
            resource_slices=tables[ResourceSlice],
            resource_claims=tables[ResourceClaim],
            device_taint_rules=tables[DeviceTaintRule],
            store_id=self._id,
            serial=self.serial,
            journal=self._journal,
            journal_start=self._journal_start,
        )
