"""Requests about PodGroups: create, replace, read; and the patch that writes the PodGroup's name into a pod.

The group writer of the operator sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.client import MERGE, Api
from kai_sched.cluster.failure import read
from kai_sched.cluster.owner_reader import METADATA_ONLY
from kai_sched.cluster.paths import Path, object_path, objects_path, pod_path
from kai_sched.model.keys import split_key

RESOURCE = "podgroups"


class _WrittenMeta(core.Wire):
    resource_version: str | None = None


class _Written(core.Wire):
    metadata: _WrittenMeta


_decode_written = msgspec.json.Decoder(_Written).decode


async def create_group(api: Api, key: str, body: bytes) -> bytes:
    """Create the PodGroup "namespace/name", and return it as JSON. Raises ApiFailure."""
    return await api.request("POST", objects_path(names.POD_GROUP_VERSION, RESOURCE, split_key(key)[0]), body=body)


async def replace_group(api: Api, key: str, body: bytes) -> bytes:
    """Replace the PodGroup that exists in the version that ``body`` names. See ``create_group``."""
    return await api.request("PUT", _path(key), body=body)


async def get_group(api: Api, key: str) -> bytes:
    """Return the PodGroup as JSON. Raises ApiFailure."""
    return await api.request("GET", _path(key))


async def mark_pod(api: Api, key: str, metadata: Mapping[str, Any]) -> int:
    """Patch the metadata of the pod with the given uid; return its new version as a number. Raises ApiFailure."""
    # The answer is the pod, of which the metadata is enough.
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
