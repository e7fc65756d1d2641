"""Looks up the objects that own pods, of whatever kind: their metadata, or the whole object where that is asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.reflector import JSON, METADATA
from kai_sched.reconcile.grouping.faults import GroupingError
from kai_sched.reconcile.grouping.owners import Owner, Reference, read_owner

METADATA_ONLY = METADATA.format("PartialObjectMetadata")
METADATA_LIST = METADATA.format("PartialObjectMetadataList")
# A kind that is not known may have been installed just now.
DISCOVER_AGAIN_S = 5.0


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_decode_resources = msgspec.json.Decoder(_Resources).decode


class OwnerReader:
    """Nothing is kept but how kinds are called in paths. ``clock`` gives seconds that never go back."""

    def __init__(self, api: Api, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._kinds: dict[str, tuple[float, dict[str, _Resource]]] = {}

    async def fetch(self, reference: Reference) -> Owner | None:
        """The object; None where there is none of that name.

        Raises PermissionError where it may not be read, GroupingError where it is malformed, ApiFailure.
        """
        resource = await self._resource(reference.api_version, reference.kind)
        if resource is None:
            return None
        path = f"{_path(resource, reference.api_version, reference.namespace)}/{reference.name}"
        accept = JSON if reference.whole else METADATA_ONLY
        try:
            raw = await self._api.request("GET", path, accept=accept, needs_right=False)
        except ApiFailure as failure:
            if failure.status == 403:
                raise PermissionError(failure.message) from None
            if failure.status == 404:
                return None
            raise
        return read_owner(raw, reference)

    async def pages(self, api_version: str, kind: str, namespace: str) -> AsyncGenerator[list[Owner], None]:
        """The metadata of all such objects, in pages. Raises ApiFailure. Close it when leaving early.

        Malformed ones are left out, and where the kind is unknown or knows no namespaces there are none.
        """
        resource = await self._resource(api_version, kind)
        if resource is None or not resource.namespaced:
            return
        path = _path(resource, api_version, namespace)
        like = Reference(api_version, kind, namespace, "")
        async with aclosing(self._api.list_pages(path, {}, accept=METADATA_LIST, needs_right=False)) as pages:
            async for items, _ in pages:
                yield [owner for raw in items if (owner := _read(raw, like))]

    async def _resource(self, api_version: str, kind: str) -> _Resource | None:
        asked_at, known = self._kinds.get(api_version, (-DISCOVER_AGAIN_S, {}))
        if kind not in known and self._clock() - asked_at >= DISCOVER_AGAIN_S:
            known = await self._discover(api_version)
            self._kinds[api_version] = self._clock(), known
        return known.get(kind)

    async def _discover(self, api_version: str) -> dict[str, _Resource]:
        try:
            found = _decode_resources(await self._api.request("GET", _root(api_version)))
        except ApiFailure as failure:
            if failure.status == 404:
                return {}
            raise
        # Parts of objects, as "pods/binding", have kinds, too.
        return {each.kind: each for each in found.resources or () if "/" not in each.name}


def _read(raw: bytes, like: Reference) -> Owner | None:
    try:
        return read_owner(raw, like)
    except GroupingError:
        return None


def _path(resource: _Resource, api_version: str, namespace: str) -> str:
    scope = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"{_root(api_version)}{scope}/{resource.name}"


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
