"""The order of queues during a search: from which leaf the next contender or victim comes (semantics 2.6, 3.1, 4.3).

No heap of all jobs is made anew for each simulation. Each queue that is no leaf has a binary heap of its children,
compared by queue order (2.6). Sorting is lazy as in ``kernels.order``: a queue that changed is marked ``dirty``, and is
put in its place only when it comes to the top. The jobs of a leaf come from ``victims.leaf_order``.

Contenders come the fairest queue first, and a queue is compared with what its first job asks for. With ``last_first``
victims come the least fair queue first, and a queue is compared by what is left to it once its first job is gone, too.
While victims accumulate, no amount that queues hold changes, but only what was taken: all else that they are
compared by is computed once and kept in ``QueueWeights``.

Cost: O(Q log Q + Q x depth) to build the heaps, and O(depth x log of the siblings) for each job that is taken.

Invariant: a queue is in the heap of its parent exactly if it has a job that counts, or a queue below it has one. A head
and all heads below it form a path, and all queues of the path are compared with the job at its end.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction.tables import JobOrder
from kai_sched.solver.eviction.victims.leaf_order import first_job, largest_gang_of_leaf, pop_heap, push_heap
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.order import by_share, dominant, dominant_with, queue_before
from kai_sched.solver.state import Context


@inner
def queue_comes_first(a: int, b: int, ctx: Context, job_order: JobOrder) -> bool:
    """Return whether sibling ``a`` comes before sibling ``b``: queue order (2.6), or its inverse among victims (4.3).

    Reads ``state.book`` (Q + 1, 3) and ``job_order.weights``. For contenders the request (Q, 3) of the first job
    counts. For victims the steps are those of queue order with no pending job on either side, each of them inverted.
    """
    book, amount = ctx.state.book, job_order.weights
    if not job_order.last_first:
        return queue_before(a, b, book, amount.request)
    # Steps 1 and 2 are one number: above its fair share counts more than not within its quota.
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
    """Compute what queue ``q`` is compared by among victims, except what would be left to it (``update_first_job``).

    Writes in place, (Q,) each: ``tier`` for steps 1 and 2 of queue order (2.6), ``violates`` for step 4, ``share``, the
    dominant share of what it holds, for step 6. None of them depends on the victims that were taken.
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
def update_first_job(q: int, j: int, ctx: Context, job_order: JobOrder) -> None:
    """Compare leaf ``q`` by job ``j`` from now on, and each queue above it that has the leaf on its path of heads.

    Writes ``weights`` in place. For contenders: ``request`` (Q, 3), what the job asks for. For victims: ``left`` (Q,
    3), minus what was taken of the leaf and what the job has left, and ``share_left`` (Q,), the dominant share with it.
    Amounts are in the units of queues.
    """
    last_first = job_order.last_first
    amount = job_order.weights
    for r in range(3):
        if last_first:
            amount.left[q, r] = -(amount.taken[q, r] + job_order.held[j, r])
        else:
            amount.request[q, r] = job_order.held[j, r]
    if last_first:
        amount.share_left[q] = dominant_with(q, amount.left, ctx.state.book)
    carry_upwards(q, ctx, job_order)


@inner
def carry_upwards(q: int, ctx: Context, job_order: JobOrder) -> None:
    """Copy what queue ``q`` is compared by to the queues above it, as long as each is compared by its head.

    Writes ``request`` and ``left`` (Q, 3) in place, and for victims ``share_left`` (Q,), which differs for each queue
    as it holds another amount. Stops at the first queue that is not on top of the heap of its parent.
    """
    queues = ctx.snapshot.queues
    slot, amount = job_order.heap, job_order.weights
    above = queues.parent[q]
    while above != NULL and slot.entry[queues.child_ptr[above]] == q:  # Bound: the depth of the queue tree.
        for r in range(3):
            amount.request[above, r], amount.left[above, r] = amount.request[q, r], amount.left[q, r]
        if job_order.last_first:
            amount.share_left[above] = dominant_with(above, amount.left, ctx.state.book)
        q = above
        above = queues.parent[q]


@inner
def sift_queue_up(base: int, at: int, ctx: Context, job_order: JobOrder) -> None:
    """Move the queue at place ``at`` of the heap from ``base`` on towards the top: ``entry`` (Q + 1,), in place."""
    slot = job_order.heap
    while at > 0:  # Bound: the depth of the heap.
        above = (at - 1) // 2
        if not queue_comes_first(slot.entry[base + at], slot.entry[base + above], ctx, job_order):
            break
        slot.entry[base + at], slot.entry[base + above] = slot.entry[base + above], slot.entry[base + at]
        at = above


