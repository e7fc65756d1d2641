"""Minimal search: how a choice of victims is simulated: where the preemptor is placed, and which victims return, in
which order (semantics 4.5).

The victims are the chosen chunks of ``minimal.choice``. The pending tasks get the nodes that were chosen for
them, or others. Then each evicted pod returns for which there is still room, chunk by chunk (3.2): first to its
own node, then to other nodes. The validator judges the result (4.7, 5, 6); a reclaim also asks ``retake`` whether
a queue would take the room straight back.

Cost: (victims + pending tasks) placements of about sqrt(N) steps each (``kernels.find``), and one pass over the
tasks of each victim job. Invariant: all changes of the state go through the undo log. A scenario that is refused
is undone, so the state is then bit for bit the state before. Shapes: L is the number of tasks of the longest job;
for the other letters see docs/data-model.md.
"""

from __future__ import annotations

import enum

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.evict import fits_at_home, has_room_at_home
from kai_sched.solver.eviction.home_claims import fits_home_claims, free_home_claims
from kai_sched.solver.eviction.minimal.chunks import chunk_end, queue_of
from kai_sched.solver.eviction.minimal.given_domains import enter_chosen_domains
from kai_sched.solver.eviction.minimal.task_moves import (
    count_as_near,
    evict_victim,
    node_takes,
    pipeline_task,
    restore_victim,
    terms_allow,
)
from kai_sched.solver.eviction.rules.losses import is_below
from kai_sched.solver.eviction.rules.retake import who_retakes
from kai_sched.solver.eviction.rules.validate import is_valid
from kai_sched.solver.eviction.scenario import add_to_scenario, count_at_home, within_limits
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.gang import count_returning, exclude_from_return, next_return
from kai_sched.solver.kernels.score import is_affordable
from kai_sched.solver.kernels.topology import allows, begin_domains, enter_domains, joins_others, retreat
from kai_sched.solver.kernels.undo import rollback, undo_all
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
RECLAIM = int(Action.RECLAIM)
IS_PIPELINED = int(Status.PIPELINED)


class ChoiceOutcome(enum.IntEnum):
    """How the simulation of a choice of chunks ended."""

    INVALID = 0
    VALID = 1
    TAKEN_BACK = 2  # a queue would take the room straight back; its last chunk is excluded from the next choice


INVALID = int(ChoiceOutcome.INVALID)
VALID = int(ChoiceOutcome.VALID)
TAKEN_BACK = int(ChoiceOutcome.TAKEN_BACK)


@inner
def simulate_choice(action: int, p: int, k: int, ctx: Context, search: Search) -> int:
    """Simulate that the chosen chunks are evicted for the pending tasks; return a ``ChoiceOutcome``.

    The pending tasks are the first ``k`` of ``search.pending`` (L,). If it is VALID, the scenario stays simulated: it
    can be committed, or undone by the undo log. Otherwise the state is as before. ``search.lists.scenario``,
    ``placed`` and ``jobs`` (T + 1,) are overwritten; ``search.counts.work`` grows by the number of victims and
    pending tasks.

    Parameters
    ----------
    action : int, an ``Action``
        Which validator judges (``validate.is_valid``).
    p : int, row of a job
        The preemptor.
    """
    snapshot = ctx.snapshot
    ctx.decisions.simulated[action] += 1
    ctx.log.size[:] = 0
    list_chosen_tasks(p, snapshot, ctx.state, search)
    search.counts.work[0] += search.counts.scenario[0] + k
    for entry in range(search.counts.scenario[0]):
        evict_victim(search.lists.scenario[entry], ctx, search)
    search.counts.placed[0] = 0
    outcome = INVALID
    placed = place_preemptor(p, k, ctx, search)
    begin_domains(ctx)
    if placed:
        # Victims return home before any moves: a move takes room that another victim may need to stay where it
        # is. Jobs return in the reverse order of their choice.
        for moving in (False, True):
            for entry in range(search.counts.jobs[0] - 2, -1, -1):
                return_job(search.lists.jobs[entry], moving, ctx, search)
        if is_valid(action, p, k, ctx, search):
            outcome = VALID
            q = who_retakes(p, k, ctx, search) if action == RECLAIM else NULL
            if q != NULL:
                outcome = TAKEN_BACK if exclude_last_chunk(q, snapshot, search) else INVALID
    if outcome != VALID:
        undo_all(ctx)
    return outcome


