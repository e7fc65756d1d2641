"""Which job is tried next: queue order (semantics 2.6) and job order (1.3), from heaps of queues and of jobs (3.1).

Storage is flat. The heap of the children of queue ``q`` lies where its children lie in ``queues.child``; row Q is the
heap of the roots. The heap of the jobs of leaf ``q`` begins at ``tree.job_ptr[q]``. ``tree.extra[q]`` is what the job
asks for that one reaches from ``q`` by going from head to head.

Invariant: the heap of a leaf is always in order. The heaps of queues are not: a queue whose holdings changed keeps its
place, and ``tree.dirty`` marks the path above it. A marked queue is sifted down only when it is the head of its heap.
So the plan depends on when heaps are mended; this is the lazy sorting of 3.1, and must not be "repaired".

Cost, with Q queues on L levels and J jobs: building takes O(J + Q log Q) comparisons; taking one job out takes
O(L log Q + log J), as each job taken out or put back marks one path of L queues.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Ints, Longs, Settings
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.share import lacks_steady_share
from kai_sched.solver.state import Book, Context, Tree


@inner
def job_before(a: int, b: int, settings: Settings, priority: Longs, stage: Ints) -> bool:
    """Return whether job ``a`` goes before job ``b`` of the same leaf queue in job order (1.3).

    Higher priority first, then the lower ``stage``: below, at, above the minimum; then the lower row, which is age and
    uid. The plugins priority and elastic switch the first two steps. ``priority`` and ``stage`` are ``jobs.priority``
    and ``tree.stage``, (J,) each.
    """
    if settings.priority_order == 1 and priority[a] != priority[b]:
        return bool(priority[a] > priority[b])
    if settings.elastic_order == 1 and stage[a] != stage[b]:
        return bool(stage[a] < stage[b])
    return a < b


@inner
def dominant(q: int, book: Book) -> float:
    """Return the dominant share (2.5) of what queue ``q`` holds, of ``book.held`` (Q + 1, 3), at least 0."""
    share = 0.0
    for r in range(3):
        share = max(share, used_share(q, r, book.held[q, r], book))
    return share


@inner
def dominant_with(q: int, extra: Floats, book: Book) -> float:
    """Return the dominant share (2.5) of what ``q`` holds and ``extra`` (Q, 3) together, at least 0.

    ``extra`` is negative where a victim is to leave.
    """
    share = 0.0
    for r in range(3):
        share = max(share, used_share(q, r, book.held[q, r] + extra[q, r], book))
    return share


@inner
def used_share(q: int, r: int, amount: float, book: Book) -> float:
    """Return which part ``amount`` is of the allocatable share of ``q``, in ``book.share`` (Q + 1, 3); see 2.5.

    Of an unlimited share (inf) it is the part of the cluster's capacity, row Q. If the share is 0, the amount counts
    1000 times.
    """
    entitled = book.share[q, r]
    if entitled == 0.0:
        return float(amount * 1000.0)
    if entitled == np.inf:
        entitled = book.share[book.share.shape[0] - 1, r]
    if entitled > 0.0:
        return float(amount / entitled)
    return np.inf if amount > 0.0 else 0.0


@inner
def queue_before(a: int, b: int, book: Book, extra: Floats) -> bool:
    """Return whether sibling queue ``a`` goes before ``b`` in queue order (2.6).

    The first of the eight steps that tells the queues apart decides; step 8 compares rows, so the order is total. Reads
    ``held``, ``fair``, ``quota``, ``share`` and ``keep`` of the book, (Q + 1, 3) each, and ``priority``. ``extra``
    (Q, 3) is what the next job of each queue asks for (steps 2, 4 and 5).
    """
    # The flags are those of steps 1, 2 and 4 of 2.6: over its fair share in all three resources; within its quota with
    # the next chunk in all three; holding something of a resource of which it is entitled to none.
    over_a, over_b = True, True
    starved_a, starved_b = True, True
    violates_a, violates_b = False, False
    for r in range(3):
        over_a = over_a and book.fair[a, r] < book.held[a, r]
        over_b = over_b and book.fair[b, r] < book.held[b, r]
        with_a, with_b = book.held[a, r] + extra[a, r], book.held[b, r] + extra[b, r]
        starved_a = starved_a and with_a <= book.quota[a, r]
        starved_b = starved_b and with_b <= book.quota[b, r]
        violates_a = violates_a or (book.share[a, r] == 0.0 and with_a > 0.0)
        violates_b = violates_b or (book.share[b, r] == 0.0 and with_b > 0.0)
    # Room that was made for a queue below its steady share must not go back to the queue that lost it (4.9).
    short_a = lacks_steady_share(a, book.held, extra[a, GPU], book)
    short_b = lacks_steady_share(b, book.held, extra[b, GPU], book)
    if short_a != short_b:
        return short_a
    if over_a != over_b:
        return over_b
    if starved_a != starved_b:
        return starved_a
    if book.priority[a] != book.priority[b]:
        return bool(book.priority[a] > book.priority[b])
    if violates_a != violates_b:
        return violates_b
    share_a, share_b = dominant_with(a, extra, book), dominant_with(b, extra, book)
    if share_a != share_b:
        return share_a < share_b
    share_a, share_b = dominant(a, book), dominant(b, book)
    if share_a != share_b:
        return share_a < share_b
    return by_share(a, b, book)


@inner
def by_share(a: int, b: int, book: Book) -> bool:
    """Return whether ``a`` goes before ``b`` by steps 7 and 8 of queue order (2.6).

    A row of ``book.share`` (Q + 1, 3) that is smaller in some resource and larger in none goes first, else the lower
    row.
    """
    less_a, less_b = False, False
    for r in range(3):
        less_a = less_a or book.share[a, r] < book.share[b, r]
        less_b = less_b or book.share[b, r] < book.share[a, r]
    if less_a != less_b:
        return less_a
    return a < b


@inner
def update_ancestors_of(q: int, parent: Ints, child_ptr: Ints, queue_heap: Ints, extra: Floats) -> None:
    """Copy ``extra[q]`` (Q, 3) to the queues above ``q``, in place, up to the first that is not the head of its heap.

    A queue that is not the head of ``queue_heap`` (Q,) does not change what its parent is compared with.
    """
    above = parent[q]
    while above != NULL and queue_heap[child_ptr[above]] == q:  # Bound: the depth of the queue tree.
        for r in range(3):
            extra[above, r] = extra[q, r]
        q = above
        above = parent[q]


@inner
def queues_up(base: int, at: int, heap: Ints, book: Book, extra: Floats) -> None:
    """Sift the entry at ``base + at`` of ``heap`` (Q,) towards the head of its heap at ``base``, in place."""
    while at > 0:  # Bound: the depth of the heap.
        above = (at - 1) // 2
        if not queue_before(heap[base + at], heap[base + above], book, extra):
            break
        heap[base + at], heap[base + above] = heap[base + above], heap[base + at]
        at = above


@inner
def queues_down(base: int, size: int, heap: Ints, book: Book, extra: Floats) -> None:
    """Sift the head of the heap of ``size`` queues at ``base`` of ``heap`` (Q,) down to its place, in place."""
    at = 0
    while 2 * at + 1 < size:  # Bound: the depth of the heap.
        below = 2 * at + 1
        if below + 1 < size and queue_before(heap[base + below + 1], heap[base + below], book, extra):
            below += 1
        if not queue_before(heap[base + below], heap[base + at], book, extra):
            break
        heap[base + at], heap[base + below] = heap[base + below], heap[base + at]
        at = below


@inner
def jobs_up(base: int, at: int, heap: Ints, ctx: Context, tree: Tree) -> None:
    """Sift the job at ``base + at`` of ``heap`` (J,) towards the head of its leaf's heap at ``base``, in place."""
    while at > 0:  # Bound: the depth of the heap.
        above = (at - 1) // 2
        if not job_before(heap[base + at], heap[base + above], ctx.settings, ctx.snapshot.jobs.priority, tree.stage):
            break
        heap[base + at], heap[base + above] = heap[base + above], heap[base + at]
        at = above


