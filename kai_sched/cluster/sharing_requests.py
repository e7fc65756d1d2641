"""The requests for pods that share GPUs: reservation pods are created and deleted, and a pod gets its ConfigMaps and
labels before its bind.

``operator.delivery`` decides when. Each request may be sent again: one that was carried out already changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.client import MERGE, Api, ApiFailure
from kai_sched.cluster.delivery import Delivery, deliver
from kai_sched.cluster.failure import INVALID_STATUS, read
from kai_sched.cluster.paths import Path, object_path, objects_path, on_node, pod_path
from kai_sched.cluster.retry import SHARES
from kai_sched.model.config import Config
from kai_sched.model.keys import object_key
from kai_sched.model.objects import Pod
from kai_sched.model.read.pod import PodReader
from kai_sched.reconcile.gpu_reservation import GpuGroup, is_user, leftover_patch, visible_device

Manifest = Mapping[str, Any]
Found = TypeVar("Found")

OWNERS_MAX = 8  # of a ConfigMap; tenants write them, and each is looked at


class _Image(core.Wire):
    image: str | None = None


class _ConfigMap(core.Wire):
    data: dict[str, str] | None = None
    metadata: core.Meta = msgspec.field(default_factory=core.Meta)


class MapTaken(Exception):
    """The ConfigMap is not for this pod; the text says whose it is, and the remedy."""


class _OwnSpec(core.Wire):
    containers: list[_Image]


class _OwnPod(core.Wire):
    spec: _OwnSpec


_decode_pod = msgspec.json.Decoder(core.WirePod).decode
_decode_map = msgspec.json.Decoder(_ConfigMap).decode
_decode_own = msgspec.json.Decoder(_OwnPod).decode


class SharingRequests:
    """For one event loop. All methods raise ApiFailure.

    Parameters
    ----------
    api
        The client of the API server.
    rng
        Jitter of retries.
    """

    def __init__(self, api: Api, rng: random.Random) -> None:
        self._api = api
        self._rng = rng
        self._reader = PodReader(Config())  # as the informer reads them, or a pod would be a user here and not there

    def _read_pod(self, raw: bytes) -> Pod:
        return self._reader.read(_decode_pod(raw), lambda *_: None)

    async def create(self, pod: Manifest) -> None:
        """Create the reservation pod; one of that name that exists is success."""
        meta = pod["metadata"]
        try:
            await self._deliver([("POST", objects_path("v1", "pods", meta["namespace"]), pod)])
        except ApiFailure as failure:
            if failure.status != 409 or failure.reason != "AlreadyExists":
                raise

    async def delete(self, key: str, uid: str) -> None:
        """Delete the pod of that uid; one that is gone is success."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        try:
            await self._deliver([("DELETE", pod_path(key), body)])
        except ApiFailure as failure:
            if failure.status not in (404, 409):
                raise

    async def users(self, device: GpuGroup, config: Config) -> list[str]:
        """The pods on the node that share the device, as the API server has them now."""
        path = objects_path("v1", "pods")
        found: list[str] = []
        async with aclosing(self._api.list_pages(path, on_node(device.node))) as pages:
            async for items, _ in pages:
                pods = (read(self._read_pod, bytes(raw), path, "a pod of the node") for raw in items)
                users = (pod for pod in pods if is_user(pod, config))
                found += [pod.key for pod in users if device.group in pod.gpu_groups]
        return found

    async def prepare(self, key: str, maps: Sequence[Manifest], patch: Manifest) -> core.Meta:
        """Write the ConfigMaps of the pod, then its labels and annotations; return the metadata that it has then.

        Raises ApiFailure, and MapTaken.
        """
        steps = [("POST", objects_path("v1", "configmaps", each["metadata"]["namespace"]), each) for each in maps]
        path = pod_path(key)
        pod = read(_decode_pod, await self._deliver([*steps, ("PATCH", path, patch)]), path, "the pod")
        meta = pod.metadata or core.Meta()
        # The informer may not have shown yet what was written for an earlier bind.
        leftovers = leftover_patch(patch, meta.labels or ())
        if leftovers is not None:
            pod = read(_decode_pod, await self._deliver([("PATCH", path, leftovers)]), path, "the pod")
            meta = pod.metadata or core.Meta()
        return meta

    async def visible_device(self, pod: Pod, group: str) -> str:
        """The device of the group that the pod was told when it was bound; "" where that is not known."""
        if not pod.device_map:
            return ""
        try:
            path = object_path("v1", "configmaps", pod.namespace, pod.device_map)
        except ApiFailure:
            return ""  # users write the annotation that the name is made of, and none can have this one
        found = await self._find(_decode_map, path, "the ConfigMap of the pod")
        return visible_device((found.data if found else None) or {}, pod, group)

    async def image_of(self, key: str) -> str:
        """The image of the first container of the pod; "" where there is no such pod."""
        own = await self._find(_decode_own, pod_path(key), "the pod of the scheduler")
        return (own.spec.containers[0].image or "") if own and own.spec.containers else ""

    async def _find(self, decode: Callable[[bytes], Found], path: Path, what: str) -> Found | None:
        """The object; None where there is none."""
        try:
            return read(decode, await self._api.request("GET", path), path, what)
        except ApiFailure as failure:
            if failure.status == 404:
                return None
            raise

    async def _deliver(self, steps: Sequence[tuple[str, Path, Manifest]]) -> bytes:
        return await deliver(_Steps(self._api, steps), SHARES, self._rng)


