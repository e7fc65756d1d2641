"""All objects of a cluster that the scheduler needs, read once: lists, then the owners of pods that have no group yet.

Nothing is written or watched. What may not be read, or is not installed, is an ``Unreadable`` with the remedy; the rest
is read all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from kai_sched.api import names
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.owner_reader import OwnerReader
from kai_sched.cluster.paths import objects_path, only
from kai_sched.cluster.reflector import JSON, METADATA_LIST, WatchSource
from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.model.keys import split_key
from kai_sched.model.read.kinds import NAMESPACED, POD, Kind
from kai_sched.reconcile.grouping.owners import CHAIN_MAX, ObjectReference

Manifest = dict[str, Any]
# Returns the object as it is kept, None for one that is not.
Clean = Callable[[Manifest], Manifest | None]
# Returns the ConfigMap ("namespace/name") whose contents are needed, too, given all objects; empty for none.
NamedConfigMap = Callable[[Sequence[Manifest]], str]

ATTEMPTS = 4
AGAIN = {410, 429, 500, 502, 503, 504}  # a list is read again from its start after these
PAUSE_S, PAUSE_MAX_S = 0.5, 10.0
PAGE = 500
WHOLE = 0  # no limit: a list whose pages expire before all of them are read
NEEDED = frozenset({"Node", "Pod", "Queue", "PodGroup"})  # without these nothing can be said
ROLE = "manifests/samples/reader.yaml"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that could not be read.

    Attributes
    ----------
    resource
        Such as "nodes" or "queues.scheduling.run.ai".
    message
        What was refused, and what to do about it.
    reason
        One word: "forbidden", "missing" or "failed".
    fatal
        Whether nothing can be said without it.
    """

    resource: str
    message: str
    reason: str
    fatal: bool

    def __str__(self) -> str:
        """As dumps say it: "configs.kai.scheduler (forbidden)"."""
        return f"{self.resource} ({self.reason})"


@dataclass(slots=True)
class ReadObjects:
    """The objects that were read, each with its apiVersion and kind, and what could not be read."""

    objects: list[Manifest] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


class Cleaning(NamedTuple):
    """What is kept of objects that are listed, and of owners of pods that have no group."""

    listed: Clean
    owner: Clean


