"""Would a queue that loses take the same room straight back, by its quota? Then two would take it in turns, for ever.

A reclaim by fair share may push a queue below its quota, as the last gang that is taken goes whole; a queue that is
within its quota may take from one above. So who ends above its quota leaves those alone that would be below theirs
with something waiting for it. Only with minimal victims: the original has no such rule.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Amounts, Snapshot, Verdict
from kai_sched.solver.eviction.candidates import in_leaf
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.validate import diverge, requested_amounts
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.fit import fits_later, fits_now
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)


@inner
def who_retakes(p: int, k: int, ctx: Context, search: Search) -> int:
    """A queue that loses in the simulated scenario and could take back what job ``p`` gets for ``k`` tasks, or NULL."""
    snapshot = ctx.snapshot
    parent, need = snapshot.queues.parent, requested_amounts(k, snapshot, search)
    u = int(snapshot.jobs.queue[p])
    while u != NULL:
        for place in range(parent.shape[0]):
            s = int(snapshot.queues.by_uid[place])
            if s == u or parent[s] != parent[u] or not is_pushed_below(u, s, need, ctx.state, search):
                continue
            if somebody_retakes(p, u, s, need, ctx):
                return s
        u = int(parent[u])
    return NULL


@inner
def somebody_retakes(p: int, u: int, s: int, need: Amounts, ctx: Context) -> bool:
    """Whether some job of queue ``s`` or below could take it back from its sibling ``u``."""
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    for j in range(jobs.queue.shape[0]):
        if jobs.refused[j] != OK or not in_leaf(j, snapshot) or jobs.queue[j] == jobs.queue[p]:
            continue
        mine, theirs = diverge(jobs.queue[p], jobs.queue[j], snapshot.queues.parent)
        if mine == u and theirs == s and may_retake(j, u, s, need, ctx):
            return True
    return False


@inner
def keep_last(q: int, snapshot: Snapshot, search: Search) -> int:
    """Let the last chosen chunk of queue ``q`` or below not be chosen again for this wish; 1, or 0 if there is none."""
    for entry in range(search.counts.chosen[0] - 1, -1, -1):
        g = search.lists.chosen[entry]
        v = snapshot.jobs.queue[snapshot.tasks.job[search.lists.potential[search.lists.chunk_start[g]]]]
        while v != NULL and v != q:
            v = snapshot.queues.parent[v]
        if v == q:
            search.lists.kept[g] = 1
            return 1
    return 0


@inner
def is_pushed_below(u: int, s: int, need: Amounts, state: State, search: Search) -> bool:
    """Whether queue ``s`` ends below its quota, having lost some, and its sibling ``u`` above its own."""
    for r in range(3):
        if need[r] > 0.0 and state.book.held[u, r] > state.book.quota[u, r]:
            held = state.book.held[s, r]
            if held < search.queues.old_held[s, r] and held < state.book.quota[s, r]:
                return True
    return False


@inner
def may_retake(j: int, u: int, s: int, need: Amounts, ctx: Context) -> bool:
    """Whether job ``j`` waits for what queue ``u`` has above its quota, and has quota for it in ``s``, above it."""
    snapshot, scratch = ctx.snapshot, ctx.scratch
    jobs, classes, book = snapshot.jobs, snapshot.classes, ctx.state.book
    length = next_chunk(j, ctx)
    leaf, wants, waits = jobs.queue[j], False, False
    for r in range(3):
        asks = 0.0
        for entry in range(length):
            asks += classes.quota[snapshot.tasks.cls[scratch.chunk[entry]], r]
        if book.held[s, r] + asks > book.quota[s, r] or book.held[leaf, r] + asks > book.fair[leaf, r]:
            return False
        wants = wants or (need[r] > 0.0 and asks > 0.0 and book.held[u, r] > book.quota[u, r])
    if not wants:
        return False
    for entry in range(length):
        c = snapshot.tasks.cls[scratch.chunk[entry]]
        fits, free = any_room(c, ctx)
        if not fits:
            return False
        waits = waits or not free
    return waits


@inner
def any_room(c: int, ctx: Context) -> tuple[bool, bool]:
    """Whether some node could take a pod of class ``c`` with nobody on it, and whether some has the room."""
    snapshot, state, finder = ctx.snapshot, ctx.state, ctx.finder
    request, possible = snapshot.classes.request[c], False
    if finder.refused[c] != OK:
        return False, False
    verdicts = finder.verdicts[snapshot.classes.signature[c]]
    for n in range(state.idle.shape[0]):
        if verdicts[n] != OK:
            continue
        if fits_later(request, state.idle[n], state.releasing[n]):
            return True, True
        possible = possible or fits_now(request, snapshot.nodes.allocatable[n])
    return possible, False