class _Steps(Delivery[bytes]):
    """Requests one after the other; those that were carried out are not sent again. The outcome is the last answer. A
    failure that lasts is raised."""

    def __init__(self, api: Api, steps: Sequence[tuple[str, Path, Manifest]]) -> None:
        self._api = api
        self._left = list(steps)

    async def send(self) -> bytes:
        answer = b""
        while self._left:
            method, path, body = self._left[0]
            answer = await self._request(method, path, body)
            del self._left[0]
        return answer

    async def _request(self, method: str, path: Path, body: Manifest) -> bytes:
        content_type = MERGE if method == "PATCH" else "application/json"
        try:
            return await self._api.request(method, path, body=msgspec.json.encode(body), content_type=content_type)
        except ApiFailure as failure:
            if body.get("kind") != "ConfigMap" or failure.reason != "AlreadyExists":
                raise
            return await self._overwrite(body)

    async def _overwrite(self, wanted: Manifest) -> bytes:
        """Give the ConfigMap that is there to the pod. Raises MapTaken where another pod has it, or where it was not
        made for pods that share GPUs."""
        meta, owner = wanted["metadata"], wanted["metadata"]["ownerReferences"][0]
        path = object_path("v1", "configmaps", meta["namespace"], meta["name"])
        found = read(_decode_map, await self._api.request("GET", path), path, "the ConfigMap of the pod").metadata
        remedy = f"create {owner['name']} without the annotation {names.SHARED_GPU_CONFIG_MAP_ANNOTATION}"
        owners = found.owner_references or ()
        if (found.labels or {}).get(names.SHARED_GPU_LABEL) != "true" or any(each.kind != "Pod" for each in owners):
            raise MapTaken(
                f"ConfigMap {meta['name']} is there already, and was not made for pods that share GPUs, so it is not "
                f"overwritten: {remedy}"
            )
        if len(owners) > OWNERS_MAX:
            raise MapTaken(f"ConfigMap {meta['name']} has {len(owners)} owners, so it is not overwritten: {remedy}")
        for each in owners:
            key = object_key(meta["namespace"], each.name or "")
            if each.uid != owner["uid"] and await self._runs(key, each.uid or ""):
                raise MapTaken(
                    f"ConfigMap {meta['name']} tells the devices of pod {key}, and would tell it those of another one: "
                    f"{remedy}"
                )
        body = {**wanted, "metadata": {**meta, "resourceVersion": found.resource_version}}
        return await self._api.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE)

    async def _runs(self, key: str, uid: str) -> bool:
        """Whether there is such a pod, and it has not ended."""
        try:
            path = pod_path(key)
            pod = read(_decode_pod, await self._api.request("GET", path), path, "the pod of the ConfigMap")
        except ApiFailure as failure:
            if failure.status in (404, INVALID_STATUS):
                return False
            raise
        is_same = pod.metadata is not None and pod.metadata.uid == uid
        return is_same and (pod.status is None or pod.status.phase not in ("Succeeded", "Failed"))
