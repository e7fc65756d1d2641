"""On which nodes the requests for devices that stand for extended resources are needed (semantics 8.6).

A node that offers the resource serves it by its device plugin; on all others the pod has a claim of its own, which is
made for it with the bind.
"""

from __future__ import annotations

import numpy as np

from kai_sched.lowering.cache import Cache
from kai_sched.model.claims.objects import ExtendedRequests
from kai_sched.model.objects import Node
from kai_sched.model.resources import canonical
from kai_sched.snapshot.tables import Flags


class ExtendedBook:
    """The extended resources of one state of classes and nodes; for one cycle.

    ``backed`` are the resources for which classes stand, as the scheduler counts them. ``classes`` has the class of
    each resource.
    """

    def __init__(self, classes: dict[str, str], cache: Cache, nodes: list[Node]) -> None:
        self._cache, self._nodes = cache, nodes
        self.backed = frozenset(map(canonical, classes))

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
