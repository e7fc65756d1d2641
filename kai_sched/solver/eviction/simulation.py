"""Simulate a scenario: evict its victims, then let them and the preemptor compete for the room (semantics 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status, Verdict
from kai_sched.solver.eviction.evict import evict, place_in_search
from kai_sched.solver.eviction.leaf_order import first_job, push_heap, rewind, skip_equal_jobs
from kai_sched.solver.eviction.queue_order import build_queue_heaps, next_leaf, take
from kai_sched.solver.eviction.tables import DEAD, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.gang import BELOW_MINIMUM, next_chunk, stage_of
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.place import count_bonds
from kai_sched.solver.kernels.score import score_nodes
from kai_sched.solver.kernels.undo import rollback, undo_all
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
NOT_OFFERED = int(Verdict.NO_ROOM)
IS_EVICTED = int(Status.EVICTED)
EVERYBODY = 2**62  # a ceiling that no priority reaches


@inner
def simulate(p: int, k: int, ctx: Context, search: Search) -> bool:
    """Whether the first ``k`` pending tasks of job ``p`` find room; if so, all that was simulated stays done."""
    count = search.counts
    if count.scenario[0] == 0:
        return False
    ctx.log.size[:] = 0
    count.placed[0] = 0
    begin_simulation(p, k, ctx, search)
    n_left = count.jobs[0]
    found = False
    while n_left > 0:
        q, turned = next_leaf(ctx, search.contenders)
        if q == NULL:
            break
        count.work[0] += 1
        j, listed = first_job(q, EVERYBODY, ctx, search.contenders, count.scenario_clock[0])
        if listed and not turned:
            # it only competes, and so do those behind it
            skip_equal_jobs(q, ctx, search.contenders, count.scenario_clock[0])
        take(q, EVERYBODY, ctx, search.contenders, count.scenario_clock[0])
        if listed:
            continue
        n_left -= 1
        if j != p:
            try_victim(j, ctx, search)
            continue
        for entry in range(k):
            ctx.scratch.chunk[entry] = search.pending[entry]
        found = try_chunk(p, k, ctx, search)
        if not found:
            break
    restore_contenders(search)
    if not found:
        undo_all(ctx)
    return found


@inner
def begin_simulation(p: int, k: int, ctx: Context, search: Search) -> None:
    """Evict the victims, and line up who competes: the jobs of the victims, the preemptor, and all who wait."""
    snapshot, state = ctx.snapshot, ctx.state
    count, jobs, sets, queues = search.counts, snapshot.jobs, snapshot.sets, snapshot.queues
    prices, cls = snapshot.classes.quota, snapshot.tasks.cls
    clock = count.scenario_clock[0]
    count.jobs[0] = 0
    for q in range(queues.parent.shape[0]):
        search.contenders.heap.job_heap_size[q] = 0
    for entry in range(count.scenario[0]):
        t = search.lists.scenario[entry]
        evict(snapshot.tasks.job[t], t, search.tasks.times[t], ctx, search)
    for entry in range(count.scenario[0]):
        j = snapshot.tasks.job[search.lists.scenario[entry]]
        if search.jobs.scenario_mark[j] != clock:
            continue
        search.jobs.scenario_mark[j] = -clock
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        length = next_chunk(j, ctx)
        add_contender(j, stage_of(first, end, sets, state.sets), clock, search)
        for r in range(3):
            search.contenders.held[j, r] = 0.0
            for place in range(length):
                search.contenders.held[j, r] += prices[cls[ctx.scratch.chunk[place]], r]
        push_heap(jobs.queue[j], j, ctx, search.contenders)
    add_contender(p, preemptor_stage(p, k, snapshot, state, search), clock, search)
    for r in range(3):
        search.contenders.held[p, r] = 0.0
        for entry in range(k):
            search.contenders.held[p, r] += prices[cls[search.pending[entry]], r]
    push_heap(jobs.queue[p], p, ctx, search.contenders)
    for q in range(queues.parent.shape[0]):
        rewind(q, search.contenders)
    build_queue_heaps(EVERYBODY, ctx, search.contenders, clock)


@inner
def add_contender(j: int, stage: int, clock: int, search: Search) -> None:
    """Note that a job takes part as it stands now, not as it is listed."""
    search.lists.jobs[search.counts.jobs[0]] = j
    search.counts.jobs[0] += 1
    search.contenders.jobs.stage[j] = stage
    if search.contenders.jobs.skip[j] != DEAD:
        search.contenders.jobs.skip[j] = clock


@inner
def restore_contenders(search: Search) -> None:
    """Let the jobs that took part stand again as they are listed."""
    for entry in range(search.counts.jobs[0]):
        j = search.lists.jobs[entry]
        search.contenders.jobs.stage[j] = search.jobs.stage_waiting[j]
        for r in range(3):
            search.contenders.held[j, r] = search.ask[j, r]


@inner
def preemptor_stage(p: int, k: int, snapshot: Snapshot, state: State, search: Search) -> int:
    """The stage of job ``p`` with its minimums lowered to the pods that it has or wishes for (4.5)."""
    sets = snapshot.sets
    stage = stage_of(snapshot.jobs.set_ptr[p], snapshot.jobs.set_ptr[p + 1], sets, state.sets)
    for entry in range(k):
        s = snapshot.tasks.set[search.pending[entry]]
        if state.sets.active[s] < sets.minimum[s]:
            return BELOW_MINIMUM
    return stage


@inner
def try_victim(j: int, ctx: Context, search: Search) -> None:
    """Place one chunk of a victim's job again, if it can be."""
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    if jobs.refused[j] != OK:
        return
    length = next_chunk(j, ctx)
    if length > 0:
        try_chunk(j, length, ctx, search)


