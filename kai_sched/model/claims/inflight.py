"""How the store shows claims for devices whose allocation was decided and does not show in the API server yet.

As ``inflight`` for pods: from the moment that a bind is handed over, its claims are *assumed* to be allocated and
reserved for its pod, until the API server shows it, or until the bind has failed and its claims were released. No other
claim gets the devices meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kai_sched.model.claims.objects import Allocation, ResourceClaim
from kai_sched.model.store import Store


@dataclass(slots=True, eq=False)
class ClaimHold:
    """What one pod is to have of a claim.

    Attributes
    ----------
    claim_uid
        The uid of the claim: another one of the same name has nothing to do with it.
    pod
        Name and uid of the pod.
    allocation
        What was decided for the claim.
    version
        The resourceVersion in which the API server has it; 0 until it was written.
    made
        The claim that is made for extended resources of the pod. It is shown while it is not there, whatever its uid
        will be.
    """

    claim_uid: str
    pod: tuple[str, str]
    allocation: Allocation
    version: int = 0
    made: ResourceClaim | None = None


@dataclass(slots=True)
class _UnderWay:
    """``observed``: the claim as the API server shows it; None while it shows none."""

    observed: ResourceClaim | None
    holds: dict[str, ClaimHold] = field(default_factory=dict)  # by uid of the pod


class ClaimOverlay:
    """Writes claims to the store: as the API server shows them, and with what is under way. For one event loop.

    All keys are "namespace/name".
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions: dict[str, int] = {}
        self._under_way: dict[str, _UnderWay] = {}

    def observe(self, claim: ResourceClaim, version: int) -> None:
        """Take over the claim as the API server shows it in this resourceVersion."""
        key = claim.key
        self._versions[key] = version
        self._show(key, claim)

    def gone(self, key: str) -> None:
        """Remove the claim: the API server no longer has it."""
        under_way = self._under_way.get(key)
        if under_way is not None and any(hold.made for hold in under_way.holds.values()):
            under_way.holds = {uid: hold for uid, hold in under_way.holds.items() if hold.made}
            self._show(key, None)
            return
        self._versions.pop(key, None)
        self._under_way.pop(key, None)
        self._store.remove(ResourceClaim, key)

    def assume(self, key: str, hold: ClaimHold) -> None:
        """Show the claim as allocated and reserved for the pod. No effect for a claim that is gone or was replaced,
        unless it is made for the pod."""
        claim = self._store.get(ResourceClaim, key)
        if hold.made is None and (claim is None or claim.uid != hold.claim_uid):
            return
        under_way = self._under_way.setdefault(key, _UnderWay(claim))
        under_way.holds[hold.pod[1]] = hold
        self._put(key, under_way)

    def hold(self, key: str, pod_uid: str) -> ClaimHold | None:
        """What the pod is to have of the claim and the API server does not show yet."""
        under_way = self._under_way.get(key)
        return under_way.holds.get(pod_uid) if under_way is not None else None

    def written(self, key: str, pod_uid: str, version: int) -> None:
        """The API server has the claim so since this resourceVersion; what it shows from then on counts."""
        hold = self.hold(key, pod_uid)
        if hold is not None:
            hold.version = version
            self._show(key, self._under_way[key].observed)

    def forget(self, key: str, hold: ClaimHold) -> None:
        """Take back ``assume``; no effect if the pod was given the claim anew meanwhile."""
        under_way = self._under_way.get(key)
        if under_way is not None and under_way.holds.get(hold.pod[1]) is hold:
            del under_way.holds[hold.pod[1]]
            self._put(key, under_way)

    def _show(self, key: str, claim: ResourceClaim | None) -> None:
        under_way = self._under_way.get(key)
        if under_way is None:
            if claim is not None:
                self._store.put(claim)
            return
        under_way.observed = claim
        version = self._versions.get(key, 0)
        under_way.holds = {uid: hold for uid, hold in under_way.holds.items() if not _is_shown(hold, claim, version)}
        self._put(key, under_way)

    def _put(self, key: str, under_way: _UnderWay) -> None:
        holds = list(under_way.holds.values())
        claim = under_way.observed or next((hold.made for hold in holds if hold.made), None)
        if claim is None:
            del self._under_way[key]
            self._versions.pop(key, None)
            self._store.remove(ResourceClaim, key)
            return
        if holds:
            consumers = tuple(dict.fromkeys((*claim.consumers, *(hold.pod for hold in holds))))
            claim = replace(claim, allocation=claim.allocation or holds[0].allocation, consumers=consumers)
        else:
            del self._under_way[key]
        self._store.put(claim)


def _is_shown(hold: ClaimHold, claim: ResourceClaim | None, version: int) -> bool:
    """Whether the claim as the API server shows it says all that is to be known of the hold.

    That the pod is among the consumers says nothing: it may be so in a version from before a release.
    """
    is_other = hold.made is None and (claim is None or claim.uid != hold.claim_uid)
    return is_other or 0 < hold.version <= version
