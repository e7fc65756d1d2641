"""Proofs that no set of victims can help: cheap, never wrong, and each with its reason (a Help)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Bond, Help, Snapshot, Status, TermKind, Verdict
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.validate import diverge, has_quota_for, requested
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
RECLAIM = int(Action.RECLAIM)
NOBODY = int(Help.NOBODY)
NO_ROOM = int(Help.NO_ROOM)
SHARES = int(Help.SHARES)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
ANTI = int(TermKind.ANTI)
CARRY = int(Bond.CARRY)
MATCH = int(Bond.MATCH)
PORT = int(Bond.PORT)


@inner
def refute(action: int, p: int, ceiling: int, ctx: Context, search: Search) -> int:
    """Why no set of victims can make room for the whole wish; OK where that cannot be told.

    ``search.kind`` counts the whole wish.
    """
    if not free_all(ceiling, ctx.snapshot, ctx.state, search):
        return NOBODY
    for kind in range(search.counts.kinds[0]):
        if room_for_kind(kind, ctx, search) < search.kinds.wanted[kind]:
            return NO_ROOM
    if action == RECLAIM and not shares_suffice(p, ctx, search):
        return SHARES
    return OK


@inner
def free_all(ceiling: int, snapshot: Snapshot, state: State, search: Search) -> bool:
    """Add up by node what all possible victims hold, and note the largest of each leaf. False: there is none.

    One that was moved before in this cycle counts as larger than all, as it may come back without room
    (``evict.place_in_search``).
    """
    jobs, tasks, request = snapshot.jobs, snapshot.tasks, snapshot.classes.request
    allocatable = snapshot.nodes.allocatable
    n_resources = request.shape[1]
    search.freed[:, :] = 0.0
    anybody = False
    for q in range(snapshot.queues.parent.shape[0]):
        search.queues.largest[q] = 0.0
        if search.queues.is_open[q] == 0.0:
            continue
        for at in range(search.victims.heap.begin[q], search.victims.heap.end[q]):
            j = search.victims.jobs.listed[search.victims.heap.base[q] + at]
            if search.victims.jobs.skip[j] == search.counts.clock[0] or jobs.priority[j] >= ceiling:
                continue
            anybody = True
            held = 0.0
            for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
                n = state.task.node[t]
                if n != NULL and IS_PIPELINED <= state.task.status[t] <= IS_RUNNING:
                    held += np.inf if search.tasks.left_node[t] != 0 else snapshot.classes.quota[tasks.cls[t], GPU]
                    for r in range(n_resources):
                        if allocatable[n, r] > 0.0:
                            search.freed[n, r] += request[tasks.cls[t], r]
            search.queues.largest[q] = max(search.queues.largest[q], held)
    return anybody


@inner
def room_for_kind(kind: int, ctx: Context, search: Search) -> int:
    """For how many tasks of the kind there would be room with all possible victims gone, at the most."""
    snapshot, state = ctx.snapshot, ctx.state
    classes = snapshot.classes
    c = search.kinds.cls[kind]
    request, verdicts = classes.request[c], ctx.finder.verdicts[classes.signature[c]]
    term = own_anti_term(c, snapshot)
    room = 0
    search.domain[:] = 0
    for n in range(verdicts.shape[0]):
        if verdicts[n] != OK or is_barred(c, n, snapshot, state):
            continue
        fits = np.inf
        for r in range(request.shape[0]):
            free = state.idle[n, r] + state.releasing[n, r] + search.freed[n, r]
            if request[r] > 0.0:
                fits = min(fits, np.floor(free / request[r]))
            elif free < 0.0:
                fits = 0.0
        fits = min(fits, float(search.kinds.wanted[kind]))
        if fits < 1.0:
            continue
        if term == NULL or snapshot.terms.domain[term, n] == NULL:
            room += int(fits)
        elif search.domain[snapshot.terms.domain[term, n]] == 0:
            search.domain[snapshot.terms.domain[term, n]] = 1
            room += 1
    return room


@inner
def own_anti_term(c: int, snapshot: Snapshot) -> int:
    """A term by which pods of class ``c`` keep each other out of a domain; NULL where there is none."""
    bonds, terms = snapshot.bonds, snapshot.terms
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        a = bonds.entry[entry, 1]
        if bonds.entry[entry, 0] != CARRY or terms.kind[a] != ANTI:
            continue
        for other in range(bonds.ptr[c], bonds.ptr[c + 1]):
            if bonds.entry[other, 0] == MATCH and bonds.entry[other, 1] == a:
                return int(a)
    return NULL


@inner
def is_barred(c: int, n: int, snapshot: Snapshot, state: State) -> bool:
    """Whether pods that are there, which count even once evicted, keep class ``c`` off node ``n``."""
    bonds, terms = snapshot.bonds, snapshot.terms
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        role, row = bonds.entry[entry, 0], bonds.entry[entry, 1]
        if role == PORT:
            for other in range(state.ports.shape[1]):
                if snapshot.ports[row, other] == 1 and state.ports[n, other] > 0:
                    return True
        elif terms.kind[row] == ANTI and terms.domain[row, n] != NULL:
            domain = terms.domain[row, n]
            if role == CARRY and state.domains.matched[domain] > 0:
                return True
            if role == MATCH and state.domains.carried[domain] > 0:
                return True
    return False


@inner
def shares_suffice(p: int, ctx: Context, search: Search) -> bool:
    """Whether reclaim could get the GPUs that the preemptor lacks, by the shares alone.

    From a queue, or several below the one where the paths part, chunks are taken while it is above its share, so less
    than its excess and one more chunk, which is a job at the most. Where it is above in another resource, too, this
    says nothing.
    """
    snapshot, state, scratch = ctx.snapshot, ctx.state, ctx.scratch
    book, parent = state.book, snapshot.queues.parent
    own = snapshot.jobs.queue[p]
    for r in range(3):
        scratch.need[r] = requested(search.counts.pending[0], r, snapshot, search)
    lacking = scratch.need[GPU]
    for n in range(state.idle.shape[0]):
        lacking -= max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    if lacking <= 0.0:
        return True
    for q in range(parent.shape[0]):
        search.queues.largest_below[q] = 0.0
    for q in range(parent.shape[0]):
        if search.queues.largest[q] == np.inf:
            return True
        if search.queues.is_open[q] == 1.0 and search.queues.largest[q] > 0.0:
            _, victim = diverge(own, q, parent)
            search.queues.largest_below[victim] = max(search.queues.largest_below[victim], search.queues.largest[q])
    for v in range(parent.shape[0]):
        if search.queues.largest_below[v] == 0.0:
            continue
        reclaimer, _ = diverge(own, v, parent)
        deserved = has_quota_for(reclaimer, scratch.need, book)
        excess = 0.0
        for r in range(3):
            threshold = min(book.share[v, r], book.quota[v, r]) if deserved else book.share[v, r]
            if book.held[v, r] > threshold and r != GPU:
                return True
            if r == GPU:
                excess = book.held[v, r] - threshold
        if excess > 0.0:
            lacking -= excess + search.queues.largest_below[v]
    return bool(lacking < 0.0)
