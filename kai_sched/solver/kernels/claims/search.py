"""Devices of slices for the claims of pods: whether a node has them, which of them a pod gets, and who has them
(semantics 8.6; ADR 14).

As with shares of GPUs (``kernels.devices``) there are two ledgers: what pods hold now, and what is held later, once
leaving pods have left, promised devices included. Devices are bound only if they are free in both.

``pick`` is a depth-first search: for each claim, request and device in turn it picks the first device that is free,
matches and keeps the constraints, and goes back where none is left. Options of a prioritised list are tried in their
order. Requests that stand for extended resources are needed on nodes that do not offer these. Devices that no request
tells apart fail alike, so one of them stands for all. Picks are booked through the undo
log, so that the next one sees them, and taken back in the end.

Cost: every round of every loop of a search is a step, and ``kernels.claims.steps`` says how many it may take; without
more of them it is *cut*.
Invariant: an allocation of a claim with several users, or that was there before its pod had a node, never changes in a
cycle. A claim of one pod moves with it; what the pod holds now stays booked.
"""

from __future__ import annotations

from kai_sched.snapshot.claim_tables import TAINTED
from kai_sched.snapshot.columns import NULL
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.devices import is_free, use_later, use_now
from kai_sched.solver.kernels.claims.steps import free_steps, more_steps, spend
from kai_sched.solver.kernels.devices import LATER, NEVER, NOW
from kai_sched.solver.kernels.undo import rollback
from kai_sched.solver.state import Context

# The most consumers of a claim, and the most devices of one, that the API server takes. The same numbers are in
# ``model.claims.objects``, which the solver may not import; a unit test compares them.
CONSUMERS_MAX = 256
RESULTS_MAX = 32


@inner
def has_claims(c: int, ctx: Context) -> bool:
    """Return whether pods of class ``c`` have claims for devices, by ``dra_requests.class_ptr`` (C + 1,)."""
    requests = ctx.snapshot.dra_requests
    return bool(requests.class_ptr[c] < requests.class_ptr[c + 1])


@inner
def survey_claims(c: int, n: int, ctx: Context) -> int:
    """Return when the claims of a pod of class ``c`` can all be allocated on node ``n``: a ``Room``.

    ``picks.length[1]`` (3,) is 1 afterwards if the search was cut, so that NEVER is not certain.
    """
    if not has_claims(c, ctx):
        return NOW
    if pick(c, n, True, True, ctx):
        return NOW
    return LATER if pick(c, n, False, True, ctx) else NEVER


@inner
def may_have_devices(c: int, n: int, ctx: Context) -> bool:
    """Return whether node ``n`` has enough devices that match for each request of class ``c``, whoever has them now.

    Claims that several pods use are passed over. Writes ``scratch.picks`` (W,); ``length[2]`` are the steps taken.
    """
    requests, picks, end = ctx.snapshot.dra_requests, ctx.scratch.picks, ctx.snapshot.dra_devices.ptr[n + 1]
    picks.length[2] = 0
    for entry in range(requests.class_ptr[c], requests.class_ptr[c + 1]):
        spec = requests.spec[entry]
        for q in range(requests.request_ptr[spec], requests.request_ptr[spec + 1]):
            if requests.claim[entry] != NULL or first_needed(q, q + 1, n, ctx) == NULL:
                continue
            found = False
            for o in range(requests.option_ptr[q], requests.option_ptr[q + 1]):
                if not found:
                    open_option(0, o, n, ctx)
                    found = picks.cursor[0] < end
            if not found:
                return False
    return True


@inner
def choose_claimed(c: int, n: int, ctx: Context) -> int:
    """Pick devices of node ``n`` for the claims of a pod of class ``c``, into ``scratch.picks`` (W,).

    Returns NOW if the pod can be bound with them, else LATER. The pod must fit the node later: a search has found that
    out, so this one, which is the same, is not cut before it is that long.
    """
    if pick(c, n, True, False, ctx):
        return NOW
    pick(c, n, False, False, ctx)
    return LATER


