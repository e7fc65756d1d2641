"""Which jobs compete for room and which can be victims at all, and their sorted lists by leaf queue over an action
(semantics 4.2).

Contenders are jobs with pending tasks: in a simulation they compete for room. Victims are preemptible jobs with active
tasks. Each leaf queue has one sorted list of either kind: contenders in job order (1.3), victims in its inverse (4.3).
``list_candidates`` builds them once for each action that searches. ``reinsert_job`` updates them after each committed
search. A search never changes them: jobs that stand otherwise in one are in the heaps of ``victims.leaf_order``.

Cost: O(T + J log J + Q) to build, O(tasks of the job + jobs of the leaf) for each job that a search changed.

Invariant, for both lists: the list of leaf q is ``listed[base + begin : base + end]``, sorted and without gaps.
``skip[j]`` is DEAD exactly where job j is not in it. The amounts in ``held`` (J, 3) and the stages are those of the
working state, which holds no simulated change whenever a function of this module runs.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import DEAD, JobOrder, Search
from kai_sched.solver.eviction.victims.leaf_order import job_comes_first, mark_runs, sort_list
from kai_sched.solver.eviction.victims.neighbours import settle_neighbours, settle_new_neighbours
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import count_pending
from kai_sched.solver.kernels.gang import next_chunk, stage_of
from kai_sched.solver.state import Context, State

CONSOLIDATION = int(Action.CONSOLIDATION)
NOT_SUPPORTED = int(Verdict.NOT_SUPPORTED)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def list_candidates(ctx: Context, search: Search) -> None:
    """List all jobs with pending tasks, and all preemptible jobs with active tasks, in the order of their leaves.

    Rebuilds both lists of ``search`` and the measures of all jobs in place: ``search.held``, ``search.ask`` (J, 3) and
    the stages (J,). Forgets what is known of the victims of each leaf (``queues.victims_surveyed`` (Q,)).
    """
    snapshot, state = ctx.snapshot, ctx.state
    jobs = snapshot.jobs
    if ctx.settings.minimal == 1:
        settle_neighbours(ctx, search)
    n_jobs = jobs.queue.shape[0]
    n_leaves = snapshot.queues.parent.shape[0]
    search.queues.victims_surveyed[:] = 0
    for q in range(n_leaves):
        search.contenders.heap.end[q], search.contenders.heap.begin[q] = 0, 0
        search.contenders.heap.first_by_size[q] = search.contenders.heap.base[q]
        search.victims.heap.end[q], search.victims.heap.begin[q] = 0, 0
    # Rows of jobs go by age. Job order ends with the age, so that contenders entered by row, and victims entered in
    # reverse, are mostly in order already. ``sort_list`` only reads a list that is in order.
    for place in range(n_jobs):
        j = n_jobs - 1 - place
        measure_victim(j, snapshot, state, search)
        search.victims.jobs.skip[j] = DEAD
        if is_candidate(j, ctx, search):
            list_job(j, snapshot, search.victims)
    for j in range(n_jobs):
        measure_waiting(j, ctx, search)
        search.contenders.jobs.skip[j] = DEAD
        if may_compete(j, snapshot, state):
            list_job(j, snapshot, search.contenders)
    ctx.log.size[:] = 0
    for q in range(n_leaves):
        base = search.contenders.heap.base[q]
        sort_list(base, search.contenders.heap.end[q], ctx, search.contenders)
        mark_runs(base, search.contenders.heap.end[q], search.contenders)
        sort_list(base, search.victims.heap.end[q], ctx, search.victims)


@inner
def list_once(ctx: Context, search: Search) -> None:
    """Call ``list_candidates``, unless that was done in this action (``search.counts.listed``).

    To look at all jobs is most of the work of an action that helps nobody, and what they are listed by changes only
    with what a search commits. So ``settle_neighbours`` marks nothing in an action that searches for no job.
    """
    if search.counts.listed[0] == 0:
        search.counts.listed[0] = 1
        list_candidates(ctx, search)


@inner
def list_job(j: int, snapshot: Snapshot, job_order: JobOrder) -> None:
    """Append job ``j`` to the list of its leaf, unsorted, in place.

    Writes ``listed`` and ``skip`` (J,) and the end of the list, ``heap.end`` (Q + 1,). The list has room for all jobs
    of the leaf, so that it cannot overflow into the list of the next leaf.
    """
    q = snapshot.jobs.queue[j]
    at = job_order.heap.end[q]
    job_order.jobs.listed[job_order.heap.base[q] + at] = j
    job_order.jobs.skip[j] = 0
    job_order.heap.end[q] = at + 1


@inner
def measure_victim(j: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Note what job ``j`` holds and its stage, for the order of victims (4.3).

    Writes in place: ``search.held`` (J, 3) in the units of queues, which is what step 5 of queue order subtracts for
    the job, and ``search.jobs.stage`` (J,). Pipelined tasks do not count as held. Copies both to ``search.victims``:
    there they change while victims accumulate, and ``victims.potential.forget_accumulation`` restores them from here.
    """
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
    """Note what job ``j`` asks for next and its stage, for the order of contenders (3.1).

    Writes in place: ``search.ask`` (J, 3), the amounts of the next chunk in the units of queues, zeros if nothing is
    pending, and ``search.jobs.stage_waiting`` (J,). Copies both to ``search.contenders``: there they change for the
    jobs that take part in a simulation, and ``original.simulation.restore_contenders`` restores them from here.
    Overwrites ``scratch.chunk``.
    """
    snapshot, state = ctx.snapshot, ctx.state
    jobs, sets = snapshot.jobs, snapshot.sets
    first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
    for r in range(3):
        search.ask[j, r] = 0.0
    stage = stage_of(first, end, sets, state.sets)
    if count_pending(first, end, state.sets) > 0:
        length = next_chunk(j, ctx)
        # ``next_chunk`` moved cursors of sets through the log. A cursor only says before which task none is pending.
        # That is true of the working state, so the moves stay: the log is emptied and not rolled back.
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
    """Return whether the queue of job ``j`` exists and is a leaf, by ``queues.child_ptr`` (Q + 2,)."""
    q = snapshot.jobs.queue[j]
    return bool(q != NULL and snapshot.queues.child_ptr[q] == snapshot.queues.child_ptr[q + 1])


