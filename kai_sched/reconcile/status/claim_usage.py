"""What the claims for devices of each pod add to the amounts of statuses (API 6.1), kept from view to view.

The claims of a pod and the GPUs that they count as are those of the decisions (``model.claims.of_pods``,
``ClaimRequests.counted``).

Cost: a few lookups for each pod that is noted, and for each claim that has changed and each of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from kai_sched.model.claims.objects import DeviceClass, ResourceClaim
from kai_sched.model.claims.of_pods import ClaimBook, classes_of_resources
from kai_sched.model.keys import object_key
from kai_sched.model.objects import Pod
from kai_sched.model.resources import GPU
from kai_sched.model.store import Change, Cluster

# In front of the name of a class in amounts, where "gpu" is any GPU. Counted in thousandths, as other resources are.
CLASS_PREFIX = "class:"

ClaimAmounts = tuple[tuple[str, float], ...]  # (resource, amount) in scheduler units, by resource


class ClaimUsage:
    """What the claims of the pods that are noted add up to, for each pod."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._book = cluster, ClaimBook(cluster)
        self._amounts: dict[str, ClaimAmounts] = {}
        # The pods by the claims that they name, and by (namespace, uid) those that may have one made for them.
        self._users: dict[str | tuple[str, str], dict[str, None]] = {}

    def amounts(self, pod: Pod) -> ClaimAmounts:
        """What the claims of the pod add, as of when it was noted."""
        return self._amounts.get(pod.key, ()) if self._amounts else ()

    def note(self, pod: Pod) -> None:
        """The pod is there in the view, or its claims are others now. Another pod with its key was dropped before."""
        if not pod.claims and not pod.extended:
            return
        for use in _uses(pod):
            self._users.setdefault(use, {})[pod.key] = None
        if found := self._count(pod):
            self._amounts[pod.key] = found
        else:
            self._amounts.pop(pod.key, None)

    def drop(self, pod: Pod) -> None:
        """The pod, which was noted, is gone or another one now."""
        if not pod.claims and not pod.extended:
            return
        self._amounts.pop(pod.key, None)
        for use in _uses(pod):
            users = self._users.get(use, {})
            users.pop(pod.key, None)
            if not users:
                self._users.pop(use, None)

    def follow(self, cluster: Cluster, changed: Iterable[Change]) -> bool:
        """Go on to a later view; return whether all pods have to be noted again, as other classes stand for resources.

        ``changed`` are the objects by which the views differ.
        """
        before, self._cluster = self._cluster, cluster
        self._book = ClaimBook(cluster)
        if not any(kind is DeviceClass for kind, _ in changed):
            return False
        return classes_of_resources(before.device_classes.values()) != self._book.classes

    def differing(self, before: Cluster, changed: Iterable[Change]) -> list[Pod]:
        """The noted pods whose claims add something else now, as claims have changed since ``before``."""
        users: dict[str, None] = {}
        for key in (key for kind, key in changed if kind is ResourceClaim):
            users |= self._users.get(key, {})
            for claim in (before.resource_claims.get(key), self._cluster.resource_claims.get(key)):
                if claim is not None and claim.extended:
                    users |= self._users.get((claim.namespace, claim.owner), {})
        pods = [self._cluster.pods[key] for key in users]
        return [pod for pod in pods if self._count(pod) != self.amounts(pod)]

    def _count(self, pod: Pod) -> ClaimAmounts:
        """By class what users ask for as devices, and as GPUs all that counts as such.

        What they ask for as an extended resource is among the requests of the pod already, by that name.
        """
        claims = self._book.claims(pod)
        if claims is None:
            return ()
        total: dict[str, float] = {}
        for claim in claims.distinct().values():
            if gpus := claim.asks.gpus():
                total[GPU] = total.get(GPU, 0.0) + gpus
            for request, count in claim.asks.counted():
                if not request.resource:
                    name = CLASS_PREFIX + request.options[0].device_class
                    total[name] = total.get(name, 0.0) + 1000.0 * count
        return tuple(sorted(total.items()))


def _uses(pod: Pod) -> list[str | tuple[str, str]]:
    """The keys of the claims that the pod names; (namespace, uid) for a claim that is made for it as well."""
    found: list[str | tuple[str, str]] = [object_key(pod.namespace, use.claim) for use in pod.claims]
    return [*found, (pod.namespace, pod.uid)] if found and pod.extended else found
