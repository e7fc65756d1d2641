"""Keeping the lists of those who wait and those who may have to go, over the searches of one action (semantics 4.2)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Longs, Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    ALIVE,
    BASE,
    DEAD,
    GANG,
    HERD_KNOWN,
    IS_SETTLED,
    LIST,
    LISTED,
    PLACE,
    SKIP,
    STAGE,
    STAGE_NOW,
    STAGE_WAITING,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import count_pending
from kai_sched.solver.kernels.gang import next_chunk, stage_of
from kai_sched.solver.kernels.leaf import leads, mark_runs, sort_list
from kai_sched.solver.state import NODE, STATUS, Finder, Log, Scratch, State

NOT_SUPPORTED = int(Verdict.NOT_SUPPORTED)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def fill_pool(
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> None:
    """List all jobs with pending tasks, and all preemptible ones with active tasks, in the order of their leaves."""
    jobs = snapshot.jobs
    n_jobs = jobs.queue.shape[0]
    n_leaves = snapshot.queues.parent.shape[0]
    prey.herd[:, HERD_KNOWN] = 0.0
    for q in range(n_leaves):
        waiting.slot[q, LISTED], waiting.slot[q, ALIVE] = 0, 0
        waiting.slot[q, GANG] = waiting.slot[q, BASE]
        victims.slot[q, LISTED], victims.slot[q, ALIVE] = 0, 0
    for place in range(n_jobs):
        j = n_jobs - 1 - place
        measure_victim(j, snapshot, state, victims, prey)
        victims.job[j, SKIP] = DEAD
        if prey.job[j, IS_SETTLED] == 0 and may_go(j, snapshot, state, finder):
            enter(j, snapshot, victims)
    for j in range(n_jobs):
        measure_waiting(j, snapshot, state, log, scratch, waiting, prey)
        waiting.job[j, SKIP] = DEAD
        if may_compete(j, snapshot, state):
            enter(j, snapshot, waiting)
    log.size[:] = 0
    for q in range(n_leaves):
        base = waiting.slot[q, BASE]
        sort_list(base, waiting.slot[q, LISTED], False, settings, jobs.priority, waiting.job)
        mark_runs(base, waiting.slot[q, LISTED], waiting)
        sort_list(base, victims.slot[q, LISTED], True, settings, jobs.priority, victims.job)


@inner
def enter(j: int, snapshot: Snapshot, lineup: Lineup) -> None:
    """Append a job to the list of its leaf."""
    q = snapshot.jobs.queue[j]
    at = lineup.slot[q, LISTED]
    lineup.job[lineup.slot[q, BASE] + at, LIST] = j
    lineup.job[j, SKIP] = 0
    lineup.slot[q, LISTED] = at + 1


@inner
def measure_victim(j: int, snapshot: Snapshot, state: State, victims: Lineup, prey: Prey) -> None:
    """Note what a job holds and its stage."""
    jobs = snapshot.jobs
    for r in range(3):
        prey.held[j, r] = 0.0
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        if IS_ALLOCATED <= state.task[t, STATUS] <= IS_RUNNING and state.task[t, NODE] != NULL:
            for r in range(3):
                prey.held[j, r] += snapshot.classes.quota[snapshot.tasks.cls[t], r]
    stage = stage_of(jobs.set_ptr[j], jobs.set_ptr[j + 1], snapshot.sets, state.sets)
    prey.job[j, STAGE_NOW] = stage
    victims.job[j, STAGE] = stage
    for r in range(3):
        victims.held[j, r] = prey.held[j, r]


@inner
def measure_waiting(
    j: int, snapshot: Snapshot, state: State, log: Log, scratch: Scratch, waiting: Lineup, prey: Prey
) -> None:
    """Note what a job asks for next and its stage."""
    jobs, sets = snapshot.jobs, snapshot.sets
    first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
    for r in range(3):
        prey.ask[j, r] = 0.0
    stage = stage_of(first, end, sets, state.sets)
    if count_pending(first, end, state.sets) > 0:
        length = next_chunk(first, end, sets, state, log, scratch)
        log.size[:] = 0
        for entry in range(length):
            c = snapshot.tasks.cls[scratch.chunk[entry]]
            for r in range(3):
                prey.ask[j, r] += snapshot.classes.quota[c, r]
    prey.job[j, STAGE_WAITING] = stage
    waiting.job[j, STAGE] = stage
    for r in range(3):
        waiting.held[j, r] = prey.ask[j, r]


@inner
def in_leaf(j: int, snapshot: Snapshot) -> bool:
    """Whether the job's queue is there and runs work."""
    q = snapshot.jobs.queue[j]
    return bool(q != NULL and snapshot.queues.child_ptr[q] == snapshot.queues.child_ptr[q + 1])


