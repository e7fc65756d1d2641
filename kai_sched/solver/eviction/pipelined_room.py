"""Jobs that are pipelined onto room that is free already (semantics 3.7).

A job that a later cycle pipelines onto free room once more is bound, as there is nobody to wait for. The original lets
it wait again, so two groups may take that room from each other in every cycle, for ever.
"""

from __future__ import annotations

import enum

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Bond, Floats, Snapshot, Status, Turn
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.account import open_nodes
from kai_sched.solver.kernels.attempt import waits_for_minimum
from kai_sched.solver.state import Context, Decisions, State

NEED = int(Bond.NEED)
PIPELINED_FREE = int(Turn.PIPELINED_FREE)
IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_ALLOCATED = int(Status.ALLOCATED)


class RoomState(enum.IntEnum):
    """Of ``Decisions.free``: whether all room for which a job is pipelined is free already."""

    NOT_SEEN = 0
    FREE = 1
    NOT_FREE = 2


NOT_SEEN = int(RoomState.NOT_SEEN)
FREE = int(RoomState.FREE)
NOT_FREE = int(RoomState.NOT_FREE)


@inner
def pipeline_incomplete_gangs(ctx: Context) -> None:
    """Let all that a job got in this cycle wait where some pod of its minimum has to: it starts whole, or not yet."""
    snapshot, state = ctx.snapshot, ctx.state
    for j in range(snapshot.jobs.queue.shape[0]):
        if not waits_for_minimum(j, snapshot, state):
            continue
        for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
            if snapshot.tasks.status[t] == IS_PENDING and state.task.status[t] == IS_ALLOCATED:
                make_wait(t, ctx)


@inner
def make_wait(t: int, ctx: Context) -> None:
    """Let a task that was to be bound wait for its room instead."""
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    n, c = state.task.node[t], snapshot.tasks.cls[t]
    state.task.status[t] = IS_PIPELINED
    state.sets.waiting[snapshot.tasks.set[t]] += 1
    decisions.waits[decisions.row[t]] = 1
    for r in range(state.idle.shape[1]):
        amount = snapshot.classes.request[c, r]
        if amount != 0.0 and snapshot.nodes.allocatable[n, r] > 0.0:
            state.idle[n, r] += amount
            state.releasing[n, r] -= amount


@inner
def bind_pipelined_jobs(at_once: bool, ctx: Context, room: Floats, leaving: Floats) -> None:
    """Mark the jobs whose room is all free now, and bind those of them that an earlier cycle marked.

    With ``at_once`` all of them are bound. The jobs that were pipelined first are served first. ``room`` and
    ``leaving`` are (N, R) zeros to work in.
    """
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    tasks, free = snapshot.tasks, decisions.free
    for row in range(decisions.length[1]):
        if decisions.eviction[row, 2] != NULL:
            free[decisions.eviction[row, 2]] = NOT_FREE  # others leave for it
    if not anybody_left(snapshot, decisions):
        return
    open_nodes(tasks.status, room, leaving, ctx)
    for t in range(tasks.job.shape[0]):
        if tasks.status[t] == IS_PENDING and state.task.status[t] == IS_ALLOCATED:
            take(t, 1.0, snapshot, state, room)
    for row in range(decisions.length[0]):
        t = decisions.task[row]
        if t == NULL or decisions.waits[row] == 0 or free[tasks.job[t]] != NOT_SEEN:
            continue
        j = tasks.job[t]
        free[j] = FREE if take_all(j, snapshot, state, room) else NOT_FREE
        if free[j] == FREE and (at_once or snapshot.jobs.turn[j] == PIPELINED_FREE):
            bind(j, ctx, room)
            free[j] = NOT_FREE


@inner
def anybody_left(snapshot: Snapshot, decisions: Decisions) -> bool:
    """Whether some job is pipelined without any eviction for it."""
    for row in range(decisions.length[0]):
        t = decisions.task[row]
        if t != NULL and decisions.waits[row] == 1 and decisions.free[snapshot.tasks.job[t]] == NOT_SEEN:
            return True
    return False


@inner
def take_all(j: int, snapshot: Snapshot, state: State, room: Floats) -> bool:
    """Take all room for which job ``j`` is pipelined off ``room``, or nothing: False where there is not enough.

    What still runs elsewhere, or must be beside others, who may leave yet, has to wait.
    """
    tasks, bonds, request = snapshot.tasks, snapshot.bonds, snapshot.classes.request
    first, end = snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]
    enough = True
    for t in range(first, end):
        if state.task.status[t] != IS_PIPELINED:
            continue
        c, n = tasks.cls[t], state.task.node[t]
        enough = enough and tasks.status[t] == IS_PENDING
        for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
            enough = enough and bonds.entry[entry, 0] != NEED
        take(t, 1.0, snapshot, state, room)
        for r in range(room.shape[1]):
            enough = enough and (room[n, r] >= 0.0 or request[c, r] == 0.0)
    if not enough:
        for t in range(first, end):
            if state.task.status[t] == IS_PIPELINED:
                take(t, -1.0, snapshot, state, room)
    return enough


@inner
def take(t: int, sign: float, snapshot: Snapshot, state: State, room: Floats) -> None:
    """Take what task ``t`` asks for off the room of its node; ``sign`` -1: give it back."""
    n, c = state.task.node[t], snapshot.tasks.cls[t]
    for r in range(room.shape[1]):
        if snapshot.nodes.allocatable[n, r] > 0.0:
            room[n, r] -= sign * snapshot.classes.request[c, r]


@inner
def bind(j: int, ctx: Context, room: Floats) -> None:
    """Bind all pipelined tasks of job ``j``. More of what comes free on a node is free already, or less."""
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if state.task.status[t] != IS_PIPELINED:
            continue
        n = state.task.node[t]
        state.task.status[t] = IS_ALLOCATED
        state.sets.waiting[snapshot.tasks.set[t]] -= 1
        decisions.waits[decisions.row[t]] = 0
        for r in range(room.shape[1]):
            state.releasing[n, r] += state.idle[n, r] - room[n, r]
            state.idle[n, r] = room[n, r]
