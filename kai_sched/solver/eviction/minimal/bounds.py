"""Minimal search: bounds on the GPUs that shares let victims leave (semantics 4.6, 4.7); ``bounds`` is for both
searches.

A bound proves that an attempt must fail, so that the search skips it; no bound changes the plan
(tests/properties/test_proofs.py). All but ``hosts_suffice`` rest on one quantity: ``lacking``, the GPUs that the
pending tasks request beyond what is free on all nodes together. Moves free no GPU in sum, so victims that leave
for good have to supply it. What they may supply is bounded by the validator's rules 1 and 2 (4.7). Queues pay for
parts of GPUs in hundredths; ``scratch.overshoot`` bounds how much more a pod may free than its queue pays.

Cost: ``most_given`` visits the siblings along one path of the queue tree, at most Q queues; the others are
cheaper, but for ``note_who_gives`` (Q x depth). Invariant: only scratch of the search is written, and no state.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Amounts, Snapshot
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.minimal.candidate_sets import ALONE, TOGETHER
from kai_sched.solver.eviction.minimal.chunks import amount_of, chunk_end, queue_of
from kai_sched.solver.eviction.rules.losses import begin_losses, sides_of
from kai_sched.solver.eviction.rules.shares import (
    gpus_above,
    gpus_kept_behind,
    may_lose_more,
    side_stays_behind,
)
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.gates import ROUNDING, pass_gates
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
MANY_ROLES = 64
PATIENCE = 64  # as many chunks, or one for so many pods, cost about what it costs to ask whether any victims could help


@inner
def note_who_gives(candidates: int, preemptor: Preemptor, ctx: Context, search: Search) -> None:
    """Mark the leaf queues from which shares let a chunk leave for good: ``queues.gives_up`` (Q,).

    For ALONE, only leaves from which a single GPU may leave with no other victim. For preempt and consolidation
    all are marked: shares do not matter there. Resets ``minimal.given`` and ``largest_given`` (Q,), and by a new
    clock ``queues.remains`` (Q, 3). Reads ``queues.old_held`` (Q, 3), what queues held before the search.
    """
    snapshot = ctx.snapshot
    begin_losses(search)
    for q in range(snapshot.queues.parent.shape[0]):
        gives = preemptor.action != RECLAIM
        if not gives and search.queues.is_open[q] == 1:
            gives = may_lose_more(preemptor.job, preemptor.need, q, ctx, search)
            if gives and candidates == ALONE:
                gives = side_stays_behind(preemptor.job, preemptor.need, q, (0.0, 0.0, 1.0), False, ctx, search)
        search.queues.gives_up[q] = gives
        search.minimal.given[q] = 0.0
        search.minimal.largest_given[q] = 0.0


@inner
def shares_forbid_all(preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Return whether shares keep so many GPUs that no victims can supply the lacking ones (reclaim).

    Bound: ``most_given`` with an unlimited supply below each queue that may lose. If even that is less than
    ``preemptor.lacking``, each scenario would leave too few GPUs free for the pending tasks. Writes
    ``minimal.given`` and ``largest_given`` (Q,), and sets them to 0 again.
    """
    p, lacking = preemptor.job, preemptor.lacking
    snapshot = ctx.snapshot
    queues = snapshot.queues
    if lacking <= 0.0:
        return False
    note_who_gives(TOGETHER, preemptor, ctx, search)
    for q in range(queues.parent.shape[0]):
        if search.queues.gives_up[q] == 1.0:
            _, victim = sides_of(snapshot.jobs.queue[p], q, queues.parent)
            search.minimal.given[victim], search.minimal.largest_given[victim] = np.inf, np.inf
    most = ctx.scratch.overshoot[0] * most_given(preemptor, ctx, search)
    for q in range(queues.parent.shape[0]):
        search.minimal.given[q], search.minimal.largest_given[q] = 0.0, 0.0
    return bool(most + ROUNDING < lacking)


@inner
def last_chunk(preemptor: Preemptor, ctx: Context, search: Search) -> tuple[float, bool, bool]:
    """Return the GPUs of the chunk that came last, and whether it may leave for good: with others, and by itself.

    Nothing is known of the chunk yet: ``minimal.is_chosen`` and ``kept`` (T + 1,) become 0.

    A chunk that may leave is added to ``minimal.given`` (Q,), and to ``largest_given`` (Q,) if it is the largest, at
    the queue where its path parts from the reclaimer's.

    Returns
    -------
    amount : float
        The GPUs that the chunk holds on its nodes.
    with_others, alone : bool
        Whether it may leave for good after other victims left, and whether it may if it is the only victim.
    """
    snapshot = ctx.snapshot
    g = int(search.counts.n_chunks[0]) - 1
    search.minimal.is_chosen[g], search.minimal.kept[g] = 0, 0
    q, whole = queue_of(g, snapshot, search), amount_of(g, snapshot, search)
    amount = 0.0
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        amount += snapshot.classes.request[snapshot.tasks.cls[search.lists.potential[at]], GPU]
    if search.queues.gives_up[q] == 0.0:
        return amount, False, False
    if preemptor.action != RECLAIM:
        return amount, True, True
    _, victim = sides_of(snapshot.jobs.queue[preemptor.job], q, snapshot.queues.parent)
    search.minimal.given[victim] += whole[GPU]
    search.minimal.largest_given[victim] = max(search.minimal.largest_given[victim], whole[GPU])
    return amount, True, side_stays_behind(preemptor.job, preemptor.need, q, whole, False, ctx, search)


