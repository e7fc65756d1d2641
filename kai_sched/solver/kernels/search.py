"""The search for victims of one job: generators, probes of growing size, and what a solution leaves (semantics 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Generator, Help, Settings, Snapshot, Verdict
from kai_sched.solver.hunt import (
    FIRST_TASK,
    GROUP,
    KIND_ROOM,
    LACKING,
    LAST_JOB,
    LEFT_NODE,
    LOCAL,
    N_GROUPS,
    N_KNOWN,
    N_NODES,
    N_POTENTIAL,
    N_SCENE,
    POTENTIAL,
    RANK,
    REFUTED,
    SCENE,
    SHIELDED,
    WEIGHED,
    WISHED,
    WORK,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.accumulate import accumulate, begin, count_kinds, forget, may_suffice
from kai_sched.solver.kernels.attempt import undo_all
from kai_sched.solver.kernels.bounds import refute
from kai_sched.solver.kernels.failures import has_failed_recorded, note_failure
from kai_sched.solver.kernels.fairness import is_valid
from kai_sched.solver.kernels.known import all_have_gone, drop_known, record
from kai_sched.solver.kernels.precedence import may_leave, weigh_up
from kai_sched.solver.kernels.rehearse import rehearse
from kai_sched.solver.kernels.scene import free_gpus, hosts, local_scene, open_scene, rank_nodes, spread_scene
from kai_sched.solver.state import NODE, Finder, Log, Scratch, State

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
def search(
    action: int,
    p: int,
    length: int,
    ceiling: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> int:
    """Make room for the ``length`` tasks of ``prey.wish``: HELPED, and the solution is left simulated, or why not."""
    outcome = NOT_FOUND
    prey.counts[REFUTED], prey.counts[WEIGHED] = OK, 0
    prey.counts[LACKING] = action == RECLAIM and lacks_gpus(prey.wish[0], snapshot, state)
    prey.counts[WISHED] = length
    if length > 1:
        count_kinds(length, settings, snapshot, state, finder, prey)
        why = refute(action, p, ceiling, snapshot, state, finder, scratch, victims, prey)
        if why != OK:
            return why
        if action == RECLAIM and weigh_up(p, settings, snapshot, state, finder, waiting, victims, prey):
            return THEIR_TURN
    for place in range(2):
        generator = settings.first_generator if place == 0 else settings.second_generator
        if generator == NONE or outcome != NOT_FOUND:
            break
        outcome = escalate(
            generator,
            action,
            p,
            length,
            ceiling,
            settings,
            snapshot,
            state,
            log,
            finder,
            scratch,
            waiting,
            victims,
            prey,
        )
        if prey.counts[REFUTED] != OK:
            outcome = prey.counts[REFUTED]
    forget(victims, prey)
    drop_known(prey)
    return outcome


@inner
def escalate(
    generator: int,
    action: int,
    p: int,
    length: int,
    ceiling: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> int:
    """Probe for growing parts of the wish until one fails, close in, and at last probe for all of it once more."""
    forget(victims, prey)
    drop_known(prey)
    lower, upper, k = 0, NULL, 1
    while k != NULL:
        is_last = upper != NULL and upper - lower == 1
        solved = probe(
            generator,
            action,
            p,
            k,
            ceiling,
            settings,
            snapshot,
            state,
            log,
            finder,
            scratch,
            waiting,
            victims,
            prey,
        )
        if is_last:
            return HELPED if solved else NOT_FOUND
        if solved and k == length and all_have_gone(snapshot, state, prey) and not has_failed_recorded(k, prey):
            return HELPED  # the last probe would begin with just this scenario
        if solved:
            record(snapshot, state, victims, prey)
            undo_all(state, log, finder)
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
def probe(
    generator: int,
    action: int,
    p: int,
    k: int,
    ceiling: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> bool:
    """Whether the first ``k`` tasks of the wish can be placed with what was recorded and more; left simulated if so."""
    prey.counts[LOCAL] = generator == NODE_LOCAL
    count_kinds(k, settings, snapshot, state, finder, prey)
    begin(ceiling, False, settings, snapshot, state, finder, victims, prey)
    if prey.counts[N_KNOWN] > 0 and may_suffice(KIND_ROOM, prey):
        open_scene(snapshot, state, prey)
        if perform(action, p, k, settings, snapshot, state, log, finder, scratch, waiting, prey):
            return True
    free = free_gpus(state, prey) if generator != NODE_LOCAL else 0.0
    steps, shortest, n_nodes, exposed = 0, NULL, 0, False
    while accumulate(ceiling, settings, snapshot, state, finder, scratch, victims, prey):
        steps += 1
        if is_hopeless(action, p, steps, ceiling, settings, snapshot, state, finder, scratch, waiting, victims, prey):
            return False
        if prey.counts[WEIGHED] == 1 and prey.counts[N_KNOWN] == 0:
            exposed = exposed or any_exposed(SECOND if steps == SECOND else 1, snapshot, prey)
            if not exposed:
                shortest = NULL
                continue
        if not may_suffice(KIND_ROOM, prey):
            continue
        if generator == NODE_LOCAL:
            if perform_locally(action, p, k, settings, snapshot, state, log, finder, scratch, waiting, prey):
                return True
            continue
        total, size = rank_nodes(k, free, snapshot, state, prey)
        tried = tried_before(total, n_nodes, state, prey) if size == shortest else 0
        shortest, n_nodes = size, prey.counts[N_NODES]
        step = 1
        while 0 <= size <= total:
            if (
                size > tried
                and spread_scene(size, snapshot, state, finder, prey)
                and perform(action, p, k, settings, snapshot, state, log, finder, scratch, waiting, prey)
            ):
                return True
            if size == total:
                break
            size, step = min(size + step, total), 2 * step
    return False


@inner
def perform_locally(
    action: int,
    p: int,
    k: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    prey: Prey,
) -> bool:
    """Perform the scenario of each node that hosts the job added last, until one is good."""
    by_itself = False
    for place in range(hosts(prey.counts[LAST_JOB], snapshot, state, prey)):
        if not local_scene(prey.spot[place], snapshot, state, finder, prey):
            continue
        if is_by_itself(snapshot, prey):
            # the same scenario on each of its nodes
            if by_itself:
                continue
            by_itself = True
        if perform(action, p, k, settings, snapshot, state, log, finder, scratch, waiting, prey):
            return True
    return False


@inner
def any_exposed(groups: int, snapshot: Snapshot, prey: Prey) -> bool:
    """Whether some victim of the last ``groups`` accumulated may stay away for good."""
    for entry in range(prey.counts[N_POTENTIAL] - 1, -1, -1):
        t = prey.lists[POTENTIAL, entry]
        if prey.task[t, GROUP] < prey.counts[N_GROUPS] - groups:
            break
        if prey.queue[snapshot.jobs.queue[snapshot.tasks.job[t]], SHIELDED] == 0.0:
            return True
        if prey.counts[LOCAL] == 1 and prey.task[t, LEFT_NODE] != 0:
            return True
    return False


@inner
def is_hopeless(
    action: int,
    p: int,
    steps: int,
    ceiling: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> bool:
    """Whether the search ends here, after so many ``steps`` of a probe; REFUTED then says why."""
    prey.counts[WORK] += 1
    if prey.counts[WORK] > settings.most_work:
        prey.counts[REFUTED] = TOO_LONG
    elif prey.counts[WISHED] == 1:
        # what one task needs is looked at closely only where it is not found at once
        if (
            steps == SECOND
            and action == RECLAIM
            and weigh_up(p, settings, snapshot, state, finder, waiting, victims, prey)
        ):
            prey.counts[REFUTED] = THEIR_TURN
        elif steps == PATIENCE:
            prey.counts[REFUTED] = refute(action, p, ceiling, snapshot, state, finder, scratch, victims, prey)
    return bool(prey.counts[REFUTED] != OK)


@inner
def is_by_itself(snapshot: Snapshot, prey: Prey) -> bool:
    """Whether the scenario has no potential victims but those of the job that was added last."""
    for entry in range(prey.counts[N_KNOWN], prey.counts[N_SCENE]):
        if snapshot.tasks.job[prey.lists[SCENE, entry]] != prey.counts[LAST_JOB]:
            return False
    return True


@inner
def tried_before(total: int, n_nodes: int, state: State, prey: Prey) -> int:
    """How many ranked nodes are those of the last step, in the same order, when there were ``n_nodes`` with victims.

    Shorter prefixes than that were tried in vain. None where the last chunk changed a node that was there before.
    """
    newest = prey.counts[N_GROUPS] - 1
    for entry in range(prey.counts[N_POTENTIAL] - 1, -1, -1):
        t = prey.lists[POTENTIAL, entry]
        if prey.task[t, GROUP] != newest:
            break
        home = state.task[t, NODE]
        if home != NULL and prey.task[prey.node[home, FIRST_TASK] - 1, GROUP] != newest:
            return 0
    size = 0
    while size < total and prey.node[size, RANK] < n_nodes:
        size += 1
    return size


@inner
def perform(
    action: int,
    p: int,
    k: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    prey: Prey,
) -> bool:
    """Simulate the scenario and judge it; unless it is good, all is undone."""
    if prey.counts[WEIGHED] == 1 and prey.counts[N_KNOWN] == 0:
        if not may_leave(p, settings, snapshot, state, waiting, prey):
            return False
    row = note_failure(k, prey)
    if row == NULL:
        return False
    prey.counts[WORK] += prey.counts[N_SCENE] + snapshot.queues.parent.shape[0]
    if not rehearse(p, k, settings, snapshot, state, log, finder, scratch, waiting, prey):
        return False
    if is_valid(action, p, k, settings, snapshot, state, prey):
        prey.tried[row, 0] = 0
        return True
    undo_all(state, log, finder)
    return False
