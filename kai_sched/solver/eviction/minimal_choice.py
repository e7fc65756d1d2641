"""Which chunks of victims make room for a preemptor: for each task the node that costs least to clear (minimal search).

Victims come in the order of ``accumulate``, the least deserving first. A node costs the last of them that it needs, so
that nobody goes as long as somebody less deserving would do; where all are moved, it costs the number of pods.
"""

from __future__ import annotations

import enum

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Bond, Snapshot, Verdict
from kai_sched.solver.eviction.minimal_simulation import chunk_end, pipeline_task, terms_allow
from kai_sched.solver.eviction.minimal_taking import (
    BLOCK,
    abandon,
    choose_for_limits,
    choose_with_dependents,
    forget_cost,
    queue_of,
    unbar,
)
from kai_sched.solver.eviction.tables import MOST_KINDS, Preemptor, Search
from kai_sched.solver.eviction.validate import may_lose_more
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.fit import fits_later
from kai_sched.solver.kernels.score import nobody_matches
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context, Log

OK = int(Verdict.OK)
NOT_OFFERED = int(Verdict.NO_ROOM)
NEED = int(Bond.NEED)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
NEVER = 2**62  # a node that cannot be cleared


class ClearResult(enum.IntEnum):
    """Whether the victims on a node make room for a task there."""

    CLEARED = 0
    NOT_CLEARED = 1
    REFUSED = 2  # not without victims that shares keep


CLEARED = int(ClearResult.CLEARED)
NOT_CLEARED = int(ClearResult.NOT_CLEARED)
REFUSED = int(ClearResult.REFUSED)


