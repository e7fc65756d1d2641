"""Which topology domains can hold the pods of a set, in the order in which they are tried, and the points of nodes by
their preferred domain (semantics 10.2, 10.5).

The domains that count are those below the narrowest one that all offered nodes share. What is free in each is added up
from its nodes; whether the nodes take the pods for other reasons is found out when the pods are placed. The fullest
domain comes first, and domains of the preferred level before wider ones.

Cost: for each set R resources on each node of the domains that count, and the sorting of these domains.
Invariant: only ``scratch.topology`` is written, which no state depends on.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, GPU, MEMORY, PODS, Status
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import whole_later
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
IS_EVICTED = int(Status.EVICTED)
NOTHING_FREE = 1000.0  # the ratio of a domain without any of a resource that is requested (10.2)
LEVEL_POINTS = 100_000.0
STEPS = 10
LEVELS_MAX = 16


@inner
def list_candidates(f: int, ctx: Context) -> None:
    """List the domains to try for the set of frame ``f``: ``scratch.topology.candidate[f]`` (H,), best first.

    Frames below ``f`` and ``offered`` (N,) say which nodes count. None are listed where no domain can hold the tasks.
    Writes ``points[f]`` (H,) as well, if the set prefers a level.
    """
    topo, sets, topologies = ctx.scratch.topology, ctx.snapshot.sets, ctx.snapshot.topologies
    s = topo.set[f]
    required, preferred = int(sets.required[s]), int(sets.preferred[s])
    narrowest = preferred if preferred > 0 else required
    topo.n_candidates[f], topo.tried[f] = 0, 0
    topo.blocked[0], topo.blocked[1], topo.blocked[2] = s, NULL, topo.end[f] - topo.first[f]
    # v0.17.0 goes on to the narrowest level where none is preferred, and then no wider domain fits.
    start = common_domain(f, LEVELS_MAX if ctx.settings.minimal == 0 and preferred == 0 else narrowest, ctx)
    if start == NULL:
        return
    uniform = sum_requests(f, ctx)
    measure_domains(start, ctx)
    rate_domains(start, narrowest, uniform, topo.end[f] - topo.first[f], ctx)
    sort_domains(start, narrowest, ctx)
    if preferred > 0:
        rank_preferred(f, preferred, ctx)
    pinned = required > 0 and mark_holders(s, required, ctx)
    if uniform:
        note_roomiest(start, required, pinned, ctx)
    if topo.fits[start] == 0:
        return
    level = narrowest
    while level >= required:  # Bound: the levels of the topology.
        if level <= topologies.level[start]:
            if level == topologies.level[start] or ctx.settings.minimal == 1:
                add_candidate(f, ancestor(start, level, ctx), required, pinned, ctx)
        else:
            for at in range(topo.begins[level], topo.begins[level + 1]):
                add_candidate(f, topo.order[at], required, pinned, ctx)
        level -= 1
    if ctx.settings.minimal == 1:
        put_favoured_first(f, ctx)


@inner
def add_candidate(f: int, h: int, required: int, pinned: bool, ctx: Context) -> None:
    """Append domain ``h`` to the candidates of frame ``f`` if it fits and, if ``pinned``, is in a domain of holders."""
    topo = ctx.scratch.topology
    if topo.fits[h] == 0 or (pinned and topo.holder[ancestor(h, required, ctx)] != topo.counts[1]):
        return
    topo.candidate[f, topo.n_candidates[f]] = h
    topo.n_candidates[f] += 1


@inner
def note_roomiest(start: int, required: int, pinned: bool, ctx: Context) -> None:
    """Write how many of the pods the roomiest domain has room for that the set may use: ``blocked[1]``."""
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    if topologies.level[start] >= required:
        h = ancestor(start, required, ctx)
        topo.blocked[1] = 0 if pinned and topo.holder[h] != topo.counts[1] else int(topo.pods[h])
        return
    topo.blocked[1] = 0
    for at in range(topo.begins[required], topo.begins[required + 1]):
        h = topo.order[at]
        if not pinned or topo.holder[h] == topo.counts[1]:
            topo.blocked[1] = max(topo.blocked[1], int(topo.pods[h]))


@inner
def ancestor(h: int, level: int, ctx: Context) -> int:
    """Return the domain at ``level`` that domain ``h`` lies in, or ``h`` if it is not below that level."""
    topologies = ctx.snapshot.topologies
    while topologies.level[h] > level:  # Bound: the levels of the topology.
        h = topologies.parent[h]
    return int(h)


@inner
def is_offered(n: int, end: int, ctx: Context) -> bool:
    """Return whether node ``n`` is in the domains that the frames before ``end`` try, and offered at all.

    Suspended frames do not count.

    Reads ``scratch.topology.offered`` (N,) only where ``counts[2]`` says that not all nodes are.
    """
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    if topo.counts[2] == 1 and topo.offered[n] == 0:
        return False
    for f in range(topo.size[1], end):
        h, leaf = topo.candidate[f, topo.tried[f]], topologies.leaf[ctx.snapshot.sets.topology[topo.set[f]], n]
        if leaf == NULL or ancestor(leaf, topologies.level[h], ctx) != h:
            return False
    return True


@inner
def common_domain(f: int, narrowest: int, ctx: Context) -> int:
    """Return the narrowest domain with all offered nodes of the topology of frame ``f``, not below ``narrowest``.

    NULL if no node of the topology is offered. Rows of leaves go by the domains above them, so the first and the last
    leaf decide.
    """
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    w = ctx.snapshot.sets.topology[topo.set[f]]
    first, last = NULL, NULL
    root = topologies.ptr[w]
    for at in range(topologies.first[root], topologies.end[root]):
        if is_offered(topologies.node[at], f, ctx):
            last = topologies.leaf[w, topologies.node[at]]
            first = last if first == NULL else first
        if f == topo.size[1] and topo.counts[2] == 0:
            last = topologies.leaf[w, topologies.node[topologies.end[root] - 1]]
            break
    if first == NULL:
        return NULL
    first, last = ancestor(first, narrowest, ctx), ancestor(last, narrowest, ctx)
    while first != last:  # Bound: the levels of the topology.
        first, last = topologies.parent[first], topologies.parent[last]
    return int(first)


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

    Returns whether all of them or none request each resource other than CPU and memory, so that pods can be counted.
    """
    topo, request = ctx.scratch.topology, ctx.snapshot.classes.request
    uniform = True
    for r in range(topo.need.shape[0]):
        topo.need[r], topo.largest[r], some = 0.0, 0.0, 0
        for entry in range(topo.first[f], topo.end[f]):
            c = ctx.snapshot.tasks.cls[ctx.scratch.chunk[entry]]
            amount = gpus_asked(c, ctx) if r == GPU else request[c, r]
            topo.need[r] += amount
            topo.largest[r] = max(topo.largest[r], amount)
            some += amount > 0.0
        if some > 0 and some < topo.end[f] - topo.first[f] and r != CPU and r != MEMORY:
            uniform = False
    return uniform


