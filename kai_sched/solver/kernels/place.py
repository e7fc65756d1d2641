"""What changes in the working state when a pod gets a node: room, what its queues hold, term roles (semantics 0.3, 2.2,
3.6).

``attempt.place_on_node`` calls all three kernels; ``eviction.evict`` does the reverse for a task that leaves. All
writes go through the undo log (``kernels.undo``), so that a statement is undone as a whole, bit for bit.

Cost: R resources, L levels of the queue tree times 3, and the term roles of the class. Each write takes one entry of
the log; ``log_size.make_log`` allows for as many.
Invariant: a request is taken out of exactly one of idle and releasing, so idle plus releasing is what is left once
leaving pods are gone.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status, TermKind, TermRole
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import price_of
from kai_sched.solver.kernels.undo import add_float, add_integer, set_integer
from kai_sched.solver.kernels.volumes import leave_volumes, take_volumes
from kai_sched.solver.state import Context

IS_ALLOCATED = int(Status.ALLOCATED)
IS_PIPELINED = int(Status.PIPELINED)
CARRY = int(TermRole.CARRY)
MATCH = int(TermRole.MATCH)
PORT = int(TermRole.PORT)
ANTI = int(TermKind.ANTI)


@inner
def place(t: int, n: int, wait: bool, ctx: Context) -> None:
    """Put pending task ``t`` on node ``n``: bound, or pipelined if ``wait`` is true.

    Through the undo log it takes the request from ``state.idle`` or, pipelined, from ``state.releasing`` (N, R), also
    if the room is idle (0.3), sets the status and node of the task (T,), and moves one task of its set (S,) from
    pending to active. The caller gives it devices (``devices.take_devices``), charges the queues (``charge_task``),
    counts the term roles (``count_term_roles``) and marks the node (``undo.touch``).
    """
    at, s = ctx.state.at, ctx.snapshot.tasks.set[t]
    request = ctx.snapshot.classes.request[ctx.snapshot.tasks.cls[t]]
    base = (at.releasing if wait else at.idle) + n * request.shape[0]
    for r in range(request.shape[0]):
        if request[r] != 0.0:
            add_float(base + r, -request[r], ctx)
    set_integer(at.status + t, IS_PIPELINED if wait else IS_ALLOCATED, ctx)
    set_integer(at.node + t, n, ctx)
    add_integer(at.pending + s, -1, ctx)
    add_integer(at.active + s, 1, ctx)
    if wait:
        add_integer(at.waiting + s, 1, ctx)


@inner
def charge_task(j: int, t: int, n: int, times: float, ctx: Context) -> None:
    """Add what task ``t`` of job ``j`` on node ``n`` costs to what its queue and all above it hold (2.2), by the log.

    That is ``devices.price_of`` of each of the three resources. For a non-preemptible job it also counts in
    ``book.held_fixed`` (Q + 1, 3).

    Parameters
    ----------
    times : how often the price is added; negative to pay back, as an eviction does
    """
    snapshot, at = ctx.snapshot, ctx.state.at
    c, q, fixed = snapshot.tasks.cls[t], snapshot.jobs.queue[j], snapshot.jobs.preemptible[j] == 0
    while q != NULL:  # Bound: the depth of the queue tree.
        for r in range(3):
            price = price_of(c, r, n, ctx)
            if price != 0.0:
                add_float(at.held + 3 * q + r, times * price, ctx)
                if fixed:
                    add_float(at.held_fixed + 3 * q + r, times * price, ctx)
        q = snapshot.queues.parent[q]


@inner
def count_term_roles(c: int, n: int, sign: int, ctx: Context) -> None:
    """Count a pod of class ``c`` on node ``n`` for inter-pod terms, host ports and volumes (12.2), by the undo log.

    Changes ``state.volumes`` (Z,) and (F,), ``state.domains.matched`` and ``carried`` (D,) in the domain of the node,
    and ``state.ports`` (N, P). ``sign`` is 1 for a pod that is placed and -1 for one that is taken off.
    """
    domain, term_roles, at = ctx.snapshot.terms.domain, ctx.snapshot.term_roles, ctx.state.at
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row, weight = term_roles.entry[entry, 0], term_roles.entry[entry, 1], term_roles.entry[entry, 2]
        if role == PORT:
            add_integer(at.ports + n * ctx.state.ports.shape[1] + row, sign, ctx)
        elif (role == MATCH or role == CARRY) and domain[row, n] != NULL:  # noqa: SIM109 -- cheaper to compile
            add_integer((at.matched if role == MATCH else at.carried) + domain[row, n], sign * weight, ctx)
    if sign == 1:
        take_volumes(c, n, ctx)
    else:
        leave_volumes(c, ctx)


@inner
def count_affinity(c: int, n: int, sign: int, ctx: Context) -> None:
    """Count a pod of class ``c`` on node ``n`` for affinity alone, required or preferred, through the undo log.

    Changes ``state.domains.matched`` and ``carried`` (D,) of terms that are not anti-affinity, as ``count_term_roles``.
    """
    terms, term_roles, at = ctx.snapshot.terms, ctx.snapshot.term_roles, ctx.state.at
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row, weight = term_roles.entry[entry, 0], term_roles.entry[entry, 1], term_roles.entry[entry, 2]
        if role == PORT or terms.kind[row] == ANTI or terms.domain[row, n] == NULL:
            continue
        if role == MATCH or role == CARRY:  # noqa: SIM109 -- cheaper to compile
            add_integer((at.matched if role == MATCH else at.carried) + terms.domain[row, n], sign * weight, ctx)


@inner
def count_leaving(c: int, n: int, sign: int, ctx: Context) -> None:
    """Count a pod of class ``c`` on node ``n`` as leaving for anti-affinity and host ports (12.2), by the undo log.

    With ``sign`` -1 it stays after all. What it holds goes from ``state.domains`` (D,) and ``state.ports`` (N, P) to
    ``leaving_domains`` and ``leaving_ports``: nobody is refused for it any more, but who needs it gone has to wait.
    Volumes that were promised to its claims in this cycle, ``state.volumes`` (Z,), are free again at once.
    """
    count_guards(c, n, -sign, False, ctx)
    count_guards(c, n, sign, True, ctx)
    if sign == 1:
        leave_volumes(c, ctx)
    else:
        take_volumes(c, n, ctx)


@inner
def count_guards(c: int, n: int, sign: int, leaving: bool, ctx: Context) -> None:
    """Add ``sign`` pods of class ``c`` on node ``n`` to the counts for anti-affinity and host ports, by the undo log.

    Those are ``state.leaving_domains`` (D,) and ``leaving_ports`` (N, P) if ``leaving``, else ``domains`` and
    ``ports``.
    """
    terms, term_roles, at = ctx.snapshot.terms, ctx.snapshot.term_roles, ctx.state.at
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row, weight = term_roles.entry[entry, 0], term_roles.entry[entry, 1], term_roles.entry[entry, 2]
        if role == PORT:
            base = at.leaving_ports if leaving else at.ports
            add_integer(base + n * ctx.state.ports.shape[1] + row, sign, ctx)
        elif terms.kind[row] == ANTI and terms.domain[row, n] != NULL:
            if role == MATCH:
                base = at.leaving_matched if leaving else at.matched
                add_integer(base + terms.domain[row, n], sign * weight, ctx)
            elif role == CARRY:
                base = at.leaving_carried if leaving else at.carried
                add_integer(base + terms.domain[row, n], sign * weight, ctx)
