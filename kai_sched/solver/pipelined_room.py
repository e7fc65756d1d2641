"""At the end of a cycle: which pipelined groups are bound because their room is free, and which gangs wait as a whole
(semantics 3.7).

A pipelined pod is promised a place. In most cases other pods are leaving its room, and it is bound in a later cycle. If
the promised room of a job is free already, nothing is left to wait for. The original pipelines such a job again, so
that two jobs may take each other's promise in each cycle, for ever. Here the job is bound: at once with minimal
victims, and from the second promise on with original victims.

Cost: O(T x R + J), and O(N x R) to open the nodes if some job is promised a place without evictions.

Invariant: for each node and resource the sum of idle and releasing room stays the same, as only the share of it that is
free now changes. The functions run after the last decision and write directly, not through the undo log.
"""

from __future__ import annotations

import enum

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, PODS, Floats, Snapshot, Status, TermRole, Turn
from kai_sched.solver.decisions import Decisions
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.account import open_nodes
from kai_sched.solver.kernels.attempt import waits_for_minimum
from kai_sched.solver.kernels.claims.devices import use_now
from kai_sched.solver.kernels.claims.holders import are_claimed_free, hold_claimed
from kai_sched.solver.kernels.devices import change_now, hold_now
from kai_sched.solver.kernels.numa import recount_zones, waits_for_zones
from kai_sched.solver.kernels.place import count_guards
from kai_sched.solver.kernels.score import waits_for_leaving
from kai_sched.solver.state import Context, State

NEED = int(TermRole.NEED)
PIPELINED_FREE = int(Turn.PIPELINED_FREE)
IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_RELEASING = int(Status.RELEASING)


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
    """Let all that a job got in this cycle wait if some pod of its minimum has to wait: a gang starts as a whole.

    Several decisions of one cycle may place parts of a gang, some bound and some waiting. Changes the status (T,) of
    tasks from ALLOCATED to PIPELINED, and what follows from it (``make_wait``).
    """
    snapshot, state = ctx.snapshot, ctx.state
    for j in range(snapshot.jobs.queue.shape[0]):
        if not waits_for_minimum(j, snapshot, state):
            continue
        for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
            if snapshot.tasks.status[t] == IS_PENDING and state.task.status[t] == IS_ALLOCATED:
                make_wait(t, ctx)


@inner
def make_wait(t: int, ctx: Context) -> None:
    """Let task ``t``, which was to be bound, wait for its room instead.

    Writes directly: its status (T,), the waiting tasks of its set (S,), its row of the decision log, and its request,
    which goes from releasing room back to idle room (N, R): the sum of the two stays.
    """
    snapshot, state, placements = ctx.snapshot, ctx.state, ctx.decisions.placements
    n, c = state.task.node[t], snapshot.tasks.cls[t]
    state.task.status[t] = IS_PIPELINED
    state.sets.waiting[snapshot.tasks.set[t]] += 1
    placements.waits[placements.row[t]] = 1
    for r in range(state.idle.shape[1]):
        amount = snapshot.classes.request[c, r]
        if amount != 0.0 and snapshot.nodes.allocatable[n, r] > 0.0:
            state.idle[n, r] += amount
            state.releasing[n, r] -= amount
    hold_now(t, n, -1, ctx)
    hold_claimed(t, -1, ctx)
    ctx.log.size[:] = 0


@inner
def bind_pipelined_jobs(at_once: bool, ctx: Context, room: Floats, leaving: Floats) -> None:
    """Note for each job whether its promised places are all free now, and bind such jobs as the rules say (3.7).

    Jobs come in the order of their promises, and each takes its room before the next one. A job for which others were
    evicted, which moves, or with required pod affinity is never bound here. Writes ``decisions.free`` (J,) directly,
    and all that ``bind`` writes.

    Parameters
    ----------
    at_once : bool
        True: bind each job of which all places are free (minimal victims). False: only jobs that an earlier cycle
        promised free room (``Turn.PIPELINED_FREE``).
    room, leaving : Floats, (N, R)
        Zeros to work in.
    """
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    placements, evictions = decisions.placements, decisions.evictions
    tasks, free = snapshot.tasks, decisions.free
    for row in range(evictions.length[0]):
        if evictions.preemptor[row] != NULL:
            free[evictions.preemptor[row]] = NOT_FREE  # others leave for it
    if not any_job_left(snapshot, decisions):
        return
    # The idle room of the working state does not say what is free: promises are booked as releasing room, also where
    # the room is idle. So count anew what is allocatable, less all pods that are on the nodes or are bound in this
    # cycle.
    open_nodes(tasks.status, room, leaving, ctx)
    recount_devices(ctx)
    recount_claims(ctx)
    recount_leaving(ctx)
    recount_zones(ctx)
    for n in range(room.shape[0]):
        room[n, PODS] -= count_unreserved(n, ctx)
    for t in range(tasks.job.shape[0]):
        if tasks.status[t] == IS_PENDING and state.task.status[t] == IS_ALLOCATED:
            take_room(t, 1.0, snapshot, state, room)
    for row in range(placements.length[0]):
        t = placements.task[row]
        if t == NULL or placements.waits[row] == 0 or free[tasks.job[t]] != NOT_SEEN:
            continue
        j = tasks.job[t]
        free[j] = FREE if take_all(j, ctx, room) else NOT_FREE
        if free[j] == FREE and (at_once or snapshot.jobs.turn[j] == PIPELINED_FREE):
            bind(j, ctx, room)
            free[j] = NOT_FREE
    # Jobs that are not bound hold nothing at present.
    for t in range(tasks.job.shape[0]):
        if tasks.job[t] != NULL and free[tasks.job[t]] == FREE and state.task.status[t] == IS_PIPELINED:
            hold_now(t, state.task.node[t], -1, ctx)
            hold_claimed(t, -1, ctx)
            ctx.log.size[:] = 0


