"""One device of a slice: whether it is free for an option of a request, and the books of what uses it (semantics 8.6).

As with shares of GPUs (``kernels.devices``) there are two ledgers: what pods hold now, and what is held later, once
leaving pods have left, promised devices included. ``kernels.claims`` searches devices with these books.

Cost: a step for each capacity and counter of the device, which the search counts. Writes go through the undo log.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.undo import add_integer, set_integer
from kai_sched.solver.state import Context


@inner
def is_free(v: int, o: int, now: bool, ctx: Context) -> bool:
    """Return whether device ``v`` is free for option ``o`` later and, with ``now``, at present, too.

    Reads the uses (V,), capacities (E,) and counters (U,) of ``state.claims``.
    """
    return is_free_at(v, o, False, ctx) and (not now or is_free_at(v, o, True, ctx))


@inner
def is_free_at(v: int, o: int, now: bool, ctx: Context) -> bool:
    """Return whether device ``v`` is free for option ``o`` at present (``now``) or later, as ``is_free`` (V,).

    With admin access any device has.
    """
    devices, requests, claims = ctx.snapshot.dra_devices, ctx.snapshot.dra_requests, ctx.state.claims
    ctx.scratch.picks.length[2] += devices.limit_ptr[v + 1] - devices.limit_ptr[v]
    ctx.scratch.picks.length[2] += devices.counter_ptr[v + 1] - devices.counter_ptr[v]
    if requests.admin[o] == 1:
        return True
    uses = claims.uses_now[v] if now else claims.uses_later[v]
    if devices.shared[v] == 0 and uses > 0:
        return False
    if devices.shared[v] == 1:
        for d in range(devices.limit_ptr[v], devices.limit_ptr[v + 1]):
            used = claims.used_now[d] if now else claims.used_later[d]
            if used + requests.consumed[requests.consumer[o], d] > devices.limit[d]:
                return False
    # A device that is in use has taken its part of the counters.
    if uses == 0:
        for at in range(devices.counter_ptr[v], devices.counter_ptr[v + 1]):
            u = devices.counter[at]
            counted = claims.counted_now[u] if now else claims.counted_later[u]
            if counted + devices.amount[at] > devices.total[u]:
                return False
    return True


@inner
def use_later(v: int, o: int, sign: int, ctx: Context) -> None:
    """Count a use of device ``v`` for option ``o`` later, or (``sign`` -1) no longer, through the undo log.

    Writes ``uses_later`` (V,), ``used_later`` (E,) and ``counted_later`` (U,) of ``state.claims``.
    """
    count_use(v, o, sign, False, ctx)


@inner
def use_now(v: int, o: int, sign: int, ctx: Context) -> None:
    """Count a use of device ``v`` for option ``o`` at present, as ``use_later`` (V,)."""
    count_use(v, o, sign, True, ctx)


@inner
def count_use(v: int, o: int, sign: int, now: bool, ctx: Context) -> None:
    """Count a use of device ``v`` for option ``o`` in one ledger, through the undo log: (V,), (E,) and (U,)."""
    devices, requests, at = ctx.snapshot.dra_devices, ctx.snapshot.dra_requests, ctx.state.at
    if requests.admin[o] == 1:
        return
    uses = (at.uses_now if now else at.uses_later) + v
    before = ctx.state.integers[uses]
    set_integer(uses, before + sign, ctx)
    if devices.shared[v] == 1 and requests.consumer[o] != NULL:
        for d in range(devices.limit_ptr[v], devices.limit_ptr[v + 1]):
            amount = requests.consumed[requests.consumer[o], d]
            add_integer((at.used_now if now else at.used_later) + d, sign * amount, ctx)
    if (before == 0) != (before + sign == 0):
        for entry in range(devices.counter_ptr[v], devices.counter_ptr[v + 1]):
            u = devices.counter[entry]
            add_integer((at.counted_now if now else at.counted_later) + u, sign * devices.amount[entry], ctx)
