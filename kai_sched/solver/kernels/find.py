"""The best node for a task (semantics 3.5, 9).

Without inter-pod terms the order of two nodes depends on these two nodes alone: idle room first, then CPU-only nodes
for CPU-only pods, then the fuller (or emptier) node, then the name. The normalisation of binpack over all nodes never
changes which of two nodes is ahead. So the best node of each block of neighbouring nodes is remembered per class, and
only blocks that changed since are looked through again: a placement costs one block, not the cluster. Classes with
inter-pod terms or host ports, and pods with a nominated node, are scored in full (``kernels.score``).
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, GPU, Flags, Floats, Longs, Nodes, Settings, Verdict
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.fit import fits_later, fits_now
from kai_sched.solver.state import BEST, POINTS, SEEN, TASTE

OK = int(Verdict.OK)
OFF, BINPACK, SPREAD = 0, 1, 2


@kernel
def find_node(
    request: Floats,
    cpu_only: int,
    settings: Settings,
    verdicts: Flags,
    nodes: Nodes,
    idle: Floats,
    releasing: Floats,
    block: Longs,
    stamp: Longs,
    memo: Floats,
) -> int:
    """The best node now or later for a task with this ``request`` (R,); NULL where none will do.

    ``verdicts`` (N,) are those of its signature, ``memo`` (B, 4) is the row of its class, updated in place.
    """
    best = NULL
    points, taste = 0.0, 0.0
    for b in range(stamp.shape[0]):
        if memo[b, SEEN] != stamp[b]:
            scan_block(b, request, cpu_only, settings, verdicts, nodes, idle, releasing, block, memo)
            memo[b, SEEN] = stamp[b]
        if memo[b, BEST] == NULL:
            continue
        if best == NULL or memo[b, POINTS] > points or (memo[b, POINTS] == points and memo[b, TASTE] > taste):
            best, points, taste = int(memo[b, BEST]), memo[b, POINTS], memo[b, TASTE]
    return best


@inner
def scan_block(
    b: int,
    request: Floats,
    cpu_only: int,
    settings: Settings,
    verdicts: Flags,
    nodes: Nodes,
    idle: Floats,
    releasing: Floats,
    block: Longs,
    memo: Floats,
) -> None:
    """Look through block ``b`` again; note its best node, its points for idle room and node type, and its taste."""
    resource = CPU if cpu_only == 1 else GPU
    placement = settings.cpu_placement if cpu_only == 1 else settings.gpu_placement
    available_points, cpu_node_points = settings.available_points, settings.cpu_node_points
    best = NULL
    best_points, best_taste = 0.0, 0.0
    first = b * block[0]
    for n in range(first, min(first + block[0], idle.shape[0])):
        if verdicts[n] != OK or not fits_later(request, idle[n], releasing[n]):
            continue
        points = available_points if fits_now(request, idle[n]) else 0.0
        if cpu_only == 1 and nodes.cpu_only[n] == 1:
            points += cpu_node_points
        if best != NULL and points < best_points:
            continue
        free = idle[n, resource] + releasing[n, resource]
        size = nodes.allocatable[n, resource] if cpu_only == 1 else nodes.devices[n]
        taste = preference(free, nodes.allocatable[n, resource], size, placement)
        if best == NULL or points > best_points or taste > best_taste:
            best, best_points, best_taste = n, points, taste
    memo[b, BEST] = best
    memo[b, POINTS] = best_points
    memo[b, TASTE] = best_taste


@inner
def preference(free: float, allocatable: float, size: float, placement: int) -> float:
    """Larger is better for nodeplacement: the less room for binpack, the larger part that is free for spread."""
    if placement == BINPACK:
        return -free if allocatable != 0.0 else -np.inf
    if placement == SPREAD and size != 0.0:
        return free / size
    return 0.0
