"""Keeping the lists of those who wait and those who may have to go, over the searches of one action (semantics 4.2)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status, Verdict
from kai_sched.solver.eviction.leaf_order import job_comes_first, mark_runs, sort_list
from kai_sched.solver.eviction.tables import DEAD, JobOrder, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import count_pending
from kai_sched.solver.kernels.gang import next_chunk, stage_of
from kai_sched.solver.state import Context, State

NOT_SUPPORTED = int(Verdict.NOT_SUPPORTED)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def list_candidates(ctx: Context, search: Search) -> None:
    """List all jobs with pending tasks, and all preemptible ones with active tasks, in the order of their leaves."""
    snapshot, state = ctx.snapshot, ctx.state
    jobs = snapshot.jobs
    n_jobs = jobs.queue.shape[0]
    n_leaves = snapshot.queues.parent.shape[0]
    search.leaves.known[:] = 0.0
    for q in range(n_leaves):
        search.contenders.heap.end[q], search.contenders.heap.begin[q] = 0, 0
        search.contenders.heap.first_by_size[q] = search.contenders.heap.base[q]
        search.victims.heap.end[q], search.victims.heap.begin[q] = 0, 0
    for place in range(n_jobs):
        j = n_jobs - 1 - place
        measure_victim(j, snapshot, state, search)
        search.victims.jobs.skip[j] = DEAD
        if search.jobs.settled[j] == 0 and may_go(j, ctx):
            enter(j, snapshot, search.victims)
    for j in range(n_jobs):
        measure_waiting(j, ctx, search)
        search.contenders.jobs.skip[j] = DEAD
        if may_compete(j, snapshot, state):
            enter(j, snapshot, search.contenders)
    ctx.log.size[:] = 0
    for q in range(n_leaves):
        base = search.contenders.heap.base[q]
        sort_list(base, search.contenders.heap.end[q], ctx, search.contenders)
        mark_runs(base, search.contenders.heap.end[q], search.contenders)
        sort_list(base, search.victims.heap.end[q], ctx, search.victims)


@inner
def enter(j: int, snapshot: Snapshot, job_order: JobOrder) -> None:
    """Append a job to the list of its leaf."""
    q = snapshot.jobs.queue[j]
    at = job_order.heap.end[q]
    job_order.jobs.listed[job_order.heap.base[q] + at] = j
    job_order.jobs.skip[j] = 0
    job_order.heap.end[q] = at + 1


@inner
def measure_victim(j: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Note what a job holds and its stage."""
    jobs = snapshot.jobs
    for r in range(3):
        search.held[j, r] = 0.0
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        if IS_ALLOCATED <= state.task.status[t] <= IS_RUNNING and state.task.node[t] != NULL:
            for r in range(3):
                search.held[j, r] += snapshot.classes.quota[snapshot.tasks.cls[t], r]
    stage = stage_of(jobs.set_ptr[j], jobs.set_ptr[j + 1], snapshot.sets, state.sets)
    search.jobs.stage[j] = stage
    search.victims.jobs.stage[j] = stage
    for r in range(3):
        search.victims.held[j, r] = search.held[j, r]


@inner
def measure_waiting(j: int, ctx: Context, search: Search) -> None:
    """Note what a job asks for next and its stage."""
    snapshot, state = ctx.snapshot, ctx.state
    jobs, sets = snapshot.jobs, snapshot.sets
    first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
    for r in range(3):
        search.ask[j, r] = 0.0
    stage = stage_of(first, end, sets, state.sets)
    if count_pending(first, end, state.sets) > 0:
        length = next_chunk(j, ctx)
        ctx.log.size[:] = 0
        for entry in range(length):
            c = snapshot.tasks.cls[ctx.scratch.chunk[entry]]
            for r in range(3):
                search.ask[j, r] += snapshot.classes.quota[c, r]
    search.jobs.stage_waiting[j] = stage
    search.contenders.jobs.stage[j] = stage
    for r in range(3):
        search.contenders.held[j, r] = search.ask[j, r]


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
def may_go(j: int, ctx: Context) -> bool:
    """Whether the job is preemptible and has active tasks, none of them of a kind that this version cannot move."""
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    if jobs.preemptible[j] == 0 or not in_leaf(j, snapshot):
        return False
    active = False
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        if IS_PIPELINED <= ctx.state.task.status[t] <= IS_RUNNING:
            active = True
            if ctx.finder.refused[snapshot.tasks.cls[t]] == NOT_SUPPORTED:
                return False
    return active


@inner
def waits_for_room(j: int, snapshot: Snapshot, state: State) -> bool:
    """Whether some pod of the job has a place on room that is being left."""
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if state.task.status[t] == IS_PIPELINED:
            return True
    return False


@inner
def reinsert_job(j: int, ctx: Context, search: Search) -> None:
    """Put a job that a committed search changed where it now belongs in both lists."""
    settings, snapshot, state = ctx.settings, ctx.snapshot, ctx.state
    q = snapshot.jobs.queue[j]
    search.leaves.known[q] = 0.0
    move_out(q, j, search.victims)
    measure_victim(j, snapshot, state, search)
    if settings.minimal == 1 and waits_for_room(j, snapshot, state):
        search.jobs.settled[j] = 1
    if search.jobs.settled[j] == 0 and may_go(j, ctx):
        move_in(q, j, ctx, search.victims)
    shifted = move_out(q, j, search.contenders)
    measure_waiting(j, ctx, search)
    if may_compete(j, snapshot, state):
        move_in(q, j, ctx, search.contenders)
        shifted = True
    if shifted:
        mark_runs(search.contenders.heap.base[q], search.contenders.heap.end[q], search.contenders)


@inner
def move_out(q: int, j: int, job_order: JobOrder) -> bool:
    """Take a job out of the list of its leaf: the first one by moving on, any other by closing the gap.

    Returns whether others moved.
    """
    job, slot = job_order.jobs, job_order.heap
    if job.skip[j] == DEAD:
        return False
    job.skip[j] = DEAD
    base, end = slot.base[q], slot.end[q]
    at = slot.begin[q]
    if job.listed[base + at] == j:
        slot.begin[q] = at + 1
        return False
    while job.listed[base + at] != j:
        at += 1
    for place in range(at, end - 1):
        job.listed[base + place] = job.listed[base + place + 1]
    slot.end[q] = end - 1
    return True


@inner
def move_in(q: int, j: int, ctx: Context, job_order: JobOrder) -> None:
    """Put a job into the list of its leaf, in order."""
    job, slot = job_order.jobs, job_order.heap
    job.skip[j] = 0
    slot.first_by_size[q] = min(slot.first_by_size[q], job.place[j])
    base, begin, end = slot.base[q], slot.begin[q], slot.end[q]
    if begin > 0 and (begin == end or job_comes_first(j, job.listed[base + begin], ctx, job_order)):
        slot.begin[q] = begin - 1
        job.listed[base + begin - 1] = j
        return
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if job_comes_first(j, job.listed[base + middle], ctx, job_order):
            high = middle
        else:
            low = middle + 1
    if begin > 0:
        # the room is at the front
        for place in range(begin - 1, low - 1):
            job.listed[base + place] = job.listed[base + place + 1]
        slot.begin[q] = begin - 1
        job.listed[base + low - 1] = j
        return
    for place in range(end, low, -1):
        job.listed[base + place] = job.listed[base + place - 1]
    job.listed[base + low] = j
    slot.end[q] = end + 1
