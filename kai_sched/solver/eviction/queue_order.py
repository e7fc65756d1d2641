"""Leaves in the order of the queue tree, without building a heap of all jobs each time (semantics 3.1, 4.3).

Above the leaves (``leaf_order``) are the same lazily updated heaps of queues as in ``kernels.order``. With
``last_first`` the last job and queue come first, which is the order of victims; queues are then compared by what would
be left to them.
Of what they are compared by only that changes while victims come, so it is all computed once and kept.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction.leaf_order import first_job, largest_gang, pop_heap, push_heap
from kai_sched.solver.eviction.tables import JobOrder
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.order import by_share, dominant, dominant_with, goes_first
from kai_sched.solver.state import Context


@inner
def queue_comes_first(a: int, b: int, ctx: Context, job_order: JobOrder) -> bool:
    """Queue order (2.6) of two siblings, or its inverse."""
    book, amount = ctx.state.book, job_order.weights
    if not job_order.last_first:
        return goes_first(a, b, book, amount.request, amount.request)
    if amount.tier[a] != amount.tier[b]:
        return bool(amount.tier[b] < amount.tier[a])
    if book.priority[a] != book.priority[b]:
        return bool(book.priority[b] > book.priority[a])
    if amount.violates[a] != amount.violates[b]:
        return bool(amount.violates[b] < amount.violates[a])
    if amount.share_left[a] != amount.share_left[b]:
        return bool(amount.share_left[b] < amount.share_left[a])
    if amount.share[a] != amount.share[b]:
        return bool(amount.share[b] < amount.share[a])
    return by_share(b, a, book)


@inner
def update_weights(q: int, ctx: Context, job_order: JobOrder) -> None:
    """Compute what queue ``q`` is compared by among victims (``order.goes_first``), but for what would be left to it.

    The least comes first: whether they have more than is fair, or no more than their quota; their priority; whether
    they have any of what they are entitled to none of; last, after ``share_left``, their dominant share.
    """
    book, amount = ctx.state.book, job_order.weights
    over, starved, violates = True, True, False
    for r in range(3):
        over = over and book.fair[q, r] < book.held[q, r]
        starved = starved and book.held[q, r] <= book.quota[q, r]
        violates = violates or (book.share[q, r] == 0.0 and book.held[q, r] > 0.0)
    amount.tier[q] = 2 * over + (not starved)
    amount.violates[q] = violates
    amount.share[q] = dominant(q, book)


@inner
def show(q: int, j: int, ctx: Context, job_order: JobOrder) -> None:
    """Take over what job ``j``, the first of leaf ``q``, counts for, up the path of heads."""
    last_first = job_order.last_first
    amount = job_order.weights
    for r in range(3):
        if last_first:
            amount.left[q, r] = -(amount.taken[q, r] + job_order.held[j, r])
        else:
            amount.request[q, r] = job_order.held[j, r]
    if last_first:
        amount.share_left[q] = dominant_with(q, amount.left, ctx.state.book)
    carry(q, ctx, job_order)


@inner
def carry(q: int, ctx: Context, job_order: JobOrder) -> None:
    """Carry what counts for ``q`` up the path, as long as it is one of heads."""
    queues = ctx.snapshot.queues
    slot, amount = job_order.heap, job_order.weights
    above = queues.parent[q]
    while above != NULL and slot.entry[queues.child_ptr[above]] == q:
        for r in range(3):
            amount.request[above, r], amount.left[above, r] = amount.request[q, r], amount.left[q, r]
        if job_order.last_first:
            amount.share_left[above] = dominant_with(above, amount.left, ctx.state.book)
        q = above
        above = queues.parent[q]


@inner
def sift_queue_up(base: int, at: int, ctx: Context, job_order: JobOrder) -> None:
    """Sift the queue at ``at`` of the heap at ``base`` towards the top."""
    slot = job_order.heap
    while at > 0:
        above = (at - 1) // 2
        if not queue_comes_first(slot.entry[base + at], slot.entry[base + above], ctx, job_order):
            break
        slot.entry[base + at], slot.entry[base + above] = slot.entry[base + above], slot.entry[base + at]
        at = above


@inner
def sift_queue_down(base: int, size: int, ctx: Context, job_order: JobOrder) -> None:
    """Sift the top of the heap at ``base`` down to its place."""
    slot = job_order.heap
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and queue_comes_first(
            slot.entry[base + below + 1], slot.entry[base + below], ctx, job_order
        ):
            below += 1
        if not queue_comes_first(slot.entry[base + below], slot.entry[base + at], ctx, job_order):
            break
        slot.entry[base + at], slot.entry[base + below] = slot.entry[base + below], slot.entry[base + at]
        at = below


@inner
def build_queue_heaps(ceiling: int, ctx: Context, job_order: JobOrder, clock: int) -> None:
    """Begin anew: make the heaps of queues, lower levels first, as ``kernels.order.build_job_tree`` does.

    The leaves' own heaps and cursors stay as they are (``rewind``); a leaf that shows no job is left out. Those who
    compete join their siblings for their largest gang; victims' queues for their first job.
    """
    last_first, queues = job_order.last_first, ctx.snapshot.queues
    slot, amount = job_order.heap, job_order.weights
    n_queues = queues.parent.shape[0]
    for row in range(n_queues + 1):
        slot.size[row] = 0
        slot.dirty[row] = 0 if last_first else 1
    for row in range(n_queues, -1, -1):
        # the roots' heap comes last: its row is that of no queue
        above = n_queues if row == 0 else row - 1
        base = int(queues.child_ptr[above])
        for child in range(base, queues.child_ptr[above + 1]):
            q = queues.child[child]
            if queues.child_ptr[q] == queues.child_ptr[q + 1]:
                for r in range(3):
                    amount.request[q, r], amount.left[q, r], amount.taken[q, r] = 0.0, 0.0, 0.0
                j, _ = first_job(q, ceiling, ctx, job_order, clock)
                if j == NULL:
                    continue
                show(q, j if last_first else largest_gang(q, job_order), ctx, job_order)
            elif slot.size[q] == 0:
                continue
            if last_first:
                update_weights(q, ctx, job_order)
            at = int(slot.size[above])
            slot.entry[base + at] = q
            slot.size[above] = at + 1
            sift_queue_up(base, at, ctx, job_order)
        if row > 0 and slot.size[above] > 0:
            head = slot.entry[base]
            for r in range(3):
                amount.request[above, r], amount.left[above, r] = amount.request[head, r], amount.left[head, r]
            if last_first:
                amount.share_left[above] = dominant_with(above, amount.left, ctx.state.book)
    if not last_first:
        for q in range(n_queues):
            j, _ = first_job(q, ceiling, ctx, job_order, clock)
            if queues.child_ptr[q] == queues.child_ptr[q + 1] and j != NULL:
                show(q, j, ctx, job_order)


@inner
def next_leaf(ctx: Context, job_order: JobOrder) -> tuple[int, bool]:
    """The leaf whose first job is next; NULL if there is none. Touched heads are put in their place on the way.

    Also whether that brought another queue to the top below one that had gone first for the job of the old one.
    """
    queues = ctx.snapshot.queues
    slot = job_order.heap
    row: int = queues.parent.shape[0]
    if slot.size[row] == 0:
        return NULL, False
    q, turned = NULL, False
    while q == NULL or queues.child_ptr[q] != queues.child_ptr[q + 1]:
        if q != NULL:
            row = q
        base: int = queues.child_ptr[row]
        head = slot.entry[base]
        while slot.dirty[slot.entry[base]] == 1:
            slot.dirty[slot.entry[base]] = 0
            sift_queue_down(base, slot.size[row], ctx, job_order)
            carry(slot.entry[base], ctx, job_order)
        turned = turned or (q != NULL and slot.entry[base] != head)
        q = slot.entry[base]
    return q, turned


@inner
def take(q: int, ceiling: int, ctx: Context, job_order: JobOrder, clock: int) -> int:
    """Take the first job of leaf ``q`` out and mark the path; queues that are empty leave their parents' heaps."""
    queues = ctx.snapshot.queues
    slot, amount = job_order.heap, job_order.weights
    j, listed = first_job(q, ceiling, ctx, job_order, clock)
    if listed:
        slot.cursor[q] += 1
    else:
        pop_heap(q, ctx, job_order)
    for r in range(3):
        amount.taken[q, r] += job_order.held[j, r]
    following, _ = first_job(q, ceiling, ctx, job_order, clock)
    if following != NULL:
        show(q, following, ctx, job_order)
    empty = following == NULL
    while q != NULL:
        above = queues.parent[q]
        if empty:
            row = above if above != NULL else queues.parent.shape[0]
            base = queues.child_ptr[row]
            size = slot.size[row] - 1
            slot.size[row] = size
            slot.entry[base] = slot.entry[base + size]
            sift_queue_down(base, size, ctx, job_order)
            if size > 0:
                carry(slot.entry[base], ctx, job_order)
            empty = size == 0
        slot.dirty[q] = 1
        q = above
    return j


@inner
def push_job_back(q: int, j: int, ceiling: int, ctx: Context, job_order: JobOrder, clock: int) -> None:
    """Put a job, as it stands now, back into its leaf; queues that become non-empty join their parents' heaps."""
    queues = ctx.snapshot.queues
    slot = job_order.heap
    before, _ = first_job(q, ceiling, ctx, job_order, clock)
    newly = before == NULL
    push_heap(q, j, ctx, job_order)
    first, _ = first_job(q, ceiling, ctx, job_order, clock)
    show(q, first, ctx, job_order)
    while q != NULL:
        above = queues.parent[q]
        row = above if above != NULL else queues.parent.shape[0]
        if newly:
            base = queues.child_ptr[row]
            at = slot.size[row]
            slot.entry[base + at] = q
            slot.size[row] = at + 1
            sift_queue_up(base, at, ctx, job_order)
            carry(slot.entry[base], ctx, job_order)
            newly = at == 0
        slot.dirty[q] = 1
        q = above
