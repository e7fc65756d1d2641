"""The requests for the claim that is made for extended resources of a pod: it is created, allocated and told to the pod
before its bind, and deleted where the bind failed (API 7.6).

Each request may be sent again: what was carried out already is found by the name of the claim, which depends on the pod
alone, and is not done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.cluster.claim_writes import ClaimTaken, ClaimWrite, SentClaim, allocated_devices
from kai_sched.cluster.client import MERGE, Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import objects_path, pod_path
from kai_sched.model.claims.objects import Allocation, ExtendedRequests
from kai_sched.model.keys import split_key
from kai_sched.plan.allocations import claim_status_of_pod, extended_claim, whole_allocation, wire_allocation

FEATURE = "turn on its feature gate DRAExtendedResource, or use a ResourceClaim"


@dataclass(frozen=True, slots=True)
class ExtendedReservation:
    """What is to be written for the extended resources of one pod.

    Attributes
    ----------
    claim
        Key of the claim, whether it is there or not.
    pod, pod_uid
        Key and uid of the pod.
    allocation
        What the claim gets, if it has nothing yet; else it must have the same devices.
    made
        What it asks for.
    """

    claim: str
    pod: str
    pod_uid: str
    allocation: Allocation
    made: ExtendedRequests


class _ClaimedStatus(msgspec.Struct):
    claim: dict[str, Any] | None = msgspec.field(name="extendedResourceClaimStatus", default=None)


class _ClaimedPod(msgspec.Struct):
    status: _ClaimedStatus = msgspec.field(default_factory=_ClaimedStatus)


_decode_pod = msgspec.json.Decoder(_ClaimedPod).decode


class _ExtendedWrite(ClaimWrite):
    """A claim of one pod, and the status of the pod."""

    def __init__(self, api: Api, claim: str, pod: str, pod_uid: str) -> None:
        super().__init__(api, claim)
        self.pod, self.pod_uid = pod, pod_uid

    def is_own(self, claim: SentClaim) -> bool:
        """Whether the claim was made for extended resources of the pod."""
        marks = claim.metadata.get("annotations") or {}
        owners = claim.metadata.get("ownerReferences") or ()
        is_owner = any(each.get("uid") == self.pod_uid and each.get("controller") for each in owners)
        return is_owner and marks.get(names.EXTENDED_CLAIM_ANNOTATION) == "true"

    async def write_status(self, status: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Write which claim the pod has, or that it has none; returns what the API server keeps of it.

        Raises ApiFailure.
        """
        path = pod_path(self.pod, "status")
        body = {"metadata": {"uid": self.pod_uid}, "status": {"extendedResourceClaimStatus": status}}
        answer = await self.api.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE)
        return read(_decode_pod, answer, path, "the pod").status.claim


class MakeClaim(_ExtendedWrite):
    """Creates the claim of the pod, allocates and reserves it, and tells the pod; gives the version of the claim.

    Raises ApiFailure, and ClaimTaken.
    """

    def __init__(
        self, api: Api, wanted: ExtendedReservation, class_config: Callable[[str], Iterable[Mapping[str, Any]]]
    ) -> None:
        super().__init__(api, wanted.claim, wanted.pod, wanted.pod_uid)
        self._wanted = wanted
        self._class_config = class_config

    async def send(self) -> int:
        wanted, pod = self._wanted, split_key(self.pod)[1]
        namespace, name = split_key(self.key)
        claim = await self.find_claim()
        if claim is None:
            manifest = extended_claim(namespace, name, (pod, self.pod_uid), wanted.made)
            claim = await self.send_claim(
                "POST", objects_path(names.DRA_VERSION, "resourceclaims", namespace), manifest
            )
        else:
            self._check(claim)
        if not (claim.status or {}).get("allocation"):
            allocation = whole_allocation(
                wire_allocation(wanted.allocation), self.devices_of(claim), self._class_config
            )
            consumer = {"resource": "pods", "name": pod, "uid": self.pod_uid}
            claim.status = {**(claim.status or {}), "allocation": allocation, "reservedFor": [consumer]}
            claim = await self.write(claim, "status")
        status = claim_status_of_pod(name, wanted.made)
        if await self.write_status(status) != status:
            raise ClaimTaken(f"the API server does not keep status.extendedResourceClaimStatus of pods: {FEATURE}")
        return claim.version

    def _check(self, claim: SentClaim) -> None:
        """Raises ClaimTaken if the claim is not as it would be made now. Its release deletes it."""
        name, wanted = f"ResourceClaim {self.key}", self._wanted
        if not self.is_own(claim):
            raise ClaimTaken(f"{name} was not made for pod {self.pod}: delete it")
        if claim.metadata.get("deletionTimestamp"):
            raise ClaimTaken(f"{name} is being deleted")
        asked = {_asked(each) for each in self.devices_of(claim).get("requests") or ()}
        allocation = (claim.status or {}).get("allocation")
        devices = allocated_devices(wire_allocation(wanted.allocation))
        if asked != {
            (each.name, each.options[0].device_class, each.options[0].count) for each in wanted.made.requests
        } or (allocation and allocated_devices(allocation) != devices):
            raise ClaimTaken(f"{name} of an earlier attempt has other devices, and is deleted")


def _asked(request: Mapping[str, Any]) -> tuple[object, object, object]:
    exactly = request.get("exactly") or {}
    return request.get("name"), exactly.get("deviceClassName"), exactly.get("count")


class DeleteClaim(_ExtendedWrite):
    """Takes back all that ``MakeClaim`` has written for a pod that has no node.

    The pod is told first, then the devices are free, then the claim goes. Raises ApiFailure.
    """

    async def send(self) -> int:
        claim = await self.find_claim()
        if (claim is not None and not self.is_own(claim)) or await self.is_bound(self.pod, self.pod_uid):
            return 0
        try:
            await self.write_status(None)
        except ApiFailure as failure:
            if failure.status not in (404, 409):  # the pod is gone, or another one has its name
                raise
        if claim is None:
            return 0
        status = claim.status or {}
        if status.get("allocation") or status.get("reservedFor"):
            claim.status = {part: value for part, value in status.items() if part not in ("allocation", "reservedFor")}
            claim = await self.write(claim, "status")
        finalizers = claim.metadata.get("finalizers") or []
        if names.CLAIM_FINALIZER in finalizers:
            claim.metadata["finalizers"] = [each for each in finalizers if each != names.CLAIM_FINALIZER]
            claim = await self.write(claim)
        preconditions = {"uid": claim.metadata.get("uid")}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        try:
            await self.api.request("DELETE", self.path(), body=msgspec.json.encode(body))
        except ApiFailure as failure:
            if failure.status != 404:
                raise
        return claim.version
