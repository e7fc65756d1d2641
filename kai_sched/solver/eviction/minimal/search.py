"""The minimal search: when it attempts a scenario, in which candidate set, and which chosen victims it leaves out again
(semantics 4.5, ``victims: minimal``).

It ends with a set of victims from which no victim can be left out. Victims come one chunk at a time, the least
deserving first (``victims.potential.accumulate``). When the potential victims could make room for all pending tasks,
the search attempts a scenario: it chooses chunks that make the room (``minimal.choice``), simulates and validates them
(``minimal.simulation``), and then leaves out each chunk that the rest does not need, the most deserving first. If the
attempt fails, the next chunk comes.

A reclaim searches up to three candidate sets, one after the other: victims that may leave alone, victims that may
leave with others, and all victims, which may also move (``minimal.bounds.first_candidate_set`` to
``last_candidate_set``).

Cost: with V chunks in the order of victims, a single pod has up to V + 1 attempts and a gang about log2(V) + 1.
Leaving out takes at most C simulations in each of at most C passes for C chosen chunks; mostly a count of room
replaces it. Invariant: between two attempts the state is the state before the search, and the undo log is empty.
Only a search that returns HELPED leaves its scenario simulated, for ``commit.commit_scenario``. Shapes: L is the
number of tasks of the longest job; for the other letters see docs/data-model.md.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Floats, Help, Snapshot, Verdict
from kai_sched.solver.eviction.bounds import refute
from kai_sched.solver.eviction.minimal.bounds import (
    ALL_VICTIMS,
    first_candidate_set,
    hosts_suffice,
    lacks_relief,
    last_candidate_set,
    last_chunk,
    may_supply,
    note_who_gives,
    patience,
    shares_forbid_all,
)
from kai_sched.solver.eviction.minimal.choice import choose
from kai_sched.solver.eviction.minimal.simulation import TAKEN_BACK, VALID, chunk_end, simulate_choice
from kai_sched.solver.eviction.minimal.taking import empties, first_of, with_moves
from kai_sched.solver.eviction.original.scenarios import hosts
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.eviction.victims.potential import (
    accumulate,
    begin,
    count_kinds,
    forget,
    last_job,
    may_suffice,
    slots,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import leaves
from kai_sched.solver.kernels.score import has_guards
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
HELPED = int(Help.HELPED)
NOT_FOUND = int(Help.NOT_FOUND)
SHARES = int(Help.SHARES)
TOO_LONG = int(Help.TOO_LONG)

# What one search may spend on leaving out victims, as ``Config.search_work`` counts: each try is a simulation of all.
SPARING_WORK_MAX = 1_500_000


@inner
def find_minimal_victims(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Search for victims that make room for the tasks in ``search.pending`` (L,) (semantics 4.5).

    On HELPED the evictions and placements are left simulated in ``ctx.state``: the undo log can still take them
    back, and ``search.lists.scenario``, ``placed`` and ``jobs`` (T + 1,) name what takes part. On any other
    result the state is as before and the log is empty. ``search.pending_in_order`` (L,) keeps the order of the
    tasks, as a choice may reorder ``search.pending``. ``search.counts.work`` grows by the work done.

    Returns
    -------
    help : scalar, a ``Help``
        HELPED. SHARES, NO_ROOM or NO_VICTIMS: a proof says that no victims help. TOO_LONG: the search budget is used
        up (4.8). NOT_FOUND: none of the attempts was valid.
    """
    action, length, ceiling = preemptor.action, preemptor.n_tasks, preemptor.ceiling
    need, lacking, settings = preemptor.need, preemptor.lacking, ctx.settings
    count = search.counts
    count.precedence_known[0], count.local[0], count.pending[0] = 0, 0, length
    for entry in range(length):
        search.pending_in_order[entry] = search.pending[entry]
    count_kinds(length, ctx, search)
    if action == RECLAIM and shares_forbid_all(preemptor, ctx, search):
        return SHARES
    outcome = NOT_FOUND
    candidates = first_candidate_set(action, length, lacking)
    # The cheaper kind of eviction comes first: a victim that leaves alone costs one eviction, one that leaves
    # with others costs several, and a move costs an eviction and takes free room. A set is only searched when
    # those before it had no result. A proof (``refute``) or the end of the budget ends the whole search: both
    # hold for every set.
    # Bound: there are three candidate sets.
    while candidates <= last_candidate_set(action, need, lacking, settings) and outcome == NOT_FOUND:
        note_who_gives(candidates, preemptor, ctx, search)
        begin(ceiling, candidates != ALL_VICTIMS, ctx, search)
        moving = action == CONSOLIDATION
        moving = moving or (action == RECLAIM and candidates == ALL_VICTIMS and settings.consolidating_reclaim == 1)
        outcome = try_victims_in_order(with_moves(preemptor, moving), ctx, search)
        candidates += 1
    # A search with fewer chunks than ``patience`` has not asked for the proof yet. It decides nothing any more,
    # but gives the user the reason.
    if outcome == NOT_FOUND and count.batches[0] < patience(ctx.snapshot, search):
        why = refute(action, preemptor.job, ceiling, ctx, search)
        outcome = why if why != OK else NOT_FOUND
    if outcome != HELPED:
        ctx.log.size[:] = 0
    forget(search)
    return outcome