@inner
def may_compete(j: int, snapshot: Snapshot, state: State) -> bool:
    """Whether the job has something pending."""
    jobs = snapshot.jobs
    return in_leaf(j, snapshot) and count_pending(jobs.set_ptr[j], jobs.set_ptr[j + 1], state.sets) > 0


@inner
def may_go(j: int, snapshot: Snapshot, state: State, finder: Finder) -> bool:
    """Whether the job is preemptible and has active tasks, none of them of a kind that this version cannot move."""
    jobs = snapshot.jobs
    if jobs.preemptible[j] == 0 or not in_leaf(j, snapshot):
        return False
    active = False
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        if IS_PIPELINED <= state.task[t, STATUS] <= IS_RUNNING:
            active = True
            if finder.refused[snapshot.tasks.cls[t]] == NOT_SUPPORTED:
                return False
    return active


@inner
def waits_for_room(j: int, snapshot: Snapshot, state: State) -> bool:
    """Whether some pod of the job has a place on room that is being left."""
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if state.task[t, STATUS] == IS_PIPELINED:
            return True
    return False


@inner
def stand_again(
    j: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> None:
    """Put a job that a committed search changed where it now belongs in both lists."""
    priority = snapshot.jobs.priority
    q = snapshot.jobs.queue[j]
    prey.herd[q, HERD_KNOWN] = 0.0
    move_out(q, j, victims)
    measure_victim(j, snapshot, state, victims, prey)
    if settings.minimal == 1 and waits_for_room(j, snapshot, state):
        prey.job[j, IS_SETTLED] = 1
    if prey.job[j, IS_SETTLED] == 0 and may_go(j, snapshot, state, finder):
        move_in(q, j, True, settings, priority, victims)
    shifted = move_out(q, j, waiting)
    measure_waiting(j, snapshot, state, log, scratch, waiting, prey)
    if may_compete(j, snapshot, state):
        move_in(q, j, False, settings, priority, waiting)
        shifted = True
    if shifted:
        mark_runs(waiting.slot[q, BASE], waiting.slot[q, LISTED], waiting)


@inner
def move_out(q: int, j: int, lineup: Lineup) -> bool:
    """Take a job out of the list of its leaf: the first one by moving on, any other by closing the gap.

    Returns whether others moved.
    """
    job, slot = lineup.job, lineup.slot
    if job[j, SKIP] == DEAD:
        return False
    job[j, SKIP] = DEAD
    base, end = slot[q, BASE], slot[q, LISTED]
    at = slot[q, ALIVE]
    if job[base + at, LIST] == j:
        slot[q, ALIVE] = at + 1
        return False
    while job[base + at, LIST] != j:
        at += 1
    for place in range(at, end - 1):
        job[base + place, LIST] = job[base + place + 1, LIST]
    slot[q, LISTED] = end - 1
    return True


@inner
def move_in(q: int, j: int, flip: bool, settings: Settings, priority: Longs, lineup: Lineup) -> None:
    """Put a job into the list of its leaf, in order."""
    job, slot = lineup.job, lineup.slot
    job[j, SKIP] = 0
    slot[q, GANG] = min(slot[q, GANG], job[j, PLACE])
    base, begin, end = slot[q, BASE], slot[q, ALIVE], slot[q, LISTED]
    if begin > 0 and (begin == end or leads(j, job[base + begin, LIST], flip, settings, priority, job)):
        slot[q, ALIVE] = begin - 1
        job[base + begin - 1, LIST] = j
        return
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if leads(j, job[base + middle, LIST], flip, settings, priority, job):
            high = middle
        else:
            low = middle + 1
    if begin > 0:
        # the room is at the front
        for place in range(begin - 1, low - 1):
            job[base + place, LIST] = job[base + place + 1, LIST]
        slot[q, ALIVE] = begin - 1
        job[base + low - 1, LIST] = j
        return
    for place in range(end, low, -1):
        job[base + place, LIST] = job[base + place - 1, LIST]
    job[base + low, LIST] = j
    slot[q, LISTED] = end + 1
