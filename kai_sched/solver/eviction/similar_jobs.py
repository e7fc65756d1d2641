"""When a job is searched for although some of its equivalence class failed in this action: unless it asks for at least
as much as one of them (semantics 3.8).

Jobs of one equivalence class differ in nothing that placement reads but the amounts that they request. The jobs that
failed are remembered, for each queue separately in reclaim and preempt, for all queues together in consolidation:
of each class a list from ``search.failed`` (J,) on, without those that ask for at least as much as another one. With
original victims it is one job, the easiest, and a later one has to be easier.

Cost: O(T x (log T + R)) of both jobs for each of at most ``KEPT_MAX`` jobs.

Invariant: ``search.failed`` is NULL for all classes when an action begins, and only jobs for which a search failed are
in a list. With original victims this is a rule and no proof: a request that is smaller in one resource and larger in
another one does not make a job easier there.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Longs, Snapshot, Status
from kai_sched.solver.eviction.tables import PODS_A_UNIT, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.state import Context

IS_PENDING = int(Status.PENDING)
# Failed jobs of a class that are remembered; of more the first ones are forgotten, and searched for again.
KEPT_MAX = 16
RANK = 2**32  # numbers of classes are below it


@inner
def is_easier(p: int, everywhere: bool, ctx: Context, search: Search) -> bool:
    """Return whether job ``p`` may be helped although jobs of its equivalence class failed, or none failed yet.

    It may unless it asks for at least as much as one of these: for as many pods or more and, with both requests sorted,
    for at least as much in each place. With original victims it has to ask for fewer pods than the one that failed, or
    for less in some place: at most as much of each resource, and less of one. Overwrites ``search.chunk`` and
    ``search.hosts`` (L,).

    Parameters
    ----------
    everywhere : bool
        True: the class counts over all queues (consolidation). False: in the queue of the job.

    Returns
    -------
    bool
        False: the job is skipped. That is so, too, if one of the two jobs asks for nothing any more.
    """
    snapshot, minimal = ctx.snapshot, ctx.settings.minimal == 1
    jobs = snapshot.jobs
    if is_tied(p, ctx):
        return True
    other = search.failed[jobs.equivalence[p] if everywhere else jobs.queue_equivalence[p]]
    n_own = sort_requests(p, ctx, search, search.chunk)
    # Bound: the list has at most ``KEPT_MAX`` jobs.
    while other != NULL:
        n_other = sort_requests(other, ctx, search, search.hosts)
        if n_own == 0 or n_other == 0:
            return False
        easier = n_other > n_own
        for place in range(min(n_own, n_other)):
            own, others = search.chunk[place], search.hosts[place]
            if minimal:
                easier = easier or not asks_within(others, own, snapshot)
            else:
                request = snapshot.classes.request
                easier = easier or (
                    is_within(request[own], request[others]) and not is_within(request[others], request[own])
                )
        if not easier:
            return False
        other = search.next_failed[other]
    return True


@inner
def remember_failure(p: int, everywhere: bool, ctx: Context, search: Search) -> None:
    """Put job ``p`` first in the list of its equivalence class, ``search.failed`` and ``next_failed`` (J,), in place.

    Those that ask for at least as much leave the list. With original victims it has one job, which ``p`` replaces if
    it has no more pods and no larger request in any place. Overwrites ``search.chunk`` and ``search.hosts`` (L,).

    Parameters
    ----------
    everywhere : bool
        True: the class counts over all queues (consolidation). False: in the queue of the job.
    """
    jobs = ctx.snapshot.jobs
    if is_tied(p, ctx):
        return
    row = jobs.equivalence[p] if everywhere else jobs.queue_equivalence[p]
    other, last, kept = search.failed[row], p, 1
    search.next_failed[p] = NULL
    n_own = sort_requests(p, ctx, search, search.chunk)
    if ctx.settings.minimal == 0:
        if other == NULL or asks_for_as_much(other, n_own, ctx, search):
            search.failed[row] = p
        return
    # Bound: the list has at most ``KEPT_MAX`` jobs.
    while other != NULL and kept < KEPT_MAX:
        if not asks_for_as_much(other, n_own, ctx, search):
            search.next_failed[last] = other
            last, kept = other, kept + 1
        other = search.next_failed[other]
    search.next_failed[last] = NULL
    search.failed[row] = p


@inner
def is_tied(p: int, ctx: Context) -> bool:
    """Return whether pods of job ``p`` say in which topology domain others must be, so that it is like no other job.

    That is where a set with a required level has active pods, ``state.sets.active`` (S,), at or below it; v0.17.0 does
    not look at that.
    """
    sets, required, active = ctx.snapshot.sets, False, 0
    if ctx.settings.minimal == 0 or ctx.scratch.topology.set.shape[0] == 0:
        return False
    for s in range(ctx.snapshot.jobs.set_ptr[p], ctx.snapshot.jobs.set_ptr[p + 1]):
        required = required or sets.required[s] > 0
        active += ctx.state.sets.active[s]
    return bool(required and active > 0)


@inner
def asks_for_as_much(j: int, n_own: int, ctx: Context, search: Search) -> bool:
    """Return whether job ``j`` asks for at least as much as another one: as many pods, and as much in each place.

    The other one asks for the first ``n_own`` classes of ``search.chunk`` (L,), as ``sort_requests`` leaves them.
    Overwrites ``search.hosts`` (L,) with the classes of the tasks of ``j``.
    """
    snapshot, n_other = ctx.snapshot, sort_requests(j, ctx, search, search.hosts)
    if n_own > n_other:
        return False
    for place in range(n_own):
        own, others = search.chunk[place], search.hosts[place]
        if ctx.settings.minimal == 1:
            if not asks_within(own, others, snapshot):
                return False
        elif not is_within(snapshot.classes.request[own], snapshot.classes.request[others]):
            return False
    return True


@inner
def asks_within(a: int, b: int, snapshot: Snapshot) -> bool:
    """Return whether a pod of class ``a`` asks for at most as much as one of class ``b``: rows of requests (R,).

    Of two shares of GPUs neither may have more devices or a larger part of each: their sums say nothing, as a device
    has room for a small part where it has none for a large one.
    """
    classes = snapshot.classes
    shares = classes.shares[a] > 0 and classes.shares[b] > 0
    for r in range(classes.request.shape[1]):
        if classes.request[a, r] > classes.request[b, r] and not (r == GPU and shares):
            return False
    if not shares:
        return True
    within = classes.portion[a] <= classes.portion[b] and classes.memory[a] <= classes.memory[b]
    return bool(within and classes.shares[a] <= classes.shares[b])


@inner
def is_within(left: Floats, right: Floats) -> bool:
    """Return whether request ``left`` (R,) is at most ``right`` (R,) in each resource."""
    for r in range(left.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if left[r] > right[r]:
            return False
    return True


@inner
def sort_requests(j: int, ctx: Context, search: Search, classes: Longs) -> int:
    """Write the classes of the tasks that job ``j`` asks for to ``classes`` (L,), and return how many there are.

    With minimal victims these are the tasks of the next chunk: a gang that failed says nothing of a smaller chunk. With
    original victims they are all pending tasks of the job. They are sorted by ``search.request_rank`` (C,): smaller
    requests come first, by the first resource in which two differ.
    """
    snapshot = ctx.snapshot
    jobs, length = snapshot.jobs, 0
    if ctx.settings.minimal == 1:
        length = next_chunk(j, ctx)
        for entry in range(length):
            c = snapshot.tasks.cls[ctx.scratch.chunk[entry]]
            classes[entry] = search.request_rank[c] * RANK + c
        # The cursors that ``next_chunk`` moved stay where they are, as they are true of the working state.
        ctx.log.size[:] = 0
    else:
        for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
            if ctx.state.task.status[t] == IS_PENDING:
                c = snapshot.tasks.cls[t]
                classes[length] = search.request_rank[c] * RANK + c
                length += 1
    sort_ascending(classes, length)
    search.counts.work[0] += length // PODS_A_UNIT
    for entry in range(length):
        classes[entry] %= RANK
    return int(length)


@inner
def sort_ascending(values: Longs, length: int) -> None:
    """Sort the first ``length`` of ``values`` (L,) in place: a heapsort, as the time of a quicksort has no bound."""
    for start in range(length // 2 - 1, -1, -1):
        sift_down(values, start, length)
    for end in range(length - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        sift_down(values, 0, end)


@inner
def sift_down(values: Longs, at: int, end: int) -> None:
    """Let the value at place ``at`` sink in the heap of the first ``end`` of ``values`` (L,), the largest on top."""
    value, below = values[at], 2 * at + 1
    while below < end:  # Bound: the depth of the heap.
        if below + 1 < end and values[below + 1] > values[below]:
            below += 1
        if values[below] <= value:
            break
        values[at] = values[below]
        at, below = below, 2 * below + 1
    values[at] = value
