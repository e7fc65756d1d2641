"""What the API server tells becomes the store. Level-triggered: what is put here is a state, never an order.

Objects come by lists and by watches of the reflectors, in any order between kinds. Of one kind, what is older than what
is known is passed over. Kopf's handlers tell of some kinds a second time, earlier or later. Nothing that an object says
ends more than its own turn: what cannot be used is left out and told, and all others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec
import structlog

from kai_sched.api import core
from kai_sched.model.config import Config
from kai_sched.model.faults import FieldError
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Object, Phase, Pod, PodGroup
from kai_sched.model.read import CLASSES, NAMESPACED, POD, POD_GROUP, Kind, Reader
from kai_sched.model.read_meta import version_number
from kai_sched.model.store import Store
from kai_sched.operator.groups import Groups
from kai_sched.telemetry.faults import FAULTS

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


# A condition of a node with a pod that cannot be read: as nobody knows how much room it takes, no other is put there.
UNREADABLE_POD = "UnreadablePod"
_ENDED = frozenset({"Succeeded", "Failed"})

_decode_pod = msgspec.json.Decoder(core.WirePod).decode
_decode_version = msgspec.json.Decoder(_Versioned).decode
_decode_any = msgspec.json.Decoder().decode


class _Seen(NamedTuple):
    """What is looked at of each object: who it is, and of a pod where it runs, and whether it has ended and takes no
    room any more. ``pod`` is None where the whole of it cannot be read."""

    key: str
    version: int
    node: str = ""
    has_ended: bool = False
    pod: core.WirePod | None = None


class Feed:
    """The sink of all lists and watches, for one event loop.

    ``changed`` is called after each change of the store, with whether it can matter to who is waiting. ``broken`` holds
    what is wrong with each object that cannot be used, by kind and key: it is left out, and all others go on. Where
    such a pod has a node, the node has the condition UNREADABLE_POD.
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
        self._unreadable: dict[str, str] = {}  # pods that cannot be read, and the nodes that they hold
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
        seen = _see(kind, raw)
        if seen is None:
            return
        listed = self._listing.get(kind)
        if listed is not None:
            listed.add(seen.key)
        if seen.version > self._gone.get(kind, {}).get(seen.key, -1):
            self._put(kind, raw, seen)

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
        seen = _see(kind, raw)
        if seen is None:
            return
        if kind in self._listing:
            self._listing[kind].add(seen.key)
        self._put(kind, raw, seen)

    def heard(self, kind: Kind, raw: bytes) -> None:
        """As ``changed``, from one who may tell late, and need not tell that the object has been deleted meanwhile.

        The reflector tells in order. So an object that is not known, in a version that is not new, is one that was
        deleted, or one that the reflector is about to tell of.
        """
        seen = _see(kind, raw)
        if seen is not None and seen.version > self.known(kind).get(seen.key, self._newest.get(kind, -1)):
            self.changed(kind, raw)

    def deleted(self, kind: Kind, raw: bytes) -> None:
        """The object is gone; ``raw`` is its last version."""
        seen = _see(kind, raw)
        if seen is None:
            return
        self._newest[kind] = max(seen.version, self._newest.get(kind, -1))
        if seen.version < self.known(kind).get(seen.key, -1):
            return
        if kind in self._listing:
            self._listing[kind].discard(seen.key)
            self._gone[kind][seen.key] = seen.version
        self._remove(kind, seen.key)

    def _put(self, kind: Kind, raw: bytes, seen: _Seen) -> None:
        key = seen.key
        self._newest[kind] = max(seen.version, self._newest.get(kind, -1))
        versions = self._versions.setdefault(kind, {})
        if seen.version <= versions.get(key, -1):
            return
        versions[key] = seen.version
        before = self._store.get(Pod, key) if kind == POD else None
        try:
            fault = self._take(kind, raw, seen)
        except Exception as error:
            fault = FAULTS.note("feed", f"{kind[1]} {key}", error)
            self._tell(kind, key, fault, "object.unusable")
            versions[key] = seen.version - 1  # when it is listed again, it is tried again
            if kind != POD_GROUP:  # which stays as it was: it is there, so it must not be made anew
                self._forget(kind, key)
            self._changed(True)
        if kind == POD and (fault or key in self._unreadable):
            self._hold(key, self._node_of(seen, before) if fault else "")

    def _take(self, kind: Kind, raw: bytes, seen: _Seen) -> str:
        """Show the object in the store; returns what makes it unusable."""
        key = seen.key
        if kind not in CLASSES:
            self._have_observed(kind, key, raw, "")
            self._changed(True)
            return ""
        found, fault = self._read(kind, raw, seen)
        self._have_observed(kind, key, None if isinstance(found, Pod) and found.node else raw, fault)
        before, serial = self._store.get(CLASSES[kind], key), self._store.serial
        if isinstance(found, Pod) and seen.pod is not None:
            if found.scheduler != self._scheduler and not found.node:
                # Another's pod in one of our groups counts as a member, but it is not ours to place.
                found = replace(found, gates=(*found.gates, OTHER_SCHEDULER))
            found = self.groups.take(seen.pod, found)
            if found is None:
                self.overlay.gone(key)
            else:
                self.overlay.observe(found)
        elif kind == POD_GROUP:
            self.groups.show(key, raw, found if isinstance(found, PodGroup) else None)
        elif found is None:
            self._forget(kind, key)
        else:
            self._store.put(self._marked(found) if isinstance(found, Node) else found)
        if self._store.serial != serial:
            after = self._store.get(CLASSES[kind], key)
            self._changed(not (_only_runs(before, after) or _only_shown(before, after)))
        return fault

    def _node_of(self, seen: _Seen, before: Object | None) -> str:
        """Where the pod takes room, as far as anything says: itself, what was known of it, or a bind under way."""
        if seen.node or seen.has_ended:
            return "" if seen.has_ended else seen.node
        return before.node if isinstance(before, Pod) else self._unreadable.get(seen.key, "")

    def _hold(self, key: str, node: str) -> None:
        """Have the node of a pod that cannot be read take no other; without ``node`` the pod holds none."""
        before = self._unreadable.pop(key, "")
        if node:
            self._unreadable[key] = node
            if node != before:
                log.warning(
                    "node.held", node=node, pod=key, problem="the pod cannot be read, so the node takes no other"
                )
        for name in {before, node} - {""}:
            found = self._store.get(Node, name)
            if found is not None:
                self._store.put(self._marked(found))
        self._changed(True)

    def _marked(self, node: Node) -> Node:
        """The node as it is to be shown, with whether it holds a pod that cannot be read."""
        holds = bool(self._unreadable) and node.name in self._unreadable.values()
        if holds == (UNREADABLE_POD in node.bad_conditions):
            return node
        others = tuple(each for each in node.bad_conditions if each != UNREADABLE_POD)
        return replace(node, bad_conditions=(*others, UNREADABLE_POD) if holds else others)

    def _read(self, kind: Kind, raw: bytes, seen: _Seen) -> tuple[Object | None, str]:
        """The object, or what makes it unusable."""
        key = seen.key
        problems: list[str] = []

        def warn(field: str, message: str) -> None:
            problems.append(f"{field}: {message}")

        try:
            found = self._reader.read(kind, raw, warn) if seen.pod is None else self._reader.read_pod(seen.pod, warn)
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

    def _have_observed(self, kind: Kind, key: str, raw: bytes | None, fault: str) -> None:
        try:
            self._observe(kind, key, raw, fault)
        except Exception as error:
            FAULTS.note("observer", f"{kind[1]} {key}", error)

    def _remove(self, kind: Kind, key: str) -> None:
        self._versions.get(kind, {}).pop(key, None)
        self.broken.pop((kind, key), None)
        self._have_observed(kind, key, None, "")
        if kind in CLASSES:
            self._forget(kind, key)
        if kind == POD and key in self._unreadable:
            self._hold(key, "")
        self._changed(True)

    def _forget(self, kind: Kind, key: str) -> None:
        """Have the store show it no more, whatever else comes of it."""
        try:
            if kind == POD:
                self.groups.gone(key)
            elif kind == POD_GROUP:
                self.groups.show(key, None, None)
        except Exception as error:
            FAULTS.note("feed", f"{kind[1]} {key}", error)
        if kind == POD:
            self.overlay.gone(key)
        elif kind != POD_GROUP and kind in CLASSES:
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


