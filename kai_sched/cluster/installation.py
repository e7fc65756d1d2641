"""What an API server has of a scheduler of these APIs, ours or the original: served kinds, settings, queues, who leads,
deployments and webhooks. For ``kai-sched doctor``; nothing of the cluster is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import GROUPS, VERSION, Path, object_path, objects_path, version_path
from kai_sched.cluster.reflector import METADATA_LIST

LEASES = "coordination.k8s.io/v1"
APPS = "apps/v1"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a Lease: its name, the identity of the process, and until when it holds, by the clock of the holder."""

    lease: str
    holder: str
    until: datetime


@dataclass(frozen=True, slots=True)
class InstalledDeployment:
    """A Deployment of a scheduler or of a part of one; ``ready`` is how many of its pods are ready."""

    name: str
    ready: int
    is_ours: bool


@dataclass(frozen=True, slots=True)
class InstalledWebhook:
    """A webhook configuration: the services that are called, and whether all of them are trusted (caBundle)."""

    name: str
    services: tuple[str, ...]
    trusted: bool


async def server_version(api: Api) -> str:
    """Such as "v1.34.1". Raises ApiFailure."""
    return str((await _get(api, VERSION)).get("gitVersion", "unknown"))


async def served_versions(api: Api, group: str) -> dict[str, frozenset[str]]:
    """The resources of an API group by version, such as "scheduling.run.ai/v2": {"queues"}. Raises ApiFailure."""
    found: dict[str, frozenset[str]] = {}
    for each in (await _get(api, GROUPS)).get("groups") or []:
        if each.get("name") == group:
            for version in each.get("versions") or []:
                name = version["groupVersion"]
                resources = (await _get(api, version_path(name))).get("resources") or []
                found[name] = frozenset(resource["name"] for resource in resources)
    return found


async def config_object(api: Api) -> bytes | None:
    """The Config of the cluster, None if there is none. Raises ApiFailure."""
    return await _raw(api, object_path(names.CONFIG_VERSION, "configs", "", names.CONFIG_NAME))


async def count_queues(api: Api) -> int:
    """How many queues there are. Raises ApiFailure."""
    count = 0
    async for items, _ in api.list_pages(objects_path(names.QUEUE_VERSION, "queues"), {}, accept=METADATA_LIST):
        count += len(items)
    return count


def is_named(name: str, scheduler: str) -> bool:
    """Whether a Lease or a Deployment of that name is the scheduler's, or that of one of its node pools."""
    return name == scheduler or name.startswith(f"{scheduler}-")


async def lease_holders(api: Api, namespace: str) -> list[LeaseHolder]:
    """The Leases of a namespace that say who holds them, by name. Raises ApiFailure."""
    found = []
    for each in await _items(api, objects_path(LEASES, "leases", namespace)):
        spec = each.get("spec") or {}
        if not spec.get("holderIdentity") or not spec.get("renewTime"):
            continue
        renewed = datetime.fromisoformat(spec["renewTime"])
        until = renewed + timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        found.append(LeaseHolder(each["metadata"]["name"], spec["holderIdentity"], until))
    return sorted(found, key=lambda each: each.lease)


async def scheduler_deployments(api: Api, namespace: str, scheduler: str) -> list[InstalledDeployment]:
    """The Deployments of the namespace that schedule, and the other parts of the original. Raises ApiFailure."""
    found = []
    for each in await _items(api, objects_path(APPS, "deployments", namespace)):
        name = each["metadata"]["name"]
        if name not in names.ORIGINAL_PARTS and not is_named(name, scheduler):
            continue
        containers = each["spec"]["template"]["spec"].get("containers") or []
        # The original's scheduler has no subcommands, only flags.
        is_ours = any((container.get("args") or [""])[0] == "run" for container in containers)
        found.append(InstalledDeployment(name, (each.get("status") or {}).get("readyReplicas") or 0, is_ours))
    return found


async def webhook_configuration(api: Api, resource: str, name: str) -> InstalledWebhook | None:
    """One configuration, None if there is none. Raises ApiFailure."""
    path = object_path("admissionregistration.k8s.io/v1", resource, "", name)
    raw = await _raw(api, path)
    if raw is None:
        return None
    found = read(_decode, raw, path, "the object")
    clients = [each.get("clientConfig") or {} for each in found.get("webhooks") or []]
    services = {(client.get("service") or {}).get("name") or client.get("url") or "" for client in clients}
    return InstalledWebhook(name, tuple(sorted(services)), all(client.get("caBundle") for client in clients))


async def _raw(api: Api, path: Path) -> bytes | None:
    """The object, None if there is none."""
    try:
        return await api.request("GET", path, needs_right=False)
    except ApiFailure as failure:
        if failure.status == 404:
            return None
        raise


async def _get(api: Api, path: Path) -> dict[str, Any]:
    return read(_decode, await api.request("GET", path, needs_right=False), path, "the object")


async def _items(api: Api, path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async for items, _ in api.list_pages(path, {}, needs_right=False):
        found += [read(_decode, bytes(item), path, "an item") for item in items]
    return found
