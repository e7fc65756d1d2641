"""Requests for the objects that own pods, of any kind: their metadata, or the whole object if a rule of grouping asks
for it.

The owner cache of the operator uses it. Only the names of kinds in paths are cached here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from kai_sched.api import legal
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import GROUPS, object_path, objects_path, version_path
from kai_sched.cluster.reflector import JSON, METADATA, METADATA_LIST
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner, read_owner
from kai_sched.reconcile.grouping.workload_errors import GroupingError

METADATA_ONLY = METADATA.format("PartialObjectMetadata")
# An unknown kind may have been installed just now.
DISCOVER_AGAIN_S = 5.0
FAILED_AGAIN_S = 1.0


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _GroupVersion(msgspec.Struct):
    group_version: str = msgspec.field(name="groupVersion")


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] | None = None


class _Groups(msgspec.Struct):
    groups: list[_Group]


_decode_resources = msgspec.json.Decoder(_Resources).decode
_decode_groups = msgspec.json.Decoder(_Groups).decode
CORE = frozenset({"v1"})
Kinds = dict[str, _Resource]


class OwnerReader:
    """For one event loop. ``clock`` gives seconds that never go back.

    Whatever kinds tenants name, the list of API groups and each existing group are requested at most once in
    DISCOVER_AGAIN_S (FAILED_AGAIN_S after a failure). A kind that does not exist costs no request and no memory.
    """

    def __init__(self, api: Api, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._groups: frozenset[str] | set[str] = CORE  # with their versions
        self._groups_failure: ApiFailure | None = None
        self._groups_at = -DISCOVER_AGAIN_S
        self._listing = asyncio.Lock()
        self._kinds: dict[str, tuple[float, Kinds | ApiFailure]] = {}  # of groups that exist

    async def serves(self, api_version: str, kind: str) -> bool:
        """Whether the API server has the kind. Raises ApiFailure."""
        return await self._resource(api_version, kind) is not None

    async def fetch(self, reference: ObjectReference) -> Owner | None:
        """Return the object, or None if there is none of that name.

        Raises
        ------
        PermissionError
            If it may not be read.
        GroupingError
            If it is malformed.
        ApiFailure
        """
        raw = await self.fetch_raw(reference)
        return None if raw is None else read_owner(raw, reference)

    async def fetch_raw(self, reference: ObjectReference) -> bytes | None:
        """As ``fetch``, as the API server shows it. Raises PermissionError and ApiFailure."""
        resource = await self._resource(reference.api_version, reference.kind)
        if resource is None:
            return None
        namespace = reference.namespace if resource.namespaced else ""
        path = object_path(reference.api_version, resource.name, namespace, reference.name)
        accept = JSON if reference.whole else METADATA_ONLY
        try:
            return await self._api.request("GET", path, accept=accept, needs_right=False)
        except ApiFailure as failure:
            if failure.status == 403:
                raise PermissionError(failure.message) from None
            if failure.status == 404:
                return None
            raise

    async def pages(self, api_version: str, kind: str, namespace: str) -> AsyncGenerator[list[Owner], None]:
        """Yield the metadata of all such objects in pages. Raises ApiFailure. Close it when leaving early.

        Malformed objects are left out. If the kind is unknown or not namespaced, there are none.
        """
        resource = await self._resource(api_version, kind)
        if resource is None or not resource.namespaced:
            return
        path = objects_path(api_version, resource.name, namespace)
        like = ObjectReference(api_version, kind, namespace, "")
        async with aclosing(self._api.list_pages(path, {}, accept=METADATA_LIST, needs_right=False)) as pages:
            async for items, _ in pages:
                yield [owner for raw in items if (owner := _read(raw, like))]

    async def _resource(self, api_version: str, kind: str) -> _Resource | None:
        if not await self._is_there(api_version):
            return None
        asked_at, known = self._kinds.get(api_version, (-DISCOVER_AGAIN_S, {}))
        failure = known if isinstance(known, ApiFailure) else None
        if not (isinstance(known, dict) and kind in known) and self._is_due(asked_at, failure):
            known = await self._discover(api_version)
            self._kinds[api_version] = self._clock(), known
        if isinstance(known, ApiFailure):
            raise known.with_traceback(None)
        return known.get(kind)

    def _is_due(self, asked_at: float, failure: ApiFailure | None) -> bool:
        return self._clock() - asked_at >= (DISCOVER_AGAIN_S if failure is None else FAILED_AGAIN_S)

    async def _is_there(self, api_version: str) -> bool:
        """Return whether the API server has that group and version."""
        if api_version in self._groups:
            return True
        async with self._listing:
            if api_version not in self._groups and self._is_due(self._groups_at, self._groups_failure):
                try:
                    await self._list_groups()
                except ApiFailure as failure:
                    self._groups_failure = failure
                self._groups_at = self._clock()
        if self._groups_failure is not None:
            raise self._groups_failure.with_traceback(None)
        return api_version in self._groups

    async def _list_groups(self) -> None:
        found = read(_decode_groups, await self._api.request("GET", GROUPS), GROUPS, "the list of groups")
        self._groups = CORE | {each.group_version for group in found.groups for each in group.versions or ()}
        self._kinds = {version: kinds for version, kinds in self._kinds.items() if version in self._groups}
        self._groups_failure = None

    async def _discover(self, api_version: str) -> Kinds | ApiFailure:
        """Return the kinds of the group and version, or why they are not known."""
        try:
            path = version_path(api_version)
            found = read(_decode_resources, await self._api.request("GET", path), path, "the list of kinds")
        except ApiFailure as failure:
            return {} if failure.status == 404 else failure
        # Subresources such as "pods/binding" have kinds, too. Aggregated servers may answer what is no name at all.
        return {each.kind: each for each in found.resources or () if legal.is_subdomain(each.name)}


def _read(raw: bytes, like: ObjectReference) -> Owner | None:
    try:
        return read_owner(raw, like)
    except GroupingError:
        return None
