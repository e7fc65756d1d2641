"""The frozen table of topology domains, described by ``columns.SCHEMA``. Without constraints it has no rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Topologies(NamedTuple):
    """One row for each domain of the topologies that constraints name (semantics 10.1).

    The domains of topology w are the rows ``ptr[w]`` to ``ptr[w + 1]``: its root, then level by level, children side by
    side. The nodes of domain h are ``node[first[h]:end[h]]``. ``leaf`` (W, N) is the narrowest domain of each node.
    """

    ptr: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    child_ptr: npt.NDArray[np.int32]
    child_end: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]
    leaf: npt.NDArray[np.int32]
