"""Taking a task off its node in a search, and letting it come home (semantics 3.6)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Status
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import put
from kai_sched.solver.kernels.place import charge
from kai_sched.solver.kernels.undo import add_float, add_integer, set_integer, touch
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)
IS_EVICTED = int(Status.EVICTED)


@inner
def evict(j: int, t: int, times: int, ctx: Context, search: Search) -> None:
    """Take an active task out: its room is being left, its queues no longer pay, and it may be placed again.

    Its queues are paid back as many ``times`` as it is named.
    It stays where it is for inter-pod affinity and host ports.
    """
    snapshot, at, finder = ctx.snapshot, ctx.state.at, ctx.finder
    s, c, n = snapshot.tasks.set[t], snapshot.tasks.cls[t], ctx.state.task.node[t]
    status = ctx.state.task.status[t]
    search.tasks.prior[t], search.tasks.home[t] = status, n
    set_integer(at.status + t, IS_EVICTED, ctx)
    add_integer(at.active + s, -1, ctx)
    add_integer(at.pending + s, 1, ctx)
    if status == IS_PIPELINED:
        add_integer(at.waiting + s, -1, ctx)
    move_cursor(t, ctx)
    if n == NULL:
        return
    leave(n, 1.0, snapshot.classes.request[c], ctx)
    fixed = snapshot.jobs.preemptible[j] == 0
    charge(snapshot.jobs.queue[j], snapshot.classes.quota[c], -float(times), fixed, ctx)
    touch(finder.block, finder.stamp, n)


@inner
def move_cursor(t: int, ctx: Context) -> None:
    """Task ``t`` may be asked for again: let the cursor of its set be before it."""
    s = ctx.snapshot.tasks.set[t]
    place_in_set = t - ctx.snapshot.sets.task_ptr[s]
    if place_in_set < ctx.state.sets.cursor[s]:
        set_integer(ctx.state.at.cursor + s, place_in_set, ctx)


@inner
def leave(n: int, sign: float, request: Floats, ctx: Context) -> None:
    """Add what a leaving pod holds to what comes back on node ``n``; ``sign`` -1: it stays after all."""
    base = ctx.state.at.releasing + n * request.shape[0]
    for r in range(request.shape[0]):
        if request[r] != 0.0 and ctx.snapshot.nodes.allocatable[n, r] > 0.0:
            add_float(base + r, sign * request[r], ctx)


@inner
def place_in_search(j: int, t: int, n: int, ctx: Context, search: Search) -> None:
    """Place a pending or evicted task on node ``n`` in a search: it waits there, or, at home, was never evicted.

    In node-local scenarios the node that a pod left in an earlier search counts as home, too, as it still knows it:
    there its eviction is taken back, which leaves it the place that it was promised, free or not (3.6).
    """
    snapshot, at, finder = ctx.snapshot, ctx.state.at, ctx.finder
    known = search.tasks.home[t] == n or (search.counts.local[0] == 1 and search.tasks.left_node[t] == n + 1)
    if ctx.state.task.status[t] != IS_EVICTED or not known:
        put(j, t, n, True, ctx)
        return
    n, status = search.tasks.home[t], search.tasks.prior[t]
    s, c = snapshot.tasks.set[t], snapshot.tasks.cls[t]
    set_integer(at.status + t, status, ctx)
    add_integer(at.active + s, 1, ctx)
    add_integer(at.pending + s, -1, ctx)
    if status == IS_PIPELINED:
        add_integer(at.waiting + s, 1, ctx)
    leave(n, -1.0, snapshot.classes.request[c], ctx)
    charge(snapshot.jobs.queue[j], snapshot.classes.quota[c], 1.0, snapshot.jobs.preemptible[j] == 0, ctx)
    touch(finder.block, finder.stamp, n)
