"""Minimal search: whether shares, gangs and limits let one more chunk of victims leave for good, or only move
(semantics 4.5, step 3, and 4.7).

A chunk is evicted through the undo log and noted in ``search.minimal.chosen``. In a reclaim it may leave for good
only if shares allow it after the chunks before it; otherwise it may have to move. Chunks of a gang that cannot
stay alone go together. ``choose_for_limits`` takes victims below the queues whose limits the preemptor would
exceed.

Cost of a chunk: an eviction for each of its tasks, depth of the queue tree for shares, and for a move a search
for the best node. Invariant: ``minimal.chosen``, ``minimal.is_chosen``, ``queues.remains`` and the undo log agree:
``abandon`` takes all of them back to an earlier length, so that a choice which fails leaves no trace.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Snapshot
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.minimal.chunks import amount_of, blocked_of, chunk_end, empties, first_of, queue_of
from kai_sched.solver.eviction.minimal.task_moves import evict_victim, pipeline_task, restore_victim
from kai_sched.solver.eviction.preemptor import with_moves
from kai_sched.solver.eviction.rules.losses import change_blocked, give_back_loss, is_below
from kai_sched.solver.eviction.rules.shares import lose, side_stays_behind
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.topology import enter_domains, resume_domains, retreat, suspend_domains
from kai_sched.solver.kernels.undo import rollback, touch
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
BLOCK = 32  # places of nodes
MOVE_WORK = 2  # of ``Config.search_work``: the finder compares a block of nodes anew
NOT_OFFERED = int(Verdict.NO_ROOM)
OVER_LIMIT = int(Verdict.OVER_LIMIT)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)


@inner
def choose_for_limits(preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Take victims below each queue whose limit the preemptor would exceed (3.4); False: the gates refuse in any case.

    Chunks are added to ``search.minimal.chosen`` (T + 1,), evictions go through the undo log. Only victims that
    leave for good count. False in consolidation, where what queues hold does not change, and for quotas, which
    only non-preemptible jobs use up: they are never evicted. Writes ``scratch.need`` (3,).
    """
    p, need = preemptor.job, preemptor.need
    snapshot, state, scratch = ctx.snapshot, ctx.state, ctx.scratch
    jobs, parent, prices = snapshot.jobs, snapshot.queues.parent, snapshot.classes.quota
    for r in range(3):
        scratch.need[r] = need[r]
    # The least that GPU memory may cost: a node where it costs more is not chosen.
    for entry in range(preemptor.n_tasks):
        c = snapshot.tasks.cls[search.pending[entry]]
        scratch.need[GPU] += snapshot.classes.gate[c] - prices[c, GPU]
    leaving, fixed, g = with_moves(preemptor, False), jobs.preemptible[p] == 0, 0
    verdict, q, r = pass_gates(jobs.queue[p], scratch.need, fixed, parent, state.book)
    # Victims are taken in their order, the least deserving first, only below queue ``q`` and only if they hold
    # some of the resource ``r`` that is over the limit. A chunk that could not be taken for this limit is not tried
    # again for it; for the next limit, of another queue or resource, the chunks are gone through from the first.
    while verdict != OK:  # Bound: each turn takes one more chunk.
        if verdict != OVER_LIMIT or preemptor.action == CONSOLIDATION:
            return False
        while True:  # Bound: ``g`` grows.
            if g == search.counts.n_chunks[0]:
                return False
            first = first_of(g, search)
            helps = False
            if is_below(jobs.queue[snapshot.tasks.job[first]], q, parent):
                for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
                    helps = helps or prices[snapshot.tasks.cls[search.lists.potential[at]], r] > 0.0
            g += 1
            if helps and search.minimal.is_chosen[g - 1] == 0:
                taken, _ = choose_with_dependents(g - 1, NULL, leaving, ctx, search)
                if taken:
                    break
        old_q, old_r = q, r
        verdict, q, r = pass_gates(jobs.queue[p], scratch.need, fixed, parent, state.book)
        if q != old_q or r != old_r:
            g = 0
    return True


