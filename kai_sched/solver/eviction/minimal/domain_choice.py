"""Minimal search: which topology domains pay for a preemptor with constraints: those that cost the fewest evictions
(semantics 4.5, step 3, and 10.2).

Each set with a constraint is tried in every domain of its required level that could hold it with all potential victims
gone. A try chooses victims as for any gang, but clears only nodes of the domain. The domain with the fewest evicted
pods is then chosen for good; the fewer pods the least deserving victims have, the better: of two equal domains the one
whose last chunk comes first in the order of victims. Sets within sets are tried within the domain of the outer one.

Preferred levels say where free room is used first; nobody is evicted for them.

Cost: the choice once for each domain, and once more for the best one; for sets within sets, times the domains of each
level. Every step counts as work. Invariant: each try begins at the checkpoint of its frame.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.domain_room import could_hold
from kai_sched.solver.eviction.minimal.chunks import chunk_end
from kai_sched.solver.eviction.minimal.given_domains import rank_domains
from kai_sched.solver.eviction.minimal.taking import abandon
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.domains import common_domain, domain_of, end_of_set, mark_holders
from kai_sched.solver.kernels.topology import begin_frame, has_frames, set_to_enter
from kai_sched.solver.state import Context

OK = int(Verdict.OK)


@inner
def enter_costed_domains(entry: int, k: int, ctx: Context, search: Search) -> bool:
    """Open a frame for each set with a constraint that begins with the task at ``entry`` of ``search.pending`` (L,).

    False: no domain could hold one of them. Writes the columns (F,) of ``search.minimal.tries``.
    """
    topo, tries = ctx.scratch.topology, search.minimal.tries
    while True:  # Bound: each turn opens a frame of a set on the path to the task.
        f, s = topo.size[0], set_to_enter(search.pending[entry], ctx)
        if s == NULL:
            return True
        if ctx.snapshot.sets.fault[s] != OK:
            return False
        topo.end[f] = end_of_set(s, entry, k, search.pending, ctx)
        begin_frame(f, s, entry, ctx)
        tries.chosen[f], tries.placed[f], tries.best[f] = search.minimal.n_chosen[0], search.counts.placed[0], NULL
        list_domains_to_clear(f, ctx, search)
        if topo.n_candidates[f] == 0:
            return False
        tries.comparing[f] = topo.n_candidates[f] > 1
        topo.size[0] = f + 1
        search.minimal.clock[0] += 1


@inner
def leave_domains(entry: int, ctx: Context, search: Search) -> int:
    """Close the frames of sets that are placed whole at ``entry``; return from which entry on to go on.

    That is ``entry``, or the first task of a set that has more domains to compare, or is to be placed in the best.
    """
    topo, tries, minimal = ctx.scratch.topology, search.minimal.tries, search.minimal
    while has_frames(ctx) and topo.end[topo.size[0] - 1] <= entry:  # Bound: the frames.
        f = topo.size[0] - 1
        if tries.comparing[f] == 0:
            topo.size[0] = f
            minimal.clock[0] += 1
            continue
        pods, last = 0, NULL
        for at in range(tries.chosen[f], minimal.n_chosen[0]):
            g = int(minimal.chosen[at])
            pods += chunk_end(g, search) - search.lists.chunk_start[g]
            last = max(last, g)
        if tries.best[f] == NULL or (pods, last) < (tries.pods[f], tries.last[f]):
            tries.best[f], tries.pods[f], tries.last[f] = topo.tried[f], pods, last
        if pods == 0:
            topo.tried[f] = topo.n_candidates[f] - 1  # no other can cost less
        return next_domain(ctx, search)
    return entry


@inner
def next_domain(ctx: Context, search: Search) -> int:
    """Take back what was chosen in the innermost set's domain, and turn to its next one, or at the end to its best.

    Return the first task of the set. If none of its domains will do, the set above goes on to its next one; NULL: there
    is none.
    """
    topo, tries = ctx.scratch.topology, search.minimal.tries
    while has_frames(ctx):  # Bound: the frames.
        f = topo.size[0] - 1
        abandon(topo.floats[f], topo.integers[f], tries.chosen[f], tries.placed[f], ctx, search)
        search.minimal.clock[0] += 1
        if tries.comparing[f] == 1:
            topo.tried[f] += 1
            if topo.tried[f] < topo.n_candidates[f] and search.counts.work[0] <= ctx.settings.search_work:
                return int(topo.first[f])
            if tries.best[f] != NULL:
                topo.tried[f], tries.comparing[f] = tries.best[f], 0
                return int(topo.first[f])
        topo.size[0] = f
    return NULL


@inner
def list_domains_to_clear(f: int, ctx: Context, search: Search) -> None:
    """List the domains of the required level that could hold the set of frame ``f``: ``candidate[f]`` (H,).

    Without a required level that is the topology as a whole. For the first set of the job, domains are left out in
    which a validator refused it before in this attempt (``minimal.refused`` (H,)).
    """
    topo, topologies = ctx.scratch.topology, ctx.snapshot.topologies
    s = topo.set[f]
    required = int(ctx.snapshot.sets.required[s])
    topo.n_candidates[f], topo.tried[f] = 0, 0
    begin, outermost = common_domain(f, required, ctx), topo.first[f] == 0 and f == topo.size[1]
    if begin == NULL:
        return
    rank_domains(f, begin, ctx, search)
    pinned = required > 0 and mark_holders(s, ctx)
    end = begin + 1
    while topologies.level[begin] < required:  # Bound: the levels of the topology.
        begin, end = int(topologies.child_ptr[begin]), int(topologies.child_end[end - 1])
    for h in range(begin, end):
        if pinned and topo.holder[h] != topo.counts[1]:
            continue
        if outermost and search.minimal.refused[h] == search.minimal.attempt[0]:
            continue
        if could_hold(h, topo.first[f], topo.end[f], search.rooms.requests, ctx, search):
            topo.candidate[f, topo.n_candidates[f]] = h
            topo.n_candidates[f] += 1


@inner
def refuse_chosen_domain(ctx: Context, search: Search) -> bool:
    """Leave the domain that the first set with a constraint was given out of further tries in this attempt.

    False: it had no required level. Writes ``minimal.refused`` (H,).
    """
    s, n = set_to_enter(search.pending[0], ctx), search.minimal.place[0]
    if s == NULL or ctx.snapshot.sets.required[s] == 0:
        return False
    search.minimal.refused[domain_of(s, n, ctx)] = search.minimal.attempt[0]
    return True
