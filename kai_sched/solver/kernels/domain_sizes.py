"""What is free in topology domains, how many pods that is, and whether they can hold the tasks of a set (semantics
10.1, steps 2 to 4).

Cost: R resources on each node of the domains that count, and on each of these domains.
Invariant: only ``scratch.topology`` is written, which no state depends on.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, GPU, MEMORY, PODS
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import whole_later
from kai_sched.solver.state import Context

NOTHING_FREE = 1000.0  # the ratio of a domain without any of a resource that is requested


@inner
def gpus_asked(c: int, ctx: Context) -> float:
    """Return the GPUs that a pod of class ``c`` counts with here: parts in hundredths, memory of GPUs not at all."""
    classes = ctx.snapshot.classes
    if classes.shares[c] == 0:
        return float(classes.request[c, GPU])
    return float(np.floor(100.0 * classes.portion[c] + 0.5) * classes.shares[c] / 100.0)


@inner
def sum_requests(f: int, ctx: Context) -> bool:
    """Add up what the tasks of frame ``f`` request: ``need`` (R,), and the largest request of one, ``largest`` (R,).

    Also notes whether parts of GPUs count, ``parts`` (1,). Returns whether pods can be counted: all request the same.
    v0.17.0 counts where all of them or none request each resource other than CPU and memory, by the largest request.
    """
    topo, request = ctx.scratch.topology, ctx.snapshot.classes.request
    uniform, minimal, first = True, ctx.settings.minimal == 1, topo.first[f]
    topo.parts[0] = 0
    for r in range(topo.need.shape[0]):
        topo.need[r], topo.largest[r], some, same = 0.0, 0.0, 0, True
        for entry in range(first, topo.end[f]):
            c = ctx.snapshot.tasks.cls[ctx.scratch.chunk[entry]]
            amount = gpus_asked(c, ctx) if r == GPU else request[c, r]
            same = same and (entry == first or amount == topo.largest[r])
            topo.need[r] += amount
            topo.largest[r] = max(topo.largest[r], amount)
            some += amount > 0.0
            if minimal and ctx.snapshot.classes.portion[c] > 0.0:
                topo.parts[0] = 1
        some_not = 0 < some < topo.end[f] - first and r != CPU and r != MEMORY
        uniform = uniform and (same if minimal else not some_not)
    if not minimal and 0.0 < topo.largest[GPU] < 1.0:
        topo.parts[0] = 1
    return uniform


@inner
def measure_domains(f: int, start: int, ctx: Context) -> None:
    """Add up what is free, now or later, in domain ``start``, all domains below it and those above it, for frame ``f``.

    Writes ``free`` (H, R) and ``pods`` (H,) of ``scratch.topology``: amounts, and how many pods of the largest request
    there is room for, node by node. Only nodes count that the frames below ``f`` allow; in v0.17.0 all do.
    """
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    n_resources = topo.need.shape[0]
    begin, end = start, start + 1
    while begin < end:  # Bound: the levels of the topology.
        for h in range(begin, end):
            topo.pods[h] = 0.0
            for r in range(n_resources):
                topo.free[h, r] = 0.0
        begin, end = int(topologies.child_ptr[begin]), int(topologies.child_end[end - 1])
    leaf = topologies.leaf[topology_of(start, ctx)]
    for at in range(topologies.first[start], topologies.end[start]):
        n = topologies.node[at]
        if ctx.settings.minimal == 1 and not is_allowed(n, f, ctx):
            continue
        topo.pods[leaf[n]] += pods_on(n, ctx)
        for r in range(n_resources):
            whole = r == GPU and (ctx.settings.minimal == 0 or topo.parts[0] == 0)  # v0.17.0 leaves parts out here
            topo.free[leaf[n], r] += whole_later(n, ctx) if whole else free_of(n, r, ctx)
    topo.counts[0] += topologies.end[start] - topologies.first[start]
    add_below(start, ctx)
    h = start
    while topologies.parent[h] != NULL:  # Bound: the levels of the topology.
        h = topologies.parent[h]
        topo.pods[h] = topo.pods[start]
        for r in range(n_resources):
            topo.free[h, r] = topo.free[start, r]


@inner
def topology_of(h: int, ctx: Context) -> int:
    """Return the topology of domain ``h``: the one whose range in ``topologies.ptr`` (W + 1,) has it."""
    w = 0
    while ctx.snapshot.topologies.ptr[w + 1] <= h:  # Bound: the topologies.
        w += 1
    return w


@inner
def add_below(start: int, ctx: Context) -> None:
    """Add what is free in each domain below ``start`` to the one above it, narrow ones first: ``free`` (H, R)."""
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    begin, end = start, start + 1
    while topologies.child_ptr[begin] < topologies.child_end[begin]:  # Bound: the levels of the topology.
        begin, end = int(topologies.child_ptr[begin]), int(topologies.child_end[end - 1])
    while begin > start:  # Bound: the levels of the topology.
        for h in range(begin, end):
            above = topologies.parent[h]
            topo.pods[above] += topo.pods[h]
            for r in range(topo.need.shape[0]):
                topo.free[above, r] += topo.free[h, r]
        begin, end = int(topologies.parent[begin]), int(topologies.parent[end - 1]) + 1


@inner
def ancestor(h: int, level: int, ctx: Context) -> int:
    """Return the domain at ``level`` that domain ``h`` lies in, or ``h`` if it is not below that level."""
    topologies = ctx.snapshot.topologies
    while topologies.level[h] > level:  # Bound: the levels of the topology.
        h = topologies.parent[h]
    return int(h)


@inner
def is_allowed(n: int, end: int, ctx: Context) -> bool:
    """Return whether node ``n`` is in the domains that the frames before ``end`` try; suspended ones do not count."""
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    for f in range(topo.size[1], end):
        h, leaf = topo.candidate[f, topo.tried[f]], topologies.leaf[ctx.snapshot.sets.topology[topo.set[f]], n]
        if leaf == NULL or ancestor(leaf, topologies.level[h], ctx) != h:
            return False
    return True


@inner
def gpus_of(n: int, ctx: Context) -> float:
    """Return the GPUs of node ``n`` that are free, now or later: whole ones, and what is left of others if it counts.

    Reads ``scratch.topology.parts`` (1,).
    """
    return free_of(n, GPU, ctx) if ctx.scratch.topology.parts[0] == 1 else whole_later(n, ctx)


@inner
def free_of(n: int, r: int, ctx: Context) -> float:
    """Return what is free of resource ``r`` on node ``n``, now or later; parts of GPUs included."""
    return float(ctx.state.idle[n, r] + ctx.state.releasing[n, r])


@inner
def pods_on(n: int, ctx: Context) -> float:
    """Return how many pods of the largest request node ``n`` has room for (10.1, step 3); ``largest`` is (R,).

    Pods that request nothing but a pod slot all fit any node.
    """
    topo = ctx.scratch.topology
    most, only_slots = np.inf, True
    for r in range(topo.largest.shape[0]):
        amount = topo.largest[r]
        free = gpus_of(n, ctx) if r == GPU else free_of(n, r, ctx)
        if amount > free:
            return 0.0
        if amount > 0.0:
            most = min(most, np.floor(free / amount))
            only_slots = only_slots and r == PODS
    return 2.0**31 if only_slots else float(most)


@inner
def rate_domains(start: int, narrowest: int, uniform: bool, n_tasks: int, ctx: Context) -> None:
    """Write how full each domain would be, ``ratio`` (H,), and whether it can hold the tasks, ``fits`` (H,).

    For domain ``start``, those below it down to level ``narrowest``, and those above it.
    """
    topologies = ctx.snapshot.topologies
    begin, end = start, start + 1
    while begin < end and topologies.level[begin] <= max(narrowest, topologies.level[start]):  # Bound: the levels.
        for h in range(begin, end):
            rate_domain(h, uniform, n_tasks, ctx)
        begin, end = int(topologies.child_ptr[begin]), int(topologies.child_end[end - 1])
    above = topologies.parent[start]
    while above != NULL:  # Bound: the levels of the topology.
        rate_domain(above, uniform, n_tasks, ctx)
        above = topologies.parent[above]


@inner
def rate_domain(h: int, uniform: bool, n_tasks: int, ctx: Context) -> None:
    """Write ``ratio`` and ``fits`` (H,) of domain ``h``: by pods where they can be counted, else by the ratio."""
    topo = ctx.scratch.topology
    ratio = 0.0
    for r in range(topo.need.shape[0]):
        if r == PODS or topo.need[r] <= 0.0:
            continue
        free = topo.free[h, r]
        ratio = max(ratio, topo.need[r] / free if free > 0.0 else NOTHING_FREE)
    topo.ratio[h] = ratio
    topo.fits[h] = topo.pods[h] >= n_tasks if uniform else ratio <= 1.0
