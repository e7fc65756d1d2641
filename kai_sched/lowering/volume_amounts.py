"""What pods take of nodes with their volumes: attachments of a driver, of which a node may have a limit, and bytes of a
storage class for volumes that are to be made (semantics 12.3). Both are columns of amounts as CPU and memory are, so
that what pods hold, what evictions free and what others take in the same cycle counts.

A volume that several pods use cannot be a sum over pods. It counts once on each node on which a pod uses it, whether
or not that pod is evicted, and a pod that brings it to another node needs an attachment that is free at the start.
Bytes for a claim of several pods are not booked. A column is there only if some node has a limit, or some driver says
its capacity, and some pod needs of it; a node never has less than what its pods hold, as no pod would fit otherwise.

Letters for sizes in shapes: T tasks, C classes, N nodes, K columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.class_records import PodClass
from kai_sched.lowering.constraints import Selector
from kai_sched.lowering.storage import StorageRows
from kai_sched.model.budgets import Budget
from kai_sched.model.constraints import Requirement
from kai_sched.model.objects import VolumeClaim
from kai_sched.model.resources import ATTACHABLE, STORAGE_OF
from kai_sched.model.selectors import NODE_NAME
from kai_sched.model.volumes import VolumeBook, makes_volumes
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.gpu_kinds import BY_DEVICES
from kai_sched.snapshot.tables import Floats, Ints
from kai_sched.snapshot.verdicts import Verdict

COMPARED_MAX = 2**26  # nodes that are compared with classes that share volumes
TOO_MANY_SHARED = "too many pods share volumes of drivers with attach limits: it waits until some have their nodes"
AttachedVolume = tuple[str, str]  # a driver, and what tells its volume from others


@dataclass(frozen=True, slots=True)
class VolumeAmounts:
    """The columns.

    Attributes
    ----------
    resources
        (K,) what the columns are called.
    request
        (C, K) what a pod of each class takes.
    allocatable
        (N, K) what each node has.
    selectors
        By class that shares volumes: the nodes that can have them, where some cannot.
    refusals
        By class that is over the limit of work: why.
    """

    resources: tuple[str, ...]
    request: Floats
    allocatable: Floats
    selectors: dict[int, Selector] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)


def lower_volume_amounts(
    found: list[PodClass],
    of_task: Ints,
    node: Ints,
    waits: npt.NDArray[np.bool_],
    users: Mapping[str, int],
    book: VolumeBook,
    storage: StorageRows,
    evicts_storage: bool,
) -> VolumeAmounts:
    """The columns of amounts of volumes.

    Parameters
    ----------
    found
        (C,) the classes of pods.
    of_task, node
        (T,) each: the class of each task, and the node where it holds room, or NULL.
    waits
        (C,) whether pods of the class may get a node.
    users
        How many tasks use each claim, by its key.
    book, storage
        The volumes and claims of the view, and what drivers say of nodes.
    evicts_storage
        ``Config.schedule_csi_storage``: volumes that are deleted with their pods count, too.
    """
    if not users or not (storage.limits or storage.largest):
        return VolumeAmounts((), np.zeros((len(found), 0)), np.zeros((len(storage.nodes), 0)))
    work = _AmountWork(found, of_task, node, book, storage)
    if storage.limits:
        work.add_attachments(waits)
    if storage.largest:
        work.add_sizes(users, evicts_storage)
    return work.columns()


class _AmountWork:
    """The columns as they are made."""

    def __init__(
        self, found: list[PodClass], of_task: Ints, node: Ints, book: VolumeBook, storage: StorageRows
    ) -> None:
        self._classes = {c: each.shape.claims for c, each in enumerate(found) if each.shape.claims}
        self._n_tasks = np.bincount(of_task, minlength=len(found))
        self._book, self._storage = book, storage
        on_nodes = np.flatnonzero(node != NULL)
        self._task_class, self._task_node = of_task[on_nodes], node[on_nodes]
        self._n_classes, self._n_nodes = len(found), len(storage.nodes)
        self._columns: dict[str, tuple[Floats, Floats]] = {}  # (C,) and (N,)
        self._selectors: dict[int, Selector] = {}
        self._refusals: dict[int, str] = {}

    def columns(self) -> VolumeAmounts:
        """All that was added."""
        names = tuple(self._columns)
        request = np.zeros((self._n_classes, len(names)))
        allocatable = np.zeros((self._n_nodes, len(names)))
        for k, (asked, has) in enumerate(self._columns.values()):
            request[:, k], allocatable[:, k] = asked, np.maximum(has, self._held(asked))
        return VolumeAmounts(names, request, allocatable, self._selectors, self._refusals)

    def _held(self, asked: Floats) -> Floats:
        """(N,) what the pods on each node have of a column in which classes ask for ``asked`` (C,)."""
        found = np.zeros(self._n_nodes)
        np.add.at(found, self._task_node, asked[self._task_class])
        return found

    def add_attachments(self, waits: npt.NDArray[np.bool_]) -> None:
        """Add a column for each driver with a limit on some node of which some pod has volumes, by their names."""
        volumes = {c: found for c, keys in self._classes.items() if (found := self._attached(keys))}
        users: Counter[AttachedVolume] = Counter()
        for c, found in volumes.items():
            users.update(dict.fromkeys(found, int(self._n_tasks[c])))
        shared = {c: {each for each in found if users[each] > 1} for c, found in volumes.items()}
        there = self._shared_on_nodes({c: found for c, found in shared.items() if found})
        free: dict[str, Floats] = {}
        own: dict[str, Floats] = {}
        for driver in sorted({driver for driver, _ in users}):
            asked = np.zeros(self._n_classes)
            for c, found in volumes.items():
                asked[c] = sum(each[0] == driver and users[each] == 1 for each in found)
            left = self._storage.limits[driver].copy()
            for (name, _), nodes in there.items():
                if name == driver:
                    left[nodes] -= 1.0
            free[driver], own[driver] = left - self._held(asked), asked
            if asked.any():
                self._columns[ATTACHABLE + driver] = asked, np.where(np.isinf(left), BY_DEVICES, left)
        self._choose_nodes({c: found for c, found in shared.items() if found and waits[c]}, there, free, own)

    def _attached(self, keys: tuple[str, ...]) -> set[AttachedVolume]:
        """The volumes of the claims of a pod, as far as their drivers have limits."""
        cluster, found = self._book.cluster, set[AttachedVolume]()
        for claim in (cluster.volume_claims.get(key) for key in keys):
            if claim is None:
                continue
            if claim.volume:
                volume = cluster.volumes.get(claim.volume)
                known = (volume.driver, volume.handle or volume.name) if volume is not None else ("", "")
            else:
                storage = cluster.storage_classes.get(claim.storage_class)
                known = (storage.provisioner, claim.key) if storage is not None and makes_volumes(storage) else ("", "")
            if known[0] in self._storage.limits:
                found.add(known)
        return found

    def _shared_on_nodes(self, shared: dict[int, set[AttachedVolume]]) -> dict[AttachedVolume, list[int]]:
        """By shared volume: the rows of the nodes on which pods use it."""
        found: dict[AttachedVolume, set[int]] = {}
        for place in np.flatnonzero(np.isin(self._task_class, list(shared))).tolist():
            for each in shared[int(self._task_class[place])]:
                found.setdefault(each, set()).add(int(self._task_node[place]))
        return {each: sorted(nodes) for each, nodes in sorted(found.items())}

    def _choose_nodes(
        self,
        shared: dict[int, set[AttachedVolume]],
        there: dict[AttachedVolume, list[int]],
        free: dict[str, Floats],
        own: dict[str, Floats],
    ) -> None:
        """Keep classes with shared volumes off nodes where too few attachments are ``free`` (N,) for them.

        ``own`` (C,) has the volumes of the classes that are not shared; both by driver.
        """
        budget = Budget(COMPARED_MAX)
        for c, found in sorted(shared.items(), key=lambda entry: (len(entry[1]), entry[0])):
            namespace = self._classes[c][0].partition("/")[0]
            if not budget.has(namespace, self._n_nodes * len(found)):
                self._refusals[c] = TOO_MANY_SHARED
                continue
            budget.spend(namespace, self._n_nodes * len(found))
            needed = {driver: np.zeros(self._n_nodes) for driver, _ in found}
            for each in sorted(found):
                needed[each[0]] += 1.0
                needed[each[0]][there.get(each, [])] -= 1.0
            refuses = np.zeros(self._n_nodes, bool)
            for driver, more in needed.items():
                refuses |= (more > 0.0) & (more + own[driver][c] > free[driver])
            if refuses.any():
                names = tuple(self._storage.nodes[n].name for n in np.flatnonzero(refuses).tolist())
                self._selectors[c] = Verdict.NOT_ATTACHABLE, ((Requirement(NODE_NAME, "NotIn", names),),)

    def add_sizes(self, users: Mapping[str, int], evicts_storage: bool) -> None:
        """Add a column for each storage class whose capacity is known and of which volumes are to be made."""
        waiting: dict[str, Floats] = {}
        leaving: dict[str, Floats] = {}  # what is made anew wherever the pod goes
        for c, keys in self._classes.items():
            for claim in (self._book.cluster.volume_claims.get(key) for key in keys):
                if claim is None or not self._storage.tracks(claim) or users[claim.key] > 1:
                    continue
                size = max(claim.size_bytes, 0.0)
                if _is_booked(claim, self._book):
                    waiting.setdefault(claim.storage_class, np.zeros(self._n_classes))[c] += size
                elif evicts_storage and claim.volume and claim.pod_uid:
                    leaving.setdefault(claim.storage_class, np.zeros(self._n_classes))[c] += size
        for name, asked in sorted(waiting.items()):
            gone, booked = leaving.get(name, np.zeros(self._n_classes)), self._held(asked)
            has = self._held(gone)
            for segment in self._storage.segments[name]:
                # Volumes that are being made on other nodes of the segment leave less of it.
                elsewhere = booked[segment.rows].sum() - booked[segment.rows]
                has[segment.rows] += np.maximum(segment.size_bytes - elsewhere, 0.0)
            self._columns[STORAGE_OF + name] = asked + gone, has


def _is_booked(claim: VolumeClaim, book: VolumeBook) -> bool:
    """Whether a volume has to be made for the claim: none is there, and none that is free serves it."""
    if claim.volume or not book.waits(claim) or not book.affords(claim):
        return False
    return bool(claim.selected_node) or not (book.kept(claim) or book.is_served(claim))
