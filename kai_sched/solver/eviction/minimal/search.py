"""The search for few victims: in which candidate set, and when it attempts a scenario (semantics 4.5, ``victims:
minimal``).

It ends with a set of victims from which no victim can be left out. Victims come one chunk at a time, the least
deserving first (``victims.potential.accumulate``). When the potential victims could make room for all pending tasks,
the search attempts a scenario: it chooses chunks that make the room (``choice``), simulates and validates them
(``simulation``), and then leaves out each chunk that the rest does not need (``leaving_out``). If the attempt fails,
the next chunk comes.

Cost: with V chunks in the order of victims, a single pod has up to V + 1 attempts and a gang about log2(V) + 1.
Invariant: between two attempts the state is the state before the search, and the undo log is empty. Only a search that
returns HELPED leaves its scenario simulated, for ``commit.commit_scenario``. Shapes: L is the number of tasks of the
longest job; for the other letters see docs/data-model.md.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import Action, Help
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.bounds import refute
from kai_sched.solver.eviction.domain_room import is_constrained
from kai_sched.solver.eviction.minimal.bounds import (
    hosts_suffice,
    lacks_relief,
    last_chunk,
    may_supply,
    note_who_gives,
    patience,
    shares_forbid_all,
)
from kai_sched.solver.eviction.minimal.candidate_sets import (
    ALL_VICTIMS,
    TOGETHER,
    first_candidate_set,
    last_candidate_set,
)
from kai_sched.solver.eviction.minimal.choice import choose_chunks
from kai_sched.solver.eviction.minimal.domain_choice import refuse_chosen_domain
from kai_sched.solver.eviction.minimal.leaving_out import drop_unneeded_victims, some_victim_is_unneeded
from kai_sched.solver.eviction.minimal.node_supply import can_clear_no_node
from kai_sched.solver.eviction.minimal.simulation import TAKEN_BACK, VALID, simulate_choice
from kai_sched.solver.eviction.preemptor import with_moves
from kai_sched.solver.eviction.scenario import list_nodes_of_job
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.eviction.victims.potential import (
    accumulate,
    begin_accumulation,
    count_kinds,
    forget_accumulation,
    last_job,
    may_suffice,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.score import has_guards
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
HELPED = int(Help.HELPED)
NOT_FOUND = int(Help.NOT_FOUND)
SHARES = int(Help.SHARES)
TOO_LONG = int(Help.TOO_LONG)


@inner
def find_minimal_victims(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Search for victims that make room for the tasks in ``search.pending`` (L,) (semantics 4.5).

    On HELPED the evictions and placements are left simulated in ``ctx.state``: the undo log can still take them
    back, and ``search.lists.scenario``, ``placed`` and ``jobs`` (T + 1,) name what takes part. On any other
    result the state is as before, the log is empty, and ``search.pending`` has its order again, which is kept in
    ``minimal.pending_in_order`` (L,), as a choice may change it. ``search.counts.work`` grows by the work done.

    Returns
    -------
    help : int, a ``Help``
        HELPED. SHARES, NO_ROOM or NO_VICTIMS: a proof says that no victims help. TOO_LONG: the search budget is used
        up (4.8). NOT_FOUND: none of the attempts was valid.
    """
    action, length, lacking, settings = preemptor.action, preemptor.n_tasks, preemptor.lacking, ctx.settings
    search.counts.pending[0], search.minimal.refuted[0] = length, 0
    for entry in range(length):
        search.minimal.pending_in_order[entry] = search.pending[entry]
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
    while candidates <= last_candidate_set(action, preemptor.need, lacking, settings) and outcome == NOT_FOUND:
        outcome = search_candidate_set(candidates, preemptor, ctx, search)
        candidates += 1
    # A search with fewer chunks than ``patience`` has not asked for the proof yet. It decides nothing any more,
    # but gives the user the reason.
    if outcome == NOT_FOUND:
        why = reason_of_proof(preemptor, ctx, search)
        outcome = why if why != OK else NOT_FOUND
    if outcome != HELPED:
        ctx.log.size[:] = 0
        for entry in range(length):
            search.pending[entry] = search.minimal.pending_in_order[entry]
    forget_accumulation(search)
    return outcome


