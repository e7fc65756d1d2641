"""Whether an evicted pod can have the devices of its claims again that it had, and what changes if it does
(semantics 8.6, 3.6).

As ``evict`` does for shares of GPUs, an eviction notes the devices in ``search.home_claimed`` and ``home_option`` (Y,):
they are read only as long as the task is evicted or placed again. All else goes through the undo log.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.devices import is_free_at, use_later
from kai_sched.solver.kernels.claims.holders import count_user, leave_claimed, set_slot, take_claimed, use_slots
from kai_sched.solver.kernels.claims.search import pick
from kai_sched.solver.kernels.undo import rollback
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)


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
        count_user(i, 1, ctx)


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
def free_home_claims(t: int, ctx: Context, search: Search) -> bool:
    """Make the devices that evicted task ``t`` had, ``search.home_claimed`` (Y,), free for it later.

    Pipelined tasks on its node that were given some of them get others, if there are any: no pod has to leave just
    because its very device was given to another one. Writes ``state.claims`` through the undo log; on False it is as
    before. Cost: two passes over T tasks for each device that was given away.
    """
    claims, state, log = ctx.snapshot.dra_claims, ctx.state.claims, ctx.log
    home, floats, integers = search.tasks.home[t], log.size[0], log.size[1]
    are_free, n_without = True, 0  # tasks that were left without devices
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        for y in range(claims.slot_ptr[i], claims.slot_ptr[i + 1]):
            v, o = int(search.home_claimed[y]), int(search.home_option[y])
            if not are_free or v == NULL:
                continue
            if state.users_later[i] == 0 and not is_free_at(v, o, False, ctx):
                n_without += free_device(v, home, ctx)
            are_free = state.users_later[i] == 0 and is_free_at(v, o, False, ctx)
            use_later(v, o, 1, ctx)
    are_free = are_free and (n_without == 0 or give_others(home, ctx))
    if not are_free:
        rollback(floats, integers, ctx)
        return False
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        for y in range(claims.slot_ptr[claims.claim[k]], claims.slot_ptr[claims.claim[k] + 1]):
            if search.home_claimed[y] != NULL:
                use_later(int(search.home_claimed[y]), int(search.home_option[y]), -1, ctx)
    return True


@inner
def free_device(v: int, n: int, ctx: Context) -> int:
    """Let the pipelined task on node ``n`` that was given device ``v`` leave its claims for now (I,); 0: there is none.

    A device that several claims may use stays with them, and so does one of a claim with several users.
    """
    claims, state, tasks = ctx.snapshot.dra_claims, ctx.state.claims, ctx.state.task
    if ctx.snapshot.dra_devices.shared[v] == 1:
        return 0
    for p in range(tasks.node.shape[0]):
        if tasks.node[p] != n or tasks.status[p] != IS_PIPELINED:
            continue
        for k in range(claims.task_ptr[p], claims.task_ptr[p + 1]):
            i = claims.claim[k]
            for y in range(claims.slot_ptr[i], claims.slot_ptr[i + 1]):
                if state.device[y] == v and state.users_later[i] == 1:
                    leave_claimed(p, ctx)
                    return 1
    return 0


@inner
def give_others(n: int, ctx: Context) -> bool:
    """Give the tasks on node ``n`` from which ``free_device`` took devices others (Y,); False: there are too few."""
    claims, state, tasks = ctx.snapshot.dra_claims, ctx.state.claims, ctx.state.task
    for p in range(tasks.node.shape[0]):
        if tasks.node[p] != n or tasks.status[p] != IS_PIPELINED:
            continue
        left = False
        for k in range(claims.task_ptr[p], claims.task_ptr[p + 1]):
            left = left or state.users_later[claims.claim[k]] == 0
        if left:
            if not pick(ctx.snapshot.tasks.cls[p], n, False, True, ctx):
                return False
            take_claimed(p, True, ctx)
    return True


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