@inner
def is_allocated(i: int, ctx: Context) -> bool:
    """Return whether claim ``i`` keeps its allocation: users (I,) have it, now or later, and it does not move."""
    claims = ctx.state.claims
    return bool(claims.users_now[i] > 0 or claims.users_later[i] > 0)


@inner
def joins(i: int, n: int, now: bool, ctx: Context) -> bool:
    """Return whether a pod on node ``n`` can use the allocation that claim ``i`` has; books it where nobody stays.

    With ``now`` it must be there at present, not only promised. Writes through the undo log, which the caller rolls
    back: the uses (V,) of the devices of a claim that all its users are leaving.
    """
    table, claims = ctx.snapshot.dra_claims, ctx.state.claims
    if now and claims.users_now[i] == 0:
        return False
    first, end = table.slot_ptr[i], table.slot_ptr[i + 1]
    if table.nodes[i] != NULL and claims.users_now[i] > 0:
        if table.available[table.nodes[i], n] == 0:
            return False
    else:
        for y in range(first, end):
            if claims.device[y] != NULL and not is_usable_from(int(claims.device[y]), n, ctx):
                return False
    if claims.users_later[i] > 0:
        return True
    for y in range(first, end):
        if claims.device[y] == NULL:
            continue
        if not is_free(int(claims.device[y]), int(claims.option[y]), False, ctx):
            return False
        use_later(int(claims.device[y]), int(claims.option[y]), 1, ctx)
    return True


@inner
def is_usable_from(v: int, n: int, ctx: Context) -> bool:
    """Return whether pods on node ``n`` may use device ``v``: it is in its range of ``dra_devices.ptr`` (N + 1,)."""
    devices = ctx.snapshot.dra_devices
    for at in range(devices.ptr[n], devices.ptr[n + 1]):  # noqa: SIM110 -- numba compiles no generators
        if devices.entry[at] == v:
            return True
    return False


@inner
def pick(c: int, n: int, now: bool, asks: bool, ctx: Context) -> bool:
    """Pick devices of node ``n`` for all claims of a pod of class ``c``, into ``scratch.picks`` (W,); False: none.

    With ``now`` they are free at present, too. With ``asks`` the steps of the class may be all taken. The state is as
    before in the end.
    """
    requests, picks, log = ctx.snapshot.dra_requests, ctx.scratch.picks, ctx.log
    floats, integers = log.size[0], log.size[1]
    picks.length[0], picks.length[1], picks.length[2] = 0, 0, 0
    found = True
    for entry in range(requests.class_ptr[c], requests.class_ptr[c + 1]):
        i = requests.claim[entry]
        if i == NULL:
            continue
        found = found and ctx.snapshot.dra_claims.others[i] + ctx.state.claims.users_later[i] < CONSUMERS_MAX
        if found and is_allocated(i, ctx):
            found = joins(i, n, now, ctx)
    if found:
        free, more = free_steps(n, ctx), more_steps(c, asks, ctx)
        found = search(c, n, now, free + more, ctx)
        spend(c, int(picks.length[2]) - free, more, ctx)
    rollback(floats, integers, ctx)
    return found


