"""Bounds for the minimal search: who may leave at all, and what cannot make room however it is chosen."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Settings, Snapshot, Verdict
from kai_sched.solver.hunt import (
    GIVEN,
    GIVES_UP,
    MOST_GIVEN,
    N_GROUPS,
    OLD_HELD,
    OPEN,
    PRESENCE,
    REQUESTS,
    SHORT,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.fairness import diverge, may_lose_more, ratio
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.minimal_taking import amount_of, queue_of
from kai_sched.solver.state import FAIR, QUOTA, SHARE, Scratch, State

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
ROUNDING = 1e-6
# Among whom victims of a reclaim are looked for: those who may leave by themselves, who may leave with others, and all,
# who may move where they may not leave. Moves are evictions, too, so that they come last.
ALONE, GIVERS, EVERYBODY = range(3)


@inner
def free_gpus(state: State) -> float:
    """How many GPUs are free on all nodes together, or will be once others have left."""
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    return free


@inner
def first_circle(action: int, length: int, lacking: float) -> int:
    """Among whom victims are looked for first. Where enough is free, it is only in the wrong place: moves may help."""
    if action != RECLAIM or lacking <= 0.0:
        return EVERYBODY
    return ALONE if length == 1 else GIVERS


@inner
def last_circle(action: int, need: tuple[float, float, float], lacking: float, settings: Settings) -> int:
    """Among whom victims are looked for last: who moves needs room that is free now."""
    if action != RECLAIM:
        return EVERYBODY
    may_move = settings.consolidating_reclaim == 1 and (need[GPU] == 0.0 or lacking < need[GPU])
    return EVERYBODY if may_move or lacking <= 0.0 else GIVERS


@inner
def note_who_gives(
    action: int,
    p: int,
    circle: int,
    need: tuple[float, float, float],
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> None:
    """Note the leaves of which somebody may leave for good (GIVES_UP); for ALONE, one with a GPU by itself."""
    prey.counts[PRESENCE] += 1
    for q in range(snapshot.queues.parent.shape[0]):
        gives = action != RECLAIM
        if not gives and prey.queue[q, OPEN] == 1.0:
            gives = may_lose_more(p, need, q, snapshot, state.book, prey)
            if gives and circle == ALONE:
                gives = leaves_alone(p, need, q, (0.0, 0.0, 1.0), settings, snapshot, state, prey)
        prey.queue[q, GIVES_UP] = gives
        prey.queue[q, GIVEN] = 0.0
        prey.queue[q, MOST_GIVEN] = 0.0


@inner
def spares_all(
    p: int,
    need: tuple[float, float, float],
    lacking: float,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> bool:
    """Whether shares keep so many that the ``lacking`` GPUs cannot be got, whoever the victims are (reclaim)."""
    queues, given = snapshot.queues, prey.queue
    if lacking <= 0.0:
        return False
    note_who_gives(RECLAIM, p, GIVERS, need, settings, snapshot, state, prey)
    for q in range(queues.parent.shape[0]):
        if given[q, GIVES_UP] == 1.0:
            _, victim = diverge(snapshot.jobs.queue[p], q, queues.parent)
            given[victim, GIVEN], given[victim, MOST_GIVEN] = np.inf, np.inf
    most = most_given(p, need, settings, snapshot, state, prey)
    for q in range(queues.parent.shape[0]):
        given[q, GIVEN], given[q, MOST_GIVEN] = 0.0, 0.0
    return bool(most + ROUNDING < lacking)


@inner
def leaves_alone(
    p: int,
    need: tuple[float, float, float],
    q: int,
    amount: tuple[float, float, float],
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> bool:
    """Whether shares let this ``amount`` go from leaf ``q`` where nobody else goes, if any (``may_lose_more``)."""
    book = state.book
    mine, theirs = diverge(snapshot.jobs.queue[p], q, snapshot.queues.parent)
    for r in range(3):
        used = ratio(prey.queue[mine, OLD_HELD + r] + need[r], book[mine, FAIR + r])
        if used <= 1.0 or (need[r] == 0.0 and amount[r] == 0.0):
            continue
        if book[theirs, FAIR + r] <= 0.0 and book[mine, FAIR + r] > 0.0:
            continue
        if used * settings.saturation >= ratio(prey.queue[theirs, OLD_HELD + r] - amount[r], book[theirs, FAIR + r]):
            return False
    return True


@inner
def last_chunk(
    action: int,
    p: int,
    need: tuple[float, float, float],
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> tuple[float, bool, bool]:
    """How many GPUs the chunk holds that came last, and whether it may leave for good: with others, and by itself.

    Where it may, it is noted for ``most_given``.
    """
    g = int(prey.counts[N_GROUPS]) - 1
    q, whole = queue_of(g, snapshot, prey), amount_of(g, snapshot, prey)
    amount = whole[GPU]
    if prey.queue[q, GIVES_UP] == 0.0:
        return amount, False, False
    if action != RECLAIM:
        return amount, True, True
    _, victim = diverge(snapshot.jobs.queue[p], q, snapshot.queues.parent)
    prey.queue[victim, GIVEN] += amount
    prey.queue[victim, MOST_GIVEN] = max(prey.queue[victim, MOST_GIVEN], amount)
    return amount, True, leaves_alone(p, need, q, whole, settings, snapshot, state, prey)


@inner
def makes_up(
    action: int,
    p: int,
    need: tuple[float, float, float],
    lacking: float,
    gone: float,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> bool:
    """Whether those that came so far could leave the ``lacking`` GPUs, of ``gone`` that they hold. Moves make no room.

    For consolidation this says nothing.
    """
    if action == CONSOLIDATION:
        return True
    if gone < lacking:
        return False
    return action != RECLAIM or most_given(p, need, settings, snapshot, state, prey) + ROUNDING >= lacking


@inner
def most_given(
    p: int, need: tuple[float, float, float], settings: Settings, snapshot: Snapshot, state: State, prey: Prey
) -> float:
    """How many GPUs of those that came so far shares let go, at the most.

    From below one sibling of the reclaimer's queue chunks go while it is above its share, so less than the excess and
    one more; and never so many that the reclaimer's side would end with more of its share than the sibling. That side
    counts as having lost all that may go from below it.
    """
    queues, total = snapshot.queues, 0.0
    u = int(snapshot.jobs.queue[p])
    while True:
        above = int(queues.parent[u])
        row = above if above != NULL else queues.parent.shape[0]
        found = 0.0
        for child in range(queues.child_ptr[row], queues.child_ptr[row + 1]):
            v = int(queues.child[child])
            if v != u and prey.queue[v, GIVEN] > 0.0:
                found += most_given_by(u, v, total, need, settings, state, prey)
        total += found
        if above == NULL:
            return total
        u = above


@inner
def most_given_by(
    u: int,
    v: int,
    total: float,
    need: tuple[float, float, float],
    settings: Settings,
    state: State,
    prey: Prey,
) -> float:
    """What ``most_given`` counts for queue ``v``, a sibling of ``u``, where ``u`` has lost ``total`` GPUs."""
    book, queue = state.book, prey.queue
    deserved, other = True, False
    for r in range(3):
        deserved = deserved and queue[u, OLD_HELD + r] + need[r] <= book[u, QUOTA + r]
    most = 0.0
    for r in range(3):
        threshold = book[v, SHARE + r]
        if deserved and prey.counts[SHORT + r] == 1:
            threshold = min(threshold, book[v, QUOTA + r])
        above = queue[v, OLD_HELD + r] - threshold
        other = other or (r != GPU and above > 0.0)
        if r == GPU and above > 0.0:
            most = above + queue[v, MOST_GIVEN]
    most = queue[v, GIVEN] if other else min(queue[v, GIVEN], most)
    mine, theirs = book[u, FAIR + GPU], book[v, FAIR + GPU]
    used = ratio(queue[u, OLD_HELD + GPU] - total + need[GPU], mine)
    if used <= 1.0 or theirs == 0.0:
        return float(most)
    if theirs == np.inf:
        return 0.0
    return float(max(0.0, min(most, queue[v, OLD_HELD + GPU] - used * settings.saturation * theirs + ROUNDING)))


@inner
def lacks_relief(p: int, need: tuple[float, float, float], snapshot: Snapshot, state: State, scratch: Scratch) -> bool:
    """Whether limits or quotas stop the wish as long as nobody leaves."""
    for r in range(3):
        scratch.need[r] = need[r]
    fixed = snapshot.jobs.preemptible[p] == 0
    verdict, _, _ = pass_gates(snapshot.jobs.queue[p], scratch.need, fixed, snapshot.queues.parent, state.book)
    return bool(verdict != OK)


@inner
def spots_suffice(n_spots: int, snapshot: Snapshot, state: State, prey: Prey) -> bool:
    """Whether the first task of the wish would fit some node of ``prey.spot`` with all gone who came so far."""
    request = snapshot.classes.request[snapshot.tasks.cls[prey.wish[0]]]
    for place in range(n_spots):
        n = int(prey.spot[place])
        fits = True
        for r in range(request.shape[0]):
            free = state.idle[n, r] + state.releasing[n, r] + prey.room[n, REQUESTS + r]
            fits = fits and request[r] <= free
        if fits:
            return True
    return False