@inner
def may_compete(j: int, snapshot: Snapshot, state: State) -> bool:
    """Return whether job ``j`` is in a leaf and has pending tasks, by ``state.sets.pending`` (S,)."""
    jobs = snapshot.jobs
    return in_leaf(j, snapshot) and count_pending(jobs.set_ptr[j], jobs.set_ptr[j + 1], state.sets) > 0


@inner
def is_candidate(j: int, ctx: Context, search: Search) -> bool:
    """Return whether the action may take pods of job ``j``, by ``search.jobs.settled`` (J,) and ``jobs`` (J,).

    Consolidation does not, if one of its pods is not safe to consolidate (6).
    """
    stays = search.counts.action[0] == CONSOLIDATION and ctx.snapshot.jobs.not_consolidated[j] == 1
    return search.jobs.settled[j] == 0 and not stays and may_go(j, ctx)


@inner
def may_go(j: int, ctx: Context) -> bool:
    """Return whether job ``j`` may be a victim at all (4.2): preemptible, in a leaf, active tasks, none unsupported.

    Reads ``state.task.status`` (T,), where pipelined tasks count as active, and ``finder.refused`` (C,). Queues,
    priorities and minimum runtimes depend on the preemptor; ``stages.evicting.choose_victims`` checks them.
    """
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
    """Return whether some task of job ``j`` is pipelined in ``state.task.status`` (T,): its room is being left."""
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if state.task.status[t] == IS_PIPELINED:
            return True
    return False


