"""Minimal search: pending tasks in the topology domains that were chosen for them (semantics 10.2)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.domains import common_domain, domain_of, end_of_set, survey_domains
from kai_sched.solver.kernels.topology import begin_frame, leave_placed_sets, set_to_enter
from kai_sched.solver.state import Context


@inner
def enter_chosen_domains(entry: int, k: int, ctx: Context, search: Search) -> bool:
    """Open frames as ``enter_costed_domains``, each with the domain of the node chosen for its first task.

    That is ``search.minimal.place`` (L,); False: the node is outside the topology. Frames of sets that are placed whole
    are closed.
    """
    topo, sets = ctx.scratch.topology, ctx.snapshot.sets
    leave_placed_sets(entry, ctx)
    while True:  # Bound: each turn opens a frame of a set on the path to the task.
        f, s = topo.size[0], set_to_enter(search.pending[entry], ctx)
        if s == NULL:
            return True
        h = domain_of(s, search.minimal.place[entry], ctx) if sets.topology[s] != NULL else NULL
        if h == NULL:
            return False
        topo.end[f] = end_of_set(s, entry, k, search.pending, ctx)
        begin_frame(f, s, entry, ctx)
        topo.candidate[f, 0], topo.n_candidates[f], topo.tried[f] = h, 1, 0
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
    survey_domains(f, start, preferred, ctx)
