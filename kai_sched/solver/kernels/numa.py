"""NUMA zones: whether and when the zones of a node can hold a pod under the policy of its kubelet, and what the pod
takes of which zone (semantics 12.4).

The ledger has two amounts for each zone and resource: ``zones.free``, what is left once leaving pods have left, and
``zones.leaving``, what these hold until then. A pod that is to be bound must fit what is free without the latter. What
each task holds of its node is in ``zones.held``. All these columns go by zone, then by resource: of B resources, what
is of resource b and zone z is at ``z * B + b``. Shapes: L entries for all zones, Z for those of the node with the most,
which are M zones, and H as ``NumaZones.held``.

Cost: for each request of a class the zones of the node times B resources, under the policy restricted times the
combinations of zones that have to be tried; ``model.numa`` bounds the zones of a node and the requests of a pod.
Invariant: all writes to the ledger go through the undo log. The chosen placement is in ``scratch.zones.draw``
until the next choice.
"""

from __future__ import annotations

from kai_sched.snapshot.choices import ZonePolicy
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Longs, Status
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import LATER, NEVER, NOW
from kai_sched.solver.kernels.undo import add_float, set_float
from kai_sched.solver.state import Context

NONE = int(ZonePolicy.NONE)
RESTRICTED = int(ZonePolicy.RESTRICTED)
SINGLE = int(ZonePolicy.SINGLE)
IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)


@inner
def asks_for_zones(c: int, ctx: Context) -> bool:
    """Return whether pods of class ``c`` are aligned, by ``numa_requests.ptr`` (C + 1,)."""
    return bool(ctx.snapshot.numa_requests.ptr[c + 1] > ctx.snapshot.numa_requests.ptr[c])


@inner
def has_zones(t: int, ctx: Context) -> bool:
    """Return whether task ``t`` may hold something of NUMA zones, by ``numa.held_ptr`` (T + 1,)."""
    return bool(ctx.snapshot.numa.held_ptr[t + 1] > ctx.snapshot.numa.held_ptr[t])


@inner
def survey_zones(c: int, n: int, ctx: Context) -> int:
    """Return when the zones of node ``n`` can hold a pod of class ``c``, a ``Room``; a node may not care: NOW.

    Overwrites ``scratch.zones``; reads ``numa.policy`` (N,).
    """
    if ctx.snapshot.numa.policy[n] < RESTRICTED or choose_zones(c, n, True, ctx) > 0:
        return NOW
    return LATER if choose_zones(c, n, False, ctx) > 0 else NEVER


@inner
def zone_points(c: int, n: int, ctx: Context) -> float:
    """Return the points of node ``n`` for class ``c``, which asks for zones: fewer the more zones it would span (9).

    Overwrites ``scratch.zones`` (Z,).
    """
    numa, zones = ctx.snapshot.numa, numa_count(n, ctx)
    if zones == 0:
        return float(ctx.settings.numa_points / ctx.scratch.zones.chosen.shape[0])
    if numa.policy[n] == NONE or not is_concerned(c, n, ctx):
        return ctx.settings.numa_points / zones
    span = choose_zones(c, n, True, ctx)
    if span == 0:
        span = choose_zones(c, n, False, ctx)
    return ctx.settings.numa_points / span if span > 0 else 0.0


@inner
def numa_count(n: int, ctx: Context) -> int:
    """Return how many zones node ``n`` has, by ``numa.ptr`` (N + 1,)."""
    return int(ctx.snapshot.numa.ptr[n + 1] - ctx.snapshot.numa.ptr[n])


@inner
def is_concerned(c: int, n: int, ctx: Context) -> bool:
    """Return whether node ``n`` aligns pods of class ``c``: guaranteed ones, or one of a device of its zones.

    Reads ``numa.aware`` (N, B).
    """
    requests = ctx.snapshot.numa_requests
    if requests.guaranteed[c] == 1:
        return True
    u = requests.ptr[c]
    for entry in range(requests.entry_ptr[u], requests.entry_ptr[u + 1]):
        if ctx.snapshot.numa.aware[n, requests.resource[entry]] == 1:
            return True
    return False


