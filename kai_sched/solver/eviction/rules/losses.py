"""What queues may lose in a reclaim, chunk after chunk: rule 1 of semantics 4.7, for the choice of victims and for the
validator.

Two sides are compared: the queues where the paths from the root to both leaves part. A chunk leaves only while its side
is above its share, or its quota. Amounts are (CPU millicores, memory bytes, GPUs). Cost: the depth of the queue tree.
Invariant: only scratch is written: ``queues.remains`` (Q, 3) and ``blocked_left`` (Q,) are what is left to a queue,
valid where ``remains_mark`` (Q,) is ``counts.presence``; otherwise ``old_held`` (Q, 3) and ``blocked`` (Q,) hold. A new
presence gives all queues back what was taken.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Amounts, Ints
from kai_sched.solver.eviction.rules.blocked_devices import ROUNDING, is_entitled
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.state import Context


@kernel
def diverge(a: int, b: int, parent: Ints) -> tuple[int, int]:
    """Return the queues at or above leaves ``a`` and ``b`` at which their paths part: two scalars, rows of queues."""
    depth_a, depth_b = depth_of(a, parent), depth_of(b, parent)
    while depth_a > depth_b:  # Bound: the depth of the queue tree.
        a, depth_a = parent[a], depth_a - 1
    while depth_b > depth_a:  # Bound: the depth of the queue tree.
        b, depth_b = parent[b], depth_b - 1
    while parent[a] != parent[b]:  # Bound: paths meet above the roots, at NULL.
        a, b = parent[a], parent[b]
    return a, b


@inner
def depth_of(q: int, parent: Ints) -> int:
    """Return how many queues are above queue ``q``, a scalar."""
    depth = 0
    while parent[q] != NULL:  # Bound: the depth of the queue tree.
        q, depth = parent[q], depth + 1
    return depth


@inner
def left_to(q: int, r: int, search: Search) -> float:
    """Return how much of resource ``r`` is left to queue ``q`` in this scenario, a scalar."""
    queue = search.queues
    return float(queue.remains[q, r] if queue.remains_mark[q] == search.counts.presence[0] else queue.old_held[q, r])


@inner
def blocked_left_to(q: int, search: Search) -> float:
    """Return how many GPUs parts of queue ``q`` still keep from others in this scenario: a scalar, see ``left_to``."""
    queue = search.queues
    is_current = queue.remains_mark[q] == search.counts.presence[0]
    return float(queue.blocked_left[q] if is_current else queue.blocked[q])


@inner
def may_lose_more(p: int, need: Amounts, v: int, ctx: Context, search: Search) -> bool:
    """Return whether rule 1 lets one more chunk leave from leaf ``v``, of whatever size (4.7).

    Where the second rule applies, parts of GPUs count with what they keep from others (``blocked_devices``). Monotone:
    losses only lower ``queues.remains`` (Q, 3) and ``blocked_left`` (Q,), all else is fixed. So a False stays False.
    """
    snapshot, book = ctx.snapshot, ctx.state.book
    queue = search.queues
    reclaimer, victim = diverge(snapshot.jobs.queue[p], v, snapshot.queues.parent)
    over_share, over_quota, deserved = False, False, True
    for r in range(3):
        left = left_to(victim, r, search)
        over_share = over_share or left > book.share[victim, r]
        over_quota = over_quota or (search.counts.short[r] == 1 and left > book.quota[victim, r])
        if r == GPU and search.counts.short[r] == 1 and is_entitled(reclaimer, ctx, search):
            over_quota = over_quota or left + blocked_left_to(victim, search) > book.quota[victim, r] + ROUNDING
        deserved = deserved and queue.old_held[reclaimer, r] + need[r] <= book.quota[reclaimer, r]
    return bool(over_share or (deserved and over_quota))


@inner
def take_amount(p: int, need: Amounts, v: int, amount: Amounts, ctx: Context, search: Search) -> bool:
    """Charge ``amount`` to ``queues.remains`` (Q, 3) of leaf ``v`` and those above; False: rule 1 forbids it.

    What goes with it of ``blocked_left`` (Q,) is charged by ``change_blocked``.
    """
    queue, parent = search.queues, ctx.snapshot.queues.parent
    if not may_lose_more(p, need, v, ctx, search):
        return False
    while v != NULL:  # Bound: the depth of the queue tree.
        if queue.remains_mark[v] != search.counts.presence[0]:
            queue.remains_mark[v] = search.counts.presence[0]
            queue.blocked_left[v] = queue.blocked[v]
            for r in range(3):
                queue.remains[v, r] = queue.old_held[v, r]
                queue.involved[v, r] = 0.0
        for r in range(3):
            queue.remains[v, r] -= amount[r]
            if amount[r] > 0.0:
                queue.involved[v, r] = 1.0
        v = parent[v]
    return True


@inner
def change_blocked(v: int, gpus: float, parent: Ints, search: Search) -> None:
    """Add ``gpus``, a scalar, to ``queues.blocked_left`` (Q,) of leaf ``v`` and those above, after ``take_amount``."""
    while gpus != 0.0 and v != NULL:  # Bound: the depth of the queue tree.
        search.queues.blocked_left[v] += gpus
        v = parent[v]