@inner
def try_chunk(j: int, length: int, ctx: Context, search: Search) -> bool:
    """Place the ``length`` tasks in ``scratch.chunk`` if the gates let them and each finds a node; else none."""
    log, finder = ctx.log, ctx.finder
    tasks = ctx.snapshot.tasks
    if not within_limits(j, length, ctx):
        return False
    floats, integers = log.size[0], log.size[1]
    placed = search.counts.placed[0]
    for entry in range(length):
        t = ctx.scratch.chunk[entry]
        n = NULL
        if finder.refused[tasks.cls[t]] == OK:
            apart = finder.dynamic[tasks.cls[t]] == 1 and ctx.state.task.status[t] == IS_EVICTED
            if apart:
                count_at_home(t, -1, ctx, search)
            n = best_offered_node(t, ctx, search)
            if apart:
                count_at_home(t, 1, ctx, search)
        if n == NULL:
            rollback(floats, integers, ctx)
            search.counts.placed[0] = placed
            return False
        place_in_search(j, t, n, ctx, search)
        search.lists.placed[search.counts.placed[0]] = t
        search.counts.placed[0] += 1
    return True


@inner
def within_limits(j: int, length: int, ctx: Context) -> bool:
    """Whether the queues of job ``j`` may hold the ``length`` tasks of ``scratch.chunk``, too."""
    snapshot, scratch = ctx.snapshot, ctx.scratch
    for r in range(3):
        scratch.need[r] = 0.0
        for entry in range(length):
            scratch.need[r] += snapshot.classes.quota[snapshot.tasks.cls[scratch.chunk[entry]], r]
    jobs = snapshot.jobs
    verdict, _, _ = pass_gates(
        jobs.queue[j], scratch.need, jobs.preemptible[j] == 0, snapshot.queues.parent, ctx.state.book
    )
    return bool(verdict == OK)


@inner
def count_at_home(t: int, sign: int, ctx: Context, search: Search) -> None:
    """Leave an evicted task out of what it may conflict with, or (``sign`` 1) let it be there for all others again.

    It is where it was evicted, and, if it had only been promised that place, still where it runs.
    """
    snapshot = ctx.snapshot
    c, home, start = snapshot.tasks.cls[t], search.tasks.home[t], snapshot.tasks.node[t]
    if home != NULL:
        count_bonds(c, home, sign, ctx)
    if start != NULL and start != home:
        count_bonds(c, start, sign, ctx)


@inner
def best_offered_node(t: int, ctx: Context, search: Search) -> int:
    """The best feasible node for a task.

    Nodes without idle or releasing GPUs are not feasible where all pending tasks ask for GPUs, save those of victims; a
    pod with GPUs fits none of them anyway.
    """
    snapshot = ctx.snapshot
    c = snapshot.tasks.cls[t]
    if search.counts.restricted[0] == 0 or snapshot.classes.cpu_only[c] == 0:
        return best_node(t, ctx)
    verdicts = ctx.finder.verdicts[snapshot.classes.signature[c]]
    for n in range(verdicts.shape[0]):
        feasible = search.nodes.feasible[n] == 1 or search.nodes.scenario_mark[n] == search.counts.scenario_clock[0]
        search.offered[n] = verdicts[n] if feasible else NOT_OFFERED
    return score_nodes(c, snapshot.tasks.nominated[t], ctx, search.offered)
