"""Choose the chunks of victims that make room for a preemptor, node by node (semantics 4.5, step 3).

Each pending task in turn takes the best node that has room; if there is none, the cheapest node (``node_costs``) is
cleared for it.

Cost: for K tasks, up to 4 orders of the tasks, and for each task that finds no room the costs of the nodes with
potential victims, and the evictions on the node that is cleared. Invariant: evictions and placements of a choice go
through the undo log, and ``choose_chunks`` undoes them all. What remains is the list ``search.minimal.chosen`` (T + 1,)
and the nodes ``search.minimal.place`` (L,), L being the tasks of the longest job.
"""

from __future__ import annotations

import enum

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.domain_room import is_constrained
from kai_sched.solver.eviction.minimal.blockers import clear_blockers, is_blocked, is_near_required
from kai_sched.solver.eviction.minimal.chunks import chunk_end
from kai_sched.solver.eviction.minimal.domain_choice import enter_costed_domains, leave_domains, next_domain
from kai_sched.solver.eviction.minimal.node_costs import cheapest_node
from kai_sched.solver.eviction.minimal.taking import (
    abandon,
    choose_for_limits,
    choose_with_dependents,
    forget_cost,
    unbar,
)
from kai_sched.solver.eviction.minimal.task_moves import pipeline_task, terms_allow
from kai_sched.solver.eviction.tables import MOST_KINDS, PODS_A_UNIT, Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.fit import has_room
from kai_sched.solver.kernels.numa import RESTRICTED, asks_for_zones, has_zones, numa_count
from kai_sched.solver.kernels.score import is_affordable
from kai_sched.solver.kernels.topology import begin_domains
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context, Log

OK = int(Verdict.OK)
NOT_OFFERED = int(Verdict.NO_ROOM)


class ClearResult(enum.IntEnum):
    """Whether the victims on a node make room for a task there."""

    CLEARED = 0
    NOT_CLEARED = 1
    REFUSED = 2  # not without victims that shares keep


CLEARED = int(ClearResult.CLEARED)
NOT_CLEARED = int(ClearResult.NOT_CLEARED)
REFUSED = int(ClearResult.REFUSED)


