"""NUMA tables for tests of kernels, in the types of those that lowering makes."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.numa_tables import NumaRequests, NumaZones
from kai_sched.snapshot.tables import freeze


def no_zones(n_classes: int, n_tasks: int, n_nodes: int) -> tuple[NumaZones, NumaRequests]:
    """The tables of a cluster in which no node has zones."""
    none = np.zeros((0, 0))
    zones = NumaZones(
        ptr=np.zeros(n_nodes + 1, np.int32),
        policy=np.zeros(n_nodes, np.uint8),
        pod_scope=np.zeros(n_nodes, np.uint8),
        aware=np.zeros((n_nodes, 0), np.uint8),
        allocatable=none,
        free=none.copy(),
        held_ptr=np.zeros(n_tasks + 1, np.int32),
        held=np.zeros(0),
    )
    requests = NumaRequests(
        ptr=np.zeros(n_classes + 1, np.int32),
        guaranteed=np.zeros(n_classes, np.uint8),
        alone=np.zeros(0, np.uint8),
        entry_ptr=np.zeros(1, np.int32),
        resource=np.zeros(0, np.int32),
        amount=np.zeros(0),
    )
    return freeze(zones), freeze(requests)
