"""The tables of claims that wait for their first pod, and of the free volumes that they may get (semantics 12.2).

A claim has rows only where a choice changes what others get: if a free volume serves it, or several pods use it. Where
a claim of one pod gets a volume that is made for it or kept for it, node constraints say all (``constraints``).

Volumes have rows in the order in which claims take them: the smallest first, then by name. What claims with the same
demand may get, whatever size they ask for, is one group: the volumes from a first row on serve a claim of the group.

Cost: one step for each volume and demand, and for each node that a volume reaches. What tenants choose is counted: the
volumes that are compared (``model.volumes``), the nodes that they reach, and what the solver will look at. A namespace
gets a part of each budget only, and the pods with the fewest claims come first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.class_records import PodClass
from kai_sched.lowering.constraints import TOO_MANY_DEMANDS
from kai_sched.lowering.reach import Reaches
from kai_sched.lowering.storage import StorageRows
from kai_sched.model.budgets import Budget
from kai_sched.model.constraints import NodeSelector
from kai_sched.model.objects import Volume, VolumeClaim
from kai_sched.model.problems import some_of
from kai_sched.model.volumes import Demand, VolumeBook, demand_of
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Ints, Volumes

REACHED_MAX = 2**19  # nodes that volumes reach, for each demand
STEPS_MAX = 2**27  # volumes that pods may look at on all nodes


@dataclass(frozen=True, slots=True)
class VolumeRows:
    """The table, and what its rows are about.

    Attributes
    ----------
    claims
        (F,) keys of the waiting claims with rows.
    volumes
        (Z,) names of the volumes that they may get.
    waiting
        By class: its waiting claims, if it has some.
    refusals
        By class that is over a limit: why.
    storage
        What storage drivers say of the nodes.
    """

    table: Volumes
    claims: list[str]
    volumes: list[str]
    waiting: dict[int, list[VolumeClaim]]
    refusals: dict[int, str]
    storage: StorageRows

    def asked(self, c: int) -> str:
        """The waiting claims of a class in words; "" if it has none."""
        return some_of([_text(claim) for claim in self.waiting.get(c, ())])


@dataclass(slots=True)
class _Candidates:
    """The volumes for one demand, or those that are kept for one claim; ``longest`` is the most that one node has."""

    volumes: list[Volume]
    anywhere: list[int] = field(default_factory=list)
    near: list[tuple[int, int]] = field(default_factory=list)
    longest: int = 0


def lower_volumes(
    found: list[PodClass],
    chosen: npt.NDArray[np.bool_],
    users: Mapping[str, int],
    n_tasks: Sequence[int],
    book: VolumeBook,
    storage: StorageRows,
    cache: Cache,
) -> VolumeRows:
    """The tables of volumes.

    Parameters
    ----------
    found, chosen
        (C,) the classes of pods, and whether pods of the class may get a node and all of its claims can be used.
    users
        How many tasks use each claim, by its key.
    n_tasks
        (C,) how many tasks each class has.
    book
        The volumes and claims of the view.
    storage
        The nodes (N,) in canonical order, and what storage drivers say of them.
    cache
        The cache of labels.
    """
    with_claims = [c for c in np.flatnonzero(chosen).tolist() if found[c].known.shape.claims]
    waiting = {c: claims for c in with_claims if (claims := book.waiting(found[c].known.shape.claims))}
    work = _VolumeWork(book, storage, Reaches(cache, storage.nodes))
    for c in sorted(waiting, key=lambda c: (len(waiting[c]), c)):
        work.add(c, waiting[c], users, n_tasks[c])
    return work.rows(len(found), waiting)


def _text(claim: VolumeClaim) -> str:
    """The claim in words, as far as it matters for who gets a volume."""
    modes = "".join(f", {mode}" for mode in claim.access_modes)
    kind = f"class {claim.storage_class}" if claim.storage_class else "no class"
    size = f"{claim.size_bytes / 2**30:g}Gi" if claim.size_bytes % 2**20 == 0 else f"{claim.size_bytes / 1e9:g}G"
    return f"{claim.key} ({kind}, {size}{modes})"


class _VolumeWork:
    """The groups and claims of the classes that were added, and what was counted."""

    def __init__(self, book: VolumeBook, storage: StorageRows, reaches: Reaches) -> None:
        self._book = book
        self._storage = storage
        self._reaches = reaches
        self._n_nodes = max(1, len(reaches.nodes))
        self._groups: dict[Demand | str, _Candidates] = {}
        self._claims: dict[str, tuple[VolumeClaim, _Candidates]] = {}
        self._of_class: dict[int, list[str]] = {}
        self._refusals: dict[int, str] = {}
        self._reached, self._steps = Budget(REACHED_MAX), Budget(STEPS_MAX)

    def add(self, c: int, waiting: list[VolumeClaim], users: Mapping[str, int], n_tasks: int) -> None:
        """Give the claims of class ``c`` rows, as far as they need some; or refuse the class."""
        needed: dict[str, tuple[VolumeClaim, _Candidates]] = {}
        for claim in waiting:
            group = self._group(claim)
            if group is None:
                self._refusals[c] = TOO_MANY_DEMANDS
                return
            if users[claim.key] > 1 or (group.volumes and not group.volumes[0].claim):
                needed[claim.key] = claim, group
        steps = n_tasks * self._n_nodes * sum(1 + len(g.anywhere) + g.longest for _, g in needed.values())
        namespace = waiting[0].namespace if waiting else ""
        if not self._steps.has(namespace, steps):
            self._refusals[c] = "too many pods wait for volumes of this kind: it waits until some have theirs"
            return
        self._steps.spend(namespace, steps)
        self._claims.update(needed)
        self._of_class[c] = list(needed)

    def _group(self, claim: VolumeClaim) -> _Candidates | None:
        """The group of the claim; None: to find it would be too much work."""
        kept = self._book.kept(claim)
        key = claim.key if kept or claim.selected_node else demand_of(claim)
        group = self._groups.get(key)
        if group is None:
            group = _Candidates([] if claim.selected_node else kept or self._book.served(claim))
            sizes: dict[int, int] = {}
            for place, volume in enumerate(group.volumes):
                if volume.node_affinity is None:
                    group.anywhere.append(place)
                    continue
                nodes = self._reaches.of(volume.node_affinity)
                if not self._reached.has(claim.namespace, len(nodes)):
                    return None
                self._reached.spend(claim.namespace, len(nodes))
                for n in nodes:
                    sizes[n] = sizes.get(n, 0) + 1
                    group.near.append((n, place))
            group.longest = max(sizes.values(), default=0)
            self._groups[key] = group
        return group

    def rows(self, n_classes: int, waiting: dict[int, list[VolumeClaim]]) -> VolumeRows:
        """The tables of all that was added."""
        groups = {id(group): group for _, group in self._claims.values()}
        volumes = {volume.name: volume for group in groups.values() for volume in group.volumes}
        ordered = sorted(volumes.values(), key=lambda each: (each.size_bytes, each.name))
        row_of = {volume.name: v for v, volume in enumerate(ordered)}
        numbers = {key: g for g, key in enumerate(groups)}
        claims = {key: w for w, key in enumerate(self._claims)}
        sizes = [volume.size_bytes for volume in ordered]
        near = [sorted((n, row_of[group.volumes[at].name]) for n, at in group.near) for group in groups.values()]
        far = [[row_of[group.volumes[at].name] for at in group.anywhere] for group in groups.values()]
        made, topology = self._made()
        of_class = [[claims[key] for key in self._of_class.get(c, ())] for c in range(n_classes)]
        pairs = [pair for each in near for pair in each]
        table = Volumes(
            ptr=_starts(of_class),
            claim=_flat(of_class),
            group=np.array([numbers[id(group)] for _, group in self._claims.values()], np.int32),
            least=np.array([bisect_left(sizes, claim.size_bytes) for claim, _ in self._claims.values()], np.int32),
            topology=topology,
            near_ptr=_starts(near),
            near_node=np.array([n for n, _ in pairs], np.int32),
            near_volume=np.array([v for _, v in pairs], np.int32),
            far_ptr=_starts(far),
            far_volume=_flat(far),
            made=made,
        )
        return VolumeRows(table, list(claims), list(row_of), waiting, self._refusals, self._storage)

    def _made(self) -> tuple[Flags, Ints]:
        """(M, N) the nodes of each set on which volumes can be made, and (F,) the set of each claim, NULL for none.

        A set has the nodes of the topologies of a storage class that have room for a size.
        """
        sets: dict[tuple[NodeSelector | None, str, float], tuple[int, VolumeClaim]] = {}
        topology = []
        for claim, _ in self._claims.values():
            # Where a node was selected, node constraints leave that one alone.
            found = (None,) if claim.selected_node else self._book.topologies(claim)
            if found is None:
                topology.append(NULL)
                continue
            known = self._storage.tracks(claim) and not claim.selected_node
            key = (found[0], claim.storage_class, claim.size_bytes) if known else (found[0], "", 0.0)
            topology.append(sets.setdefault(key, (len(sets), claim))[0])
        made = np.ones((len(sets), len(self._reaches.nodes)), np.uint8)
        for (selector, name, _), (row, claim) in sets.items():
            if selector is not None:
                made[row] = 0
                made[row, self._reaches.of(selector)] = 1
            if name and (room := self._storage.with_room(claim)) is not None:
                made[row, ~room] = 0
        return made, np.array(topology, np.int32)


def _starts(lists: list[list[int]] | list[list[tuple[int, int]]]) -> Ints:
    return np.cumsum([0, *map(len, lists)], dtype=np.int32)


def _flat(lists: list[list[int]]) -> Ints:
    return np.array([each for one in lists for each in one], np.int32)