@inner
def choose_placement(c: int, n: int, wait: bool, ctx: Context) -> int:
    """Choose what a pod of class ``c`` takes of the zones of node ``n``, into ``scratch.zones.draw`` (Z,).

    Where it does not fit, and the node takes it all the same, it takes nothing.

    Returns
    -------
    room : int, a ``Room``: LATER if it has to ``wait``, or if leaving pods hold what it takes; else NOW
    """
    ctx.scratch.zones.draw[:] = 0.0
    if not asks_for_zones(c, ctx) or ctx.snapshot.numa.policy[n] == NONE:
        return LATER if wait else NOW
    wait = wait or (ctx.snapshot.numa.policy[n] >= RESTRICTED and choose_zones(c, n, True, ctx) == 0)
    if choose_zones(c, n, not wait, ctx) == 0:
        ctx.scratch.zones.draw[:] = 0.0
    return LATER if wait else NOW


@inner
def choose_zones(c: int, n: int, now: bool, ctx: Context) -> int:
    """Return how many zones of node ``n`` a pod of class ``c`` spans; 0: they cannot hold it.

    What its containers take is in ``scratch.zones.draw`` (Z,) if they can. ``now``: what leaving pods hold does not
    count as free. Reads ``state.zones``, (L,) each.
    """
    numa, requests, scratch = ctx.snapshot.numa, ctx.snapshot.numa_requests, ctx.scratch.zones
    base, zones, draw = numa.ptr[n], numa_count(n, ctx), scratch.draw
    n_columns = scratch.need.shape[0]
    for place in range(zones * n_columns):
        free = ctx.state.zones.free[base * n_columns + place]
        scratch.left[place] = max(0.0, free - ctx.state.zones.leaving[base * n_columns + place] if now else free)
    draw[:] = 0.0
    first, end = requests.ptr[c], requests.ptr[c + 1]
    if numa.pod_scope[n] == 1:
        end = first + 1
    else:
        first += 1
    for u in range(first, end):
        scratch.need[:] = 0.0
        for entry in range(requests.entry_ptr[u], requests.entry_ptr[u + 1]):
            b = requests.resource[entry]
            scratch.need[b] = requests.amount[entry] if numa.aware[n, b] == 1 else 0.0
        chosen = fit_request(numa.policy[n], zones, numa.allocatable[base : base + zones], ctx)
        if chosen == NULL:
            return 0
        # Those that run alone come first, so what is left is what there was before.
        if requests.alone[u] == 0:
            take_from(chosen, ctx)
    return max(1, zones_drawn(zones, scratch.need.shape[0], draw))


@inner
def zones_drawn(zones: int, n_columns: int, draw: Floats) -> int:
    """Return of how many of the first ``zones`` zones something is taken: ``draw`` (Z,)."""
    span = 0
    for z in range(zones):
        taken = False
        for place in range(z * n_columns, (z + 1) * n_columns):
            taken = taken or draw[place] > 0.0
        span += taken
    return span


@inner
def take_from(chosen: int, ctx: Context) -> None:
    """Take ``need`` (B,) from the first ``chosen`` zones of ``chosen`` (M,), in their order, as much of each as it has.

    All are columns of ``scratch.zones``; changes ``left`` and ``draw`` (Z,) in place.
    """
    scratch = ctx.scratch.zones
    for b in range(scratch.need.shape[0]):
        rest = scratch.need[b]
        for entry in range(chosen):
            place = scratch.chosen[entry] * scratch.need.shape[0] + b
            amount = min(rest, scratch.left[place])
            scratch.left[place] -= amount
            scratch.draw[place] += amount
            rest -= amount


@inner
def fit_request(policy: int, zones: int, allocatable: Floats, ctx: Context) -> int:
    """Choose the zones for the request ``scratch.zones.need`` (B,), of what ``left`` (Z,) has.

    Parameters
    ----------
    policy : a ``ZonePolicy``, not NONE
    zones : how many zones the node has; ``allocatable`` (zones, B) is what pods can have of each

    Returns
    -------
    int : how many zones are chosen, the first entries of ``scratch.zones.chosen`` (M,); NULL: they cannot hold it
    """
    scratch = ctx.scratch.zones
    if policy == SINGLE:
        return fit_single(zones, scratch.need, scratch.left, scratch.chosen)
    if policy == RESTRICTED:
        wanted = least_zones(zones, scratch.need, allocatable, scratch.used)
        return fit_restricted(zones, wanted, scratch.need, scratch.left, scratch.chosen)
    return fit_best_effort(zones, scratch.need, scratch.left, scratch.rest, (scratch.chosen, scratch.used))


