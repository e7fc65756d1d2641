"""The action allocate: which jobs are tried, one attempt for each chunk, and when a whole chunk is pipelined
(semantics 3).

The rules are semantics 3: which jobs are tried (3.1), the chunk (3.2), one attempt (3.3) and the gates (3.4). A job
that fails is not tried again in this cycle. A job that succeeds and has more to ask for goes back into the tree.

Cost: each of T pending tasks is placed once, for the cost of finding its node (``kernels.find``); each attempt costs
one pass through the tree of queues (``kernels.order``) and one through the sets of the job (``kernels.gang``).
Invariant: after each attempt the undo log is empty; the state and the decision log agree on what is placed.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status, Turn
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.attempt import (
    append_job,
    commit,
    count_pending,
    gate_chunk,
    has_next_chunk,
    note_next_request,
    place_task,
    put_on_devices,
    waits_for_minimum,
)
from kai_sched.solver.kernels.claims.holders import pick_saved, save_claimed
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.kernels.numa import keep_draw
from kai_sched.solver.kernels.order import build_job_tree, pop_job, push_job
from kai_sched.solver.kernels.topology import begin_domains, enter_domains, has_frames, retreat
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context, State, Tree

OK = int(Verdict.OK)
NO_CHUNK = int(Verdict.NO_CHUNK)
NOT_SUPPORTED = int(Verdict.NOT_SUPPORTED)
NO_FIT = int(Verdict.NO_FIT)
NO_DOMAIN = int(Verdict.NO_DOMAIN)
FIRST = int(Turn.FIRST)
ORDINARY = int(Turn.ORDINARY)
LATER = int(Turn.LATER)
BACKGROUND = int(Turn.BACKGROUND)
IS_PENDING = int(Status.PENDING)


@kernel
def allocate(turn: int, ctx: Context, tree: Tree) -> None:
    """Run the action for the jobs of one turn (3.1), until no job is left in the tree.

    Writes placements to ``decisions`` in the order of deciding, and, for each job of which something stays pending, the
    ``Verdict`` and what belongs to it (J,).

    Parameters
    ----------
    turn : FIRST: only jobs to which an earlier cycle promised room, each with at most as many pods as were promised
        (``jobs.n_first`` (J,)). ORDINARY: all jobs but those of the turns LATER and BACKGROUND, also those that were
        FIRST before and still have something pending. BACKGROUND: those of this turn
    tree : empty heaps (``allocation.make_tree``)
    """
    settings, snapshot, state, log, decisions = ctx.settings, ctx.snapshot, ctx.state, ctx.log, ctx.decisions
    jobs = snapshot.jobs
    enqueue_jobs_of_turn(turn, ctx, tree)
    while True:  # Bound: each turn places a task or takes the job out of the tree for good.
        j = pop_job(ctx, tree)
        if j == NULL:
            break
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        length = next_chunk(j, ctx)
        log.size[:] = 0
        if turn == FIRST and count_taken(j, snapshot, state) + length > jobs.n_first[j]:
            continue
        if not attempt(j, length, ctx):
            continue
        commit(length, state, ctx.scratch.chunk, decisions.placements)
        log.size[:] = 0
        decisions.verdict[j] = OK
        if count_pending(first, end, state.sets) > 0:
            note_next_request(j, ctx, tree)
            push_job(j, settings.allocate_depth, ctx, tree)


@inner
def count_taken(j: int, snapshot: Snapshot, state: State) -> int:
    """Return how many pods of job ``j`` were placed in this cycle.

    That is how many were pending in ``tasks.status`` (T,), minus how many are pending now.
    """
    jobs = snapshot.jobs
    taken = -count_pending(jobs.set_ptr[j], jobs.set_ptr[j + 1], state.sets)
    for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
        taken += snapshot.tasks.status[t] == IS_PENDING
    return taken


@inner
def enqueue_jobs_of_turn(turn: int, ctx: Context, tree: Tree) -> None:
    """Put the jobs of this turn that can be tried into ``tree``, and build it; the others get their verdict now (3.1).

    A job is tried if it has a pending task and a next chunk, and its queue takes jobs. Else ``decisions.verdict`` (J,)
    is its ``jobs.refused``, or NO_CHUNK if its minimums are met and nothing can be added, or GANG_NOT_READY.
    """
    snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
    jobs = snapshot.jobs
    for j in range(jobs.queue.shape[0]):
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        mine = jobs.turn[j] == turn if turn != ORDINARY else jobs.turn[j] != LATER and jobs.turn[j] != BACKGROUND
        if not mine or count_pending(first, end, state.sets) == 0:
            continue
        if jobs.refused[j] != OK:
            decisions.verdict[j] = jobs.refused[j]
            continue
        if has_next_chunk(j, ctx, tree):
            append_job(j, jobs.queue[j], tree)
    build_job_tree(ctx.settings.allocate_depth, ctx, tree)


@inner
def attempt(j: int, length: int, ctx: Context) -> bool:
    """Try to place the chunk of job ``j`` once (3.3), through the undo log.

    Support and the capacity gates are checked first, for the chunk as a whole. Then the tasks are placed in their
    order.

    Parameters
    ----------
    j : row of the job
    length : how many entries of ``scratch.chunk`` the chunk has; 0 fails with NO_CHUNK

    Returns
    -------
    bool : True: all tasks are placed, and the caller commits them. False: everything is undone, and the reason is in
        ``decisions`` (J,): ``verdict``; ``blocking_row``, the queue of a gate or the task that found no node;
        ``resource`` and ``need`` of a gate; ``asked`` and ``placed``, tasks of the chunk and tasks placed before the
        failure
    """
    snapshot, scratch, decisions = ctx.snapshot, ctx.scratch, ctx.decisions
    tasks = snapshot.tasks
    decisions.asked[j] = length
    verdict, q, r = gate_chunk(j, length, ctx)
    if length == 0:
        verdict, q, r = NO_CHUNK, NULL, NULL
    for entry in range(length):
        # This reason is reported before that of any gate: a higher limit does not help a pod that is not supported.
        if ctx.finder.refused[tasks.cls[scratch.chunk[entry]]] == NOT_SUPPORTED:
            decisions.verdict[j] = NOT_SUPPORTED
            decisions.blocking_row[j] = scratch.chunk[entry]
            return False
    if verdict != OK:
        decisions.verdict[j] = verdict
        decisions.blocking_row[j] = q
        decisions.resource[j] = r
        if q != NULL:
            decisions.need[j] = scratch.need[r]
        return False
    if not place_chunk(j, length, ctx):
        undo_all(ctx)
        return False
    wait_together(j, length, ctx)
    return True


@inner
def place_chunk(j: int, length: int, ctx: Context) -> bool:
    """Place the first ``length`` tasks of ``scratch.chunk`` (L,) in their order, within topology domains (3.3, step 3).

    False: some task finds no node in any domain that its sets may try. Then the first failure is in ``decisions``
    (J,): ``verdict``, ``placed``, and ``blocking_row``, the task or the set. The caller undoes what is placed.
    """
    entry, failed = 0, False
    begin_domains(ctx)
    while entry < length:  # Bound: the domains that each set may try; ``retreat`` ends it after VISITS_MAX nodes.
        verdict = enter_domains(entry, length, ctx)
        entered = verdict == OK
        if entered:
            verdict = place_task(j, ctx.scratch.chunk[entry], ctx)
        if verdict == OK:
            entry += 1
            continue
        if not failed:
            failed = True
            note_first_failure(j, entry, verdict, entered, ctx)
        entry = retreat(ctx)
        if entry == NULL:
            return False
    begin_domains(ctx)
    return True


@inner
def note_first_failure(j: int, entry: int, verdict: int, entered: bool, ctx: Context) -> None:
    """Write to ``decisions`` (J,) why job ``j`` failed at the task at ``entry`` of the chunk.

    ``entered``: its domains were entered, and the task found no node in them. That is reported of the outermost set
    with a constraint, as nodes of other domains may have room.
    """
    decisions, topo = ctx.decisions, ctx.scratch.topology
    if entered and verdict == NO_FIT and has_frames(ctx):
        verdict = NO_DOMAIN
        topo.blocked[0], topo.blocked[1], topo.blocked[2] = topo.set[0], NULL, topo.end[0] - topo.first[0]
        entered = False
    decisions.verdict[j], decisions.placed[j] = verdict, entry
    decisions.blocking_row[j] = ctx.scratch.chunk[entry] if entered else topo.blocked[0]
    if verdict == NO_DOMAIN:
        decisions.placed[j], decisions.asked[j] = min(topo.blocked[1], topo.blocked[2]), topo.blocked[2]


@inner
def wait_together(j: int, length: int, ctx: Context) -> None:
    """Pipeline the whole chunk if a set of the gang lacks its minimum without pipelined tasks (3.3, step 4).

    Then no pod of the gang is bound in this cycle. The tasks keep the nodes (N, R) and the devices (G,) on which they
    were placed; the changes go through the undo log. ``scratch.node``, ``shares``, ``devices``, ``picks`` and
    ``zones`` are overwritten.
    """
    state, scratch, share_ptr = ctx.state, ctx.scratch, ctx.snapshot.tasks.share_ptr
    if not waits_for_minimum(j, ctx.snapshot, state):
        return
    for entry in range(length):
        t = scratch.chunk[entry]
        scratch.node[entry] = state.task.node[t]
        for share in range(share_ptr[t], share_ptr[t + 1]):
            scratch.shares[share] = state.shares[share]
        save_claimed(t, ctx)
        keep_draw(t, True, ctx)
    # Bound tasks took idle room and pipelined ones room that is being left. Placing all of them anew, as pipelined,
    # books them alike; the nodes fit, as the room together is the same. Devices chosen anew might be others, which need
    # not have room for all.
    undo_all(ctx)
    for entry in range(length):
        t = scratch.chunk[entry]
        for share in range(share_ptr[t], share_ptr[t + 1]):
            scratch.devices[share - share_ptr[t]] = scratch.shares[share]
        pick_saved(t, ctx)
        keep_draw(t, False, ctx)
        put_on_devices(j, t, scratch.node[entry], True, ctx)
