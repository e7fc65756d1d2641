"""Which topology domains can hold the pods of a set, in the order in which they are tried, and the points of nodes by
their preferred domain (semantics 10.1, 10.3).

The domains that count are those below the narrowest one that all offered nodes share. What is free in each is measured
(``domain_sizes``); whether the nodes take the pods for other reasons is found out when the pods are placed. The fullest
domain comes first, and domains of the preferred level before wider ones.

Cost: for each set the measuring and sorting of the domains that count.
Invariant: only ``scratch.topology`` is written, which no state depends on.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Longs, Status
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.domain_sizes import ancestor, is_allowed, measure_domains, rate_domains, sum_requests
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
IS_EVICTED = int(Status.EVICTED)
LEVEL_POINTS = 100_000.0
STEPS = 10
LEVELS_MAX = 16


@inner
def list_domains(f: int, ctx: Context) -> None:
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
    uniform = survey_domains(f, start, narrowest, ctx)
    pinned = False
    if required > 0:
        pinned = mark_holders_in_chunk(f, ctx) if ctx.settings.minimal == 0 else mark_holders(s, ctx)
    if uniform:
        note_roomiest(start, required, pinned, ctx)
    # Amounts below 0 of one domain may keep the start from holding what another domain can; v0.17.0 stops all the same.
    if topo.fits[start] == 0 and (uniform or ctx.settings.minimal == 0):
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
def survey_domains(f: int, start: int, narrowest: int, ctx: Context) -> bool:
    """Measure and sort the domains from ``start`` down to level ``narrowest`` for the tasks of frame ``f``.

    ``order`` (H,) has them, and ``points[f]`` (H,) those of the preferred level, if there is one. Returns whether pods
    can be counted (``sum_requests``).
    """
    topo = ctx.scratch.topology
    preferred = int(ctx.snapshot.sets.preferred[topo.set[f]])
    uniform = sum_requests(f, ctx)
    measure_domains(f, start, ctx)
    rate_domains(start, narrowest, uniform, topo.end[f] - topo.first[f], ctx)
    sort_domains(start, narrowest, ctx)
    if preferred > 0:
        rank_preferred(f, preferred, ctx)
    return uniform


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
def is_offered(n: int, end: int, ctx: Context) -> bool:
    """Return whether node ``n`` is allowed by the frames before ``end``, and offered at all.

    Reads ``scratch.topology.offered`` (N,) only where ``counts[2]`` says that not all nodes are.
    """
    topo = ctx.scratch.topology
    return is_allowed(n, end, ctx) and not (topo.counts[2] == 1 and topo.offered[n] == 0)


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
        sink_domain(first, at, size, ctx)
    for last in range(size - 1, 0, -1):
        order[first], order[first + last] = order[first + last], order[first]
        sink_domain(first, 0, last, ctx)


@inner
def sink_domain(first: int, at: int, size: int, ctx: Context) -> None:
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
    """Write the points of the domains at the preferred level for frame ``f``: ``points[f]`` (H,); 10.3.

    The last one in the order, with most room, gets the most.
    """
    topo = ctx.scratch.topology
    begin, end = topo.begins[level], topo.begins[level + 1]
    for at in range(begin, end):
        topo.points[f, topo.order[at]] = float(STEPS * (at - begin + 1) // (end - begin)) * LEVEL_POINTS


@inner
def mark_holders(s: int, ctx: Context) -> bool:
    """Mark the domains at the required level of set ``s`` in which its pods are; return whether one has a place.

    Writes ``holder`` (H,): the new ``counts[1]`` where a pod is. Pods of all sets below ``s`` count, not only those of
    the chunk.
    """
    sets, found, x = ctx.snapshot.sets, False, s
    ctx.scratch.topology.counts[1] += 1
    while x < sets.parent.shape[0] and (x == s or sets.parent[x] != NULL):  # Bound: the sets of the job.
        if is_in_set(x, s, ctx):
            found = mark_holders_of(x, s, ctx) or found
        x += 1
    return found


@inner
def mark_holders_in_chunk(f: int, ctx: Context) -> bool:
    """Do as ``mark_holders`` for frame ``f``, but by pods of sets of which the chunk has tasks, as in v0.17.0.

    Tasks of a set are neighbours in the chunk. Writes ``holder`` (H,).
    """
    topo, last, found = ctx.scratch.topology, NULL, False
    topo.counts[1] += 1
    for entry in range(topo.first[f], topo.end[f]):
        x = ctx.snapshot.tasks.set[ctx.scratch.chunk[entry]]
        if x != last:
            found = mark_holders_of(x, topo.set[f], ctx) or found
        last = x
    return found


@inner
def mark_holders_of(x: int, s: int, ctx: Context) -> bool:
    """Mark the domains of set ``s`` in which pods of set ``x`` alone are, as ``mark_holders``: ``holder`` (H,)."""
    topo, task, task_ptr, found = ctx.scratch.topology, ctx.state.task, ctx.snapshot.sets.task_ptr, False
    for t in range(task_ptr[x], task_ptr[x + 1]):
        if IS_PIPELINED <= task.status[t] <= IS_RUNNING:
            found = True
            h = domain_of(s, task.node[t], ctx) if task.node[t] != NULL else NULL
            if h != NULL:
                topo.holder[h] = topo.counts[1]
    return found


@inner
def domain_of(s: int, n: int, ctx: Context) -> int:
    """Return the domain of the required level of set ``s`` in which node ``n`` is, or NULL; ``leaf`` is (W, N)."""
    leaf = ctx.snapshot.topologies.leaf[ctx.snapshot.sets.topology[s], n]
    return ancestor(leaf, ctx.snapshot.sets.required[s], ctx) if leaf != NULL else NULL


@inner
def is_in_set(x: int, s: int, ctx: Context) -> bool:
    """Return whether set ``x`` is ``s`` or below it; parents have lower rows."""
    while x > s:  # Bound: the depth of the tree.
        x = ctx.snapshot.sets.parent[x]
    return x == s


@inner
def end_of_set(s: int, entry: int, length: int, tasks: Ints | Longs, ctx: Context) -> int:
    """Return one past the last task of set ``s`` in ``tasks`` (L,), where they begin at ``entry``; ``length`` count."""
    while entry < length and is_in_set(ctx.snapshot.tasks.set[tasks[entry]], s, ctx):  # Bound: the tasks.
        entry += 1
    return entry


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
