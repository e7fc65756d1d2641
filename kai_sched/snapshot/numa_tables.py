"""The frozen tables of NUMA zones, described by ``columns.SCHEMA``. Without the plugin `numa` they have no rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class NumaZones(NamedTuple):
    """One row for each NUMA zone of a node, by node, then in the order of the zones (semantics 12.4).

    Resources of zones are those that zones report and some pod requests. Task t has
    ``held[held_ptr[t]:held_ptr[t + 1]]`` at the start: for each zone of its node, as many as the largest node has, its
    amounts by resource.
    """

    ptr: npt.NDArray[np.int32]
    policy: npt.NDArray[np.uint8]
    pod_scope: npt.NDArray[np.uint8]
    aware: npt.NDArray[np.uint8]
    allocatable: npt.NDArray[np.float64]
    free: npt.NDArray[np.float64]
    held_ptr: npt.NDArray[np.int32]
    held: npt.NDArray[np.float64]


class NumaRequests(NamedTuple):
    """What classes ask of zones: the requests of class c are the rows ``ptr[c]`` to ``ptr[c + 1]`` (semantics 12.4).

    The first is that of the pod as a whole, the others those of its containers, of which the ones that are ``alone``
    come first. Request u has the entries ``entry_ptr[u]`` to ``entry_ptr[u + 1]``.
    """

    ptr: npt.NDArray[np.int32]
    guaranteed: npt.NDArray[np.uint8]
    alone: npt.NDArray[np.uint8]
    entry_ptr: npt.NDArray[np.int32]
    resource: npt.NDArray[np.int32]
    amount: npt.NDArray[np.float64]