@inner
def list_chosen_tasks(p: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """List the tasks of the chosen chunks as the scenario and the jobs that take part, job ``p`` last.

    Writes ``search.lists.scenario`` and ``jobs`` (T + 1,), their lengths, and the chains by job, directly. Cost:
    the tasks of the chosen chunks.
    """
    count, lists = search.counts, search.lists
    count.scenario_clock[0] += 1
    count.scenario[0] = 0
    count.jobs[0] = 0
    for entry in range(search.minimal.n_chosen[0]):
        g = search.minimal.chosen[entry]
        for at in range(lists.chunk_start[g], chunk_end(g, search)):
            t = lists.potential[at]
            j = snapshot.tasks.job[t]
            if search.jobs.scenario_mark[j] != count.scenario_clock[0]:
                lists.jobs[count.jobs[0]] = j
                count.jobs[0] += 1
            add_to_scenario(t, g, 1, snapshot, state, search)
    lists.jobs[count.jobs[0]] = p
    count.jobs[0] += 1


@inner
def place_preemptor(p: int, k: int, ctx: Context, search: Search) -> bool:
    """Place the first ``k`` tasks of ``search.pending`` (L,): on ``search.minimal.place`` (L,) where the node still
    takes them.

    The capacity gates (3.4) are checked for all tasks together first. A task whose chosen node does not take it
    any more gets its best node. False: the gates refuse, or a task finds no node; then some tasks may be placed,
    and the caller undoes the scenario. All changes go through the undo log.

    Parameters
    ----------
    p : int, row of a job
        The preemptor, whose queues the gates check.
    """
    for entry in range(k):
        ctx.scratch.chunk[entry] = search.pending[entry]
    if not within_limits(p, k, ctx):
        return False
    for entry in range(k):
        t = int(search.pending[entry])
        n = int(search.minimal.place[entry])
        if not enter_chosen_domains(entry, k, ctx, search):
            return False
        if not node_takes(n, ctx.snapshot.tasks.cls[t], ctx):
            n = best_node(t, ctx)
        if n == NULL:
            return False
        if not is_affordable(t, n, ctx):
            return False
        pipeline_task(p, t, n, ctx, search)
    return True


@inner
def return_job(j: int, moving: bool, ctx: Context, search: Search) -> None:
    """Let the evicted tasks of job ``j`` return, chunk by chunk (3.2), as long as there is room.

    With ``moving`` they may return to other nodes than their own. Tasks that were pending before the search get
    nothing: victims are not evicted for them. Uses ``scratch.excluded`` and ``scratch.chunk`` (L,). Cost: each round
    takes at least one task off the list of those that may return, so there are at most as many rounds as evicted
    tasks.
    """
    snapshot, scratch = ctx.snapshot, ctx.scratch
    first, end = snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]
    count_returning(first, end, ctx)
    give_up_those_without_room(j, moving, ctx, search)
    # A chunk returns whole or not at all. If one of its tasks has no room, the next chunk is made up without this
    # task: ``next_return`` fills a gang with another of its pods. If even the first task has no room anywhere,
    # others of the job are likely to be the same, and are taken off together instead of one each round.
    while True:  # Bound: each turn but the last excludes at least one task of the job.
        length = next_return(j, ctx)
        if length == 0:
            return
        t = return_chunk(j, length, moving, ctx, search)
        if t == NULL:
            for entry in range(length):
                exclude_from_return(scratch.chunk[entry], ctx)
            continue
        exclude_from_return(t, ctx)
        if moving and t == scratch.chunk[0] and lacks_room(t, moving, ctx, search):
            give_up_those_without_room(j, moving, ctx, search)


@inner
def give_up_those_without_room(j: int, moving: bool, ctx: Context, search: Search) -> None:
    """Take off the list the tasks of job ``j`` for which there is no room, and will be none while others return.

    This is sound because room only shrinks while victims return. It saves a round of ``return_job`` for each of
    them. Writes ``scratch.excluded`` (L,).
    """
    snapshot, scratch = ctx.snapshot, ctx.scratch
    tasks = snapshot.tasks
    base, last, nowhere = snapshot.jobs.task_ptr[j], NULL, False
    for t in range(base, snapshot.jobs.task_ptr[j + 1]):
        if scratch.excluded[t - base] == 1:
            continue
        if ctx.finder.refused[tasks.cls[t]] == OK and has_room_at_home(t, ctx, search):
            continue
        # Away from home all tasks of a class have the same nodes, and most have the class of the task before.
        if tasks.cls[t] != last:
            last = tasks.cls[t]
            nowhere = lacks_room(t, moving, ctx, search)
        if nowhere:
            exclude_from_return(t, ctx)


@inner
def lacks_room(t: int, moving: bool, ctx: Context, search: Search) -> bool:
    """Return whether evicted task ``t`` has no room, and will have none while other victims return.

    With ``moving`` room on any node counts, else only at home (``state.idle`` and ``state.releasing``, (N, R)). A
    pod with inter-pod terms or ports may become placeable when another pod returns, so for such a pod the answer
    is False.
    """
    snapshot = ctx.snapshot
    c = snapshot.tasks.cls[t]
    if ctx.finder.refused[c] != OK:
        return True
    if has_room_at_home(t, ctx, search):
        return False
    if not moving:
        return True
    alone = snapshot.term_roles.ptr[c + 1] == snapshot.term_roles.ptr[c]
    return bool(alone and best_node(t, ctx) == NULL)


