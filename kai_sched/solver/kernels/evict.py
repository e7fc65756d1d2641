"""Taking a task off its node in a search, and letting it come home (semantics 3.6)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Ints, Longs, Snapshot, Status
from kai_sched.solver.hunt import HOME, LEFT_NODE, LOCAL, PRIOR, Prey
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import put
from kai_sched.solver.kernels.place import charge
from kai_sched.solver.kernels.undo import set_float, set_integer, touch
from kai_sched.solver.state import (
    ACTIVE,
    AT_BOOK,
    AT_RELEASING,
    AT_SETS,
    AT_TASK,
    BOOK_WIDTH,
    CURSOR,
    HELD,
    HELD_FIXED,
    NODE,
    PENDING,
    STATUS,
    WAITING,
    Finder,
    Log,
    State,
)

IS_PIPELINED = int(Status.PIPELINED)
IS_EVICTED = int(Status.EVICTED)


@inner
def refund(
    q: int, times: float, price: Floats, fixed: bool, parent: Ints, floats: Floats, offset: Longs, log: Log
) -> None:
    """Take ``price`` (3,) so many ``times`` off what the queue and all above hold; the inverse of ``place.charge``."""
    while q != NULL:
        base = offset[AT_BOOK] + BOOK_WIDTH * q
        for r in range(3):
            if price[r] != 0.0:
                at = base + HELD + r
                set_float(log, floats, at, floats[at] - times * price[r])
                if fixed:
                    at = base + HELD_FIXED + r
                    set_float(log, floats, at, floats[at] - times * price[r])
        q = parent[q]


@inner
def evict(j: int, t: int, times: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey) -> None:
    """Take an active task out: its room is being left, its queues no longer pay, and it may be placed again.

    Its queues are paid back as many ``times`` as it is named.
    It stays where it is for inter-pod affinity and host ports.
    """
    jobs, s, n = snapshot.jobs, snapshot.tasks.set[t], state.task[t, NODE]
    c = snapshot.tasks.cls[t]
    status = state.task[t, STATUS]
    prey.task[t, PRIOR] = status
    prey.task[t, HOME] = n
    integers, offset = state.integers, state.offset
    set_integer(log, integers, offset[AT_TASK] + 2 * t + STATUS, IS_EVICTED)
    at = offset[AT_SETS] + 4 * s
    set_integer(log, integers, at + ACTIVE, integers[at + ACTIVE] - 1)
    set_integer(log, integers, at + PENDING, integers[at + PENDING] + 1)
    if status == IS_PIPELINED:
        set_integer(log, integers, at + WAITING, integers[at + WAITING] - 1)
    place_in_set = t - snapshot.sets.task_ptr[s]
    if place_in_set < integers[at + CURSOR]:
        set_integer(log, integers, at + CURSOR, place_in_set)
    if n == NULL:
        return
    leave(n, 1.0, snapshot.classes.request[c], snapshot.nodes.allocatable[n], state, log)
    price = snapshot.classes.quota[c]
    fixed, parent = jobs.preemptible[j] == 0, snapshot.queues.parent
    refund(jobs.queue[j], float(times), price, fixed, parent, state.floats, state.offset, log)
    touch(finder.block, finder.stamp, n)


@inner
def leave(n: int, sign: float, request: Floats, allocatable: Floats, state: State, log: Log) -> None:
    """Add what a leaving pod holds to what comes back on node ``n``; ``sign`` -1: it stays after all."""
    base = state.offset[AT_RELEASING] + n * request.shape[0]
    for r in range(request.shape[0]):
        if request[r] != 0.0 and allocatable[r] > 0.0:
            set_float(log, state.floats, base + r, state.floats[base + r] + sign * request[r])


@inner
def lay(j: int, t: int, n: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey) -> None:
    """Place a pending or evicted task on node ``n`` in a search: it waits there, or, at home, was never evicted.

    In node-local scenarios the node that a pod left in an earlier search counts as home, too, as it still knows it:
    there its eviction is taken back, which leaves it the place that it was promised, free or not (3.6).
    """
    known = prey.task[t, HOME] == n or (prey.counts[LOCAL] == 1 and prey.task[t, LEFT_NODE] == n + 1)
    if state.task[t, STATUS] != IS_EVICTED or not known:
        put(j, t, n, True, snapshot, state, log, finder)
        return
    n = prey.task[t, HOME]
    jobs, s, c = snapshot.jobs, snapshot.tasks.set[t], snapshot.tasks.cls[t]
    status = prey.task[t, PRIOR]
    integers, offset = state.integers, state.offset
    set_integer(log, integers, offset[AT_TASK] + 2 * t + STATUS, status)
    at = offset[AT_SETS] + 4 * s
    set_integer(log, integers, at + ACTIVE, integers[at + ACTIVE] + 1)
    set_integer(log, integers, at + PENDING, integers[at + PENDING] - 1)
    if status == IS_PIPELINED:
        set_integer(log, integers, at + WAITING, integers[at + WAITING] + 1)
    leave(n, -1.0, snapshot.classes.request[c], snapshot.nodes.allocatable[n], state, log)
    charge(
        jobs.queue[j],
        snapshot.classes.quota[c],
        jobs.preemptible[j] == 0,
        snapshot.queues.parent,
        state.floats,
        state.offset,
        log,
    )
    touch(finder.block, finder.stamp, n)
