"""What the cache knows of a shape and of a class of pods; ``pod_classes`` makes tables of those that a cycle needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kai_sched.model.objects import Shape
from kai_sched.snapshot.gpu_kinds import GpuKind
from kai_sched.snapshot.tables import Ints, Longs, TermKind


class TaskColumns(NamedTuple):
    """What classes are made from, of each task (T,) in canonical order.

    ``pods`` are the pods, ``numbers`` their classes in the cache, ``waits`` is whether the task waits for a node and
    ``movable`` whether it may get one in this cycle, and ``node`` where its room is, NULL for nowhere.
    """

    pods: npt.NDArray[np.object_]
    numbers: Longs
    waits: npt.NDArray[np.bool_]
    movable: npt.NDArray[np.bool_]
    node: Ints


@dataclass(frozen=True, slots=True)
class KnownShape:
    """A shape and what is derived from it once.

    ``number`` is its number in this cache, ``place`` is equal for shapes that differ in requests and claims only,
    ``gpu_kind`` says what kind of GPUs containers request, and ``terms`` has (number, kind, weight) of each inter-pod
    term. ``refusal`` says why the terms are over a limit of work and do not count; "" otherwise.
    """

    number: int
    place: int
    shape: Shape
    gpu_kind: GpuKind
    terms: tuple[tuple[int, TermKind, int], ...]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class PodClass:
    """A class of pods that placement cannot tell apart: one shape, matched by the same inter-pod terms.

    ``reserves`` marks GPU reservation pods: their device is counted with the pods that share it. ``matches`` are the
    numbers of the terms that match the pods, ascending.
    """

    known: KnownShape
    reserves: bool
    matches: tuple[int, ...]
    claims: int = 0  # number of the key of its claims (``claims.ClaimKey``) in this cycle
    held: int = 0  # ``ExclusiveRows.held``

    @property
    def shape(self) -> Shape:
        return self.known.shape
