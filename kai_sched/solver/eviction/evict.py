"""What changes in the working state when a search evicts a pod, and when it places one, on its own node or another
(semantics 3.6).

An eviction in a search is not final: the task gets the status EVICTED, its room becomes releasing, its queues hold less
at once, and it may be placed again, on its own node or on another one. ``tasks.home`` and ``prior`` (T,) say where it
was and with which status. A task that is placed on its home again was never evicted, as far as the plan goes.

Cost: O(R + depth of the queue tree) for each task. Invariant: the working state changes only through the undo log, so
that undoing a simulation restores each bit.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, PODS, Floats, Status
from kai_sched.solver.eviction.home_claims import fits_home_claims, keep_home_claims, leave_claims, return_to_claims
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import choose_devices, is_chosen, keep_later, size_of, whole_later
from kai_sched.solver.kernels.fit import fits_later
from kai_sched.solver.kernels.numa import change_zones, choose_placement, has_zones
from kai_sched.solver.kernels.place import charge_task, count_leaving
from kai_sched.solver.kernels.undo import add_float, add_integer, set_float, set_integer, touch
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)
IS_EVICTED = int(Status.EVICTED)


@inner
def evict(j: int, t: int, times: int, ctx: Context, search: Search) -> None:
    """Evict active task ``t`` of job ``j`` in the simulation.

    Writes through the undo log: the status (T,), the counters of its set (S,), the releasing room of its node (N, R),
    and what its queue and all queues above hold (Q + 1, 3). Writes ``tasks.prior`` and ``tasks.home`` (T,) directly:
    they are read only as long as the task is evicted or placed again. ``state.task.node`` stays. For anti-affinity and
    host ports the pod counts as leaving (12.2), for affinity as before.

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
    leave_devices(t, n, ctx, search)
    leave_claims(t, ctx, search)
    if has_zones(t, ctx):
        leave_zones(t, n, ctx, search)
    if finder.dynamic[c] == 1:
        count_leaving(c, n, 1, ctx)
    change_releasing(n, 1.0, snapshot.classes.request[c], ctx)
    charge_task(j, t, n, -float(times), ctx)
    touch(finder.block, finder.stamp, n)


@inner
def leave_devices(t: int, n: int, ctx: Context, search: Search) -> None:
    """Let task ``t`` leave the devices that it shares on node ``n``, through the undo log, and note which they are.

    Writes ``search.home_device`` (X,) directly: it is read only as long as the task is evicted or placed again.
    """
    for entry in range(ctx.snapshot.tasks.share_ptr[t], ctx.snapshot.tasks.share_ptr[t + 1]):
        search.home_device[entry] = ctx.state.shares[entry]
    keep_later(t, n, -1, ctx)


@inner
def leave_zones(t: int, n: int, ctx: Context, search: Search) -> None:
    """Let task ``t`` give back what it holds of NUMA zones of node ``n``, through the undo log, and note what it was.

    Writes ``search.home_zones`` (H,) directly, as ``leave_devices``. What was only promised is free at once.
    """
    for entry in range(ctx.snapshot.numa.held_ptr[t], ctx.snapshot.numa.held_ptr[t + 1]):
        search.home_zones[entry] = ctx.state.zones.held[entry]
    change_zones(t, n, 1.0, search.tasks.prior[t] != IS_PIPELINED, ctx)


@inner
def return_to_zones(t: int, n: int, ctx: Context, search: Search) -> None:
    """Let evicted task ``t`` keep what it held of node ``n``, ``search.home_zones`` (H,), through the undo log."""
    for entry in range(ctx.snapshot.numa.held_ptr[t], ctx.snapshot.numa.held_ptr[t + 1]):
        if ctx.state.zones.held[entry] != search.home_zones[entry]:
            set_float(ctx.state.at.zone_held + entry, search.home_zones[entry], ctx)
    change_zones(t, n, -1.0, search.tasks.prior[t] != IS_PIPELINED, ctx)


@inner
def fits_home_zones(t: int, ctx: Context, search: Search) -> bool:
    """Return whether what evicted task ``t`` held of NUMA zones at home, ``search.home_zones`` (H,), is free later."""
    numa, free = ctx.snapshot.numa, ctx.state.zones.free
    first = numa.ptr[search.tasks.home[t]] * ctx.scratch.zones.need.shape[0]
    for place in range(numa.held_ptr[t + 1] - numa.held_ptr[t]):
        amount = search.home_zones[numa.held_ptr[t] + place]
        if amount > 0.0 and amount > free[first + place]:
            return False
    return True


@inner
def prefers_home_zones(t: int, ctx: Context, search: Search) -> bool:
    """Return whether evicted task ``t`` would get what it held of the NUMA zones of its node again (12.4).

    Compares ``search.home_zones`` (H,) with the choice. Overwrites ``scratch.zones``.
    """
    numa, draw = ctx.snapshot.numa, ctx.scratch.zones.draw
    choose_placement(ctx.snapshot.tasks.cls[t], search.tasks.home[t], True, ctx)
    for place in range(numa.held_ptr[t + 1] - numa.held_ptr[t]):
        if draw[place] != search.home_zones[numa.held_ptr[t] + place]:
            return False
    return True


