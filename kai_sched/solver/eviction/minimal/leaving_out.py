"""Which chosen victims the others can do without (semantics 4.5, step 6).

A chunk is left out if the simulation without it is valid too; a count of room replaces most simulations. Cost: at most
C simulations in each of at most C passes for C chosen chunks, and no more than ``SPARING_WORK_MAX``. Invariant: a
scenario that was valid before is simulated, with fewer victims or the same.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Snapshot
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.minimal.chunks import chunk_end, first_of
from kai_sched.solver.eviction.minimal.simulation import VALID, simulate_choice
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.eviction.victims.potential import may_suffice, slots
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import freed_by_pod
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context

OK = int(Verdict.OK)

# What one search may spend on leaving out victims, as ``Config.search_work`` counts: each try is a simulation of all.
SPARING_WORK_MAX = 1_500_000


@inner
def some_victim_is_unneeded(ctx: Context, search: Search) -> bool:
    """Return whether there could be room for the preemptor without one of the chosen chunks; nothing is simulated.

    Reads ``search.minimal.chosen`` (T + 1,) and the state before the scenario. Overwrites
    ``search.minimal.with_chosen`` (4,) and ``search.freed`` (N, R) directly.

    Bound: False proves that no chunk can be left out. ``with_chosen`` is at least the number of pending tasks of
    a class for which there is room with the chosen chunks gone: it counts each class by itself, ignores limits,
    and leaves out that victims take room when they return. If it falls below the number of tasks without a chunk,
    no simulation without that chunk can place them all. Then the scenario is simulated once instead of once for
    each chunk.
    """
    sum_up(ctx, search)
    note_emptied(True, search)
    may_do_without = False
    for entry in range(search.minimal.n_chosen[0]):
        g = int(search.minimal.chosen[entry])
        if may_do_without or (search.minimal.n_chosen[0] > 1 and is_held(g, ctx.snapshot, search)):
            continue
        count_out(g, ctx, search)
        may_do_without = may_suffice(search.minimal.with_chosen, search)
        if not may_do_without:
            count_in(g, ctx, search)
    note_emptied(False, search)
    return may_do_without


@inner
def drop_unneeded_victims(preemptor: Preemptor, ctx: Context, search: Search) -> None:
    """Leave out each chunk without which the scenario is still valid (4.5, step 6).

    Expects a valid scenario, simulated, and leaves a valid one, simulated. Afterwards no single chunk can be left
    out, and those that have to go with another (``is_held``) stay with it; or ``SPARING_WORK_MAX`` is used up, and
    those that were not tried yet leave. Edits ``search.minimal.chosen`` (T + 1,) in place.
    """
    action, p, k = preemptor.action, preemptor.job, preemptor.n_tasks
    count, chosen = search.counts, search.minimal.chosen
    anybody, most = True, count.work[0] + SPARING_WORK_MAX
    undo_all(ctx)
    note_emptied(True, search)
    # The most deserving victim is left out first, as it is the one to be spared. One pass is not enough: a chunk
    # that was held by a later one, or needed beside it, may be unneeded once that one stays. The loop ends, as
    # each pass but the last makes the list shorter. The count of room avoids simulations that must fail.
    while anybody and count.work[0] <= most:  # Bound: each pass but the last makes the list shorter.
        anybody = False
        sum_up(ctx, search)
        at = next_chosen(count.n_chunks[0], search)
        while at != NULL and count.work[0] <= most:  # Bound: ``at`` falls.
            g = int(chosen[at])
            if is_held(g, ctx.snapshot, search):
                at = next_chosen(g, search)
                continue
            count_out(g, ctx, search)
            if may_suffice(search.minimal.with_chosen, search):
                leave_out(at, search)
                if simulate_choice(action, p, k, ctx, search) == VALID:
                    undo_all(ctx)
                    anybody = True
                else:
                    put_in(at, g, search)
                    count_in(g, ctx, search)
            else:
                count_in(g, ctx, search)
            at = next_chosen(g, search)
    note_emptied(False, search)
    simulate_choice(action, p, k, ctx, search)


@inner
def note_emptied(chosen: bool, search: Search) -> None:
    """Note which sets the chosen chunks take the last pods of, in ``minimal.emptied_by`` (S,); or (False) forget it.

    No two chunks empty the same set.
    """
    for entry in range(search.minimal.n_chosen[0]):
        g = search.minimal.chosen[entry]
        if search.lists.emptied[g] != NULL:
            search.minimal.emptied_by[search.lists.emptied[g]] = g + 1 if chosen else 0


@inner
def is_held(h: int, snapshot: Snapshot, search: Search) -> bool:
    """Return whether chunk ``h`` has to go because a later chosen chunk of its job empties its set.

    If a chunk takes the last pods of a set, the pods of this set that were surplus go too: they cannot run
    without their gang (4.5, step 3). Reads ``minimal.emptied_by`` (S,) of its set and those above.
    """
    s = snapshot.tasks.set[first_of(h, search)]
    while s != NULL:  # Bound: parents have lower rows.
        if search.minimal.emptied_by[s] > h + 1:
            return True
        s = snapshot.sets.parent[s]
    return False


@inner
def sum_up(ctx: Context, search: Search) -> None:
    """Count for how many pending tasks of each class there is room with all chosen chunks gone.

    Writes ``search.minimal.with_chosen`` (4,), an upper bound for each class by itself, and ``search.freed``
    (N, R), what the chosen chunks hold on each node, directly. Only nodes with potential victims are reset: only
    those can get entries.
    """
    for place in range(search.counts.touched_nodes[0]):
        n = search.nodes.touched[place]
        for r in range(search.freed.shape[1]):
            search.freed[n, r] = 0.0
    for kind in range(search.counts.kinds[0]):
        search.minimal.with_chosen[kind] = search.kinds.now[kind]
    for entry in range(search.minimal.n_chosen[0]):
        count_in(int(search.minimal.chosen[entry]), ctx, search)


@inner
def count_in(g: int, ctx: Context, search: Search) -> None:
    """Add what chunk ``g`` leaves to the count of room, ``search.minimal.with_chosen`` (4,)."""
    change_count(g, 1.0, ctx, search)


@inner
def count_out(g: int, ctx: Context, search: Search) -> None:
    """Take what chunk ``g`` leaves off the count of room, ``search.minimal.with_chosen`` (4,): undoes ``count_in``."""
    change_count(g, -1.0, ctx, search)


@inner
def change_count(g: int, sign: float, ctx: Context, search: Search) -> None:
    """Change ``search.freed`` (N, R) and ``minimal.with_chosen`` (4,) by what chunk ``g`` leaves on its nodes.

    Cost: tasks of the chunk x classes x R.
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
            search.minimal.with_chosen[kind] -= slots_of(kind, n, freed, ctx, search)
        for r in range(freed.shape[0]):
            if snapshot.nodes.allocatable[n, r] > 0.0:
                freed[r] += sign * freed_by_pod(snapshot.tasks.cls[t], r, snapshot)
        for kind in range(search.counts.kinds[0]):
            search.minimal.with_chosen[kind] += slots_of(kind, n, freed, ctx, search)


