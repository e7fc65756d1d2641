"""Offline PodGroups: which pods of the files get one, and which settings and priority classes apply; the rules are
those of a cluster (``reconcile.grouping``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from kai_sched.api import core, names
from kai_sched.files.items import Item, problem_in, warner
from kai_sched.files.objects import Key, Objects, meta_of
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, decode_part
from kai_sched.model.keys import split_key
from kai_sched.model.objects import Topology
from kai_sched.model.priorities import SHIPPED_CLASSES
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import POD_GROUP, TOPOLOGY, Reader
from kai_sched.model.read.meta import DEFAULT_NAMESPACE, namespace_of
from kai_sched.reconcile.grouping import deciders
from kai_sched.reconcile.grouping.deciders import Deciders
from kai_sched.reconcile.grouping.draft import group_name
from kai_sched.reconcile.grouping.manifest import Grouping, QueueChoice, merged, pod_patch
from kai_sched.reconcile.grouping.owners import Chain, named_group, resolve, wants_group
from kai_sched.reconcile.grouping.registry import gets_group, group_of
from kai_sched.reconcile.grouping.settings import GroupingSettings, read_kinds
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from kai_sched.workload_kinds import installed_kinds

PRIORITY_CLASS = ("scheduling.k8s.io/v1", "PriorityClass")
CONFIG_MAP = ("v1", "ConfigMap")

_pod = msgspec.json.Decoder(core.WirePod)
_data = msgspec.json.Decoder(dict[str, Any])


class InputGrouper:
    """Groups pods one by one and keeps the groups. ``queues`` has, by subject of the group, what names its queue."""

    def __init__(self, objects: Objects, items: Iterable[Item], config: Config, problems: list[Problem]) -> None:
        self.queues: dict[str, QueueChoice] = {}
        self._objects = objects
        self._problems = problems
        self._groups: dict[Key, tuple[Item, dict[str, Any]]] = {}
        self._deciders: dict[Key, Deciders] = {}
        self._settings = _settings(objects, items, config, problems)

    def place(self, item: Item, is_made: bool) -> Item:
        """The pod with its group; unchanged if it needs none.

        If the pod cannot be grouped, GroupingError is raised for a pod that was made (``is_made``). A pod of the input
        gets a warning instead and names a group that does not exist, as it would in a cluster.
        """
        try:
            pod = decode_part(_pod, item.raw, "")
            namespace_of(pod.metadata or core.Meta())
        except FieldError:
            return item  # its reader reports the error
        if not wants_group(pod, self._settings.config.scheduler_name):
            return item
        try:
            chain = resolve(pod, self._objects.fetch)
            if chain.skips or not (is_made or gets_group(pod, chain, self._settings)):
                return item
            found = group_of(pod, chain, self._objects, self._settings)
        except GroupingError as error:
            if is_made:
                raise
            self._problems.append(Problem(str(item.source), error.subject, error.field, error.message))
            return _patched(item, {"annotations": {names.POD_GROUP_ANNOTATION: self._name_in_vain(pod)}})
        self._keep(item, pod, found)
        patch = pod_patch(pod, found)
        return item if patch is None else _patched(item, patch["metadata"])

    def groups(self) -> list[Item]:
        """The groups of all pods that were placed. Owners of pods of one group that disagree are told."""
        found = []
        for key, each in self._deciders.items():
            if text := each.difference():
                item, manifest = self._groups[key]
                (of,) = manifest["metadata"]["ownerReferences"]
                subject = f"{of['kind']} {key.namespace}/{of['name']}"
                self._problems.append(Problem(str(item.source), subject, deciders.FIELD, text))
        for key, (item, manifest) in self._groups.items():
            old = self._objects.get(key)
            if old is not None:
                config = self._settings.config
                manifest = merged(_data.decode(old.raw), manifest, config.queue_label, config.node_pool_label)
                item = old
            found.append(Item(item.source, POD_GROUP, msgspec.json.encode(manifest)))
        return found

    def _keep(self, item: Item, pod: core.WirePod, found: Grouping) -> None:
        """The last pod of a group decides, of those of several owners the last of the owner that decides; the group is
        as old as its oldest pod.
        """
        key = Key(*POD_GROUP, found.manifest["metadata"]["namespace"], found.name)
        created = pod.metadata.creation_timestamp if pod.metadata else None
        if key in self._groups:
            before = self._groups[key][1]["metadata"].get("creationTimestamp")
            created = min(created, before) if created and before else created or before
        if found.by is None or self._deciders.setdefault(key, Deciders()).put(found.by, found.manifest["spec"]):
            self._groups[key] = (item, found.manifest)
            self.queues[key.subject] = found.queue
        if created:
            self._groups[key][1]["metadata"]["creationTimestamp"] = created
        warn = self._problems.append
        for note in found.notes:
            warn(Problem(str(item.source), note.subject, note.field, note.message))

    def _name_in_vain(self, pod: core.WirePod) -> str:
        try:
            chain = resolve(pod, self._objects.fetch)
        except GroupingError:
            chain = Chain((), False)
        if name := named_group(pod.spec):
            return f"pg-{name}"
        name = (pod.metadata or core.Meta()).name or ""
        return group_name(chain.owners[-1]) if chain.owners else f"pg-{name}"


def _patched(item: Item, patch: Mapping[str, Mapping[str, str]]) -> Item:
    manifest = _data.decode(item.raw)
    meta = dict(manifest.get("metadata") or {})
    for name, texts in patch.items():
        meta[name] = {**(meta.get(name) or {}), **texts}
    return replace(item, raw=msgspec.json.encode({**manifest, "metadata": meta}))


def _settings(objects: Objects, items: Iterable[Item], config: Config, problems: list[Problem]) -> GroupingSettings:
    """What the input says of kinds, its topologies, and its priority classes; those that are shipped where it has
    none."""
    classes, topologies, reader = set(), {}, Reader(config)
    for item in items:
        with suppress(FieldError):  # its reader tells it
            if item.kind == PRIORITY_CLASS:
                classes.add(meta_of(item).name or "")
            elif item.kind == TOPOLOGY:
                found = reader.read(TOPOLOGY, item.raw, lambda *_: None)
                assert isinstance(found, Topology), "of this kind"
                topologies[found.name] = found.levels
    settings = GroupingSettings(
        config, frozenset(classes or SHIPPED_CLASSES), plugins=installed_kinds().rules, topologies=topologies
    )
    namespace, name = split_key(config.kinds_config_map)
    config_map = objects.get(Key(*CONFIG_MAP, namespace or DEFAULT_NAMESPACE, name)) if name else None
    if config_map is None:
        return settings
    data = _data.decode(config_map.raw).get("data")
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        message = "expected a mapping of texts: its settings for workload kinds are ignored"
        problems.append(problem_in(config_map, "data", message))
        return settings
    defaults, rules, notes = read_kinds(data, config_map.subject)
    warn = warner(config_map, problems)
    for note in notes:
        warn(note.field, note.message)
    return replace(settings, defaults=defaults, rules=rules)