@inner
def return_to_devices(t: int, n: int, ctx: Context, search: Search) -> None:
    """Let evicted task ``t`` stay on its devices on node ``n``, ``search.home_device`` (X,), through the undo log."""
    for entry in range(ctx.snapshot.tasks.share_ptr[t], ctx.snapshot.tasks.share_ptr[t + 1]):
        set_integer(ctx.state.at.shares + entry, search.home_device[entry], ctx)
    keep_later(t, n, 1, ctx)


@inner
def keep_home_devices(t: int, save: bool, ctx: Context, search: Search) -> None:
    """Save the home devices of task ``t``, ``search.home_device`` (X,), in ``scratch.devices``, or restore them.

    Those of its claims (Y,) are saved in ``scratch.picks``, and what it held of NUMA zones in ``scratch.zones``.
    """
    keep_home_claims(t, save, ctx, search)
    for entry in range(ctx.snapshot.numa.held_ptr[t], ctx.snapshot.numa.held_ptr[t + 1]):
        if save:
            ctx.scratch.zones.saved[entry] = search.home_zones[entry]
        else:
            search.home_zones[entry] = ctx.scratch.zones.saved[entry]
    first = ctx.snapshot.tasks.share_ptr[t]
    for entry in range(ctx.snapshot.tasks.share_ptr[t + 1] - first):
        if save:
            ctx.scratch.devices[entry] = search.home_device[first + entry]
        else:
            search.home_device[first + entry] = ctx.scratch.devices[entry]


@inner
def fits_at_home(t: int, ctx: Context, search: Search) -> bool:
    """Return whether task ``t`` fits its node ``search.tasks.home`` (T,) later, on the devices that it had there.

    Terms and ports are left out.
    """
    return has_room_at_home(t, ctx, search) and fits_home_claims(t, ctx, search)


@inner
def has_room_at_home(t: int, ctx: Context, search: Search) -> bool:
    """Return whether task ``t`` fits its node ``search.tasks.home`` (T,) later, but for the devices of its claims.

    Reads ``state.idle`` and ``releasing`` (N, R), ``devices.later`` (G,) and ``zones.free``.
    """
    snapshot, state, home = ctx.snapshot, ctx.state, search.tasks.home[t]
    c = snapshot.tasks.cls[t]
    request = snapshot.classes.request[c]
    if home == NULL or not fits_later(request, state.idle[home], state.releasing[home]):
        return False
    if has_zones(t, ctx) and not fits_home_zones(t, ctx, search):
        return False
    if snapshot.devices.reserved.shape[0] == 0:
        return True
    first, end = snapshot.tasks.share_ptr[t], snapshot.tasks.share_ptr[t + 1]
    if first == end:
        return bool(request[GPU] <= whole_later(home, ctx))
    size, memory = size_of(c, home, ctx), snapshot.nodes.device_memory[home]
    whole, slots = 0, 1
    for entry in range(first, end):
        d = search.home_device[entry]
        if d == NULL or state.devices.later[d] + size > memory:
            return False
        whole += state.devices.later[d] == 0
        slots += state.devices.later[d] == 0 and snapshot.devices.reserved[d] == 0
    if slots > state.idle[home, PODS] + state.releasing[home, PODS]:
        return False
    return bool(whole == 0 or whole <= whole_later(home, ctx))


@inner
def prefers_home_devices(t: int, ctx: Context, search: Search) -> bool:
    """Return whether evicted task ``t`` would get the devices again that it shared on its node (8.4).

    Compares ``search.home_device`` (X,) with the choice. Overwrites ``scratch.devices``. Of devices that nobody uses
    one is as good as another.
    """
    home = search.tasks.home[t]
    if not fits_at_home(t, ctx, search):
        return False
    later, first = ctx.state.devices.later, ctx.snapshot.tasks.share_ptr[t]
    count = ctx.snapshot.tasks.share_ptr[t + 1] - first
    choose_devices(ctx.snapshot.tasks.cls[t], home, ctx)
    unused = 0
    for entry in range(count):
        unused += later[ctx.scratch.devices[entry]] == 0
    for entry in range(first, first + count):
        d = search.home_device[entry]
        if later[d] > 0 and not is_chosen(d, count, ctx):
            return False
        unused -= later[d] == 0
    return bool(unused == 0)


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
def return_home(j: int, t: int, ctx: Context, search: Search) -> None:
    """Take the eviction of task ``t`` back: it has its node ``search.tasks.home`` (T,) and its old status again.

    Writes through the undo log all that ``evict`` writes.
    """
    snapshot, at, finder = ctx.snapshot, ctx.state.at, ctx.finder
    n, status = search.tasks.home[t], search.tasks.prior[t]
    s, c = snapshot.tasks.set[t], snapshot.tasks.cls[t]
    set_integer(at.status + t, status, ctx)
    add_integer(at.active + s, 1, ctx)
    add_integer(at.pending + s, -1, ctx)
    if status == IS_PIPELINED:
        add_integer(at.waiting + s, 1, ctx)
    return_to_devices(t, n, ctx, search)
    return_to_claims(t, ctx, search)
    if has_zones(t, ctx):
        return_to_zones(t, n, ctx, search)
    if finder.dynamic[c] == 1:
        count_leaving(c, n, -1, ctx)
    change_releasing(n, -1.0, snapshot.classes.request[c], ctx)
    charge_task(j, t, n, 1.0, ctx)
    touch(finder.block, finder.stamp, n)
