"""The comparisons of rules 1 and 2 of semantics 4.7, each once, and beside each the bound that follows from it.

Rule 1, for each loss before it is subtracted: the victim's side is above its allocatable share (*fair-share branch*),
or the reclaimer's side stays within its quota and the victim's side is above its own in a scarce resource (*quota
branch*). Rule 2, for the end: the reclaimer's side is not above its fair share, or stays behind its sibling; and what
cannot be preempted there is within its quota (``keeps_fixed_quota``). In a search by steady shares (``scratch.steady``)
both say what 4.9 says instead.

Sides are the queues where the paths from the root to both leaves part. The validator, the choice of victims and the
bounds call the same functions: with what is left to queues after the losses so far (``losses.left_to``), which is all
that they held where nothing was charged, the best case. A rule that is changed here is changed for all of them.
Amounts are (CPU millicores, memory bytes, GPUs). Only scratch is written.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.tables import GPU, Amounts
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.preemptor import requested
from kai_sched.solver.eviction.rules.blocked_devices import is_entitled
from kai_sched.solver.eviction.rules.losses import blocked_left_to, charge_loss, left_to, sides_of
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import Room, survey_devices, whole_later
from kai_sched.solver.kernels.gates import ROUNDING
from kai_sched.solver.kernels.share import lacks_steady_share
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
NEVER = int(Room.NEVER)


@inner
def note_scarce(k: int, ctx: Context, search: Search) -> None:
    """Mark in ``counts.scarce`` (3,) to which resources the quota branch of rule 1 applies.

    With minimal victims: what the ``k`` pending tasks request and a ready node lacks. A queue above a quota of a
    resource that is plentiful holds nothing that others need: queues would take from each other in turn.
    """
    snapshot, state = ctx.snapshot, ctx.state
    first = snapshot.tasks.cls[search.pending[0]]
    whole = snapshot.classes.shares[first] == 0
    for r in range(3):
        need = requested(k, r, snapshot, search)
        scarce = ctx.settings.minimal == 0
        for n in range(state.idle.shape[0]):
            if scarce or need == 0.0:
                break
            free = whole_later(n, ctx) if r == GPU and whole else state.idle[n, r] + state.releasing[n, r]
            lacks = free < need or (r == GPU and not whole and survey_devices(first, n, ctx)[0] == NEVER)
            scarce = snapshot.nodes.condition[n] == OK and lacks
        search.counts.scarce[r] = scarce


@inner
def is_above(amount: float, threshold: float) -> bool:
    """Return whether an amount is above a share or a quota, as rule 1 asks."""
    return amount > threshold


@inner
def stays_within_quota(q: int, need: Amounts, ctx: Context, search: Search) -> bool:
    """Return whether queue ``q`` with ``need`` is within ``book.quota`` (Q + 1, 3) in all resources."""
    for r in range(3):  # noqa: SIM110 -- numba compiles no generators
        if search.queues.old_held[q, r] + need[r] > ctx.state.book.quota[q, r]:
            return False
    return True


@inner
def is_above_share(v: int, ctx: Context, search: Search) -> bool:
    """Return whether queue ``v`` has more left than its allocatable share, ``book.share`` (Q + 1, 3), in a resource."""
    for r in range(3):  # noqa: SIM110 -- numba compiles no generators
        if is_above(left_to(v, r, search), ctx.state.book.share[v, r]):
            return True
    return False


@inner
def is_above_quota(u: int, v: int, ctx: Context, search: Search) -> bool:
    """Return whether queue ``v`` has more left than its quota, ``book.quota`` (Q + 1, 3), in a scarce resource.

    Of GPUs it counts for the devices that its parts block, too, if queue ``u`` would not exceed its own quota so.
    """
    quota, scarce = ctx.state.book.quota, search.counts.scarce
    for r in range(3):
        if scarce[r] == 1 and is_above(left_to(v, r, search), quota[v, r]):
            return True
    if scarce[GPU] == 0 or not is_entitled(u, ctx, search):
        return False
    return is_above(left_to(v, GPU, search) + blocked_left_to(v, search), quota[v, GPU] + ROUNDING)


@inner
def is_short(q: int, need: Amounts, ctx: Context, search: Search) -> bool:
    """Return whether queue ``q`` lacked some of its steady share, and may get ``need`` (3,) for it (4.9)."""
    return lacks_steady_share(q, search.queues.old_held, need[GPU], ctx.state.book)


@inner
def may_lose_more(p: int, need: Amounts, q: int, ctx: Context, search: Search) -> bool:
    """Return whether rule 1 lets one more chunk leave from leaf ``q``, of whatever size, for job ``p``.

    Monotone: losses only lower ``queues.remains`` (Q, 3) and ``blocked_left`` (Q,), all else is fixed. So a False stays
    False. By steady shares the side of ``p`` must be below what it may keep, and that of ``q`` above (4.9).
    """
    u, v = sides_of(ctx.snapshot.jobs.queue[p], q, ctx.snapshot.queues.parent)
    if ctx.scratch.steady[0] == 1:
        return is_short(u, need, ctx, search) and is_above(left_to(v, GPU, search), ctx.state.book.keep[v, GPU])
    if is_above_share(v, ctx, search):
        return True
    return stays_within_quota(u, need, ctx, search) and is_above_quota(u, v, ctx, search)


@inner
def lose(p: int, need: Amounts, q: int, amount: Amounts, ctx: Context, search: Search) -> bool:
    """Let leaf ``q`` lose ``amount`` if rule 1 allows it: charged to ``queues.remains`` (Q, 3). False: it does not.

    By steady shares its side keeps what it may keep also after this loss (4.9).
    """
    if not may_lose_more(p, need, q, ctx, search):
        return False
    if ctx.scratch.steady[0] == 1:
        _, v = sides_of(ctx.snapshot.jobs.queue[p], q, ctx.snapshot.queues.parent)
        if left_to(v, GPU, search) - amount[GPU] < ctx.state.book.keep[v, GPU] - ROUNDING:
            return False
    charge_loss(q, amount, ctx.snapshot.queues.parent, search)
    return True


@inner
def gpus_above(u: int, v: int, need: Amounts, ctx: Context, search: Search) -> float:
    """Return how many GPUs rule 1 lets leave from below ``v`` before the last chunk; NULL (-1): not even that one.

    Bound: a chunk leaves only while ``v`` is above its threshold, so all chunks but the last fit into the excess. The
    threshold is the lower one of both branches. Infinite where the rule may hold on: by another resource, or by devices
    that parts block. Reads ``queues.old_held`` (Q, 3): nothing has left.
    """
    book, queue = ctx.state.book, search.queues
    if ctx.scratch.steady[0] == 1:
        excess = queue.old_held[v, GPU] - book.keep[v, GPU]
        return float(excess) if excess > 0.0 and is_short(u, need, ctx, search) else -1.0
    within = stays_within_quota(u, need, ctx, search)
    excess = -1.0
    for r in range(3):
        by_quota = within and search.counts.scarce[r] == 1
        threshold = min(book.share[v, r], book.quota[v, r]) if by_quota else book.share[v, r]
        if r == GPU and by_quota and queue.blocked[v] > 0.0:
            return np.inf
        if is_above(queue.old_held[v, r], threshold):
            if r != GPU:
                return np.inf
            excess = queue.old_held[v, r] - threshold
    return float(excess)


@inner
def ratio(amount: float, share: float) -> float:
    """Return the part of a ``share`` that an amount uses: 0 of an infinite one, infinite if it is 0."""
    if share == np.inf:
        return 0.0
    if share == 0.0:
        return np.inf if amount > 0.0 else 0.0
    return amount / share


@inner
def stays_behind(u: int, mine: float, s: int, theirs: float, r: int, ctx: Context) -> bool:
    """Rule 2 for resource ``r``: whether queue ``u``, with ``mine``, ends behind its sibling ``s``, with ``theirs``.

    ``mine`` has the chunk in it. Reads ``book.fair`` (Q + 1, 3). Monotone: the more ``s`` keeps and the less ``u``
    holds, the sooner it is True. By steady shares only GPUs are compared, and ``u`` may have what it may keep (4.9).
    """
    book = ctx.state.book
    if ctx.scratch.steady[0] == 1:
        behind = ratio(mine, book.steady[u, r]) * ctx.settings.saturation < ratio(theirs, book.steady[s, r])
        return r != GPU or mine <= book.keep[u, r] or behind
    fair = book.fair
    used = ratio(mine, fair[u, r])
    if used <= 1.0:
        return True
    # Two queues without any share could take the same room from each other in turn, for ever.
    if fair[s, r] <= 0.0 and (ctx.settings.minimal == 0 or fair[u, r] > 0.0):
        return True
    return used * ctx.settings.saturation < ratio(theirs, fair[s, r])


@inner
def side_stays_behind(
    p: int, need: Amounts, q: int, lost: Amounts, charged: bool, ctx: Context, search: Search
) -> bool:
    """Return whether rule 2 holds between the sides of job ``p`` and of leaf ``q``, which loses ``lost``.

    ``charged``: after all losses so far, with this one in ``queues.remains`` (Q, 3); else as if nothing had left before
    (``old_held`` (Q, 3)). The validator never refuses at the end what was chosen with it: later losses of the
    reclaimer's side only make it smaller, and for later losses of leaf ``q`` it is asked again.
    """
    held = search.queues.old_held
    u, s = sides_of(ctx.snapshot.jobs.queue[p], q, ctx.snapshot.queues.parent)
    for r in range(3):
        if need[r] == 0.0 and lost[r] == 0.0:
            continue
        mine = left_to(u, r, search) if charged else held[u, r]
        theirs = left_to(s, r, search) if charged else held[s, r] - lost[r]
        if not stays_behind(u, mine + need[r], s, theirs, r, ctx):
            return False
    return True


@inner
def keeps_fixed_quota(p: int, need: Amounts, u: int, ctx: Context, search: Search) -> bool:
    """Return whether what non-preemptible jobs of queue ``u`` hold, with job ``p``, is within its quota (Q + 1, 3)."""
    if ctx.snapshot.jobs.preemptible[p] == 1:
        return True
    for r in range(3):  # noqa: SIM110 -- numba compiles no generators
        if search.queues.old_fixed[u, r] + need[r] > ctx.state.book.quota[u, r]:
            return False
    return True


@inner
def ends_behind_siblings(u: int, need: Amounts, ctx: Context, search: Search) -> bool:
    """Return whether rule 2 holds between queue ``u``, on the reclaimer's path, and each sibling that lost something.

    Compared are the resources that are requested or lost; reads ``queues.remains`` and ``involved`` (Q, 3).
    """
    queue, parent = search.queues, ctx.snapshot.queues.parent
    for s in range(parent.shape[0]):
        if s == u or parent[s] != parent[u] or queue.remains_mark[s] != search.counts.loss_clock[0]:
            continue
        for r in range(3):
            if need[r] == 0.0 and queue.involved[s, r] == 0.0:
                continue
            if not stays_behind(u, left_to(u, r, search) + need[r], s, queue.remains[s, r], r, ctx):
                return False
    return True


@inner
def gpus_kept_behind(u: int, mine: float, s: int, ctx: Context, search: Search) -> float:
    """Return how many GPUs may leave from below ``s`` at most so that rule 2 holds for ``u``, which ends with ``mine``.

    Bound: rule 2 solved for the loss. ``s`` must keep more than the same part of its fair share as ``u`` uses, times
    the multiplier; where it may lose everything, there is no limit. Reads ``queues.old_held`` (Q, 3).
    """
    book = ctx.state.book
    if ctx.scratch.steady[0] == 1:
        used = ratio(mine, book.steady[u, GPU]) * ctx.settings.saturation if mine > book.keep[u, GPU] else 0.0
        if used == np.inf:
            return 0.0
        kept = max(book.keep[s, GPU], used * book.steady[s, GPU])
        return float(max(0.0, search.queues.old_held[s, GPU] - kept + ROUNDING))
    fair = book.fair
    if fair[s, GPU] == 0.0 or stays_behind(u, mine, s, 0.0, GPU, ctx):
        return np.inf
    if fair[s, GPU] == np.inf:
        return 0.0
    kept = ratio(mine, fair[u, GPU]) * ctx.settings.saturation * fair[s, GPU]
    return float(max(0.0, search.queues.old_held[s, GPU] - kept + ROUNDING))
