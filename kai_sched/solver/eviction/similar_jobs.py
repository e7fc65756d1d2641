"""A job like one that failed is passed over, unless it asks for less (semantics 3.8)."""

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
    """Whether job ``p`` may succeed where the one like it failed, or there is none; ``everywhere``: in any queue."""
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
    """Let job ``p`` stand for those like it if it is the first, or asks for no more than the one that does."""
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
    """Whether a request is at most another one in every resource."""
    for r in range(left.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if left[r] > right[r]:
            return False
    return True


@inner
def sort_requests(j: int, ctx: Context, classes: Longs) -> int:
    """Write the classes of the pending tasks, those that ask for less first, to ``classes``; returns how many.

    With minimal victims only those that a search would be for: a gang that is refused says nothing of smaller ones.
    """
    snapshot = ctx.snapshot
    jobs, length = snapshot.jobs, 0
    if ctx.settings.minimal == 1:
        for entry in range(next_chunk(j, ctx)):
            length = sort_in(snapshot.tasks.cls[ctx.scratch.chunk[entry]], length, snapshot, classes)
        ctx.log.size[:] = 0
        return length
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        if ctx.state.task.status[t] == IS_PENDING:
            length = sort_in(snapshot.tasks.cls[t], length, snapshot, classes)
    return length


@inner
def sort_in(c: int, length: int, snapshot: Snapshot, classes: Longs) -> int:
    """Put class ``c`` before those of the ``length`` ``classes`` that ask for more; returns the new length."""
    request, at = snapshot.classes.request, length
    while at > 0 and classes[at - 1] != c and is_within(request[c], request[classes[at - 1]]):
        classes[at] = classes[at - 1]
        at -= 1
    classes[at] = c
    return length + 1
