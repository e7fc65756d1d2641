"""Minimal search: a reclaim is refused if the queue that it pushes below its quota could take the room straight back
(semantics 4.7, rule 4).

A reclaim by fair share may push a queue below its quota, as the last gang that is taken leaves as a whole. A queue that
stays within its quota may take from one that is above its own. Both rules together would let two queues take the same
room from each other in turn, for ever. So the scenario is refused if a queue that gains ends above its quota, a sibling
that loses ends below its own, and some job of the sibling waits for that resource and could get it. Only the minimal
search asks this; v0.17.0 has no such rule.

Cost: O(Q x depth) if no queue is pushed below its quota, which is the usual case. Else O(J x depth) for each such
queue, and O(N x R) for each task of a job that passes the checks of shares.

Invariant: the simulation stays as it is; only scratch and cursors are written, the latter through the undo log.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Amounts
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.preemptor import requested_amounts
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims.candidates import in_leaf
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import size_of
from kai_sched.solver.kernels.fit import fits_now, has_room
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)


@inner
def who_retakes(p: int, k: int, ctx: Context, search: Search) -> int:
    """Return a queue that loses in the simulated scenario and could take back what job ``p`` gets, or NULL.

    The queue of ``p`` and each queue above it is compared with its siblings, in the order of uids. Reads what queues
    hold in the simulation, ``state.book.held`` (Q + 1, 3), and before it, ``search.queues.old_held`` (Q, 3).

    Parameters
    ----------
    p, k : int
        The preemptor, and the number of tasks in ``search.pending`` (L,).
    """
    snapshot = ctx.snapshot
    parent, need = snapshot.queues.parent, requested_amounts(k, snapshot, search)
    u = int(snapshot.jobs.queue[p])
    while u != NULL:  # Bound: the depth of the queue tree.
        for place in range(parent.shape[0]):
            s = int(snapshot.queues.by_uid[place])
            if s == u or parent[s] != parent[u] or not is_pushed_below(u, s, need, ctx.state, search):
                continue
            if queue_retakes(p, u, s, need, ctx):
                return s
        u = int(parent[u])
    return NULL


@inner
def queue_retakes(p: int, u: int, s: int, need: Amounts, ctx: Context) -> bool:
    """Return whether some job of queue ``s`` or below it could take room back from sibling ``u`` (``jobs.queue`` (J,)).

    Parameters
    ----------
    p : int
        The preemptor, in ``u`` or below it.
    need : Amounts
        What the preemptor asks for, in the units of queues.
    """
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    for j in range(jobs.queue.shape[0]):
        if jobs.refused[j] != OK or not in_leaf(j, snapshot) or jobs.queue[j] == jobs.queue[p]:
            continue
        mine, theirs = sides_of(jobs.queue[p], jobs.queue[j], snapshot.queues.parent)
        if mine == u and theirs == s and may_retake(j, u, s, need, ctx):
            return True
    return False


@inner
def is_pushed_below(u: int, s: int, need: Amounts, state: State, search: Search) -> bool:
    """Return whether queue ``s`` lost something and ends below its quota while its sibling ``u`` ends above its own.

    Both must hold for the same resource, and the preemptor must ask for it (``need``). Reads ``state.book`` (Q + 1, 3).
    """
    for r in range(3):
        if need[r] > 0.0 and state.book.held[u, r] > state.book.quota[u, r]:
            held = state.book.held[s, r]
            if held < search.queues.old_held[s, r] and held < state.book.quota[s, r]:
                return True
    return False


@inner
def may_retake(j: int, u: int, s: int, need: Amounts, ctx: Context) -> bool:
    """Return whether job ``j`` waits for what queue ``u`` has above its quota, and shares and nodes allow it that.

    Its next chunk must stay within the quota of ``s`` and within the fair share of its leaf. Each of its tasks must
    have a node that could take it, and at least one must have no room now, or else it does not need what was taken.
    Overwrites ``scratch.chunk``; moves cursors (S,) through the undo log.

    Parameters
    ----------
    s, u : int
        The queue that loses, at or above the leaf of the job, and its sibling that gains.
    need : Amounts
        What the preemptor asks for, in the units of queues.
    """
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
    """Return whether some node could take a pod of class ``c`` if it were empty, and whether some node has the room.

    Reads static verdicts (K, N) and the room of nodes (N, R). Inter-pod terms and host ports do not count.

    Returns
    -------
    possible, free : bool
        ``free`` implies ``possible``.
    """
    snapshot, state, finder = ctx.snapshot, ctx.state, ctx.finder
    request, possible = snapshot.classes.request[c], False
    if finder.refused[c] != OK:
        return False, False
    verdicts = finder.verdicts[snapshot.classes.signature[c]]
    for n in range(state.idle.shape[0]):
        if verdicts[n] != OK:
            continue
        if has_room(c, n, ctx):
            return True, True
        large_enough = snapshot.classes.shares[c] == 0 or size_of(c, n, ctx) <= snapshot.nodes.device_memory[n]
        possible = possible or (large_enough and fits_now(request, snapshot.nodes.allocatable[n]))
    return possible, False