@inner
def jobs_down(base: int, at: int, size: int, heap: Ints, ctx: Context, tree: Tree) -> None:
    """Sift the job at ``base + at`` of ``heap`` (J,) down to its place in a leaf's heap of ``size``, in place."""
    settings, priority, stage = ctx.settings, ctx.snapshot.jobs.priority, tree.stage
    while 2 * at + 1 < size:  # Bound: the depth of the heap.
        below = 2 * at + 1
        if below + 1 < size and job_before(heap[base + below + 1], heap[base + below], settings, priority, stage):
            below += 1
        if not job_before(heap[base + below], heap[base + at], settings, priority, stage):
            break
        heap[base + at], heap[base + below] = heap[base + below], heap[base + at]
        at = below


@inner
def build_job_tree(depth: int, ctx: Context, tree: Tree) -> None:
    """Make the heaps of an action from the jobs that the caller put into their leaves in any order (3.1).

    Orders ``tree.job_heap`` (J,), keeps at most ``depth`` jobs in each leaf, and fills ``queue_heap`` (Q,),
    ``queue_size`` (Q + 1,), ``extra`` (Q, 3) and ``dirty`` (Q,) of the tree. Reads ``tree.request`` (J, 3).

    A queue joins its siblings for its largest gang. After that ``extra`` is what its best job asks for, but no queue
    moves: all are marked, and each is compared by its best job when it becomes the head of its heap.
    """
    queues = ctx.snapshot.queues
    tree.dirty[:] = 1
    n_queues = queues.parent.shape[0]
    # From the last row to row 0, and row Q after them: parents have lower rows, so the heap of each queue is complete,
    # and its ``extra`` known, before the queue joins its siblings.
    for row in range(n_queues, -1, -1):
        above = n_queues if row == 0 else row - 1
        base = int(queues.child_ptr[above])
        for child in range(base, queues.child_ptr[above + 1]):
            q = queues.child[child]
            if tree.job_size[q] > 0:
                keep_best(q, depth, ctx, tree)
                j = largest_gang(tree.job_ptr[q], tree.job_size[q], ctx.snapshot.jobs.task_ptr, tree.job_heap)
                for r in range(3):
                    tree.extra[q, r] = tree.request[j, r]
            elif tree.queue_size[q] == 0:
                continue
            slot = int(tree.queue_size[above])
            tree.queue_heap[base + slot] = q
            tree.queue_size[above] = slot + 1
            queues_up(base, slot, tree.queue_heap, ctx.state.book, tree.extra)
        if row > 0 and tree.queue_size[above] > 0:
            for r in range(3):
                tree.extra[above, r] = tree.extra[tree.queue_heap[base], r]
    for q in range(n_queues):
        if tree.job_size[q] > 0:
            update_leaf(q, ctx, tree)


