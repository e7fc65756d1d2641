"""Minimal search: what is done with one task in a simulation: it is evicted, stays, or is placed (semantics 4.5, 12.2).

Invariant: all changes of the state go through the undo log. Shapes: see docs/data-model.md.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import TermKind, TermRole
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.evict import evict, return_home
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import place_on_node
from kai_sched.solver.kernels.fit import has_room
from kai_sched.solver.kernels.score import is_first_of_kind, judge_placed
from kai_sched.solver.kernels.undo import add_integer
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
MATCH = int(TermRole.MATCH)
REQUIRED = int(TermKind.REQUIRED)


@inner
def evict_victim(t: int, ctx: Context, search: Search) -> None:
    """Evict task ``t`` in the simulation, through the undo log (12.2).

    The pod no longer satisfies the required affinity of others (``domains.matched``, (D,)), as it will be gone.
    """
    evict(ctx.snapshot.tasks.job[t], t, 1, ctx, search)
    count_as_near(t, -1, ctx, search)


@inner
def restore_victim(t: int, ctx: Context, search: Search) -> None:
    """Undo the eviction of task ``t``: it has its node ``search.tasks.home`` (T,) and its old status again.

    The change is one more entry of the undo log, not a rollback, so it can be undone itself.
    """
    return_home(ctx.snapshot.tasks.job[t], t, ctx, search)
    count_as_near(t, 1, ctx, search)


@inner
def count_as_near(t: int, sign: int, ctx: Context, search: Search) -> None:
    """Add ``sign`` times task ``t`` at its home to what the required affinity of other pods finds there.

    Writes ``domains.matched`` (D,) through the undo log, for the required terms that match the pod. Does nothing
    for classes without terms and ports.
    """
    snapshot, state = ctx.snapshot, ctx.state
    c, n = snapshot.tasks.cls[t], search.tasks.home[t]
    if n == NULL or ctx.finder.dynamic[c] == 0:
        return
    term_roles, terms = snapshot.term_roles, snapshot.terms
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        row = term_roles.entry[entry, 1]
        if term_roles.entry[entry, 0] != MATCH or terms.kind[row] != REQUIRED or terms.domain[row, n] == NULL:
            continue
        add_integer(state.at.matched + terms.domain[row, n], sign * term_roles.entry[entry, 2], ctx)


@inner
def node_takes(n: int, c: int, ctx: Context) -> bool:
    """Return whether node ``n`` takes a pod of class ``c``, on idle or releasing room (0.3).

    Checks static constraints (``finder.verdicts``, (K, N)), resources, and inter-pod terms and ports where the
    class has any.
    """
    finder = ctx.finder
    classes = ctx.snapshot.classes
    if finder.verdicts[classes.signature[c], n] != OK or finder.refused[c] != OK:
        return False
    if not has_room(c, n, ctx):
        return False
    return finder.dynamic[c] == 0 or terms_allow(c, n, ctx)


@inner
def pipeline_task(j: int, t: int, n: int, ctx: Context, search: Search) -> None:
    """Place task ``t`` of job ``j`` on node ``n``, pipelined, through the undo log.

    The task is appended to ``search.lists.placed`` (T + 1,), from which the commit reads the placements.
    """
    place_on_node(j, t, n, True, ctx)
    search.lists.placed[search.counts.placed[0]] = t
    search.counts.placed[0] += 1


@inner
def terms_allow(c: int, n: int, ctx: Context) -> bool:
    """Return whether inter-pod terms and host ports allow a pod of class ``c`` on node ``n`` (12.2).

    Reads the counters ``domains.matched`` and ``carried`` (D,) and ``state.ports`` (N, P).
    """
    first = is_first_of_kind(c, ctx)
    return bool(judge_placed(c, n, first, ctx) == OK)
