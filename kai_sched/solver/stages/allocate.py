"""Allocate: the pending jobs of the cluster, fairest queue first, each whole or not at all (semantics 3)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Settings, Snapshot, Status, Turn, Verdict
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.attempt import commit, count_pending, foresee, put, settle, undo_all, waits_for_minimum
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.order import plant, pop_job, push_job
from kai_sched.solver.state import (
    ABLE,
    COUNT,
    NODE,
    Decisions,
    Finder,
    Log,
    Scratch,
    State,
    Tree,
)

OK = int(Verdict.OK)
NO_CHUNK = int(Verdict.NO_CHUNK)
NOT_SUPPORTED = int(Verdict.NOT_SUPPORTED)
GANG_NOT_READY = int(Verdict.GANG_NOT_READY)
FIRST = int(Turn.FIRST)
LATER = int(Turn.LATER)
IS_PENDING = int(Status.PENDING)


@kernel
def allocate(
    turn: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    tree: Tree,
    scratch: Scratch,
    decisions: Decisions,
) -> None:
    """Run the action for the jobs whose turn it is: FIRST for those that go ahead, ORDINARY for all who need not wait.

    ``decisions`` gets the placements in order, and by job why something of it is still pending.
    """
    queues, jobs, sets = snapshot.queues, snapshot.jobs, snapshot.sets
    enlist(turn, settings, snapshot, state, log, tree, scratch, decisions)
    while True:
        j = pop_job(settings, queues, jobs.priority, tree, state.book)
        if j == NULL:
            break
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        length = next_chunk(first, end, sets, state, log, scratch)
        log.size[:] = 0
        if turn == FIRST and count_taken(j, snapshot, state) + length > jobs.ahead[j]:
            continue
        if not attempt(j, length, settings, snapshot, state, log, finder, scratch, decisions):
            continue
        commit(length, state, scratch.chunk, decisions)
        log.size[:] = 0
        decisions.verdict[j] = OK
        if count_pending(first, end, state.sets) > 0:
            foresee(j, first, end, sets, snapshot.classes.quota, snapshot.tasks.cls, state, log, tree, scratch)
            push_job(j, settings.allocate_depth, settings, queues, jobs, tree, state.book)


@inner
def count_taken(j: int, snapshot: Snapshot, state: State) -> int:
    """How many pods of job ``j`` got a place in this cycle."""
    jobs = snapshot.jobs
    taken = -count_pending(jobs.set_ptr[j], jobs.set_ptr[j + 1], state.sets)
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        taken += snapshot.tasks.status[t] == IS_PENDING
    return taken


@inner
def enlist(
    turn: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    tree: Tree,
    scratch: Scratch,
    decisions: Decisions,
) -> None:
    """Put all jobs of this turn that can be tried into the tree; the others get their verdict now (3.1)."""
    jobs, queues, sets = snapshot.jobs, snapshot.queues, snapshot.sets
    prices, cls = snapshot.classes.quota, snapshot.tasks.cls
    for j in range(jobs.queue.shape[0]):
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        mine = jobs.turn[j] == FIRST if turn == FIRST else jobs.turn[j] != LATER
        if not mine or count_pending(first, end, state.sets) == 0:
            continue
        if jobs.refused[j] != OK:
            decisions.verdict[j] = jobs.refused[j]
            continue
        foresee(j, first, end, sets, prices, cls, state, log, tree, scratch)
        if scratch.survey[first, ABLE] == 0:
            decisions.verdict[j] = NO_CHUNK if scratch.survey[first, COUNT] >= sets.minimum[first] else GANG_NOT_READY
            continue
        q = jobs.queue[j]
        tree.job_heap[tree.job_ptr[q] + tree.job_size[q]] = j
        tree.job_size[q] += 1
    plant(settings.allocate_depth, settings, queues, jobs, tree, state.book)


@inner
def attempt(
    j: int,
    length: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    decisions: Decisions,
) -> bool:
    """Try to place the chunk of ``length`` tasks (3.3). On failure all is undone and the reason is written down."""
    jobs, tasks, prices = snapshot.jobs, snapshot.tasks, snapshot.classes.quota
    decisions.asked[j] = length
    for r in range(3):
        scratch.need[r] = 0.0
        for entry in range(length):
            scratch.need[r] += prices[tasks.cls[scratch.chunk[entry]], r]
    verdict, q, r = NO_CHUNK, NULL, NULL
    if length > 0:
        verdict, q, r = pass_gates(
            jobs.queue[j], scratch.need, jobs.preemptible[j] == 0, snapshot.queues.parent, state.book
        )
    for entry in range(length):
        # before any gate: what is not supported cannot be helped by a higher limit
        if finder.refused[tasks.cls[scratch.chunk[entry]]] == NOT_SUPPORTED:
            decisions.verdict[j] = NOT_SUPPORTED
            decisions.culprit[j] = scratch.chunk[entry]
            return False
    if verdict != OK:
        decisions.verdict[j] = verdict
        decisions.culprit[j] = q
        decisions.resource[j] = r
        if q != NULL:
            decisions.need[j] = scratch.need[r]
        return False
    for entry in range(length):
        t = scratch.chunk[entry]
        verdict = settle(j, t, settings, snapshot, state, log, finder)
        if verdict != OK:
            decisions.verdict[j] = verdict
            decisions.culprit[j] = t
            decisions.placed[j] = entry
            undo_all(state, log, finder)
            return False
    wait_together(j, length, snapshot, state, log, finder, scratch)
    return True


@inner
def wait_together(
    j: int, length: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, scratch: Scratch
) -> None:
    """Where a gang must wait for some pod of its minimum, all of the chunk waits: nothing is bound (3.3, step 4)."""
    if not waits_for_minimum(j, snapshot, state):
        return
    for entry in range(length):
        scratch.node[entry] = state.task[scratch.chunk[entry], NODE]
    undo_all(state, log, finder)
    for entry in range(length):
        put(j, scratch.chunk[entry], scratch.node[entry], True, snapshot, state, log, finder)
