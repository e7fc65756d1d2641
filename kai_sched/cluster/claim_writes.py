"""What all writes of claims for devices have in common: how a claim is read and written back, and what tells that it is
another one than was decided about.

A claim is read before each write, and written in the version that was read, so that nothing is lost that somebody else
has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.delivery import Delivery
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import Path, object_path, pod_path
from kai_sched.model.keys import split_key
from kai_sched.model.read.meta import version_number


class SentClaim(msgspec.Struct, rename="camel"):
    """A claim as it is read and written back. The spec keeps its bytes: the API server takes no other ones."""

    metadata: dict[str, Any]
    spec: msgspec.Raw
    api_version: str = names.DRA_VERSION
    kind: str = "ResourceClaim"
    status: dict[str, Any] | None = None

    @property
    def version(self) -> int:
        """The resourceVersion."""
        return version_number(self.metadata.get("resourceVersion"))


class _ClaimSpec(msgspec.Struct):
    devices: dict[str, Any] = msgspec.field(default_factory=dict)


_decode_claim = msgspec.json.Decoder(SentClaim).decode
_decode_spec = msgspec.json.Decoder(_ClaimSpec).decode
_decode_pod = msgspec.json.Decoder(core.WirePod).decode


class ClaimTaken(Exception):
    """The claim cannot be had as it was decided; the text says why."""


class ClaimWrite(Delivery[int]):
    """One claim, read and written. A failure that lasts is raised."""

    def __init__(self, api: Api, key: str) -> None:
        self.api = api
        self.key = key

    def path(self, part: str = "") -> Path:
        """The path of the claim, or of a part of it."""
        namespace, name = split_key(self.key)
        return object_path(names.DRA_VERSION, "resourceclaims", namespace, name, part)

    async def read_claim(self) -> SentClaim:
        """The claim as the API server has it. Raises ApiFailure."""
        path = self.path()
        return read(_decode_claim, await self.api.request("GET", path), path, "the claim")

    async def find_claim(self) -> SentClaim | None:
        """The same; None if there is none. Raises ApiFailure."""
        try:
            return await self.read_claim()
        except ApiFailure as failure:
            if failure.status == 404:
                return None
            raise

    def devices_of(self, claim: SentClaim) -> dict[str, Any]:
        """``spec.devices`` of the claim. Raises ApiFailure."""
        return read(_decode_spec, claim.spec, self.path(), "the spec of the claim").devices

    async def write(self, claim: SentClaim, part: str = "") -> SentClaim:
        """Write the claim, or a part of it, in the version that was read. Raises ApiFailure."""
        return await self.send_claim("PUT", self.path(part), claim)

    async def send_claim(self, method: str, path: Path, claim: object) -> SentClaim:
        """Send the claim; return the answer. Raises ApiFailure."""
        answer = await self.api.request(method, path, body=msgspec.json.encode(claim))
        return read(_decode_claim, answer, path, "the claim")

    async def is_bound(self, pod: str, uid: str) -> bool:
        """Whether somebody else has bound the pod, which then needs its claims. Raises ApiFailure."""
        path = pod_path(pod)
        try:
            found = read(_decode_pod, await self.api.request("GET", path), path, "the pod")
        except ApiFailure as failure:
            if failure.status == 404:
                return False
            raise
        is_same = found.metadata is not None and found.metadata.uid == uid
        return is_same and found.spec is not None and bool(found.spec.node_name)


def allocated_devices(allocation: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """Request, driver, pool and name of each device of an allocation."""
    results = (allocation.get("devices") or {}).get("results") or ()
    return {tuple(each.get(part) or "" for part in ("request", "driver", "pool", "device")) for each in results}
