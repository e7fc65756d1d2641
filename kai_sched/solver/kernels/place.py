"""Putting a task on a node and taking all consequences into the books (semantics 0.3, 2.2, 3.6)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Bond, Bonds, Floats, Ints, Longs, Status
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.undo import set_float, set_integer
from kai_sched.solver.state import (
    ACTIVE,
    AT_BOOK,
    AT_DOMAINS,
    AT_IDLE,
    AT_PORTS,
    AT_RELEASING,
    AT_SETS,
    AT_TASK,
    BOOK_WIDTH,
    CARRIED,
    HELD,
    HELD_FIXED,
    MATCHED,
    NODE,
    PENDING,
    STATUS,
    WAITING,
    Log,
)

IS_ALLOCATED = int(Status.ALLOCATED)
IS_PIPELINED = int(Status.PIPELINED)
CARRY = int(Bond.CARRY)
MATCH = int(Bond.MATCH)
PORT = int(Bond.PORT)


@kernel
def place(
    t: int, s: int, n: int, wait: bool, request: Floats, floats: Floats, integers: Longs, offset: Longs, log: Log
) -> None:
    """Put pending task ``t`` of pod set ``s`` on node ``n``: bound, or, with ``wait``, pipelined on room being left.

    ``request`` is (R,). The queues are charged apart (``charge``), and the finder is told by the caller
    (``undo.touch``).
    """
    n_resources = request.shape[0]
    base = offset[AT_RELEASING if wait else AT_IDLE] + n * n_resources
    for r in range(n_resources):
        if request[r] != 0.0:
            set_float(log, floats, base + r, floats[base + r] - request[r])
    at = offset[AT_TASK] + 2 * t
    set_integer(log, integers, at + STATUS, IS_PIPELINED if wait else IS_ALLOCATED)
    set_integer(log, integers, at + NODE, n)
    at = offset[AT_SETS] + 4 * s
    set_integer(log, integers, at + PENDING, integers[at + PENDING] - 1)
    set_integer(log, integers, at + ACTIVE, integers[at + ACTIVE] + 1)
    if wait:
        set_integer(log, integers, at + WAITING, integers[at + WAITING] + 1)


@inner
def charge(q: int, price: Floats, fixed: bool, parent: Ints, floats: Floats, offset: Longs, log: Log) -> None:
    """Add ``price`` (3,) to what the queue and all above hold; ``fixed``: also to what non-preemptible jobs hold."""
    while q != NULL:
        base = offset[AT_BOOK] + BOOK_WIDTH * q
        for r in range(3):
            if price[r] != 0.0:
                at = base + HELD + r
                set_float(log, floats, at, floats[at] + price[r])
                if fixed:
                    at = base + HELD_FIXED + r
                    set_float(log, floats, at, floats[at] + price[r])
        q = parent[q]


@inner
def count_bonds(
    c: int, n: int, sign: int, domain: Ints, bonds: Bonds, n_ports: int, integers: Longs, offset: Longs, log: Log
) -> None:
    """Count a pod of class ``c`` on node ``n`` for inter-pod terms and host ports; ``sign`` -1: no longer."""
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        role, row, weight = bonds.entry[entry, 0], bonds.entry[entry, 1], bonds.entry[entry, 2]
        if role == PORT:
            at = offset[AT_PORTS] + n * n_ports + row
            set_integer(log, integers, at, integers[at] + sign)
        elif (role == MATCH or role == CARRY) and domain[row, n] != NULL:  # noqa: SIM109 -- cheaper to compile
            at = offset[AT_DOMAINS] + 2 * domain[row, n] + (MATCHED if role == MATCH else CARRIED)
            set_integer(log, integers, at, integers[at] + sign * weight)
