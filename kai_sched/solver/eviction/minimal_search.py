"""The search for as few victims as possible: those that are carried out cannot be fewer, each being needed.

Victims come one chunk after the other, the least deserving first (``accumulate``), until there could be room for all of
the preemptor. Then chunks are chosen that make the room (``minimal_choice``), the scenario is simulated and judged
(``minimal_simulation``), and each chunk in turn, the most deserving first, is left out if the rest will do. Where no
choice is good the stream goes on. A preemptor of several tasks is not tried after each chunk, but after 1, 2, 4, ...
more.

A reclaim looks for victims in three candidate sets at the most (``first_candidate_set`` to ``last_candidate_set``):
those that may leave by themselves, those that may leave with others, and all, which may move.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Floats, Help, Snapshot, Verdict
from kai_sched.solver.eviction.bounds import refute
from kai_sched.solver.eviction.minimal_bounds import (
    EVERYBODY,
    first_candidate_set,
    hosts_suffice,
    lacks_relief,
    last_candidate_set,
    last_chunk,
    may_supply,
    note_who_gives,
    shares_forbid_all,
)
from kai_sched.solver.eviction.minimal_choice import choose
from kai_sched.solver.eviction.minimal_simulation import chunk_end, simulate
from kai_sched.solver.eviction.minimal_taking import empties, first_of, with_moves
from kai_sched.solver.eviction.potential_victims import accumulate, begin, count_kinds, forget, may_suffice, slots
from kai_sched.solver.eviction.scenarios import hosts
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
HELPED = int(Help.HELPED)
NOT_FOUND = int(Help.NOT_FOUND)
SHARES = int(Help.SHARES)
TOO_LONG = int(Help.TOO_LONG)
PATIENCE = 64  # as many chunks, or one for so many pods, cost about what it costs to ask whether any victims could help


@inner
def find_minimal_victims(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Make room for the tasks of ``search.pending``: HELPED, and the solution is left simulated, or why not."""
    action, length, ceiling = preemptor.action, preemptor.n_tasks, preemptor.ceiling
    need, lacking, settings = preemptor.need, preemptor.lacking, ctx.settings
    count = search.counts
    count.refuted[0], count.precedence_known[0], count.local[0], count.pending[0] = OK, 0, 0, length
    for entry in range(length):
        search.pending_in_order[entry] = search.pending[entry]
    count_kinds(length, ctx, search)
    if action == RECLAIM and shares_forbid_all(preemptor, ctx, search):
        return SHARES
    outcome = NOT_FOUND
    candidates = first_candidate_set(action, length, lacking)
    while candidates <= last_candidate_set(action, need, lacking, settings) and outcome == NOT_FOUND:
        note_who_gives(candidates, preemptor, ctx, search)
        begin(ceiling, candidates != EVERYBODY, ctx, search)
        moving = action == CONSOLIDATION
        moving = moving or (action == RECLAIM and candidates == EVERYBODY and settings.consolidating_reclaim == 1)
        outcome = try_victims_in_order(with_moves(preemptor, moving), ctx, search)
        candidates += 1
    if outcome == NOT_FOUND and count.batches[0] < patience(ctx.snapshot):
        why = refute(action, preemptor.job, ceiling, ctx, search)
        outcome = why if why != OK else NOT_FOUND
    if outcome != HELPED:
        ctx.log.size[:] = 0
    forget(search)
    return outcome