@inner
def search(c: int, n: int, now: bool, most: int, ctx: Context) -> bool:
    """Pick devices for the claims that are not allocated, depth first; as ``pick``, whose caller takes them back.

    Writes ``scratch.picks`` (W,). Ends after ``most`` steps; each part of it adds its own to ``picks.length[2]``.
    """
    requests, picks = ctx.snapshot.dra_requests, ctx.scratch.picks
    entry, q = next_request(c, requests.class_ptr[c] - 1, 0, n, ctx)
    if entry == NULL:
        return True
    level = 0
    open_pick(level, entry, q, n, ctx)
    # Bound: each round takes a step, of ``most``.
    while True:
        v = next_candidate(level, n, now, most, ctx)
        picks.length[2] += 1
        if picks.length[2] > most:
            picks.length[1] = 1
            return False
        if v != NULL:
            picks.device[level], picks.mark[level] = v, ctx.log.size[1]
            use_later(v, int(picks.option[level]), 1, ctx)
            if now:
                use_now(v, int(picks.option[level]), 1, ctx)
            if picks.place[level] + 1 < picks.wanted[level]:
                continue_option(level, ctx)
                level += 1
                continue
            entry, q = next_request(c, int(picks.claim[level]), int(picks.request[level]) + 1, n, ctx)
            level += 1
            if entry == NULL:
                picks.length[0] = level
                return True
            open_pick(level, entry, q, n, ctx)
            continue
        # No candidate is left. The next option of a prioritised list is tried once the first device of this one fails.
        # Bound: each round goes down a level, of those that were gone up.
        while picks.place[level] > 0 or picks.option[level] + 1 >= requests.option_ptr[picks.request[level] + 1]:
            level -= 1
            if level < 0:
                return False
            rollback(ctx.log.size[0], int(picks.mark[level]), ctx)
            picks.failed[level] = picks.device[level]
            # All devices of the mode All are needed: another choice of one of them does not help.
            if requests.wanted[picks.option[level]] > 0:
                break
        else:
            open_option(level, int(picks.option[level]) + 1, n, ctx)


@inner
def next_request(c: int, entry: int, q: int, n: int, ctx: Context) -> tuple[int, int]:
    """Return the claim of class ``c`` and the request that come after; NULL where none does (``class_ptr`` (C + 1,)).

    ``entry`` is the claim so far and ``q`` the request to try next in it; one before the first claim starts at the
    first. Claims that are allocated are passed over, and requests that node ``n`` does not need.
    """
    requests = ctx.snapshot.dra_requests
    first, end = requests.class_ptr[c], requests.class_ptr[c + 1]
    if entry >= first:
        found = first_needed(q, int(requests.request_ptr[requests.spec[entry] + 1]), n, ctx)
        if found != NULL:
            return entry, found
    for after in range(entry + 1, end):
        ctx.scratch.picks.length[2] += 1
        i, spec = requests.claim[after], requests.spec[after]
        if i != NULL and is_allocated(i, ctx):
            continue
        found = first_needed(int(requests.request_ptr[spec]), int(requests.request_ptr[spec + 1]), n, ctx)
        if found != NULL:
            return after, found
    return NULL, NULL


@inner
def first_needed(q: int, end: int, n: int, ctx: Context) -> int:
    """Return the first request from ``q`` on that node ``n`` needs, NULL if there is none before ``end``.

    Reads ``needed``, a row (N,) for each extended resource.
    """
    requests, length = ctx.snapshot.dra_requests, ctx.scratch.picks.length
    for each in range(q, end):
        length[2] += 1
        if requests.needs[each] == NULL or requests.needed[requests.needs[each], n] == 1:
            return each
    return NULL


@inner
def open_pick(level: int, entry: int, q: int, n: int, ctx: Context) -> None:
    """Begin to pick devices for request ``q`` of claim ``entry`` at ``level`` of ``scratch.picks`` (W,)."""
    picks = ctx.scratch.picks
    picks.claim[level], picks.request[level], picks.place[level] = entry, q, 0
    open_option(level, int(ctx.snapshot.dra_requests.option_ptr[q]), n, ctx)


@inner
def open_option(level: int, o: int, n: int, ctx: Context) -> None:
    """Begin to pick devices for option ``o`` at ``level`` of ``scratch.picks`` (W,), from the first of node ``n``.

    Where the node has fewer devices that match than are wanted, none is a candidate; nor for the mode All where a taint
    of one that is meant is not tolerated.
    """
    picks, devices, requests = ctx.scratch.picks, ctx.snapshot.dra_devices, ctx.snapshot.dra_requests
    picks.option[level], picks.failed[level] = o, NULL
    picks.cursor[level] = devices.ptr[n]
    matching, tainted = 0, 0
    picks.length[2] += devices.ptr[n + 1] - devices.ptr[n] + level
    for at in range(devices.ptr[n], devices.ptr[n + 1]):
        match = requests.match[requests.matcher[o], devices.entry[at]]
        matching += match == 1
        tainted += match == TAINTED
    picks.wanted[level] = requests.wanted[o] if requests.wanted[o] > 0 else matching
    picked = picks.wanted[level]
    for other in range(level):
        picked += picks.claim[other] == picks.claim[level]
    too_many = picked > RESULTS_MAX or level + picks.wanted[level] >= picks.device.shape[0]
    barred = tainted > 0 and requests.wanted[o] == 0
    if matching < picks.wanted[level] or matching == 0 or too_many or barred:
        picks.cursor[level] = devices.ptr[n + 1]


