"""Reads what a running cluster has of other schedulers: which kinds are served, their objects, and what is forbidden.

Only GET requests are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from kai_sched.cli.migration.found import (
    CONFIG_MAP,
    POD,
    SCHEDULERS,
    YUNIKORN_CONFIG_MAP,
    ForeignKind,
    FoundObjects,
    GroupKind,
)
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.installation import served_versions
from kai_sched.cluster.paths import objects_path, only
from kai_sched.cluster.reflector import JSON, METADATA_LIST

_decode = msgspec.json.Decoder(dict[str, Any]).decode


async def read_foreign(api: Api, kinds: Sequence[ForeignKind], with_pods: bool = True) -> FoundObjects:
    """The objects of these kinds that are served; with pods and ConfigMaps of other schedulers, if these are wanted.

    What cannot be read is in ``unreadable``. Raises ApiFailure if the API server does not answer at all.
    """
    found = FoundObjects(live=True)
    groups = sorted({each.kind.group for each in kinds})
    served = dict(zip(groups, await asyncio.gather(*(served_versions(api, group) for group in groups)), strict=True))
    todo = []
    for each in kinds:
        versions = [name for name, resources in served[each.kind.group].items() if each.resource in resources]
        if versions:  # the API server names the one that it prefers first
            found.versions[each.kind] = {name.rpartition("/")[2] for name in versions}
            todo.append(_list(api, versions[0], each.resource, each.kind, found, whole=each.whole))
    if with_pods:
        todo.append(_list(api, "v1", "configmaps", CONFIG_MAP, found, params=only(YUNIKORN_CONFIG_MAP)))
        todo += [_list_pods(api, name, found) for name in SCHEDULERS.values()]
    await asyncio.gather(*todo)
    found.unreadable = sorted(dict.fromkeys(found.unreadable))
    return found


async def _list_pods(api: Api, scheduler: str, found: FoundObjects) -> None:
    selector = {"fieldSelector": f"spec.schedulerName={scheduler}"}
    spec = {"schedulerName": scheduler}
    await _list(api, "v1", "pods", POD, found, whole=False, params=selector, spec=spec)


async def _list(
    api: Api,
    version: str,
    resource: str,
    kind: GroupKind,
    found: FoundObjects,
    *,
    whole: bool = True,
    params: dict[str, str] | None = None,
    spec: dict[str, str] | None = None,
) -> None:
    """Add the objects of the resource. ``spec`` is what is known of the spec where only the metadata is read."""
    path = objects_path(version, resource)
    short = version.rpartition("/")[2]
    try:
        async for items, _ in api.list_pages(
            path, params or {}, accept=JSON if whole else METADATA_LIST, needs_right=False
        ):
            for raw in items:
                manifest = {**_decode(raw), "apiVersion": version, "kind": kind.kind}
                found.add(kind, short, {**manifest, "spec": spec} if spec is not None else manifest)
    except ApiFailure as failure:
        if failure.status == 0:
            raise
        name = f"{resource}.{kind.group}" if kind.group else resource
        rule = f'{{apiGroups: ["{kind.group}"], resources: [{resource}], verbs: [list]}}'
        why = f"listing is forbidden: add the rule {rule} to the ClusterRole of this account"
        found.unreadable.append((name, why if failure.is_missing_right else str(failure)))
