"""Which jobs are alike (KAI: scheduling signature), so that one is skipped where another failed: all is equal but the
amounts that pods request; the sizes of claims count (semantics 3.8).

Claims count: jobs are alike only if their claims have equal sizes, phases and volumes and ask the same of a volume. A
claim that no other one can stand for is like itself alone: a volume is kept for it, its node is selected, or several
pods use it. If a job finds no place, an equivalent job that requests at least as much finds none either, so the solver
skips it. Jobs are told apart by 64-bit hashes of multisets of numbers; two different jobs with equal hashes would be
skipped wrongly, with a probability of about J² / 2**65.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.class_records import PodClass
from kai_sched.model.objects import VolumeClaim
from kai_sched.model.volumes import VolumeBook, demand_of
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Longs, Sets

Hashes = npt.NDArray[np.uint64]


def equivalent_classes(classes: Sequence[PodClass], users: Mapping[str, int], book: VolumeBook) -> Ints:
    """(C,) equal numbers for classes that differ in their requests only, numbered in the order of first occurrence.

    ``users`` has the number of tasks that use each claim; ``book`` has the volumes and claims of the view.
    """
    rows: dict[object, int] = {}
    return np.array([rows.setdefault(_kind(each, users, book), len(rows)) for each in classes], np.int32)


def _kind(each: PodClass, users: Mapping[str, int], book: VolumeBook) -> object:
    known = book.cluster.volume_claims
    claims = [_claim_kind(known[key], users, book) for key in each.shape.claims if key in known]
    # The order of claims in the pod does not matter.
    kinds = frozenset(Counter(claims).items()) if len(claims) > 1 else tuple(claims)
    return each.known.place, each.matches, kinds, each.claims, each.held


def _claim_kind(claim: VolumeClaim, users: Mapping[str, int], book: VolumeBook) -> object:
    is_alone = not claim.volume and (users[claim.key] > 1 or claim.selected_node or book.kept(claim))
    own = claim.key if is_alone else ""
    return demand_of(claim), claim.size_bytes, claim.phase, claim.volume, own


def constraint_kinds(sets: Sets) -> Hashes:
    """(S,) numbers that are equal for sets whose topology constraints, and those above them, are equal."""
    own = np.zeros(sets.parent.size, np.uint64)
    for column in (sets.topology, sets.required, sets.preferred, sets.fault):
        own = _scramble(own + (column.astype(np.int64) + 1).astype(np.uint64))
    own[(sets.topology == NULL) & (sets.fault == 0)] = 0
    found, above = own.copy(), sets.parent
    while (above != NULL).any():
        below = np.flatnonzero((above != NULL) & ((found | own[above]) != 0))
        found[below] = _scramble(found[below] + np.uint64(3) * own[above[below]])
        above = np.where(above == NULL, NULL, sets.parent[above])
    return found


def job_equivalence(
    kind: Ints,
    task_job: Ints,
    task_set: Ints,
    waits: npt.NDArray[np.bool_],
    traits: Longs,
    queue: Ints,
    set_kind: Hashes | None = None,
) -> tuple[Ints, Ints]:
    """The equivalence class of each job, and its equivalence class within its queue.

    Two jobs are equivalent if their traits are equal and if equal numbers of tasks of each kind wait in each of their
    sets, under equal topology constraints. The sum of scrambled numbers stands for a multiset, so the
    order of tasks and sets does not matter. Jobs of which no task waits are not told apart: nothing is tried for them.

    Parameters
    ----------
    kind
        (T,) the number of each task's class up to requests (``equivalent_classes``).
    task_job, task_set
        (T,) job and set of each task; NULL for tasks of no job.
    waits
        (T,) whether the task is not placed.
    traits
        (J,) numbers that equivalent jobs have in common.
    queue
        (J,) row of the queue.
    set_kind
        (S,) ``constraint_kinds``; None: there are no constraints.

    Returns
    -------
    tuple
        (J,) ``Jobs.equivalence`` and ``Jobs.queue_equivalence``, numbered in the order of first occurrence; jobs
        of which no task waits have the last number.
    """
    chosen = np.flatnonzero(waits & (task_job != NULL))
    per_set = np.zeros(int(task_set.max(initial=NULL)) + 1, np.uint64)
    job_of_set = np.zeros(per_set.size, np.int64)
    np.add.at(per_set, task_set[chosen], _scramble(kind[chosen].astype(np.uint64) + np.uint64(1)))
    job_of_set[task_set[chosen]] = task_job[chosen]
    per_job, waiting = np.zeros(traits.size, np.uint64), np.zeros(traits.size, bool)
    waiting[task_job[chosen]] = True
    filled = np.flatnonzero(per_set)
    if set_kind is not None:
        per_set[filled] += set_kind[filled]
    np.add.at(per_job, job_of_set[filled], _scramble(per_set[filled]))
    own = _scramble(per_job[waiting] + _scramble(traits[waiting].astype(np.uint64)))
    in_queue = _scramble(own + _scramble(queue[waiting].astype(np.uint64)))
    return _numbered(own, waiting), _numbered(in_queue, waiting)


def _numbered(hashes: Hashes, waiting: npt.NDArray[np.bool_]) -> Ints:
    """(J,) equal numbers for equal hashes of the ``waiting`` jobs, in the order of first occurrence, and the next
    number for all others."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size, dtype=np.int32)
    found = np.full(waiting.size, first.size, np.int32)
    found[waiting] = rank[inverse]
    return found


def _scramble(values: Hashes) -> Hashes:
    """Spread numbers over 64 bits: the finaliser of splitmix64 (Steele, Lea and Flood, 2014). The shape is kept."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
