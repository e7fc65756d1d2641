"""From a simulated solution to decisions: victims leave, the others have their places (semantics 3.6, 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.eviction.candidates import reinsert_job
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.validate import diverge, has_gone
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import record_placement
from kai_sched.solver.state import Context, Decisions

IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)


@inner
def commit_scenario(action: int, p: int, ctx: Context, search: Search) -> None:
    """Make the simulated solution final and write it down."""
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    count, lists = search.counts, search.lists
    for entry in range(count.scenario[0]):
        t = lists.scenario[entry]
        record_overpayment(t, snapshot, search)
        if has_gone(t, state, search):
            if state.task.status[t] == IS_PIPELINED:
                search.tasks.left_node[t] = search.tasks.home[t] + 1
            if record_eviction(t, action, p, search.tasks.home[t], ctx):
                record_sides(t, p, snapshot, search, decisions)
    for entry in range(count.placed[0]):
        t = lists.placed[entry]
        if state.task.status[t] == IS_PIPELINED:
            record_placement(t, state.task, decisions)
    ctx.log.size[:] = 0
    for entry in range(count.jobs[0]):
        reinsert_job(lists.jobs[entry], ctx, search)


@inner
def record_overpayment(t: int, snapshot: Snapshot, search: Search) -> None:
    """Note what the queue of task ``t`` was paid back too often: it keeps it for the rest of the cycle (4.5)."""
    q, price = snapshot.jobs.queue[snapshot.tasks.job[t]], snapshot.classes.quota[snapshot.tasks.cls[t]]
    for r in range(3):
        search.queues.overpaid[q, r] += (search.tasks.times[t] - 1) * price[r]


@inner
def record_sides(t: int, p: int, snapshot: Snapshot, search: Search, decisions: Decisions) -> None:
    """Note, for the eviction just written down, what the queues of both sides held: where their paths part, or one."""
    victim, winner = snapshot.jobs.queue[snapshot.tasks.job[t]], snapshot.jobs.queue[p]
    if victim != winner:
        victim, winner = diverge(victim, winner, snapshot.queues.parent)
    row = decisions.length[1] - 1
    for r in range(3):
        decisions.sides[row, r] = search.queues.old_held[victim, r]
        decisions.sides[row, 3 + r] = search.queues.old_held[winner, r]


@inner
def leave(t: int, ctx: Context) -> None:
    """Let an evicted task leave, or move, without the place that this cycle gave it, if any."""
    state, decisions = ctx.state, ctx.decisions
    if state.task.status[t] != IS_PIPELINED:
        state.task.status[t] = IS_RELEASING
        state.sets.pending[ctx.snapshot.tasks.set[t]] -= 1
    if decisions.row[t] != NULL:
        decisions.task[decisions.row[t]] = NULL
        decisions.row[t] = NULL


@inner
def record_eviction(t: int, action: int, p: int, home: int, ctx: Context) -> bool:
    """Let an evicted task leave, or move, and write down for whom. A task that never ran only loses its place."""
    decisions = ctx.decisions
    moves = ctx.state.task.status[t] == IS_PIPELINED
    leave(t, ctx)
    if ctx.snapshot.tasks.status[t] == IS_PENDING or decisions.evicted[t] == 1:
        return False
    decisions.evicted[t] = 1
    row = decisions.length[1]
    decisions.length[1] = row + 1
    decisions.eviction[row, 0] = t
    decisions.eviction[row, 1] = action
    decisions.eviction[row, 2] = p
    decisions.eviction[row, 3] = home
    decisions.eviction[row, 4] = moves
    return True
