"""What storage drivers say of the nodes of a view: how many volumes each can have attached, and how much of each
storage class can be made there (semantics 12.3).

It is kept until a node or an object changes from which it is made (``Cache.columns``).
Letters for sizes in shapes: N nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.cached_rows import STORAGE
from kai_sched.lowering.reach import Reaches
from kai_sched.model.constraints import NodeSelector, Requirement
from kai_sched.model.objects import Node, StorageClass, VolumeClaim
from kai_sched.model.selectors import NODE_NAME
from kai_sched.model.storage import StorageCapacity
from kai_sched.model.store import Cluster
from kai_sched.model.volumes import makes_volumes
from kai_sched.snapshot.gpu_kinds import BY_DEVICES
from kai_sched.snapshot.tables import Floats


@dataclass(frozen=True, slots=True)
class Segment:
    """One CSIStorageCapacity: the rows of its nodes, and the bytes that are left there."""

    rows: npt.NDArray[np.int64]
    size_bytes: float


@dataclass(frozen=True, slots=True)
class StorageRows:
    """What drivers say of the nodes.

    Attributes
    ----------
    nodes
        (N,) the nodes.
    limits
        By driver: (N,) how many of its volumes a node can have attached, inf without a limit. Drivers that limit no
        node have no entry.
    largest
        By storage class whose driver tracks capacity: (N,) bytes of the largest volume that can be made, 0 for none.
    segments
        By such a storage class: its segments, by their keys.
    """

    nodes: list[Node]
    limits: Mapping[str, Floats] = field(default_factory=dict)
    largest: Mapping[str, Floats] = field(default_factory=dict)
    segments: Mapping[str, tuple[Segment, ...]] = field(default_factory=dict)

    def tracks(self, claim: VolumeClaim) -> bool:
        """Whether it is known where there is capacity for the claim."""
        return claim.storage_class in self.largest

    def with_room(self, claim: VolumeClaim) -> npt.NDArray[np.bool_] | None:
        """(N,) whether a volume of the size that the claim asks for can be made there; None: that is not known."""
        found = self.largest.get(claim.storage_class)
        return None if found is None else np.asarray((found >= claim.size_bytes) & (found > 0.0))

    def selector(self, claim: VolumeClaim) -> NodeSelector | None:
        """``with_room`` as a selector; None where the driver says nothing, or all nodes have room."""
        fits = self.with_room(claim)
        if fits is None or fits.all():
            return None
        names = tuple(self.nodes[n].name for n in np.flatnonzero(fits).tolist())
        return ((Requirement(NODE_NAME, "In", names),),) if names else ()

    def most(self, claim: VolumeClaim) -> float:
        """Bytes of the largest volume for the claim that can be made on a node without room for it."""
        found = self.largest[claim.storage_class]
        return float(found[found < claim.size_bytes].max(initial=0.0))


def storage_rows(cluster: Cluster, cache: Cache, nodes: list[Node]) -> StorageRows:
    """What drivers say of these ``nodes`` (N,); as it was made last if nothing has changed of what it is made from."""
    found: StorageRows | None = cache.columns.get(STORAGE)
    if found is None:
        segments = _segments(cluster, Reaches(cache, nodes))
        largest = {name: _largest(objects, len(nodes)) for name, objects in segments.items()}
        kept = {name: tuple(segment for segment, _ in objects) for name, objects in segments.items()}
        found = cache.columns[STORAGE] = StorageRows(nodes, _limits(cluster, nodes), largest, kept)
    return found


def _limits(cluster: Cluster, nodes: list[Node]) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for n, node in enumerate(nodes) if cluster.node_volumes else ():
        known = cluster.node_volumes.get(node.name)
        for driver, count in known.most.items() if known is not None else ():
            found.setdefault(driver, np.full(len(nodes), np.inf))[n] = count
    return dict(sorted(found.items()))


def _segments(cluster: Cluster, reaches: Reaches) -> dict[str, list[tuple[Segment, StorageCapacity]]]:
    """The segments of each storage class whose driver tracks capacity, in the order of their keys."""
    found: dict[str, list[tuple[Segment, StorageCapacity]]] = {
        name: [] for name, storage in sorted(cluster.storage_classes.items()) if _is_tracked(storage, cluster)
    }
    for _, capacity in sorted(cluster.storage_capacities.items()) if found else ():
        if capacity.storage_class in found:
            rows = range(len(reaches.nodes)) if capacity.nodes is None else reaches.of(capacity.nodes)
            # Where the driver says more of one volume than of all, one volume is all that is known to fit.
            known = [size for size in (capacity.size_bytes, capacity.largest_bytes) if size is not None]
            size = max(known, default=0.0) if capacity.size_bytes is not None or not known else BY_DEVICES
            found[capacity.storage_class].append((Segment(np.array(rows, np.int64), size), capacity))
    return found


def _is_tracked(storage: StorageClass, cluster: Cluster) -> bool:
    driver = cluster.storage_drivers.get(storage.provisioner)
    return storage.wait_for_first_consumer and makes_volumes(storage) and driver is not None and driver.tracks_capacity


def _largest(objects: list[tuple[Segment, StorageCapacity]], n_nodes: int) -> Floats:
    found = np.zeros(n_nodes)
    for segment, capacity in objects:
        found[segment.rows] = np.maximum(found[segment.rows], capacity.bound_bytes)
    return found
