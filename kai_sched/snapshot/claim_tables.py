"""The frozen tables of dynamic resource allocation: devices of slices, what claims ask for, and the claims of pods.

``columns.SCHEMA`` describes each column, as for the other tables (``tables``). A cluster without claims has no rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# In ``DraRequests.match``: an option selects the device, but for a taint that it does not tolerate.
TAINTED = 2


class DraDevices(NamedTuple):
    """One row for each device of a ResourceSlice, by driver, pool, slice and place in the slice (semantics 8.6).

    Node n may use the devices ``entry[ptr[n]:ptr[n + 1]]``. Capacities that claims consume have a range of ``limit``
    (E,) for each device, counters of pools a row of ``total`` (U,). Amounts are whole: each has a unit of its own.
    """

    ptr: npt.NDArray[np.int32]
    entry: npt.NDArray[np.int32]
    wide: npt.NDArray[np.uint8]
    shared: npt.NDArray[np.uint8]
    alike: npt.NDArray[np.int32]
    limit_ptr: npt.NDArray[np.int32]
    limit: npt.NDArray[np.int64]
    counter_ptr: npt.NDArray[np.int32]
    counter: npt.NDArray[np.int32]
    amount: npt.NDArray[np.int64]
    total: npt.NDArray[np.int64]


class DraRequests(NamedTuple):
    """What the claims of classes ask for (semantics 8.6).

    Class c has the claims ``class_ptr[c]`` to ``class_ptr[c + 1]``, each with a row of ``spec`` and, where several
    pods use it or it is allocated already, its row of claims in ``claim``. A spec has requests, a request has options,
    of which the first that can be had counts. Requests that stand for extended resources count on the nodes of
    ``needed[needs]``.
    """

    class_ptr: npt.NDArray[np.int32]
    brief: npt.NDArray[np.uint8]
    spec: npt.NDArray[np.int32]
    claim: npt.NDArray[np.int32]
    request_ptr: npt.NDArray[np.int32]
    needs: npt.NDArray[np.int32]
    needed: npt.NDArray[np.uint8]
    option_ptr: npt.NDArray[np.int32]
    wanted: npt.NDArray[np.int32]
    admin: npt.NDArray[np.uint8]
    matcher: npt.NDArray[np.int32]
    consumer: npt.NDArray[np.int32]
    constraint_ptr: npt.NDArray[np.int32]
    constraint: npt.NDArray[np.int32]
    distinct: npt.NDArray[np.uint8]
    attribute: npt.NDArray[np.int32]
    match: npt.NDArray[np.uint8]
    consumed: npt.NDArray[np.int64]
    value: npt.NDArray[np.int32]


class DraClaims(NamedTuple):
    """One row for each claim of a task, in the order of tasks (semantics 8.6).

    The claims of task t are ``claim[task_ptr[t]:task_ptr[t + 1]]``, in the order of its class. A claim has slots, one
    for each device that it can have: ``device`` and ``option`` (Y,) say what it has at the start.
    """

    task_ptr: npt.NDArray[np.int32]
    claim: npt.NDArray[np.int32]
    shared: npt.NDArray[np.uint8]
    others: npt.NDArray[np.int32]
    held: npt.NDArray[np.uint8]
    nodes: npt.NDArray[np.int32]
    slot_ptr: npt.NDArray[np.int32]
    device: npt.NDArray[np.int32]
    option: npt.NDArray[np.int32]
    available: npt.NDArray[np.uint8]
