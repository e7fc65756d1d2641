"""Whether an evicted pod can have the devices of its claims again that it had, and what changes if it does
(semantics 8.6, 3.6).

As ``evict`` does for shares of GPUs, an eviction notes the devices in ``search.home_claimed`` and ``home_option`` (Y,):
they are read only as long as the task is evicted or placed again. All else goes through the undo log.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claimed import leave_claimed, set_slot, use_slots
from kai_sched.solver.kernels.claims import is_free_at, use_later
from kai_sched.solver.kernels.undo import add_integer, rollback
from kai_sched.solver.state import Context


@inner
def leave_claims(t: int, ctx: Context, search: Search) -> None:
    """Let task ``t`` leave its claims, and note which devices (Y,) they have."""
    claims, state = ctx.snapshot.dra_claims, ctx.state.claims
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        for y in range(claims.slot_ptr[claims.claim[k]], claims.slot_ptr[claims.claim[k] + 1]):
            search.home_claimed[y], search.home_option[y] = state.device[y], state.option[y]
    leave_claimed(t, ctx)


@inner
def return_to_claims(t: int, ctx: Context, search: Search) -> None:
    """Let evicted task ``t`` use the devices again that it had, ``search.home_claimed`` (Y,)."""
    claims, state = ctx.snapshot.dra_claims, ctx.state.claims
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        if state.users_later[i] == 0:
            for y in range(claims.slot_ptr[i], claims.slot_ptr[i + 1]):
                set_slot(y, int(search.home_claimed[y]), int(search.home_option[y]), ctx)
            use_slots(i, 1, False, ctx)
        add_integer(ctx.state.at.users_later + i, 1, ctx)


@inner
def fits_home_claims(t: int, ctx: Context, search: Search) -> bool:
    """Return whether the devices that evicted task ``t`` had, ``search.home_claimed`` (Y,), are free for it later.

    A claim that others use must have the same devices still. The undo log is as before in the end.
    """
    claims, state, log = ctx.snapshot.dra_claims, ctx.state.claims, ctx.log
    floats, integers, fits = log.size[0], log.size[1], True
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        for y in range(claims.slot_ptr[i], claims.slot_ptr[i + 1]):
            v, o = int(search.home_claimed[y]), int(search.home_option[y])
            if state.users_later[i] > 0:
                fits = fits and state.device[y] == v
            elif fits and v != NULL:
                fits = is_free_at(v, o, False, ctx)
                use_later(v, o, 1, ctx)
    rollback(floats, integers, ctx)
    return fits


@inner
def keep_home_claims(t: int, save: bool, ctx: Context, search: Search) -> None:
    """Save the home devices of the claims of task ``t``, (Y,), in ``scratch.picks``, or restore them."""
    claims, picks = ctx.snapshot.dra_claims, ctx.scratch.picks
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        for y in range(claims.slot_ptr[claims.claim[k]], claims.slot_ptr[claims.claim[k] + 1]):
            if save:
                picks.saved_device[y], picks.saved_option[y] = search.home_claimed[y], search.home_option[y]
            else:
                search.home_claimed[y], search.home_option[y] = picks.saved_device[y], picks.saved_option[y]