def _see(kind: Kind, raw: bytes) -> _Seen | None:
    """All of a pod, as pods are many; of other objects, and of a pod that cannot be read, what can be."""
    try:
        if kind == POD:
            pod = _decode_pod(raw)
            meta = pod.metadata
            if meta is not None and meta.name:
                node = pod.spec.node_name if pod.spec is not None else None
                has_ended = pod.status is not None and pod.status.phase in _ENDED
                version = version_number(meta.resource_version)
                return _Seen(_key(kind, meta.namespace, meta.name), version, node or "", has_ended, pod)
        else:
            head = _decode_version(raw).metadata
            if head is not None and head.name:
                return _Seen(_key(kind, head.namespace, head.name), version_number(head.resource_version))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return _glance(kind, raw)


def _glance(kind: Kind, raw: bytes) -> _Seen | None:
    """Who the object is; None, and that is told, where nothing of it can be made out."""
    try:
        found = _decode_any(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("object.unreadable", kind=kind[1], problem=str(error))
        return None
    meta = _part(found, "metadata")
    name = _text(meta, "name")
    if not name:
        log.warning("object.unreadable", kind=kind[1], problem="metadata.name: missing, or no text")
        return None
    has_ended = _text(_part(found, "status"), "phase") in _ENDED
    node = _text(_part(found, "spec"), "nodeName")
    return _Seen(
        _key(kind, _text(meta, "namespace"), name), version_number(_text(meta, "resourceVersion")), node, has_ended
    )


def _key(kind: Kind, namespace: str | None, name: str) -> str:
    return f"{namespace or 'default'}/{name}" if kind[1] in NAMESPACED else name


def _part(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None


def _text(found: object, name: str) -> str:
    value = _part(found, name)
    return value if isinstance(value, str) else ""
