"""Which jobs stay as pods of this cycle were placed near them, by required affinity (semantics 4.5).

A pod that must be near another one was placed where that one is or will be. If a later search of the cycle took the
other one away, what others left for would come to nothing, and the same would happen in the next cycle. So of each
domain of such a term one job keeps its pods for the rest of the cycle.

Cost: the pods on the nodes of each domain, once in an action, and one pass over all tasks before the first one. It
counts as work (4.8). Invariant: only ``jobs.settled`` (J,), ``met`` (D,) and the chains of tasks by node are written.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status, TermRole
from kai_sched.solver.eviction.tables import NODES_A_UNIT, PODS_A_UNIT, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context

NEED = int(TermRole.NEED)
MATCH = int(TermRole.MATCH)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def settle_neighbours(ctx: Context, search: Search) -> None:
    """Settle a job of each domain in which a pod that was placed in this cycle has to be near others.

    At the beginning of an action: forgets ``met`` (D,) and the chains.
    """
    placements = ctx.decisions.placements
    search.counts.chained[0], search.counts.neighbours[0] = 0, 0
    if ctx.snapshot.term_roles.entry.shape[0] == 0:
        return
    search.met[:] = 0
    for row in range(placements.length[0]):
        if placements.task[row] != NULL:
            settle_near(int(placements.task[row]), ctx, search)


@inner
def settle_new_neighbours(ctx: Context, search: Search) -> None:
    """Do the same for the tasks that the search placed, ``lists.placed`` (T + 1,).

    Those that it placed stay themselves, so that nobody else has to where they match. ``lists.neighbours`` (T + 1,)
    names the jobs that were settled.
    """
    search.counts.neighbours[0] = 0
    for entry in range(search.counts.placed[0]):
        note_stays(int(search.lists.placed[entry]), ctx, search)
    for entry in range(search.counts.placed[0]):
        t = int(search.lists.placed[entry])
        if ctx.state.task.status[t] == IS_PIPELINED:
            settle_near(t, ctx, search)


@inner
def note_stays(t: int, ctx: Context, search: Search) -> None:
    """Mark in ``met`` (D,) the domains in which task ``t`` matches a term, if it has a place and stays."""
    term_roles, domain = ctx.snapshot.term_roles, ctx.snapshot.terms.domain
    c, n = ctx.snapshot.tasks.cls[t], ctx.state.task.node[t]
    if n == NULL or ctx.state.task.status[t] != IS_PIPELINED or not stays(t, ctx, search):
        return
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        term = term_roles.entry[entry, 1]
        if term_roles.entry[entry, 0] == MATCH and domain[term, n] != NULL:
            search.met[domain[term, n]] = 1


@inner
def stays(t: int, ctx: Context, search: Search) -> bool:
    """Return whether no search takes task ``t``: by ``jobs.preemptible`` and ``search.jobs.settled`` (J,)."""
    j = ctx.snapshot.tasks.job[t]
    return bool(j == NULL or ctx.snapshot.jobs.preemptible[j] == 0 or search.jobs.settled[j] == 1)


@inner
def needs_others(c: int, ctx: Context) -> bool:
    """Return whether pods of class ``c`` have to be near others than their own kind: ``term_roles`` (C,).

    Classes that match their own terms do not count: the pods of such a gang are near each other.
    """
    term_roles = ctx.snapshot.term_roles
    if term_roles.self_match[c] == 1:
        return False
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):  # noqa: SIM110 -- numba compiles no generators
        if term_roles.entry[entry, 0] == NEED:
            return True
    return False


@inner
def settle_near(t: int, ctx: Context, search: Search) -> None:
    """Settle a job of each domain in which task ``t`` needs a match and that is not in ``met`` (D,) yet.

    Where nobody matches nobody is looked for again: who gets a place there later in this action is settled by that.
    """
    term_roles, domain = ctx.snapshot.term_roles, ctx.snapshot.terms.domain
    c, n = int(ctx.snapshot.tasks.cls[t]), ctx.state.task.node[t]
    if not needs_others(c, ctx):
        return
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        term = int(term_roles.entry[entry, 1])
        if term_roles.entry[entry, 0] != NEED or domain[term, n] == NULL:
            continue
        if search.met[domain[term, n]] == 0:
            search.met[domain[term, n]] = 1
            settle_one(term, int(domain[term, n]), ctx, search)


@inner
def settle_one(term: int, d: int, ctx: Context, search: Search) -> None:
    """Settle the job of the first task, by row, that matches ``term`` on a node of domain ``d``.

    Nobody is settled if nobody matches there, or somebody who stays anyway. ``counts.work`` grows.
    """
    domain, task_state = ctx.snapshot.terms.domain, ctx.state.task
    if search.counts.chained[0] == 0:
        chain_by_node(ctx, search)
    first, steps, stay = NULL, 0, False
    for n in range(domain.shape[1]):
        if domain[term, n] != d:
            continue
        here = search.nodes.first_there[n]
        while here != 0 and not stay:  # Bound: each task is in one chain.
            t = here - 1
            here = search.tasks.next_there[t]
            steps += 1
            if task_state.node[t] != n or not IS_PIPELINED <= task_state.status[t] <= IS_RUNNING:
                continue
            if not matches(int(t), term, ctx):
                continue
            stay = stays(int(t), ctx, search)
            first = t if first == NULL or t < first else first
        if stay:
            break
    search.counts.work[0] += 1 + domain.shape[1] // NODES_A_UNIT + steps // PODS_A_UNIT
    if first != NULL and not stay:
        j = ctx.snapshot.tasks.job[first]
        search.jobs.settled[j] = 1
        search.lists.neighbours[search.counts.neighbours[0]] = j
        search.counts.neighbours[0] += 1


@inner
def chain_by_node(ctx: Context, search: Search) -> None:
    """Chain the tasks of each node: ``nodes.first_there`` (N,) and ``tasks.next_there`` (T,), rows plus 1.

    Tasks that get a place later are not in the chain of their node: ``note_stays`` has marked what they match.
    """
    search.nodes.first_there[:] = 0
    for t in range(ctx.state.task.node.shape[0]):
        n = ctx.state.task.node[t]
        if n != NULL:
            search.tasks.next_there[t] = search.nodes.first_there[n]
            search.nodes.first_there[n] = t + 1
    search.counts.chained[0] = 1
    search.counts.work[0] += ctx.state.task.node.shape[0] // PODS_A_UNIT


@inner
def matches(t: int, term: int, ctx: Context) -> bool:
    """Return whether the labels of task ``t`` match ``term``, by ``term_roles`` (C,)."""
    term_roles, c = ctx.snapshot.term_roles, ctx.snapshot.tasks.cls[t]
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        if term_roles.entry[entry, 0] == MATCH and term_roles.entry[entry, 1] == term:
            return True
    return False