@inner
def choose_with_dependents(
    g: int, cleared: int, preemptor: Preemptor, ctx: Context, search: Search
) -> tuple[bool, bool]:
    """Take chunk ``g``, and the earlier chunks of its job that cannot stay without it.

    If ``g`` takes the last pods of a set, surplus pods of that set would be left without their gang, so they go first.
    With ``preemptor.moves`` a chunk that shares keep from leaving for good moves to other nodes than ``cleared``. All
    or nothing: evictions and moves go through the undo log, chunks into ``search.minimal.chosen`` (T + 1,), and a
    failure takes back both.

    Returns
    -------
    done : bool
        Whether all of them were taken.
    refused : bool
        Whether shares refused to let one of them leave for good (reclaim).
    """
    action = preemptor.action
    snapshot, log = ctx.snapshot, ctx.log
    floats, integers = log.size[0], log.size[1]
    chosen, placed = search.minimal.n_chosen[0], search.counts.placed[0]
    refused, here = False, search.jobs.first_potential[snapshot.tasks.job[first_of(g, search)]]
    while True:  # Bound: the chain of the job has a task of ``g``.
        h = int(search.tasks.chunk_of[here - 1])
        here = search.tasks.next_of_job[here - 1]
        if search.minimal.is_chosen[h] == 0 and (h == g or empties(g, h, snapshot, search)):
            counted = action == RECLAIM and may_be_taken(h, preemptor, ctx, search)
            leaves = action != CONSOLIDATION and (action != RECLAIM or counted)
            refused = refused or (action == RECLAIM and not counted)
            is_taken = leaves or preemptor.moves
            if is_taken:
                take_chunk(h, ctx, search)
                # What shares were charged for the chunk has to be given back with it.
                search.minimal.is_charged[h] = 1 if counted else 0
                is_taken = leaves or move_chunk(h, cleared, ctx, search)
            if not is_taken:
                abandon(floats, integers, chosen, placed, ctx, search)
                return False, refused
        if h == g:
            return True, refused


@inner
def abandon(floats: int, integers: int, chosen: int, placed: int, ctx: Context, search: Search) -> None:
    """Take back all that was chosen since the log and the lists had these lengths.

    Evictions and moves are undone by the undo log. Shares that were charged are given back.

    Parameters
    ----------
    floats, integers : int
        Lengths of the undo log to return to: ``log.size[0]`` and ``log.size[1]``.
    chosen, placed : int
        Lengths of ``search.minimal.chosen`` and ``search.lists.placed`` (T + 1,) to return to.
    """
    rollback(floats, integers, ctx)
    for entry in range(chosen, search.minimal.n_chosen[0]):
        take_back(search.minimal.chosen[entry], ctx.snapshot, search)
    search.minimal.n_chosen[0], search.counts.placed[0] = chosen, placed


@inner
def take_chunk(g: int, ctx: Context, search: Search) -> None:
    """Evict chunk ``g`` through the undo log and append it to ``search.minimal.chosen`` (T + 1,).

    What it costs to clear the nodes of its tasks is forgotten. ``search.counts.work`` grows by the number of tasks.
    """
    lists = search.lists
    search.counts.work[0] += chunk_end(g, search) - lists.chunk_start[g]
    search.minimal.is_chosen[g], search.minimal.is_charged[g] = 1, 0
    search.minimal.chosen[search.minimal.n_chosen[0]] = g
    search.minimal.n_chosen[0] += 1
    for at in range(lists.chunk_start[g], chunk_end(g, search)):
        t = lists.potential[at]
        n = ctx.state.task.node[t]
        evict_victim(t, ctx, search)
        if n != NULL:
            forget_cost(n, search)