@inner
def reinsert_job(j: int, ctx: Context, search: Search) -> None:
    """Put job ``j``, which a committed search changed, where it now belongs in both lists.

    Measures the job again and updates both lists of its leaf in place (J,). With minimal victims a job that waits for
    room is marked in ``search.jobs.settled`` (J,): it got places by a search of this cycle, and no later search takes
    them. Of the other jobs of the leaf nothing changes, but ``run_end`` (J,) holds places, so that it is computed again
    if entries moved.
    """
    settings, snapshot, state = ctx.settings, ctx.snapshot, ctx.state
    q = snapshot.jobs.queue[j]
    search.queues.victims_surveyed[q] = 0
    move_out(q, j, search.victims)
    measure_victim(j, snapshot, state, search)
    if settings.minimal == 1 and waits_for_room(j, snapshot, state):
        search.jobs.settled[j] = 1
    if is_candidate(j, ctx, search):
        move_in(q, j, ctx, search.victims)
    shifted = move_out(q, j, search.contenders)
    measure_waiting(j, ctx, search)
    if may_compete(j, snapshot, state):
        move_in(q, j, ctx, search.contenders)
        shifted = True
    if shifted:
        mark_runs(search.contenders.heap.base[q], search.contenders.heap.end[q], search.contenders)


@inner
def take_out_neighbours(ctx: Context, search: Search) -> None:
    """Take the jobs out of the victims near which a committed search placed pods; nothing without required affinity.

    Reads ``lists.placed`` (T + 1,); updates the lists of the leaves in place, (J,). ``counts.work`` grows.
    """
    settle_new_neighbours(ctx, search)
    for entry in range(search.counts.neighbours[0]):
        j = search.lists.neighbours[entry]
        if search.victims.jobs.skip[j] != DEAD:
            q = ctx.snapshot.jobs.queue[j]
            search.queues.victims_surveyed[q] = 0
            move_out(q, j, search.victims)


@inner
def move_out(q: int, j: int, job_order: JobOrder) -> bool:
    """Take job ``j`` out of the list of leaf ``q``, in place; nothing happens if it is not in it.

    Parameters
    ----------
    q, j : int
        The leaf, and a job of it.
    job_order : JobOrder
        ``search.contenders`` or ``search.victims``.

    Returns
    -------
    bool
        Whether other entries of ``listed`` (J,) moved, so that ``run_end`` is out of date. The first job leaves without
        that: the list begins one place later. Most jobs that leave are the first of their leaf.
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
    while job.listed[base + at] != j:  # Bound: the job is in the list.
        at += 1
    for place in range(at, end - 1):
        job.listed[base + place] = job.listed[base + place + 1]
    slot.end[q] = end - 1
    return True


@inner
def move_in(q: int, j: int, ctx: Context, job_order: JobOrder) -> None:
    """Insert job ``j`` into the sorted list of leaf ``q``, in place, by binary search.

    Writes ``listed`` and ``skip`` (J,), and ``first_by_size`` (Q + 1,), which may be too low but never too high.
    Moves up to all entries of the list, so that ``run_end`` is out of date.

    Parameters
    ----------
    q, j : int
        The leaf, and a job of it that is not in the list.
    job_order : JobOrder
        ``search.contenders`` or ``search.victims``.
    """
    job, slot = job_order.jobs, job_order.heap
    job.skip[j] = 0
    slot.first_by_size[q] = min(slot.first_by_size[q], job.place[j])
    base, begin, end = slot.base[q], slot.begin[q], slot.end[q]
    if begin > 0 and (begin == end or job_comes_first(j, job.listed[base + begin], ctx, job_order)):
        slot.begin[q] = begin - 1
        job.listed[base + begin - 1] = j
        return
    low, high = begin, end
    while low < high:  # Bound: each turn makes the interval shorter.
        middle = (low + high) // 2
        if job_comes_first(j, job.listed[base + middle], ctx, job_order):
            high = middle
        else:
            low = middle + 1
    # There is a free place: at the front if some job left there, else at the end. The list has as many places as the
    # leaf has jobs, and job j was not in it.
    if begin > 0:
        for place in range(begin - 1, low - 1):
            job.listed[base + place] = job.listed[base + place + 1]
        slot.begin[q] = begin - 1
        job.listed[base + low - 1] = j
        return
    for place in range(end, low, -1):
        job.listed[base + place] = job.listed[base + place - 1]
    job.listed[base + low] = j
    slot.end[q] = end + 1