@inner
def slots_of(kind: int, n: int, freed: Floats, ctx: Context, search: Search) -> int:
    """Return how many tasks of a class of pending tasks node ``n`` takes once ``freed`` (R,) is free there.

    0 where the node is not feasible for the class. Inter-pod terms and host ports are ignored.
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

    The list is ``search.minimal.chosen`` (T + 1,). Chunks are numbered in the order of victims, so the largest
    number is the most deserving victim.
    """
    found = NULL
    for at in range(search.minimal.n_chosen[0]):
        g = search.minimal.chosen[at]
        if g < before and (found == NULL or g > search.minimal.chosen[found]):
            found = at
    return found


@inner
def leave_out(at: int, search: Search) -> None:
    """Remove the entry at place ``at`` of ``search.minimal.chosen`` (T + 1,); the others keep their order."""
    chosen = search.minimal.chosen
    if search.lists.emptied[chosen[at]] != NULL:
        search.minimal.emptied_by[search.lists.emptied[chosen[at]]] = 0
    search.minimal.n_chosen[0] -= 1
    for place in range(at, search.minimal.n_chosen[0]):
        chosen[place] = chosen[place + 1]


@inner
def put_in(at: int, g: int, search: Search) -> None:
    """Insert chunk ``g`` into ``search.minimal.chosen`` (T + 1,) at place ``at``: undoes ``leave_out``."""
    chosen = search.minimal.chosen
    if search.lists.emptied[g] != NULL:
        search.minimal.emptied_by[search.lists.emptied[g]] = g + 1
    for place in range(search.minimal.n_chosen[0], at, -1):
        chosen[place] = chosen[place - 1]
    chosen[at] = g
    search.minimal.n_chosen[0] += 1
