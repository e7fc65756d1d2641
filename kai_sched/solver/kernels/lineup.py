"""Leaves in the order of the queue tree, without building a heap of all jobs each time (semantics 3.1, 4.3).

Above the leaves (``kernels.leaf``) lie the same lazily mended heaps of queues as in ``kernels.order``. With ``flip``
the last job and queue come first, which is the order of victims; queues are then weighed by what would be left to them.
Of what they are compared by only that changes while victims come, so it is all computed once and kept.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Longs, Queues, Settings
from kai_sched.solver.hunt import (
    ALONE,
    ASK,
    BELOW,
    CURSOR,
    DIRTY,
    ENTRY,
    LEAN,
    PAST,
    TIER,
    WITH_LEAN,
    Lineup,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.leaf import largest_gang, peek, pop_heap, push_heap
from kai_sched.solver.kernels.order import by_share, dominant, goes_first
from kai_sched.solver.state import FAIR, HELD, QUEUE_PRIORITY, QUOTA, SHARE


@inner
def queue_leads(a: int, b: int, flip: bool, book: Floats, amount: Floats) -> bool:
    """Queue order (2.6) of two siblings, or its inverse."""
    if not flip:
        return goes_first(a, b, book, amount, ASK)
    for column in range(TIER, ALONE + 1):
        if amount[a, column] != amount[b, column]:
            return bool(amount[b, column] < amount[a, column])
    return by_share(b, a, book)


@inner
def weigh(q: int, book: Floats, amount: Floats) -> None:
    """Compute what queue ``q`` is compared by among victims (``order.goes_first``), but for what would be left to it.

    The least comes first: whether they have more than is fair, or no more than their quota; their priority; whether
    they have any of what they are entitled to none of; last, after WITH_LEAN, their dominant share.
    """
    over, starved, violates = True, True, False
    for r in range(3):
        over = over and book[q, FAIR + r] < book[q, HELD + r]
        starved = starved and book[q, HELD + r] <= book[q, QUOTA + r]
        violates = violates or (book[q, SHARE + r] == 0.0 and book[q, HELD + r] > 0.0)
    amount[q, TIER] = 2.0 * over + (not starved)
    amount[q, TIER + 1] = -book[q, QUEUE_PRIORITY]
    amount[q, TIER + 2] = violates
    amount[q, ALONE] = dominant(q, NULL, book, amount)


@inner
def show(q: int, j: int, flip: bool, queues: Queues, lineup: Lineup, book: Floats) -> None:
    """Take over what job ``j``, the first of leaf ``q``, counts for, up the path of heads."""
    amount = lineup.amount
    for r in range(3):
        if flip:
            amount[q, LEAN + r] = -(amount[q, PAST + r] + lineup.held[j, r])
        else:
            amount[q, ASK + r] = lineup.held[j, r]
    if flip:
        amount[q, WITH_LEAN] = dominant(q, LEAN, book, amount)
    carry(q, flip, queues, lineup, book)


@inner
def carry(q: int, flip: bool, queues: Queues, lineup: Lineup, book: Floats) -> None:
    """Carry what counts for ``q`` up the path, as long as it is one of heads."""
    slot, amount = lineup.slot, lineup.amount
    above = queues.parent[q]
    while above != NULL and slot[queues.child_ptr[above], ENTRY] == q:
        for column in range(PAST):
            amount[above, column] = amount[q, column]
        if flip:
            amount[above, WITH_LEAN] = dominant(above, LEAN, book, amount)
        q = above
        above = queues.parent[q]


@inner
def queue_up(base: int, at: int, flip: bool, slot: Longs, book: Floats, amount: Floats) -> None:
    """Sift the queue at ``at`` of the heap at ``base`` towards the top."""
    while at > 0:
        above = (at - 1) // 2
        if not queue_leads(slot[base + at, ENTRY], slot[base + above, ENTRY], flip, book, amount):
            break
        slot[base + at, ENTRY], slot[base + above, ENTRY] = slot[base + above, ENTRY], slot[base + at, ENTRY]
        at = above


@inner
def queue_down(base: int, size: int, flip: bool, slot: Longs, book: Floats, amount: Floats) -> None:
    """Sift the top of the heap at ``base`` down to its place."""
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and queue_leads(
            slot[base + below + 1, ENTRY], slot[base + below, ENTRY], flip, book, amount
        ):
            below += 1
        if not queue_leads(slot[base + below, ENTRY], slot[base + at, ENTRY], flip, book, amount):
            break
        slot[base + at, ENTRY], slot[base + below, ENTRY] = slot[base + below, ENTRY], slot[base + at, ENTRY]
        at = below


@inner
def line_up(
    ceiling: int,
    flip: bool,
    settings: Settings,
    queues: Queues,
    priority: Longs,
    lineup: Lineup,
    book: Floats,
    clock: int,
) -> None:
    """Begin anew: make the heaps of queues, lower levels first, as ``kernels.order.plant`` does.

    The leaves' own heaps and cursors stay as they are (``rewind``); a leaf that shows no job is left out. Those who
    compete join their siblings for their largest gang; victims' queues for their first job.
    """
    slot, amount = lineup.slot, lineup.amount
    n_queues = queues.parent.shape[0]
    for row in range(n_queues + 1):
        slot[row, BELOW] = 0
        slot[row, DIRTY] = 0 if flip else 1
    for row in range(n_queues, -1, -1):
        # the roots' heap comes last: its row is that of no queue
        above = n_queues if row == 0 else row - 1
        base = int(queues.child_ptr[above])
        for child in range(base, queues.child_ptr[above + 1]):
            q = queues.child[child]
            if queues.child_ptr[q] == queues.child_ptr[q + 1]:
                for column in range(9):
                    amount[q, column] = 0.0
                j, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
                if j == NULL:
                    continue
                show(q, j if flip else largest_gang(q, lineup), flip, queues, lineup, book)
            elif slot[q, BELOW] == 0:
                continue
            if flip:
                weigh(q, book, amount)
            at = slot[above, BELOW]
            slot[base + at, ENTRY] = q
            slot[above, BELOW] = at + 1
            queue_up(base, at, flip, slot, book, amount)
        if row > 0 and slot[above, BELOW] > 0:
            for column in range(PAST):
                amount[above, column] = amount[slot[base, ENTRY], column]
            if flip:
                amount[above, WITH_LEAN] = dominant(above, LEAN, book, amount)
    if not flip:
        for q in range(n_queues):
            j, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
            if queues.child_ptr[q] == queues.child_ptr[q + 1] and j != NULL:
                show(q, j, flip, queues, lineup, book)


@inner
def descend(flip: bool, queues: Queues, lineup: Lineup, book: Floats) -> tuple[int, bool]:
    """The leaf whose first job is next; NULL if there is none. Touched heads are put in their place on the way.

    Also whether that brought another queue to the top below one that had gone first for the job of the old one.
    """
    slot = lineup.slot
    row: int = queues.parent.shape[0]
    if slot[row, BELOW] == 0:
        return NULL, False
    q, turned = NULL, False
    while q == NULL or queues.child_ptr[q] != queues.child_ptr[q + 1]:
        if q != NULL:
            row = q
        base: int = queues.child_ptr[row]
        head = slot[base, ENTRY]
        while slot[slot[base, ENTRY], DIRTY] == 1:
            slot[slot[base, ENTRY], DIRTY] = 0
            queue_down(base, slot[row, BELOW], flip, slot, book, lineup.amount)
            carry(slot[base, ENTRY], flip, queues, lineup, book)
        turned = turned or (q != NULL and slot[base, ENTRY] != head)
        q = slot[base, ENTRY]
    return q, turned


@inner
def take(
    q: int,
    ceiling: int,
    flip: bool,
    settings: Settings,
    queues: Queues,
    priority: Longs,
    lineup: Lineup,
    book: Floats,
    clock: int,
) -> int:
    """Take the first job of leaf ``q`` out and mark the path; queues that are empty leave their parents' heaps."""
    slot, amount = lineup.slot, lineup.amount
    j, listed = peek(q, ceiling, flip, settings, priority, lineup, clock)
    if listed:
        slot[q, CURSOR] += 1
    else:
        pop_heap(q, flip, settings, priority, lineup)
    for r in range(3):
        amount[q, PAST + r] += lineup.held[j, r]
    following, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
    if following != NULL:
        show(q, following, flip, queues, lineup, book)
    empty = following == NULL
    while q != NULL:
        above = queues.parent[q]
        if empty:
            row = above if above != NULL else queues.parent.shape[0]
            base = queues.child_ptr[row]
            size = slot[row, BELOW] - 1
            slot[row, BELOW] = size
            slot[base, ENTRY] = slot[base + size, ENTRY]
            queue_down(base, size, flip, slot, book, amount)
            if size > 0:
                carry(slot[base, ENTRY], flip, queues, lineup, book)
            empty = size == 0
        slot[q, DIRTY] = 1
        q = above
    return j


@inner
def give_back(
    q: int,
    j: int,
    ceiling: int,
    flip: bool,
    settings: Settings,
    queues: Queues,
    priority: Longs,
    lineup: Lineup,
    book: Floats,
    clock: int,
) -> None:
    """Put a job, as it stands now, back into its leaf; queues that become non-empty join their parents' heaps."""
    slot, amount = lineup.slot, lineup.amount
    before, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
    newly = before == NULL
    push_heap(q, j, flip, settings, priority, lineup)
    first, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
    show(q, first, flip, queues, lineup, book)
    while q != NULL:
        above = queues.parent[q]
        row = above if above != NULL else queues.parent.shape[0]
        if newly:
            base = queues.child_ptr[row]
            at = slot[row, BELOW]
            slot[base + at, ENTRY] = q
            slot[row, BELOW] = at + 1
            queue_up(base, at, flip, slot, book, amount)
            carry(slot[base, ENTRY], flip, queues, lineup, book)
            newly = at == 0
        slot[q, DIRTY] = 1
        q = above
