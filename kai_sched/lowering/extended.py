"""Which requests for devices stand for the extended resources that the containers of a pod ask for, and on which nodes
each is needed (semantics 8.6).

A node that offers the resource serves it by its device plugin; on all others the pod has a claim of its own, which is
made for it with the bind. Requests are named as kube-scheduler names them.

Cost: one step for each distinct list of extended resources in a cycle, and a lookup for each pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kai_sched.lowering.cache import Cache
from kai_sched.model.claims import (
    EXTENDED_PREFIX,
    ClaimRequests,
    ContainerDevices,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    ExtendedRequests,
    ResourceClaim,
    extended_claim_name,
    is_extended,
)
from kai_sched.model.keys import object_key
from kai_sched.model.objects import Node, Pod
from kai_sched.model.resources import canonical
from kai_sched.model.store import Cluster
from kai_sched.snapshot.tables import Flags


class ExtendedBook:
    """The extended resources of one state of classes, claims and nodes; for one cycle.

    Attributes
    ----------
    classes
        The DeviceClass that stands for each resource.
    backed
        The same resources, as the scheduler counts them.
    """

    def __init__(self, cluster: Cluster, cache: Cache, nodes: list[Node]) -> None:
        self._cluster, self._cache, self._nodes = cluster, cache, nodes
        self.classes = _classes(cluster.device_classes.values())
        self.backed = frozenset(map(canonical, self.classes))
        # By id: the pods of the cycle keep the lists.
        self._known: dict[int, ExtendedRequests | None] = {}
        self._owned = {
            (claim.namespace, claim.owner): claim
            for _, claim in sorted(cluster.resource_claims.items(), reverse=True)  # of two for a pod the first counts
            if claim.extended and claim.owner
        }

    def requests(self, pod: Pod) -> ExtendedRequests | None:
        """What the claim of the pod has on a node that offers none of its resources; None for other pods."""
        if not pod.extended:
            return None
        number = id(pod.extended)
        if number not in self._known:
            found = requests_of(pod.extended, self.classes)
            self._known[number] = found if found.requests else None
        return self._known[number]

    def offered(self, resource: str) -> Flags:
        """(N,) 1 where the node offers the resource itself."""
        name = canonical(resource)

        def make() -> Flags:
            return np.array([node.allocatable.get(name, 0.0) > 0.0 for node in self._nodes], np.uint8)

        return self._cache.column(("offered", name), make)

    def needed_on(self, n: int, asked: ExtendedRequests) -> ExtendedRequests:
        """The part of the requests that node ``n`` needs, as it does not offer the resources itself."""
        requests = tuple(each for each in asked.requests if not self.offered(each.resource)[n])
        names = {each.name for each in requests}
        return ExtendedRequests(requests, tuple(each for each in asked.mappings if each[2] in names))

    def made_for(self, names: set[str], asked: ExtendedRequests) -> Flags:
        """(N,) 1 where a claim with the requests of these names is the one that the pod needs."""
        found = np.ones(len(self._nodes), np.uint8)
        for each in asked.requests:
            found &= (self.offered(each.resource) == 0) == (each.name in names)
        return found

    def claim(self, pod: Pod, asked: ExtendedRequests) -> ResourceClaim:
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


def _classes(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """The class that stands for each resource: of two the newer one, then the one with the smaller name."""
    found: dict[str, str] = {}
    for each in sorted(classes, key=lambda each: (-each.created_ns, each.name)):
        found.setdefault(f"{EXTENDED_PREFIX}{each.name}", each.name)
        if is_extended(each.extended_resource):
            found.setdefault(each.extended_resource, each.name)
    return found
