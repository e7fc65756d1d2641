"""What an event of the API server changes in the store: which versions are ignored, which pods are kept, and what
follows an unusable object.

Objects come from lists and watches, in any order between kinds. Of one object, a version older than the known one is
ignored. Kopf hands events of queues and pod groups on a second time, earlier or later. Invariant: an object that cannot
be used, or that makes something raise, is left out and logged; all other objects are handled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Protocol

import structlog

from kai_sched.api import core
from kai_sched.model.claims.objects import ResourceClaim
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Object, Phase, Pod, PodGroup
from kai_sched.model.read.kinds import CLASSES, KUBERNETES_GROUP, POD, POD_GROUP, RESOURCE_CLAIM, Kind, Reader
from kai_sched.model.store import Store
from kai_sched.operator.intake.object_head import ObjectHead, read_head
from kai_sched.plan.effects import Ref
from kai_sched.telemetry.unexpected import FAULTS

log = structlog.get_logger("intake")

# Called with each object: kind, key, raw JSON, and what makes the object unusable. The JSON is None for an object that
# is gone, and for a pod with a node; the text is empty for an object that can be used.
Observer = Callable[[Kind, str, bytes | None, str], None]


OTHER_SCHEDULER = "spec.schedulerName"


# The condition of a node with a pod that cannot be read: how much room that pod takes is unknown, so the node is full.
UNREADABLE_POD = "UnreadablePod"
_all_but_phase = attrgetter(*(each.name for each in fields(Pod) if each.name != "phase"))


class PodGate(Protocol):
    """Decides how pods and PodGroups of workloads appear in the store. ``grouping.groups.Groups`` is one."""

    def take(self, wire: core.WirePod, pod: Pod) -> Pod | None:
        """Return the pod as the store shows it, None for one that is held back until its group is decided."""

    def gone(self, key: str) -> None:
        """The pod is gone."""

    def show(self, key: str, raw: bytes | None, found: PodGroup | None) -> None:
        """The API server shows the PodGroup so: ``found`` is None if it is unusable, ``raw`` is None if it is gone."""


class EventSink:
    """The sink of all reflectors, for one event loop. It implements ``cluster.reflector.Sink``.

    Parameters
    ----------
    store
        Where objects are shown.
    overlay
        Where pods and claims for devices are shown, with what is under way for them.
    reader
        Reads objects.
    gate
        Holds pods back and places them in groups.
    config
        The settings that objects are read with.
    changed
        Called after each change of the store, with whether it may unblock a pending pod.
    observer
        Sees each object, for statuses and settings.

    Attributes
    ----------
    listed
        The kinds that have been listed completely.
    broken
        The problems of objects, by kind and key. An object with doubtful fields is used; an unusable one is left out.
        If an unusable object is a pod with a node, that node has the condition UNREADABLE_POD.
    """

    def __init__(
        self,
        store: Store,
        overlay: Overlay,
        reader: Reader,
        gate: PodGate,
        config: Config,
        changed: Callable[[bool], None],
        observer: Observer,
    ) -> None:
        self._store = store
        self._overlay = overlay
        self._reader = reader
        self._gate = gate
        self._scheduler = config.scheduler_name
        self._changed = changed
        self._observe = observer
        self._versions: dict[Kind, dict[str, int]] = {}
        self._listing: dict[Kind, set[str]] = {}
        self._gone: dict[Kind, dict[str, int]] = {}
        self._newest: dict[Kind, int] = {}  # the highest version that was seen of the kind
        # Up to which version an object of the kind that is not known is gone: of the last deletion, or list.
        self._gone_until: dict[Kind, int] = {}
        self._unreadable: dict[str, str] = {}  # pods that cannot be read, and the nodes that they hold
        self.listed: set[Kind] = set()
        self.broken: dict[tuple[Kind, str], str] = {}

    def known(self, kind: Kind) -> Mapping[str, int]:
        """Return the versions in which the objects of the kind are known, by key."""
        return self._versions.get(kind, {})

    def pending_version(self, ref: Ref) -> str:
        """Return the resourceVersion in which the pod is known to wait for a node; empty if it does not wait."""
        pod = self._store.get(Pod, ref.key)
        if pod is None or pod.uid != ref.uid or pod.node or pod.deleted_ns:
            return ""
        return str(self.known(POD).get(ref.key, ""))

    def expect(self, kind: Kind, key: str) -> None:
        """The observer knows the object from before: if the first list does not have it, it is gone."""
        self._versions.setdefault(kind, {}).setdefault(key, -1)

    def begin(self, kind: Kind) -> None:
        """A complete list follows."""
        self._listing[kind] = set()
        self._gone[kind] = {}

    def item(self, kind: Kind, raw: bytes) -> None:
        """One object of the list."""
        seen = read_head(kind, raw)
        if seen is None:
            return
        listed = self._listing.get(kind)
        if listed is not None:
            listed.add(seen.key)
        if seen.version > self._gone.get(kind, {}).get(seen.key, -1):
            self._put(kind, raw, seen)

    def finish(self, kind: Kind) -> None:
        """The list is complete: objects that were not in it are gone."""
        listed = self._listing.pop(kind, set())
        self._gone.pop(kind, None)
        for key in [key for key in self.known(kind) if key not in listed]:
            self._remove(kind, key)
        self._gone_until[kind] = self._newest.get(kind, -1)
        self.listed.add(kind)
        self._changed(True)

    def changed(self, kind: Kind, raw: bytes) -> None:
        """The object exists, in this version."""
        seen = read_head(kind, raw)
        if seen is None:
            return
        if kind in self._listing:
            self._listing[kind].add(seen.key)
        self._put(kind, raw, seen)

    def changed_late(self, kind: Kind, raw: bytes) -> None:
        """As ``changed``, for events of kopf and answers, which may come late and without the deletion that followed.

        The reflector reports deletions in order. So an unknown object in a version from before one may be gone, or the
        reflector is about to report it.
        """
        seen = read_head(kind, raw)
        if seen is not None and seen.version > self.known(kind).get(seen.key, self._gone_until.get(kind, -1)):
            self.changed(kind, raw)

    def deleted(self, kind: Kind, raw: bytes) -> None:
        """The object was deleted; ``raw`` is its last version."""
        seen = read_head(kind, raw)
        if seen is None:
            return
        self._newest[kind] = max(seen.version, self._newest.get(kind, -1))
        self._gone_until[kind] = max(seen.version, self._gone_until.get(kind, -1))
        if seen.version < self.known(kind).get(seen.key, -1):
            return
        if kind in self._listing:
            self._listing[kind].discard(seen.key)
            self._gone[kind][seen.key] = seen.version
        self._remove(kind, seen.key)

    def _put(self, kind: Kind, raw: bytes, seen: ObjectHead) -> None:
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
            fault = FAULTS.note("intake", f"{kind[1]} {key}", error)
            self._report(kind, key, fault, "object.unusable")
            versions[key] = seen.version - 1  # the next list tries it again
            if kind != POD_GROUP:  # a PodGroup stays as it was: it exists, so it must not be created again
                self._forget(kind, key)
            self._changed(True)
        if kind == POD and (fault or key in self._unreadable):
            self._hold(key, self._node_of(seen, before) if fault else "")

    def _take(self, kind: Kind, raw: bytes, seen: ObjectHead) -> str:
        """Show the object in the store; return what makes it unusable."""
        key = seen.key
        if kind not in CLASSES:
            self._have_observed(kind, key, raw, "")
            if kind != KUBERNETES_GROUP:  # it counts once its pods are grouped again
                self._changed(True)
            return ""
        found, fault = self._read(kind, raw, seen)
        self._have_observed(kind, key, None if isinstance(found, Pod) and found.node else raw, fault)
        before, serial = self._store.get(CLASSES[kind], key), self._store.serial
        if isinstance(found, Pod) and seen.pod is not None:
            self._take_pod(seen.pod, found)
        elif kind == POD_GROUP:
            self._gate.show(key, raw, found if isinstance(found, PodGroup) else None)
        elif found is None:
            self._forget(kind, key)
        elif isinstance(found, ResourceClaim):
            self._overlay.claims.observe(found, seen.version)
        else:
            self._store.put(self._marked(found) if isinstance(found, Node) else found)
        if self._store.serial != serial:
            after = self._store.get(CLASSES[kind], key)
            self._changed(not (_only_runs(before, after) or _only_shown(before, after)))
        return fault

    def _take_pod(self, wire: core.WirePod, pod: Pod) -> None:
        """Show the pod in its group, or hold it back until its group is known."""
        if pod.scheduler != self._scheduler and not pod.node:
            # A pod of another scheduler in one of our groups counts as a member, but is not placed.
            pod = replace(pod, gates=(*pod.gates, OTHER_SCHEDULER))
        grouped = self._gate.take(wire, pod)
        if grouped is None:
            self._overlay.gone(pod.key)
        else:
            self._overlay.observe(grouped)

    def _node_of(self, seen: ObjectHead, before: Object | None) -> str:
        """The node where the pod takes room: by itself, by what was known of it, or by a bind under way."""
        if seen.node or seen.has_ended:
            return "" if seen.has_ended else seen.node
        return before.node if isinstance(before, Pod) else self._unreadable.get(seen.key, "")

    def _hold(self, key: str, node: str) -> None:
        """Mark the node of a pod that cannot be read as full; without ``node`` the pod holds none."""
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
        """The node as the store shows it: with UNREADABLE_POD if it holds a pod that cannot be read."""
        holds = bool(self._unreadable) and node.name in self._unreadable.values()
        if holds == (UNREADABLE_POD in node.bad_conditions):
            return node
        others = tuple(each for each in node.bad_conditions if each != UNREADABLE_POD)
        return replace(node, bad_conditions=(*others, UNREADABLE_POD) if holds else others)

    def _read(self, kind: Kind, raw: bytes, seen: ObjectHead) -> tuple[Object | None, str]:
        """Return the object, or what makes it unusable."""
        key = seen.key
        problems: list[str] = []

        def warn(field: str, message: str) -> None:
            problems.append(f"{field}: {message}")

        try:
            found = self._reader.read(kind, raw, warn) if seen.pod is None else self._reader.read_pod(seen.pod, warn)
        except FieldError as error:
            self._report(kind, key, str(error), "object.unusable")
            return None, str(error)
        if problems:
            self._report(kind, key, "; ".join(problems), "object.doubtful")
        else:
            self.broken.pop((kind, key), None)
        return found, ""

    def _report(self, kind: Kind, key: str, text: str, event: str) -> None:
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
        """Remove the object from the store, whatever raises."""
        try:
            if kind == POD:
                self._gate.gone(key)
            elif kind == POD_GROUP:
                self._gate.show(key, None, None)
        except Exception as error:
            FAULTS.note("intake", f"{kind[1]} {key}", error)
        if kind == POD:
            self._overlay.gone(key)
        elif kind == RESOURCE_CLAIM:
            self._overlay.claims.gone(key)
        elif kind != POD_GROUP and kind in CLASSES:
            self._store.remove(CLASSES[kind], key)


def _only_runs(before: Object | None, after: Object | None) -> bool:
    """Whether the only change is that a pod with a node has begun to run: that helps no pending pod."""
    return (
        isinstance(before, Pod)
        and isinstance(after, Pod)
        and before.node == after.node != ""
        and (before.phase, after.phase) == (Phase.PENDING, Phase.RUNNING)
        and _all_but_phase(before) == _all_but_phase(after)
    )


def _only_shown(before: Object | None, after: Object | None) -> bool:
    """Whether the only change is that the API server has the group now, or its start time."""
    return (
        isinstance(before, PodGroup)
        and isinstance(after, PodGroup)
        and replace(before, uid=after.uid, created_ns=after.created_ns, last_start_ns=after.last_start_ns) == after
    )
