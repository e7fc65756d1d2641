"""Which PersistentVolume a claim that waits for its first consumer gets, and on which nodes it can get one.

The rules are those of Kubernetes: a volume reserved for a claim is the only candidate; otherwise the smallest free
volume that fits is taken; otherwise a volume is provisioned, if the storage class and its topologies allow it.
Lowering uses this for node constraints, ``reconcile`` to write the reservations before a bind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass

from kai_sched.model.objects import Node, NodeSelector, Requirement, StorageClass, Volume, VolumeClaim
from kai_sched.model.selectors import NODE_NAME, admits, holds
from kai_sched.model.store import Cluster

EVERYWHERE: NodeSelector = ((Requirement(NODE_NAME, "Exists"),),)
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")
_FREE_PHASES = ("", "Available")


@dataclass(frozen=True, slots=True)
class Placed:
    """A volume for each waiting claim of a pod, None for a volume to be provisioned.

    ``homeless`` is the first claim for which neither is possible; the list then ends before it.
    """

    volumes: tuple[tuple[VolumeClaim, Volume | None], ...]
    homeless: VolumeClaim | None = None


class VolumeBook:
    """The free volumes of one view of the cluster, sorted at first use."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._free: dict[str, list[Volume]] | None = None  # by class, smallest first
        self._kept: dict[str, list[Volume]] = {}  # by claim
        self._found: dict[object, list[Volume]] = {}

    def waits(self, claim: VolumeClaim) -> bool:
        """Whether the storage class of the claim waits for the first consumer."""
        storage = self._class_of(claim)
        return storage is not None and storage.wait_for_first_consumer

    def reach(self, claim: VolumeClaim) -> NodeSelector | None:
        """The nodes on which a waiting claim can get a volume, as a node selector; None for all nodes."""
        if claim.selected_node:
            return ((Requirement(NODE_NAME, "In", (claim.selected_node,)),),)
        found = self._candidates(claim)
        selectors = [EVERYWHERE if volume.node_affinity is None else volume.node_affinity for volume in found]
        storage = self._class_of(claim)
        if _makes_volumes(storage) and not _is_kept(found):
            if storage is None or storage.allowed_topologies is None:
                return None
            selectors.append(storage.allowed_topologies)
        return tuple(dict.fromkeys(term for selector in selectors for term in selector))

    def competing(self, claims: Sequence[VolumeClaim]) -> bool:
        """Whether two of the waiting claims of a pod have a candidate volume in common."""
        if len(claims) < 2:
            return False
        found = [
            volume.name
            for claim in claims
            if not claim.selected_node and self.reach(claim) is not None
            for volume in self._candidates(claim)
        ]
        return len(set(found)) < len(found)

    def place(self, claims: Sequence[VolumeClaim], node: Node, taken: Container[str] = ()) -> Placed:
        """Volumes for the waiting claims of a pod on this node. Volumes named in ``taken`` are no longer free."""
        placed: list[tuple[VolumeClaim, Volume | None]] = []
        used: set[str] = set()
        for claim in sorted(claims, key=lambda each: (each.size_bytes, each.key)):
            volume = self._volume_on(claim, node, used, taken)
            if volume is not None:
                used.add(volume.name)
            elif not self._can_be_made(claim, node):
                return Placed(tuple(placed), claim)
            placed.append((claim, volume))
        return Placed(tuple(placed))

    def _volume_on(self, claim: VolumeClaim, node: Node, used: Container[str], taken: Container[str]) -> Volume | None:
        if claim.selected_node:
            return None
        for volume in self._candidates(claim):
            if volume.name not in used and volume.name not in taken and admits(volume.node_affinity, node):
                return volume
        return None

    def _can_be_made(self, claim: VolumeClaim, node: Node) -> bool:
        if claim.selected_node:
            return claim.selected_node == node.name
        storage = self._class_of(claim)
        if storage is None or not _makes_volumes(storage) or _is_kept(self._candidates(claim)):
            return False
        return admits(storage.allowed_topologies, node)

    def _class_of(self, claim: VolumeClaim) -> StorageClass | None:
        return self.cluster.storage_classes.get(claim.storage_class)

    def _candidates(self, claim: VolumeClaim) -> list[Volume]:
        """The volumes for the claim, the best first; only those reserved for it, if there are any."""
        if self._free is None:
            self._free = self._sort()
        kept = [volume for volume in self._kept.get(claim.key, ()) if _serves(volume, claim)]
        if kept:
            return kept
        demand = (
            claim.storage_class,
            claim.size_bytes,
            claim.access_modes,
            claim.volume_mode,
            claim.attributes_class,
            claim.selector,
        )
        found = self._found.get(demand)
        if found is None:
            found = self._found[demand] = [
                volume
                for volume in self._free.get(claim.storage_class, ())
                if _serves(volume, claim) and all(holds(requirement, volume.labels) for requirement in claim.selector)
            ]
        return found

    def _sort(self) -> dict[str, list[Volume]]:
        free: dict[str, list[Volume]] = defaultdict(list)
        for volume in sorted(self.cluster.volumes.values(), key=lambda each: (each.size_bytes, each.name)):
            if volume.deleted or volume.phase not in _FREE_PHASES:
                continue
            if volume.claim:
                self._kept.setdefault(volume.claim, []).append(volume)
            else:
                free[volume.storage_class].append(volume)
        return free


def _makes_volumes(storage: StorageClass | None) -> bool:
    return storage is not None and storage.provisioner not in _NO_PROVISIONER


def _is_kept(candidates: list[Volume]) -> bool:
    return bool(candidates) and bool(candidates[0].claim)


def _serves(volume: Volume, claim: VolumeClaim) -> bool:
    """Whether the volume meets the claim and is not reserved for an earlier claim of the same name."""
    return (
        volume.storage_class == claim.storage_class
        and volume.size_bytes >= claim.size_bytes
        and set(claim.access_modes) <= set(volume.access_modes)
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and (not volume.claim_uid or not claim.uid or volume.claim_uid == claim.uid)
    )
