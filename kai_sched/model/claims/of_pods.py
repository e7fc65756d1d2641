"""Which claims for devices a pod has, and which requests for devices stand for its extended resources (semantics 8.6).

Lowering and the amounts in statuses ask here, so that decisions and statuses count the same claims. Requests are named
as kube-scheduler names them.

Cost: one step for each class and claim for extended resources and for each distinct list of extended resources, and a
few lookups for each pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kai_sched.model.claims.objects import (
    EXTENDED_PREFIX,
    ClaimRequests,
    ContainerDevices,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    ExtendedRequests,
    PodClaim,
    ResourceClaim,
    extended_claim_name,
    is_extended,
)
from kai_sched.model.keys import ObjectKey, object_key
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod.

    ``listed``: those in its specification, with the objects, as far as they exist. ``asked``: what it asks for as
    extended resources for which classes stand, if anything; ``own`` is the claim for that. ``missing``: the resources
    that are named after a class that does not exist, by name.
    """

    listed: tuple[tuple[PodClaim, ResourceClaim | None], ...]
    asked: ExtendedRequests | None
    own: ResourceClaim | None
    missing: tuple[str, ...] = ()

    def distinct(self) -> dict[ObjectKey, ResourceClaim]:
        """The claims that exist and the one for extended resources, each once, by key."""
        found = {claim.key: claim for _, claim in self.listed if claim is not None}
        return found | ({self.own.key: self.own} if self.own is not None else {})


class ClaimBook:
    """The claims of the pods of one view.

    ``classes``: the DeviceClass that stands for each extended resource.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.classes = classes_of_resources(cluster.device_classes.values())
        # By id: the pods of the view keep the lists.
        self._known: dict[int, tuple[ExtendedRequests | None, tuple[str, ...]]] = {}
        made = [(key, claim) for key, claim in cluster.resource_claims.items() if claim.extended and claim.owner]
        # Of two for a pod the first counts.
        self._owned = {(claim.namespace, claim.owner): claim for _, claim in sorted(made, reverse=True)}

    def claims(self, pod: Pod) -> PodClaims | None:
        """The claims of the pod; None for a pod that needs none."""
        asked, missing = self._requests(pod) if pod.extended else (None, ())
        if not pod.claims and asked is None and not missing:
            return None
        known = self._cluster.resource_claims
        listed = tuple((use, known.get(object_key(pod.namespace, use.claim))) for use in pod.claims)
        return PodClaims(listed, asked, self._claim(pod, asked) if asked is not None else None, missing)

    def _requests(self, pod: Pod) -> tuple[ExtendedRequests | None, tuple[str, ...]]:
        """What the claim of the pod has on a node that offers none of its resources, None without such a claim; and
        the resources whose class is missing."""
        number = id(pod.extended)
        if number not in self._known:
            found = requests_of(pod.extended, self.classes)
            lacking = {each.resource for each in pod.extended} - self.classes.keys()
            missing = tuple(sorted(resource for resource in lacking if resource.startswith(EXTENDED_PREFIX)))
            self._known[number] = found if found.requests else None, missing
        return self._known[number]

    def _claim(self, pod: Pod, asked: ExtendedRequests) -> ResourceClaim:
        """The claim for extended resources that the pod has, else the one that would be made for it.

        It asks for what the pod needs on a node that offers nothing.
        """
        name = extended_claim_name(pod.name, pod.uid)
        known = self._owned.get((pod.namespace, pod.uid))
        if known is None and not pod.uid:
            known = self._cluster.resource_claims.get(object_key(pod.namespace, name))
        if known is None or not known.extended:
            known = ResourceClaim(pod.namespace, name, owner=pod.uid, extended=True)
        return replace(known, asks=ClaimRequests(asked.requests))


def requests_of(listed: tuple[ContainerDevices, ...], classes: dict[str, str]) -> ExtendedRequests:
    """The requests of the claim for these extended resources, by name; empty where no class stands for any of them.

    Containers that run as long as the pod have a request each. An init container that ends uses what later ones of
    those hold, and all of them together one more request, for the most that one of them lacks.
    """
    requests: list[DeviceRequest] = []
    mappings: list[tuple[str, str, str]] = []
    for resource in sorted({each.resource for each in listed} & classes.keys()):
        uses = [each for each in listed if each.resource == resource]
        lasting = [each for each in uses if each.lasting]
        mappings += [(each.container, resource, _name(each)) for each in lasting]
        counts = [(_name(each), each.count) for each in lasting]
        lacking: list[tuple[ContainerDevices, int]] = []
        for each in uses:
            missing = 0 if each.lasting else each.count
            for later in lasting if missing else ():
                if later.number > each.number and missing > 0:
                    mappings.append((each.container, resource, _name(later)))
                    missing -= later.count
            if missing > 0:
                lacking.append((each, missing))
        if lacking:
            most, count = max(lacking, key=lambda found: found[1])
            counts.append((_name(most), count))
            mappings += [(each.container, resource, _name(most)) for each, _ in lacking]
        for name, count in counts:
            option = DeviceOption(classes[resource], count=count)
            requests.append(DeviceRequest(name, (option,), resource=resource))
    return ExtendedRequests(tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings))


def _name(use: ContainerDevices) -> str:
    return f"container-{use.number}-request-{use.place}"


def classes_of_resources(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """The class that stands for each resource: of two the newer one, then the one with the smaller name."""
    found: dict[str, str] = {}
    for each in sorted(classes, key=lambda each: (-each.created_ns, each.name)):
        found.setdefault(f"{EXTENDED_PREFIX}{each.name}", each.name)
        if is_extended(each.extended_resource):
            found.setdefault(each.extended_resource, each.name)
    return found
