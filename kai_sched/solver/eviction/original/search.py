"""The search of v0.17.0: for how many tasks it probes, which generators it runs, and when it gives up (semantics 4.5,
``victims: original``).

For each generator the search probes for growing parts of the pending tasks: 1, 2, 4, ... and then by bisection. A
probe accumulates victims chunk by chunk; after each chunk the generator makes scenarios (``scenarios``), which
are simulated whole (``simulation``) and validated. The victims of a solved probe are recorded: they are part of
all larger probes. The first valid scenario for all tasks is taken.

Cost: for K pending tasks about 2 log2(K) probes for each generator. In a probe each chunk makes one scenario for each
node of its job (node-local), or about log2(P) for P nodes with victims (multi-node); a scenario costs its victims plus
the queues. Proofs (``bounds``, ``precedence``) and known failures (``original.failed``) skip scenarios that cannot be
solved, and ``settings.search_work`` ends the search (4.8).

Invariant: between two scenarios the state is the state before the search and the undo log is empty; HELPED leaves the
solution simulated, for ``commit.commit_scenario``. L is the number of tasks of the longest job.
"""

from __future__ import annotations

from kai_sched.snapshot.choices import Generator
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Help, Snapshot
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.bounds import refute
from kai_sched.solver.eviction.original.domain_capacity import domains_have_gpus, sum_needs
from kai_sched.solver.eviction.original.failed import has_failed_recorded, note_failure
from kai_sched.solver.eviction.original.precedence import all_victims_come_back, may_leave
from kai_sched.solver.eviction.original.recorded import all_have_gone, drop_known, record_victims
from kai_sched.solver.eviction.original.scenarios import (
    begin_scenario,
    free_gpus_without_recorded,
    lacks_gpus,
    multi_node_scenario,
    node_local_scenario,
    rank_nodes,
)
from kai_sched.solver.eviction.original.simulation import simulate_scenario
from kai_sched.solver.eviction.rules.validate import is_valid
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
from kai_sched.solver.kernels.undo import undo_all
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
NODE_LOCAL = int(Generator.NODE_LOCAL)
NONE = int(Generator.NONE)
RECLAIM = int(Action.RECLAIM)
HELPED = int(Help.HELPED)
NOT_FOUND = int(Help.NOT_FOUND)
TOO_LONG = int(Help.TOO_LONG)
VICTIMS_GO_FIRST = int(Help.VICTIMS_GO_FIRST)
SECOND, PATIENCE = 2, 8  # chunks of victims


