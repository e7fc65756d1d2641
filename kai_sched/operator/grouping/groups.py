"""The PodGroups of workloads in memory: which pods wait for a decision, what the store shows meanwhile, and which
writes are requested.

The event sink passes the pods of workloads. The store does not show a pending pod without a group until its group is
decided. Then the store shows the pod in the PodGroup that the rules want. A difference to what the API server shows
becomes a write request. Nothing here does I/O: the grouper reads the owners and decides, the group writer writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kai_sched.api import core, names
from kai_sched.model.config import Config
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.read.kinds import POD, POD_GROUP, Reader
from kai_sched.model.read.meta import version_number
from kai_sched.model.read.parse_cache import TextPool
from kai_sched.model.store import Store
from kai_sched.operator.grouping.members import (
    ALONE,
    Labelled,
    Member,
    concerns,
    is_kubernetes_group,
    key_of,
    key_of_group,
    mark_of,
    placed,
    source_of,
    trimmed,
)
from kai_sched.operator.grouping.requests import GroupingRequests
from kai_sched.operator.grouping.shown_groups import ShownGroups
from kai_sched.operator.grouping.wanted_group import WantedGroup, by_owner
from kai_sched.reconcile.grouping.deciders import Deciders
from kai_sched.reconcile.grouping.manifest import Grouping, Manifest
from kai_sched.reconcile.grouping.owners import ObjectReference, owner_of_pod

# Pods go one by one when a workload shrinks: it is reconciled once they are gone.
SHRUNK_S = 1.0


class Groups:
    """For one event loop. It implements ``intake.event_sink.PodGate``.

    Parameters
    ----------
    store, overlay
        Where pods and groups are shown.
    reader
        Reads PodGroups.
    config
        The settings that objects are read with.
    changed
        Called after each change of the store.
    requests
        Gets what is to be reconciled and written.
    emptied
        Called with each group that has lost its last pod.

    Attributes
    ----------
    held
        Pods without a place and without a node, by key. The store does not show them.
    labelled
        Pods by the labels that rules ask for.
    """

    def __init__(
        self,
        store: Store,
        overlay: Overlay,
        reader: Reader,
        config: Config,
        changed: Callable[[bool], None],
        requests: GroupingRequests,
        emptied: Callable[[str], None],
    ) -> None:
        self._store = store
        self._overlay = overlay
        self._config = config
        self._changed = changed
        self._requests = requests
        self._emptied = emptied
        self.held: dict[str, Pod] = {}  # pods without a place, and without a node
        self.labelled = Labelled()
        self._members: dict[str, Member] = {}
        self._pending: dict[str, dict[str, core.WirePod]] = {}  # by source
        self._groups: dict[str, WantedGroup] = {}
        self._of_source: dict[str, set[str]] = {}
        self._shown = ShownGroups(store, reader, config)
        self._same: Callable[[str], str] = TextPool().one

    # What the API server shows

    def take(self, wire: core.WirePod, pod: Pod) -> Pod | None:
        """See ``intake.event_sink.PodGate``."""
        key = pod.key
        self.labelled.put(pod)
        meta = wire.metadata or core.Meta()
        member = self._members.get(key)
        if member is not None and member.uid != pod.uid:
            self.drop(key)
            member = None
        if not concerns(wire, self._config):
            if member is not None:
                self.drop(key)
            return pod
        source = self._same(source_of(wire))
        mark = mark_of(meta)
        if member is None or member.mark != mark:
            if member is None:
                member = self._members[key] = Member(pod.uid, source, mark)
            elif member.source != source:
                self._settle(member.source, key)
            member.source, member.mark = source, mark
            self._pending.setdefault(source, {})[key] = trimmed(wire)
            self._requests.reconcile(source)
        member.leaves = bool(meta.deletion_timestamp)
        version = version_number(meta.resource_version)
        if version > member.version:
            member.shown, member.version = (self._same(pod.group), pod.sub_group), version
        if member.place is not None:
            self._compare(key, member)
            return placed(pod, member.place)
        if pod.group or pod.node:
            self.held.pop(key, None)
            return pod  # what the pod says holds until its place is decided
        self.held[key] = pod
        return None

    def gone(self, key: str) -> None:
        """The pod is gone."""
        self.labelled.drop(key)
        self.drop(key)

    def drop(self, key: str) -> None:
        """The pod is gone, or does not belong to a workload of ours any more."""
        member = self._members.pop(key, None)
        if member is None:
            return
        self.held.pop(key, None)
        self._settle(member.source, key)
        if member.place is not None and member.place[0]:
            name = key_of_group(key, member.place)
            self._leave(name, key)
            if name in self._groups:
                self._requests.reconcile(self._groups[name].source, SHRUNK_S)

    def show(self, key: str, raw: bytes | None, found: PodGroup | None) -> None:
        """See ``intake.event_sink.PodGate``."""
        self._shown.show(key, raw)
        group = self._groups.get(key)
        if group is None:
            self._shown.put(key, found)
            return
        if raw is None:
            group.is_sure = False
            self._requests.reconcile(group.source, uncached=True)
        if group.moves and group.is_written and any(map(self._has_node, group.members)):
            group.moves = False  # pods are bound by the queue that is written: another one now is somebody's choice
        self._refresh(key, group)

    # What is decided

    def sources(self) -> set[str]:
        """Return the sources that have something to reconcile."""
        return set(self._pending) | set(self._of_source)

    def owners(self) -> Iterator[ObjectReference]:
        """Yield what directly owns the pods that wait for a decision."""
        for source in self._pending:
            for pod in list(self._decidable(source).values())[:1]:
                yield from owner_of_pod(pod).references[:1]

    def waiting(self) -> list[str]:
        """Return the sources of pods without a node, and those that decide about the groups of these pods."""
        found: dict[str, None] = {}
        for key, member in self._members.items():
            pod = self._store.get(Pod, key)
            if key in self.held or (pod is not None and not pod.node):
                found[member.source] = None
                if member.place is not None and member.place[0]:
                    group = self._groups.get(key_of_group(key, member.place))
                    found[group.source if group else member.source] = None
        return list(found)

    def pods_of(self, source: str) -> dict[str, core.WirePod]:
        """Return the pods to decide: those that wait for a decision; without any, one pod for each group and owner.

        Pods that are being deleted are left out, and so are groups that have no others: their place does not matter
        any more, and their owner may be gone.
        """
        pending = self._decidable(source)
        groups = (self._groups[key] for key in self._of_source.get(source, ()))
        shared = is_kubernetes_group(source)  # then the owner that decides may be another one than of those that wait
        wanted = (group for group in groups if shared or not pending or not group.is_sure)
        likes = (pod for group in wanted if any(map(self._stays, group.members)) for pod in group.to_decide())
        found = {key_of(pod): pod for pod in likes} | pending
        return by_owner(found) if shared else found

    def _decidable(self, source: str) -> dict[str, core.WirePod]:
        return {key: pod for key, pod in self._pending.get(source, {}).items() if self._stays(key)}

    def _stays(self, key: str) -> bool:
        member = self._members.get(key)
        return member is not None and not member.leaves

    def staying(self, source: str, pod: core.WirePod) -> tuple[str, str] | None:
        """Return key and uid of the pod, or of another pod of source and group if it is leaving; None if none stays."""
        itself = key_of(pod)
        groups = (self._groups[key] for key in self._of_source.get(source, ()))
        members = (sorted(group.members.items()) for group in groups if group.like is pod)
        others = (key for each in members for key, of in each if of == source)
        key = next((key for key in (itself, *others) if self._stays(key)), None)
        return None if key is None else (key, self._members[key].uid)

    def uid_of(self, key: str) -> str:
        """Return the uid of a pod of a workload, empty for one that is gone."""
        member = self._members.get(key)
        return "" if member is None else member.uid

    def deciders(self, group: str) -> Deciders | None:
        """Return the owners of the pods of the group "namespace/name", None for one that the rules do not want."""
        found = self._groups.get(group)
        return None if found is None else found.deciders

    def decided(self, source: str, pod: core.WirePod, grouping: Grouping | None) -> None:
        """The pod belongs to this group; None: to no group of ours."""
        serial = self._store.serial
        self._decide(source, pod, grouping)
        if self._store.serial != serial:
            self._changed(True)

    def _decide(self, source: str, pod: core.WirePod, grouping: Grouping | None) -> None:
        key = key_of(pod)
        member = self._members.get(key)
        if member is not None and (pod.metadata is None or member.uid != pod.metadata.uid):
            member = None  # the pod is gone, but its group may have others
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
        """Keep the group as it is wanted now. It may be a new one only if ``member`` joins it."""
        key = key_of_group(key_of(pod), (grouping.name, ""))
        group = self._groups.get(key)
        if group is None:
            if member is None:
                return
            group = self._groups[key] = WantedGroup(b"", source, pod)
        before = group.source
        if not group.takes(grouping, source, pod, member):
            self._follow_source(key, group, before)
            if not group.is_sure:
                self._requests.reconcile(group.source, SHRUNK_S)
            return
        wanted = msgspec.json.encode(grouping.manifest)
        is_news = wanted != group.wanted or not group.is_sure
        group.moves = group.moves and not is_news
        group.wanted, group.source, group.like, group.is_sure = wanted, source, pod, True
        self._follow_source(key, group, before)
        if is_news:
            self._refresh(key, group)

    def settled(self, source: str, pods: dict[str, core.WirePod]) -> None:
        """These pods need no other decision. Groups of which nothing is bound follow the queue of their workload."""
        for key, pod in pods.items():
            if self._pending.get(source, {}).get(key) is pod:
                self._settle(source, key)
        serial = self._store.serial
        for name in sorted(self._of_source.get(source, ())):
            group = self._groups[name]
            if not group.moves and not any(map(self._has_node, group.members)):
                group.moves = True
                self._refresh(name, group)
        if self._store.serial != serial:
            self._changed(True)

    def _has_node(self, key: str) -> bool:
        pod = self._store.get(Pod, key)
        return pod is not None and bool(pod.node)

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
        before, is_sure = group.source, group.is_sure
        group.loses(key)
        if group.members:
            self._follow_source(name, group, before)
            if group.source != before:
                # What is above both may be gone, and the PodGroup with it.
                self._requests.reconcile(group.source, SHRUNK_S, uncached=True)
            elif is_sure and not group.is_sure:
                self._requests.reconcile(group.source, SHRUNK_S)
            return
        del self._groups[name]
        self._forget_source(name, before)
        self._emptied(name)
        self._shown.restore(name)

    def _follow_source(self, name: str, group: WantedGroup, before: str) -> None:
        """The group is that of its source now, and no longer that of ``before``."""
        if group.source != before:
            self._forget_source(name, before)
        self._of_source.setdefault(group.source, set()).add(name)

    def _forget_source(self, name: str, source: str) -> None:
        of_source = self._of_source.get(source)
        if of_source is not None:
            of_source.discard(name)
            if not of_source:
                del self._of_source[source]

    # What is to be written

    def _compare(self, key: str, member: Member) -> None:
        """Request a write if the API server does not show the pod in its place."""
        name = "" if member.place is None else key_of_group(key, member.place)
        group = self._groups.get(name)
        if group is None:
            return
        if member.is_written:
            group.unwritten.discard(key)
        elif self._shown.is_ours(name):
            group.unwritten.add(key)
            if name in self._shown:
                self._requests.write(POD, key)

    def _refresh(self, key: str, group: WantedGroup) -> None:
        """Have the store show the group as it is wanted, and have it written if the API server shows it otherwise."""
        created = (group.like.metadata or core.Meta()).creation_timestamp
        group.is_written = self._shown.put_wanted(key, group.wanted, created, group.moves)
        if not self._shown.is_ours(key):
            return
        if not group.is_written and group.is_sure:
            self._requests.write(POD_GROUP, key)
        if key in self._shown:
            for pod in group.unwritten:
                self._requests.write(POD, pod)

    def group_write(self, key: str) -> tuple[bool, bytes] | None:
        """Return whether the PodGroup exists, and its body as it has to be; None if nothing is to be written."""
        group = self._groups.get(key)
        return None if group is None or not group.is_sure else self._shown.write(key, group.wanted, group.moves)

    def group_written(self, key: str) -> int:
        """The PodGroup was written as it is wanted: return how many times in a row that was the same."""
        return self._groups[key].written() if key in self._groups else 0

    def pod_write(self, key: str) -> Manifest | None:
        """Return the metadata that the pod has to get; None if nothing is to be written."""
        member = self._members.get(key)
        if member is None or member.place is None or member.is_written:
            return None
        name, sub_group = member.place
        metadata: Manifest = {"uid": member.uid, "annotations": {names.POD_GROUP_ANNOTATION: name}}
        if sub_group:
            metadata["labels"] = {names.SUB_GROUP_LABEL: sub_group}
        return metadata

    def pod_written(self, key: str, metadata: Manifest, version: int) -> None:
        """The API server has taken this metadata, and has the pod in this version now."""
        member = self._members.get(key)
        if member is None or member.uid != metadata["uid"]:
            return
        sub_group = metadata.get("labels", {}).get(names.SUB_GROUP_LABEL, member.shown[1])
        member.shown = (self._same(metadata["annotations"][names.POD_GROUP_ANNOTATION]), sub_group)
        member.version = max(member.version, version)
        self._compare(key, member)
