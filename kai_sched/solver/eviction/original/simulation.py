"""Original search only: how a scenario is simulated: the jobs of victims and the preemptor compete for the room in the
order of allocate (semantics 4.5).

All victims of the scenario are evicted first. Then jobs come in the order of allocate (3.1). A victim's job that comes
before the preemptor has one attempt at one chunk, and may take the room back. The preemptor has one attempt at its
chunk. The scenario succeeds if that attempt does; jobs that come later have their attempt, too.

Cost: O(victims x (R + depth)) to evict them, O(Q log Q) for the order of queues, about O(square root of N) for each
task that is placed (``kernels.find``), or O(N) if its node depends on other pods.

Invariant: all changes of the working state go through the undo log, from an empty log on. After a failure the state is
bit for bit what it was before. After a success it is left simulated, for the validator (4.7) and ``commit``.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.evict import evict, prefers_home_devices, prefers_home_zones, return_home
from kai_sched.solver.eviction.home_claims import fits_home_claims
from kai_sched.solver.eviction.scenario import count_at_home, within_limits
from kai_sched.solver.eviction.tables import DEAD, Search
from kai_sched.solver.eviction.victims.leaf_order import first_job, push_heap, rewind, skip_equal_jobs
from kai_sched.solver.eviction.victims.queue_order import build_queue_heaps, next_leaf, take_next_job
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node, place_on_node
from kai_sched.solver.kernels.gang import next_chunk, stage_of
from kai_sched.solver.kernels.numa import has_zones
from kai_sched.solver.kernels.score import is_affordable, score_nodes
from kai_sched.solver.kernels.topology import begin_domains, enter_domains, has_frames, restrict, retreat
from kai_sched.solver.kernels.undo import rollback, undo_all
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
NOT_OFFERED = int(Verdict.NO_ROOM)
BACKED_OFF = int(Verdict.BACKED_OFF)
IS_EVICTED = int(Status.EVICTED)
IS_PIPELINED = int(Status.PIPELINED)
NO_CEILING = 2**62  # a ceiling that no priority reaches


@inner
def simulate_scenario(p: int, k: int, ctx: Context, search: Search) -> bool:
    """Simulate the scenario in ``lists.scenario`` (T + 1,), and return whether the preemptor finds room.

    Writes the working state through the undo log, which is empty before. On success the simulation stays done: the
    placed tasks are in ``lists.placed``, the jobs that took part in ``lists.jobs``, the preemptor last. On failure it
    is undone.

    Parameters
    ----------
    p, k : int
        The preemptor, and how many tasks of ``search.pending`` (L,) it asks for.
    """
    count = search.counts
    if count.scenario[0] == 0 or leaves_unseen_node(ctx, search):
        return False
    ctx.log.size[:] = 0
    count.placed[0] = 0
    begin_simulation(p, k, ctx, search)
    offer_nodes(ctx, search)
    # Only jobs of the scenario get anything. Jobs that wait besides are in the order of queues, as v0.17.0 has them:
    # what they ask for next decides how their queue compares. They are taken out without an attempt. When all jobs of
    # the scenario had their attempt, the rest of the order cannot matter.
    n_left = count.jobs[0]
    found = False
    while n_left > 0:  # Bound: each turn takes one job out of the order, and none is put back; it counts as work.
        q, turned = next_leaf(ctx, search.contenders)
        if q == NULL:
            break
        count.work[0] += 1
        j, listed = first_job(q, NO_CEILING, ctx, search.contenders, count.scenario_clock[0])
        if listed and not turned:
            # The job waits and is not of the scenario. Pass it together with the jobs behind it that get nothing
            # either.
            skip_equal_jobs(q, ctx, search.contenders, count.scenario_clock[0])
        take_next_job(q, NO_CEILING, ctx, search.contenders, count.scenario_clock[0])
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
    ctx.scratch.topology.counts[2] = 0
    if not found:
        undo_all(ctx)
    return found


@inner
def leaves_unseen_node(ctx: Context, search: Search) -> bool:
    """Return whether a victim of the scenario, ``lists.scenario`` (T + 1,), is on a node that is not in the snapshot.

    Such as one of another node pool. v0.17.0 cannot take a pod off it in a simulation; the other search can.
    """
    unseen = 0
    for entry in range(search.counts.scenario[0]):
        unseen += ctx.state.task.node[search.lists.scenario[entry]] == NULL
    return unseen > 0


@inner
def begin_simulation(p: int, k: int, ctx: Context, search: Search) -> None:
    """Evict the victims through the undo log, and build the order of the jobs that compete.

    These are the jobs of the victims, the preemptor, and all jobs that wait. Those of the scenario stand differently
    now, and go into the heaps of their leaves with their new stage and request, ``contenders.held`` (J, 3).

    Parameters
    ----------
    p, k : int
        The preemptor, and how many tasks of ``search.pending`` (L,) it asks for.
    """
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
        # Each job once. The negative mark says that it is entered; no scenario has a negative clock.
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
    add_contender(p, stage_of(snapshot.jobs.set_ptr[p], snapshot.jobs.set_ptr[p + 1], sets, state.sets), clock, search)
    for r in range(3):
        search.contenders.held[p, r] = 0.0
        for entry in range(k):
            search.contenders.held[p, r] += prices[cls[search.pending[entry]], r]
    push_heap(jobs.queue[p], p, ctx, search.contenders)
    for q in range(queues.parent.shape[0]):
        rewind(q, search.contenders)
    build_queue_heaps(NO_CEILING, ctx, search.contenders, clock)


@inner
def add_contender(j: int, stage: int, clock: int, search: Search) -> None:
    """Note that job ``j`` takes part as it stands now, not as it is listed, in place.

    Appends it to ``lists.jobs`` (T + 1,), sets its stage (J,), and marks its listed entry with ``clock``, so that the
    entry does not count in this scenario.
    """
    search.lists.jobs[search.counts.jobs[0]] = j
    search.counts.jobs[0] += 1
    search.contenders.jobs.stage[j] = stage
    if search.contenders.jobs.skip[j] != DEAD:
        search.contenders.jobs.skip[j] = clock


@inner
def restore_contenders(search: Search) -> None:
    """Let the jobs that took part stand as they are listed: their stage (J,) and what they ask for (J, 3), in place."""
    for entry in range(search.counts.jobs[0]):
        j = search.lists.jobs[entry]
        search.contenders.jobs.stage[j] = search.jobs.stage_waiting[j]
        for r in range(3):
            search.contenders.held[j, r] = search.ask[j, r]


@inner
def try_victim(j: int, ctx: Context, search: Search) -> None:
    """Make one attempt to place the next chunk of job ``j`` of the scenario again.

    Evicted tasks count as pending (3.2), so that the chunk may hold tasks that waited before. A victim's job has one
    attempt: if its chunk does not fit, it gets nothing, and an elastic job that lost several chunks returns in part.
    Writes through the undo log; overwrites ``scratch.chunk`` (L,).
    """
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    if jobs.refused[j] != OK and jobs.refused[j] != BACKED_OFF:
        return
    length = next_chunk(j, ctx)
    if length > 0:
        try_chunk(j, length, ctx, search)


@inner
def try_chunk(j: int, length: int, ctx: Context, search: Search) -> bool:
    """Place all tasks of ``scratch.chunk`` (L,), or none of them, and return whether they were placed (3.3).

    The capacity gates (3.4) must let the whole chunk pass. Writes through the undo log; on failure rolls back to where
    the log was. Appends placed tasks to ``lists.placed`` (T + 1,) in place.

    Parameters
    ----------
    j, length : int
        The job, and the number of tasks in the chunk.
    """
    log = ctx.log
    if not within_limits(j, length, ctx):
        return False
    floats, integers = log.size[0], log.size[1]
    placed, entry = search.counts.placed[0], 0
    begin_domains(ctx)
    while entry < length:  # Bound: the domains that each set may try; ``retreat`` ends it after VISITS_MAX nodes.
        t = ctx.scratch.chunk[entry]
        n = node_for_task(t, ctx, search) if enter_domains(entry, length, ctx) == OK else NULL
        if n == NULL:
            entry = retreat(ctx)
            if entry == NULL:
                rollback(floats, integers, ctx)
                search.counts.placed[0] = placed
                return False
            search.counts.placed[0] = placed + entry
            continue
        place_in_search(j, t, n, ctx, search)
        search.lists.placed[search.counts.placed[0]] = t
        search.counts.placed[0] += 1
        entry += 1
    begin_domains(ctx)
    return True


@inner
def node_for_task(t: int, ctx: Context, search: Search) -> int:
    """Return the best node for task ``t`` of a chunk that is placed in a simulation, or NULL; (N,) are offered."""
    finder, c = ctx.finder, ctx.snapshot.tasks.cls[t]
    if finder.refused[c] != OK:
        return NULL
    # An evicted task stays on its node for terms and host ports (3.6). It must not keep itself away, so it is not
    # counted while its own node is chosen.
    apart = finder.dynamic[c] == 1 and ctx.state.task.status[t] == IS_EVICTED
    if apart:
        count_at_home(t, -1, ctx, search)
    n = best_offered_node(t, ctx, search)
    if apart:
        count_at_home(t, 1, ctx, search)
    return n if n != NULL and is_affordable(t, n, ctx) else NULL


@inner
def offer_nodes(ctx: Context, search: Search) -> None:
    """Say which nodes count for topology domains in this simulation: the feasible ones, where not all are (4.5).

    Writes ``scratch.topology.offered`` (N,), if some set has a constraint.
    """
    topo = ctx.scratch.topology
    topo.counts[2] = search.original.restricted[0]
    if topo.set.shape[0] == 0 or search.original.restricted[0] == 0:
        return
    clock = search.counts.scenario_clock[0]
    for n in range(topo.offered.shape[0]):
        topo.offered[n] = search.original.feasible[n] == 1 or search.nodes.scenario_mark[n] == clock


@inner
def best_offered_node(t: int, ctx: Context, search: Search) -> int:
    """Return the best feasible node for task ``t``, or NULL.

    The search is restricted if all tasks of the preemptor ask for GPUs. Then only nodes with idle or releasing GPUs and
    the nodes of the victims are feasible (4.5). Fills ``search.original.offered`` (N,) with the verdicts in place.

    Returns
    -------
    int
        The node with the best score on which the task fits later, which is all that a simulation asks (3.5), or NULL.
    """
    snapshot = ctx.snapshot
    c = snapshot.tasks.cls[t]
    # A pod with GPUs fits no node without GPUs anyway. So only CPU-only pods of victims need the slow way.
    if search.original.restricted[0] == 0 or snapshot.classes.cpu_only[c] == 0:
        return best_node(t, ctx)
    verdicts = ctx.finder.verdicts[snapshot.classes.signature[c]]
    for n in range(verdicts.shape[0]):
        feasible = search.original.feasible[n] == 1 or search.nodes.scenario_mark[n] == search.counts.scenario_clock[0]
        search.original.offered[n] = verdicts[n] if feasible else NOT_OFFERED
    if has_frames(ctx):
        restrict(search.original.offered, ctx)
        return score_nodes(t, ctx, ctx.scratch.topology.verdicts)
    return score_nodes(t, ctx, search.original.offered)


@inner
def place_in_search(j: int, t: int, n: int, ctx: Context, search: Search) -> None:
    """Place a pending or evicted task on node ``n``: it is pipelined there or, on its home, its eviction is taken back.

    Writes through the undo log all that ``evict`` or ``attempt.place_on_node`` writes, among them the room (N, R). A
    task that returns has its old status again, so that a running pod goes on running.

    With node-local scenarios, the node that a pod left in an earlier search of this cycle counts as home, too
    (``tasks.left_node`` (T,)). On it the eviction is taken back as well: the pod keeps the place that it was promised,
    free or not (3.6). At the end of the cycle ``stages.settle`` takes back a promise for which there is no room.

    Parameters
    ----------
    j, t, n : int
        The job, its task, and the node that was chosen for it.
    """
    known = search.tasks.home[t] == n or (search.original.node_local[0] == 1 and search.tasks.left_node[t] == n + 1)
    # With a share of GPUs home is a device, not only a node (3.6).
    if known and ctx.snapshot.tasks.share_ptr[t] < ctx.snapshot.tasks.share_ptr[t + 1]:
        known = search.tasks.home[t] == n and prefers_home_devices(t, ctx, search)
    # With claims for devices and NUMA zones, too.
    if known and ctx.snapshot.dra_claims.task_ptr[t] < ctx.snapshot.dra_claims.task_ptr[t + 1]:
        known = search.tasks.home[t] == n and fits_home_claims(t, ctx, search)
    if known and has_zones(t, ctx):
        known = search.tasks.home[t] == n and prefers_home_zones(t, ctx, search)
    if ctx.state.task.status[t] == IS_EVICTED and known:
        # Not the node that was asked for but the home: in the node-local case above the two differ.
        return_home(j, t, ctx, search)
    else:
        place_on_node(j, t, n, True, ctx)
