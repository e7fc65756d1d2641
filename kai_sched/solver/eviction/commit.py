"""Makes a simulated solution final: which evictions and placements go to the decision log (semantics 3.6, 4.5).

A search that succeeds leaves its solution simulated in the working state. To commit it, the undo log is emptied, and
what differs from before is written to the decision log: one eviction for each pod that leaves or moves, one placement
for each pod that waits for room. A victim that is at home again is in neither.

Cost: O(victims + placed tasks, times R), and ``candidates.reinsert_job`` for each job that took part.

Invariant: afterwards no task is EVICTED, the log is empty, and the lists of candidates are those of the working state.
Each pod has at most one eviction and at most one placement in the decision log that counts.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.decisions import Evictions
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.eviction.scenario import has_gone
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims.candidates import reinsert_job, take_out_neighbours
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import record_placement
from kai_sched.solver.kernels.devices import price_of
from kai_sched.solver.state import Context

IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)


@inner
def commit_scenario(action: int, p: int, ctx: Context, search: Search) -> None:
    """Make the simulated solution final and write it to the decision log.

    Reads ``lists.scenario`` and ``lists.placed`` (T + 1,). Writes directly, not through the undo log:
    ``ctx.decisions``, what queues hold (``record_overpayment``), the status of tasks that leave (T,),
    ``tasks.left_node`` (T,), and the lists of candidates.

    Parameters
    ----------
    action, p : int
        The action, and the preemptor.
    """
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    count, lists = search.counts, search.lists
    for entry in range(count.scenario[0]):
        t = lists.scenario[entry]
        record_overpayment(t, ctx, search)
        if has_gone(t, state, search):
            # The victim has a place on another node. Later node-local scenarios may give it the place back
            # (``place_in_search``).
            if state.task.status[t] == IS_PIPELINED:
                search.tasks.left_node[t] = search.tasks.home[t] + 1
            if record_eviction(t, action, p, search.tasks.home[t], ctx):
                record_held(t, p, snapshot, search, decisions.evictions)
    for entry in range(count.placed[0]):
        t = lists.placed[entry]
        if state.task.status[t] == IS_PIPELINED:
            record_placement(t, state.task, decisions.placements)
    # From here on nothing can be undone. Jobs are measured only now, as that uses the log.
    ctx.log.size[:] = 0
    for entry in range(count.jobs[0]):
        reinsert_job(lists.jobs[entry], ctx, search)
    if ctx.settings.minimal == 1:
        take_out_neighbours(ctx, search)


@inner
def record_overpayment(t: int, ctx: Context, search: Search) -> None:
    """Settle what the queue of task ``t`` was paid back too often, as the scenario names it several times (4.5).

    It keeps the price of the task once for the rest of the cycle, and pays for all further times now: v0.17.0 deletes
    the pod twice. Adds to ``search.queues.overpaid`` (Q, 3), which ``stages.settle`` charges at the end, and to
    ``held`` (Q + 1, 3) of its queues. Nothing happens for a task that is named once.
    """
    snapshot, times = ctx.snapshot, search.tasks.times[t]
    if times == 1:
        return
    c, q = snapshot.tasks.cls[t], snapshot.jobs.queue[snapshot.tasks.job[t]]
    for r in range(3):
        price = price_of(c, r, search.tasks.home[t], ctx)
        search.queues.overpaid[q, r] += price
        above = q
        while above != NULL:  # Bound: the depth of the queue tree.
            ctx.state.book.held[above, r] += (times - 2) * price
            above = snapshot.queues.parent[above]


@inner
def record_held(t: int, p: int, snapshot: Snapshot, search: Search, evictions: Evictions) -> None:
    """Note for the eviction just written what both queues held before the simulation, for messages.

    Writes ``victim_held`` and ``preemptor_held`` of ``evictions``, (T, 3) each, in the units of queues. The two queues
    are those at which the paths from the root part, or the common queue if both jobs are in it.

    Parameters
    ----------
    t, p : int
        The evicted task, and the preemptor.
    """
    victim, winner = snapshot.jobs.queue[snapshot.tasks.job[t]], snapshot.jobs.queue[p]
    if victim != winner:
        victim, winner = sides_of(victim, winner, snapshot.queues.parent)
    row = evictions.length[0] - 1
    for r in range(3):
        evictions.victim_held[row, r] = search.queues.old_held[victim, r]
        evictions.preemptor_held[row, r] = search.queues.old_held[winner, r]


@inner
def finish_eviction(t: int, ctx: Context) -> None:
    """Let an evicted task leave its node for good, or move, and drop the place that this cycle gave it before.

    Writes directly. A task that leaves gets the status RELEASING (T,), and its set has one pending task less (S,), as
    RELEASING tasks are not pending. One that moves is pipelined already. The row of its earlier placement in the
    decision log no longer counts.
    """
    state, placements = ctx.state, ctx.decisions.placements
    if state.task.status[t] != IS_PIPELINED:
        state.task.status[t] = IS_RELEASING
        state.sets.pending[ctx.snapshot.tasks.set[t]] -= 1
    if placements.row[t] != NULL:
        placements.task[placements.row[t]] = NULL
        placements.row[t] = NULL


@inner
def record_eviction(t: int, action: int, p: int, home: int, ctx: Context) -> bool:
    """Let an evicted task leave or move, and write down for which job. A task that never ran only loses its place.

    Writes a row of ``decisions.evictions`` (T,) directly.

    Parameters
    ----------
    t, p : int
        The task, and the preemptor.
    home : int
        The node where the task was before the simulation.

    Returns
    -------
    bool
        Whether a row was written. It is not if the pod has no node in the cluster yet, or was evicted before in this
        cycle: each pod is deleted once.
    """
    evictions = ctx.decisions.evictions
    moves = ctx.state.task.status[t] == IS_PIPELINED
    finish_eviction(t, ctx)
    if ctx.snapshot.tasks.status[t] == IS_PENDING or evictions.is_evicted[t] == 1:
        return False
    evictions.is_evicted[t] = 1
    row = evictions.length[0]
    evictions.length[0] = row + 1
    evictions.task[row] = t
    evictions.action[row] = action
    evictions.preemptor[row] = p
    evictions.node[row] = home
    evictions.moved[row] = moves
    return True
