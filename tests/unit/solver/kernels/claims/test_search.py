"""Devices for claims: the books, against counts that are made anew from who has what."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.claims import objects as model_claims
from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction import home_claims as claimed_home
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels.claims import holders as claimed
from kai_sched.solver.kernels.claims import search as claims
from kai_sched.solver.kernels.devices import Room
from kai_sched.solver.kernels.undo import rollback as rollback_kernel
from kai_sched.solver.state import Context
from tests.unit.solver.claimed import cluster_of

choose, survey = entry(claims.choose_claimed), entry(claims.survey_claims)
take, hold, are_free = entry(claimed.take_claimed), entry(claimed.hold_claimed), entry(claimed.are_claimed_free)
save, pick_saved = entry(claimed.save_claimed), entry(claimed.pick_saved)
leave, stay = entry(claimed_home.leave_claims), entry(claimed_home.return_to_claims)
fits_home, rollback = entry(claimed_home.fits_home_claims), entry(rollback_kernel)


def test_limits_are_those_of_the_model() -> None:
    """The solver may not import the model, so it has its own copies."""
    assert claims.CONSUMERS_MAX == model_claims.CONSUMERS_MAX
    assert claims.RESULTS_MAX == model_claims.RESULTS_MAX


def counted(ctx: Context) -> list[dict[int, int]]:
    """Uses of devices, capacities and counters, now and later, by the slots of claims with users."""
    table, state, devices = ctx.snapshot.dra_claims, ctx.state.claims, ctx.snapshot.dra_devices
    found: list[dict[int, int]] = []
    for users in (state.users_now, state.users_later):
        uses: Counter[int] = Counter()
        used: Counter[int] = Counter()
        totals: Counter[int] = Counter()
        for i in np.flatnonzero(users > 0):
            for y in range(table.slot_ptr[i], table.slot_ptr[i + 1]):
                v, o = int(state.device[y]), int(state.option[y])
                if v == NULL:
                    continue
                uses[v] += 1
                for d in range(devices.limit_ptr[v], devices.limit_ptr[v + 1]):
                    used[d] += int(ctx.snapshot.dra_requests.consumed[ctx.snapshot.dra_requests.consumer[o], d])
        for v in uses:
            for at in range(devices.counter_ptr[v], devices.counter_ptr[v + 1]):
                totals[int(devices.counter[at])] += int(devices.amount[at])
        found += [dict(uses), dict(used), dict(totals)]
    return found


def booked(ctx: Context) -> list[dict[int, int]]:
    state = ctx.state.claims
    columns = (state.uses_now, state.used_now, state.counted_now, state.uses_later, state.used_later)
    return [{at: int(value) for at, value in enumerate(column) if value} for column in (*columns, state.counted_later)]


PODS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=2), min_size=2, max_size=6)


@given(PODS, st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["put", "wait", "leave", "return"])), max_size=12))
def test_books_are_those_counted_anew(pods: list[list[int]], steps: list[tuple[int, str]]) -> None:
    ctx, search = cluster_of(pods)
    before = ctx.state.integers.copy()
    placed: dict[int, str] = {}
    left: set[int] = set()
    for t, what in steps:
        if t >= len(pods):
            continue
        c = int(ctx.snapshot.tasks.cls[t])
        room = survey(c, 0, ctx)
        if what in ("put", "wait") and t not in placed and t not in left and room != Room.NEVER:
            waits = choose(c, 0, ctx) == Room.LATER or what == "wait"
            take(t, waits, ctx)
            placed[t] = "waits" if waits else "bound"
        elif what == "leave" and placed.get(t) == "waits":
            leave(t, ctx, search)
            left.add(t)
            del placed[t]
        elif what == "return" and t in left and fits_home(t, ctx, search):
            stay(t, ctx, search)
            left.discard(t)
            placed[t] = "waits"
        assert booked(ctx) == counted(ctx)
        assert (ctx.state.claims.counted_later <= ctx.snapshot.dra_devices.total).all()
        assert (ctx.state.claims.used_later <= ctx.snapshot.dra_devices.limit).all()
    for t, how in placed.items():
        if how == "waits" and are_free(t, ctx):
            hold(t, 1, ctx)
            assert booked(ctx) == counted(ctx)
            hold(t, -1, ctx)
        assert booked(ctx) == counted(ctx)
    rollback(0, 0, ctx)
    assert (ctx.state.integers == before).all()


@given(PODS)
def test_saved_devices_are_picked_again(pods: list[list[int]]) -> None:
    ctx, _ = cluster_of(pods)
    if survey(int(ctx.snapshot.tasks.cls[0]), 0, ctx) == Room.NEVER:
        return
    choose(int(ctx.snapshot.tasks.cls[0]), 0, ctx)
    take(0, False, ctx)
    had = ctx.state.claims.device.copy()
    save(0, ctx)
    rollback(0, 0, ctx)
    pick_saved(0, ctx)
    take(0, True, ctx)
    assert (ctx.state.claims.device == had).all()