@inner
def measure_domains(start: int, ctx: Context) -> None:
    """Add up what is free, now or later, in domain ``start``, all domains below it and those above it.

    Writes ``free`` (H, R) and ``pods`` (H,) of ``scratch.topology``: amounts, whole GPUs only, and how many pods of the
    largest request there is room for, node by node.
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
        topo.pods[leaf[n]] += pods_on(n, ctx)
        for r in range(n_resources):
            topo.free[leaf[n], r] += whole_later(n, ctx) if r == GPU else free_of(n, r, ctx)
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
def free_of(n: int, r: int, ctx: Context) -> float:
    """Return what is free of resource ``r`` on node ``n``, now or later; parts of GPUs included."""
    return float(ctx.state.idle[n, r] + ctx.state.releasing[n, r])


@inner
def pods_on(n: int, ctx: Context) -> float:
    """Return how many pods of the largest request node ``n`` has room for (10.2, step 4); ``largest`` is (R,).

    Pods that request nothing but a pod slot all fit any node.
    """
    topo = ctx.scratch.topology
    most, only_slots = np.inf, True
    for r in range(topo.largest.shape[0]):
        amount = topo.largest[r]
        free = whole_later(n, ctx) if r == GPU and not 0.0 < amount < 1.0 else free_of(n, r, ctx)
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


@inner
def sort_domains(start: int, narrowest: int, ctx: Context) -> None:
    """List the domains from ``start`` down to level ``narrowest`` in ``order`` (H,), level by level, fullest first.

    The children of a domain stay together, in the order of their parents. ``begins`` has where each level begins.
    """
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    level = int(topologies.level[start])
    topo.order[0], topo.begins[level], topo.begins[level + 1] = start, 0, 1
    while level < narrowest:  # Bound: the levels of the topology.
        length = topo.begins[level + 1]
        for at in range(topo.begins[level], topo.begins[level + 1]):
            h = topo.order[at]
            first = length
            for child in range(topologies.child_ptr[h], topologies.child_end[h]):
                topo.order[length] = child
                length += 1
            sort_range(first, length, ctx)
        level += 1
        topo.begins[level + 1] = length


@inner
def sort_range(first: int, end: int, ctx: Context) -> None:
    """Sort ``order[first:end]`` in place, the highest ratio first, then the lower row: a heap sort."""
    order, size = ctx.scratch.topology.order, end - first
    for at in range(size // 2 - 1, -1, -1):
        sift_down(first, at, size, ctx)
    for last in range(size - 1, 0, -1):
        order[first], order[first + last] = order[first + last], order[first]
        sift_down(first, 0, last, ctx)


@inner
def sift_down(first: int, at: int, size: int, ctx: Context) -> None:
    """Move the entry at ``first + at`` of ``order`` down in its heap of ``size`` entries, the last to come on top."""
    order = ctx.scratch.topology.order
    while 2 * at + 1 < size:  # Bound: ``at`` doubles.
        child = 2 * at + 1
        if child + 1 < size and goes_first(order[first + child], order[first + child + 1], ctx):
            child += 1
        if not goes_first(order[first + at], order[first + child], ctx):
            return
        order[first + at], order[first + child] = order[first + child], order[first + at]
        at = child


@inner
def goes_first(a: int, b: int, ctx: Context) -> bool:
    """Return whether domain ``a`` goes before ``b``: it would be fuller (``ratio`` (H,)), or has the lower row."""
    ratio = ctx.scratch.topology.ratio
    return bool(ratio[a] > ratio[b] or (ratio[a] == ratio[b] and a < b))


@inner
def rank_preferred(f: int, level: int, ctx: Context) -> None:
    """Write the points of the domains at the preferred level for frame ``f``: ``points[f]`` (H,); 10.5.

    The last one in the order, with most room, gets the most.
    """
    topo = ctx.scratch.topology
    begin, end = topo.begins[level], topo.begins[level + 1]
    for at in range(begin, end):
        topo.points[f, topo.order[at]] = float(STEPS * (at - begin + 1) // (end - begin)) * LEVEL_POINTS


@inner
def mark_holders(s: int, required: int, ctx: Context) -> bool:
    """Mark the domains at the required level in which pods of set ``s`` are; return whether some pod has a place.

    Writes ``holder`` (H,): the new ``counts[1]`` where a pod is. Pods of all sets below ``s`` count, not only those of
    the chunk.
    """
    topo, snapshot, task = ctx.scratch.topology, ctx.snapshot, ctx.state.task
    w, sets, leaf = snapshot.sets.topology[s], snapshot.sets, snapshot.topologies.leaf
    topo.counts[1] += 1
    found, x = False, s
    while x < sets.parent.shape[0] and (x == s or sets.parent[x] != NULL):  # Bound: the sets of the job.
        if is_below(x, s, ctx):
            for t in range(sets.task_ptr[x], sets.task_ptr[x + 1]):
                if IS_PIPELINED <= task.status[t] <= IS_RUNNING:
                    found = True
                    if task.node[t] != NULL and leaf[w, task.node[t]] != NULL:
                        topo.holder[ancestor(leaf[w, task.node[t]], required, ctx)] = topo.counts[1]
        x += 1
    return found


@inner
def is_below(x: int, s: int, ctx: Context) -> bool:
    """Return whether set ``x`` is ``s`` or below it; parents have lower rows."""
    while x > s:  # Bound: the depth of the tree.
        x = ctx.snapshot.sets.parent[x]
    return x == s


@inner
def put_favoured_first(f: int, ctx: Context) -> None:
    """Move the candidate to the front in which the first task of frame ``f`` ran, or else has its nominated node.

    Others may have been evicted for the latter in an earlier cycle. v0.17.0 looks at nominations of nodes alone.
    """
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    t = ctx.scratch.chunk[topo.first[f]]
    n = ctx.state.task.node[t] if ctx.state.task.status[t] == IS_EVICTED else ctx.snapshot.tasks.nominated[t]
    leaf = topologies.leaf[ctx.snapshot.sets.topology[topo.set[f]], n] if n != NULL else NULL
    if leaf == NULL:
        return
    for place in range(topo.n_candidates[f]):
        h = topo.candidate[f, place]
        if ancestor(leaf, topologies.level[h], ctx) == h:
            for later in range(place, 0, -1):
                topo.candidate[f, later] = topo.candidate[f, later - 1]
            topo.candidate[f, 0] = h
            return
