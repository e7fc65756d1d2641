"""How a resource is divided among sibling queues: quota, over-quota weight, priority, limit, remainders
(semantics 2.3), and down the tree (2.4, 2.5).

CPU (millicores), memory (bytes) and GPUs are divided independently, by the same code. Siblings are entries
0 to n - 1 of the columns of ``work`` (``state.Division``, (Q,) each), the oldest first, so that a tie goes to the
lower entry. Unlimited is inf.

Cost: a division among n siblings takes O(n) for each round and each unit of remainder; a round is repeated only if
it satisfied some queue, so there are about n rounds at most. The tree has 3 (Q + 1) divisions.

Invariant: no queue is given more than it can use (its request within its limit), except by the remainders, one unit
each. The sum may exceed the amount only if the granted quotas do.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.tables import GPU, Floats, Queues
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.gates import ROUNDING
from kai_sched.solver.state import Book, Division

NO_REMAINDER = -1.0


@kernel
def divide_siblings(amount: float, k_value: float, n_queues: int, work: Division) -> None:
    """Divide ``amount`` of one resource among the first ``n_queues`` siblings of ``work`` into ``work.given`` (2.3).

    Quotas come first and are granted in full, even if their sum exceeds the amount. What remains goes over quota by
    priority, in rounds of whole units; then the fractions that rounding left are handed out.

    Parameters
    ----------
    amount : units of the resource, millicores, bytes or GPUs; must not be inf
    k_value : how strongly past usage lowers the part of a queue; without effect where ``work.usage`` is 0 throughout
    n_queues : number of siblings
    work : (Q,) columns; ``quota``, ``limit``, ``weight``, ``request``, ``usage`` and ``priority`` are read, the others
        written in place
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
    while bucket > -np.inf:  # Bound: the number of priorities.
        remaining = divide_bucket(remaining, k_value, bucket, n_queues, work)
        bucket = next_bucket(bucket, n_queues, work)
    bucket = next_bucket(np.inf, n_queues, work)
    # All priorities had their rounds before the remainder of any queue is handed out: a unit that the rounds left over
    # goes to the highest priority that noted a remainder (2.3, step 3).
    while bucket > -np.inf and remaining > 0.0:  # Bound: the number of priorities.
        remaining = give_remainders(remaining, bucket, n_queues, work)
        bucket = next_bucket(bucket, n_queues, work)


@inner
def next_bucket(bucket: float, n_queues: int, work: Division) -> float:
    """Return the highest priority in ``work.priority`` (Q,) that is below ``bucket``; -inf if there is none."""
    best = -np.inf
    for q in range(n_queues):
        if best < work.priority[q] < bucket:
            best = work.priority[q]
    return best


@inner
def takes_part(q: int, bucket: float, work: Division) -> bool:
    """Return whether sibling ``q`` has this priority and wants more than it was given, within its limit.

    Reads the columns ``priority``, ``request``, ``limit`` and ``given`` of ``work``, (Q,) each.
    """
    given = work.given[q]
    return bool(work.priority[q] == bucket and work.request[q] > given and work.limit[q] > given)


@inner
def divide_bucket(remaining: float, k_value: float, bucket: float, n_queues: int, work: Division) -> float:
    """Run the over-quota rounds of one priority (2.3, step 2) and return the amount that remains.

    Parameters
    ----------
    remaining : units to divide, those that the priorities above left over
    k_value : see ``divide_siblings``
    bucket : the priority, a value of ``work.priority`` (Q,)
    n_queues : number of siblings
    work : ``given`` and ``remainder`` (Q,) are updated in place; ``strength`` (Q,) is scratch

    Returns
    -------
    float : units that are left
    """
    again = True
    # Compared with "above 0", not "unequal 0": rounding may leave slightly less than nothing, of which no queue can be
    # given a part.
    # Bound: a round is followed by another if it satisfies a queue. What a sum of floats leaves open of its want, the
    # next round gives exactly, so there are at most two rounds for each queue.
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
        # All parts of a round are shares of the same amount, so the order of the siblings does not matter (step 2a).
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
            # A queue that wanted less than its part is satisfied and leaves the rounds: what it did not take is divided
            # again. Without such a queue another round would only give out what rounding left, which is for remainders.
            again = again or (given > 0.0 and want < share)
    return remaining


@inner
def give_remainders(remaining: float, bucket: float, n_queues: int, work: Division) -> float:
    """Hand out one unit for each noted remainder of one priority, largest first, then the older queue (2.3, step 3).

    ``work.remainder`` (Q,) is the fraction that rounding took away, NO_REMAINDER if there is none; each is served once.
    Adds to ``work.given`` (Q,) in place, the last time less than a unit if less is left, and returns what remains.
    """
    while remaining > 0.0:  # Bound: each turn serves one remainder.
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
def divide_tree(
    queues: Queues, k_value: float, book: Book, asked: Floats, fair: Floats, share: Floats, work: Division
) -> None:
    """Write the fair share and the allocatable share of every queue to its row of ``fair`` and ``share`` (2.4, 2.5).

    The roots divide the cluster, ``share`` of row Q; the children of a queue divide its fair share. The allocatable
    share is what a queue may hold before it counts as over its share; inf: any amount. Nothing is undone: shares stay
    as they are for the whole cycle (2.2).

    Parameters
    ----------
    queues : the tree, with ``weight`` and ``usage`` (Q, 3)
    k_value : see ``divide_siblings``
    book : reads ``quota``, ``limit`` (Q + 1, 3) and ``priority``
    asked, fair, share : (Q + 1, 3); what queues request, and the two that are written. ``asked`` may be ``fair``: the
        requests of siblings are read before their shares are written
    work : scratch, (Q,) columns
    """
    n_queues = queues.parent.shape[0]
    # Parents have lower rows, so one pass downwards is enough: row Q (the cluster) first, then row 0 and on.
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
                work.request[place] = asked[q, r]
                work.usage[place] = queues.usage[q, r]
                work.priority[place] = book.priority[q]
            divide_siblings(share[above, r] if step == 0 else fair[above, r], k_value, n_children, work)
            for place in range(n_children):
                q = queues.child[first + place]
                fair[q, r] = work.given[place]
                share[q, r] = min(max(book.quota[q, r], work.given[place]), book.limit[q, r])


@inner
def lacks_steady_share(q: int, held: Floats, need: float, book: Book) -> bool:
    """Return whether queue ``q`` has fewer GPUs than it may keep, and ``need`` more are within its fair share (4.9).

    False if no GPUs are needed. ``held`` (Q + 1, 3) is what queues have, which may be below 0 (``victims: original``);
    ``book.keep`` is 0 where the setting is off.
    """
    if need <= 0.0 or max(held[q, GPU], 0.0) >= book.keep[q, GPU]:
        return False
    return bool(held[q, GPU] + need - ROUNDING <= book.fair[q, GPU])
