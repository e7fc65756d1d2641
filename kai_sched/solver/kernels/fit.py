"""Whether one pod's request fits the room of a node: now, or once leaving pods have left (semantics 0.3).

``has_room`` and ``has_room_now`` ask for a class on a node, devices that pods share included; the others compare rows.
Cost: one comparison for each of R resources, and a step for each device that may be shared. Nothing is written. Rows
compare all resources, not only those that are requested: a negative amount (an overcommitted node) refuses every pod,
as 0 > -1; a resource that the node does not have is 0 and refuses only pods that request it.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import GPU, Floats
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.claims.search import has_claims, survey_claims
from kai_sched.solver.kernels.devices import NEVER, NOW, survey_devices
from kai_sched.solver.kernels.numa import asks_for_zones, survey_zones
from kai_sched.solver.state import Context


@kernel
def fits_now(request: Floats, idle: Floats) -> bool:
    """Return whether ``request`` (R,) is at most ``idle`` (R,) in every entry: the pod can be bound (0.3)."""
    for r in range(request.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r]:
            return False
    return True


@inner
def fits_later(request: Floats, idle: Floats, releasing: Floats) -> bool:
    """Return whether ``request`` (R,) is at most ``idle + releasing`` (R,) in every entry: room to wait for (0.3)."""
    for r in range(request.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r] + releasing[r]:
            return False
    return True


@inner
def rows_fit_now(c: int, n: int, ctx: Context) -> bool:
    """Return whether a pod of class ``c`` fits ``state.idle[n]`` (R,), but for shares of GPUs, which devices decide."""
    request, idle = ctx.snapshot.classes.request[c], ctx.state.idle[n]
    shares = ctx.snapshot.classes.shares[c]
    for r in range(request.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r] and not (r == GPU and shares > 0):
            return False
    return True


@inner
def rows_decide(c: int, ctx: Context) -> bool:
    """Return whether rows (N, R) say all about the room for class ``c``.

    So it is where no pod shares a GPU, and the class has no claims and is not aligned to NUMA zones.
    """
    return ctx.snapshot.devices.reserved.shape[0] == 0 and not has_claims(c, ctx) and not asks_for_zones(c, ctx)


@inner
def survey_room(c: int, n: int, ctx: Context) -> tuple[int, bool]:
    """Return when a pod of class ``c`` has room on node ``n`` by devices, claims and NUMA zones, rows aside.

    Returns
    -------
    room : int, a ``Room``
    joins : bool, whether it may join the users of some device
    """
    room, joins = NOW, False
    if ctx.snapshot.devices.reserved.shape[0] > 0:
        room, joins = survey_devices(c, n, ctx)
    if room != NEVER and has_claims(c, ctx):
        room = min(room, survey_claims(c, n, ctx))
    if room != NEVER and asks_for_zones(c, ctx):
        room = min(room, survey_zones(c, n, ctx))
    return room, joins


@inner
def has_room_now(c: int, n: int, ctx: Context) -> bool:
    """Return whether a pod of class ``c`` fits node ``n`` now (0.3): ``state.idle`` (N, R), and its devices."""
    if not rows_fit_now(c, n, ctx):
        return False
    if rows_decide(c, ctx):
        return True
    room, _ = survey_room(c, n, ctx)
    return room == NOW


@inner
def has_room(c: int, n: int, ctx: Context) -> bool:
    """Return whether a pod of class ``c`` fits node ``n`` once leaving pods have left (0.3).

    Reads ``state.idle`` and ``state.releasing`` (N, R), and the devices of the node.
    """
    if not fits_later(ctx.snapshot.classes.request[c], ctx.state.idle[n], ctx.state.releasing[n]):
        return False
    if rows_decide(c, ctx):
        return True
    room, _ = survey_room(c, n, ctx)
    return room != NEVER
