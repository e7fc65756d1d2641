"""The search for victims of one job: generators, probes of growing size, and what a solution leaves (semantics 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Generator, Help, Snapshot, Verdict
from kai_sched.solver.eviction.bounds import refute
from kai_sched.solver.eviction.failed_scenarios import has_failed_recorded, note_failure
from kai_sched.solver.eviction.potential_victims import accumulate, begin, count_kinds, forget, may_suffice
from kai_sched.solver.eviction.precedence import all_victims_come_back, may_leave
from kai_sched.solver.eviction.recorded import all_have_gone, drop_known, record
from kai_sched.solver.eviction.scenarios import (
    begin_scenario,
    free_gpus,
    hosts,
    multi_node_scenario,
    node_local_scenario,
    rank_nodes,
)
from kai_sched.solver.eviction.simulation import simulate
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.eviction.validate import is_valid
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
THEIR_TURN = int(Help.THEIR_TURN)
SECOND, PATIENCE = 2, 8  # chunks of victims


@inner
def find_original_victims(preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Make room for the tasks of ``search.pending``: HELPED, and the solution is left simulated, or why not."""
    action, p, length = preemptor.action, preemptor.job, preemptor.n_tasks
    settings = ctx.settings
    outcome = NOT_FOUND
    search.counts.refuted[0], search.counts.precedence_known[0] = OK, 0
    search.counts.lacking[0] = action == RECLAIM and lacks_gpus(search.pending[0], ctx.snapshot, ctx.state)
    search.counts.pending[0] = length
    if length > 1:
        count_kinds(length, ctx, search)
        why = refute(action, p, preemptor.ceiling, ctx, search)
        if why != OK:
            return why
        if action == RECLAIM and all_victims_come_back(p, ctx, search):
            return THEIR_TURN
    for place in range(2):
        generator = settings.first_generator if place == 0 else settings.second_generator
        if generator == NONE or outcome != NOT_FOUND:
            break
        outcome = escalate(generator, preemptor, ctx, search)
        if search.counts.refuted[0] != OK:
            outcome = search.counts.refuted[0]
    forget(search)
    drop_known(search)
    return outcome


@inner
def escalate(generator: int, preemptor: Preemptor, ctx: Context, search: Search) -> int:
    """Probe for growing parts of the preemptor until one fails, close in, and at last probe for all of it once more."""
    length = preemptor.n_tasks
    snapshot, state = ctx.snapshot, ctx.state
    forget(search)
    drop_known(search)
    lower, upper, k = 0, NULL, 1
    while k != NULL:
        is_last = upper != NULL and upper - lower == 1
        solved = probe(generator, k, preemptor, ctx, search)
        if is_last:
            return HELPED if solved else NOT_FOUND
        if solved and k == length and all_have_gone(snapshot, state, search) and not has_failed_recorded(k, search):
            return HELPED  # the last probe would begin with just this scenario
        if solved:
            record(snapshot, state, search)
            undo_all(ctx)
            lower = k
            upper = k + 1 if k == length else upper
        else:
            upper = k
        k = next_size(lower, upper, k, length)
    return NOT_FOUND


@inner
def next_size(lower: int, upper: int, k: int, length: int) -> int:
    """How many tasks the next probe is for: ``lower`` were solved, ``upper`` were not (NULL: none failed yet)."""
    if upper == NULL:
        return min(2 * k, length)
    if upper - lower > 1:
        return (lower + upper) // 2
    return length if lower > 0 else NULL


@inner
def lacks_gpus(t: int, snapshot: Snapshot, state: State) -> bool:
    """Whether fewer GPUs are free on all nodes together than task ``t`` asks for."""
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    return bool(free < snapshot.classes.quota[snapshot.tasks.cls[t], GPU])


