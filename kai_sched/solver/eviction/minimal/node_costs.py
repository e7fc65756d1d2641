"""Minimal search: what it costs to clear a node for a pending task, and the cheapest node (semantics 4.5, step 3).

The cost of a node is the number of the last chunk that has to leave it, in the order of victims: no victim is chosen as
long as less deserving ones would do. In consolidation, where all victims move, it is the number of pods that move.

Cost: the victims on the node x R for a node that changed; what blocks it (``minimal.blockers``) is looked at only where
a lower bound leaves the node among the cheapest. The cheapest node of each block of 32 is kept as well, so a further
task of the same class mostly compares P / 32 blocks for P nodes with victims. Invariant: only scratch of the search is
written: ``minimal.cost``, ``cost_mark``, ``best`` and ``best_mark`` (N,), and ``freed`` (N, R).
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.minimal.blockers import NEVER, cost_of_blocked, is_blocked
from kai_sched.solver.eviction.minimal.chunks import chunk_end, queue_of
from kai_sched.solver.eviction.minimal.taking import BLOCK
from kai_sched.solver.eviction.rules.shares import may_lose_more
from kai_sched.solver.eviction.tables import PODS_A_NODE, Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import freed_by_pod
from kai_sched.solver.kernels.score import spans_nodes
from kai_sched.solver.kernels.topology import allows
from kai_sched.solver.kernels.volumes import volumes_fit
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)


@inner
def cheapest_node(t: int, n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Return the node that costs least to clear for task ``t``; of equal ones the first with victims; NULL: none.

    Reads ``search.nodes.order`` (N,), the nodes with potential victims in the order in which they got them, or
    the first ``n_hosts`` of ``search.hosts`` (L,).
    """
    clock = search.minimal.clock[0]
    best, least = NULL, NEVER
    if n_hosts > 0:
        for place in range(n_hosts):
            n = int(search.hosts[place])
            cost = known_cost(t, n, least, preemptor, ctx, search)
            if cost < least:
                best, least = n, cost
        return best
    if spans_nodes(ctx.snapshot.tasks.cls[t], ctx.snapshot):
        # A node without victims may have room, but pods elsewhere in its domain block it.
        for n in range(search.minimal.cost.shape[0]):
            cost = known_cost(t, n, least, preemptor, ctx, search)
            if cost < least:
                best, least = n, cost
        return best
    # The cheapest node of each block of 32 places is kept (``minimal.best`` and ``best_mark``) until
    # ``forget_cost`` marks one of its nodes as changed. As the lower place wins a tie in a block and among
    # blocks, the result is that of one loop.
    total = search.counts.nodes[0]
    for block in range((total + BLOCK - 1) // BLOCK):
        if search.minimal.best_mark[block] != clock:
            search.minimal.best_mark[block] = clock
            search.minimal.best[block] = NULL
            lowest = NEVER
            for place in range(block * BLOCK, min(total, (block + 1) * BLOCK)):
                n = int(search.nodes.order[place])
                cost = known_cost(t, n, lowest, preemptor, ctx, search)
                if cost < lowest:
                    search.minimal.best[block], lowest = n, cost
        n = int(search.minimal.best[block])
        if n != NULL and search.minimal.cost[n] < least:
            best, least = n, int(search.minimal.cost[n])
    return best


@inner
def known_cost(t: int, n: int, below: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Return the cost of clearing node ``n`` for task ``t``, or NEVER; ``below`` or more if it is no less.

    Kept in ``search.minimal.cost`` (N,) until the node changes: ``cost_mark`` is the choice clock where it is the cost,
    and minus the clock where it is only known that the cost is no less (``least_cost``).
    """
    clock = search.minimal.clock[0]
    if search.minimal.barred[n] == clock:
        return NEVER
    if search.minimal.cost_mark[n] != clock and search.minimal.cost_mark[n] != -clock:
        search.minimal.cost[n] = least_cost(t, n, preemptor, ctx, search)
        search.minimal.cost_mark[n] = -clock
    if search.minimal.cost_mark[n] == -clock and search.minimal.cost[n] < below:
        search.minimal.cost[n] = exact_cost(t, n, preemptor, ctx, search)
        search.minimal.cost_mark[n] = clock
    return int(search.minimal.cost[n])


@inner
def least_cost(t: int, n: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Return an amount that the cost of clearing node ``n`` for task ``t`` is not below; NEVER: it cannot serve it.

    Bound: if only pods on the node block it, all chunks that have to leave are on the node. So those up to the last of
    them make the room, and ``cost_of`` is the first chunk of which this is true. It does not bound what is blocked from
    elsewhere, or costs a number of pods (consolidation); nothing is below 0.
    """
    c = ctx.snapshot.tasks.cls[t]
    if ctx.finder.verdicts[ctx.snapshot.classes.signature[c], n] != OK or not allows(n, ctx):
        return NEVER
    if ctx.finder.dynamic[c] == 1 and not volumes_fit(c, n, ctx):
        return NEVER
    if ctx.finder.dynamic[c] == 1 and (preemptor.action == CONSOLIDATION or spans_nodes(c, ctx.snapshot)):
        return 0
    return cost_of(t, n, preemptor.action == CONSOLIDATION, ctx, search)


@inner
def exact_cost(t: int, n: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Return the cost of clearing node ``n``, which may serve task ``t``, or NEVER.

    A reclaim without moves also asks ``can_be_cleared``, so that a node which shares protect is not the cheapest again
    and again.
    """
    cost, by_number = NULL, preemptor.action == CONSOLIDATION
    if is_blocked(ctx.snapshot.tasks.cls[t], n, ctx):
        cost = cost_of_blocked(t, n, by_number, ctx, search)
    if cost == NULL:
        cost = cost_of(t, n, by_number, ctx, search)
    if cost != NEVER and preemptor.action == RECLAIM and not preemptor.moves:
        cost = cost if can_be_cleared(t, n, preemptor, ctx, search) else NEVER
    return cost


@inner
def cost_of(t: int, n: int, by_number: bool, ctx: Context, search: Search) -> int:
    """Return what it costs to clear node ``n`` for task ``t``, or NEVER if all its victims are not enough.

    The cost is the number of the last chunk that is needed. Chunks that are chosen already cost nothing: their
    room is in ``state.releasing`` (N, R). Inter-pod terms and shares are left out, and so is on which devices parts of
    GPUs become free: ``clear_node`` goes on until the task fits. Overwrites ``search.freed`` (N, R) at the node.

    Parameters
    ----------
    by_number : bool
        Whether the cost is instead the number of pods of all needed chunks, on whatever nodes they are
        (consolidation).
    """
    snapshot, state = ctx.snapshot, ctx.state
    request = snapshot.classes.request[snapshot.tasks.cls[t]]
    idle, releasing, freed = state.idle[n], state.releasing[n], search.freed[n]
    allocatable = snapshot.nodes.allocatable[n]
    for r in range(freed.shape[0]):
        freed[r] = 0.0
    number, last, looked, enough = 0, NULL, 0, False
    here = search.nodes.first_potential[n]
    while here != 0 and not enough:  # Bound: the victims on the node, each once.
        other = here - 1
        here = search.tasks.next_on_node[other]
        looked += 1
        g = int(search.tasks.chunk_of[other])
        if search.minimal.is_chosen[g] != 0:
            continue
        if g != last:
            last = g
            number += chunk_end(g, search) - search.lists.chunk_start[g]
        enough = True
        for r in range(freed.shape[0]):
            if allocatable[r] > 0.0:
                freed[r] += freed_by_pod(snapshot.tasks.cls[other], r, snapshot)
            enough = enough and request[r] <= idle[r] + releasing[r] + freed[r]
    search.minimal.looked[0] += PODS_A_NODE + looked
    if not enough:
        return NEVER
    return number if by_number else last


@inner
def can_be_cleared(t: int, n: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Return whether task ``t`` would fit node ``n`` with all chunks gone that shares let go now, each by itself.

    Bound (reclaim without moves): if it would not, no order of evictions clears the node. With each chunk that is
    taken queues have less left, and the test of rule 1 (4.7) compares what is left with fixed shares: a chunk
    that it refuses now stays refused. So every set that can go is part of the set that is counted here.
    Overwrites ``search.freed`` (N, R) at the node. Cost: the victims on the node x (R + depth of the queue tree).
    """
    snapshot, state = ctx.snapshot, ctx.state
    classes, freed, allocatable = snapshot.classes, search.freed[n], snapshot.nodes.allocatable[n]
    for r in range(freed.shape[0]):
        freed[r] = 0.0
    last, open_ = NULL, False
    here = search.nodes.first_potential[n]
    while here != 0:  # Bound: the victims on the node, each once.
        other = here - 1
        here = search.tasks.next_on_node[other]
        g = int(search.tasks.chunk_of[other])
        if g != last:
            last, open_ = g, may_lose_more(preemptor.job, preemptor.need, queue_of(g, snapshot, search), ctx, search)
        if search.minimal.is_chosen[g] != 0 or not open_:
            continue
        for r in range(freed.shape[0]):
            if allocatable[r] > 0.0:
                freed[r] += freed_by_pod(snapshot.tasks.cls[other], r, snapshot)
    request = classes.request[snapshot.tasks.cls[t]]
    for r in range(freed.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > state.idle[n, r] + state.releasing[n, r] + freed[r]:
            return False
    return True