@inner
def patience(snapshot: Snapshot) -> int:
    """After how many chunks it is asked whether any victims could help."""
    return int(max(PATIENCE, snapshot.tasks.job.shape[0] // PATIENCE))


@inner
def try_victims_in_order(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Try to make room with the victims that came so far, again and again; returns a Help."""
    action, p, ceiling, moving = preemptor.action, preemptor.job, preemptor.ceiling, preemptor.moves
    snapshot, state = ctx.snapshot, ctx.state
    count = search.counts
    count.chosen[0] = 0
    gone, gone_alone = 0.0, 0.0
    steps, due, pause, tried = 0, 0, 1, False
    at_once = preemptor.n_tasks == 1 and action != CONSOLIDATION
    in_place = at_once and search.kinds.now[0] == 0 and not lacks_relief(p, preemptor.need, ctx)
    while accumulate(ceiling, ctx, search):
        steps, tried = steps + 1, False
        count.work[0] += 1
        if count.work[0] > ctx.settings.most_work:
            return TOO_LONG
        if steps == patience(snapshot):
            why = refute(action, p, ceiling, ctx, search)
            if why != OK:
                return why
        amount, gives, alone = last_chunk(preemptor, ctx, search)
        gone += amount if gives else 0.0
        gone_alone += amount if alone else 0.0
        if action == CONSOLIDATION or not may_suffice(search.kinds.with_potential, search) or steps < due:
            continue
        n_hosts = hosts(count.last_job[0], snapshot, state, search) if at_once else 0
        if at_once:
            useful = not in_place or hosts_suffice(n_hosts, snapshot, state, search)
            leaves, moves = useful and alone, useful and moving and gone_alone >= preemptor.lacking
        else:
            tried = True
            due, pause = steps + pause, 2 * pause
            leaves = may_supply(gone, preemptor, ctx, search)
            moves = leaves and moving
        if try_choices(n_hosts, leaves, with_moves(preemptor, moves), ctx, search):
            return HELPED
    if steps > 0 and not tried and may_suffice(search.kinds.with_potential, search):
        moves = may_supply(gone, preemptor, ctx, search)
        leaves, moves = moves and action != CONSOLIDATION, moves and moving
        if try_choices(0, leaves, with_moves(preemptor, moves), ctx, search):
            return HELPED
    return NOT_FOUND


@inner
def try_choices(n_hosts: int, leaves: bool, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether some of the chunks so far make room and may go; if so, as few as will do are simulated.

    Tried are choices of those that leave for good (``leaves``), and of those that move where they may not
    (``preemptor.moves``); where the queue of one of them would take the room straight back, others without that one.
    """
    for moving in (False, True):
        if not (preemptor.moves if moving else leaves):
            continue
        again = True
        while again and choose(n_hosts, with_moves(preemptor, moving), ctx, search):
            too_many = some_victim_is_unneeded(ctx, search)
            if simulate(preemptor.action, preemptor.job, preemptor.n_tasks, ctx, search):
                if too_many:
                    drop_unneeded_victims(preemptor, ctx, search)
                return True
            again = search.counts.retaken[0] == 1
    return False


@inner
def some_victim_is_unneeded(ctx: Context, search: Search) -> bool:
    """Whether there could be room for the preemptor without one of the chosen chunks; nothing is simulated."""
    sum_up(ctx, search)
    for entry in range(search.counts.chosen[0]):
        g = int(search.lists.chosen[entry])
        if search.counts.chosen[0] > 1 and is_held(g, ctx.snapshot, search):
            continue
        close_room(g, 1.0, ctx, search)
        if may_suffice(search.kinds.with_chosen, search):
            return True
        close_room(g, -1.0, ctx, search)
    return False


@inner
def drop_unneeded_victims(preemptor: Preemptor, ctx: Context, search: Search) -> None:
    """Leave out each chunk without which the simulated scenario is still good, and simulate what remains."""
    action, p, k = preemptor.action, preemptor.job, preemptor.n_tasks
    lists, count = search.lists, search.counts
    anybody = True
    undo_all(ctx)
    while anybody:
        anybody = False
        sum_up(ctx, search)
        at = next_chosen(count.batches[0], search)
        while at != NULL:
            g = int(lists.chosen[at])
            if is_held(g, ctx.snapshot, search):
                at = next_chosen(g, search)
                continue
            close_room(g, 1.0, ctx, search)
            if may_suffice(search.kinds.with_chosen, search):
                leave_out(at, search)
                if simulate(action, p, k, ctx, search):
                    undo_all(ctx)
                    anybody = True
                else:
                    put_in(at, g, search)
                    close_room(g, -1.0, ctx, search)
            else:
                close_room(g, -1.0, ctx, search)
            at = next_chosen(g, search)
    simulate(action, p, k, ctx, search)


@inner
def is_held(h: int, snapshot: Snapshot, search: Search) -> bool:
    """Whether chunk ``h`` has to go with a later one of its job, which would leave a part of a gang behind."""
    j = snapshot.tasks.job[first_of(h, search)]
    for entry in range(search.counts.chosen[0]):
        g = int(search.lists.chosen[entry])
        if g > h and snapshot.tasks.job[first_of(g, search)] == j and empties(g, h, snapshot, search):
            return True
    return False


@inner
def sum_up(ctx: Context, search: Search) -> None:
    """Count for how many pending tasks of each class there is room with all chosen chunks gone, at the most."""
    for place in range(search.counts.touched_nodes[0]):
        n = search.nodes.touched[place]
        for r in range(search.freed.shape[1]):
            search.freed[n, r] = 0.0
    for kind in range(search.counts.kinds[0]):
        search.kinds.with_chosen[kind] = search.kinds.now[kind]
    for entry in range(search.counts.chosen[0]):
        close_room(int(search.lists.chosen[entry]), -1.0, ctx, search)


@inner
def close_room(g: int, sign: float, ctx: Context, search: Search) -> None:
    """Take what chunk ``g`` leaves off the room (``sum_up``); ``sign`` -1: add it."""
    snapshot = ctx.snapshot
    classes, lists = snapshot.classes, search.lists
    for at in range(lists.chunk_start[g], chunk_end(g, search)):
        t = lists.potential[at]
        n = ctx.state.task.node[t]
        if n == NULL:
            continue
        freed = search.freed[n]
        for kind in range(search.counts.kinds[0]):
            search.kinds.with_chosen[kind] -= slots_of(kind, n, freed, ctx, search)
        for r in range(freed.shape[0]):
            if snapshot.nodes.allocatable[n, r] > 0.0:
                freed[r] -= sign * classes.request[snapshot.tasks.cls[t], r]
        for kind in range(search.counts.kinds[0]):
            search.kinds.with_chosen[kind] += slots_of(kind, n, freed, ctx, search)


@inner
def slots_of(kind: int, n: int, freed: Floats, ctx: Context, search: Search) -> int:
    """How many tasks of a class of pending tasks node ``n`` takes once what is ``freed`` (R,) is free."""
    state = ctx.state
    classes = ctx.snapshot.classes
    c = search.kinds.cls[kind]
    if ctx.finder.verdicts[classes.signature[c], n] != OK:
        return 0
    return slots(classes.request[c], state.idle[n], state.releasing[n], freed)


@inner
def next_chosen(before: int, search: Search) -> int:
    """The place in the list of the most deserving chosen chunk that is less so than chunk ``before``; NULL: none."""
    found = NULL
    for at in range(search.counts.chosen[0]):
        g = search.lists.chosen[at]
        if g < before and (found == NULL or g > search.lists.chosen[found]):
            found = at
    return found


@inner
def leave_out(at: int, search: Search) -> None:
    """Take the chosen chunk at a place out of the list."""
    chosen = search.lists.chosen
    search.counts.chosen[0] -= 1
    for place in range(at, search.counts.chosen[0]):
        chosen[place] = chosen[place + 1]


@inner
def put_in(at: int, g: int, search: Search) -> None:
    """Put chunk ``g`` back at its place."""
    chosen = search.lists.chosen
    for place in range(search.counts.chosen[0], at, -1):
        chosen[place] = chosen[place - 1]
    chosen[at] = g
    search.counts.chosen[0] += 1