@inner
def fit_single(zones: int, need: Floats, left: Floats, chosen: Longs) -> int:
    """Choose the first of ``zones`` zones that has enough of everything: ``need`` (B,) of ``left`` (Z,).

    Writes ``chosen`` (M,); returns 1, or NULL if none has.
    """
    for z in range(zones):
        enough = True
        for b in range(need.shape[0]):
            enough = enough and need[b] <= left[z * need.shape[0] + b]
        if enough:
            chosen[0] = z
            return 1
    return NULL


@inner
def least_zones(zones: int, need: Floats, allocatable: Floats, used: Longs) -> int:
    """Return the least number of zones that could hold ``need`` (B,), if nobody held anything; 0 for no need.

    For each resource the zones with the largest ``allocatable`` (zones, B) are counted. NULL: all zones together are
    too small for one, or two resources take different numbers. Overwrites ``used`` (M,).
    """
    wanted = 0
    for b in range(need.shape[0]):
        if need[b] <= 0.0:
            continue
        used[:] = 0
        count, total = 0, 0.0
        while total < need[b] and count < zones:  # Bound: the zones.
            largest = NULL
            for z in range(zones):
                if used[z] == 0 and (largest == NULL or allocatable[z, b] > allocatable[largest, b]):
                    largest = z
            used[largest] = 1
            total += allocatable[largest, b]
            count += 1
        if total < need[b] or (wanted != 0 and wanted != count):
            return NULL
        wanted = count
    return wanted


@inner
def fit_restricted(zones: int, wanted: int, need: Floats, left: Floats, chosen: Longs) -> int:
    """Choose the first combination of ``wanted`` zones that has enough together: ``need`` (B,) of ``left`` (Z,).

    Combinations go by their lowest zone, then by the next one. Writes ``chosen`` (M,); returns ``wanted``, or NULL if
    none has enough, or ``wanted`` is NULL.
    """
    if wanted == NULL:
        return NULL
    for entry in range(wanted):
        chosen[entry] = entry
    while True:  # Bound: the combinations of the zones of a node.
        enough = True
        for b in range(need.shape[0]):
            total = 0.0
            for entry in range(wanted):
                total += left[chosen[entry] * need.shape[0] + b]
            enough = enough and need[b] <= total
        if enough:
            return wanted
        moved = wanted - 1
        while moved >= 0 and chosen[moved] == zones - wanted + moved:  # Bound: ``moved`` falls.
            moved -= 1
        if moved < 0:
            return NULL
        chosen[moved] += 1
        for entry in range(moved + 1, wanted):
            chosen[entry] = chosen[entry - 1] + 1


@inner
def fit_best_effort(zones: int, need: Floats, left: Floats, rest: Floats, found: tuple[Longs, Longs]) -> int:
    """Choose zone after zone, each the one that covers most of what is left of ``need`` (B,) with ``left`` (Z,).

    How much a zone covers is the sum of the parts of each resource; the lower zone wins a tie. Overwrites ``rest`` (B,)
    and the two columns of ``found`` (M,), the chosen zones and marks. Returns how many zones; NULL: all together have
    too little.
    """
    chosen, used = found
    used[:] = 0
    for b in range(need.shape[0]):
        rest[b] = need[b]
    for count in range(zones + 1):
        best, most, lacks = NULL, 0.0, False
        for z in range(zones):
            covered = 0.0
            for b in range(need.shape[0]):
                if rest[b] > 0.0:
                    covered += min(rest[b], left[z * need.shape[0] + b]) / rest[b]
            if used[z] == 0 and covered > most:
                best, most = z, covered
        for b in range(need.shape[0]):
            lacks = lacks or rest[b] > 0.0
        if not lacks:
            return count
        if best == NULL:
            return NULL
        for b in range(need.shape[0]):
            rest[b] -= min(rest[b], left[best * need.shape[0] + b])
        used[best], chosen[count] = 1, best
    return NULL


@inner
def take_zones(t: int, n: int, ctx: Context) -> None:
    """Let task ``t`` hold what ``scratch.zones.draw`` (Z,) says of the zones of node ``n``, through the undo log.

    Writes ``state.zones.held`` (H,) and ``free`` (L,).
    """
    numa, draw, at = ctx.snapshot.numa, ctx.scratch.zones.draw, ctx.state.at
    for place in range(numa.held_ptr[t + 1] - numa.held_ptr[t]):
        if ctx.state.zones.held[numa.held_ptr[t] + place] != draw[place]:
            set_float(at.zone_held + numa.held_ptr[t] + place, draw[place], ctx)
        if draw[place] != 0.0:
            add_float(at.zone_free + numa.ptr[n] * ctx.scratch.zones.need.shape[0] + place, -draw[place], ctx)