@inner
def continue_option(level: int, ctx: Context) -> None:
    """Go on with the next device of the option at ``level`` of ``scratch.picks`` (W,), behind the one picked there."""
    picks = ctx.scratch.picks
    picks.claim[level + 1], picks.request[level + 1] = picks.claim[level], picks.request[level]
    picks.option[level + 1], picks.wanted[level + 1] = picks.option[level], picks.wanted[level]
    picks.place[level + 1], picks.cursor[level + 1] = picks.place[level] + 1, picks.cursor[level]
    picks.failed[level + 1] = NULL


@inner
def next_candidate(level: int, n: int, now: bool, most: int, ctx: Context) -> int:
    """Return the next device of node ``n`` for the pick at ``level``, or NULL; moves its cursor behind it (W,).

    Ends, too, once the search has taken ``most`` steps.
    """
    picks, devices, requests = ctx.scratch.picks, ctx.snapshot.dra_devices, ctx.snapshot.dra_requests
    o = int(picks.option[level])
    all_of_them, failed = requests.wanted[o] == 0, picks.failed[level]
    for at in range(picks.cursor[level], devices.ptr[n + 1]):
        v = int(devices.entry[at])
        picks.length[2] += 1
        if picks.length[2] > most:
            break
        if requests.match[requests.matcher[o], v] != 1:
            continue
        picks.cursor[level] = at + 1
        if failed != NULL and devices.alike[failed] == devices.alike[v]:
            continue
        if not is_picked(level, v, ctx) and is_free(v, o, now, ctx) and keeps_constraints(level, v, ctx):
            return v
        if all_of_them:
            break
    picks.cursor[level] = devices.ptr[n + 1]
    return NULL


@inner
def is_picked(level: int, v: int, ctx: Context) -> bool:
    """Return whether device ``v`` is picked below ``level`` for the same claim, of ``scratch.picks`` (W,)."""
    picks = ctx.scratch.picks
    picks.length[2] += level
    for other in range(level):  # noqa: SIM110 -- numba compiles no generators
        if picks.claim[other] == picks.claim[level] and picks.device[other] == v:
            return True
    return False


@inner
def keeps_constraints(level: int, v: int, ctx: Context) -> bool:
    """Return whether device ``v`` at ``level`` keeps the constraints of its claim with the devices picked below (W,).

    A device without the attribute of a constraint never does.
    """
    picks, requests = ctx.scratch.picks, ctx.snapshot.dra_requests
    o = picks.option[level]
    for at in range(requests.constraint_ptr[o], requests.constraint_ptr[o + 1]):
        g = requests.constraint[at]
        value = requests.value[requests.attribute[g], v]
        picks.length[2] += 1 + level
        if value == NULL:
            return False
        for other in range(level):
            if picks.claim[other] != picks.claim[level] or not holds_for(int(picks.option[other]), g, ctx):
                continue
            same = requests.value[requests.attribute[g], picks.device[other]] == value
            if same == (requests.distinct[g] == 1):
                return False
    return True


@inner
def holds_for(o: int, g: int, ctx: Context) -> bool:
    """Return whether constraint ``g`` holds for option ``o``, by ``dra_requests.constraint_ptr`` (O + 1,)."""
    requests = ctx.snapshot.dra_requests
    for at in range(requests.constraint_ptr[o], requests.constraint_ptr[o + 1]):
        ctx.scratch.picks.length[2] += 1
        if requests.constraint[at] == g:
            return True
    return False