@inner
def search_candidate_set(candidates: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Search one ``CandidateSet``; return a ``Help``: HELPED, NOT_FOUND, TOO_LONG, or the reason of ``refute``.

    Single pods are searched for node by node, unless what blocks a node may be on another one, by ports or
    anti-affinity of the class (C,), or topology constraints limit the nodes. One for which no node can be cleared is
    not searched for in TOGETHER; where limits are in the way or pods elsewhere, victims beside those of the node may
    have to leave, and the proof does not hold. All victims may move in consolidation, and in the last
    set of a reclaim if the configuration allows it. Consolidation compares all nodes.
    """
    action, moves = preemptor.action, preemptor.action == CONSOLIDATION
    if action == RECLAIM:
        moves = candidates == ALL_VICTIMS and ctx.settings.consolidating_reclaim == 1
    guarded = has_guards(ctx.snapshot.tasks.cls[search.pending[0]], ctx.snapshot)
    by_node = preemptor.n_tasks == 1 and action != CONSOLIDATION and not guarded
    by_node = by_node and not is_constrained(preemptor.job, ctx)
    note_who_gives(candidates, preemptor, ctx, search)
    on_one_node = candidates == TOGETHER and by_node and not lacks_relief(preemptor.job, preemptor.need, ctx)
    if on_one_node and can_clear_no_node(preemptor, ctx, search):
        return NOT_FOUND
    begin_accumulation(preemptor.ceiling, candidates != ALL_VICTIMS, ctx, search)
    search.minimal.n_chosen[0] = 0
    if by_node:
        return search_for_pod(with_moves(preemptor, moves), ctx, search)
    return search_for_gang(with_moves(preemptor, moves), ctx, search)


@inner
def search_for_pod(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Attempt a single pod after each chunk, on the nodes of the victim that came last; at the end on all nodes.

    The other nodes had their attempt when their last victim came. Moves free no GPU in the cluster, so they are only
    attempted when victims that leave alone could supply what is lacking. Returns a ``Help``; ``search.hosts`` (L,).
    """
    n_chunks, gpus_for_good, gpus_alone = 0, 0.0, 0.0
    on_one_node = search.kinds.now[0] == 0 and not lacks_relief(preemptor.job, preemptor.need, ctx)
    while accumulate(preemptor.ceiling, ctx, search):  # Bound: each turn takes one chunk, and counts as work.
        n_chunks += 1
        why = reason_to_end(n_chunks, preemptor, ctx, search)
        if why != OK:
            return why
        amount, gives, alone = last_chunk(preemptor, ctx, search)
        gpus_for_good += amount if gives else 0.0
        gpus_alone += amount if alone else 0.0
        if not may_suffice(search.kinds.with_potential, search):
            continue
        n_hosts = list_nodes_of_job(last_job(ctx.snapshot, search), ctx.snapshot, ctx.state, search)
        if on_one_node and not hosts_suffice(n_hosts, ctx.snapshot, ctx.state, search):
            continue
        moves = preemptor.moves and gpus_alone >= preemptor.lacking
        outcome = attempt_scenarios(n_hosts, alone, with_moves(preemptor, moves), ctx, search)
        if outcome != NOT_FOUND:
            return outcome
    return attempt_with_all(gpus_for_good, preemptor, ctx, search)


@inner
def search_for_gang(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Attempt a gang after 1, 2, 4, ... more chunks that might suffice, and once at the end; return a ``Help``.

    A gang needs victims on many nodes, and about log2(V) attempts instead of V. So does a pod with host ports or
    anti-affinity, as victims on one node may block another one. Consolidation attempts once, with all victims: there a
    node costs the number of its pods, whenever they came. Reads ``kinds.with_potential`` (4,).
    """
    n_chunks, due, pause, attempted, gpus_for_good = 0, 0, 1, False, 0.0
    while accumulate(preemptor.ceiling, ctx, search):  # Bound: each turn takes one chunk, and counts as work.
        n_chunks, attempted = n_chunks + 1, False
        why = reason_to_end(n_chunks, preemptor, ctx, search)
        if why != OK:
            return why
        amount, gives, _ = last_chunk(preemptor, ctx, search)
        gpus_for_good += amount if gives else 0.0
        if preemptor.action == CONSOLIDATION or n_chunks < due or not may_suffice(search.kinds.with_potential, search):
            continue
        attempted, due, pause = True, n_chunks + pause, 2 * pause
        supplied = may_supply(gpus_for_good, preemptor, ctx, search)
        outcome = attempt_scenarios(0, supplied, with_moves(preemptor, supplied and preemptor.moves), ctx, search)
        if outcome != NOT_FOUND:
            return outcome
    return NOT_FOUND if attempted else attempt_with_all(gpus_for_good, preemptor, ctx, search)


@inner
def reason_to_end(n_chunks: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Return why the whole search ends after so many chunks, a ``Help``; OK: it goes on. Counts the chunk as work.

    TOO_LONG at the budget; what ``refute`` proves.
    """
    search.counts.work[0] += 1
    if search.counts.work[0] > ctx.settings.search_work:
        return TOO_LONG
    return reason_of_proof(preemptor, ctx, search) if n_chunks == patience(ctx.snapshot, search) else OK


@inner
def reason_of_proof(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Return what ``refute`` proves, a ``Help``, or OK. It is asked once a search: it holds for all candidate sets.

    That it was asked is in ``minimal.refuted`` (1,).
    """
    if search.minimal.refuted[0] == 1:
        return OK
    search.minimal.refuted[0] = 1
    return int(refute(preemptor.action, preemptor.job, preemptor.ceiling, ctx, search))


@inner
def attempt_with_all(gpus_for_good: float, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Attempt with all potential victims, on all nodes; return a ``Help``.

    ``gpus_for_good``: the GPUs of those that may leave for good. Reads ``kinds.with_potential`` (4,).
    """
    if search.counts.n_chunks[0] == 0 or not may_suffice(search.kinds.with_potential, search):
        return NOT_FOUND
    supplied = may_supply(gpus_for_good, preemptor, ctx, search)
    for_good = supplied and preemptor.action != CONSOLIDATION
    return attempt_scenarios(0, for_good, with_moves(preemptor, supplied and preemptor.moves), ctx, search)


@inner
def attempt_scenarios(n_hosts: int, for_good: bool, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Attempt scenarios of the chunks so far: first with victims that leave for good, then also with moves.

    On success as few victims as will do are left simulated. Otherwise the state is unchanged. Where validation
    fails because a queue would take the room straight back (4.7, rule 4), one more of its chunks is excluded
    (``minimal.kept``, (T + 1,)) and chunks are chosen again, within the budget of 4.8.

    Parameters
    ----------
    n_hosts : int
        Only the first so many nodes of ``search.hosts`` (L,) may be cleared; 0: all nodes with potential victims.
    for_good : bool
        Whether to attempt with victims that leave for good. ``preemptor.moves``: whether to attempt with moves.

    Returns
    -------
    help : int, a ``Help``
        HELPED, NOT_FOUND, or TOO_LONG: the search budget is used up.
    """
    constrained = is_constrained(preemptor.job, ctx)
    for moves in (False, True):
        if not (preemptor.moves if moves else for_good):
            continue
        again = True
        search.minimal.attempt[0] += 1
        # Bound: ``exclude_last_chunk`` excludes one more chunk before each repetition, so there are at most V of them,
        # or the domain that failed is left out from now on.
        while again and choose_chunks(n_hosts, with_moves(preemptor, moves), ctx, search):
            too_many = some_victim_is_unneeded(ctx, search)
            outcome = simulate_choice(preemptor.action, preemptor.job, preemptor.n_tasks, ctx, search)
            if outcome == VALID:
                if too_many:
                    drop_unneeded_victims(preemptor, ctx, search)
                return HELPED
            again = outcome == TAKEN_BACK or (constrained and refuse_chosen_domain(ctx, search))
            if again and search.counts.work[0] > ctx.settings.search_work:
                return TOO_LONG
    return NOT_FOUND
