"""The jobs of one leaf in order: a sorted list that stays as it is between searches, and a heap of those that stand
differently in this one (semantics 1.3, 3.1, 4.3). With ``last_first`` the last job comes first, as among victims.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats
from kai_sched.solver.eviction.tables import DEAD, JobOrder
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context


@inner
def job_comes_first(a: int, b: int, ctx: Context, job_order: JobOrder) -> bool:
    """Job order (1.3) of two jobs of one leaf, or its inverse."""
    settings, priority, job = ctx.settings, ctx.snapshot.jobs.priority, job_order.jobs
    if job_order.last_first:
        a, b = b, a
    if settings.priority_order == 1 and priority[a] != priority[b]:
        return bool(priority[a] > priority[b])
    if settings.elastic_order == 1 and job.stage[a] != job.stage[b]:
        return bool(job.stage[a] < job.stage[b])
    return a < b


@inner
def sort_list(base: int, size: int, ctx: Context, job_order: JobOrder) -> None:
    """Sort the list of a leaf (heapsort; one that is in order is left as it is)."""
    job = job_order.jobs
    in_order = True
    for at in range(base + 1, base + size):
        if job_comes_first(job.listed[at], job.listed[at - 1], ctx, job_order):
            in_order = False
            break
    if in_order:
        return
    for at in range(size // 2 - 1, -1, -1):
        sift_last_down(base, at, size, ctx, job_order)
    for end in range(size - 1, 0, -1):
        job.listed[base], job.listed[base + end] = job.listed[base + end], job.listed[base]
        sift_last_down(base, 0, end, ctx, job_order)


@inner
def sift_last_down(base: int, at: int, size: int, ctx: Context, job_order: JobOrder) -> None:
    """Restore the heap of a list whose top is the last in order, from place ``at`` downwards."""
    job = job_order.jobs
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and job_comes_first(job.listed[base + below], job.listed[base + below + 1], ctx, job_order):
            below += 1
        if not job_comes_first(job.listed[base + at], job.listed[base + below], ctx, job_order):
            break
        job.listed[base + at], job.listed[base + below] = job.listed[base + below], job.listed[base + at]
        at = below


@inner
def mark_runs(base: int, size: int, job_order: JobOrder) -> None:
    """Note at each place of a list where the run of jobs that ask for no more than the one there ends."""
    job, held = job_order.jobs, job_order.held
    for at in range(size - 1, -1, -1):
        j, end = job.listed[base + at], at + 1
        while end < size and asks_no_more(job.listed[base + end], j, held):
            end = job.run_end[base + end]
        job.run_end[base + at] = end


@inner
def asks_no_more(a: int, b: int, held: Floats) -> bool:
    """Whether job ``a`` asks for at most as much of every resource as job ``b``."""
    return bool(held[a, 0] <= held[b, 0] and held[a, 1] <= held[b, 1] and held[a, 2] <= held[b, 2])


@inner
def push_heap(q: int, j: int, ctx: Context, job_order: JobOrder) -> None:
    """Put a job into the heap of its leaf."""
    job, base = job_order.jobs, job_order.heap.base[q]
    at = job_order.heap.job_heap_size[q]
    job_order.heap.job_heap_size[q] = at + 1
    job.heap[base + at] = j
    while at > 0:
        above = (at - 1) // 2
        if not job_comes_first(job.heap[base + at], job.heap[base + above], ctx, job_order):
            break
        job.heap[base + at], job.heap[base + above] = job.heap[base + above], job.heap[base + at]
        at = above


@inner
def pop_heap(q: int, ctx: Context, job_order: JobOrder) -> None:
    """Take the top out of the heap of a leaf."""
    job, base = job_order.jobs, job_order.heap.base[q]
    size = job_order.heap.job_heap_size[q] - 1
    job_order.heap.job_heap_size[q] = size
    job.heap[base] = job.heap[base + size]
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and job_comes_first(job.heap[base + below + 1], job.heap[base + below], ctx, job_order):
            below += 1
        if not job_comes_first(job.heap[base + below], job.heap[base + at], ctx, job_order):
            break
        job.heap[base + at], job.heap[base + below] = job.heap[base + below], job.heap[base + at]
        at = below


@inner
def first_job(q: int, ceiling: int, ctx: Context, job_order: JobOrder, clock: int) -> tuple[int, bool]:
    """The first job of leaf ``q`` (NULL: none), and whether it is from the list.

    ``ceiling``: listed jobs of this priority or a higher one are passed over; ``clock``: so are those marked with it.
    """
    slot, job = job_order.heap, job_order.jobs
    base, end, at = slot.base[q], slot.end[q], slot.cursor[q]
    listed = NULL
    while at < end:
        j = job.listed[base + at]
        if job.skip[j] != clock and ctx.snapshot.jobs.priority[j] < ceiling:
            listed = j
            break
        at += 1
    slot.cursor[q] = at
    if slot.job_heap_size[q] == 0:
        return listed, True
    top = job.heap[base]
    if listed == NULL or job_comes_first(top, listed, ctx, job_order):
        return top, False
    return listed, True


@inner
def largest_gang(q: int, job_order: JobOrder) -> int:
    """Of the jobs of leaf ``q`` with the highest priority the one with the most pods, the older of two."""
    slot, job = job_order.heap, job_order.jobs
    at, end = slot.first_by_size[q], slot.base[q + 1]
    while at < end and job.skip[job.by_size[at]] == DEAD:
        at += 1
    slot.first_by_size[q] = at
    for place in range(slot.base[q], slot.base[q] + slot.job_heap_size[q]):
        at = min(at, job.place[job.heap[place]])
    return int(job.by_size[at])


@inner
def rewind(q: int, job_order: JobOrder) -> None:
    """Let the list of leaf ``q`` begin at its first job."""
    job_order.heap.cursor[q] = job_order.heap.begin[q]


@inner
def skip_equal_jobs(q: int, ctx: Context, job_order: JobOrder, clock: int) -> None:
    """Go to the last of the listed jobs of leaf ``q`` that ask for no more than the first and come before its heap.

    A queue that goes first with the first job does with each of the others, too (2.6: asking for less never makes it
    later), so taking them one by one would lead here again each time. Those marked with ``clock`` stand elsewhere now.
    """
    slot, job = job_order.heap, job_order.jobs
    base, at = slot.base[q], slot.cursor[q]
    last = min(job.run_end[base + at], slot.end[q])
    if slot.job_heap_size[q] > 0:
        top = job.heap[base]
        low, high = at, last
        while low < high:
            middle = (low + high) // 2
            place = middle
            while place < high and job.skip[job.listed[base + place]] == clock:
                place += 1
            if place == high or job_comes_first(top, job.listed[base + place], ctx, job_order):
                high = middle
            else:
                low = place + 1
        last = low
    last -= 1
    while last > at and job.skip[job.listed[base + last]] == clock:
        last -= 1
    slot.cursor[q] = max(at, last)
