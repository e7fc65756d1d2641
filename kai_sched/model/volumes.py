"""Which PersistentVolume a claim that waits for its first consumer gets, and on which nodes it can get one.

The rules are those of Kubernetes: a volume reserved for a claim is the only candidate; otherwise the smallest free
volume that fits is taken; otherwise a volume is provisioned, if the storage class and its topologies allow it.
Lowering uses this for node constraints, ``reconcile`` to write the reservations before a bind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kai_sched.model.budgets import Budget
from kai_sched.model.constraints import NodeSelector, Requirement, Term
from kai_sched.model.objects import Node, StorageClass, Volume, VolumeClaim
from kai_sched.model.selectors import NODE_NAME, admits, holds
from kai_sched.model.store import Cluster

COMPARED_MAX = 2**19  # volumes that are compared with demands in one cycle, for each requirement of a selector
Kind = tuple[str, str, str]  # storage class, volume mode and attributes class, which must be equal
Demand = tuple[str, frozenset[str], str, str, Term]
NOTHING_CHOSEN: Mapping[str, str] = {}
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")
FREE_PHASES = ("", "Available")


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
        self._free: dict[Kind, list[Volume]] | None = None  # smallest first
        self._kept: dict[str, list[Volume]] = {}  # by claim
        self._with_modes: dict[tuple[Kind, frozenset[str]], list[Volume]] = {}
        self._found: dict[Demand, list[Volume]] = {}
        self._budget = Budget(COMPARED_MAX)

    def affords(self, claim: VolumeClaim) -> bool:
        """Whether the volumes for this claim are known, or may still be looked for in this cycle."""
        if claim.selected_node or demand_of(claim) in self._found:
            return True
        return self._budget.has(claim.namespace, self._cost(claim))

    def _cost(self, claim: VolumeClaim) -> int:
        return len(self._sort().get(_kind(claim), ())) * (1 + len(claim.selector))

    def waits(self, claim: VolumeClaim) -> bool:
        """Whether the storage class of the claim waits for the first consumer."""
        storage = self._class_of(claim)
        return storage is not None and storage.wait_for_first_consumer

    def waiting(self, keys: Iterable[str]) -> list[VolumeClaim]:
        """The claims of a pod that wait for it, in the order in which they get volumes: the smallest first."""
        found = (self.cluster.volume_claims.get(key) for key in keys)
        claims = [claim for claim in found if claim is not None and not claim.volume and self.waits(claim)]
        return sorted(claims, key=lambda each: (each.size_bytes, each.key))

    def topologies(self, claim: VolumeClaim) -> tuple[NodeSelector | None] | None:
        """The nodes on which a volume can be made for the claim, None in it for all of them; None: nowhere.

        A claim for which a node was selected gets its volume there.
        """
        if claim.selected_node:
            return (((Requirement(NODE_NAME, "In", (claim.selected_node,)),),),)
        storage = self._class_of(claim)
        if storage is None or not makes_volumes(storage) or self.kept(claim):
            return None
        return (storage.allowed_topologies,)

    def place(
        self,
        claims: Sequence[VolumeClaim],
        node: Node,
        taken: Container[str] = (),
        chosen: Mapping[str, str] = NOTHING_CHOSEN,
    ) -> Placed:
        """Volumes for the waiting claims of a pod on this node.

        Parameters
        ----------
        taken
            Names of volumes that are no longer free.
        chosen
            By key of the claim, the volume that the scheduler has decided on; "" for one that is to be made. Other
            claims get the smallest that is free.
        """
        placed: list[tuple[VolumeClaim, Volume | None]] = []
        used = {name for name in chosen.values() if name}
        for claim in sorted(claims, key=lambda each: (each.size_bytes, each.key)):
            name = chosen.get(claim.key)
            volume = None if name == "" else self._volume_on(claim, node, used - {name}, taken, name)
            if volume is not None:
                used.add(volume.name)
            elif name or not self._can_be_made(claim, node):
                return Placed(tuple(placed), claim)
            placed.append((claim, volume))
        return Placed(tuple(placed))

    def _volume_on(
        self, claim: VolumeClaim, node: Node, used: Container[str], taken: Container[str], name: str | None
    ) -> Volume | None:
        for volume in self.candidates(claim):
            is_free = volume.name not in used and volume.name not in taken
            if name in (None, volume.name) and is_free and admits(volume.node_affinity, node):
                return volume
        return None

    def _can_be_made(self, claim: VolumeClaim, node: Node) -> bool:
        topologies = self.topologies(claim)
        return topologies is not None and admits(topologies[0], node)

    def _class_of(self, claim: VolumeClaim) -> StorageClass | None:
        return self.cluster.storage_classes.get(claim.storage_class)

    def candidates(self, claim: VolumeClaim) -> list[Volume]:
        """The volumes for the claim, the best first; only those reserved for it, if there are any."""
        if claim.selected_node:
            return []
        kept = self.kept(claim)
        if kept:
            return kept
        served = self.served(claim)
        return served[bisect_left(served, claim.size_bytes, key=lambda volume: volume.size_bytes) :]

    def is_served(self, claim: VolumeClaim) -> bool:
        """Whether a free volume serves the claim, and none is kept for it."""
        served = self.served(claim)
        return bool(served) and served[-1].size_bytes >= claim.size_bytes

    def kept(self, claim: VolumeClaim) -> list[Volume]:
        """The volumes that are reserved for the claim and serve it."""
        self._sort()
        if not self._kept:
            return []
        return [volume for volume in self._kept.get(claim.key, ()) if _serves(volume, claim)]

    def served(self, claim: VolumeClaim) -> list[Volume]:
        """The free volumes that would serve the claim if it asked for the least size, smallest first; one list for all
        claims with the same demand."""
        demand = demand_of(claim)
        found = self._found.get(demand)
        if found is None:
            self._budget.spend(claim.namespace, self._cost(claim))
            found = self._found[demand] = [
                volume
                for volume in self._offered(claim)
                if all(holds(requirement, volume.labels) for requirement in claim.selector)
            ]
        return found

    def _offered(self, claim: VolumeClaim) -> list[Volume]:
        """The free volumes with the kind and access modes that the claim asks for, smallest first."""
        asked = _kind(claim), frozenset(claim.access_modes)
        found = self._with_modes.get(asked)
        if found is None:
            free = self._sort().get(asked[0], ())
            found = self._with_modes[asked] = [volume for volume in free if asked[1].issubset(volume.access_modes)]
        return found

    def _sort(self) -> dict[Kind, list[Volume]]:
        if self._free is not None:
            return self._free
        free: dict[Kind, list[Volume]] = defaultdict(list)
        for volume in sorted(self.cluster.volumes.values(), key=lambda each: (each.size_bytes, each.name)):
            if volume.deleted or volume.phase not in FREE_PHASES:
                continue
            if volume.claim:
                self._kept.setdefault(volume.claim, []).append(volume)
            else:
                free[_kind(volume)].append(volume)
        self._free = free
        return free


def demand_of(claim: VolumeClaim) -> Demand:
    """What the claim asks of a volume, but for its size."""
    return (
        claim.storage_class,
        frozenset(claim.access_modes),
        claim.volume_mode,
        claim.attributes_class,
        claim.selector,
    )


def makes_volumes(storage: StorageClass) -> bool:
    """Whether the storage class has somebody who makes volumes."""
    return storage.provisioner not in _NO_PROVISIONER


def _kind(each: Volume | VolumeClaim) -> Kind:
    return each.storage_class, each.volume_mode, each.attributes_class


def _serves(volume: Volume, claim: VolumeClaim) -> bool:
    """Whether a volume that is kept for the claim meets it, and is not kept for an earlier claim of the same name."""
    return (
        _kind(volume) == _kind(claim)
        and set(claim.access_modes) <= set(volume.access_modes)
        and volume.size_bytes >= claim.size_bytes
        and (not volume.claim_uid or not claim.uid or volume.claim_uid == claim.uid)
    )