@inner
def probe(generator: int, k: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether the first ``k`` pending tasks can be placed with the recorded victims and more; left simulated if so."""
    ceiling = preemptor.ceiling
    snapshot, state = ctx.snapshot, ctx.state
    search.counts.local[0] = generator == NODE_LOCAL
    count_kinds(k, ctx, search)
    begin(ceiling, False, ctx, search)
    if search.counts.recorded[0] > 0 and may_suffice(search.kinds.with_potential, search):
        begin_scenario(snapshot, state, search)
        if perform(k, preemptor, ctx, search):
            return True
    free = free_gpus(state, search) if generator != NODE_LOCAL else 0.0
    steps, shortest, n_nodes, exposed = 0, NULL, 0, False
    while accumulate(ceiling, ctx, search):
        steps += 1
        if is_hopeless(steps, preemptor, ctx, search):
            return False
        if search.counts.precedence_known[0] == 1 and search.counts.recorded[0] == 0:
            exposed = exposed or any_exposed(SECOND if steps == SECOND else 1, snapshot, search)
            if not exposed:
                shortest = NULL
                continue
        if not may_suffice(search.kinds.with_potential, search):
            continue
        if generator == NODE_LOCAL:
            if perform_locally(k, preemptor, ctx, search):
                return True
            continue
        total, size = rank_nodes(k, free, snapshot, state, search)
        tried = tried_before(total, n_nodes, state, search) if size == shortest else 0
        shortest, n_nodes = size, search.counts.nodes[0]
        step = 1
        while 0 <= size <= total:
            if size > tried and multi_node_scenario(size, ctx, search) and perform(k, preemptor, ctx, search):
                return True
            if size == total:
                break
            size, step = min(size + step, total), 2 * step
    return False


@inner
def perform_locally(k: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Perform the scenario of each node that hosts the job added last, until one is good."""
    snapshot = ctx.snapshot
    by_itself = False
    for place in range(hosts(search.counts.last_job[0], snapshot, ctx.state, search)):
        if not node_local_scenario(search.hosts[place], ctx, search):
            continue
        if is_by_itself(snapshot, search):
            # the same scenario on each of its nodes
            if by_itself:
                continue
            by_itself = True
        if perform(k, preemptor, ctx, search):
            return True
    return False


@inner
def any_exposed(groups: int, snapshot: Snapshot, search: Search) -> bool:
    """Whether some victim of the last ``groups`` accumulated may stay away for good."""
    for entry in range(search.counts.potential[0] - 1, -1, -1):
        t = search.lists.potential[entry]
        if search.tasks.batch[t] < search.counts.batches[0] - groups:
            break
        if search.queues.cannot_stay_evicted[snapshot.jobs.queue[snapshot.tasks.job[t]]] == 0.0:
            return True
        if search.counts.local[0] == 1 and search.tasks.left_node[t] != 0:
            return True
    return False


@inner
def is_hopeless(steps: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Whether the search ends here, after so many ``steps`` of a probe; REFUTED then says why."""
    action, p = preemptor.action, preemptor.job
    search.counts.work[0] += 1
    if search.counts.work[0] > ctx.settings.most_work:
        search.counts.refuted[0] = TOO_LONG
    elif search.counts.pending[0] == 1:
        # what one task needs is looked at closely only where it is not found at once
        if steps == SECOND and action == RECLAIM and all_victims_come_back(p, ctx, search):
            search.counts.refuted[0] = THEIR_TURN
        elif steps == PATIENCE:
            search.counts.refuted[0] = refute(action, p, preemptor.ceiling, ctx, search)
    return bool(search.counts.refuted[0] != OK)


@inner
def is_by_itself(snapshot: Snapshot, search: Search) -> bool:
    """Whether the scenario has no potential victims but those of the job that was added last."""
    for entry in range(search.counts.recorded[0], search.counts.scenario[0]):
        if snapshot.tasks.job[search.lists.scenario[entry]] != search.counts.last_job[0]:
            return False
    return True


@inner
def tried_before(total: int, n_nodes: int, state: State, search: Search) -> int:
    """How many ranked nodes are those of the last step, in the same order, when there were ``n_nodes`` with victims.

    Shorter prefixes than that were tried in vain. None where the last chunk changed a node that was there before.
    """
    newest = search.counts.batches[0] - 1
    for entry in range(search.counts.potential[0] - 1, -1, -1):
        t = search.lists.potential[entry]
        if search.tasks.batch[t] != newest:
            break
        home = state.task.node[t]
        if home != NULL and search.tasks.batch[search.nodes.first_potential[home] - 1] != newest:
            return 0
    size = 0
    while size < total and search.nodes.rank[size] < n_nodes:
        size += 1
    return size


@inner
def perform(k: int, preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Simulate the scenario and judge it; unless it is good, all is undone."""
    p = preemptor.job
    if search.counts.precedence_known[0] == 1 and search.counts.recorded[0] == 0:
        if not may_leave(p, ctx, search):
            return False
    row = note_failure(k, search)
    if row == NULL:
        return False
    search.counts.work[0] += search.counts.scenario[0] + ctx.snapshot.queues.parent.shape[0]
    if not simulate(p, k, ctx, search):
        return False
    if is_valid(preemptor.action, p, k, ctx, search):
        search.tried[row, 0] = 0
        return True
    undo_all(ctx)
    return False
