"""Minimal search: which victims have to leave because a preemptor cannot run beside them, by host ports or
anti-affinity (semantics 12.2), and what a node costs for which they do (4.5, step 3).

Such victims block a node wherever they are in its topology domain. All of them have to leave, so they are chosen before
those that only make room.

Cost: the victims on the node, or all potential victims where terms reach further, x term roles of both classes, for a
node that is blocked; 64 of the products of victims and roles of the pod count as one unit of ``counts.work``.
Invariant: evictions go through the undo log, and ``search.minimal.chosen`` (T + 1,) names their chunks; a caller that
gives up takes both back.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Snapshot, TermKind, TermRole
from kai_sched.solver.eviction.minimal.chunks import chunk_end
from kai_sched.solver.eviction.minimal.taking import choose_with_dependents
from kai_sched.solver.eviction.minimal.task_moves import terms_allow
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import freed_by_pod
from kai_sched.solver.kernels.score import is_first_of_kind, spans_nodes
from kai_sched.solver.state import Context

ANTI = int(TermKind.ANTI)
CARRY = int(TermRole.CARRY)
MATCH = int(TermRole.MATCH)
NEED = int(TermRole.NEED)
PORT = int(TermRole.PORT)
NEVER = 2**62  # the cost of a node that cannot be cleared
VICTIMS_A_UNIT = 64


@inner
def blocks(other: int, c: int, n: int, ctx: Context) -> bool:
    """Return whether task ``other``, where it is, keeps pods of class ``c`` off node ``n`` (12.2, step 6).

    Compares the term roles of both classes in the domain of the node, ``terms.domain`` (A, N); host ports on the node
    itself.
    """
    snapshot = ctx.snapshot
    term_roles, terms = snapshot.term_roles, snapshot.terms
    here, theirs = ctx.state.task.node[other], snapshot.tasks.cls[other]
    if here == NULL or term_roles.ptr[theirs] == term_roles.ptr[theirs + 1]:
        return False
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row = term_roles.entry[entry, 0], term_roles.entry[entry, 1]
        anti = role != PORT and terms.kind[row] == ANTI
        if role == PORT and here != n:
            continue
        if role != PORT and not (
            anti and terms.domain[row, n] != NULL and terms.domain[row, n] == terms.domain[row, here]
        ):
            continue
        for at in range(term_roles.ptr[theirs], term_roles.ptr[theirs + 1]):
            other_role, other_row = term_roles.entry[at, 0], term_roles.entry[at, 1]
            if role == PORT:
                if other_role == PORT and ports_conflict(row, other_row, snapshot):
                    return True
            elif other_row == row and (
                (role == CARRY and other_role == MATCH) or (role == MATCH and other_role == CARRY)
            ):
                return True
    return False


@inner
def ports_conflict(row: int, other: int, snapshot: Snapshot) -> bool:
    """Return whether the host ports ``row`` and ``other`` cannot both be on a node (``host_ports.ptr`` (P + 1,))."""
    conflicts = snapshot.host_ports
    for at in range(conflicts.ptr[row], conflicts.ptr[row + 1]):  # noqa: SIM110 -- numba compiles no generators
        if conflicts.conflict[at] == other:
            return True
    return False


@inner
def chunk_blocks(g: int, c: int, n: int, ctx: Context, search: Search) -> bool:
    """Return whether a task of chunk ``g`` in ``search.lists.potential`` (T + 1,) keeps class ``c`` off node ``n``."""
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        if blocks(int(search.lists.potential[at]), c, n, ctx):
            return True
    return False


@inner
def find_blockers(c: int, n: int, ctx: Context, search: Search) -> int:
    """List the chunks that are not chosen and keep class ``c`` off node ``n``; return how many there are.

    Writes ``search.minimal.blockers`` (T + 1,), in the order of victims. Where no term of the class has a domain of
    several nodes, only the victims on the node are compared.
    """
    found, compared = 0, 0
    if spans_nodes(c, ctx.snapshot):
        compared = search.counts.potential[0]
        for g in range(search.counts.n_chunks[0]):
            if search.minimal.is_chosen[g] == 0 and chunk_blocks(g, c, n, ctx, search):
                search.minimal.blockers[found] = g
                found += 1
    else:
        here = search.nodes.first_potential[n]
        while here != 0:  # Bound: the victims on the node, each once.
            t, g, compared = here - 1, search.tasks.chunk_of[here - 1], compared + 1
            here = search.tasks.next_on_node[t]
            known = found > 0 and search.minimal.blockers[found - 1] == g
            if search.minimal.is_chosen[g] == 0 and not known and blocks(t, c, n, ctx):
                search.minimal.blockers[found] = g
                found += 1
    roles = ctx.snapshot.term_roles.ptr[c + 1] - ctx.snapshot.term_roles.ptr[c]
    search.counts.work[0] += compared * max(1, roles) // VICTIMS_A_UNIT
    return found


@inner
def is_blocked(c: int, n: int, ctx: Context) -> bool:
    """Return whether terms or ports of pods that stay keep class ``c`` off node ``n``; reads ``state.domains`` (D,)."""
    return bool(ctx.finder.dynamic[c] == 1 and not terms_allow(c, n, ctx))


@inner
def cost_of_blocked(t: int, n: int, by_number: bool, ctx: Context, search: Search) -> int:
    """Return what it costs to clear node ``n``, which is blocked, for task ``t``, as ``minimal.node_costs.cost_of``.

    All chunks that block it leave, and then chunks on the node until there is room. NULL: none of the potential victims
    blocks it. Overwrites ``search.freed`` (N, R) at the node.
    """
    snapshot, lists, freed = ctx.snapshot, search.lists, search.freed[n]
    c = snapshot.tasks.cls[t]
    for r in range(freed.shape[0]):
        freed[r] = 0.0
    number, last = 0, NULL
    blockers = find_blockers(c, n, ctx, search)
    for entry in range(blockers):
        last = int(search.minimal.blockers[entry])
        number += chunk_end(last, search) - lists.chunk_start[last]
        free_on_node(last, n, freed, ctx, search)
    if last == NULL or has_room_with(c, n, freed, ctx):
        return number if by_number and last != NULL else last
    before, passed, here = NULL, 0, search.nodes.first_potential[n]
    while here != 0:  # Bound: the victims on the node, each once.
        g = int(search.tasks.chunk_of[here - 1])
        here = search.tasks.next_on_node[here - 1]
        while passed < blockers and search.minimal.blockers[passed] < g:  # Bound: ``passed`` grows.
            passed += 1
        leaves_anyway = passed < blockers and search.minimal.blockers[passed] == g
        if search.minimal.is_chosen[g] != 0 or g == before or leaves_anyway:
            continue
        before, number = g, number + chunk_end(g, search) - lists.chunk_start[g]
        free_on_node(g, n, freed, ctx, search)
        if has_room_with(c, n, freed, ctx):
            return number if by_number else max(g, last)
    return NEVER


@inner
def free_on_node(g: int, n: int, freed: Floats, ctx: Context, search: Search) -> None:
    """Add what the tasks of chunk ``g`` hold on node ``n`` to ``freed`` (R,), in place."""
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        t = search.lists.potential[at]
        if ctx.state.task.node[t] != n:
            continue
        for r in range(freed.shape[0]):
            if ctx.snapshot.nodes.allocatable[n, r] > 0.0:
                freed[r] += freed_by_pod(ctx.snapshot.tasks.cls[t], r, ctx.snapshot)


@inner
def has_room_with(c: int, n: int, freed: Floats, ctx: Context) -> bool:
    """Return whether a pod of class ``c`` fits the room of node ``n`` with ``freed`` (R,) free as well, by rows."""
    request, idle, releasing = ctx.snapshot.classes.request[c], ctx.state.idle[n], ctx.state.releasing[n]
    for r in range(freed.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r] + releasing[r] + freed[r]:
            return False
    return True


@inner
def clear_blockers(c: int, n: int, preemptor: Preemptor, ctx: Context, search: Search) -> tuple[bool, bool]:
    """Let all chunks leave that keep class ``c`` off node ``n``, through the undo log.

    Adds them to ``search.minimal.chosen`` (T + 1,).

    Returns
    -------
    cleared : int
        Whether the node is no longer blocked.
    refused : int
        Whether shares kept one of the chunks.
    """
    for entry in range(find_blockers(c, n, ctx, search)):
        g = int(search.minimal.blockers[entry])
        if search.minimal.is_chosen[g] != 0:
            continue
        taken, refused = choose_with_dependents(g, n, preemptor, ctx, search)
        if not taken:
            return False, refused
    return terms_allow(c, n, ctx), False


@inner
def is_near_required(c: int, n: int, ctx: Context) -> bool:
    """Return whether the pods that a pod of class ``c`` must be near are near node ``n``, and stay (12.2).

    Reads ``domains.matched`` (D,), in which evicted pods do not count (``minimal.simulation.evict_victim``). A
    pod that matches its own terms and finds no other pod that does may be the first.
    """
    snapshot = ctx.snapshot
    terms, term_roles = snapshot.terms, snapshot.term_roles
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        if term_roles.entry[entry, 0] != NEED:
            continue
        domain = terms.domain[term_roles.entry[entry, 1], n]
        if domain == NULL:
            return False
        if ctx.state.domains.matched[domain] == 0 and not is_first_of_kind(c, ctx):
            return False
    return True
