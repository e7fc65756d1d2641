"""The requests for claims for devices: a claim is allocated and reserved for pods before their bind, and released where
the bind failed (API 7.6).

``operator.delivery`` decides when. A claim is read before each write, and written in the version that was read, so that
nothing is lost that somebody else has written. Each request may be sent again: one that was carried out already changes
nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from kai_sched.api import names
from kai_sched.cluster.claim_writes import ClaimTaken, ClaimWrite, SentClaim, allocated_devices
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.delivery import deliver
from kai_sched.cluster.extended_claim_requests import DeleteClaim, ExtendedReservation, MakeClaim
from kai_sched.cluster.retry import CLAIM_RELEASES, CLAIMS
from kai_sched.model.claims.objects import CONSUMERS_MAX, Allocation
from kai_sched.plan.allocations import whole_allocation, wire_allocation

log = structlog.get_logger("claims")


@dataclass(frozen=True, slots=True)
class ClaimReservation:
    """What is to be written to one claim.

    Attributes
    ----------
    claim, uid
        Key and uid of the claim.
    allocation
        What it gets, if it has nothing yet; else it must have the same devices.
    pods
        Name and uid of the pods that it is reserved for.
    """

    claim: str
    uid: str
    allocation: Allocation
    pods: tuple[tuple[str, str], ...]


class ClaimWriter:
    """For one event loop.

    Parameters
    ----------
    api
        The client of the API server.
    class_config
        Returns what the DeviceClass of a name tells drivers.
    rng
        Jitter of retries.
    """

    def __init__(
        self, api: Api, class_config: Callable[[str], Iterable[Mapping[str, Any]]], rng: random.Random
    ) -> None:
        self._api = api
        self._class_config = class_config
        self._rng = rng

    async def reserve(self, wanted: ClaimReservation) -> int:
        """Allocate the claim and reserve it; return the resourceVersion in which it is so.

        Raises ApiFailure, and ClaimTaken.
        """
        return await deliver(_Reserve(self._api, wanted, self._class_config), CLAIMS, self._rng)

    async def release(self, claim: str, uid: str, pod: str, pod_uid: str) -> None:
        """Take back the reservation for a pod that has no node, and the allocation if it was the last reservation.

        One that is not there any more is success. Raises ApiFailure.
        """
        await deliver(_Release(self._api, claim, uid, (pod, pod_uid)), CLAIM_RELEASES, self._rng)

    async def make(self, wanted: ExtendedReservation) -> int:
        """Make the claim for extended resources of a pod; return the resourceVersion in which it is reserved.

        Raises ApiFailure, and ClaimTaken.
        """
        return await deliver(MakeClaim(self._api, wanted, self._class_config), CLAIMS, self._rng)

    async def delete(self, claim: str, pod: str, pod_uid: str) -> None:
        """Delete the claim for extended resources of a pod that has no node. Raises ApiFailure."""
        await deliver(DeleteClaim(self._api, claim, pod, pod_uid), CLAIM_RELEASES, self._rng)


class _Reserve(ClaimWrite):
    def __init__(
        self, api: Api, wanted: ClaimReservation, class_config: Callable[[str], Iterable[Mapping[str, Any]]]
    ) -> None:
        super().__init__(api, wanted.claim)
        self._wanted = wanted
        self._class_config = class_config

    async def send(self) -> int:
        wanted = self._wanted
        claim = await self.read_claim()
        self._check(claim)
        status = claim.status or {}
        consumers = status.get("reservedFor") or []
        known = {each.get("uid") for each in consumers}
        new = [{"resource": "pods", "name": name, "uid": uid} for name, uid in wanted.pods if uid not in known]
        if status.get("allocation") and not new:
            return claim.version
        if len(consumers) + len(new) > CONSUMERS_MAX:
            pods = f"{len(consumers)} pods already, and {CONSUMERS_MAX} is the most that it can have"
            raise ClaimTaken(f"ResourceClaim {self.key} has {pods}: use another claim")
        if not status.get("allocation"):
            # The finalizer is no part of the status. It comes first: an allocated claim must not vanish.
            finalizers = claim.metadata.setdefault("finalizers", [])
            if names.CLAIM_FINALIZER not in finalizers:
                finalizers.append(names.CLAIM_FINALIZER)
                claim = await self._protect(claim)
                status = claim.status or {}
            allocation = wire_allocation(wanted.allocation)
            status["allocation"] = whole_allocation(allocation, self.devices_of(claim), self._class_config)
        claim.status = {**status, "reservedFor": [*consumers, *new]}
        return (await self.write(claim, "status")).version

    async def _protect(self, claim: SentClaim) -> SentClaim:
        try:
            return await self.write(claim)
        except ApiFailure as failure:
            if failure.status != 422:
                raise
            # The API server compares the spec with the bytes that it was once sent, and gives others out: those of a
            # config with spaces are not known here. Only a deletion of the claim by hand needs the finalizer.
            log.warning("claim.unprotected", claim=self.key, problem=str(failure))
            return claim

    def _check(self, claim: SentClaim) -> None:
        """Raises ClaimTaken if the claim is not the one that was decided about, or has other devices."""
        meta, name = claim.metadata, f"ResourceClaim {self.key}"
        if meta.get("uid") != self._wanted.uid:
            raise ClaimTaken(f"{name} was deleted and created again")
        if meta.get("deletionTimestamp"):
            raise ClaimTaken(f"{name} is being deleted")
        allocation = (claim.status or {}).get("allocation")
        if allocation and allocated_devices(allocation) != allocated_devices(wire_allocation(self._wanted.allocation)):
            raise ClaimTaken(f"{name} was allocated by somebody else meanwhile")


class _Release(ClaimWrite):
    def __init__(self, api: Api, key: str, uid: str, pod: tuple[str, str]) -> None:
        super().__init__(api, key)
        self._uid = uid
        self._pod, self._pod_uid = pod

    async def send(self) -> int:
        claim = await self.find_claim()
        if claim is None:
            return 0
        status = claim.status or {}
        consumers = status.get("reservedFor") or []
        left = [each for each in consumers if each.get("uid") != self._pod_uid]
        is_other = claim.metadata.get("uid") != self._uid
        if is_other or len(left) == len(consumers) or await self.is_bound(self._pod, self._pod_uid):
            return claim.version
        # What drivers say of the devices goes with the allocation: the API server sees to that.
        kept = {name: part for name, part in status.items() if left or name != "allocation"}
        claim.status = {**kept, "reservedFor": left}
        return (await self.write(claim, "status")).version
