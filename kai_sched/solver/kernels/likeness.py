"""A job like one that failed is passed over, unless it asks for less (semantics 3.8)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Longs, Settings, Snapshot, Status
from kai_sched.solver.hunt import Prey
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.state import STATUS, Log, Scratch, State

IS_PENDING = int(Status.PENDING)


@inner
def is_easier(
    p: int,
    everywhere: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    scratch: Scratch,
    prey: Prey,
) -> bool:
    """Whether job ``p`` may succeed where the one like it failed, or there is none; ``everywhere``: in any queue."""
    jobs = snapshot.jobs
    other = prey.failed[jobs.likeness[p] if everywhere else jobs.kin[p]]
    if other == NULL:
        return True
    n_own = sort_requests(p, settings, snapshot, state, log, scratch, prey.chunk)
    n_other = sort_requests(other, settings, snapshot, state, log, scratch, prey.spot)
    if n_own == 0 or n_other == 0:
        return False
    if n_other > n_own:
        return True
    request = snapshot.classes.request
    for place in range(n_other):
        own, others = request[prey.chunk[place]], request[prey.spot[place]]
        if is_within(own, others) and not is_within(others, own):
            return True
    return False


@inner
def remember_failure(
    p: int,
    everywhere: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    scratch: Scratch,
    prey: Prey,
) -> None:
    """Let job ``p`` stand for those like it if it is the first, or asks for no more than the one that does."""
    jobs = snapshot.jobs
    row = jobs.likeness[p] if everywhere else jobs.kin[p]
    other = prey.failed[row]
    if other != NULL:
        n_own = sort_requests(p, settings, snapshot, state, log, scratch, prey.chunk)
        n_other = sort_requests(other, settings, snapshot, state, log, scratch, prey.spot)
        if n_own > n_other:
            return
        for place in range(n_own):
            if not is_within(snapshot.classes.request[prey.chunk[place]], snapshot.classes.request[prey.spot[place]]):
                return
    prey.failed[row] = p


@inner
def is_within(left: Floats, right: Floats) -> bool:
    """Whether a request is at most another one in every resource."""
    for r in range(left.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if left[r] > right[r]:
            return False
    return True


@inner
def sort_requests(
    j: int, settings: Settings, snapshot: Snapshot, state: State, log: Log, scratch: Scratch, classes: Longs
) -> int:
    """Write the classes of the pending tasks, those that ask for less first, to ``classes``; returns how many.

    With minimal victims only those that a search would be for: a gang that is refused says nothing of smaller ones.
    """
    jobs, sets, length = snapshot.jobs, snapshot.sets, 0
    if settings.minimal == 1:
        for entry in range(next_chunk(jobs.set_ptr[j], jobs.set_ptr[j + 1], sets, state, log, scratch)):
            length = sort_in(snapshot.tasks.cls[scratch.chunk[entry]], length, snapshot, classes)
        log.size[:] = 0
        return length
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        if state.task[t, STATUS] == IS_PENDING:
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
