"""Claims for devices that an earlier leader reserved for pods that still wait: when they are released (API 7.6).

A leader that ends between the write of a claim and the bind leaves such a reservation. The pod is bound where its
devices are, if it can be; a minute later the reservation is taken back, so that the pod may go elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kai_sched.lowering.roles import is_bare
from kai_sched.model.claims.objects import ExtendedRequests, ResourceClaim
from kai_sched.model.config import Config, in_pool
from kai_sched.model.keys import object_key
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Store
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.plan.effects import Bind, ClaimUse

PERIOD_S = 60.0


class ClaimLeftovers:
    """For one event loop.

    Parameters
    ----------
    store
        The cluster as the informers show it, with what is under way.
    config
        Returns the settings in force: what other schedulers and those of other node pools reserve is theirs.
    reservations
        Takes reservations back.
    """

    def __init__(self, store: Store, config: Callable[[], Config], reservations: ClaimReservations) -> None:
        self._store = store
        self._config = config
        self._reservations = reservations

    async def run(self) -> None:
        """Look each minute, until cancelled, and release what was there at the last look already."""
        before: set[tuple[str, str]] = set()
        while True:
            found = self.find()
            # A release lasts as long as the API server fails: one that is under way needs no second one.
            under_way = {key for key, bind in found.items() if self._reservations.is_releasing(bind)}
            for key in sorted((found.keys() & before) - under_way):
                self._reservations.release(found[key])
            before = set(found)
            await asyncio.sleep(PERIOD_S)

    async def stop(self) -> None:
        """Give up the releases that are under way."""
        await self._reservations.stop()

    def find(self) -> dict[tuple[str, str], Bind]:
        """By key of the claim and uid of the pod: a bind without a node, for each pod that waits with a reservation."""
        found: dict[tuple[str, str], Bind] = {}
        for key, claim in self._store.all(ResourceClaim).items():
            if claim.allocation is None:
                continue
            for name, uid in claim.consumers:
                pod = self._store.get(Pod, object_key(claim.namespace, name))
                known = pod is not None and pod.uid == uid
                waits = pod is not None and known and not pod.node and self._is_ours(pod)
                # A claim that was made and deleted before a watch has shown it has no uid.
                if waits or (not known and not claim.uid):
                    made = ExtendedRequests() if claim.extended else None
                    use = ClaimUse(key, claim.uid, claim.allocation, False, made)
                    found[key, uid] = Bind(object_key(claim.namespace, name), uid, "", claims=(use,))
        return found

    def _is_ours(self, pod: Pod) -> bool:
        """Whether this process decides about the pod: where another one does, its bind may be under way."""
        config = self._config()
        if pod.scheduler != config.scheduler_name:
            return False
        group = self._store.get(PodGroup, pod.group_key) if pod.group else None
        return is_bare(pod, config) if group is None else in_pool(group.labels, config)
