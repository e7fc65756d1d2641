"""What is left to queues while victims leave, chunk after chunk, in a choice or in the validator (semantics 4.7).

Two sides are compared: the queues where the paths from the root to both leaves part. Amounts are (CPU millicores,
memory bytes, GPUs). Cost: the depth of the queue tree. Invariant: only scratch is written: ``queues.remains`` (Q, 3)
and ``blocked_left`` (Q,) are what is left to a queue, valid where ``remains_mark`` (Q,) is ``counts.loss_clock``;
otherwise ``old_held`` (Q, 3) and ``blocked`` (Q,) hold. When the clock moves on, all queues have again what they held
before the search.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Amounts, Ints
from kai_sched.solver.eviction.tables import Search, SearchQueues
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.state import Book


@inner
def keep_old_shares(book: Book, queue: SearchQueues) -> None:
    """Copy what queues hold to ``queues.old_held`` and ``old_fixed`` (Q, 3): what they held before the search."""
    for q in range(queue.is_open.shape[0]):
        for r in range(3):
            queue.old_held[q, r] = book.held[q, r]
            queue.old_fixed[q, r] = book.held_fixed[q, r]


@kernel
def sides_of(a: int, b: int, parent: Ints) -> tuple[int, int]:
    """Return the queues at or above leaves ``a`` and ``b`` at which their paths part; ``parent`` is (Q,)."""
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
    """Return how many queues are above queue ``q``; ``parent`` is (Q,)."""
    depth = 0
    while parent[q] != NULL:  # Bound: the depth of the queue tree.
        q, depth = parent[q], depth + 1
    return depth


@inner
def is_below(q: int, above: int, parent: Ints) -> bool:
    """Return whether queue ``q`` is queue ``above`` or below it; ``parent`` is (Q,)."""
    while q != NULL and q != above:  # Bound: the depth of the queue tree.
        q = parent[q]
    return bool(q == above)


@inner
def begin_losses(search: Search) -> None:
    """Let all queues have again what they held before the search: ``queues.remains`` (Q, 3) counts no more."""
    search.counts.loss_clock[0] += 1


@inner
def left_to(q: int, r: int, search: Search) -> float:
    """Return how much of resource ``r`` is left to queue ``q``; reads ``queues.remains`` or ``old_held`` (Q, 3)."""
    queue = search.queues
    return float(queue.remains[q, r] if queue.remains_mark[q] == search.counts.loss_clock[0] else queue.old_held[q, r])


@inner
def blocked_left_to(q: int, search: Search) -> float:
    """Return how many GPUs parts of queue ``q`` still keep from others; reads ``queues.blocked_left`` (Q,)."""
    queue = search.queues
    is_current = queue.remains_mark[q] == search.counts.loss_clock[0]
    return float(queue.blocked_left[q] if is_current else queue.blocked[q])


@inner
def charge_loss(v: int, amount: Amounts, parent: Ints, search: Search) -> None:
    """Take ``amount`` off ``queues.remains`` (Q, 3) of leaf ``v`` and those above.

    What goes with it of ``blocked_left`` (Q,) is charged by ``change_blocked``.
    """
    queue = search.queues
    while v != NULL:  # Bound: the depth of the queue tree.
        if queue.remains_mark[v] != search.counts.loss_clock[0]:
            queue.remains_mark[v] = search.counts.loss_clock[0]
            queue.blocked_left[v] = queue.blocked[v]
            for r in range(3):
                queue.remains[v, r] = queue.old_held[v, r]
                queue.involved[v, r] = 0.0
        for r in range(3):
            queue.remains[v, r] -= amount[r]
            if amount[r] > 0.0:
                queue.involved[v, r] = 1.0
        v = parent[v]


@inner
def give_back_loss(v: int, amount: Amounts, parent: Ints, search: Search) -> None:
    """Add ``amount``, which was charged, to ``queues.remains`` (Q, 3) of leaf ``v`` and those above again."""
    while v != NULL:  # Bound: the depth of the queue tree.
        for r in range(3):
            search.queues.remains[v, r] += amount[r]
        v = parent[v]


@inner
def change_blocked(v: int, gpus: float, parent: Ints, search: Search) -> None:
    """Add ``gpus`` to ``queues.blocked_left`` (Q,) of leaf ``v`` and those above, after ``charge_loss``."""
    while gpus != 0.0 and v != NULL:  # Bound: the depth of the queue tree.
        search.queues.blocked_left[v] += gpus
        v = parent[v]
