"""Bounds for the minimal search: who may leave at all, and what cannot make room however it is chosen."""

from __future__ import annotations

import enum

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Amounts, Settings, Snapshot, Verdict
from kai_sched.solver.eviction.minimal_taking import amount_of, queue_of
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.eviction.validate import diverge, may_lose_more, ratio
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
ROUNDING = 1e-6


class CandidateSet(enum.IntEnum):
    """The victims among which a reclaim searches, in this order. Moves are evictions, too, so they come last."""

    ALONE = 0  # jobs that may leave by themselves
    GIVERS = 1  # jobs that may leave together with others
    EVERYBODY = 2  # all jobs; those that may not leave may move


ALONE = int(CandidateSet.ALONE)
GIVERS = int(CandidateSet.GIVERS)
EVERYBODY = int(CandidateSet.EVERYBODY)


@inner
def free_gpus(state: State) -> float:
    """How many GPUs are free on all nodes together, or will be once others have left."""
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    return free


@inner
def first_candidate_set(action: int, length: int, lacking: float) -> int:
    """Among whom victims are looked for first. Where enough is free, it is only in the wrong place: moves may help."""
    if action != RECLAIM or lacking <= 0.0:
        return EVERYBODY
    return ALONE if length == 1 else GIVERS


@inner
def last_candidate_set(action: int, need: Amounts, lacking: float, settings: Settings) -> int:
    """Among whom victims are looked for last: who moves needs room that is free now."""
    if action != RECLAIM:
        return EVERYBODY
    may_move = settings.consolidating_reclaim == 1 and (need[GPU] == 0.0 or lacking < need[GPU])
    return EVERYBODY if may_move or lacking <= 0.0 else GIVERS


@inner
def note_who_gives(candidates: int, preemptor: Preemptor, ctx: Context, search: Search) -> None:
    """Note the leaves of which somebody may leave for good (GIVES_UP); for ALONE, one with a GPU by itself."""
    snapshot = ctx.snapshot
    search.counts.presence[0] += 1
    for q in range(snapshot.queues.parent.shape[0]):
        gives = preemptor.action != RECLAIM
        if not gives and search.queues.is_open[q] == 1.0:
            gives = may_lose_more(preemptor.job, preemptor.need, q, ctx, search)
            if gives and candidates == ALONE:
                gives = leaves_alone(q, (0.0, 0.0, 1.0), preemptor, ctx, search)
        search.queues.gives_up[q] = gives
        search.queues.given[q] = 0.0
        search.queues.most_given[q] = 0.0


