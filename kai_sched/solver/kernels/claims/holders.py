"""What changes in the books of devices of slices when a pod with claims gets a node, leaves it, or stays after all
(semantics 8.6).

``kernels.claims`` says which devices these are. All writes go through the undo log. ``state.claims`` has for each claim
its users now and later (I,) and its devices by slot (Y,); devices are used by claims, not by pods, so the first user of
a claim books them and the last one gives them back.

Cost: a step for each slot of the claims of the task, times the capacities and counters of a device.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.devices import is_free_at, use_later, use_now
from kai_sched.solver.kernels.claims.search import CONSUMERS_MAX, is_allocated
from kai_sched.solver.kernels.undo import add_integer, rollback, set_integer, touch_all
from kai_sched.solver.state import Context


@inner
def take_claimed(t: int, wait: bool, ctx: Context) -> None:
    """Give task ``t`` the devices in ``scratch.picks`` (W,) for its claims, and those that they have.

    With ``wait`` they are promised, and nothing is held at present. Writes ``state.claims``.
    """
    claims, requests, picks = ctx.snapshot.dra_claims, ctx.snapshot.dra_requests, ctx.scratch.picks
    at, entry, p = ctx.state.at, requests.class_ptr[ctx.snapshot.tasks.cls[t]], 0
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        if requests.claim[entry] == NULL or not is_allocated(i, ctx):
            y = claims.slot_ptr[i]
            while p < picks.length[0] and picks.claim[p] == entry:  # Bound: ``p`` grows.
                set_slot(y, int(picks.device[p]), int(picks.option[p]), ctx)
                y, p = y + 1, p + 1
            for rest in range(y, claims.slot_ptr[i + 1]):
                set_slot(rest, NULL, NULL, ctx)
            use_slots(i, 1, False, ctx)
            if not wait:
                use_slots(i, 1, True, ctx)
        elif ctx.state.claims.users_later[i] == 0:
            use_slots(i, 1, False, ctx)
        count_user(i, 1, ctx)
        if not wait:
            add_integer(at.users_now + i, 1, ctx)
        entry += 1


@inner
def set_slot(y: int, v: int, o: int, ctx: Context) -> None:
    """Let slot ``y`` (Y,) of a claim have device ``v`` for option ``o``, through the undo log; NULL: none."""
    if ctx.state.claims.device[y] != v:
        set_integer(ctx.state.at.claim_device + y, v, ctx)
    if ctx.state.claims.option[y] != o:
        set_integer(ctx.state.at.claim_option + y, o, ctx)


@inner
def use_slots(i: int, sign: int, now: bool, ctx: Context) -> None:
    """Count the uses of the devices (Y,) of claim ``i`` in one ledger, ``now`` or later, by the undo log.

    That is when the claim becomes allocated or is no longer, which its other pods see on all nodes.
    """
    claims, slot_ptr = ctx.state.claims, ctx.snapshot.dra_claims.slot_ptr
    elsewhere = ctx.snapshot.dra_claims.shared[i] == 1
    for y in range(slot_ptr[i], slot_ptr[i + 1]):
        if claims.device[y] == NULL:
            continue
        elsewhere = elsewhere or ctx.snapshot.dra_devices.wide[claims.device[y]] == 1
        if now:
            use_now(int(claims.device[y]), int(claims.option[y]), sign, ctx)
        else:
            use_later(int(claims.device[y]), int(claims.option[y]), sign, ctx)
    if elsewhere:
        note_elsewhere(ctx)


@inner
def count_user(i: int, sign: int, ctx: Context) -> None:
    """Count one user more (``sign`` 1) or less (-1) of claim ``i`` later, ``users_later`` (I,), by the undo log."""
    add_integer(ctx.state.at.users_later + i, sign, ctx)
    users = ctx.snapshot.dra_claims.others[i] + ctx.state.claims.users_later[i]
    if users == (CONSUMERS_MAX if sign > 0 else CONSUMERS_MAX - 1):
        note_elsewhere(ctx)


@inner
def note_elsewhere(ctx: Context) -> None:
    """Note that claims or devices of several nodes changed: classes with claims are searched for anew.

    The mark ``claims.elsewhere`` goes through the undo log, so that a rollback notes it as well.
    """
    set_integer(ctx.state.at.elsewhere, 1, ctx)
    touch_all(ctx.finder.block)


@inner
def leave_claimed(t: int, ctx: Context) -> None:
    """Let task ``t`` leave its claims: later it uses them no longer; the last user (I,) gives their devices back.

    Until the pod is gone it holds them, so that nothing changes at present.
    """
    claims = ctx.snapshot.dra_claims
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        count_user(i, -1, ctx)
        if ctx.state.claims.users_later[i] == 0:
            use_slots(i, -1, False, ctx)


@inner
def hold_claimed(t: int, sign: int, ctx: Context) -> None:
    """Let task ``t`` hold the devices that it was promised at present (``sign`` 1), or wait for them (-1).

    Only what is used now changes, ``users_now`` (I,) and the uses of devices (V,), through the undo log.
    """
    claims = ctx.snapshot.dra_claims
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        before = ctx.state.claims.users_now[i]
        add_integer(ctx.state.at.users_now + i, sign, ctx)
        if before == 0 or before + sign == 0:
            use_slots(i, sign, True, ctx)


@inner
def are_claimed_free(t: int, ctx: Context) -> bool:
    """Return whether the devices (V,) that pipelined task ``t`` was promised are all free at present.

    The undo log is as before in the end.
    """
    claims, state, log = ctx.snapshot.dra_claims, ctx.state.claims, ctx.log
    floats, integers, free = log.size[0], log.size[1], True
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        if state.users_now[i] > 0:
            continue
        for y in range(claims.slot_ptr[i], claims.slot_ptr[i + 1]):
            if free and state.device[y] != NULL:
                free = is_free_at(int(state.device[y]), int(state.option[y]), True, ctx)
                use_now(int(state.device[y]), int(state.option[y]), 1, ctx)
    rollback(floats, integers, ctx)
    return free


@inner
def save_claimed(t: int, ctx: Context) -> None:
    """Keep the devices of the claims of task ``t`` in ``scratch.picks.saved_device`` and ``saved_option``, (Y,)."""
    claims, state, picks = ctx.snapshot.dra_claims, ctx.state.claims, ctx.scratch.picks
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        for y in range(claims.slot_ptr[claims.claim[k]], claims.slot_ptr[claims.claim[k] + 1]):
            picks.saved_device[y], picks.saved_option[y] = state.device[y], state.option[y]


@inner
def pick_saved(t: int, ctx: Context) -> None:
    """Pick the devices (W,) that ``save_claimed`` kept for the claims of task ``t``, as ``claims.pick`` would."""
    claims, requests, picks = ctx.snapshot.dra_claims, ctx.snapshot.dra_requests, ctx.scratch.picks
    entry, p = requests.class_ptr[ctx.snapshot.tasks.cls[t]], 0
    for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
        i = claims.claim[k]
        if requests.claim[entry] == NULL or not is_allocated(i, ctx):
            for y in range(claims.slot_ptr[i], claims.slot_ptr[i + 1]):
                if picks.saved_device[y] != NULL:
                    picks.claim[p], picks.device[p], picks.option[p] = (
                        entry,
                        picks.saved_device[y],
                        picks.saved_option[y],
                    )
                    p += 1
        entry += 1
    picks.length[0] = p