@inner
def choose_chunks(n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Choose chunks that make room for the pending tasks; return whether there are such chunks.

    The result is ``search.minimal.chosen`` (T + 1,), the numbers of the chunks, and ``search.minimal.place`` (L,), the
    node for each entry of ``search.pending`` (L,), which may be in another order than before. The state is as before.
    The choice is not validated yet.

    Parameters
    ----------
    n_hosts : int
        Only the first so many nodes of ``search.hosts`` (L,) are cleared; 0: any node with potential victims.
    preemptor : Preemptor
        With ``moves`` victims that shares keep from leaving for good are given other nodes.
    """
    k = preemptor.n_tasks
    for entry in range(k):
        search.pending[entry] = search.minimal.pending_in_order[entry]
    # The first order is that of the job. If a task finds no node, the tasks of its class choose first the next
    # time: they are the hardest to place, and others had taken their room. At most four orders are tried, as many
    # as there are classes in the counts of room; each brings another class to the front.
    for _ in range(MOST_KINDS):
        failed = choose_in_turn(n_hosts, preemptor, ctx, search)
        begin_domains(ctx)
        undo_all(ctx)
        if failed == k:
            return True
        # The tasks of a set with a topology constraint stay side by side.
        constrained = is_constrained(preemptor.job, ctx)
        if failed == NULL or constrained or not bring_forward(failed, k, ctx.snapshot, search):
            break
    return False


@inner
def bring_forward(failed: int, k: int, snapshot: Snapshot, search: Search) -> bool:
    """Move the pending tasks of the class of the task at place ``failed`` to the front; False: they are there already.

    Reorders the first ``k`` entries of ``search.pending`` (L,) in place; within a class the order stays.
    """
    pending, cls = search.pending, snapshot.tasks.cls
    c = cls[pending[failed]]
    if cls[pending[0]] == c:
        return False
    front = 0
    for entry in range(k):
        t = pending[entry]
        if cls[t] != c:
            continue
        for at in range(entry, front, -1):
            pending[at] = pending[at - 1]
        pending[front] = t
        front += 1
    return True


@inner
def choose_in_turn(n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Choose for one pending task after the other, in the order of ``search.pending`` (L,).

    Leaves the choice simulated, through the undo log, for the caller to undo. Writes ``search.minimal.place`` (L,).

    Returns
    -------
    entry : int
        The place of the task that finds no node; ``preemptor.n_tasks`` if each found one; NULL if limits or
        quotas forbid all of it, whatever is evicted.
    """
    k = preemptor.n_tasks
    snapshot = ctx.snapshot
    begin_choice(ctx.log, search)
    if not choose_for_limits(preemptor, ctx, search):
        return NULL
    c, entry = NULL, 0
    begin_domains(ctx)
    while entry < k:  # Bound: the domains that each set may try; each step counts as work.
        t, n = int(search.pending[entry]), NULL
        # Costs and barred nodes are those of one class. A new clock forgets them without a loop over the nodes.
        if snapshot.tasks.cls[t] != c:
            c = int(snapshot.tasks.cls[t])
            search.minimal.clock[0] += 1
        if enter_costed_domains(entry, k, ctx, search):
            n = best_node(t, ctx)
            if n == NULL:
                n = clear_some_node(t, n_hosts, preemptor, ctx, search)
        search.counts.work[0] += 1 + search.minimal.looked[0] // PODS_A_UNIT
        search.minimal.looked[0] %= PODS_A_UNIT
        if n == NULL:
            back = next_domain(ctx, search)
            if back == NULL:
                return entry
            entry = back
            continue
        pipeline_task(preemptor.job, t, n, ctx, search)
        search.minimal.place[entry] = n
        forget_cost(n, search)
        entry = leave_domains(entry + 1, ctx, search)
    return k


@inner
def begin_choice(log: Log, search: Search) -> None:
    """Forget the last choice: empty ``search.minimal.chosen`` and ``is_chosen`` (T + 1,), the log and the placements.

    New clocks also forget the costs of nodes (N,) and what the choice took from queues (``queues.remains``,
    (Q, 3)).
    """
    log.size[:] = 0
    search.minimal.clock[0] += 1
    for entry in range(search.minimal.n_chosen[0]):
        search.minimal.is_chosen[search.minimal.chosen[entry]] = 0
    search.minimal.n_chosen[0] = 0
    search.counts.placed[0] = 0
    search.counts.loss_clock[0] += 1


@inner
def clear_some_node(t: int, n_hosts: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Evict chunks until task ``t`` fits the node that costs least to clear; return the node.

    Returns NULL if no node can be cleared. The chunks are added to ``search.minimal.chosen`` (T + 1,) and evicted
    through the undo log. Nodes that cannot be cleared are barred for the class of the task (``minimal.barred``,
    (N,)), until more chunks are chosen there.

    Parameters
    ----------
    n_hosts : int
        As for ``choose_chunks``: how many entries of ``search.hosts`` (L,) limit the nodes; 0: no limit.
    """
    log = ctx.log
    while True:  # Bound: each turn bars one more node.
        n = cheapest_node(t, n_hosts, preemptor, ctx, search)
        if n == NULL:
            return NULL
        floats, integers = log.size[0], log.size[1]
        chosen, placed = search.minimal.n_chosen[0], search.counts.placed[0]
        outcome, skipped, going = REFUSED, 0, True
        # Where the pod needs one of the NUMA zones of the node, shares may be used up by victims in others. So without
        # success each zone is tried with the victims in it alone.
        zone, targets = NULL, zones_to_clear(ctx.snapshot.tasks.cls[t], n, ctx)
        # Shares let the last chunk take its queue below its share, and none after it (4.7, rule 1). So a small
        # chunk that goes first can keep out a larger one that would make the room alone. If shares refuse a node,
        # the attempt is repeated without its first chunk, then without the first two, and so on. Bound: chunks
        # that were refused before any chunk went would be refused again, so leaving them out ends the same. The
        # repetition therefore starts after the first one that went.
        while outcome == REFUSED and going:  # Bound: each turn skips more chunks of the node, or takes the next zone.
            outcome, first = clear_node(t, n, (skipped, zone), preemptor, ctx, search)
            skipped, going = first, first > 0
            if outcome != CLEARED:
                abandon(floats, integers, chosen, placed, ctx, search)
                if (outcome != REFUSED or not going) and zone + 1 < targets:
                    outcome, skipped, zone, going = REFUSED, 0, zone + 1, True
        if outcome == CLEARED:
            for entry in range(chosen, search.minimal.n_chosen[0]):
                unbar(entry, search)
            return n
        search.minimal.barred[n] = search.minimal.clock[0]
        forget_cost(n, search)


@inner
def zones_to_clear(c: int, n: int, ctx: Context) -> int:
    """Return how many NUMA zones node ``n`` has of which a pod of class ``c`` may need one; reads ``numa.policy``."""
    return numa_count(n, ctx) if asks_for_zones(c, ctx) and ctx.snapshot.numa.policy[n] >= RESTRICTED else 0


@inner
def is_in_zone(g: int, n: int, zone: int, ctx: Context, search: Search) -> bool:
    """Return whether a task of chunk ``g`` holds something of this zone of node ``n``, by ``zones.held`` (H,)."""
    n_columns = ctx.scratch.zones.need.shape[0]
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        t = search.lists.potential[at]
        if ctx.state.task.node[t] == n and has_zones(t, ctx):
            first = ctx.snapshot.numa.held_ptr[t] + zone * n_columns
            for entry in range(first, first + n_columns):
                if ctx.state.zones.held[entry] > 0.0:
                    return True
    return False


@inner
def clear_node(
    t: int, n: int, left_out: tuple[int, int], preemptor: Preemptor, ctx: Context, search: Search
) -> tuple[int, int]:
    """Evict chunks with tasks on node ``n``, in the order of victims, until task ``t`` fits there.

    Before them go all chunks that block the node (``minimal.blockers``). ``left_out``: how many of the first chunks of
    the node that are not chosen yet are left out, and the NUMA zone of which all others have to hold something; NULL:
    none. Evictions go through the undo log and the chunks into ``search.minimal.chosen`` (T + 1,); unless the node is
    cleared, the caller takes both back.

    Returns
    -------
    outcome : int
        CLEARED; REFUSED: the task does not fit and shares refused a chunk; NOT_CLEARED: it does not fit with all
        of them gone, or inter-pod terms or ports forbid the node, or GPU memory costs too much there.
    went_first : int
        Which of the chunks, from 1 on, was the first that could go; 0: none.
    """
    snapshot, log = ctx.snapshot, ctx.log
    c = snapshot.tasks.cls[t]
    dynamic, (skipped, zone) = ctx.finder.dynamic[c] == 1, left_out
    here = search.nodes.first_potential[n]
    outcome, last, number, went_first = NOT_CLEARED, NULL, 0, 0
    if is_blocked(c, n, ctx):
        cleared, refused = clear_blockers(c, n, preemptor, ctx, search)
        if not cleared:
            return (REFUSED if refused and not preemptor.moves else NOT_CLEARED), 0
        if has_room(c, n, ctx):
            return (CLEARED if is_affordable(t, n, ctx) else NOT_CLEARED), 0
    while here != 0:  # Bound: the victims on the node, each once.
        g = int(search.tasks.chunk_of[here - 1])
        here = search.tasks.next_on_node[here - 1]
        if search.minimal.is_chosen[g] != 0 or g == last:
            continue
        last, number = g, number + 1
        if number <= skipped or (zone != NULL and not is_in_zone(g, n, zone, ctx, search)):
            continue
        floats, integers = log.size[0], log.size[1]
        chosen, placed = search.minimal.n_chosen[0], search.counts.placed[0]
        taken, refused = choose_with_dependents(g, n, preemptor, ctx, search)
        outcome = REFUSED if refused and not preemptor.moves else outcome
        # Evicting the pods that the task must be near would make the node useless for it. So that chunk stays.
        if taken and dynamic and not is_near_required(c, n, ctx):
            abandon(floats, integers, chosen, placed, ctx, search)
            taken = False
        if not taken:
            continue
        went_first = number if went_first == 0 else went_first
        if has_room(c, n, ctx):
            good = not dynamic or (terms_allow(c, n, ctx) and is_affordable(t, n, ctx))
            return (CLEARED if good else NOT_CLEARED), went_first
    return outcome, went_first
