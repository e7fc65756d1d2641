"""When a job is searched for although one of its equivalence class failed in this action: only if it asks for less
(semantics 3.8).

Jobs of one equivalence class differ in nothing that placement reads but the amounts that they request. Of each class
the easiest job that failed is remembered in ``search.failed`` (J,): for each queue separately in reclaim and preempt,
for all queues together in consolidation. A later job of the class is searched for only if it is easier than that one.

Cost: O(T of both jobs, squared at worst, x R) for each question; requests are mostly sorted, so that one pass will do.

Invariant: ``search.failed`` is NULL for all classes when an action begins, and only jobs for which a search failed are
in it. This is a rule and no proof: a request that is smaller in one resource and larger in another one does not make a
job easier.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Longs, Snapshot, Status
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.state import Context

IS_PENDING = int(Status.PENDING)


@inner
def is_easier(p: int, everywhere: bool, ctx: Context, search: Search) -> bool:
    """Return whether job ``p`` is easier than the job of its equivalence class that failed, or none failed yet.

    It is easier if it asks for fewer pods, or if, with both requests sorted, one of its pods asks for less than the pod
    in the same place: at most as much of each resource, and less of one. Overwrites ``search.chunk`` and
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
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    other = search.failed[jobs.equivalence[p] if everywhere else jobs.queue_equivalence[p]]
    if other == NULL:
        return True
    n_own = sort_requests(p, ctx, search.chunk)
    n_other = sort_requests(other, ctx, search.hosts)
    if n_own == 0 or n_other == 0:
        return False
    if n_other > n_own:
        return True
    request = snapshot.classes.request
    for place in range(n_other):
        own, others = request[search.chunk[place]], request[search.hosts[place]]
        if is_within(own, others) and not is_within(others, own):
            return True
    return False


@inner
def remember_failure(p: int, everywhere: bool, ctx: Context, search: Search) -> None:
    """Remember job ``p`` for its equivalence class in ``search.failed`` (J,), in place, if none is or if it is as easy.

    It replaces the remembered job if it has no more pods and no larger request in any place. So the job that is
    remembered is the easiest one that failed, and as many later jobs as possible are skipped.

    Parameters
    ----------
    everywhere : bool
        True: the class counts over all queues (consolidation). False: in the queue of the job.
    """
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    row = jobs.equivalence[p] if everywhere else jobs.queue_equivalence[p]
    other = search.failed[row]
    if other != NULL:
        n_own = sort_requests(p, ctx, search.chunk)
        n_other = sort_requests(other, ctx, search.hosts)
        if n_own > n_other:
            return
        for place in range(n_own):
            if not is_within(
                snapshot.classes.request[search.chunk[place]], snapshot.classes.request[search.hosts[place]]
            ):
                return
    search.failed[row] = p


@inner
def is_within(left: Floats, right: Floats) -> bool:
    """Return whether request ``left`` (R,) is at most ``right`` (R,) in each resource."""
    for r in range(left.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if left[r] > right[r]:
            return False
    return True


@inner
def sort_requests(j: int, ctx: Context, classes: Longs) -> int:
    """Write the classes of the tasks that job ``j`` asks for to ``classes`` (L,), and return how many there are.

    With minimal victims these are the tasks of the next chunk: a gang that failed says nothing of a smaller chunk. With
    original victims they are all pending tasks of the job. Smaller requests come first (``sort_in``).
    """
    snapshot = ctx.snapshot
    jobs, length = snapshot.jobs, 0
    if ctx.settings.minimal == 1:
        for entry in range(next_chunk(j, ctx)):
            length = sort_in(snapshot.tasks.cls[ctx.scratch.chunk[entry]], length, snapshot, classes)
        # The cursors that ``next_chunk`` moved stay where they are, as they are true of the working state.
        ctx.log.size[:] = 0
        return length
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        if ctx.state.task.status[t] == IS_PENDING:
            length = sort_in(snapshot.tasks.cls[t], length, snapshot, classes)
    return length


@inner
def sort_in(c: int, length: int, snapshot: Snapshot, classes: Longs) -> int:
    """Insert class ``c`` into the first ``length`` entries of ``classes`` (L,), in place, and return the new length.

    It goes before the last entries that ask for at least as much in each resource. Requests are ordered only in part,
    so that this is no sort of all: the order of the others stays that of the tasks.
    """
    request, at = snapshot.classes.request, length
    while at > 0 and classes[at - 1] != c and is_within(request[c], request[classes[at - 1]]):
        classes[at] = classes[at - 1]
        at -= 1
    classes[at] = c
    return length + 1
