"""The objects known so far. Changing them marks them; reading them gives one consistent view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from kai_sched.model.objects import (
    ConfigMap,
    Namespace,
    Node,
    Object,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    StorageClass,
    Volume,
    VolumeClaim,
)

KINDS: tuple[type[Object], ...] = (
    Queue,
    Node,
    PodGroup,
    Pod,
    PriorityClass,
    VolumeClaim,
    Volume,
    StorageClass,
    ConfigMap,
    Namespace,
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One consistent view of the store, keyed by name or "namespace/name". Safe to read from another thread.

    ``changes`` are the (kind, key) pairs touched since ``changes_since``; a reader that has seen a view with
    ``serial >= changes_since`` of the same ``store_id`` needs to look at nothing else.
    """

    queues: Mapping[str, Queue]
    nodes: Mapping[str, Node]
    pod_groups: Mapping[str, PodGroup]
    pods: Mapping[str, Pod]
    priority_classes: Mapping[str, PriorityClass]
    volume_claims: Mapping[str, VolumeClaim]
    volumes: Mapping[str, Volume]
    storage_classes: Mapping[str, StorageClass]
    config_maps: Mapping[str, ConfigMap]
    namespaces: Mapping[str, Namespace]
    store_id: object
    serial: int
    changes_since: int
    changes: frozenset[tuple[type[Object], str]]

    @classmethod
    def of(cls, objects: Iterable[Object]) -> Cluster:
        """The cluster made of these objects, for callers that keep no store."""
        store = Store()
        for item in objects:
            store.put(item)
        return store.cluster()


class Store:
    """Mutable, single-threaded: the owner puts and removes objects, and takes a view for each cycle."""

    def __init__(self) -> None:
        self._tables: dict[type[Object], dict[str, Object]] = {kind: {} for kind in KINDS}
        self._serial = 0
        self._changes_since = 0
        self._changes: set[tuple[type[Object], str]] = set()

    def put(self, item: Object) -> None:
        """Add the object, or replace the one of the same kind and key."""
        self._tables[type(item)][item.key] = item
        self._mark(type(item), item.key)

    def remove(self, kind: type[Object], key: str) -> None:
        """Forget the object; one that is not there is no error, as events may repeat."""
        if self._tables[kind].pop(key, None) is not None:
            self._mark(kind, key)

    def get(self, kind: type[Object], key: str) -> Object | None:
        return self._tables[kind].get(key)

    def _mark(self, kind: type[Object], key: str) -> None:
        self._serial += 1
        self._changes.add((kind, key))

    def cluster(self) -> Cluster:
        """A view of now. Each view carries the changes since the view before it."""
        tables = {kind: dict(table) for kind, table in self._tables.items()}
        view = Cluster(
            queues=cast(dict[str, Queue], tables[Queue]),
            nodes=cast(dict[str, Node], tables[Node]),
            pod_groups=cast(dict[str, PodGroup], tables[PodGroup]),
            pods=cast(dict[str, Pod], tables[Pod]),
            priority_classes=cast(dict[str, PriorityClass], tables[PriorityClass]),
            volume_claims=cast(dict[str, VolumeClaim], tables[VolumeClaim]),
            volumes=cast(dict[str, Volume], tables[Volume]),
            storage_classes=cast(dict[str, StorageClass], tables[StorageClass]),
            config_maps=cast(dict[str, ConfigMap], tables[ConfigMap]),
            namespaces=cast(dict[str, Namespace], tables[Namespace]),
            store_id=self,
            serial=self._serial,
            changes_since=self._changes_since,
            changes=frozenset(self._changes),
        )
        self._changes_since = self._serial
        self._changes.clear()
        return view
