"""What the API server tells becomes the store. Level-triggered: what is put here is a state, never an order.

Objects come by lists and by watches of the reflectors, in any order between kinds. Of one kind, what is older than what
is known is passed over. Kopf's handlers tell of some kinds a second time, earlier or later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
import structlog

from kai_sched.api import core
from kai_sched.model.config import Config
from kai_sched.model.faults import FieldError
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Object, Phase, Pod, PodGroup
from kai_sched.model.read import CLASSES, NAMESPACED, POD, POD_GROUP, Kind, Reader
from kai_sched.model.store import Store
from kai_sched.operator.groups import Groups

log = structlog.get_logger("feed")

# What else wants to see the objects as they come: (kind, "namespace/name", raw JSON, what makes it unusable). The JSON
# is None for one that is gone, and for a pod that has its node; the text is empty for one that can be used.
Observer = Callable[[Kind, str, bytes | None, str], None]


OTHER_SCHEDULER = "spec.schedulerName"


class _Version(core.Wire):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None


class _Versioned(core.Wire):
    metadata: _Version | None = None


_decode_pod = msgspec.json.Decoder(core.Pod).decode
_decode_version = msgspec.json.Decoder(_Versioned).decode


class Feed:
    """The sink of all lists and watches, for one event loop.

    ``changed`` is called after each change of the store, with whether it can matter to who is waiting. ``broken`` holds
    what is wrong with each object that cannot be used, by kind and key: it is left out, and all others go on.
    """

    def __init__(self, store: Store, config: Config, changed: Callable[[bool], None], observer: Observer) -> None:
        self._store = store
        self.overlay = Overlay(store)
        self._reader = Reader(config)
        self.groups = Groups(store, self.overlay, self._reader, config, changed)
        self._scheduler = config.scheduler_name
        self._changed = changed
        self._observe = observer
        self._versions: dict[Kind, dict[str, int]] = {}
        self._listing: dict[Kind, set[str]] = {}
        self._gone: dict[Kind, dict[str, int]] = {}
        self._newest: dict[Kind, int] = {}  # version that was ever seen of the kind
        self.listed: set[Kind] = set()  # kinds of which there has been a complete list
        self.broken: dict[tuple[Kind, str], str] = {}

    def known(self, kind: Kind) -> Mapping[str, int]:
        """Keys of the objects of the kind, and the versions in which they are known."""
        return self._versions.get(kind, {})

    def begin(self, kind: Kind) -> None:
        """A complete list follows."""
        self._listing[kind] = set()
        self._gone[kind] = {}

    def item(self, kind: Kind, raw: bytes) -> None:
        """One object of the list."""
        wire = _decode(kind, raw)
        key, version = _key_and_version(kind, wire)
        listed = self._listing.get(kind)
        if listed is not None:
            listed.add(key)
        if version > self._gone.get(kind, {}).get(key, -1):
            self._put(kind, key, version, raw, wire)

    def finish(self, kind: Kind) -> None:
        """The list is complete: what it did not name is gone."""
        listed = self._listing.pop(kind, set())
        self._gone.pop(kind, None)
        for key in [key for key in self.known(kind) if key not in listed]:
            self._remove(kind, key)
        self.listed.add(kind)
        self._changed(True)

    def changed(self, kind: Kind, raw: bytes) -> None:
        """The object is there, in this version."""
        wire = _decode(kind, raw)
        key, version = _key_and_version(kind, wire)
        if kind in self._listing:
            self._listing[kind].add(key)
        self._put(kind, key, version, raw, wire)

    def heard(self, kind: Kind, raw: bytes) -> None:
        """As ``changed``, from one who may tell late, and need not tell that the object has been deleted meanwhile.

        The reflector tells in order. So an object that is not known, in a version that is not new, is one that was
        deleted, or one that the reflector is about to tell of.
        """
        key, version = _key_and_version(kind, _decode_version(raw))
        if version > self.known(kind).get(key, self._newest.get(kind, -1)):
            self.changed(kind, raw)

    def deleted(self, kind: Kind, raw: bytes) -> None:
        """The object is gone; ``raw`` is its last version."""
        key, version = _key_and_version(kind, _decode(kind, raw))
        self._newest[kind] = max(version, self._newest.get(kind, -1))
        if version < self.known(kind).get(key, -1):
            return
        if kind in self._listing:
            self._listing[kind].discard(key)
            self._gone[kind][key] = version
        self._remove(kind, key)

    def _put(self, kind: Kind, key: str, version: int, raw: bytes, wire: core.Pod | _Versioned) -> None:
        self._newest[kind] = max(version, self._newest.get(kind, -1))
        versions = self._versions.setdefault(kind, {})
        if version <= versions.get(key, -1):
            return
        versions[key] = version
        if kind not in CLASSES:
            self._observe(kind, key, raw, "")
            self._changed(True)
            return
        found, fault = self._read(kind, key, raw, wire)
        self._observe(kind, key, None if isinstance(found, Pod) and found.node else raw, fault)
        before, serial = self._store.get(CLASSES[kind], key), self._store.serial
        if isinstance(found, Pod) and isinstance(wire, core.Pod):
            if found.scheduler != self._scheduler and not found.node:
                # Another's pod in one of our groups counts as a member, but it is not ours to place.
                found = replace(found, gates=(*found.gates, OTHER_SCHEDULER))
            found = self.groups.take(wire, found)
            if found is None:
                self.overlay.gone(key)
            else:
                self.overlay.observe(found)
        elif kind == POD_GROUP:
            self.groups.show(key, raw, found if isinstance(found, PodGroup) else None)
        elif found is None:
            self._forget(kind, key)
        else:
            self._store.put(found)
        if self._store.serial != serial:
            after = self._store.get(CLASSES[kind], key)
            self._changed(not (_only_runs(before, after) or _only_shown(before, after)))

    def _read(self, kind: Kind, key: str, raw: bytes, wire: core.Pod | _Versioned) -> tuple[Object | None, str]:
        """The object, or what makes it unusable."""
        problems: list[str] = []

        def warn(field: str, message: str) -> None:
            problems.append(f"{field}: {message}")

        try:
            found = (
                self._reader.read_pod(wire, warn) if isinstance(wire, core.Pod) else self._reader.read(kind, raw, warn)
            )
        except FieldError as error:
            self._tell(kind, key, str(error), "object.unusable")
            return None, str(error)
        if problems:
            self._tell(kind, key, "; ".join(problems), "object.doubtful")
        else:
            self.broken.pop((kind, key), None)
        return found, ""

    def _tell(self, kind: Kind, key: str, text: str, event: str) -> None:
        if self.broken.get((kind, key)) != text:
            self.broken[kind, key] = text
            log.warning(event, kind=kind[1], object=key, problem=text)

    def _remove(self, kind: Kind, key: str) -> None:
        self._versions.get(kind, {}).pop(key, None)
        self.broken.pop((kind, key), None)
        self._observe(kind, key, None, "")
        if kind in CLASSES:
            self._forget(kind, key)
        self._changed(True)

    def _forget(self, kind: Kind, key: str) -> None:
        if kind == POD:
            self.groups.drop(key)
            self.overlay.gone(key)
        elif kind == POD_GROUP:
            self.groups.show(key, None, None)
        else:
            self._store.remove(CLASSES[kind], key)


def _only_runs(before: Object | None, after: Object | None) -> bool:
    """Whether all that happened is that a pod that has its node has begun to run: nobody gets a place by that."""
    return (
        isinstance(before, Pod)
        and isinstance(after, Pod)
        and before.node == after.node != ""
        and (before.phase, after.phase) == (Phase.PENDING, Phase.RUNNING)
        and replace(before, phase=after.phase) == after
    )


def _only_shown(before: Object | None, after: Object | None) -> bool:
    """Whether all that happened is that a group that held already is in the API server now, or was told its start."""
    return (
        isinstance(before, PodGroup)
        and isinstance(after, PodGroup)
        and replace(before, uid=after.uid, created_ns=after.created_ns, last_start_ns=after.last_start_ns) == after
    )


def _decode(kind: Kind, raw: bytes) -> core.Pod | _Versioned:
    """All of a pod, as pods are many; of other objects who they are. Of a pod that cannot be read, that, too."""
    if kind == POD:
        try:
            return _decode_pod(raw)
        except msgspec.ValidationError:
            pass
    return _decode_version(raw)


def _key_and_version(kind: Kind, wire: core.Pod | _Versioned) -> tuple[str, int]:
    meta = wire.metadata or _Version()
    version = meta.resource_version or "0"
    key = f"{meta.namespace or 'default'}/{meta.name}" if kind[1] in NAMESPACED else meta.name or ""
    return key, int(version) if version.isdecimal() else 0