@inner
def recount_devices(ctx: Context) -> None:
    """Count anew what pods hold of devices at present, for good: ``devices.now`` (D,), and what follows from it.

    The working state still has what a pod held that was bound in this cycle and then evicted, so that it never ran.
    """
    snapshot, state = ctx.snapshot, ctx.state
    tasks, devices = snapshot.tasks, snapshot.devices
    if devices.reserved.shape[0] == 0:
        return
    for n in range(state.spare.shape[0]):
        unreserved = count_unreserved(n, ctx)
        state.idle[n, PODS] += unreserved
        state.releasing[n, PODS] -= unreserved
        state.spare[n, 0] = 0.0
    state.devices.now[:] = 0
    for t in range(tasks.job.shape[0]):
        c = tasks.cls[t]
        for entry in range(tasks.share_ptr[t], tasks.share_ptr[t + 1]):
            if tasks.status[t] >= IS_PIPELINED:
                if tasks.device[entry] != NULL:
                    change_now(int(tasks.device[entry]), tasks.node[t], c, 1, ctx)
            elif state.task.status[t] == IS_ALLOCATED:
                change_now(int(state.shares[entry]), state.task.node[t], c, 1, ctx)
        ctx.log.size[:] = 0


@inner
def recount_claims(ctx: Context) -> None:
    """Count anew what claims use at present, for good: the first columns of ``state.claims``, (I,) and longer.

    As ``recount_devices``: a pod may have been bound in this cycle and then evicted, so that it never ran. Pods that
    are on nodes use the devices that their claims have in the snapshot, also if they are to move.
    """
    claims, tasks, state = ctx.snapshot.dra_claims, ctx.snapshot.tasks, ctx.state.claims
    if claims.claim.shape[0] == 0:
        return
    state.users_now[:] = 0
    state.uses_now[:] = 0
    state.used_now[:] = 0
    state.counted_now[:] = 0
    for i in range(claims.held.shape[0]):
        if claims.held[i] == 1:
            use_first_devices(i, ctx)
    for t in range(tasks.job.shape[0]):
        if tasks.status[t] >= IS_PIPELINED and tasks.node[t] != NULL:
            for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
                use_first_devices(claims.claim[k], ctx)
        elif tasks.status[t] == IS_PENDING and ctx.state.task.status[t] == IS_ALLOCATED:
            hold_claimed(t, 1, ctx)
        ctx.log.size[:] = 0


@inner
def recount_leaving(ctx: Context) -> None:
    """Count anew which pods on nodes are leaving, for good: ``state.leaving_domains`` (D,) and ``leaving_ports``.

    As ``recount_devices``: a pod may have been bound in this cycle and then evicted, so that it never ran. A pod that
    moves leaves its node, too.
    """
    tasks, state, term_roles = ctx.snapshot.tasks, ctx.state, ctx.snapshot.term_roles
    if term_roles.entry.shape[0] == 0:
        return
    state.leaving_domains.matched[:] = 0
    state.leaving_domains.carried[:] = 0
    state.leaving_ports[:, :] = 0
    for t in range(tasks.job.shape[0]):
        c, n, status = tasks.cls[t], tasks.node[t], tasks.status[t]
        if n == NULL or status < IS_PIPELINED or term_roles.ptr[c] == term_roles.ptr[c + 1]:
            continue
        if state.task.status[t] != status or status == IS_RELEASING:
            count_guards(c, n, 1, True, ctx)
            ctx.log.size[:] = 0


@inner
def use_first_devices(i: int, ctx: Context) -> None:
    """Count one more user of claim ``i``; the first one uses the devices (V,) that it has in the snapshot."""
    claims, state = ctx.snapshot.dra_claims, ctx.state.claims
    if state.users_now[i] == 0:
        for y in range(claims.slot_ptr[i], claims.slot_ptr[i + 1]):
            if claims.device[y] != NULL:
                use_now(int(claims.device[y]), int(claims.option[y]), 1, ctx)
        ctx.log.size[:] = 0
    state.users_now[i] += 1


