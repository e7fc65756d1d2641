"""Fair share: how one resource is divided among sibling queues (semantics 2.3), and so on down the tree (2.4, 2.5).

Siblings stand side by side in ``work`` f8 (10, W), oldest first, one row a column of the problem: see the row names.
Unlimited = inf.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.tables import Floats, Queues
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.state import ASKED, FAIR, LIMIT, QUEUE_PRIORITY, QUOTA, SHARE

# Rows of the work table: the first six are the problem, GIVEN is the answer, the rest is scratch.
W_QUOTA, W_LIMIT, W_WEIGHT, W_REQUEST, W_USAGE, W_PRIORITY, W_GIVEN, W_REQUESTABLE, W_REMAINDER, W_STRENGTH = range(10)
WORK_ROWS = 10
NO_REMAINDER = -1.0


@kernel
def divide(amount: float, k_value: float, n_queues: int, work: Floats) -> None:
    """Divide ``amount`` of one resource among the first ``n_queues`` siblings of the work table, into its row GIVEN.

    The sum of quotas is granted even where it exceeds the amount; the remainder of a division may lift a queue above
    what it asked for (2.3, steps 1 to 3).
    """
    granted = 0.0
    for q in range(n_queues):
        work[W_REQUESTABLE, q] = min(work[W_LIMIT, q], work[W_REQUEST, q])
        work[W_REMAINDER, q] = NO_REMAINDER
        deserved = amount if np.isinf(work[W_QUOTA, q]) else work[W_QUOTA, q]
        work[W_GIVEN, q] = min(deserved, work[W_REQUESTABLE, q])
        granted += work[W_GIVEN, q]
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
def next_bucket(bucket: float, n_queues: int, work: Floats) -> float:
    """The highest priority below ``bucket``; -inf where there is none."""
    best = -np.inf
    for q in range(n_queues):
        if best < work[W_PRIORITY, q] < bucket:
            best = work[W_PRIORITY, q]
    return best


@inner
def takes_part(q: int, bucket: float, work: Floats) -> bool:
    """Whether the queue is of this priority and not satisfied yet."""
    given = work[W_GIVEN, q]
    return bool(work[W_PRIORITY, q] == bucket and work[W_REQUEST, q] > given and work[W_LIMIT, q] > given)


@inner
def divide_bucket(remaining: float, k_value: float, bucket: float, n_queues: int, work: Floats) -> float:
    """The over-quota rounds of one priority (2.3 step 2a). Returns what remains."""
    again = True
    # above 0, not unequal: rounding may leave a hair less than nothing, of which nobody can be given a part
    while again and remaining > 0.0:
        again = False
        total_weight = 0.0
        for q in range(n_queues):
            if work[W_PRIORITY, q] == bucket and work[W_REQUESTABLE, q] - work[W_GIVEN, q] > 0.0:
                total_weight += work[W_WEIGHT, q]
        if total_weight == 0.0:
            break
        total_strength = 0.0
        for q in range(n_queues):
            work[W_STRENGTH, q] = 0.0
            if takes_part(q, bucket, work):
                normal = work[W_WEIGHT, q] / total_weight
                work[W_STRENGTH, q] = max(0.0, normal + k_value * (normal - work[W_USAGE, q]))
                total_strength += work[W_STRENGTH, q]
        if total_strength == 0.0:
            break
        amount = remaining
        for q in range(n_queues):
            if remaining <= 0.0:
                break
            if not takes_part(q, bucket, work) or work[W_WEIGHT, q] <= 0.0:
                continue
            share = amount * work[W_STRENGTH, q] / total_strength
            want = max(0.0, work[W_REQUESTABLE, q] - work[W_GIVEN, q])
            given = want
            if want <= share:
                work[W_REMAINDER, q] = NO_REMAINDER
            else:
                given = np.floor(share)
                if given != share:
                    work[W_REMAINDER, q] = share - given
            work[W_GIVEN, q] += given
            remaining -= given
            again = again or (given > 0.0 and want < share)
    return remaining


@inner
def give_remainders(remaining: float, bucket: float, n_queues: int, work: Floats) -> float:
    """Hand out one unit each for what rounding took away, largest remainder first, then the older queue (2.3, 3)."""
    while remaining > 0.0:
        best = -1
        for q in range(n_queues):
            left = work[W_REMAINDER, q]
            if work[W_PRIORITY, q] == bucket and left > 0.0 and (best < 0 or left > work[W_REMAINDER, best]):
                best = q
        if best < 0:
            break
        given = min(1.0, remaining)
        work[W_GIVEN, best] += given
        remaining -= given
        work[W_REMAINDER, best] = NO_REMAINDER
    return remaining


@kernel
def divide_tree(queues: Queues, k_value: float, book: Floats, work: Floats) -> None:
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
                work[W_QUOTA, place] = book[q, QUOTA + r]
                work[W_LIMIT, place] = book[q, LIMIT + r]
                work[W_WEIGHT, place] = queues.weight[q, r]
                work[W_REQUEST, place] = book[q, ASKED + r]
                work[W_USAGE, place] = queues.usage[q, r]
                work[W_PRIORITY, place] = book[q, QUEUE_PRIORITY]
            divide(book[above, (SHARE if step == 0 else FAIR) + r], k_value, n_children, work)
            for place in range(n_children):
                q = queues.child[first + place]
                book[q, FAIR + r] = work[W_GIVEN, place]
                book[q, SHARE + r] = min(max(book[q, QUOTA + r], work[W_GIVEN, place]), book[q, LIMIT + r])
