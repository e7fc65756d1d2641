"""From a simulated solution to decisions: victims leave, the others have their places (semantics 3.6, 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Settings, Snapshot, Status
from kai_sched.solver.hunt import (
    CAST,
    HOME,
    LEFT_NODE,
    N_CAST,
    N_PLACED,
    N_SCENE,
    OLD_HELD,
    OWED,
    PLACED,
    SCENE,
    TIMES,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import record_placement
from kai_sched.solver.kernels.fairness import diverge, has_gone
from kai_sched.solver.kernels.pool import stand_again
from kai_sched.solver.state import PENDING, STATUS, Decisions, Finder, Log, Scratch, State

IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)


@inner
def carry_out(
    action: int,
    p: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
    decisions: Decisions,
) -> None:
    """Make the simulated solution final and write it down."""
    count, lists = prey.counts, prey.lists
    for entry in range(count[N_SCENE]):
        t = lists[SCENE, entry]
        owe(t, snapshot, prey)
        if has_gone(t, state, prey):
            if state.task[t, STATUS] == IS_PIPELINED:
                prey.task[t, LEFT_NODE] = prey.task[t, HOME] + 1
            if dismiss(t, action, p, prey.task[t, HOME], snapshot, state, decisions):
                weigh_sides(t, p, snapshot, prey, decisions)
    for entry in range(count[N_PLACED]):
        t = lists[PLACED, entry]
        if state.task[t, STATUS] == IS_PIPELINED:
            record_placement(t, state.task, decisions)
    log.size[:] = 0
    for entry in range(count[N_CAST]):
        stand_again(lists[CAST, entry], settings, snapshot, state, log, finder, scratch, waiting, victims, prey)


@inner
def owe(t: int, snapshot: Snapshot, prey: Prey) -> None:
    """Note what the queue of task ``t`` was paid back too often: it keeps it for the rest of the cycle (4.5)."""
    q, price = snapshot.jobs.queue[snapshot.tasks.job[t]], snapshot.classes.quota[snapshot.tasks.cls[t]]
    for r in range(3):
        prey.queue[q, OWED + r] += (prey.task[t, TIMES] - 1) * price[r]


@inner
def weigh_sides(t: int, p: int, snapshot: Snapshot, prey: Prey, decisions: Decisions) -> None:
    """Note, for the eviction just written down, what the queues of both sides held: where their paths part, or one."""
    victim, winner = snapshot.jobs.queue[snapshot.tasks.job[t]], snapshot.jobs.queue[p]
    if victim != winner:
        victim, winner = diverge(victim, winner, snapshot.queues.parent)
    row = decisions.length[1] - 1
    for r in range(3):
        decisions.sides[row, r] = prey.queue[victim, OLD_HELD + r]
        decisions.sides[row, 3 + r] = prey.queue[winner, OLD_HELD + r]


@inner
def leave(t: int, snapshot: Snapshot, state: State, decisions: Decisions) -> None:
    """Let an evicted task leave, or move, without the place that this cycle gave it, if any."""
    if state.task[t, STATUS] != IS_PIPELINED:
        state.task[t, STATUS] = IS_RELEASING
        state.sets[snapshot.tasks.set[t], PENDING] -= 1
    if decisions.row[t] != NULL:
        decisions.task[decisions.row[t]] = NULL
        decisions.row[t] = NULL


@inner
def dismiss(t: int, action: int, p: int, home: int, snapshot: Snapshot, state: State, decisions: Decisions) -> bool:
    """Let an evicted task leave, or move, and write down for whom. A task that never ran only loses its place."""
    moves = state.task[t, STATUS] == IS_PIPELINED
    leave(t, snapshot, state, decisions)
    if snapshot.tasks.status[t] == IS_PENDING or decisions.evicted[t] == 1:
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
