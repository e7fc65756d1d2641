"""Chunks of victims that are chosen one by one: their evictions, what shares allow, and limits that are in the way."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Amounts, Snapshot, Verdict
from kai_sched.solver.eviction.minimal_simulation import chunk_end, evict_victim, pipeline_task, restore_victim
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.eviction.validate import diverge, left_to, ratio, take_amount
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.undo import rollback, touch
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
BLOCK = 32  # places of nodes
NOT_OFFERED = int(Verdict.NO_ROOM)
OVER_LIMIT = int(Verdict.OVER_LIMIT)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)


@inner
def choose_for_limits(preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Choose victims of the queues whose limits the preemptor would exceed; False: it would exceed them in any case."""
    p, need = preemptor.job, preemptor.need
    snapshot, state, scratch = ctx.snapshot, ctx.state, ctx.scratch
    jobs, parent, prices = snapshot.jobs, snapshot.queues.parent, snapshot.classes.quota
    for r in range(3):
        scratch.need[r] = need[r]
    leaving, fixed, g = with_moves(preemptor, False), jobs.preemptible[p] == 0, 0
    verdict, q, r = pass_gates(jobs.queue[p], scratch.need, fixed, parent, state.book)
    while verdict != OK:
        if verdict != OVER_LIMIT or preemptor.action == CONSOLIDATION:
            return False
        while True:
            if g == search.counts.batches[0]:
                return False
            first = first_of(g, search)
            helps = False
            if is_below(jobs.queue[snapshot.tasks.job[first]], q, snapshot):
                for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
                    helps = helps or prices[snapshot.tasks.cls[search.lists.potential[at]], r] > 0.0
            g += 1
            if helps and search.lists.is_chosen[g - 1] == 0:
                taken, _ = choose_with_dependents(g - 1, NULL, leaving, ctx, search)
                if taken:
                    break
        verdict, q, r = pass_gates(jobs.queue[p], scratch.need, fixed, parent, state.book)
    return True


@inner
def with_moves(preemptor: Preemptor, moves: bool) -> Preemptor:
    """The same preemptor, for which victims are, or are not, moved where they may not leave for good."""
    return Preemptor(
        preemptor.action,
        preemptor.job,
        preemptor.n_tasks,
        preemptor.ceiling,
        preemptor.need,
        preemptor.lacking,
        moves,
    )


@inner
def is_below(q: int, above: int, snapshot: Snapshot) -> bool:
    """Whether queue ``q`` is ``above`` or somewhere below it."""
    while q != NULL and q != above:
        q = snapshot.queues.parent[q]
    return bool(q == above)


@inner
def choose_with_dependents(
    g: int, cleared: int, preemptor: Preemptor, ctx: Context, search: Search
) -> tuple[bool, bool]:
    """Choose chunk ``g``, and those of its job without which it would leave a part of a gang behind.

    With ``moves`` those that may not leave for good go to other nodes than the ``cleared`` one. Returns whether it was
    done, and whether shares kept somebody.
    """
    action = preemptor.action
    snapshot, log = ctx.snapshot, ctx.log
    floats, integers = log.size[0], log.size[1]
    chosen, placed = search.counts.chosen[0], search.counts.placed[0]
    refused, here = False, search.jobs.first_potential[snapshot.tasks.job[first_of(g, search)]]
    while True:
        h = int(search.tasks.batch[here - 1])
        here = search.tasks.next_of_job[here - 1]
        if search.lists.is_chosen[h] == 0 and (h == g or empties(g, h, snapshot, search)):
            counted = action == RECLAIM and may_be_taken(h, preemptor, ctx, search)
            leaves = action != CONSOLIDATION and (action != RECLAIM or counted)
            refused = refused or (action == RECLAIM and not counted)
            gone = leaves or preemptor.moves
            if gone:
                take_chunk(h, ctx, search)
                search.lists.is_chosen[h] = 2 if counted else 1
                gone = leaves or move_chunk(h, cleared, ctx, search)
            if not gone:
                abandon(floats, integers, chosen, placed, ctx, search)
                return False, refused
        if h == g:
            return True, refused


@inner
def abandon(floats: int, integers: int, chosen: int, placed: int, ctx: Context, search: Search) -> None:
    """Take back all that was chosen since the log and the lists had these sizes."""
    rollback(floats, integers, ctx)
    for entry in range(chosen, search.counts.chosen[0]):
        take_back(search.lists.chosen[entry], ctx.snapshot, search)
    search.counts.chosen[0], search.counts.placed[0] = chosen, placed


@inner
def first_of(g: int, search: Search) -> int:
    """The first task of chunk ``g``."""
    return int(search.lists.potential[search.lists.chunk_start[g]])


@inner
def empties(g: int, h: int, snapshot: Snapshot, search: Search) -> bool:
    """Whether chunk ``g`` is all that is left of a set once chunk ``h`` of the same job, an earlier one, has gone."""
    s, emptied = snapshot.tasks.set[first_of(h, search)], search.lists.emptied[g]
    while s > emptied:
        s = snapshot.sets.parent[s]
    return bool(emptied != NULL and s == emptied)