@inner
def find_original_victims(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Search for victims that make room for the ``preemptor.n_tasks`` tasks in ``search.pending`` (L,) (semantics 4.5).

    On HELPED the evictions and placements are left simulated in ``ctx.state``, and ``search.lists.scenario``,
    ``placed`` and ``jobs`` (T + 1,) name what takes part. On any other result the state is as before.
    ``search.counts.work`` grows.

    Returns
    -------
    help : int, a ``Help``
        HELPED. NO_VICTIMS, NO_ROOM, SHARES: ``bounds.refute`` proves that no victims help. VICTIMS_GO_FIRST: the
        precedence proof says that all victims would be placed again before the preemptor. TOO_LONG: the budget is used
        up. NOT_FOUND.
    """
    action, p, length = preemptor.action, preemptor.job, preemptor.n_tasks
    settings = ctx.settings
    outcome = NOT_FOUND
    bound_nodes(p, ctx.snapshot, ctx.state, search)
    search.original.precedence_known[0] = 0
    search.original.lacks_gpus[0] = action == RECLAIM and lacks_gpus(search.pending[0], ctx.snapshot, ctx.state)
    search.counts.pending[0] = length
    # For a gang the proofs are asked at once: its search is long. For a single task they are asked after the
    # first chunks (``reason_to_stop``): one that succeeds at once does not pay for them.
    if length > 1:
        count_kinds(length, ctx, search)
        why = refute(action, p, preemptor.ceiling, ctx, search)
        if why != OK:
            return why
        if action == RECLAIM and all_victims_come_back(p, ctx, search):
            return VICTIMS_GO_FIRST
    for place in range(2):
        generator = settings.first_generator if place == 0 else settings.second_generator
        if generator == NONE or outcome != NOT_FOUND:
            break
        outcome = escalate(generator, preemptor, ctx, search)
    forget_accumulation(search)
    drop_known(search)
    return outcome


@inner
def escalate(generator: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Probe for growing parts of the pending tasks with one generator.

    Returns a ``Help``: HELPED, with the solution simulated; NOT_FOUND; or what ended the whole search
    (``probe``). ``lower`` tasks were solved, ``upper`` were not. After a success the simulation is undone and only its
    victims stay recorded (``search.lists.recorded``, (T + 1,)). The probe for all tasks is done once more at the end,
    as in v0.17.0: its result is what is committed.
    """
    length = preemptor.n_tasks
    snapshot, state = ctx.snapshot, ctx.state
    forget_accumulation(search)
    drop_known(search)
    lower, upper, k = 0, NULL, 1
    while k != NULL:  # Bound: doubled up to ``length``, then the interval is halved, then one probe.
        is_last = upper != NULL and upper - lower == 1
        outcome = probe(generator, k, preemptor, ctx, search)
        solved = outcome == HELPED
        if is_last or (not solved and outcome != NOT_FOUND):
            return outcome
        # The last probe would begin with the recorded victims alone. If all victims of this scenario would be
        # recorded, that is this very scenario, so it is solved already. Unless it is known as failed with its
        # victims recorded: the last probe would then skip it and go on. Or unless domains are counted, as the victims
        # that were left running count with the others.
        is_same = search.original.n_needs[0] == 0 and all_have_gone(snapshot, state, search)
        if solved and k == length and is_same and not has_failed_recorded(k, search):
            return HELPED  # the last probe would begin with just this scenario
        if solved:
            record_victims(snapshot, state, search)
            undo_all(ctx)
            lower = k
            upper = k + 1 if k == length else upper
        else:
            upper = k
        k = next_size(lower, upper, k, length)
    return NOT_FOUND


@inner
def next_size(lower: int, upper: int, k: int, length: int) -> int:
    """Return for how many tasks the next probe is; NULL: the search ends.

    ``lower`` tasks were solved and ``upper`` were not (NULL: none failed yet). Doubles ``k`` up to ``length``,
    then halves the interval. If it is closed and something was solved, all ``length`` tasks are probed once more.
    """
    if upper == NULL:
        return min(2 * k, length)
    if upper - lower > 1:
        return (lower + upper) // 2
    return length if lower > 0 else NULL


@inner
def probe(generator: int, k: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Search for a valid scenario for the first ``k`` tasks of ``search.pending`` (L,) with one ``generator``.

    The recorded victims are part of each scenario. Returns a ``Help``: HELPED, with the scenario simulated; or,
    with the state as before, NOT_FOUND, or the reason for which the whole search ends (``reason_to_stop``).

    Parameters
    ----------
    generator : int, a ``Generator``
        NODE_LOCAL or MULTI_NODE: how scenarios are made of the potential victims.
    k : int
        How many of the pending tasks are to be placed, with the minimums of the job lowered to match.
    """
    ceiling = preemptor.ceiling
    snapshot, state = ctx.snapshot, ctx.state
    search.original.node_local[0] = generator == NODE_LOCAL
    count_kinds(k, ctx, search)
    sum_needs(preemptor.job, k, snapshot, state, search)
    begin_accumulation(ceiling, False, ctx, search)
    if search.counts.recorded[0] > 0 and is_worth_simulating(preemptor, ctx, search):
        begin_scenario(snapshot, state, search)
        if simulate_new_scenario(k, preemptor, ctx, search):
            return HELPED
    free = free_gpus_without_recorded(state, search) if generator != NODE_LOCAL else 0.0
    steps, shortest, n_nodes, exposed = 0, NULL, 0, False
    # After each chunk only scenarios that contain it are new. They are skipped where a bound shows that none can
    # be valid: no victim so far may stay away (``any_exposed``), or there is no room with all potential victims
    # gone (``may_suffice``). Multi-node scenarios grow by 0, 1, 3, 7, ... nodes over the fewest that could have
    # enough GPUs; the prefixes that the last chunk does not change were simulated before (``tried_before``).
    while accumulate(ceiling, ctx, search):  # Bound: each turn takes one chunk, and ``reason_to_stop`` asks the budget.
        steps += 1
        why = reason_to_stop(steps, preemptor, ctx, search)
        if why != OK:
            return why
        if search.original.precedence_known[0] == 1 and search.counts.recorded[0] == 0:
            exposed = exposed or any_exposed(SECOND if steps == SECOND else 1, snapshot, search)
            if not exposed:
                shortest = NULL
                continue
        if not is_worth_simulating(preemptor, ctx, search):
            shortest = NULL
            continue
        if generator == NODE_LOCAL:
            if simulate_on_each_node(k, preemptor, ctx, search):
                return HELPED
            continue
        total, size = rank_nodes(k, free, snapshot, state, search)
        # The recorded victims alone, a prefix of no node, may have lacked domains so far.
        at_first = NULL if search.original.n_needs[0] > 0 else 0
        tried = tried_before(total, n_nodes, state, search) if size == shortest else at_first
        shortest, n_nodes = size, search.counts.nodes[0]
        if simulate_prefixes(k, size, total, tried, preemptor, ctx, search):
            return HELPED
    return NOT_FOUND


@inner
def simulate_prefixes(
    k: int, size: int, total: int, tried: int, preemptor: Preemptor, ctx: Context, search: Search
) -> bool:
    """Attempt the scenarios of the first ranked nodes; return whether one is valid, left simulated.

    Parameters
    ----------
    k : int
        How many of the pending tasks are to be placed.
    size, total, tried : int
        The length of the shortest prefix, NULL for none, that of the longest, and up to which they were attempted
        before (``tried_before``).
    """
    step = 1
    while 0 <= size <= total:  # Bound: ``step`` doubles.
        if size > tried and multi_node_scenario(size, ctx, search) and simulate_new_scenario(k, preemptor, ctx, search):
            return True
        if size == total:
            break
        size, step = min(size + step, total), 2 * step
    return False


@inner
def is_worth_simulating(preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Return whether there could be room with all victims so far gone, and domains for sets that require a level."""
    return may_suffice(search.kinds.with_potential, search) and domains_have_gpus(preemptor.job, ctx, search)


@inner
def simulate_on_each_node(k: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Attempt the scenario of each node that hosts the job that came last; return whether one is valid, left simulated.

    Uses ``search.hosts`` (L,). A scenario that has only the pods of this job is the same for each of its nodes
    (``is_by_itself``) and is attempted once.

    Parameters
    ----------
    k : int
        How many of the pending tasks are to be placed.
    """
    snapshot = ctx.snapshot
    by_itself = False
    for place in range(list_nodes_of_job(last_job(snapshot, search), snapshot, ctx.state, search)):
        if not node_local_scenario(search.hosts[place], ctx, search):
            continue
        if is_by_itself(snapshot, search):
            if by_itself:
                continue
            by_itself = True
        if simulate_new_scenario(k, preemptor, ctx, search):
            return True
    return False


@inner
def any_exposed(groups: int, snapshot: Snapshot, search: Search) -> bool:
    """Return whether a victim of the last ``groups`` chunks may stay away for good.

    Bound: a leaf ``cannot_stay_evicted`` (Q,) if the precedence proof holds for all its possible victims. A pod that
    was moved before in this cycle (``tasks.left_node``, (T,)) may return without room in node-local scenarios, so it is
    exposed.
    """
    for entry in range(search.counts.potential[0] - 1, -1, -1):
        t = search.lists.potential[entry]
        if search.tasks.chunk_of[t] < search.counts.n_chunks[0] - groups:
            break
        if search.original.cannot_stay_evicted[snapshot.jobs.queue[snapshot.tasks.job[t]]] == 0.0:
            return True
        if search.original.node_local[0] == 1 and search.tasks.left_node[t] != 0:
            return True
    return False


@inner
def reason_to_stop(steps: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Return why the whole search ends after ``steps`` chunks of a probe, a ``Help``; OK: it goes on.

    TOO_LONG at the budget; for a single task VICTIMS_GO_FIRST after two chunks, or the result of ``bounds.refute``
    after eight. Both proofs hold for the whole search, not only for this probe.
    """
    action, p = preemptor.action, preemptor.job
    search.counts.work[0] += 1
    if search.counts.work[0] > ctx.settings.search_work:
        return TOO_LONG
    if search.counts.pending[0] == 1:
        if steps == SECOND and action == RECLAIM and all_victims_come_back(p, ctx, search):
            return VICTIMS_GO_FIRST
        if steps == PATIENCE:
            return int(refute(action, p, preemptor.ceiling, ctx, search))
    return OK


@inner
def is_by_itself(snapshot: Snapshot, search: Search) -> bool:
    """Return whether the scenario has no potential victims but those of the job that came last.

    Reads ``search.lists.scenario`` (T + 1,) behind the recorded victims.
    """
    j = last_job(snapshot, search)
    for entry in range(search.counts.recorded[0], search.counts.scenario[0]):
        if snapshot.tasks.job[search.lists.scenario[entry]] != j:
            return False
    return True


@inner
def tried_before(total: int, n_nodes: int, state: State, search: Search) -> int:
    """Return how many of the first ranked nodes are the same as after the chunk before.

    Bound: prefixes of at most this length make scenarios that were simulated and failed. A new chunk that only
    touches new nodes leaves the room of the others as it was. These keep their order among themselves, so up to
    the first new node the ranking (``search.original.rank``, (N,)) is the old one, and no pod of the new chunk is on
    these nodes. If the chunk touches a node that had victims before, its room has changed, and the result is 0.
    The caller asks only while the shortest prefix has the same length, so the same lengths were attempted.

    Parameters
    ----------
    total : int
        How many nodes are ranked now.
    n_nodes : int
        How many nodes had potential victims after the chunk before.
    """
    newest = search.counts.n_chunks[0] - 1
    for entry in range(search.counts.potential[0] - 1, -1, -1):
        t = search.lists.potential[entry]
        if search.tasks.chunk_of[t] != newest:
            break
        home = state.task.node[t]
        if home != NULL and search.tasks.chunk_of[search.nodes.first_potential[home] - 1] != newest:
            return 0
    size = 0
    while size < total and search.original.rank[size] < n_nodes:  # Bound: ``size`` grows.
        size += 1
    return size


@inner
def simulate_new_scenario(k: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Simulate and validate the scenario for ``k`` tasks; return whether it is valid. If not, all is undone.

    The scenario is in ``search.lists.scenario`` (T + 1,). Skipped are scenarios that the precedence proof
    excludes (``may_leave``) and those that failed before. The failure is noted first (``search.original.tried``, 65536
    rows) and erased if the scenario is valid. ``search.counts.work`` grows by the victims and the queues.
    """
    p = preemptor.job
    if search.original.precedence_known[0] == 1 and search.counts.recorded[0] == 0:
        if not may_leave(p, ctx, search):
            return False
    row = note_failure(k, search)
    if row == NULL:
        return False
    search.counts.work[0] += search.counts.scenario[0] + ctx.snapshot.queues.parent.shape[0]
    ctx.decisions.simulated[preemptor.action] += 1
    if not simulate_scenario(p, k, ctx, search):
        return False
    if is_valid(preemptor.action, p, k, ctx, search):
        search.original.tried[row, 0] = 0
        return True
    undo_all(ctx)
    return False


@inner
def bound_nodes(p: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Note for the original search whether it is restricted to nodes with GPUs, and which nodes these are (4.5).

    It is restricted if no pod of job ``p`` is CPU-only. Writes ``search.original.restricted`` and then
    ``search.original.feasible`` (N,): 1 where some GPU is idle or releasing. Nodes of victims are added in the
    simulation.
    """
    jobs, tasks = snapshot.jobs, snapshot.tasks
    restricted = 1
    for t in range(jobs.task_ptr[p], jobs.task_ptr[p + 1]):
        if snapshot.classes.cpu_only[tasks.cls[t]] == 1:
            restricted = 0
    search.original.restricted[0] = restricted
    if restricted == 1:
        for n in range(state.idle.shape[0]):
            search.original.feasible[n] = state.idle[n, GPU] > 0.0 or state.releasing[n, GPU] > 0.0
