"""Whether topology domains could hold the pending tasks of the preemptor once pods have left (semantics 4.6, 10.2).

Bounds for both searches: each class of pending tasks counts by itself, without inter-pod terms and host ports.
Cost: for each set with a constraint the nodes of its topology, once for each class. Nothing is written.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import NODES_A_UNIT, Search
from kai_sched.solver.eviction.victims.potential import slots
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.domains import end_of_set
from kai_sched.solver.state import Context

OK = int(Verdict.OK)


@inner
def is_constrained(p: int, ctx: Context) -> bool:
    """Return whether a set of job ``p`` has a topology constraint; ``sets`` are (S,)."""
    if ctx.scratch.topology.set.shape[0] == 0:
        return False
    for s in range(ctx.snapshot.jobs.set_ptr[p], ctx.snapshot.jobs.set_ptr[p + 1]):
        if ctx.snapshot.sets.topology[s] != NULL:
            return True
    return False


@inner
def some_set_has_no_domain(k: int, freed: Floats, ctx: Context, search: Search) -> bool:
    """Return whether no domain could hold some set with a required level, with ``freed`` (N, R) more than is free.

    Bound: True proves that no scenario that frees no more can place the first ``k`` of ``search.pending`` (L,). Asked
    of the sets of the first task; sets that begin later are not looked at.
    """
    sets, topologies, s = ctx.snapshot.sets, ctx.snapshot.topologies, ctx.snapshot.tasks.set[search.pending[0]]
    if ctx.scratch.topology.set.shape[0] == 0:
        return False
    while s != NULL:  # Bound: the depth of the tree.
        if sets.topology[s] != NULL and sets.required[s] > 0:
            w, found, end = sets.topology[s], False, end_of_set(s, 0, k, search.pending, ctx)
            for h in range(topologies.ptr[w], topologies.ptr[w + 1]):
                if topologies.level[h] == sets.required[s] and not found:
                    found = could_hold(h, 0, end, freed, ctx, search)
            if not found:
                return True
        s = sets.parent[s]
    return False


@inner
def could_hold(h: int, first: int, end: int, freed: Floats, ctx: Context, search: Search) -> bool:
    """Return whether domain ``h`` could hold tasks ``first`` to ``end`` of ``search.pending`` with ``freed`` (N, R).

    Bound: as ``potential.may_suffice``, within the domain: each class of pending tasks by itself, without inter-pod
    terms and ports.
    """
    snapshot, topologies, kinds = ctx.snapshot, ctx.snapshot.topologies, search.kinds
    search.counts.work[0] += (topologies.end[h] - topologies.first[h]) // NODES_A_UNIT
    for kind in range(search.counts.kinds[0]):
        c, wanted = kinds.cls[kind], 0
        for entry in range(first, end):
            wanted += snapshot.tasks.cls[search.pending[entry]] == c
        request, verdicts = snapshot.classes.request[c], ctx.finder.verdicts[snapshot.classes.signature[c]]
        for at in range(topologies.first[h], topologies.end[h]):
            n = topologies.node[at]
            if wanted > 0 and verdicts[n] == OK:
                wanted -= slots(request, ctx.state.idle[n], ctx.state.releasing[n], freed[n])
        if wanted > 0:
            return False
    return True
