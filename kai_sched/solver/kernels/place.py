"""Putting a task on a node and taking all consequences into the books (semantics 0.3, 2.2, 3.6)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Bond, Floats, Status
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.undo import add_float, add_integer, set_integer
from kai_sched.solver.state import Context

IS_ALLOCATED = int(Status.ALLOCATED)
IS_PIPELINED = int(Status.PIPELINED)
CARRY = int(Bond.CARRY)
MATCH = int(Bond.MATCH)
PORT = int(Bond.PORT)


@inner
def place(t: int, n: int, wait: bool, ctx: Context) -> None:
    """Put pending task ``t`` on node ``n``: bound, or, with ``wait``, pipelined on room being left.

    The queues are charged apart (``charge``), and the finder is told by the caller (``undo.touch``).
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
def charge(q: int, price: Floats, times: float, fixed: bool, ctx: Context) -> None:
    """Add ``price`` (3,) so many ``times`` to what the queue and all above hold; ``fixed``: non-preemptible jobs, too.

    Negative ``times`` pay back.
    """
    at = ctx.state.at
    while q != NULL:
        for r in range(3):
            if price[r] != 0.0:
                add_float(at.held + 3 * q + r, times * price[r], ctx)
                if fixed:
                    add_float(at.held_fixed + 3 * q + r, times * price[r], ctx)
        q = ctx.snapshot.queues.parent[q]


@inner
def count_bonds(c: int, n: int, sign: int, ctx: Context) -> None:
    """Count a pod of class ``c`` on node ``n`` for inter-pod terms and host ports; ``sign`` -1: no longer."""
    domain, bonds, at = ctx.snapshot.terms.domain, ctx.snapshot.bonds, ctx.state.at
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        role, row, weight = bonds.entry[entry, 0], bonds.entry[entry, 1], bonds.entry[entry, 2]
        if role == PORT:
            add_integer(at.ports + n * ctx.state.ports.shape[1] + row, sign, ctx)
        elif (role == MATCH or role == CARRY) and domain[row, n] != NULL:  # noqa: SIM109 -- cheaper to compile
            add_integer((at.matched if role == MATCH else at.carried) + domain[row, n], sign * weight, ctx)
