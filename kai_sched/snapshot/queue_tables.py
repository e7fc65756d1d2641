"""The frozen table of queues: their tree, what each may have, and what it has in other node pools, described by
``columns.SCHEMA``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Queues(NamedTuple):
    """One row for each queue of the tree (semantics 2), with row numbers below those of its children.

    Siblings go by age, then uid. Amounts are (Q, 3): CPU, memory, GPUs; inf is unlimited. ``child`` (Q,) lists the
    children of each queue from ``child_ptr`` (Q + 2,); row Q stands above the roots. Runtimes are in ns. What other
    node pools bring to the division (2.8) is ``*_elsewhere``: of the queues (Q, 3), the capacity (1, 3).
    """

    parent: npt.NDArray[np.int32]
    child_ptr: npt.NDArray[np.int32]
    child: npt.NDArray[np.int32]
    quota: npt.NDArray[np.float64]
    limit: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    priority: npt.NDArray[np.int64]
    usage: npt.NDArray[np.float64]
    preempt_runtime: npt.NDArray[np.int64]
    reclaim_runtime: npt.NDArray[np.int64]
    by_uid: npt.NDArray[np.int32]
    held_elsewhere: npt.NDArray[np.float64]
    fixed_elsewhere: npt.NDArray[np.float64]
    asked_elsewhere: npt.NDArray[np.float64]
    capacity_elsewhere: npt.NDArray[np.float64]
