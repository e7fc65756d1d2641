"""The best node for pods whose nodes can be compared each by itself: the order of nodes, and the best of each block
that is remembered (semantics 3.5, 9; ADR 3).

For a class without inter-pod terms and host ports, which of two nodes is better depends on these two alone: devices in
use first that the pod may join, then idle room, then CPU-only nodes for CPU-only pods, then the fuller (or emptier)
node, then the name. Normalising binpack over all nodes never changes which of two nodes is better, as it is monotone in
the free amount. So the best node of each block of neighbouring nodes is remembered for each class, and only blocks that
changed since are searched again. A pod's nominated node comes before them (``attempt.best_node``); other classes are
scored in full (``kernels.score``).

Cost: about sqrt(N) blocks to compare, plus R times the nodes of each changed block: mostly one or two.
Invariant: ``finder.best[c, b]`` is the best node of block ``b`` for class ``c`` if ``finder.seen[c, b]`` equals
``finder.stamp[b]`` or, for a class with claims, the later one of that and ``finder.block[2]``. Whatever changes the
room of a node calls ``undo.touch``; what a claim changes for several nodes at once calls ``claimed.note_elsewhere``.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.choices import Placement
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, GPU
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.search import has_claims
from kai_sched.solver.kernels.devices import NEVER, NOW, whole_later
from kai_sched.solver.kernels.fit import fits_later, rows_decide, rows_fit_now, survey_room
from kai_sched.solver.kernels.topology import allows, preferred_points
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
BINPACK = int(Placement.BINPACK)
SPREAD = int(Placement.SPREAD)


@inner
def find_node(c: int, ctx: Context) -> int:
    """Return the best node for a task of class ``c``, on room that is idle or will be; NULL if no node takes it.

    Blocks are compared in order and a later one must be strictly better, so the lower row, which is by name, wins a
    tie. Writes ``finder.seen`` and, through ``scan_block``, the other columns (C, B), directly: they depend on the
    state alone.
    """
    finder, best = ctx.finder, NULL
    points, preference = 0.0, 0.0
    changed = finder.block[2] if has_claims(c, ctx) else 0
    for b in range(finder.stamp.shape[0]):
        stamp = max(changed, finder.stamp[b])
        if finder.seen[c, b] != stamp:
            scan_block(b, c, ctx)
            finder.seen[c, b] = stamp
        if finder.best[c, b] == NULL:
            continue
        more, as_many = finder.points[c, b] > points, finder.points[c, b] == points
        if best == NULL or more or (as_many and finder.preference[c, b] > preference):
            best, points, preference = int(finder.best[c, b]), finder.points[c, b], finder.preference[c, b]
    return best


@inner
def scan_block(b: int, c: int, ctx: Context) -> None:
    """Find the best node of block ``b`` for class ``c`` anew, and write it to the finder.

    Reads ``state.idle`` and ``state.releasing`` (N, R) of the nodes of the block. Writes ``best`` (NULL if no node of
    the block takes the class), ``points`` and ``preference`` of the finder, (C, B) each, directly.
    """
    finder, by_rows = ctx.finder, rows_decide(c, ctx)
    best = NULL
    best_points, best_preference = 0.0, 0.0
    first = b * finder.block[0]
    for n in range(first, min(first + finder.block[0], ctx.state.idle.shape[0])):
        points = points_of(n, c, by_rows, ctx)
        # Points are multiples of what separates nodes for certain (idle room, CPU-only); only nodes of as many points
        # are compared by their preference.
        if points < best_points:
            continue
        preference = preference_of(n, c, ctx)
        if best == NULL or points > best_points or preference > best_preference:
            best, best_points, best_preference = n, points, preference
    finder.best[c, b], finder.points[c, b], finder.preference[c, b] = best, best_points, best_preference


@inner
def find_in_domains(c: int, ctx: Context) -> int:
    """Return the best node for class ``c`` of those that the open frames allow (10); NULL if none of them takes it.

    All nodes of the innermost domain are compared: it is mostly small, and what is best in a block says nothing about
    it. Counts them as visited, ``scratch.topology.counts`` (3,).
    """
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    f, by_rows = topo.size[0] - 1, rows_decide(c, ctx)
    h = topo.candidate[f, topo.tried[f]]
    best = NULL
    best_points, best_preference = 0.0, 0.0
    topo.counts[0] += topologies.end[h] - topologies.first[h]
    for at in range(topologies.first[h], topologies.end[h]):
        n = topologies.node[at]
        points = points_of(n, c, by_rows, ctx)
        if points < 0.0 or not allows(n, ctx):
            continue
        points += preferred_points(n, ctx)
        if points < best_points:
            continue
        preference = preference_of(n, c, ctx)
        # Nodes are by domain here, so the lower row, which wins a tie, may come later.
        more = points > best_points or preference > best_preference
        if best == NULL or more or (preference == best_preference and n < best):
            best, best_points, best_preference = n, points, preference
    return int(best)


@inner
def points_of(n: int, c: int, by_rows: bool, ctx: Context) -> float:
    """Return the points of node ``n`` for class ``c`` but for its preference; -1 if it does not take the class.

    ``by_rows`` is ``rows_decide``. Reads ``state.idle`` and ``state.releasing`` (N, R).
    """
    settings, state, classes = ctx.settings, ctx.state, ctx.snapshot.classes
    if ctx.finder.verdicts[classes.signature[c], n] != OK:
        return -1.0
    if not fits_later(classes.request[c], state.idle[n], state.releasing[n]):
        return -1.0
    room, joins = (NOW, False) if by_rows else survey_room(c, n, ctx)
    if room == NEVER:
        return -1.0
    points = settings.available_points if room == NOW and rows_fit_now(c, n, ctx) else 0.0
    if joins:
        points += settings.sharing_points
    if classes.cpu_only[c] == 1 and ctx.snapshot.nodes.cpu_only[n] == 1:
        points += settings.cpu_node_points
    return float(points)


@inner
def preference_of(n: int, c: int, ctx: Context) -> float:
    """Return how much nodeplacement prefers node ``n`` for class ``c`` (``preference_for``)."""
    settings, nodes = ctx.settings, ctx.snapshot.nodes
    cpu_only = ctx.snapshot.classes.cpu_only[c]
    resource = CPU if cpu_only == 1 else GPU
    placement = settings.cpu_placement if cpu_only == 1 else settings.gpu_placement
    free = whole_later(n, ctx) if resource == GPU else ctx.state.idle[n, CPU] + ctx.state.releasing[n, CPU]
    size = nodes.allocatable[n, resource] if cpu_only == 1 else nodes.devices[n]
    return preference_for(free, nodes.allocatable[n, resource], size, placement)


@inner
def preference_for(free: float, allocatable: float, size: float, placement: int) -> float:
    """Return how much nodeplacement (9) prefers a node among nodes of as many points; larger is better.

    Binpack: the less is free, the better; a node without the resource comes last, as it gets 0 points. Spread: the
    larger the part of ``size`` that is free. ``free`` and ``allocatable`` are amounts of CPU (millicores) or GPUs.
    """
    if placement == BINPACK:
        return -free if allocatable != 0.0 else -np.inf
    if placement == SPREAD and size != 0.0:
        return free / size
    return 0.0