@inner
def shares_forbid_all(preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether shares keep so many that the ``lacking`` GPUs cannot be got, whoever the victims are (reclaim)."""
    p, lacking = preemptor.job, preemptor.lacking
    snapshot = ctx.snapshot
    queues, given = snapshot.queues, search.queues
    if lacking <= 0.0:
        return False
    note_who_gives(GIVERS, preemptor, ctx, search)
    for q in range(queues.parent.shape[0]):
        if given.gives_up[q] == 1.0:
            _, victim = diverge(snapshot.jobs.queue[p], q, queues.parent)
            given.given[victim], given.most_given[victim] = np.inf, np.inf
    most = most_given(preemptor, ctx, search)
    for q in range(queues.parent.shape[0]):
        given.given[q], given.most_given[q] = 0.0, 0.0
    return bool(most + ROUNDING < lacking)


@inner
def leaves_alone(q: int, amount: Amounts, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether shares let this ``amount`` go from leaf ``q`` where nobody else goes, if any (``may_lose_more``)."""
    need = preemptor.need
    snapshot = ctx.snapshot
    book = ctx.state.book
    mine, theirs = diverge(snapshot.jobs.queue[preemptor.job], q, snapshot.queues.parent)
    for r in range(3):
        used = ratio(search.queues.old_held[mine, r] + need[r], book.fair[mine, r])
        if used <= 1.0 or (need[r] == 0.0 and amount[r] == 0.0):
            continue
        if book.fair[theirs, r] <= 0.0 and book.fair[mine, r] > 0.0:
            continue
        if used * ctx.settings.saturation >= ratio(search.queues.old_held[theirs, r] - amount[r], book.fair[theirs, r]):
            return False
    return True


@inner
def last_chunk(preemptor: Preemptor, ctx: Context, search: Search) -> tuple[float, bool, bool]:
    """How many GPUs the chunk holds that came last, and whether it may leave for good: with others, and by itself.

    Where it may, it is noted for ``most_given``.
    """
    snapshot = ctx.snapshot
    g = int(search.counts.batches[0]) - 1
    q, whole = queue_of(g, snapshot, search), amount_of(g, snapshot, search)
    amount = whole[GPU]
    if search.queues.gives_up[q] == 0.0:
        return amount, False, False
    if preemptor.action != RECLAIM:
        return amount, True, True
    _, victim = diverge(snapshot.jobs.queue[preemptor.job], q, snapshot.queues.parent)
    search.queues.given[victim] += amount
    search.queues.most_given[victim] = max(search.queues.most_given[victim], amount)
    return amount, True, leaves_alone(q, whole, preemptor, ctx, search)


@inner
def may_supply(gone: float, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether those that came so far could leave the ``lacking`` GPUs, of ``gone`` that they hold. Moves make no room.

    For consolidation this says nothing.
    """
    action, lacking = preemptor.action, preemptor.lacking
    if action == CONSOLIDATION:
        return True
    if gone < lacking:
        return False
    return action != RECLAIM or most_given(preemptor, ctx, search) + ROUNDING >= lacking


@inner
def most_given(preemptor: Preemptor, ctx: Context, search: Search) -> float:
    """How many GPUs of those that came so far shares let go, at the most.

    From below one sibling of the reclaimer's queue chunks go while it is above its share, so less than the excess and
    one more; and never so many that the reclaimer's side would end with more of its share than the sibling. That side
    counts as having lost all that may go from below it.
    """
    snapshot = ctx.snapshot
    queues, total = snapshot.queues, 0.0
    u = int(snapshot.jobs.queue[preemptor.job])
    while True:
        above = int(queues.parent[u])
        row = above if above != NULL else queues.parent.shape[0]
        found = 0.0
        for child in range(queues.child_ptr[row], queues.child_ptr[row + 1]):
            v = int(queues.child[child])
            if v != u and search.queues.given[v] > 0.0:
                found += most_given_by(u, v, total, preemptor, ctx, search)
        total += found
        if above == NULL:
            return total
        u = above


@inner
def most_given_by(u: int, v: int, total: float, preemptor: Preemptor, ctx: Context, search: Search) -> float:
    """What ``most_given`` counts for queue ``v``, a sibling of ``u``, where ``u`` has lost ``total`` GPUs."""
    need, book, queue = preemptor.need, ctx.state.book, search.queues
    deserved, other = True, False
    for r in range(3):
        deserved = deserved and queue.old_held[u, r] + need[r] <= book.quota[u, r]
    most = 0.0
    for r in range(3):
        threshold = book.share[v, r]
        if deserved and search.counts.short[r] == 1:
            threshold = min(threshold, book.quota[v, r])
        above = queue.old_held[v, r] - threshold
        other = other or (r != GPU and above > 0.0)
        if r == GPU and above > 0.0:
            most = above + queue.most_given[v]
    most = queue.given[v] if other else min(queue.given[v], most)
    mine, theirs = book.fair[u, GPU], book.fair[v, GPU]
    used = ratio(queue.old_held[u, GPU] - total + need[GPU], mine)
    if used <= 1.0 or theirs == 0.0:
        return float(most)
    if theirs == np.inf:
        return 0.0
    return float(max(0.0, min(most, queue.old_held[v, GPU] - used * ctx.settings.saturation * theirs + ROUNDING)))


@inner
def lacks_relief(p: int, need: Amounts, ctx: Context) -> bool:
    """Whether limits or quotas stop the preemptor as long as nobody leaves."""
    snapshot, scratch = ctx.snapshot, ctx.scratch
    for r in range(3):
        scratch.need[r] = need[r]
    fixed = snapshot.jobs.preemptible[p] == 0
    verdict, _, _ = pass_gates(snapshot.jobs.queue[p], scratch.need, fixed, snapshot.queues.parent, ctx.state.book)
    return bool(verdict != OK)


@inner
def hosts_suffice(n_hosts: int, snapshot: Snapshot, state: State, search: Search) -> bool:
    """Whether the first task of the preemptor would fit some node of ``search.hosts`` with all gone who came so far."""
    request = snapshot.classes.request[snapshot.tasks.cls[search.pending[0]]]
    for place in range(n_hosts):
        n = int(search.hosts[place])
        fits = True
        for r in range(request.shape[0]):
            free = state.idle[n, r] + state.releasing[n, r] + search.rooms.requests[n, r]
            fits = fits and request[r] <= free
        if fits:
            return True
    return False