@inner
def take_chunk(g: int, ctx: Context, search: Search) -> None:
    """Evict chunk ``g`` in the simulation, and note that it is chosen."""
    lists = search.lists
    lists.is_chosen[g] = 1
    lists.chosen[search.counts.chosen[0]] = g
    search.counts.chosen[0] += 1
    for at in range(lists.chunk_start[g], chunk_end(g, search)):
        t = lists.potential[at]
        n = ctx.state.task.node[t]
        evict_victim(t, ctx, search)
        if n != NULL:
            forget_cost(n, search)


@inner
def forget_cost(n: int, search: Search) -> None:
    """Something has changed on node ``n``: what it costs to clear it is not known any more."""
    search.nodes.cost_mark[n] = 0
    search.nodes.best_mark[search.nodes.place[n] // BLOCK] = 0


@inner
def unbar(entry: int, search: Search) -> None:
    """Let the nodes of a chosen chunk be tried again: there is more room on them."""
    g = search.lists.chosen[entry]
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        home = search.tasks.home[search.lists.potential[at]]
        if home != NULL:
            search.nodes.barred[home] = 0
            forget_cost(home, search)


@inner
def may_be_taken(g: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether shares let chunk ``g`` go after those chosen before; if so it is counted (``validate.keeps_shares``)."""
    snapshot = ctx.snapshot
    amount, q = amount_of(g, snapshot, search), queue_of(g, snapshot, search)
    if search.lists.kept[g] == 1 or not take_amount(preemptor.job, preemptor.need, q, amount, ctx, search):
        return False
    if stays_behind_it(q, amount, preemptor, ctx, search):
        return True
    give_back_shares(g, snapshot, search)
    return False


@inner
def stays_behind_it(v: int, amount: Amounts, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether the reclaimer's side ends with less of its share than that of leaf ``v``, which lost ``amount``.

    What ``validate.stays_behind`` asks at the end. More that is taken from the reclaimer's own side only helps, so
    nobody is chosen here whom the end would refuse.
    """
    need = preemptor.need
    snapshot = ctx.snapshot
    book = ctx.state.book
    mine, theirs = diverge(snapshot.jobs.queue[preemptor.job], v, snapshot.queues.parent)
    for r in range(3):
        used = ratio(left_to(mine, r, search) + need[r], book.fair[mine, r])
        if used <= 1.0 or (need[r] == 0.0 and amount[r] == 0.0):
            continue
        if book.fair[theirs, r] <= 0.0 and book.fair[mine, r] > 0.0:
            continue
        if used * ctx.settings.saturation >= ratio(search.queues.remains[theirs, r], book.fair[theirs, r]):
            return False
    return True


@inner
def queue_of(g: int, snapshot: Snapshot, search: Search) -> int:
    """The leaf of chunk ``g``."""
    return int(snapshot.jobs.queue[snapshot.tasks.job[first_of(g, search)]])


@inner
def amount_of(g: int, snapshot: Snapshot, search: Search) -> Amounts:
    """What the tasks of chunk ``g`` hold."""
    amount = (0.0, 0.0, 0.0)
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        price = snapshot.classes.quota[snapshot.tasks.cls[search.lists.potential[at]]]
        amount = (amount[0] + price[0], amount[1] + price[1], amount[2] + price[2])
    return amount


@inner
def give_back_shares(g: int, snapshot: Snapshot, search: Search) -> None:
    """Chunk ``g`` does not go after all."""
    amount, q = amount_of(g, snapshot, search), queue_of(g, snapshot, search)
    while q != NULL:
        for r in range(3):
            search.queues.remains[q, r] += amount[r]
        q = snapshot.queues.parent[q]


@inner
def take_back(g: int, snapshot: Snapshot, search: Search) -> None:
    """Chunk ``g`` is not chosen; 2 says that its shares were counted."""
    if search.lists.is_chosen[g] == 2:
        give_back_shares(g, snapshot, search)
    search.lists.is_chosen[g] = 0


@inner
def move_chunk(g: int, cleared: int, ctx: Context, search: Search) -> bool:
    """Give the tasks of chunk ``g``, which are evicted, places on other nodes than ``cleared``; False: not all."""
    snapshot, finder = ctx.snapshot, ctx.finder
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        t = search.lists.potential[at]
        c = snapshot.tasks.cls[t]
        if finder.refused[c] != OK:
            return False
        home = search.tasks.home[t]
        if home != NULL and home != cleared:
            restore_victim(t, ctx, search)
            continue
        signature = snapshot.classes.signature[c]
        verdict = finder.verdicts[signature, cleared]
        finder.verdicts[signature, cleared] = NOT_OFFERED
        touch(finder.block, finder.stamp, cleared)
        n = best_node(t, ctx)
        finder.verdicts[signature, cleared] = verdict
        touch(finder.block, finder.stamp, cleared)
        if n == NULL:
            return False
        pipeline_task(snapshot.tasks.job[t], t, n, ctx, search)
        forget_cost(n, search)
    return True
