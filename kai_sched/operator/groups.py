"""The PodGroups of workloads in memory: what the API server shows, and what the rules want, which holds at once.

Pods of workloads come in from the feed. One that has no group yet is held back until its place is decided; then the
store shows it there, with a PodGroup as it is going to be. What the API server does not show so far is to be written.
No input or output: ``operator.grouper`` looks at the owners, and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

from kai_sched.api import core, names
from kai_sched.model.config import Config, in_pool
from kai_sched.model.faults import FieldError
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.read import POD, POD_GROUP, Kind, Reader
from kai_sched.model.read_meta import version_number
from kai_sched.model.recent import TextPool
from kai_sched.model.store import Store
from kai_sched.operator.members import ALONE, Labelled, Member, concerns, key_of, key_of_group, mark_of, placed, trimmed
from kai_sched.reconcile.grouping.manifest import Grouping, Manifest, merged
from kai_sched.reconcile.grouping.owners import Reference, owner_of_pod

log = structlog.get_logger("grouping")

# Pods go one by one when a workload shrinks: it is looked at once they are gone.
SHRUNK_S = 1.0

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class Group:
    """A PodGroup as the rules want it. ``like`` is the pod that it was made after.

    ``is_sure``: it has been decided since it was last seen to go. ``unwritten`` are the members that do not name it in
    the API server yet.
    """

    wanted: bytes
    source: str
    like: core.WirePod
    members: set[str] = field(default_factory=set)
    unwritten: set[str] = field(default_factory=set)
    is_sure: bool = True


class Groups:
    """For one event loop. ``look`` is told the source that has to be looked at, in so many seconds; ``write`` what has
    to be written; ``left`` which group has lost its last pod; ``changed`` that the store has changed."""

    def __init__(
        self, store: Store, overlay: Overlay, reader: Reader, config: Config, changed: Callable[[bool], None]
    ) -> None:
        self._store = store
        self._overlay = overlay
        self._reader = reader
        self._config = config
        self._changed = changed
        self.look: Callable[[str, float], None] = _nobody
        self.write: Callable[[Kind, str], None] = _nobody
        self.left: Callable[[str], None] = _nobody
        self.doubtful: set[str] = set()  # sources that may be gone, so that nothing known of them counts
        self.held: dict[str, Pod] = {}  # pods without a place, and without a node
        self.labelled = Labelled()
        self._members: dict[str, Member] = {}
        self._pending: dict[str, dict[str, core.WirePod]] = {}  # by source
        self._groups: dict[str, Group] = {}
        self._of_source: dict[str, set[str]] = {}
        self._shown: dict[str, bytes] = {}  # all PodGroups of the API server
        self._same: Callable[[str], str] = TextPool().one

    # What the API server shows

    def take(self, wire: core.WirePod, pod: Pod) -> Pod | None:
        """The pod as the store is to show it; None for one that is held back."""
        key = pod.key
        self.labelled.put(pod)
        meta = wire.metadata or core.Meta()
        member = self._members.get(key)
        if member is not None and member.uid != pod.uid:
            self.drop(key)
            member = None
        if not concerns(wire, self._config.scheduler_name):
            if member is not None:
                self.drop(key)
            return pod
        source = self._same(meta.owner_references[0].uid or "") if meta.owner_references else pod.uid
        mark = mark_of(meta)
        if member is None or member.mark != mark:
            if member is None:
                member = self._members[key] = Member(pod.uid, source, mark)
            elif member.source != source:
                self._settle(member.source, key)
            member.source, member.mark = source, mark
            self._pending.setdefault(source, {})[key] = trimmed(wire)
            self.look(source, 0.0)
        member.leaves = bool(meta.deletion_timestamp)
        version = version_number(meta.resource_version)
        if version > member.version:
            member.shown, member.version = (self._same(pod.group), pod.sub_group), version
        if member.place is not None:
            self._compare(key, member)
            return placed(pod, member.place)
        if pod.group or pod.node:
            self.held.pop(key, None)
            return pod  # its own word holds until it is decided
        self.held[key] = pod
        return None

    def gone(self, key: str) -> None:
        """The pod is gone."""
        self.labelled.drop(key)
        self.drop(key)

    def drop(self, key: str) -> None:
        """The pod concerns us no more."""
        member = self._members.pop(key, None)
        if member is None:
            return
        self.held.pop(key, None)
        self._settle(member.source, key)
        if member.place is not None and member.place[0]:
            name = key_of_group(key, member.place)
            self._leave(name, key)
            if name in self._groups:
                self.look(member.source, SHRUNK_S)

    def show(self, key: str, raw: bytes | None, found: PodGroup | None) -> None:
        """The API server has the PodGroup so; ``found`` is None for one that cannot be used. No ``raw``: it is gone."""
        if raw is None:
            self._shown.pop(key, None)
        else:
            self._shown[key] = bytes(raw)
        group = self._groups.get(key)
        if group is None:
            self._put(key, found)
            return
        if raw is None:
            group.is_sure = False
            self.doubtful.add(group.source)
            self.look(group.source, 0.0)
        self._refresh(key, group)

    # What is decided

    def sources(self) -> set[str]:
        """Those that have something to look at."""
        return set(self._pending) | set(self._of_source)

    def owners(self) -> Iterator[Reference]:
        """What directly owns the pods that wait for a decision."""
        for source in self._pending:
            for pod in list(self._decidable(source).values())[:1]:
                yield from owner_of_pod(pod).references[:1]

    def waiting(self) -> list[str]:
        """Sources of pods that have no node."""
        found: dict[str, None] = {}
        for key, member in self._members.items():
            pod = self._store.get(Pod, key)
            if key in self.held or (pod is not None and not pod.node):
                found[member.source] = None
        return list(found)

    def pods_of(self, source: str) -> dict[str, core.WirePod]:
        """The pods to look at: those that wait for a decision; where there are none, one for each group.

        None that is leaving, and for no group all of whose pods are: where they belong matters no more, and what owns
        them may be gone already.
        """
        pending = self._decidable(source)
        groups = (self._groups[key] for key in self._of_source.get(source, ()))
        wanted = (group for group in groups if not pending or not group.is_sure)
        likes = (group.like for group in wanted if any(map(self._stays, group.members)))
        return {key_of(pod): pod for pod in likes} | pending

    def _decidable(self, source: str) -> dict[str, core.WirePod]:
        return {key: pod for key, pod in self._pending.get(source, {}).items() if self._stays(key)}

    def _stays(self, key: str) -> bool:
        member = self._members.get(key)
        return member is not None and not member.leaves

    def staying(self, source: str, pod: core.WirePod) -> tuple[str, str] | None:
        """Key and uid of the pod, or of another of its group where it is gone or leaving; None where none stays."""
        itself = key_of(pod)
        groups = (self._groups[key] for key in self._of_source.get(source, ()))
        others = (key for group in groups if group.like is pod for key in sorted(group.members))
        key = next((key for key in (itself, *others) if self._stays(key)), None)
        return None if key is None else (key, self._members[key].uid)

    def uid_of(self, key: str) -> str:
        """The uid of a pod of a workload; empty for one that is gone."""
        member = self._members.get(key)
        return "" if member is None else member.uid

    def has(self, group: str) -> bool:
        """Whether the group "namespace/name" is one that the rules want, with pods in it."""
        return group in self._groups

    def decided(self, source: str, pod: core.WirePod, grouping: Grouping | None) -> None:
        """The pod belongs there; None: to no group of ours."""
        serial = self._store.serial
        self._decide(source, pod, grouping)
        if self._store.serial != serial:
            self._changed(True)

    def _decide(self, source: str, pod: core.WirePod, grouping: Grouping | None) -> None:
        key = key_of(pod)
        member = self._members.get(key)
        if member is not None and (pod.metadata is None or member.uid != pod.metadata.uid):
            member = None  # gone, but its group may have others
        if grouping is not None:
            self._keep(source, pod, grouping, None if member is None else key)
        if member is None:
            return
        before = member.place
        member.place = ALONE if grouping is None else (self._same(grouping.name), grouping.sub_group)
        if before is not None and before[0] not in ("", member.place[0]):
            self._leave(key_of_group(key, before), key)
        self._move(key, member)

    def _keep(self, source: str, pod: core.WirePod, grouping: Grouping, member: str | None) -> None:
        """Keep the group as it is wanted now; where ``member`` joins it, it may be a new one."""
        key = key_of_group(key_of(pod), (grouping.name, ""))
        group = self._groups.get(key)
        if group is None:
            if member is None:
                return
            group = self._groups[key] = Group(b"", source, pod)
        if member is not None:
            group.members.add(member)
        wanted = _encode(grouping.manifest)
        is_news = wanted != group.wanted or not group.is_sure
        self._forget_source(key, group)
        group.wanted, group.source, group.like, group.is_sure = wanted, source, pod, True
        self._of_source.setdefault(source, set()).add(key)
        if is_news:
            self._refresh(key, group)

    def settled(self, source: str, pods: dict[str, core.WirePod]) -> None:
        """These need no other look."""
        pending = self._pending.get(source, {})
        for key, pod in pods.items():
            if pending.get(key) is pod:
                self._settle(source, key)

    def _move(self, key: str, member: Member) -> None:
        """Have the store show the pod in its place."""
        place = member.place or ALONE
        held = self.held.pop(key, None)
        if held is not None:
            self._overlay.observe(placed(held, place))
        else:
            self._overlay.regroup(key, member.uid, lambda pod: placed(pod, place))
        self._compare(key, member)

    def _settle(self, source: str, key: str) -> None:
        pending = self._pending.get(source)
        if pending is not None:
            pending.pop(key, None)
            if not pending:
                del self._pending[source]

    def _leave(self, name: str, key: str) -> None:
        group = self._groups.get(name)
        if group is None:
            return
        group.members.discard(key)
        group.unwritten.discard(key)
        if group.members:
            return
        del self._groups[name]
        self._forget_source(name, group)
        self.left(name)
        self._put(name, self._read(name, self._shown.get(name)))

    def _forget_source(self, name: str, group: Group) -> None:
        of_source = self._of_source.get(group.source)
        if of_source is not None:
            of_source.discard(name)
            if not of_source:
                del self._of_source[group.source]

    # What is to be written

    def _compare(self, key: str, member: Member) -> None:
        """See whether the API server has to be told the pod's place."""
        name = "" if member.place is None else key_of_group(key, member.place)
        group = self._groups.get(name)
        if group is None:
            return
        if member.is_told:
            group.unwritten.discard(key)
        elif self._is_ours(name):
            group.unwritten.add(key)
            if name in self._shown:
                self.write(POD, key)

    def _refresh(self, key: str, group: Group) -> None:
        """Have the store show the group as it is wanted, and have it written where the API server does not."""
        raw = self._shown.get(key)
        wanted = _decode(group.wanted)
        if raw is None:
            wanted["metadata"]["creationTimestamp"] = (group.like.metadata or core.Meta()).creation_timestamp
            found, in_step = self._read(key, _encode(wanted)), False
        else:
            old = _decode(raw)
            new = merged(old, wanted, self._config.queue_label, self._config.node_pool_label)
            in_step = old == new
            found = self._read(key, raw if in_step else _encode(new))
        self._put(key, found)
        if not self._is_ours(key):
            return
        if not in_step and group.is_sure:
            self.write(POD_GROUP, key)
        if raw is not None:
            for pod in group.unwritten:
                self.write(POD, pod)

    def group_write(self, key: str) -> tuple[bool, bytes] | None:
        """Whether the PodGroup is there already, and how it has to be; None where nothing is to be written."""
        group = self._groups.get(key)
        if group is None or not group.is_sure:
            return None
        raw = self._shown.get(key)
        if raw is None:
            return False, group.wanted
        old = _decode(raw)
        new = merged(old, _decode(group.wanted), self._config.queue_label, self._config.node_pool_label)
        if old == new:
            return None
        head = {"apiVersion": names.POD_GROUP_VERSION, "kind": POD_GROUP[1]}  # items of lists lack them
        return True, _encode({**new, **head})

    def pod_write(self, key: str) -> Manifest | None:
        """What the pod's metadata has to say; None where nothing is to be written."""
        member = self._members.get(key)
        if member is None or member.place is None or member.is_told:
            return None
        name, sub_group = member.place
        metadata: Manifest = {"uid": member.uid, "annotations": {names.POD_GROUP_ANNOTATION: name}}
        if sub_group:
            metadata["labels"] = {names.SUB_GROUP_LABEL: sub_group}
        return metadata

    def pod_written(self, key: str, metadata: Manifest, version: int) -> None:
        """The API server has been told that, and has the pod in this version now."""
        member = self._members.get(key)
        if member is None or member.uid != metadata["uid"]:
            return
        sub_group = metadata.get("labels", {}).get(names.SUB_GROUP_LABEL, member.shown[1])
        member.shown = (self._same(metadata["annotations"][names.POD_GROUP_ANNOTATION]), sub_group)
        member.version = max(member.version, version)
        self._compare(key, member)

    def _is_ours(self, key: str) -> bool:
        """Whether the group is in our node pool; others have schedulers of their own."""
        found = self._store.get(PodGroup, key)
        return found is not None and in_pool(found.labels, self._config)

    def _put(self, key: str, found: PodGroup | None) -> None:
        if found is None:
            self._store.remove(PodGroup, key)
        else:
            self._store.put(found)

    def _read(self, key: str, raw: bytes | None) -> PodGroup | None:
        if raw is None:
            return None
        try:
            found = self._reader.read(POD_GROUP, raw, _ignore)
        except FieldError as error:
            log.warning("group.unusable", group=key, problem=str(error))
            return None
        return found if isinstance(found, PodGroup) else None


def _nobody(*told: object) -> None:
    """Where none is there to be told."""


def _ignore(field: str, message: str) -> None:
    """Rules write nothing doubtful, and the feed tells what others write."""


def _encode(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)
