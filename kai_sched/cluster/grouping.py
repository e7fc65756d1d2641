"""Writes PodGroups, and into pods to which one they belong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.client import MERGE, Api
from kai_sched.cluster.failure import read
from kai_sched.cluster.owners import METADATA_ONLY
from kai_sched.cluster.paths import Path, object_path, objects_path, pod_path
from kai_sched.model.keys import split_key

RESOURCE = "podgroups"


class _Version(core.Wire):
    resource_version: str | None = None


class _Written(core.Wire):
    metadata: _Version


_decode_written = msgspec.json.Decoder(_Written).decode


async def create_group(api: Api, key: str, body: bytes) -> bytes:
    """The PodGroup "namespace/name" as it is then. Raises ApiFailure."""
    return await api.request("POST", objects_path(names.POD_GROUP_VERSION, RESOURCE, split_key(key)[0]), body=body)


async def replace_group(api: Api, key: str, body: bytes) -> bytes:
    """As ``create_group``, for one that is there in the version that ``body`` names."""
    return await api.request("PUT", _path(key), body=body)


async def get_group(api: Api, key: str) -> bytes:
    """The PodGroup. Raises ApiFailure."""
    return await api.request("GET", _path(key))


async def mark_pod(api: Api, key: str, metadata: Mapping[str, Any]) -> int:
    """Change the pod's metadata, its uid being the one given; the version that it has then. Raises ApiFailure."""
    # The answer is the pod: its metadata is enough, and spares both sides most of it.
    path = pod_path(key)
    raw = await api.request(
        "PATCH",
        path,
        body=msgspec.json.encode({"metadata": metadata}),
        content_type=MERGE,
        accept=METADATA_ONLY,
    )
    version = read(_decode_written, raw, path, "the pod").metadata.resource_version or ""
    return int(version) if version.isdecimal() else 0


def _path(key: str) -> Path:
    namespace, name = split_key(key)
    return object_path(names.POD_GROUP_VERSION, RESOURCE, namespace, name)