@inner
def largest_gang(base: int, size: int, task_ptr: Ints, job_heap: Ints) -> int:
    """Return the job with the most pods among ``job_heap[base : base + size]``, of (J,); the older of two."""
    largest, most = NULL, 0
    for at in range(base, base + size):
        j = job_heap[at]
        pods = task_ptr[j + 1] - task_ptr[j]
        if pods > most or (pods == most and j < largest):
            largest, most = j, pods
    return largest


@inner
def push_queue(q: int, ctx: Context, tree: Tree) -> None:
    """Add queue ``q``, which has jobs again, to the heap of its parent, in place.

    A parent that was empty until now joins the heap above in the same way, and so on up to row Q of ``queue_size``
    (Q + 1,). ``tree.extra`` (Q, 3) is carried up from the head of each heap that changed.
    """
    queues = ctx.snapshot.queues
    newly = True
    # The loop ends at the first queue that had other children with jobs, which is in its parent's heap already.
    while newly:  # Bound: the depth of the queue tree.
        above = queues.parent[q]
        row = above if above != NULL else queues.parent.shape[0]
        base, slot = queues.child_ptr[row], tree.queue_size[row]
        tree.queue_heap[base + slot] = q
        tree.queue_size[row] = slot + 1
        queues_up(base, slot, tree.queue_heap, ctx.state.book, tree.extra)
        update_ancestors_of(tree.queue_heap[base], queues.parent, queues.child_ptr, tree.queue_heap, tree.extra)
        newly = slot == 0 and above != NULL
        q = above


