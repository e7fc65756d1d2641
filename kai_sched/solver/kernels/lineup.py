"""Jobs in the order of the queue tree, without building a heap of all of them each time (semantics 3.1, 4.3).

Each leaf has a sorted list that stays as it is between searches, and a heap of the few jobs that stand differently in
this one. Above the leaves lie the same lazily mended heaps of queues as in ``kernels.order``. With ``flip`` the last
job and queue come first, which is the order of victims; queues are then weighed by what would be left to them.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Longs, Queues, Settings
from kai_sched.solver.hunt import (
    ALIVE,
    ASK,
    BASE,
    BELOW,
    CURSOR,
    DIRTY,
    ENTRY,
    HEAP,
    HEAPED,
    LEAN,
    LIST,
    LISTED,
    PAST,
    RUN_END,
    SKIP,
    STAGE,
    Lineup,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.order import goes_first


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
def queue_leads(a: int, b: int, flip: bool, book: Floats, amount: Floats) -> bool:
    """Queue order (2.6) of two siblings, or its inverse."""
    if flip:
        return goes_first(b, a, book, amount, LEAN)
    return goes_first(a, b, book, amount, ASK)


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
def show(q: int, j: int, flip: bool, queues: Queues, lineup: Lineup) -> None:
    """Take over what job ``j``, the first of leaf ``q``, counts for, up the path of heads."""
    amount = lineup.amount
    for r in range(3):
        if flip:
            amount[q, LEAN + r] = -(amount[q, PAST + r] + lineup.held[j, r])
        else:
            amount[q, ASK + r] = lineup.held[j, r]
    carry(q, queues, lineup)


@inner
def carry(q: int, queues: Queues, lineup: Lineup) -> None:
    """Carry what counts for ``q`` up the path, as long as it is one of heads."""
    slot, amount = lineup.slot, lineup.amount
    above = queues.parent[q]
    while above != NULL and slot[queues.child_ptr[above], ENTRY] == q:
        for column in range(PAST):
            amount[above, column] = amount[q, column]
        q = above
        above = queues.parent[q]


@inner
def queue_up(base: int, at: int, flip: bool, slot: Longs, book: Floats, amount: Floats) -> None:
    """Sift the queue at ``at`` of the heap at ``base`` towards the top."""
    while at > 0:
        above = (at - 1) // 2
        if not queue_leads(slot[base + at, ENTRY], slot[base + above, ENTRY], flip, book, amount):
            break
        slot[base + at, ENTRY], slot[base + above, ENTRY] = slot[base + above, ENTRY], slot[base + at, ENTRY]
        at = above


@inner
def queue_down(base: int, size: int, flip: bool, slot: Longs, book: Floats, amount: Floats) -> None:
    """Sift the top of the heap at ``base`` down to its place."""
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and queue_leads(
            slot[base + below + 1, ENTRY], slot[base + below, ENTRY], flip, book, amount
        ):
            below += 1
        if not queue_leads(slot[base + below, ENTRY], slot[base + at, ENTRY], flip, book, amount):
            break
        slot[base + at, ENTRY], slot[base + below, ENTRY] = slot[base + below, ENTRY], slot[base + at, ENTRY]
        at = below


@inner
def line_up(
    ceiling: int,
    flip: bool,
    settings: Settings,
    queues: Queues,
    priority: Longs,
    lineup: Lineup,
    book: Floats,
    clock: int,
) -> None:
    """Begin anew: make the heaps of queues, lower levels first.

    The leaves' own heaps and cursors stay as they are (``rewind``); a leaf that shows no job is left out.
    """
    slot, amount = lineup.slot, lineup.amount
    n_queues = queues.parent.shape[0]
    for row in range(n_queues + 1):
        slot[row, BELOW] = 0
        slot[row, DIRTY] = 0
    for row in range(n_queues, -1, -1):
        # the roots' heap comes last: its row is that of no queue
        above = n_queues if row == 0 else row - 1
        base = int(queues.child_ptr[above])
        for child in range(base, queues.child_ptr[above + 1]):
            q = queues.child[child]
            if queues.child_ptr[q] == queues.child_ptr[q + 1]:
                for column in range(9):
                    amount[q, column] = 0.0
                j, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
                if j == NULL:
                    continue
                for r in range(3):
                    if flip:
                        amount[q, LEAN + r] = -lineup.held[j, r]
                    else:
                        amount[q, ASK + r] = lineup.held[j, r]
            elif slot[q, BELOW] == 0:
                continue
            at = slot[above, BELOW]
            slot[base + at, ENTRY] = q
            slot[above, BELOW] = at + 1
            queue_up(base, at, flip, slot, book, amount)
        if row > 0 and slot[above, BELOW] > 0:
            for column in range(PAST):
                amount[above, column] = amount[slot[base, ENTRY], column]


@inner
def rewind(q: int, lineup: Lineup) -> None:
    """Let the list of leaf ``q`` begin at its first job."""
    lineup.slot[q, CURSOR] = lineup.slot[q, ALIVE]


@inner
def descend(flip: bool, queues: Queues, lineup: Lineup, book: Floats) -> tuple[int, bool]:
    """The leaf whose first job is next; NULL if there is none. Touched heads are put in their place on the way.

    Also whether that brought another queue to the top below one that had gone first for the job of the old one.
    """
    slot = lineup.slot
    row: int = queues.parent.shape[0]
    if slot[row, BELOW] == 0:
        return NULL, False
    q, turned = NULL, False
    while q == NULL or queues.child_ptr[q] != queues.child_ptr[q + 1]:
        if q != NULL:
            row = q
        base: int = queues.child_ptr[row]
        head = slot[base, ENTRY]
        while slot[slot[base, ENTRY], DIRTY] == 1:
            slot[slot[base, ENTRY], DIRTY] = 0
            queue_down(base, slot[row, BELOW], flip, slot, book, lineup.amount)
            carry(slot[base, ENTRY], queues, lineup)
        turned = turned or (q != NULL and slot[base, ENTRY] != head)
        q = slot[base, ENTRY]
    return q, turned


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


@inner
def take(
    q: int,
    ceiling: int,
    flip: bool,
    settings: Settings,
    queues: Queues,
    priority: Longs,
    lineup: Lineup,
    book: Floats,
    clock: int,
) -> int:
    """Take the first job of leaf ``q`` out and mark the path; queues that are empty leave their parents' heaps."""
    slot, amount = lineup.slot, lineup.amount
    j, listed = peek(q, ceiling, flip, settings, priority, lineup, clock)
    if listed:
        slot[q, CURSOR] += 1
    else:
        pop_heap(q, flip, settings, priority, lineup)
    for r in range(3):
        amount[q, PAST + r] += lineup.held[j, r]
    following, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
    if following != NULL:
        show(q, following, flip, queues, lineup)
    empty = following == NULL
    while q != NULL:
        above = queues.parent[q]
        if empty:
            row = above if above != NULL else queues.parent.shape[0]
            base = queues.child_ptr[row]
            size = slot[row, BELOW] - 1
            slot[row, BELOW] = size
            slot[base, ENTRY] = slot[base + size, ENTRY]
            queue_down(base, size, flip, slot, book, amount)
            if size > 0:
                carry(slot[base, ENTRY], queues, lineup)
            empty = size == 0
        slot[q, DIRTY] = 1
        q = above
    return j


@inner
def give_back(
    q: int,
    j: int,
    ceiling: int,
    flip: bool,
    settings: Settings,
    queues: Queues,
    priority: Longs,
    lineup: Lineup,
    book: Floats,
    clock: int,
) -> None:
    """Put a job, as it stands now, back into its leaf; queues that become non-empty join their parents' heaps."""
    slot, amount = lineup.slot, lineup.amount
    before, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
    newly = before == NULL
    push_heap(q, j, flip, settings, priority, lineup)
    first, _ = peek(q, ceiling, flip, settings, priority, lineup, clock)
    show(q, first, flip, queues, lineup)
    while q != NULL:
        above = queues.parent[q]
        row = above if above != NULL else queues.parent.shape[0]
        if newly:
            base = queues.child_ptr[row]
            at = slot[row, BELOW]
            slot[base + at, ENTRY] = q
            slot[row, BELOW] = at + 1
            queue_up(base, at, flip, slot, book, amount)
            carry(slot[base, ENTRY], queues, lineup)
            newly = at == 0
        slot[q, DIRTY] = 1
        q = above
