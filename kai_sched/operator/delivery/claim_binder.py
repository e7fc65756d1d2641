"""What happens before the binds of a group whose pods have claims for devices: the claims are allocated and reserved in
the API server, all of them before the first pod is bound (API 7.6).

The volume binder hands groups over, and they go on to the share binder. While a group waits, its pods and claims stay
assumed, so nobody else gets their room or their devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from kai_sched.cluster.claim_requests import ClaimTaken
from kai_sched.cluster.failure import NOT_LEADER, ApiFailure
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.operator.delivery.claim_reservations import ClaimReservations
from kai_sched.plan.effects import Bind
from kai_sched.telemetry.faults import FAULTS

DYNAMIC_RESOURCES = "DynamicResources"


class ClaimObserver(Protocol):
    """Hears what became of the claims. The bind tracker is one."""

    def check(self, bind: Bind) -> str:
        """Return why the bind must not be sent any more, or an empty string."""

    def failed(self, bind: Bind, failure: BindFailure) -> None:
        """The bind was given up."""


class ClaimBinder:
    """Reserves the claims of groups, then hands the groups on.

    Parameters
    ----------
    reservations
        Writes claims.
    submit
        Called with a group once its claims are reserved.
    observer
        Hears of binds of a group whose claims cannot be had.
    """

    def __init__(
        self,
        reservations: ClaimReservations,
        submit: Callable[[Sequence[Bind]], None],
        observer: ClaimObserver,
    ) -> None:
        self._reservations = reservations
        self._submit = submit
        self._observer = observer
        self._under_way: set[asyncio.Task[None]] = set()

    def submit(self, group: Sequence[Bind]) -> None:
        """Reserve the claims of the group, then bind its pods."""
        if not any(bind.claims for bind in group):
            self._submit(group)
            return
        task = asyncio.create_task(self._carry_out(group), name="claims")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def stop(self) -> None:
        """Give up what is under way; the next replica that leads takes it up."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry_out(self, group: Sequence[Bind]) -> None:
        failure = await self._reserve(group)
        if failure is None:
            self._submit(group)
            return
        for bind in group:
            try:
                self._observer.failed(bind, failure)
            except Exception as error:
                FAULTS.note("claims", bind.pod, error)

    async def _reserve(self, group: Sequence[Bind]) -> BindFailure | None:
        """Return why the group cannot be bound, or None once its claims are reserved."""
        try:
            why = next((why for bind in group if (why := self._observer.check(bind))), "")
            if why:
                return BindFailure(OBSOLETE, why)
            await self._reservations.reserve(group)
        except ClaimTaken as taken:
            return BindFailure(DYNAMIC_RESOURCES, str(taken))
        except ApiFailure as failure:
            # A claim that is gone is decided about again.
            reason = failure.reason if failure.reason == NOT_LEADER or failure.status else DYNAMIC_RESOURCES
            return BindFailure(OBSOLETE if failure.status == 404 else reason, str(failure), failure.status)
        except Exception as error:
            return BindFailure("InternalError", FAULTS.note("claims", group[0].pod, error))
        return None
