"""Minimal search: pending tasks in the topology domains that were chosen for them (semantics 10.2)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction.domain_room import end_of_pending
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.domain_sizes import ancestor, measure_domains, rate_domains, sum_requests
from kai_sched.solver.kernels.domains import common_domain, rank_preferred, sort_domains
from kai_sched.solver.kernels.topology import begin_frame, has_frames, set_to_enter
from kai_sched.solver.state import Context


@inner
def enter_chosen_domains(entry: int, k: int, ctx: Context, search: Search) -> bool:
    """Open frames as ``enter_costed_domains``, each with the domain of the node chosen for its first task.

    That is ``search.minimal.place`` (L,); False: the node is outside the topology. Frames of sets that are placed whole
    are closed.
    """
    topo, topologies, sets = ctx.scratch.topology, ctx.snapshot.topologies, ctx.snapshot.sets
    while has_frames(ctx) and topo.end[topo.size[0] - 1] <= entry:  # Bound: the frames.
        topo.size[0] -= 1
    while True:  # Bound: each turn opens a frame of a set on the path to the task.
        f, s = topo.size[0], set_to_enter(search.pending[entry], ctx)
        if s == NULL:
            return True
        w = sets.topology[s]
        leaf = topologies.leaf[w, search.minimal.place[entry]] if w != NULL else NULL
        if leaf == NULL:
            return False
        topo.end[f] = end_of_pending(s, entry, k, ctx, search)
        begin_frame(f, s, entry, ctx)
        topo.candidate[f, 0], topo.n_candidates[f], topo.tried[f] = ancestor(leaf, sets.required[s], ctx), 1, 0
        rank_domains(f, common_domain(f, sets.required[s], ctx), ctx, search)
        topo.size[0] = f + 1


@inner
def rank_domains(f: int, start: int, ctx: Context, search: Search) -> None:
    """Write the points of nodes by the preferred level of the set of frame ``f``: ``points[f]`` (H,); 10.3.

    By what is free at this point of the simulation in the domains below ``start``. Overwrites ``scratch.chunk`` (L,).
    """
    topo = ctx.scratch.topology
    preferred = int(ctx.snapshot.sets.preferred[topo.set[f]])
    if preferred == 0 or start == NULL:
        return
    for entry in range(topo.first[f], topo.end[f]):
        ctx.scratch.chunk[entry] = search.pending[entry]
    uniform = sum_requests(f, ctx)
    measure_domains(f, start, ctx)
    rate_domains(start, preferred, uniform, topo.end[f] - topo.first[f], ctx)
    sort_domains(start, preferred, ctx)
    rank_preferred(f, preferred, ctx)