@inner
def change_zones(t: int, n: int, sign: float, leaves: bool, ctx: Context) -> None:
    """Let task ``t`` give back what it holds of zones of node ``n`` (``sign`` 1), or keep it after all (-1).

    With ``leaves`` it holds that until it has left. Writes ``state.zones``, (L,) each, through the undo log.
    """
    numa, n_columns, at = ctx.snapshot.numa, ctx.scratch.zones.need.shape[0], ctx.state.at
    for place in range(numa.held_ptr[t + 1] - numa.held_ptr[t]):
        amount = ctx.state.zones.held[numa.held_ptr[t] + place]
        if amount != 0.0:
            row = numa.ptr[n] * n_columns + place
            add_float(at.zone_free + row, sign * amount, ctx)
            if leaves:
                add_float(at.zone_leaving + row, sign * amount, ctx)


@inner
def waits_for_zones(t: int, ctx: Context) -> bool:
    """Return whether leaving pods still hold something of what task ``t`` has of its zones (H,).

    That is, of the same resource of the same zone, also where both would fit.
    """
    numa, zones = ctx.snapshot.numa, ctx.state.zones
    first = numa.ptr[ctx.state.task.node[t]] * ctx.scratch.zones.need.shape[0]
    for place in range(numa.held_ptr[t + 1] - numa.held_ptr[t]):
        if zones.held[numa.held_ptr[t] + place] > 0.0 and zones.leaving[first + place] > 0.0:
            return True
    return False


@inner
def keep_draw(t: int, save: bool, ctx: Context) -> None:
    """Save what task ``t`` holds of zones in ``scratch.zones.saved`` (H,), or make it the chosen placement again."""
    numa, scratch = ctx.snapshot.numa, ctx.scratch.zones
    for place in range(numa.held_ptr[t + 1] - numa.held_ptr[t]):
        row = numa.held_ptr[t] + place
        if save:
            scratch.saved[row] = ctx.state.zones.held[row]
        else:
            scratch.draw[place] = scratch.saved[row]


@inner
def open_zones(ctx: Context) -> None:
    """Fill ``state.zones`` at the start of a cycle: what is free, and what leaving pods hold (L,)."""
    numa, zones, tasks = ctx.snapshot.numa, ctx.state.zones, ctx.snapshot.tasks
    for row in range(numa.free.shape[0]):
        for b in range(numa.free.shape[1]):
            zones.free[row * numa.free.shape[1] + b] = numa.free[row, b]
    for entry in range(numa.held.shape[0]):
        zones.held[entry] = numa.held[entry]
    if numa.held.shape[0] == 0:
        return
    for t in range(tasks.job.shape[0]):
        if tasks.status[t] == IS_RELEASING:
            note_leaving(t, ctx)


@inner
def recount_zones(ctx: Context) -> None:
    """Count anew what leaving pods hold of zones, for good: ``state.zones.leaving`` (L,), after all decisions.

    A pod may have been bound in this cycle and then evicted, so that it never ran. A pod that moves leaves, too.
    """
    tasks, leaving = ctx.snapshot.tasks, ctx.state.zones.leaving
    if ctx.snapshot.numa.held.shape[0] == 0:
        return
    leaving[:] = 0.0
    for t in range(tasks.job.shape[0]):
        status = tasks.status[t]
        if status == IS_RELEASING or (status >= IS_PIPELINED and ctx.state.task.status[t] != status):
            note_leaving(t, ctx)


@inner
def note_leaving(t: int, ctx: Context) -> None:
    """Add what task ``t`` held of zones at the start to what leaving pods hold, ``leaving`` (L,), directly."""
    numa, n, leaving = ctx.snapshot.numa, ctx.snapshot.tasks.node[t], ctx.state.zones.leaving
    for place in range(numa.held_ptr[t + 1] - numa.held_ptr[t]):
        # Behind the zones of the node are the zeros of larger ones.
        if n != NULL and numa.held[numa.held_ptr[t] + place] > 0.0:
            leaving[numa.ptr[n] * ctx.scratch.zones.need.shape[0] + place] += numa.held[numa.held_ptr[t] + place]