@inner
def keep_best(q: int, depth: int, ctx: Context, tree: Tree) -> None:
    """Order the heap of leaf ``q`` in place and drop all but its best ``depth`` jobs.

    Writes ``tree.job_heap`` (J,) and ``tree.job_size`` (Q,); ``tree.sorted_jobs`` (J,) is scratch.
    """
    base, size = tree.job_ptr[q], tree.job_size[q]
    heap = tree.job_heap
    for at in range(size // 2 - 1, -1, -1):
        jobs_down(base, at, size, heap, ctx, tree)
    # Otherwise take the best ``depth`` jobs out. A sorted list is a heap, so they go back as they are.
    if size <= depth:
        return
    for place in range(depth):
        tree.sorted_jobs[base + place] = heap[base]
        heap[base] = heap[base + size - 1 - place]
        jobs_down(base, 0, size - 1 - place, heap, ctx, tree)
    for place in range(depth):
        heap[base + place] = tree.sorted_jobs[base + place]
    tree.job_size[q] = depth


@inner
def push_job(j: int, depth: int, ctx: Context, tree: Tree) -> None:
    """Put a job back into its leaf, with the request that ``tree.request`` (J, 3) has now.

    A leaf without jobs joins the heap of its parent (``push_queue``). The queues of the path are marked in
    ``tree.dirty`` (Q,), as what they hold or what they are compared with has changed. A leaf holds at most ``depth``
    jobs: if it is full, its worst job falls out, or ``j`` itself. The cost is O(log J), or O(``depth``) for a full
    leaf.
    """
    settings, jobs = ctx.settings, ctx.snapshot.jobs
    q = jobs.queue[j]
    base = tree.job_ptr[q]
    size = tree.job_size[q]
    at = size
    if size >= depth:
        # The leaf is full. The worst job of a heap can be anywhere in its lower half, so all are compared.
        at = 0
        for other in range(1, size):
            if job_before(tree.job_heap[base + at], tree.job_heap[base + other], settings, jobs.priority, tree.stage):
                at = other
        if job_before(tree.job_heap[base + at], j, settings, jobs.priority, tree.stage):
            return
    else:
        tree.job_size[q] = size + 1
    tree.job_heap[base + at] = j
    jobs_up(base, at, tree.job_heap, ctx, tree)
    update_leaf(q, ctx, tree)
    if size == 0:
        push_queue(q, ctx, tree)
    while q != NULL:  # Bound: the depth of the queue tree.
        tree.dirty[q] = 1
        q = ctx.snapshot.queues.parent[q]


@inner
def update_leaf(q: int, ctx: Context, tree: Tree) -> None:
    """Set ``tree.extra[q]`` (Q, 3) of a leaf to what its first job asks for, and carry it up the path."""
    queues = ctx.snapshot.queues
    j = tree.job_heap[tree.job_ptr[q]]
    for r in range(3):
        tree.extra[q, r] = tree.request[j, r]
    update_ancestors_of(q, queues.parent, queues.child_ptr, tree.queue_heap, tree.extra)


@inner
def pop_job(ctx: Context, tree: Tree) -> int:
    """Take the next job out of the tree and return it (3.1); NULL if the tree is empty.

    On the way down each marked head is sifted down, until the heads on the path carry no mark. Writes ``queue_heap``
    (Q,), ``dirty`` (Q,), ``extra`` (Q, 3) and the heap of the leaf in place; leaves the path of the leaf marked.
    """
    queues = ctx.snapshot.queues
    row: int = queues.parent.shape[0]
    if tree.queue_size[row] == 0:
        return NULL
    heap = tree.queue_heap
    q = NULL
    while q == NULL or queues.child_ptr[q] != queues.child_ptr[q + 1]:  # Bound: the depth of the queue tree.
        if q != NULL:
            row = q
        base: int = queues.child_ptr[row]
        # Each turn clears one mark, so the loop ends. A head that sifts down brings up another one, which may be marked
        # too.
        while tree.dirty[heap[base]] == 1:  # Bound: each turn clears one mark.
            tree.dirty[heap[base]] = 0
            queues_down(base, tree.queue_size[row], heap, ctx.state.book, tree.extra)
            update_ancestors_of(heap[base], queues.parent, queues.child_ptr, heap, tree.extra)
        q = heap[base]
    base = tree.job_ptr[q]
    j: int = tree.job_heap[base]
    size = tree.job_size[q] - 1
    tree.job_size[q] = size
    tree.job_heap[base] = tree.job_heap[base + size]
    jobs_down(base, 0, size, tree.job_heap, ctx, tree)
    if size > 0:
        update_leaf(q, ctx, tree)
    pop_empty_queues(q, size == 0, ctx, tree)
    return j


@inner
def pop_empty_queues(q: int, empty: bool, ctx: Context, tree: Tree) -> None:
    """Mark the queues from leaf ``q``, which gave a job, up to its root in ``tree.dirty`` (Q,), in place.

    With ``empty`` the leaf has no jobs left: it leaves its parent's heap, and so does each ancestor that becomes empty.
    Each of them is the head of its heap, because ``pop_job`` came down from head to head.
    """
    queues = ctx.snapshot.queues
    heap = tree.queue_heap
    while q != NULL:  # Bound: the depth of the queue tree.
        above = queues.parent[q]
        if empty:
            row = above if above != NULL else queues.parent.shape[0]
            base = queues.child_ptr[row]
            size = tree.queue_size[row] - 1
            tree.queue_size[row] = size
            heap[base] = heap[base + size]
            queues_down(base, size, heap, ctx.state.book, tree.extra)
            if size > 0:
                update_ancestors_of(heap[base], queues.parent, queues.child_ptr, heap, tree.extra)
            empty = size == 0
        tree.dirty[q] = 1
        q = above