@inner
def try_victims_in_order(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Accumulate the chunks of one candidate set and attempt scenarios of those that came so far.

    With ``preemptor.moves`` victims that may not leave for good may move. Fills ``search.lists.chosen`` (T + 1,).
    Returns a scalar ``Help``: HELPED, with the scenario simulated; NOT_FOUND at the end of the victims; TOO_LONG;
    or the reason of ``refute``.
    """
    action, p, ceiling, moving = preemptor.action, preemptor.job, preemptor.ceiling, preemptor.moves
    snapshot, state = ctx.snapshot, ctx.state
    count = search.counts
    count.chosen[0] = 0
    gone, gone_alone = 0.0, 0.0
    steps, due, pause, tried = 0, 0, 1, False
    ask_at = patience(snapshot, search)
    guarded = has_guards(snapshot.tasks.cls[search.pending[0]], snapshot)
    at_once = preemptor.n_tasks == 1 and action != CONSOLIDATION and not guarded
    in_place = at_once and search.kinds.now[0] == 0 and not lacks_relief(p, preemptor.need, ctx)
    # When to attempt. A single pod (``at_once``) is attempted after each chunk, and only on the nodes of the
    # victim that came last: the other nodes had their attempt when their last victim came. A gang needs victims
    # on many nodes: it waits for 1, 2, 4, ... more chunks, which costs about log2(V) attempts instead of V.
    # So does a pod with host ports or anti-affinity, as victims on one node may block another one.
    # Consolidation attempts once, with all victims: there a node costs the number of its pods, whenever they
    # came.
    #
    # What an attempt needs. The sums ``gone`` and ``gone_alone`` count the GPUs of chunks that may leave for
    # good. Moves free no GPU in the cluster, so moves are only attempted when those that leave can supply what is
    # lacking.
    while accumulate(ceiling, ctx, search):  # Bound: each turn takes one chunk, and counts as work.
        steps, tried = steps + 1, False
        count.work[0] += 1
        if count.work[0] > ctx.settings.search_work:
            return TOO_LONG
        if steps == ask_at:
            why = refute(action, p, ceiling, ctx, search)
            if why != OK:
                return why
        amount, gives, alone = last_chunk(preemptor, ctx, search)
        gone += amount if gives else 0.0
        gone_alone += amount if alone else 0.0
        if action == CONSOLIDATION or not may_suffice(search.kinds.with_potential, search) or steps < due:
            continue
        n_hosts = hosts(last_job(snapshot, search), snapshot, state, search) if at_once else 0
        if at_once:
            useful = not in_place or hosts_suffice(n_hosts, snapshot, state, search)
            leaves, moves = useful and alone, useful and moving and gone_alone >= preemptor.lacking
        else:
            tried = True
            due, pause = steps + pause, 2 * pause
            leaves = may_supply(gone, preemptor, ctx, search)
            moves = leaves and moving
        outcome = try_choices(n_hosts, leaves, with_moves(preemptor, moves), ctx, search)
        if outcome != NOT_FOUND:
            return outcome
    # The attempt with all victims, on all nodes (``n_hosts`` 0) for a single pod, too.
    if steps > 0 and not tried and may_suffice(search.kinds.with_potential, search):
        moves = may_supply(gone, preemptor, ctx, search)
        leaves, moves = moves and action != CONSOLIDATION, moves and moving
        return try_choices(0, leaves, with_moves(preemptor, moves), ctx, search)
    return NOT_FOUND


@inner
def try_choices(n_hosts: int, leaves: bool, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Attempt scenarios of the chunks so far: first with victims that leave for good, then also with moves.

    On success as few victims as will do are left simulated. Otherwise the state is unchanged. Where validation
    fails because a queue would take the room straight back (4.7, rule 4), one more of its chunks is excluded
    (``lists.kept``, (T + 1,)) and chunks are chosen again, within the budget of 4.8.

    Parameters
    ----------
    n_hosts : scalar
        Only the first so many nodes of ``search.hosts`` (L,) may be cleared; 0: all nodes with potential victims.
    leaves : bool
        Whether to attempt with victims that leave for good. ``preemptor.moves``: whether to attempt with moves.

    Returns
    -------
    help : scalar, a ``Help``
        HELPED, NOT_FOUND, or TOO_LONG: the search budget is used up.
    """
    for moving in (False, True):
        if not (preemptor.moves if moving else leaves):
            continue
        again = True
        # Bound: ``retake.keep_last`` excludes one more chunk before each repetition, so there are at most V of them.
        while again and choose(n_hosts, with_moves(preemptor, moving), ctx, search):
            too_many = some_victim_is_unneeded(ctx, search)
            outcome = simulate_choice(preemptor.action, preemptor.job, preemptor.n_tasks, ctx, search)
            if outcome == VALID:
                if too_many:
                    drop_unneeded_victims(preemptor, ctx, search)
                return HELPED
            again = outcome == TAKEN_BACK
            if again and search.counts.work[0] > ctx.settings.search_work:
                return TOO_LONG
    return NOT_FOUND


@inner
def some_victim_is_unneeded(ctx: Context, search: Search) -> bool:
    """Return whether there could be room for the preemptor without one of the chosen chunks; nothing is simulated.

    Reads ``search.lists.chosen`` (T + 1,) and the state before the scenario. Overwrites
    ``search.kinds.with_chosen`` (4,) and ``search.freed`` (N, R) directly.

    Bound: False proves that no chunk can be left out. ``with_chosen`` is at least the number of pending tasks of
    a class for which there is room with the chosen chunks gone: it counts each class by itself, ignores limits,
    and leaves out that victims take room when they return. If it falls below the number of tasks without a chunk,
    no simulation without that chunk can place them all. Then the scenario is simulated once instead of once for
    each chunk.
    """
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
    """Leave out each chunk without which the scenario is still valid (4.5, step 6).

    Expects a valid scenario, simulated, and leaves a valid one, simulated. Afterwards no single chunk can be left
    out, and those that have to go with another (``is_held``) stay with it; or ``SPARING_WORK_MAX`` is used up, and
    those that were not tried yet leave. Edits ``search.lists.chosen`` (T + 1,) in place.
    """
    action, p, k = preemptor.action, preemptor.job, preemptor.n_tasks
    lists, count = search.lists, search.counts
    anybody, most = True, count.work[0] + SPARING_WORK_MAX
    undo_all(ctx)
    # The most deserving victim is left out first, as it is the one to be spared. One pass is not enough: a chunk
    # that was held by a later one, or needed beside it, may be unneeded once that one stays. The loop ends, as
    # each pass but the last makes the list shorter. The count of room avoids simulations that must fail.
    while anybody and count.work[0] <= most:  # Bound: each pass but the last makes the list shorter.
        anybody = False
        sum_up(ctx, search)
        at = next_chosen(count.batches[0], search)
        while at != NULL and count.work[0] <= most:  # Bound: ``at`` falls.
            g = int(lists.chosen[at])
            if is_held(g, ctx.snapshot, search):
                at = next_chosen(g, search)
                continue
            close_room(g, 1.0, ctx, search)
            if may_suffice(search.kinds.with_chosen, search):
                leave_out(at, search)
                if simulate_choice(action, p, k, ctx, search) == VALID:
                    undo_all(ctx)
                    anybody = True
                else:
                    put_in(at, g, search)
                    close_room(g, -1.0, ctx, search)
            else:
                close_room(g, -1.0, ctx, search)
            at = next_chosen(g, search)
    simulate_choice(action, p, k, ctx, search)


@inner
def is_held(h: int, snapshot: Snapshot, search: Search) -> bool:
    """Return whether chunk ``h`` has to go because a later chosen chunk of its job empties its set.

    If a chunk takes the last pods of a set, the pods of this set that were surplus go too: they may not run
    without their gang (4.5, step 3). Reads ``search.lists.chosen`` (T + 1,).
    """
    j = snapshot.tasks.job[first_of(h, search)]
    for entry in range(search.counts.chosen[0]):
        g = int(search.lists.chosen[entry])
        if g > h and snapshot.tasks.job[first_of(g, search)] == j and empties(g, h, snapshot, search):
            return True
    return False


@inner
def sum_up(ctx: Context, search: Search) -> None:
    """Count for how many pending tasks of each class there is room with all chosen chunks gone.

    Writes ``search.kinds.with_chosen`` (4,), an upper bound for each class by itself, and ``search.freed``
    (N, R), what the chosen chunks hold on each node, directly. Only nodes with potential victims are reset: only
    those can get entries.
    """
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
    """Remove what chunk ``g`` leaves from the count of room; with ``sign`` -1 add it.

    Updates ``search.freed`` (N, R) and ``search.kinds.with_chosen`` (4,) directly, at the nodes of the chunk.
    Calls with opposite signs cancel. Cost: tasks of the chunk x classes x R.
    """
    snapshot = ctx.snapshot
    lists = search.lists
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
                freed[r] -= sign * leaves(snapshot.tasks.cls[t], r, snapshot)
        for kind in range(search.counts.kinds[0]):
            search.kinds.with_chosen[kind] += slots_of(kind, n, freed, ctx, search)


@inner
def slots_of(kind: int, n: int, freed: Floats, ctx: Context, search: Search) -> int:
    """Return how many tasks of a class of pending tasks node ``n`` takes once ``freed`` (R,) is free there.

    A scalar, 0 where the node is not feasible for the class. Inter-pod terms and host ports are ignored.
    """
    state = ctx.state
    classes = ctx.snapshot.classes
    c = search.kinds.cls[kind]
    if ctx.finder.verdicts[classes.signature[c], n] != OK:
        return 0
    return slots(classes.request[c], state.idle[n], state.releasing[n], freed)


@inner
def next_chosen(before: int, search: Search) -> int:
    """Return the place in the list of the largest chosen chunk below chunk ``before``; NULL: there is none.

    The list is ``search.lists.chosen`` (T + 1,). Chunks are numbered in the order of victims, so the largest
    number is the most deserving victim.
    """
    found = NULL
    for at in range(search.counts.chosen[0]):
        g = search.lists.chosen[at]
        if g < before and (found == NULL or g > search.lists.chosen[found]):
            found = at
    return found


@inner
def leave_out(at: int, search: Search) -> None:
    """Remove the entry at place ``at`` of ``search.lists.chosen`` (T + 1,); the others keep their order."""
    chosen = search.lists.chosen
    search.counts.chosen[0] -= 1
    for place in range(at, search.counts.chosen[0]):
        chosen[place] = chosen[place + 1]


@inner
def put_in(at: int, g: int, search: Search) -> None:
    """Insert chunk ``g`` into ``search.lists.chosen`` (T + 1,) at place ``at``: undoes ``leave_out``."""
    chosen = search.lists.chosen
    for place in range(search.counts.chosen[0], at, -1):
        chosen[place] = chosen[place - 1]
    chosen[at] = g
    search.counts.chosen[0] += 1