@inner
def forget_cost(n: int, search: Search) -> None:
    """Mark node ``n`` as changed: its cost and its block's cheapest node are computed anew.

    Writes ``minimal.cost_mark`` and ``best_mark`` (N,).
    """
    search.minimal.cost_mark[n] = 0
    search.minimal.best_mark[search.nodes.place[n] // BLOCK] = 0


@inner
def unbar(entry: int, search: Search) -> None:
    """Let the nodes of the chosen chunk at place ``entry`` be cleared again: they have more room now.

    Writes ``minimal.barred`` (N,) directly.
    """
    g = search.minimal.chosen[entry]
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        home = search.tasks.home[search.lists.potential[at]]
        if home != NULL:
            search.minimal.barred[home] = 0
            forget_cost(home, search)


@inner
def may_be_taken(g: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Return whether shares let chunk ``g`` leave after the chunks chosen before it (4.7), and charge it.

    Rules 1 and 2 of the validator are asked. If both allow it, ``queues.remains`` (Q, 3) is lowered for its leaf and
    the queues above; otherwise nothing changes. A chunk that ``simulation.exclude_last_chunk`` has excluded is refused.
    """
    snapshot = ctx.snapshot
    amount, q = amount_of(g, snapshot, search), queue_of(g, snapshot, search)
    p, need = preemptor.job, preemptor.need
    if search.minimal.kept[g] == 1 or not lose(p, need, q, amount, ctx, search):
        return False
    change_blocked(q, -blocked_of(g, search), snapshot.queues.parent, search)
    if side_stays_behind(p, need, q, amount, True, ctx, search):
        return True
    give_back_shares(g, snapshot, search)
    return False


@inner
def give_back_shares(g: int, snapshot: Snapshot, search: Search) -> None:
    """Add what chunk ``g`` holds to ``queues.remains`` (Q, 3) again, as it does not leave."""
    q, parent = queue_of(g, snapshot, search), snapshot.queues.parent
    change_blocked(q, blocked_of(g, search), parent, search)
    give_back_loss(q, amount_of(g, snapshot, search), parent, search)


@inner
def take_back(g: int, snapshot: Snapshot, search: Search) -> None:
    """Mark chunk ``g`` as not chosen in ``search.minimal.is_chosen`` (T + 1,).

    If its shares were charged (``is_charged``), they are given back. The eviction itself is undone by the caller.
    """
    if search.minimal.is_charged[g] == 1:
        give_back_shares(g, snapshot, search)
    search.minimal.is_chosen[g] = 0


@inner
def move_chunk(g: int, cleared: int, ctx: Context, search: Search) -> bool:
    """Give the evicted tasks of chunk ``g`` places on other nodes than ``cleared``; False: one of them finds none.

    Tasks that are not on the cleared node stay where they were: they need not move. Changes go through the undo
    log, places into ``search.lists.placed`` (T + 1,); after False the caller takes them back.

    Parameters
    ----------
    cleared : int, row of a node
        The node from which the chunk has to go.
    """
    snapshot, length = ctx.snapshot, 0
    # Those that stay say in which domains the others must be.
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        t = search.lists.potential[at]
        home = search.tasks.home[t]
        if ctx.finder.refused[snapshot.tasks.cls[t]] != OK:
            return False
        if home != NULL and home != cleared:
            restore_victim(t, ctx, search)
        else:
            ctx.scratch.chunk[length] = t
            length += 1
    suspended = suspend_domains(ctx)
    moved = move_tasks(length, cleared, ctx, search)
    resume_domains(suspended, ctx)
    return moved


@inner
def move_tasks(length: int, cleared: int, ctx: Context, search: Search) -> bool:
    """Give the evicted tasks in ``scratch.chunk`` (L,) places on other nodes than ``cleared``, in their domains.

    False: one of them finds none; the caller takes back what was done.
    """
    finder, entry, placed = ctx.finder, 0, search.counts.placed[0]
    while entry < length:  # Bound: the domains that each set may try; ``retreat`` ends it after VISITS_MAX nodes.
        t, n = int(ctx.scratch.chunk[entry]), NULL
        if enter_domains(entry, length, ctx) == OK:
            signature = ctx.snapshot.classes.signature[ctx.snapshot.tasks.cls[t]]
            # ``best_node`` must not offer the node that is being cleared. Its static verdict (K, N) is replaced for
            # the time of the search; ``touch`` makes the finder compute the block anew, before and after.
            verdict = finder.verdicts[signature, cleared]
            finder.verdicts[signature, cleared] = NOT_OFFERED
            touch(finder.block, finder.stamp, cleared)
            n = best_node(t, ctx)
            search.counts.work[0] += MOVE_WORK
            finder.verdicts[signature, cleared] = verdict
            touch(finder.block, finder.stamp, cleared)
        if n == NULL:
            entry = retreat(ctx)
            if entry == NULL:
                return False
            search.counts.placed[0] = placed + entry
            continue
        pipeline_task(ctx.snapshot.tasks.job[t], t, n, ctx, search)
        forget_cost(n, search)
        entry += 1
    return True
