"""The order of jobs within a leaf queue during a search: job order among contenders, its inverse among victims
(semantics 1.3, 3.1, 4.3).

There is a sorted list that stays as it is between searches, and a heap beside it. The heap holds the jobs that stand
differently in the current search: victims that lost a chunk, or jobs that take part in a simulation (semantics 1.3,
3.1, 4.3). The next job of the leaf is the better of the first listed job that counts and the top of the heap. With
``last_first`` the inverse of job order holds, as among victims.

Cost: a search never sorts a list again. ``first_job`` only moves the cursor of the list forward, so that one pass over
a leaf costs O(jobs of the leaf) in total; the heap costs O(log of its size) for each change.

Invariant: a job is never counted twice. ``skip[j]`` equals the clock of the current search or scenario for each listed
job that is in the heap or must not be used, and such an entry of the list does not count.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats
from kai_sched.solver.eviction.tables import DEAD, JobOrder
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context


@inner
def job_comes_first(a: int, b: int, ctx: Context, job_order: JobOrder) -> bool:
    """Return whether job ``a`` comes before job ``b`` of the same leaf: job order (1.3), or its inverse.

    Reads ``jobs.priority`` (J,) and ``job_order.jobs.stage`` (J,), which is the stage in the current search. The row
    decides last: rows go by age and uid. The order is total, so that a sorted list is the only one.
    """
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
    """Sort the list of a leaf in place by heapsort; a list that is in order is only read.

    Writes ``listed`` (J,) from ``base`` on. Heapsort needs no space beside the list and no recursion. It is not stable,
    which does not matter as no two jobs are equal in the order.

    Parameters
    ----------
    base, size : int
        Where the list begins in ``listed``, and how many jobs it has.
    """
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
    """Restore the heap of a list whose top is the last job in order, from place ``at`` downwards, in place.

    Reads and writes ``listed`` (J,) from ``base`` to ``base + size``. This is the step of the heapsort of
    ``sort_list``.
    """
    job = job_order.jobs
    while 2 * at + 1 < size:  # Bound: the depth of the heap.
        below = 2 * at + 1
        if below + 1 < size and job_comes_first(job.listed[base + below], job.listed[base + below + 1], ctx, job_order):
            below += 1
        if not job_comes_first(job.listed[base + at], job.listed[base + below], ctx, job_order):
            break
        job.listed[base + at], job.listed[base + below] = job.listed[base + below], job.listed[base + at]
        at = below


@inner
def mark_runs(base: int, size: int, job_order: JobOrder) -> None:
    """Note in ``run_end`` (J,), for each place of a list, where the run of jobs that ask for no more than its job ends.

    All jobs at the places after ``at`` and before ``run_end[base + at]`` ask for at most as much of each resource as
    the job at ``at``. Places count from ``base``. ``skip_equal_jobs`` uses runs to pass many jobs in one step.

    Parameters
    ----------
    base, size : int
        Where the list begins in ``listed``, and where it ends, counted from ``base``.
    """
    job, held = job_order.jobs, job_order.held
    # From the end, so that the runs behind a place are known. If the first job of a run asks for no more than job j,
    # all of the run ask for no more, as "at most" is transitive, and the run is passed in one step. It then is a part
    # of the run of j, and is never visited again: the whole is O(size).
    for at in range(size - 1, -1, -1):
        j, end = job.listed[base + at], at + 1
        while end < size and asks_no_more(job.listed[base + end], j, held):  # Bound: ``end`` grows.
            end = job.run_end[base + end]
        job.run_end[base + at] = end


@inner
def asks_no_more(a: int, b: int, held: Floats) -> bool:
    """Return whether job ``a`` asks for at most as much of each resource as job ``b``, by ``held`` (J, 3)."""
    return bool(held[a, 0] <= held[b, 0] and held[a, 1] <= held[b, 1] and held[a, 2] <= held[b, 2])


@inner
def push_heap(q: int, j: int, ctx: Context, job_order: JobOrder) -> None:
    """Put job ``j`` into the heap of leaf ``q``, in place.

    Writes ``job_order.jobs.heap`` (J,) and ``job_heap_size`` (Q + 1,). The caller marks the listed entry of the job, if
    there is one, by ``skip``.
    """
    job, base = job_order.jobs, job_order.heap.base[q]
    at = job_order.heap.job_heap_size[q]
    job_order.heap.job_heap_size[q] = at + 1
    job.heap[base + at] = j
    while at > 0:  # Bound: the depth of the heap.
        above = (at - 1) // 2
        if not job_comes_first(job.heap[base + at], job.heap[base + above], ctx, job_order):
            break
        job.heap[base + at], job.heap[base + above] = job.heap[base + above], job.heap[base + at]
        at = above


@inner
def pop_heap(q: int, ctx: Context, job_order: JobOrder) -> None:
    """Take the first job out of the heap of leaf ``q``, which must not be empty, in place.

    Writes ``job_order.jobs.heap`` (J,) and ``job_heap_size`` (Q + 1,).
    """
    job, base = job_order.jobs, job_order.heap.base[q]
    size = job_order.heap.job_heap_size[q] - 1
    job_order.heap.job_heap_size[q] = size
    job.heap[base] = job.heap[base + size]
    at = 0
    while 2 * at + 1 < size:  # Bound: the depth of the heap.
        below = 2 * at + 1
        if below + 1 < size and job_comes_first(job.heap[base + below + 1], job.heap[base + below], ctx, job_order):
            below += 1
        if not job_comes_first(job.heap[base + below], job.heap[base + at], ctx, job_order):
            break
        job.heap[base + at], job.heap[base + below] = job.heap[base + below], job.heap[base + at]
        at = below


@inner
def first_job(q: int, ceiling: int, ctx: Context, job_order: JobOrder, clock: int) -> tuple[int, bool]:
    """Return the first job of leaf ``q``, and whether it is from the list.

    Moves ``cursor`` (Q + 1,) in place to the first listed job that counts.

    Parameters
    ----------
    ceiling : int
        A priority: listed jobs of this or a higher priority do not count. Jobs of the heap are not checked, as each of
        them was below the ceiling when it came from the list.
    clock : int
        Listed jobs that are marked with it in ``skip`` (J,) do not count.

    Returns
    -------
    job : int
        NULL if the leaf has no job left.
    listed : bool
        True: the job is at the cursor. False: it is on top of the heap.
    """
    slot, job = job_order.heap, job_order.jobs
    base, end, at = slot.base[q], slot.end[q], slot.cursor[q]
    listed = NULL
    while at < end:  # Bound: ``at`` grows.
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
def largest_gang_of_leaf(q: int, job_order: JobOrder) -> int:
    """Return, of the jobs of leaf ``q`` with the highest priority, the one with the most pods; of two the older one.

    The queue joins its siblings for this job when a simulation begins. ``by_size`` (J,) has all jobs of the leaf in
    this order once and for all. Only jobs that are in the list or in the heap count, and the leaf must have one of
    them. Writes ``first_by_size`` (Q + 1,) in place.
    """
    slot, job = job_order.heap, job_order.jobs
    at, end = slot.first_by_size[q], slot.base[q + 1]
    # Jobs that leave the list for good are passed once: the place found here is where the next call begins.
    # ``candidates.move_in`` puts it back if a job enters the list at an earlier place.
    while at < end and job.skip[job.by_size[at]] == DEAD:  # Bound: ``at`` grows.
        at += 1
    slot.first_by_size[q] = at
    for place in range(slot.base[q], slot.base[q] + slot.job_heap_size[q]):
        at = min(at, job.place[job.heap[place]])
    return int(job.by_size[at])


@inner
def rewind(q: int, job_order: JobOrder) -> None:
    """Let the list of leaf ``q`` begin at its first job: set ``cursor`` (Q + 1,) in place."""
    job_order.heap.cursor[q] = job_order.heap.begin[q]


@inner
def skip_equal_jobs(q: int, ctx: Context, job_order: JobOrder, clock: int) -> None:
    """Move the cursor of leaf ``q`` to the last job of the run of its first job that comes before the top of the heap.

    Use: a job that waits and is not the preemptor only competes in a simulation. It is taken out and gets nothing. With
    thousands of such jobs in a queue, taking them one by one would dominate the simulation.

    Claim: the simulation would take the jobs before the new cursor next, one after the other, and nothing else in
    between. Proof: each of them asks for no more than the first one, and its queue came first with that. Asking for
    less never makes a queue later (2.6), nothing is placed in between, so each of its ancestors stays on top of its
    heap, too.

    Reads ``run_end`` (J,), writes ``cursor`` (Q + 1,) in place. The first job must be from the list.

    Parameters
    ----------
    clock : int
        Listed jobs that are marked with it are in the heap, and do not count.
    """
    slot, job = job_order.heap, job_order.jobs
    base, at = slot.base[q], slot.cursor[q]
    last = min(job.run_end[base + at], slot.end[q])
    if slot.job_heap_size[q] > 0:
        top = job.heap[base]
        # Find by bisection the first place of the run whose job comes after the top of the heap: the order of the
        # list makes "comes after" monotone. A marked entry is no job of the list now, so that the next entry that
        # counts decides for it.
        low, high = at, last
        while low < high:  # Bound: each turn makes the interval shorter.
            middle = (low + high) // 2
            place = middle
            while place < high and job.skip[job.listed[base + place]] == clock:  # Bound: ``place`` grows.
                place += 1
            if place == high or job_comes_first(top, job.listed[base + place], ctx, job_order):
                high = middle
            else:
                low = place + 1
        last = low
    # The last place of the run may be a marked entry. At the latest the search ends at the first job, which counts.
    last -= 1
    while last > at and job.skip[job.listed[base + last]] == clock:  # Bound: ``last`` falls.
        last -= 1
    slot.cursor[q] = max(at, last)