@inner
def may_supply(gpus_for_good: float, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Return whether the victims so far could leave the lacking GPUs.

    ``gpus_for_good`` are the GPUs of those that may leave for good.
    Bound: False proves that no scenario of them can make the room, as moves free no GPU. In a reclaim shares are
    counted as well (``most_given``). For consolidation it says nothing: True. Reads ``minimal.given`` (Q,).
    """
    action, lacking = preemptor.action, preemptor.lacking
    if action == CONSOLIDATION:
        return True
    if gpus_for_good < lacking:
        return False
    most = ctx.scratch.overshoot[0] * most_given(preemptor, ctx, search) if action == RECLAIM else np.inf
    return bool(most + ROUNDING >= lacking)


@inner
def most_given(preemptor: Preemptor, ctx: Context, search: Search) -> float:
    """Return an upper bound on the GPUs that shares let leave of the victims so far.

    Reads ``minimal.given`` and ``largest_given`` (Q,): the GPUs of the chunks so far below each queue, and those of
    the largest.
    """
    snapshot = ctx.snapshot
    queues, total = snapshot.queues, 0.0
    u = int(snapshot.jobs.queue[preemptor.job])
    # Walk from the reclaimer's leaf to the root. At each level, what leaves below a sibling ``v`` is bounded by
    # ``most_given_by``. What leaves at lower levels leaves the reclaimer's side as well (``total``): that side
    # then holds less, and may overtake less easily, so the bound has to count it. Each victim leaf lies below
    # exactly one sibling of the path, so the sum counts each once.
    while True:  # Bound: the depth of the queue tree.
        above = int(queues.parent[u])
        row = above if above != NULL else queues.parent.shape[0]
        found = 0.0
        for child in range(queues.child_ptr[row], queues.child_ptr[row + 1]):
            v = int(queues.child[child])
            if v != u and search.minimal.given[v] > 0.0:
                found += most_given_by(u, v, total, preemptor, ctx, search)
        total += found
        if above == NULL:
            return total
        u = above


@inner
def most_given_by(u: int, v: int, total: float, preemptor: Preemptor, ctx: Context, search: Search) -> float:
    """Return an upper bound on the GPUs that leave from below queue ``v``, sibling of ``u``.

    ``total`` is an upper bound on the GPUs that ``u`` loses itself. The result is the least of three bounds:

    - all that came so far below ``v``: ``minimal.given`` (Q,);
    - rule 1 (4.7): what may leave before the last chunk, and the largest chunk, ``minimal.largest_given`` (Q,);
    - rule 2: what may leave so that ``u``, even after it lost ``total``, stays behind.
    """
    need, so_far = preemptor.need, float(search.minimal.given[v])
    above = gpus_above(u, v, need, ctx, search)
    by_rule_1 = 0.0 if above < 0.0 else above + search.minimal.largest_given[v]
    mine = search.queues.old_held[u, GPU] - total + need[GPU]
    return float(min(so_far, by_rule_1, gpus_kept_behind(u, mine, v, ctx, search)))


@inner
def lacks_relief(p: int, need: Amounts, ctx: Context) -> bool:
    """Return whether limits or quotas stop the preemptor as long as no victim leaves (3.4).

    Writes ``scratch.need``, (3,). Reads what queues hold, ``book.held`` and ``held_fixed`` (Q + 1, 3).
    """
    snapshot, scratch = ctx.snapshot, ctx.scratch
    for r in range(3):
        scratch.need[r] = need[r]
    fixed = snapshot.jobs.preemptible[p] == 0
    verdict, _, _ = pass_gates(snapshot.jobs.queue[p], scratch.need, fixed, snapshot.queues.parent, ctx.state.book)
    return bool(verdict != OK)


@inner
def hosts_suffice(n_hosts: int, snapshot: Snapshot, state: State, search: Search) -> bool:
    """Return whether the first pending task would fit one of the ``n_hosts`` nodes with all potential victims gone.

    The nodes are in ``search.hosts`` (L,), L being the tasks of the longest job. Bound: ``rooms.requests`` (N, R)
    is all that potential victims hold on a node. If the task does not fit with all of it free, no choice among
    them clears the node. Inter-pod terms and ports could only refuse more.
    """
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


@inner
def patience(snapshot: Snapshot, search: Search) -> int:
    """Return the number of chunks after which ``refute`` is asked: max(64, T / 64).

    ``refute`` visits all nodes and all possible victims. That costs about as much as so many chunks. A search that
    ends earlier does not pay for it. It is 1 for pods whose claims wait for volumes, as most victims free none, and for
    pods with many roles, for which an attempt costs as much.
    """
    roles, volumes = snapshot.term_roles.ptr, snapshot.volumes.ptr
    for kind in range(search.counts.kinds[0]):
        c = search.kinds.cls[kind]
        if volumes[c + 1] > volumes[c] or roles[c + 1] - roles[c] > MANY_ROLES:
            return 1
    return int(max(PATIENCE, snapshot.tasks.job.shape[0] // PATIENCE))
