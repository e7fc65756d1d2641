"""What happens before the binds of a group whose pods have claims for devices: the claims are allocated and reserved in
the API server, all of them before the first pod is bound (API 7.6).

The volume binder hands groups over, and they go on to the share binder. While a group waits, its pods and claims stay
assumed, so nobody else gets their room or their devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kai_sched.cluster.claim_writes import ClaimTaken
from kai_sched.cluster.failure import ApiFailure
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.operator.delivery.preparation import BindChecker, Preparation, request_failure
from kai_sched.plan.effects import Bind

DYNAMIC_RESOURCES = "DynamicResources"


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
        observer: BindChecker,
    ) -> None:
        self._reservations = reservations
        self._submit = submit
        self._observer = observer
        self._preparation = Preparation("claims", self._reserve, submit, observer)
        self.stop = self._preparation.stop

    def submit(self, group: Sequence[Bind]) -> None:
        """Reserve the claims of the group, then bind its pods."""
        if any(bind.claims for bind in group):
            self._preparation.start(group)
        else:
            self._submit(group)

    async def _reserve(self, group: Sequence[Bind]) -> BindFailure | None:
        """Return why the group cannot be bound, or None once its claims are reserved."""
        why = next((why for bind in group if (why := self._observer.check(bind))), "")
        if why:
            return BindFailure(OBSOLETE, why)
        try:
            await self._reservations.reserve(group)
        except ClaimTaken as taken:
            return BindFailure(DYNAMIC_RESOURCES, str(taken))
        except ApiFailure as failure:
            return request_failure(failure, DYNAMIC_RESOURCES)
        return None