class ClusterReader:
    """Reads a cluster once. For one event loop.

    Parameters
    ----------
    api
        The client of the API server.
    clean
        What is kept, called as soon as an object is read: objects as they come take several times the memory.
    config_map
        Which ConfigMap is read whole; of all others it is the metadata.
    clock
        Seconds that never go back.
    sleep
        Waits for so many seconds.
    """

    def __init__(
        self,
        api: Api,
        clean: Cleaning,
        config_map: NamedConfigMap,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._clean = clean
        self._config_map = config_map
        self._owners = OwnerReader(api, clock)
        self._sleep = sleep

    async def read(self, sources: Sequence[WatchSource], scheduler_name: str, namespace: str = "") -> ReadObjects:
        """Read these kinds, objects in namespaces from ``namespace`` alone if that is not empty.

        Pods come first: what they refer to was there before them. Raises ApiFailure if there is no usable answer at
        all, or if the login is not accepted.
        """
        found = ReadObjects()
        first, *others = sorted(sources, key=lambda source: source.kind != POD)
        pods = await self._list(first, namespace, found)
        found.objects += pods
        for objects in await asyncio.gather(*(self._list(source, namespace, found) for source in others)):
            found.objects += objects
        await self._read_config_map(self._config_map(found.objects), found)
        await self._read_owners([*_owners_of(pods, scheduler_name), *_workloads_of(found.objects)], found)
        found.unreadable.sort(key=lambda each: each.resource)
        return found

    async def _list(self, source: WatchSource, namespace: str, found: ReadObjects) -> list[Manifest]:
        """The objects of the source; why they are not there is added to ``found``."""
        version, kind = source.kind
        path = objects_path(version, source.resource, namespace if kind in NAMESPACED else "")
        accept = METADATA_LIST if source.metadata_only else JSON
        turn = TimeSlice()
        for attempt in range(1, ATTEMPTS + 1):
            limit = WHOLE if attempt == ATTEMPTS else PAGE
            objects: list[Manifest] = []
            try:
                async for items, _ in self._api.list_pages(path, dict(source.params), limit, accept):
                    for raw in items:
                        item = self._clean.listed({**_decode(raw), "apiVersion": version, "kind": kind})
                        if item is not None:
                            objects.append(item)
                        await turn.pause()
            except ApiFailure as failure:
                if failure.status not in AGAIN or attempt == ATTEMPTS:
                    self._note(failure, source, namespace, found)
                    break
                await self._sleep(min(PAUSE_MAX_S, failure.retry_after_s or PAUSE_S * attempt))
            else:
                return objects
        return []

    async def _read_config_map(self, key: str, found: ReadObjects) -> None:
        """Put the contents of that ConfigMap in place of its metadata, if it is there."""
        namespace, name = split_key(key)
        for item in found.objects:
            meta = _mapping(item.get("metadata"))
            if item["kind"] == "ConfigMap" and (meta.get("namespace"), meta.get("name")) == (namespace, name):
                path = objects_path("v1", "configmaps", namespace)
                async for raws, _ in self._api.list_pages(path, only(name)):
                    for raw in raws:
                        item |= {**_decode(raw), "apiVersion": "v1", "kind": "ConfigMap"}

    def _note(self, failure: ApiFailure, source: WatchSource, namespace: str, found: ReadObjects) -> None:
        if failure.status in (0, 401):
            raise failure
        group = source.kind[0].rpartition("/")[0]
        resource = _qualified(source.resource, group)
        fatal = source.kind[1] in NEEDED
        if failure.status == 404:
            if not source.optional:
                remedy = source.remedy or "ask who runs the API server why it does not serve them"
                text = f"the API server does not know {resource}: {remedy}"
                found.unreadable.append(Unreadable(resource, text, "missing", fatal))
            return
        if failure.status == 403:
            where = f" in the namespace {namespace}" if namespace and source.kind[1] in NAMESPACED else ""
            remedy = remedy_for(group, source.resource, "list")
            text = f"listing {resource}{where} is forbidden ({failure.message}): {remedy}"
            found.unreadable.append(Unreadable(resource, text, "forbidden", fatal))
            return
        text = f"{resource} cannot be listed: {failure.status} {failure.reason}: {failure.message}: try again later"
        found.unreadable.append(Unreadable(resource, text, "failed", fatal))

    async def _read_owners(self, wanted: Sequence[ObjectReference], found: ReadObjects) -> None:
        """Add these objects and their owners, level by level, each once."""
        seen: set[ObjectReference] = set()
        refused: set[Kind] = set()
        for _ in range(CHAIN_MAX):
            level = [reference for reference in dict.fromkeys(wanted) if reference not in seen]
            if not level:
                return
            seen.update(level)
            objects = await asyncio.gather(*(self._owner(reference, refused, found) for reference in level))
            wanted = [above for item in objects if item is not None for above in _references(item)]
            found.objects += [
                kept for item in objects if item is not None and (kept := self._clean.owner(item)) is not None
            ]

    async def _owner(self, reference: ObjectReference, refused: set[Kind], found: ReadObjects) -> Manifest | None:
        kind = reference.api_version, reference.kind
        if kind in refused:
            return None
        try:
            raw = await self._owners.fetch_raw(reference)
            return None if raw is None else {**_decode(raw), "apiVersion": kind[0], "kind": kind[1]}
        except (PermissionError, ApiFailure, msgspec.DecodeError) as error:
            if kind not in refused:
                refused.add(kind)
                group = kind[0].rpartition("/")[0]
                plural = f"{kind[1].lower()}s"
                remedy = remedy_for(group, plural, "get")
                text = f"{reference.subject}, which owns pods without a PodGroup, cannot be read ({error}): {remedy}"
                reason = "forbidden" if isinstance(error, PermissionError) else "failed"
                found.unreadable.append(Unreadable(_qualified(plural, group), text, reason, False))
            return None


def _qualified(plural: str, group: str) -> str:
    """Such as "queues.scheduling.run.ai"; "nodes" for the group of Kubernetes itself."""
    return f"{plural}.{group}" if group else plural


def remedy_for(group: str, plural: str, verb: str) -> str:
    """Which rule is to be added to the ClusterRole of the account."""
    rule = f'{{apiGroups: ["{group}"], resources: [{plural}], verbs: [{verb}]}}'
    return f"add the rule {rule} to the ClusterRole of this account ({ROLE} has all of them)"


def _owners_of(pods: Sequence[Manifest], scheduler_name: str) -> list[ObjectReference]:
    """The owners of the pods of this scheduler that have no group yet."""
    found: list[ObjectReference] = []
    for pod in pods:
        annotations = _mapping(_mapping(pod.get("metadata")).get("annotations"))
        is_ours = _mapping(pod.get("spec")).get("schedulerName") == scheduler_name
        if is_ours and not annotations.get(names.POD_GROUP_ANNOTATION):
            found += _references(pod)
    return found


def _workloads_of(objects: Sequence[Manifest]) -> Iterator[ObjectReference]:
    """The Workloads that PodGroups of Kubernetes itself name: their labels may name the queue."""
    for item in objects:
        if (item.get("apiVersion"), item.get("kind")) == names.KUBERNETES_GROUP:
            name = _mapping(_mapping(item.get("spec")).get("workloadRef")).get("workloadName")
            namespace = _mapping(item.get("metadata")).get("namespace")
            if isinstance(name, str) and isinstance(namespace, str) and name:
                yield ObjectReference(*names.KUBERNETES_WORKLOAD, namespace, name, whole=True)


def _references(item: Manifest) -> list[ObjectReference]:
    """The first owner, as grouping follows no other; none where the reference is malformed."""
    meta = _mapping(item.get("metadata"))
    owners = meta.get("ownerReferences")
    listed = [_mapping(each) for each in owners] if isinstance(owners, list) else []
    first = next((each for each in listed if (each.get("apiVersion"), each.get("kind")) != names.KUBERNETES_GROUP), {})
    parts = [first.get("apiVersion"), first.get("kind"), meta.get("namespace"), first.get("name")]
    if not all(isinstance(part, str) and part for part in parts):
        return []
    version, kind, namespace, name = map(str, parts)
    return [ObjectReference(version, kind, namespace, name, whole=True)]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
