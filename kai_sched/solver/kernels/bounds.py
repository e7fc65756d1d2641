"""Proofs that no set of victims can help: cheap, never wrong, and each with its reason (a Help)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Bond, Help, Snapshot, Status, TermKind, Verdict
from kai_sched.solver.hunt import (
    ALIVE,
    BASE,
    CLOCK,
    KIND_CLASS,
    KIND_WANTED,
    LARGEST,
    LEFT_NODE,
    LIST,
    LISTED,
    N_KINDS,
    OPEN,
    REMAINS,
    SKIP,
    WISHED,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.fairness import diverge, has_quota_for, wished
from kai_sched.solver.state import CARRIED, HELD, MATCHED, NODE, QUOTA, SHARE, STATUS, Finder, Scratch, State

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
def refute(
    action: int,
    p: int,
    ceiling: int,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    scratch: Scratch,
    victims: Lineup,
    prey: Prey,
) -> int:
    """Why no set of victims can make room for the whole wish; OK where that cannot be told.

    ``prey.kind`` counts the whole wish.
    """
    if not free_all(ceiling, snapshot, state, victims, prey):
        return NOBODY
    for kind in range(prey.counts[N_KINDS]):
        if room_for_kind(kind, snapshot, state, finder, prey) < prey.kind[kind, KIND_WANTED]:
            return NO_ROOM
    if action == RECLAIM and not shares_suffice(p, snapshot, state, scratch, prey):
        return SHARES
    return OK


@inner
def free_all(ceiling: int, snapshot: Snapshot, state: State, victims: Lineup, prey: Prey) -> bool:
    """Add up by node what all possible victims hold, and note the largest of each leaf. False: there is none.

    One that was moved before in this cycle counts as larger than all: it may come back without room (``evict.lay``).
    """
    jobs, tasks, request = snapshot.jobs, snapshot.tasks, snapshot.classes.request
    allocatable = snapshot.nodes.allocatable
    n_resources = request.shape[1]
    prey.freed[:, :] = 0.0
    anybody = False
    for q in range(snapshot.queues.parent.shape[0]):
        prey.queue[q, LARGEST] = 0.0
        if prey.queue[q, OPEN] == 0.0:
            continue
        for at in range(victims.slot[q, ALIVE], victims.slot[q, LISTED]):
            j = victims.job[victims.slot[q, BASE] + at, LIST]
            if victims.job[j, SKIP] == prey.counts[CLOCK] or jobs.priority[j] >= ceiling:
                continue
            anybody = True
            held = 0.0
            for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
                n = state.task[t, NODE]
                if n != NULL and IS_PIPELINED <= state.task[t, STATUS] <= IS_RUNNING:
                    held += np.inf if prey.task[t, LEFT_NODE] != 0 else snapshot.classes.quota[tasks.cls[t], GPU]
                    for r in range(n_resources):
                        if allocatable[n, r] > 0.0:
                            prey.freed[n, r] += request[tasks.cls[t], r]
            prey.queue[q, LARGEST] = max(prey.queue[q, LARGEST], held)
    return anybody


@inner
def room_for_kind(kind: int, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> int:
    """For how many tasks of the kind there would be room with all possible victims gone, at the most."""
    classes = snapshot.classes
    c = prey.kind[kind, KIND_CLASS]
    request, verdicts = classes.request[c], finder.verdicts[classes.signature[c]]
    term = own_anti_term(c, snapshot)
    room = 0
    prey.domain[:] = 0
    for n in range(verdicts.shape[0]):
        if verdicts[n] != OK or is_barred(c, n, snapshot, state):
            continue
        fits = np.inf
        for r in range(request.shape[0]):
            free = state.idle[n, r] + state.releasing[n, r] + prey.freed[n, r]
            if request[r] > 0.0:
                fits = min(fits, np.floor(free / request[r]))
            elif free < 0.0:
                fits = 0.0
        fits = min(fits, float(prey.kind[kind, KIND_WANTED]))
        if fits < 1.0:
            continue
        if term == NULL or snapshot.terms.domain[term, n] == NULL:
            room += int(fits)
        elif prey.domain[snapshot.terms.domain[term, n]] == 0:
            prey.domain[snapshot.terms.domain[term, n]] = 1
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
            if role == CARRY and state.domains[domain, MATCHED] > 0:
                return True
            if role == MATCH and state.domains[domain, CARRIED] > 0:
                return True
    return False


@inner
def shares_suffice(p: int, snapshot: Snapshot, state: State, scratch: Scratch, prey: Prey) -> bool:
    """Whether reclaim could get the GPUs that the wish lacks, by the shares alone.

    From a queue, or several below the one where the paths part, chunks are taken while it is above its share, so less
    than its excess and one more chunk, which is a job at the most. Where it is above in another resource, too, this
    says nothing.
    """
    book, parent = state.book, snapshot.queues.parent
    own = snapshot.jobs.queue[p]
    for r in range(3):
        scratch.need[r] = wished(prey.counts[WISHED], r, snapshot, prey)
    lacking = scratch.need[GPU]
    for n in range(state.idle.shape[0]):
        lacking -= max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    if lacking <= 0.0:
        return True
    for q in range(parent.shape[0]):
        prey.queue[q, REMAINS] = 0.0
    for q in range(parent.shape[0]):
        if prey.queue[q, LARGEST] == np.inf:
            return True
        if prey.queue[q, OPEN] == 1.0 and prey.queue[q, LARGEST] > 0.0:
            _, victim = diverge(own, q, parent)
            prey.queue[victim, REMAINS] = max(prey.queue[victim, REMAINS], prey.queue[q, LARGEST])
    for v in range(parent.shape[0]):
        if prey.queue[v, REMAINS] == 0.0:
            continue
        reclaimer, _ = diverge(own, v, parent)
        deserved = has_quota_for(reclaimer, scratch.need, book)
        excess = 0.0
        for r in range(3):
            threshold = min(book[v, SHARE + r], book[v, QUOTA + r]) if deserved else book[v, SHARE + r]
            if book[v, HELD + r] > threshold and r != GPU:
                return True
            if r == GPU:
                excess = book[v, HELD + r] - threshold
        if excess > 0.0:
            lacking -= excess + prey.queue[v, REMAINS]
    return bool(lacking < 0.0)