@inner
def sift_queue_down(base: int, size: int, ctx: Context, job_order: JobOrder) -> None:
    """Move the queue on top of the heap that begins at ``base`` down to its place, in place (``entry`` (Q + 1,)).

    A heap has ``size`` queues, and lies where the children of its queue lie in ``queues.child``.
    """
    slot = job_order.heap
    at = 0
    while 2 * at + 1 < size:  # Bound: the depth of the heap.
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
    """Build the heaps of all queues anew, lower levels first, and leave out each queue without a job that counts.

    Writes ``job_order.heap`` and ``job_order.weights`` in place, (Q + 1,) and (Q, 3). The heaps and the cursors of
    leaves stay as they are: the caller has filled or emptied them (``victims.leaf_order.rewind``).

    Parameters
    ----------
    ceiling, clock : int
        Which listed jobs do not count, see ``victims.leaf_order.first_job``.
    """
    last_first, queues = job_order.last_first, ctx.snapshot.queues
    slot, amount = job_order.heap, job_order.weights
    n_queues = queues.parent.shape[0]
    for row in range(n_queues + 1):
        slot.size[row] = 0
        slot.dirty[row] = 0 if last_first else 1
    for row in range(n_queues, -1, -1):
        # Parents have lower rows, so rows go backwards. Row Q, of no queue, holds the heap of the root queues. It is
        # built last.
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
                update_first_job(q, j if last_first else largest_gang_of_leaf(q, job_order), ctx, job_order)
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
    # A contender's queue joined its siblings for its largest gang (3.1) and counts from here on with its first job.
    # It stays where it is until it comes to the top: all queues are dirty. The result depends on that order.
    if not last_first:
        for q in range(n_queues):
            j, _ = first_job(q, ceiling, ctx, job_order, clock)
            if queues.child_ptr[q] == queues.child_ptr[q + 1] and j != NULL:
                update_first_job(q, j, ctx, job_order)


@inner
def next_leaf(ctx: Context, job_order: JobOrder) -> tuple[int, bool]:
    """Return the leaf whose first job is next, and whether a head changed below a level that was already decided.

    Goes down from the roots. At each level a dirty head is put in its place first, in place (``entry``, ``dirty``
    (Q + 1,)), until the head is clean.

    Returns
    -------
    leaf : int
        NULL if no queue has a job left.
    turned : bool
        True: below some queue on the way another child came to the top, after that queue had gone first with the job of
        the child before. Perhaps it does not go first with the new one, so that ``skip_equal_jobs`` must not be used.
    """
    queues = ctx.snapshot.queues
    slot = job_order.heap
    row: int = queues.parent.shape[0]
    if slot.size[row] == 0:
        return NULL, False
    q, turned = NULL, False
    while q == NULL or queues.child_ptr[q] != queues.child_ptr[q + 1]:  # Bound: the depth of the queue tree.
        if q != NULL:
            row = q
        base: int = queues.child_ptr[row]
        head = slot.entry[base]
        while slot.dirty[slot.entry[base]] == 1:  # Bound: each turn clears one mark.
            slot.dirty[slot.entry[base]] = 0
            sift_queue_down(base, slot.size[row], ctx, job_order)
            carry_upwards(slot.entry[base], ctx, job_order)
        turned = turned or (q != NULL and slot.entry[base] != head)
        q = slot.entry[base]
    return q, turned


@inner
def take_next_job(q: int, ceiling: int, ctx: Context, job_order: JobOrder, clock: int) -> int:
    """Take the first job of leaf ``q``, which ``next_leaf`` returned, out of the tree, and return it.

    Writes in place: the cursor or the heap of the leaf, ``weights.taken`` (Q, 3), in which what the job holds counts as
    gone, and ``dirty`` (Q + 1,) for the leaf and all queues above it. Queues without a job left leave the heaps.

    Parameters
    ----------
    ceiling, clock : int
        Which listed jobs do not count, see ``victims.leaf_order.first_job``.
    """
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
        update_first_job(q, following, ctx, job_order)
    empty = following == NULL
    # The leaf and all queues above it are heads, as the way down went from head to head. So an empty queue is the top
    # of the heap of its parent, and is replaced by the last entry.
    while q != NULL:  # Bound: the depth of the queue tree.
        above = queues.parent[q]
        if empty:
            row = above if above != NULL else queues.parent.shape[0]
            base = queues.child_ptr[row]
            size = slot.size[row] - 1
            slot.size[row] = size
            slot.entry[base] = slot.entry[base + size]
            sift_queue_down(base, size, ctx, job_order)
            if size > 0:
                carry_upwards(slot.entry[base], ctx, job_order)
            empty = size == 0
        slot.dirty[q] = 1
        q = above
    return j


@inner
def push_job_back(q: int, j: int, ceiling: int, ctx: Context, job_order: JobOrder, clock: int) -> None:
    """Put job ``j``, as it stands now, into the heap of leaf ``q``; an empty queue joins the heap of its parent.

    Writes the heap of the leaf (J,), ``entry`` and ``dirty`` (Q + 1,) in place. Used for the rest of a victim that lost
    a chunk (4.4): the job must not count in the list any more, as the cursor has passed it.

    Parameters
    ----------
    ceiling, clock : int
        Which listed jobs do not count, see ``victims.leaf_order.first_job``.
    """
    queues = ctx.snapshot.queues
    slot = job_order.heap
    before, _ = first_job(q, ceiling, ctx, job_order, clock)
    newly = before == NULL
    push_heap(q, j, ctx, job_order)
    first, _ = first_job(q, ceiling, ctx, job_order, clock)
    update_first_job(q, first, ctx, job_order)
    # A queue that gets its first job joins its siblings, which may be the first one of the queue above, and so on
    # upwards.
    while q != NULL:  # Bound: the depth of the queue tree.
        above = queues.parent[q]
        row = above if above != NULL else queues.parent.shape[0]
        if newly:
            base = queues.child_ptr[row]
            at = slot.size[row]
            slot.entry[base + at] = q
            slot.size[row] = at + 1
            sift_queue_up(base, at, ctx, job_order)
            carry_upwards(slot.entry[base], ctx, job_order)
            newly = at == 0
        slot.dirty[q] = 1
        q = above