@inner
def any_job_left(snapshot: Snapshot, decisions: Decisions) -> bool:
    """Return whether some job is promised a place although no other pod leaves for it, by ``decisions.free`` (J,).

    This spares most cycles the counting of room.
    """
    placements = decisions.placements
    for row in range(placements.length[0]):
        t = placements.task[row]
        if t != NULL and placements.waits[row] == 1 and decisions.free[snapshot.tasks.job[t]] == NOT_SEEN:
            return True
    return False


@inner
def take_all(j: int, ctx: Context, room: Floats) -> bool:
    """Take all that job ``j`` is promised off ``room`` (N, R), in place, or nothing if it is not all free.

    Its shares of devices are held from now on: ``state.devices.now`` (G,).

    Returns
    -------
    bool
        False: some place is not free; or a pod of the job still runs elsewhere, as it moves; or a pod has a required
        affinity term (NEED), and the pods that it must be near may leave yet.
    """
    snapshot, state = ctx.snapshot, ctx.state
    tasks, term_roles, request = snapshot.tasks, snapshot.term_roles, snapshot.classes.request
    first, end = snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]
    enough = True
    for t in range(first, end):
        if state.task.status[t] != IS_PIPELINED:
            continue
        c, n = tasks.cls[t], state.task.node[t]
        enough = enough and tasks.status[t] == IS_PENDING
        for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
            enough = enough and term_roles.entry[entry, 0] != NEED
        enough = enough and are_claimed_free(t, ctx) and not waits_for_leaving(c, n, ctx)
        enough = enough and not waits_for_zones(t, ctx)
        take_room(t, 1.0, snapshot, state, room)
        hold_devices(t, 1, ctx, room)
        # Less than 0 of a resource that the pod does not request does not stop it here.
        for r in range(room.shape[1]):
            enough = enough and (room[n, r] >= 0.0 or request[c, r] == 0.0)
        # What is left of devices in use is of no use to pods that need whole ones.
        enough = enough and (room[n, GPU] >= state.spare[n, 0] or request[c, GPU] == 0.0)
        for entry in range(tasks.share_ptr[t], tasks.share_ptr[t + 1]):
            enough = enough and state.devices.now[state.shares[entry]] <= snapshot.nodes.device_memory[n]
    if not enough:
        for t in range(first, end):
            if state.task.status[t] == IS_PIPELINED:
                take_room(t, -1.0, snapshot, state, room)
                hold_devices(t, -1, ctx, room)
    return enough


@inner
def hold_devices(t: int, sign: int, ctx: Context, room: Floats) -> None:
    """Let pipelined task ``t`` hold its shares at present, or (``sign`` -1) no longer; keeps pod slots of ``room``.

    Writes ``state.devices.now`` (G,) for good: the undo log is emptied. A device that gets its first user needs a slot
    for its reservation pod.
    """
    hold_claimed(t, sign, ctx)
    ctx.log.size[:] = 0
    if ctx.snapshot.tasks.share_ptr[t] == ctx.snapshot.tasks.share_ptr[t + 1]:
        return
    n = ctx.state.task.node[t]
    room[n, PODS] += count_unreserved(n, ctx)
    hold_now(t, n, sign, ctx)
    ctx.log.size[:] = 0
    room[n, PODS] -= count_unreserved(n, ctx)


@inner
def count_unreserved(n: int, ctx: Context) -> float:
    """Return how many devices of node ``n`` pods hold at present that have no reservation pod yet."""
    count = 0.0
    for d in range(ctx.snapshot.devices.ptr[n], ctx.snapshot.devices.ptr[n + 1]):
        count += ctx.state.devices.now[d] > 0 and ctx.snapshot.devices.reserved[d] == 0
    return count


@inner
def take_room(t: int, sign: float, snapshot: Snapshot, state: State, room: Floats) -> None:
    """Take what task ``t`` requests off the ``room`` (N, R) of its node, in place; ``sign`` -1 gives it back."""
    n, c = state.task.node[t], snapshot.tasks.cls[t]
    for r in range(room.shape[1]):
        if snapshot.nodes.allocatable[n, r] > 0.0:
            room[n, r] -= sign * snapshot.classes.request[c, r]


@inner
def bind(j: int, ctx: Context, room: Floats) -> None:
    """Bind all that job ``j`` is promised, instead of letting it wait.

    Writes directly: the status (T,) of its tasks, the waiting tasks of their sets (S,), their rows of the decision log,
    and the room of their nodes (N, R).

    Parameters
    ----------
    room : Floats, (N, R)
        What is free now, less all that was promised up to this job.
    """
    snapshot, state, placements = ctx.snapshot, ctx.state, ctx.decisions.placements
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if state.task.status[t] != IS_PIPELINED:
            continue
        n = state.task.node[t]
        state.task.status[t] = IS_ALLOCATED
        state.sets.waiting[snapshot.tasks.set[t]] -= 1
        placements.waits[placements.row[t]] = 0
        for r in range(room.shape[1]):
            # Idle room is what ``room`` says from now on. The sum stays: what is taken from idle room was promised
            # from releasing.
            state.releasing[n, r] += state.idle[n, r] - room[n, r]
            state.idle[n, r] = room[n, r]
