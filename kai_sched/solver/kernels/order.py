"""Which job is tried next: a heap of queues at each level, a heap of jobs in each leaf (semantics 2.6, 3.1).

Heaps are binary and are mended only at the top and only when a path was touched, as the original does: with comparisons
that have gone stale meanwhile, the result depends on it. Storage is flat: the heap of queue q's children lies where its
children lie in ``queues.child``, the heap of a leaf's jobs from ``tree.job_ptr[q]``. ``tree.extra[q]`` is what the job
on top of the path of heads below q asks for.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Ints, Longs, Settings
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Book, Context, Tree


@inner
def job_before(a: int, b: int, settings: Settings, priority: Longs, stage: Ints) -> bool:
    """Job order (1.3): priority, then below, at and above the minimum, then row, which is by age and uid."""
    if settings.priority_order == 1 and priority[a] != priority[b]:
        return bool(priority[a] > priority[b])
    if settings.elastic_order == 1 and stage[a] != stage[b]:
        return bool(stage[a] < stage[b])
    return a < b


@inner
def dominant(q: int, book: Book) -> float:
    """The dominant share (2.5) of what queue ``q`` holds."""
    share = 0.0
    for r in range(3):
        share = max(share, used_share(q, r, book.held[q, r], book))
    return share


@inner
def dominant_with(q: int, extra: Floats, book: Book) -> float:
    """The dominant share (2.5) of what queue ``q`` holds together with the ``extra`` (Q, 3), which may be negative."""
    share = 0.0
    for r in range(3):
        share = max(share, used_share(q, r, book.held[q, r] + extra[q, r], book))
    return share


@inner
def used_share(q: int, r: int, amount: float, book: Book) -> float:
    """Which part ``amount`` of resource ``r`` is of what queue ``q`` is entitled to."""
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
    """Queue order (2.6): whether sibling ``a`` goes before ``b``, given what the next job of each asks for."""
    return goes_first(a, b, book, extra, extra)


@inner
def goes_first(a: int, b: int, book: Book, extra: Floats, left: Floats) -> bool:
    """Queue order (2.6) of siblings.

    ``extra`` (Q, 3): what the next job of each asks for; ``left`` (Q, 3): what counts beside what it holds in its
    dominant share.
    """
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
    if over_a != over_b:
        return over_b
    if starved_a != starved_b:
        return starved_a
    if book.priority[a] != book.priority[b]:
        return bool(book.priority[a] > book.priority[b])
    if violates_a != violates_b:
        return violates_b
    share_a, share_b = dominant_with(a, left, book), dominant_with(b, left, book)
    if share_a != share_b:
        return share_a < share_b
    share_a, share_b = dominant(a, book), dominant(b, book)
    if share_a != share_b:
        return share_a < share_b
    return by_share(a, b, book)


@inner
def by_share(a: int, b: int, book: Book) -> bool:
    """Steps 7 and 8 of queue order (2.6): the allocatable share that is smaller throughout, if any; the lower row."""
    less_a, less_b = False, False
    for r in range(3):
        less_a = less_a or book.share[a, r] < book.share[b, r]
        less_b = less_b or book.share[b, r] < book.share[a, r]
    if less_a != less_b:
        return less_a
    return a < b


@inner
def update_ancestors_of(q: int, parent: Ints, child_ptr: Ints, queue_heap: Ints, extra: Floats) -> None:
    """Carry what the job on top of ``q`` asks for up the path, as long as the path is one of heads."""
    above = parent[q]
    while above != NULL and queue_heap[child_ptr[above]] == q:
        for r in range(3):
            extra[above, r] = extra[q, r]
        q = above
        above = parent[q]


@inner
def queues_up(base: int, at: int, heap: Ints, book: Book, extra: Floats) -> None:
    """Sift the entry at ``at`` of the heap at ``base`` towards the top."""
    while at > 0:
        above = (at - 1) // 2
        if not queue_before(heap[base + at], heap[base + above], book, extra):
            break
        heap[base + at], heap[base + above] = heap[base + above], heap[base + at]
        at = above


@inner
def queues_down(base: int, size: int, heap: Ints, book: Book, extra: Floats) -> None:
    """Sift the top of the heap at ``base`` down to its place."""
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and queue_before(heap[base + below + 1], heap[base + below], book, extra):
            below += 1
        if not queue_before(heap[base + below], heap[base + at], book, extra):
            break
        heap[base + at], heap[base + below] = heap[base + below], heap[base + at]
        at = below


@inner
def jobs_up(base: int, at: int, heap: Ints, ctx: Context, tree: Tree) -> None:
    """Sift the job at ``at`` of the heap at ``base`` towards the top."""
    while at > 0:
        above = (at - 1) // 2
        if not job_before(heap[base + at], heap[base + above], ctx.settings, ctx.snapshot.jobs.priority, tree.stage):
            break
        heap[base + at], heap[base + above] = heap[base + above], heap[base + at]
        at = above


@inner
def jobs_down(base: int, at: int, size: int, heap: Ints, ctx: Context, tree: Tree) -> None:
    """Sift the job at ``at`` of the heap at ``base`` down to its place."""
    settings, priority, stage = ctx.settings, ctx.snapshot.jobs.priority, tree.stage
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and job_before(heap[base + below + 1], heap[base + below], settings, priority, stage):
            below += 1
        if not job_before(heap[base + below], heap[base + at], settings, priority, stage):
            break
        heap[base + at], heap[base + below] = heap[base + below], heap[base + at]
        at = below


@inner
def build_job_tree(depth: int, ctx: Context, tree: Tree) -> None:
    """Make heaps of the jobs that lie in their leaves in any order, and of the queues with jobs, lower levels first.

    A queue joins its siblings for its largest gang, and stays where it is until it comes up: only then is it seen what
    its first job asks for, as the whole tree counts as touched.
    """
    queues = ctx.snapshot.queues
    tree.dirty[:] = 1
    n_queues = queues.parent.shape[0]
    for row in range(n_queues, -1, -1):
        # the roots' heap comes last: its row is that of no queue
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
    """The job with the most pods among those of one leaf, the older of two."""
    largest, most = NULL, 0
    for at in range(base, base + size):
        j = job_heap[at]
        pods = task_ptr[j + 1] - task_ptr[j]
        if pods > most or (pods == most and j < largest):
            largest, most = j, pods
    return largest


@inner
def push_queue(q: int, ctx: Context, tree: Tree) -> None:
    """Put a queue that has work now into its parent's heap, and the parent, if it had none, into its own."""
    queues = ctx.snapshot.queues
    newly = True
    while newly:
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
    """Make a heap of the jobs of leaf ``q`` and leave the best ``depth`` of them in it."""
    base, size = tree.job_ptr[q], tree.job_size[q]
    heap = tree.job_heap
    for at in range(size // 2 - 1, -1, -1):
        jobs_down(base, at, size, heap, ctx, tree)
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
    """Put the job into its leaf; queues that become non-empty join their parents' heaps; the path is marked.

    A leaf holds the best ``depth`` jobs: a worse one falls out (the original drops an arbitrary one).
    """
    settings, jobs = ctx.settings, ctx.snapshot.jobs
    q = jobs.queue[j]
    base = tree.job_ptr[q]
    size = tree.job_size[q]
    at = size
    if size >= depth:
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
    while q != NULL:
        tree.dirty[q] = 1
        q = ctx.snapshot.queues.parent[q]


@inner
def update_leaf(q: int, ctx: Context, tree: Tree) -> None:
    """Take over what the first job of leaf ``q`` asks for."""
    queues = ctx.snapshot.queues
    j = tree.job_heap[tree.job_ptr[q]]
    for r in range(3):
        tree.extra[q, r] = tree.request[j, r]
    update_ancestors_of(q, queues.parent, queues.child_ptr, tree.queue_heap, tree.extra)


@inner
def pop_job(ctx: Context, tree: Tree) -> int:
    """Take the next job out of the tree; NULL if it is empty. Touched heads are put in their place on the way down."""
    queues = ctx.snapshot.queues
    row: int = queues.parent.shape[0]
    if tree.queue_size[row] == 0:
        return NULL
    heap = tree.queue_heap
    q = NULL
    while q == NULL or queues.child_ptr[q] != queues.child_ptr[q + 1]:
        if q != NULL:
            row = q
        base: int = queues.child_ptr[row]
        while tree.dirty[heap[base]] == 1:
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
    """Mark the path above a leaf that gave a job; take emptied queues, which are heads, out of their parents' heaps."""
    queues = ctx.snapshot.queues
    heap = tree.queue_heap
    while q != NULL:
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
