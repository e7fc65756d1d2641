"""Which jobs stay as pods of this cycle were placed near them, by required affinity (semantics 4.5).

A pod that must be near another one was placed where that one is or will be. If a later search of the cycle took the
other one away, what others left for would come to nothing, and the same would happen in the next cycle. So of each
domain of such a term one job keeps its pods for the rest of the cycle.

Cost: one pass over the placements of the cycle, and two over all tasks if some of them have required affinity.
Invariant: only ``jobs.settled`` (J,) and scratch is written.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status, TermRole
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context

NEED = int(TermRole.NEED)
MATCH = int(TermRole.MATCH)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
NEEDED = 1
FOUND = 2


@inner
def settle_neighbours(ctx: Context, search: Search) -> bool:
    """Settle a job of each domain in which a pod that was placed in this cycle has to be near others.

    A job that no search takes anyway is looked for first. Writes ``jobs.settled`` (J,); overwrites ``domain`` (D,).
    Returns whether a job was settled.
    """
    if not note_needed_domains(ctx, search):
        return False
    settle_jobs_near(True, ctx, search)
    return settle_jobs_near(False, ctx, search)


@inner
def needs_others(c: int, ctx: Context) -> bool:
    """Return whether pods of class ``c`` have to be near others than their own kind: ``term_roles`` (C,)."""
    term_roles = ctx.snapshot.term_roles
    if term_roles.self_match[c] == 1:
        return False
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):  # noqa: SIM110 -- numba compiles no generators
        if term_roles.entry[entry, 0] == NEED:
            return True
    return False


@inner
def note_needed_domains(ctx: Context, search: Search) -> bool:
    """Mark in ``domain`` (D,) the domains in which placements of the cycle need a match; return whether there is one.

    Classes that match their own terms do not count: the pods of such a gang are near each other.
    """
    placements, term_roles, domain = ctx.decisions.placements, ctx.snapshot.term_roles, ctx.snapshot.terms.domain
    found = False
    if term_roles.entry.shape[0] == 0:
        return False
    search.domain[:] = 0
    for row in range(placements.length[0]):
        t = placements.task[row]
        if t == NULL or not needs_others(int(ctx.snapshot.tasks.cls[t]), ctx):
            continue
        c, n = ctx.snapshot.tasks.cls[t], ctx.state.task.node[t]
        for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
            term = term_roles.entry[entry, 1]
            if term_roles.entry[entry, 0] == NEED and domain[term, n] != NULL:
                search.domain[domain[term, n]] = NEEDED
                found = True
    return found


@inner
def settle_jobs_near(staying: bool, ctx: Context, search: Search) -> bool:
    """Look for one pod that matches in each domain that is still NEEDED in ``domain`` (D,), and settle its job.

    With ``staying`` only pods that no search takes are looked at: then nothing is left to settle. Pods of lower rows
    come first. Returns whether a job was settled.
    """
    tasks, jobs, term_roles = ctx.snapshot.tasks, ctx.snapshot.jobs, ctx.snapshot.term_roles
    domain, found = ctx.snapshot.terms.domain, False
    for t in range(tasks.job.shape[0]):
        j, c, n = tasks.job[t], tasks.cls[t], ctx.state.task.node[t]
        if n == NULL or not IS_PIPELINED <= ctx.state.task.status[t] <= IS_RUNNING:
            continue
        if staying and j != NULL and jobs.preemptible[j] == 1 and search.jobs.settled[j] == 0:
            continue
        for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
            term = term_roles.entry[entry, 1]
            if term_roles.entry[entry, 0] != MATCH or domain[term, n] == NULL:
                continue
            if search.domain[domain[term, n]] == NEEDED:
                search.domain[domain[term, n]] = FOUND
                if not staying:
                    search.jobs.settled[j] = 1
                    found = True
    return found
