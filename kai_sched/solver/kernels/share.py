"""Fair share: how one resource is divided among sibling queues (semantics 2.3), and so on down the tree (2.4, 2.5).

Siblings stand side by side in ``work`` (``state.Division``), oldest first.
Unlimited = inf.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.tables import Queues
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.state import Book, Division

NO_REMAINDER = -1.0


@kernel
def divide(amount: float, k_value: float, n_queues: int, work: Division) -> None:
    """Divide ``amount`` of one resource among the first ``n_queues`` siblings of ``work``, into its column ``given``.

    The sum of quotas is granted even where it exceeds the amount; the remainder of a division may lift a queue above
    what it asked for (2.3, steps 1 to 3).
    """
    granted = 0.0
    for q in range(n_queues):
        work.requestable[q] = min(work.limit[q], work.request[q])
        work.remainder[q] = NO_REMAINDER
        deserved = amount if np.isinf(work.quota[q]) else work.quota[q]
        work.given[q] = min(deserved, work.requestable[q])
        granted += work.given[q]
    remaining = amount - granted
    if remaining <= 0.0:
        return
    bucket = next_bucket(np.inf, n_queues, work)
    while bucket > -np.inf:
        remaining = divide_bucket(remaining, k_value, bucket, n_queues, work)
        bucket = next_bucket(bucket, n_queues, work)
    bucket = next_bucket(np.inf, n_queues, work)
    while bucket > -np.inf and remaining > 0.0:
        remaining = give_remainders(remaining, bucket, n_queues, work)
        bucket = next_bucket(bucket, n_queues, work)


@inner
def next_bucket(bucket: float, n_queues: int, work: Division) -> float:
    """The highest priority below ``bucket``; -inf where there is none."""
    best = -np.inf
    for q in range(n_queues):
        if best < work.priority[q] < bucket:
            best = work.priority[q]
    return best


@inner
def takes_part(q: int, bucket: float, work: Division) -> bool:
    """Whether the queue is of this priority and not satisfied yet."""
    given = work.given[q]
    return bool(work.priority[q] == bucket and work.request[q] > given and work.limit[q] > given)


@inner
def divide_bucket(remaining: float, k_value: float, bucket: float, n_queues: int, work: Division) -> float:
    """The over-quota rounds of one priority (2.3 step 2a). Returns what remains."""
    again = True
    # above 0, not unequal: rounding may leave a hair less than nothing, of which nobody can be given a part
    while again and remaining > 0.0:
        again = False
        total_weight = 0.0
        for q in range(n_queues):
            if work.priority[q] == bucket and work.requestable[q] - work.given[q] > 0.0:
                total_weight += work.weight[q]
        if total_weight == 0.0:
            break
        total_strength = 0.0
        for q in range(n_queues):
            work.strength[q] = 0.0
            if takes_part(q, bucket, work):
                normal = work.weight[q] / total_weight
                work.strength[q] = max(0.0, normal + k_value * (normal - work.usage[q]))
                total_strength += work.strength[q]
        if total_strength == 0.0:
            break
        amount = remaining
        for q in range(n_queues):
            if remaining <= 0.0:
                break
            if not takes_part(q, bucket, work) or work.weight[q] <= 0.0:
                continue
            share = amount * work.strength[q] / total_strength
            want = max(0.0, work.requestable[q] - work.given[q])
            given = want
            if want <= share:
                work.remainder[q] = NO_REMAINDER
            else:
                given = np.floor(share)
                if given != share:
                    work.remainder[q] = share - given
            work.given[q] += given
            remaining -= given
            again = again or (given > 0.0 and want < share)
    return remaining


@inner
def give_remainders(remaining: float, bucket: float, n_queues: int, work: Division) -> float:
    """Hand out one unit each for what rounding took away, largest remainder first, then the older queue (2.3, 3)."""
    while remaining > 0.0:
        best = -1
        for q in range(n_queues):
            left = work.remainder[q]
            if work.priority[q] == bucket and left > 0.0 and (best < 0 or left > work.remainder[best]):
                best = q
        if best < 0:
            break
        given = min(1.0, remaining)
        work.given[best] += given
        remaining -= given
        work.remainder[best] = NO_REMAINDER
    return remaining


@inner
def divide_tree(queues: Queues, k_value: float, book: Book, work: Division) -> None:
    """Write the fair share and allocatable share of every queue (2.4, 2.5) to its row of the book; ``work`` is scratch.

    Children divide what their parent got; the roots divide the cluster, the book's last row. Parents have lower rows,
    so one pass downwards is enough. The allocatable share is how much a queue may hold before it counts as over its
    share; inf = any.
    """
    n_queues = queues.parent.shape[0]
    for step in range(n_queues + 1):
        above = n_queues if step == 0 else step - 1
        first = queues.child_ptr[above]
        n_children = queues.child_ptr[above + 1] - first
        if n_children == 0:
            continue
        for r in range(3):
            for place in range(n_children):
                q = queues.child[first + place]
                work.quota[place] = book.quota[q, r]
                work.limit[place] = book.limit[q, r]
                work.weight[place] = queues.weight[q, r]
                work.request[place] = book.asked[q, r]
                work.usage[place] = queues.usage[q, r]
                work.priority[place] = book.priority[q]
            divide(book.share[above, r] if step == 0 else book.fair[above, r], k_value, n_children, work)
            for place in range(n_children):
                q = queues.child[first + place]
                book.fair[q, r] = work.given[place]
                book.share[q, r] = min(max(book.quota[q, r], work.given[place]), book.limit[q, r])
