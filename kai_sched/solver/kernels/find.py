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
from kai_sched.snapshot.tables import CPU, GPU, Placement, Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.fit import fits_later, fits_now
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
BINPACK = int(Placement.BINPACK)
SPREAD = int(Placement.SPREAD)


@inner
def find_node(c: int, ctx: Context) -> int:
    """The best node now or later for a task of class ``c``; NULL where none will do."""
    finder, best = ctx.finder, NULL
    points, preference = 0.0, 0.0
    for b in range(finder.stamp.shape[0]):
        if finder.seen[c, b] != finder.stamp[b]:
            scan_block(b, c, ctx)
            finder.seen[c, b] = finder.stamp[b]
        if finder.best[c, b] == NULL:
            continue
        more, as_many = finder.points[c, b] > points, finder.points[c, b] == points
        if best == NULL or more or (as_many and finder.preference[c, b] > preference):
            best, points, preference = int(finder.best[c, b]), finder.points[c, b], finder.preference[c, b]
    return best


@inner
def scan_block(b: int, c: int, ctx: Context) -> None:
    """Look through block ``b`` again, and note its best node for class ``c``."""
    settings, nodes, finder = ctx.settings, ctx.snapshot.nodes, ctx.finder
    idle, releasing = ctx.state.idle, ctx.state.releasing
    request, cpu_only = ctx.snapshot.classes.request[c], ctx.snapshot.classes.cpu_only[c]
    verdicts = finder.verdicts[ctx.snapshot.classes.signature[c]]
    resource = CPU if cpu_only == 1 else GPU
    placement = settings.cpu_placement if cpu_only == 1 else settings.gpu_placement
    best = NULL
    best_points, best_preference = 0.0, 0.0
    first = b * finder.block[0]
    for n in range(first, min(first + finder.block[0], idle.shape[0])):
        if verdicts[n] != OK or not fits_later(request, idle[n], releasing[n]):
            continue
        points = settings.available_points if fits_now(request, idle[n]) else 0.0
        if cpu_only == 1 and nodes.cpu_only[n] == 1:
            points += settings.cpu_node_points
        if best != NULL and points < best_points:
            continue
        free = idle[n, resource] + releasing[n, resource]
        size = nodes.allocatable[n, resource] if cpu_only == 1 else nodes.devices[n]
        preference = preference_for(free, nodes.allocatable[n, resource], size, placement)
        if best == NULL or points > best_points or preference > best_preference:
            best, best_points, best_preference = n, points, preference
    finder.best[c, b], finder.points[c, b], finder.preference[c, b] = best, best_points, best_preference


@inner
def preference_for(free: float, allocatable: float, size: float, placement: int) -> float:
    """Larger is better for nodeplacement: the less room for binpack, the larger part that is free for spread."""
    if placement == BINPACK:
        return -free if allocatable != 0.0 else -np.inf
    if placement == SPREAD and size != 0.0:
        return free / size
    return 0.0
