"""Take a task off its node in a search, and let it return to its node (semantics 3.6).

An eviction in a search is not final: the task gets the status EVICTED, its room becomes releasing, its queues hold less
at once, and it may be placed again, on its own node or on another one. ``tasks.home`` and ``prior`` (T,) say where it
was and with which status. A task that is placed on its home again was never evicted, as far as the plan goes.

Cost: O(R + depth of the queue tree) for each task. Invariant: the working state changes only through the undo log, so
that undoing a simulation restores each bit.
"""

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
    """Evict active task ``t`` of job ``j`` in the simulation.

    Writes through the undo log: the status (T,), the counters of its set (S,), the releasing room of its node (N, R),
    and what its queue and all queues above hold (Q + 1, 3). Writes ``tasks.prior`` and ``tasks.home`` (T,) directly:
    they are read only as long as the task is evicted or placed again. ``state.task.node`` stays, and so do the counts
    of inter-pod terms and host ports: until the pod is gone, it is in the way (3.6).

    Parameters
    ----------
    times : int
        How often the scenario names the task. Its queues are paid back that often (4.5); 1 in the minimal search.
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
    change_releasing(n, 1.0, snapshot.classes.request[c], ctx)
    fixed = snapshot.jobs.preemptible[j] == 0
    charge(snapshot.jobs.queue[j], snapshot.classes.quota[c], -float(times), fixed, ctx)
    touch(finder.block, finder.stamp, n)


@inner
def move_cursor(t: int, ctx: Context) -> None:
    """Let the cursor of the set of task ``t`` be at most at the task, through the undo log (``sets.cursor`` (S,)).

    Before the cursor no task is pending (``gang.take_pending``). The evicted task counts as pending from now on.
    """
    s = ctx.snapshot.tasks.set[t]
    place_in_set = t - ctx.snapshot.sets.task_ptr[s]
    if place_in_set < ctx.state.sets.cursor[s]:
        set_integer(ctx.state.at.cursor + s, place_in_set, ctx)


@inner
def change_releasing(n: int, sign: float, request: Floats, ctx: Context) -> None:
    """Add what a leaving pod requests to the releasing room of node ``n`` (N, R), through the undo log.

    Only resources that are tracked on the node count (semantics 0.3).

    Parameters
    ----------
    sign : float
        1: the pod leaves. -1: it stays after all.
    request : Floats, (R,)
        What the pod requests.
    """
    base = ctx.state.at.releasing + n * request.shape[0]
    for r in range(request.shape[0]):
        if request[r] != 0.0 and ctx.snapshot.nodes.allocatable[n, r] > 0.0:
            add_float(base + r, sign * request[r], ctx)


@inner
def place_in_search(j: int, t: int, n: int, ctx: Context, search: Search) -> None:
    """Place a pending or evicted task on node ``n``: it is pipelined there or, on its home, its eviction is taken back.

    Writes through the undo log all that ``evict`` or ``attempt.put`` writes, among them the room (N, R). A task that
    returns has its old status again, so that a running pod goes on running.

    With node-local scenarios, the node that a pod left in an earlier search of this cycle counts as home, too
    (``tasks.left_node`` (T,)). On it the eviction is taken back as well: the pod keeps the place that it was promised,
    free or not (3.6). At the end of the cycle ``stages.settle`` takes back a promise for which there is no room.

    Parameters
    ----------
    j, t, n : int
        The job, its task, and the node that was chosen for it.
    """
    snapshot, at, finder = ctx.snapshot, ctx.state.at, ctx.finder
    known = search.tasks.home[t] == n or (search.counts.local[0] == 1 and search.tasks.left_node[t] == n + 1)
    if ctx.state.task.status[t] != IS_EVICTED or not known:
        put(j, t, n, True, ctx)
        return
    # Not the node that was asked for but the home: in the node-local case above the two differ.
    n, status = search.tasks.home[t], search.tasks.prior[t]
    s, c = snapshot.tasks.set[t], snapshot.tasks.cls[t]
    set_integer(at.status + t, status, ctx)
    add_integer(at.active + s, 1, ctx)
    add_integer(at.pending + s, -1, ctx)
    if status == IS_PIPELINED:
        add_integer(at.waiting + s, 1, ctx)
    change_releasing(n, -1.0, snapshot.classes.request[c], ctx)
    charge(snapshot.jobs.queue[j], snapshot.classes.quota[c], 1.0, snapshot.jobs.preemptible[j] == 0, ctx)
    touch(finder.block, finder.stamp, n)