@inner
def choose(n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Choose chunks (the list CHOSEN) that make room for the first ``k`` pending tasks; False: none do.

    The nodes are noted in ``search.place``; where one task finds none, those like it choose first the next time. Nodes
    to be cleared are the ``n_hosts`` of ``search.hosts`` or, where that is 0, all with potential victims. With
    ``moves`` victims that may not leave for good are given other places.
    """
    k = preemptor.n_tasks
    for entry in range(k):
        search.pending[entry] = search.pending_in_order[entry]
    for _ in range(MOST_KINDS):
        failed = choose_in_turn(n_hosts, preemptor, ctx, search)
        undo_all(ctx)
        if failed == k:
            return True
        if failed == NULL or not bring_forward(failed, k, ctx.snapshot, search):
            break
    return False


@inner
def bring_forward(failed: int, k: int, snapshot: Snapshot, search: Search) -> bool:
    """Let the pending tasks like that at place ``failed``, which found no node, choose first; False: they did."""
    pending, cls = search.pending, snapshot.tasks.cls
    c = cls[pending[failed]]
    if cls[pending[0]] == c:
        return False
    front = 0
    for entry in range(k):
        t = pending[entry]
        if cls[t] != c:
            continue
        for at in range(entry, front, -1):
            pending[at] = pending[at - 1]
        pending[front] = t
        front += 1
    return True


@inner
def choose_in_turn(n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Choose for one task of the preemptor after the other; returns which one finds no node, or ``k`` where each does.

    NULL where limits or quotas forbid all of it.
    """
    k = preemptor.n_tasks
    snapshot = ctx.snapshot
    begin_choice(ctx.log, search)
    if not choose_for_limits(preemptor, ctx, search):
        return NULL
    c = NULL
    for entry in range(k):
        t = int(search.pending[entry])
        if snapshot.tasks.cls[t] != c:
            c = int(snapshot.tasks.cls[t])
            search.counts.choice_clock[0] += 1
        n = best_node(t, ctx)
        if n == NULL:
            n = clear_some_node(t, n_hosts, preemptor, ctx, search)
        if n == NULL:
            return entry
        pipeline_task(preemptor.job, t, n, ctx, search)
        search.place[entry] = n
        forget_cost(n, search)
    return k


@inner
def begin_choice(log: Log, search: Search) -> None:
    """Forget the last choice."""
    log.size[:] = 0
    search.counts.choice_clock[0] += 1
    for entry in range(search.counts.chosen[0]):
        search.lists.is_chosen[search.lists.chosen[entry]] = 0
    search.counts.chosen[0] = 0
    search.counts.placed[0] = 0
    search.counts.presence[0] += 1


@inner
def clear_some_node(t: int, n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Let chunks go until task ``t`` fits the node for which that costs least; NULL: it fits none.

    What a node's first chunks are refused without anybody gone is not asked again without them: it would end the same.
    """
    log = ctx.log
    while True:
        n = cheapest_node(t, n_hosts, preemptor, ctx, search)
        if n == NULL:
            return NULL
        floats, integers = log.size[0], log.size[1]
        chosen, placed = search.counts.chosen[0], search.counts.placed[0]
        outcome, skipped, going = REFUSED, 0, True
        while outcome == REFUSED and going:
            outcome, first = clear_node(t, n, skipped, preemptor, ctx, search)
            skipped, going = first, first > 0
            if outcome != CLEARED:
                abandon(floats, integers, chosen, placed, ctx, search)
        if outcome == CLEARED:
            for entry in range(chosen, search.counts.chosen[0]):
                unbar(entry, search)
            return n
        search.nodes.barred[n] = search.counts.choice_clock[0]
        forget_cost(n, search)


@inner
def can_be_cleared(t: int, n: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether task ``t`` would fit node ``n`` with all gone whom shares let go now, each by itself.

    The more have been taken the fewer shares let go, so that where it would not, no order of them will do.
    """
    snapshot, state = ctx.snapshot, ctx.state
    classes, freed, allocatable = snapshot.classes, search.freed[n], snapshot.nodes.allocatable[n]
    for r in range(freed.shape[0]):
        freed[r] = 0.0
    last, open_ = NULL, False
    here = search.nodes.first_potential[n]
    while here != 0:
        other = here - 1
        here = search.tasks.next_on_node[other]
        g = int(search.tasks.batch[other])
        if g != last:
            last, open_ = g, may_lose_more(preemptor.job, preemptor.need, queue_of(g, snapshot, search), ctx, search)
        if search.lists.is_chosen[g] != 0 or not open_:
            continue
        for r in range(freed.shape[0]):
            if allocatable[r] > 0.0:
                freed[r] += classes.request[snapshot.tasks.cls[other], r]
    request = classes.request[snapshot.tasks.cls[t]]
    for r in range(freed.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > state.idle[n, r] + state.releasing[n, r] + freed[r]:
            return False
    return True


@inner
def cheapest_node(t: int, n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """The node that costs least to clear for task ``t``, the one touched first of two; NULL where none can be."""
    clock = search.counts.choice_clock[0]
    best, least = NULL, NEVER
    if n_hosts > 0:
        for place in range(n_hosts):
            n = int(search.hosts[place])
            cost = known_cost(t, n, preemptor, ctx, search)
            if cost < least:
                best, least = n, cost
        return best
    total = search.counts.nodes[0]
    for block in range((total + BLOCK - 1) // BLOCK):
        if search.nodes.best_mark[block] != clock:
            search.nodes.best_mark[block] = clock
            search.nodes.best[block] = NULL
            lowest = NEVER
            for place in range(block * BLOCK, min(total, (block + 1) * BLOCK)):
                n = int(search.nodes.order[place])
                cost = known_cost(t, n, preemptor, ctx, search)
                if cost < lowest:
                    search.nodes.best[block], lowest = n, cost
        n = int(search.nodes.best[block])
        if n != NULL and search.nodes.cost[n] < least:
            best, least = n, int(search.nodes.cost[n])
    return best


@inner
def known_cost(t: int, n: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """What it costs to clear node ``n`` for task ``t``, which is kept until something changes there."""
    action = preemptor.action
    clock = search.counts.choice_clock[0]
    if search.nodes.barred[n] == clock:
        return NEVER
    if search.nodes.cost_mark[n] != clock:
        cost = cost_of(t, n, action == CONSOLIDATION, ctx, search)
        if cost != NEVER and action == RECLAIM and not preemptor.moves:
            cost = cost if can_be_cleared(t, n, preemptor, ctx, search) else NEVER
        search.nodes.cost[n] = cost
        search.nodes.cost_mark[n] = clock
    return int(search.nodes.cost[n])


@inner
def cost_of(t: int, n: int, by_number: bool, ctx: Context, search: Search) -> int:
    """What it costs to clear node ``n`` for task ``t``: the last chunk needed, or the number of pods; or NEVER."""
    snapshot, state = ctx.snapshot, ctx.state
    classes = snapshot.classes
    c = snapshot.tasks.cls[t]
    if ctx.finder.verdicts[classes.signature[c], n] != OK:
        return NEVER
    request, idle, releasing, freed = classes.request[c], state.idle[n], state.releasing[n], search.freed[n]
    allocatable = snapshot.nodes.allocatable[n]
    for r in range(freed.shape[0]):
        freed[r] = 0.0
    number, last = 0, NULL
    here = search.nodes.first_potential[n]
    while here != 0:
        other = here - 1
        here = search.tasks.next_on_node[other]
        g = int(search.tasks.batch[other])
        if search.lists.is_chosen[g] != 0:
            continue
        if g != last:
            last = g
            number += chunk_end(g, search) - search.lists.chunk_start[g]
        enough = True
        for r in range(freed.shape[0]):
            if allocatable[r] > 0.0:
                freed[r] += classes.request[snapshot.tasks.cls[other], r]
            enough = enough and request[r] <= idle[r] + releasing[r] + freed[r]
        if enough:
            return number if by_number else g
    return NEVER


@inner
def clear_node(t: int, n: int, skipped: int, preemptor: Preemptor, ctx: Context, search: Search) -> tuple[int, int]:
    """Let chunks with tasks on node ``n`` go, in their order, until task ``t`` fits there.

    REFUSED where it does not and shares kept somebody. The last to go may leave its queue with less than its share,
    none after it: with the first few ``skipped`` a larger one may be the last. Also which one, from 1 on, went first.
    """
    snapshot, state, log = ctx.snapshot, ctx.state, ctx.log
    c = snapshot.tasks.cls[t]
    request, dynamic = snapshot.classes.request[c], ctx.finder.dynamic[c] == 1
    here = search.nodes.first_potential[n]
    outcome, last, number, went_first = NOT_CLEARED, NULL, 0, 0
    while here != 0:
        g = int(search.tasks.batch[here - 1])
        here = search.tasks.next_on_node[here - 1]
        if search.lists.is_chosen[g] != 0 or g == last:
            continue
        last = g
        number += 1
        if number <= skipped:
            continue
        floats, integers = log.size[0], log.size[1]
        chosen, placed = search.counts.chosen[0], search.counts.placed[0]
        taken, refused = choose_with_dependents(g, n, preemptor, ctx, search)
        outcome = REFUSED if refused and not preemptor.moves else outcome
        if taken and dynamic and not is_near_required(c, n, ctx):
            abandon(floats, integers, chosen, placed, ctx, search)
            taken = False
        if not taken:
            continue
        went_first = number if went_first == 0 else went_first
        if fits_later(request, state.idle[n], state.releasing[n]):
            return (CLEARED if not dynamic or terms_allow(c, n, ctx) else NOT_CLEARED), went_first
    return outcome, went_first


@inner
def is_near_required(c: int, n: int, ctx: Context) -> bool:
    """Whether those that a pod of class ``c`` must be near are near node ``n``, and stay."""
    snapshot = ctx.snapshot
    terms, bonds = snapshot.terms, snapshot.bonds
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        if bonds.entry[entry, 0] != NEED:
            continue
        domain = terms.domain[bonds.entry[entry, 1], n]
        if domain == NULL:
            return False
        if ctx.state.domains.matched[domain] == 0 and not nobody_matches(c, ctx):
            return False
    return True
