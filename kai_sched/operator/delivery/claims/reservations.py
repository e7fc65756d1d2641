"""Who has which claim for devices while binds are under way: assumed when a bind is handed over, written before it is
sent, released when it has failed (API 7.6). Those for extended resources of a pod are made, and deleted again.

Invariant: from ``assume`` until the API server shows the reservation, or until it was taken back there, the store shows
the claim as allocated, so its devices are given to nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

import structlog

from kai_sched.cluster.claim_requests import ClaimReservation, ClaimWriter
from kai_sched.cluster.extended_claim_requests import ExtendedReservation
from kai_sched.cluster.failure import NOT_LEADER, ApiFailure
from kai_sched.model.claims.inflight import ClaimHold, ClaimOverlay
from kai_sched.model.claims.objects import made_claim
from kai_sched.model.keys import split_key
from kai_sched.plan.effects import Bind, ClaimUse
from kai_sched.telemetry.unexpected import FAULTS

log = structlog.get_logger("claims")


class ClaimReservations:
    """For one event loop.

    Parameters
    ----------
    requests
        Sends reservations and releases.
    overlay
        Shows claims in the store.
    changed
        Called when a claim is free again.
    """

    def __init__(self, requests: ClaimWriter, overlay: ClaimOverlay, changed: Callable[[], None]) -> None:
        self._requests = requests
        self._overlay = overlay
        self._changed = changed
        self._releases: dict[str, asyncio.Task[None]] = {}  # by uid of the pod
        # One write of a claim at a time: others would only get conflicts.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def assume(self, bind: Bind) -> None:
        """Count the claims of the pod as allocated and reserved."""
        pod = (split_key(bind.pod)[1], bind.uid)
        for use in bind.claims:
            made = made_claim(use.claim, bind.uid, use.made) if use.made is not None else None
            self._overlay.assume(use.claim, ClaimHold(use.uid, pod, use.allocation, made=made))

    async def reserve(self, group: Sequence[Bind]) -> None:
        """Write the allocations and reservations of the claims of a group, each claim once for all of its pods.

        Raises ApiFailure and ClaimTaken; then some claims may be written, which ``release`` takes back.
        """
        releases = [self._releases[bind.uid] for bind in group if bind.uid in self._releases]
        if releases:
            await asyncio.wait(releases)
        uses: dict[str, list[tuple[Bind, ClaimUse]]] = {}
        for bind in group:
            for use in bind.claims:
                uses.setdefault(use.claim, []).append((bind, use))
        outcomes = await asyncio.gather(*map(self._reserve, uses.values()), return_exceptions=True)
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        try:
            if failures:
                raise failures[0]
        finally:
            del outcomes, failures  # a frame that names what it raises would stay until a full garbage collection

    def release(self, bind: Bind) -> None:
        """Take back what was reserved for a pod whose bind has failed."""
        if not bind.claims:
            return
        holds = {use.claim: hold for use in bind.claims if (hold := self._overlay.hold(use.claim, bind.uid))}
        task = asyncio.create_task(self._release(bind, holds, self._releases.get(bind.uid)), name="claim releases")
        self._releases[bind.uid] = task
        task.add_done_callback(lambda task: self._released(bind.uid, task))

    def is_releasing(self, bind: Bind) -> bool:
        """Whether claims of the pod are being released."""
        return bind.uid in self._releases

    async def stop(self) -> None:
        """Give up what is under way; the next replica that leads binds the pods with what they have."""
        tasks = list(self._releases.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _reserve(self, uses: Sequence[tuple[Bind, ClaimUse]]) -> None:
        bind, first = uses[0]
        pods = tuple((split_key(bind.pod)[1], bind.uid) for bind, _ in uses)
        lock = self._locks.setdefault(first.claim, asyncio.Lock())
        async with lock:
            if first.made is not None:
                wanted = ExtendedReservation(first.claim, bind.pod, bind.uid, first.allocation, first.made)
                version = await self._requests.make(wanted)
            else:
                version = await self._requests.reserve(ClaimReservation(first.claim, first.uid, first.allocation, pods))
        for _, uid in pods:
            self._overlay.written(first.claim, uid, version)

    async def _release(self, bind: Bind, holds: dict[str, ClaimHold], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        for use in bind.claims:
            lock = self._locks.setdefault(use.claim, asyncio.Lock())
            try:
                async with lock:
                    if use.made is not None:
                        await self._requests.delete(use.claim, bind.pod, bind.uid)
                    else:
                        await self._requests.release(use.claim, use.uid, bind.pod, bind.uid)
            except ApiFailure as failure:
                if failure.reason != NOT_LEADER:
                    log.warning("claim.kept", claim=use.claim, pod=bind.pod, problem=str(failure))
            except Exception as error:
                FAULTS.note("claims", use.claim, error)
            if use.claim in holds:
                self._overlay.forget(use.claim, holds[use.claim])
        self._changed()

    def _released(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._releases.get(uid) is task:
            del self._releases[uid]
