"""The jobs of one leaf in order: a sorted list that stays as it is between searches, and a heap of those that stand
differently in this one (semantics 1.3, 3.1, 4.3). With ``flip`` the last job comes first, as among victims.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Longs, Settings
from kai_sched.solver.hunt import (
    ALIVE,
    BASE,
    BY_SIZE,
    CURSOR,
    DEAD,
    GANG,
    HEAP,
    HEAPED,
    LIST,
    LISTED,
    PLACE,
    RUN_END,
    SKIP,
    STAGE,
    Lineup,
)
from kai_sched.solver.jit import inner


@inner
def leads(a: int, b: int, flip: bool, settings: Settings, priority: Longs, job: Longs) -> bool:
    """Job order (1.3) of two jobs of one leaf, or its inverse."""
    if flip:
        a, b = b, a
    if settings.priority_order == 1 and priority[a] != priority[b]:
        return bool(priority[a] > priority[b])
    if settings.elastic_order == 1 and job[a, STAGE] != job[b, STAGE]:
        return bool(job[a, STAGE] < job[b, STAGE])
    return a < b


@inner
def sort_list(base: int, size: int, flip: bool, settings: Settings, priority: Longs, job: Longs) -> None:
    """Sort the list of a leaf (heapsort; one that is in order is left as it is)."""
    in_order = True
    for at in range(base + 1, base + size):
        if leads(job[at, LIST], job[at - 1, LIST], flip, settings, priority, job):
            in_order = False
            break
    if in_order:
        return
    for at in range(size // 2 - 1, -1, -1):
        sink_last(base, at, size, flip, settings, priority, job)
    for end in range(size - 1, 0, -1):
        job[base, LIST], job[base + end, LIST] = job[base + end, LIST], job[base, LIST]
        sink_last(base, 0, end, flip, settings, priority, job)


@inner
def sink_last(base: int, at: int, size: int, flip: bool, settings: Settings, priority: Longs, job: Longs) -> None:
    """Restore the heap of a list whose top is the last in order, from place ``at`` downwards."""
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and leads(
            job[base + below, LIST], job[base + below + 1, LIST], flip, settings, priority, job
        ):
            below += 1
        if not leads(job[base + at, LIST], job[base + below, LIST], flip, settings, priority, job):
            break
        job[base + at, LIST], job[base + below, LIST] = job[base + below, LIST], job[base + at, LIST]
        at = below


@inner
def mark_runs(base: int, size: int, lineup: Lineup) -> None:
    """Note at each place of a list where the run of jobs that ask for no more than the one there ends."""
    job, held = lineup.job, lineup.held
    for at in range(size - 1, -1, -1):
        j, end = job[base + at, LIST], at + 1
        while end < size and asks_no_more(job[base + end, LIST], j, held):
            end = job[base + end, RUN_END]
        job[base + at, RUN_END] = end


@inner
def asks_no_more(a: int, b: int, held: Floats) -> bool:
    """Whether job ``a`` asks for at most as much of every resource as job ``b``."""
    return bool(held[a, 0] <= held[b, 0] and held[a, 1] <= held[b, 1] and held[a, 2] <= held[b, 2])


@inner
def push_heap(q: int, j: int, flip: bool, settings: Settings, priority: Longs, lineup: Lineup) -> None:
    """Put a job into the heap of its leaf."""
    job, base = lineup.job, lineup.slot[q, BASE]
    at = lineup.slot[q, HEAPED]
    lineup.slot[q, HEAPED] = at + 1
    job[base + at, HEAP] = j
    while at > 0:
        above = (at - 1) // 2
        if not leads(job[base + at, HEAP], job[base + above, HEAP], flip, settings, priority, job):
            break
        job[base + at, HEAP], job[base + above, HEAP] = job[base + above, HEAP], job[base + at, HEAP]
        at = above


@inner
def pop_heap(q: int, flip: bool, settings: Settings, priority: Longs, lineup: Lineup) -> None:
    """Take the top out of the heap of a leaf."""
    job, base = lineup.job, lineup.slot[q, BASE]
    size = lineup.slot[q, HEAPED] - 1
    lineup.slot[q, HEAPED] = size
    job[base, HEAP] = job[base + size, HEAP]
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and leads(
            job[base + below + 1, HEAP], job[base + below, HEAP], flip, settings, priority, job
        ):
            below += 1
        if not leads(job[base + below, HEAP], job[base + at, HEAP], flip, settings, priority, job):
            break
        job[base + at, HEAP], job[base + below, HEAP] = job[base + below, HEAP], job[base + at, HEAP]
        at = below


@inner
def peek(
    q: int, ceiling: int, flip: bool, settings: Settings, priority: Longs, lineup: Lineup, clock: int
) -> tuple[int, bool]:
    """The first job of leaf ``q`` (NULL: none), and whether it is from the list.

    ``ceiling``: listed jobs of this priority or a higher one are passed over; ``clock``: so are those marked with it.
    """
    slot, job = lineup.slot, lineup.job
    base, end, at = slot[q, BASE], slot[q, LISTED], slot[q, CURSOR]
    listed = NULL
    while at < end:
        j = job[base + at, LIST]
        if job[j, SKIP] != clock and priority[j] < ceiling:
            listed = j
            break
        at += 1
    slot[q, CURSOR] = at
    if slot[q, HEAPED] == 0:
        return listed, True
    top = job[base, HEAP]
    if listed == NULL or leads(top, listed, flip, settings, priority, job):
        return top, False
    return listed, True


@inner
def largest_gang(q: int, lineup: Lineup) -> int:
    """Of the jobs of leaf ``q`` with the highest priority the one with the most pods, the older of two."""
    slot, job = lineup.slot, lineup.job
    at, end = slot[q, GANG], slot[q + 1, BASE]
    while at < end and job[job[at, BY_SIZE], SKIP] == DEAD:
        at += 1
    slot[q, GANG] = at
    for place in range(slot[q, BASE], slot[q, BASE] + slot[q, HEAPED]):
        at = min(at, job[job[place, HEAP], PLACE])
    return int(job[at, BY_SIZE])


@inner
def rewind(q: int, lineup: Lineup) -> None:
    """Let the list of leaf ``q`` begin at its first job."""
    lineup.slot[q, CURSOR] = lineup.slot[q, ALIVE]


@inner
def skip_run(q: int, flip: bool, settings: Settings, priority: Longs, lineup: Lineup, clock: int) -> None:
    """Go to the last of the listed jobs of leaf ``q`` that ask for no more than the first and come before its heap.

    A queue that goes first with the first job does with each of the others, too (2.6: asking for less never makes it
    later), so taking them one by one would lead here again each time. Those marked with ``clock`` stand elsewhere now.
    """
    slot, job = lineup.slot, lineup.job
    base, at = slot[q, BASE], slot[q, CURSOR]
    last = min(job[base + at, RUN_END], slot[q, LISTED])
    if slot[q, HEAPED] > 0:
        top = job[base, HEAP]
        low, high = at, last
        while low < high:
            middle = (low + high) // 2
            place = middle
            while place < high and job[job[base + place, LIST], SKIP] == clock:
                place += 1
            if place == high or leads(top, job[base + place, LIST], flip, settings, priority, job):
                high = middle
            else:
                low = place + 1
        last = low
    last -= 1
    while last > at and job[job[base + last, LIST], SKIP] == clock:
        last -= 1
    slot[q, CURSOR] = max(at, last)