@inner
def return_chunk(j: int, length: int, moving: bool, ctx: Context, search: Search) -> int:
    """Let the first ``length`` evicted tasks in ``scratch.chunk`` (L,) return, all or none, through the undo log.

    Returns NULL if all have returned. Otherwise nothing has changed, and the result is a task without room: the
    first of the chunk, if it is the capacity gates (3.4) that refuse.

    Parameters
    ----------
    j : int, row of a job
        The victim job; its queues have to allow the whole chunk.
    moving : bool
        Whether a task without room at home may go to another node.
    """
    log, scratch = ctx.log, ctx.scratch
    if not within_limits(j, length, ctx):
        return int(scratch.chunk[0])
    floats, integers, placed, entry = log.size[0], log.size[1], search.counts.placed[0], 0
    begin_domains(ctx)
    while entry < length:  # Bound: the domains that each set may try; ``retreat`` ends it after VISITS_MAX nodes.
        t, n = int(scratch.chunk[entry]), NULL
        # At home all keep their constraints, as those that stay do.
        if not moving or enter_domains(entry, length, ctx) == OK:
            n = node_to_return_to(t, moving, ctx, search)
        if n == NULL:
            entry = retreat(ctx)
            if entry == NULL:
                rollback(floats, integers, ctx)
                search.counts.placed[0] = placed
                begin_domains(ctx)
                return t
            drop_undone(placed, ctx, search)
            continue
        if n == search.tasks.home[t] and fits_at_home(t, ctx, search):
            restore_victim(t, ctx, search)
        else:
            pipeline_task(j, t, n, ctx, search)
        entry += 1
    begin_domains(ctx)
    return NULL


@inner
def drop_undone(first: int, ctx: Context, search: Search) -> None:
    """Remove tasks from the end of ``lists.placed`` (T + 1,), down to ``first``, whose placement was undone."""
    placed, status = search.lists.placed, ctx.state.task.status
    last = search.counts.placed[0] - 1
    while last >= first and status[placed[last]] != IS_PIPELINED:  # Bound: the tasks that were placed.
        last -= 1
    search.counts.placed[0] = last + 1


@inner
def node_to_return_to(t: int, moving: bool, ctx: Context, search: Search) -> int:
    """Return the node to which evicted task ``t`` can return: its home, or with ``moving`` the best node; NULL: none.

    GPU memory may cost more there than the gates of its chunk assume (``score.is_affordable``).

    Writes ``domains.matched`` and ``carried`` (D,) through the undo log, and restores them. Pipelined
    tasks may get other devices of the home for their claims, ``state.claims.device`` (Y,).
    """
    finder = ctx.finder
    c, home = ctx.snapshot.tasks.cls[t], search.tasks.home[t]
    if finder.refused[c] != OK:
        return NULL
    apart = finder.dynamic[c] == 1
    # For affinity the evicted pod still counts on its node, but for what ``evict_victim`` took out. It must not be near
    # itself, so it is taken out of the counters while its node is sought.
    if apart:
        count_at_home(t, -1, ctx, search)
        count_as_near(t, 1, ctx, search)
    n = NULL
    if has_room_at_home(t, ctx, search) and is_affordable(t, home, ctx) and may_stay(t, home, ctx):
        if not apart or terms_allow(c, home, ctx):
            if fits_home_claims(t, ctx, search) or free_home_claims(t, ctx, search):
                n = int(home)
    if n == NULL and moving:
        n = best_node(t, ctx)
    if apart:
        count_as_near(t, -1, ctx, search)
        count_at_home(t, 1, ctx, search)
    return n


@inner
def may_stay(t: int, home: int, ctx: Context) -> bool:
    """Return whether topology constraints let task ``t`` stay on node ``home``; reads ``task.node`` (T,) of others."""
    return allows(home, ctx) and joins_others(t, home, ctx)


@inner
def exclude_last_chunk(q: int, snapshot: Snapshot, search: Search) -> bool:
    """Exclude one more chosen chunk of queue ``q`` or below it, the last, from leaving for good for this preemptor.

    Writes ``minimal.kept`` (T + 1,) in place. The choice is then repeated. A chunk that is excluded already may be
    chosen again where it moves, and is passed over here: so each call that returns True excludes one more of at most T
    chunks. False: no chosen chunk of the queue is left to exclude.
    """
    for entry in range(search.minimal.n_chosen[0] - 1, -1, -1):
        g = int(search.minimal.chosen[entry])
        if search.minimal.kept[g] == 0 and is_below(queue_of(g, snapshot, search), q, snapshot.queues.parent):
            search.minimal.kept[g] = 1
            return True
    return False
