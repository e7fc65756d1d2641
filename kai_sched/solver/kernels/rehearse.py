"""One simulation: evict the scenario's victims, then let them and the wish compete for the room (semantics 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    CAST,
    DEAD,
    FEASIBLE,
    HEAPED,
    HOME,
    N_CAST,
    N_PLACED,
    N_SCENE,
    PLACED,
    RESTRICTED,
    SCENE,
    SCENE_CLOCK,
    SCENE_MARK,
    SCENE_NODE,
    SKIP,
    STAGE,
    STAGE_WAITING,
    TIMES,
    WORK,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node, undo_all, undo_to
from kai_sched.solver.kernels.evict import evict, lay
from kai_sched.solver.kernels.gang import BELOW_MINIMUM, next_chunk, stage_of
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.leaf import peek, push_heap, rewind, skip_run
from kai_sched.solver.kernels.lineup import descend, line_up, take
from kai_sched.solver.kernels.place import count_bonds
from kai_sched.solver.kernels.score import score_nodes
from kai_sched.solver.state import ACTIVE, STATUS, Finder, Log, Scratch, State

OK = int(Verdict.OK)
NOT_OFFERED = int(Verdict.NO_ROOM)
IS_EVICTED = int(Status.EVICTED)
EVERYBODY = 2**62  # a ceiling that no priority reaches


@inner
def rehearse(
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
    """Whether the first ``k`` tasks of the wish of job ``p`` find room; if so, all that was simulated stays done."""
    count, jobs = prey.counts, snapshot.jobs
    if count[N_SCENE] == 0:
        return False
    log.size[:] = 0
    count[N_PLACED] = 0
    call_cast(p, k, settings, snapshot, state, log, finder, scratch, waiting, prey)
    n_left = count[N_CAST]
    found = False
    while n_left > 0:
        q, turned = descend(False, snapshot.queues, waiting, state.book)
        if q == NULL:
            break
        count[WORK] += 1
        j, listed = peek(q, EVERYBODY, False, settings, jobs.priority, waiting, count[SCENE_CLOCK])
        if listed and not turned:
            # it only competes, and so do those behind it
            skip_run(q, False, settings, jobs.priority, waiting, count[SCENE_CLOCK])
        take(q, EVERYBODY, False, settings, snapshot.queues, jobs.priority, waiting, state.book, count[SCENE_CLOCK])
        if listed:
            continue
        n_left -= 1
        if j != p:
            try_victim(j, settings, snapshot, state, log, finder, scratch, prey)
            continue
        for entry in range(k):
            scratch.chunk[entry] = prey.wish[entry]
        found = try_chunk(p, k, settings, snapshot, state, log, finder, scratch, prey)
        if not found:
            break
    dismiss_cast(waiting, prey)
    if not found:
        undo_all(state, log, finder)
    return found


@inner
def call_cast(
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
) -> None:
    """Evict the victims, and line up who competes: the jobs of the victims, the wish, and all who wait."""
    count, jobs, sets, queues = prey.counts, snapshot.jobs, snapshot.sets, snapshot.queues
    prices, cls = snapshot.classes.quota, snapshot.tasks.cls
    clock = count[SCENE_CLOCK]
    count[N_CAST] = 0
    for q in range(queues.parent.shape[0]):
        waiting.slot[q, HEAPED] = 0
    for entry in range(count[N_SCENE]):
        t = prey.lists[SCENE, entry]
        evict(snapshot.tasks.job[t], t, prey.task[t, TIMES], snapshot, state, log, finder, prey)
    for entry in range(count[N_SCENE]):
        j = snapshot.tasks.job[prey.lists[SCENE, entry]]
        if prey.job[j, SCENE_MARK] != clock:
            continue
        prey.job[j, SCENE_MARK] = -clock
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        length = next_chunk(first, end, sets, state, log, scratch)
        join_cast(j, stage_of(first, end, sets, state.sets), clock, waiting, prey)
        for r in range(3):
            waiting.held[j, r] = 0.0
            for place in range(length):
                waiting.held[j, r] += prices[cls[scratch.chunk[place]], r]
        push_heap(jobs.queue[j], j, False, settings, jobs.priority, waiting)
    join_cast(p, wished_stage(p, k, snapshot, state, prey), clock, waiting, prey)
    for r in range(3):
        waiting.held[p, r] = 0.0
        for entry in range(k):
            waiting.held[p, r] += prices[cls[prey.wish[entry]], r]
    push_heap(jobs.queue[p], p, False, settings, jobs.priority, waiting)
    for q in range(queues.parent.shape[0]):
        rewind(q, waiting)
    line_up(EVERYBODY, False, settings, queues, jobs.priority, waiting, state.book, clock)


@inner
def join_cast(j: int, stage: int, clock: int, waiting: Lineup, prey: Prey) -> None:
    """Note that a job takes part as it stands now, not as it is listed."""
    prey.lists[CAST, prey.counts[N_CAST]] = j
    prey.counts[N_CAST] += 1
    waiting.job[j, STAGE] = stage
    if waiting.job[j, SKIP] != DEAD:
        waiting.job[j, SKIP] = clock


@inner
def dismiss_cast(waiting: Lineup, prey: Prey) -> None:
    """Let the jobs that took part stand again as they are listed."""
    for entry in range(prey.counts[N_CAST]):
        j = prey.lists[CAST, entry]
        waiting.job[j, STAGE] = prey.job[j, STAGE_WAITING]
        for r in range(3):
            waiting.held[j, r] = prey.ask[j, r]


@inner
def wished_stage(p: int, k: int, snapshot: Snapshot, state: State, prey: Prey) -> int:
    """The stage of job ``p`` with its minimums lowered to the pods that it has or wishes for (4.5)."""
    sets = snapshot.sets
    stage = stage_of(snapshot.jobs.set_ptr[p], snapshot.jobs.set_ptr[p + 1], sets, state.sets)
    for entry in range(k):
        s = snapshot.tasks.set[prey.wish[entry]]
        if state.sets[s, ACTIVE] < sets.minimum[s]:
            return BELOW_MINIMUM
    return stage


@inner
def try_victim(
    j: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> None:
    """Place one chunk of a victim's job again, if it can be."""
    jobs = snapshot.jobs
    if jobs.refused[j] != OK:
        return
    length = next_chunk(jobs.set_ptr[j], jobs.set_ptr[j + 1], snapshot.sets, state, log, scratch)
    if length > 0:
        try_chunk(j, length, settings, snapshot, state, log, finder, scratch, prey)


@inner
def try_chunk(
    j: int,
    length: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> bool:
    """Place the ``length`` tasks in ``scratch.chunk`` if the gates let them and each finds a node; else none."""
    tasks = snapshot.tasks
    if not within_limits(j, length, snapshot, state, scratch):
        return False
    floats, integers = log.size[0], log.size[1]
    placed = prey.counts[N_PLACED]
    for entry in range(length):
        t = scratch.chunk[entry]
        n = NULL
        if finder.refused[tasks.cls[t]] == OK:
            apart = finder.dynamic[tasks.cls[t]] == 1 and state.task[t, STATUS] == IS_EVICTED
            if apart:
                count_at_home(t, -1, snapshot, state, log, prey)
            n = seek(t, settings, snapshot, state, finder, prey)
            if apart:
                count_at_home(t, 1, snapshot, state, log, prey)
        if n == NULL:
            undo_to(floats, integers, state, log, finder)
            prey.counts[N_PLACED] = placed
            return False
        lay(j, t, n, snapshot, state, log, finder, prey)
        prey.lists[PLACED, prey.counts[N_PLACED]] = t
        prey.counts[N_PLACED] += 1
    return True


@inner
def within_limits(j: int, length: int, snapshot: Snapshot, state: State, scratch: Scratch) -> bool:
    """Whether the queues of job ``j`` may hold the ``length`` tasks of ``scratch.chunk``, too."""
    for r in range(3):
        scratch.need[r] = 0.0
        for entry in range(length):
            scratch.need[r] += snapshot.classes.quota[snapshot.tasks.cls[scratch.chunk[entry]], r]
    jobs = snapshot.jobs
    verdict, _, _ = pass_gates(
        jobs.queue[j], scratch.need, jobs.preemptible[j] == 0, snapshot.queues.parent, state.book
    )
    return bool(verdict == OK)


@inner
def count_at_home(t: int, sign: int, snapshot: Snapshot, state: State, log: Log, prey: Prey) -> None:
    """Leave an evicted task out of what it may conflict with, or (``sign`` 1) let it be there for all others again.

    It is where it was evicted, and, if it had only been promised that place, still where it runs.
    """
    domain, bonds, n_ports = snapshot.terms.domain, snapshot.bonds, state.ports.shape[1]
    c, home, start = snapshot.tasks.cls[t], prey.task[t, HOME], snapshot.tasks.node[t]
    if home != NULL:
        count_bonds(c, home, sign, domain, bonds, n_ports, state.integers, state.offset, log)
    if start != NULL and start != home:
        count_bonds(c, start, sign, domain, bonds, n_ports, state.integers, state.offset, log)


@inner
def seek(t: int, settings: Settings, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> int:
    """The best feasible node for a task.

    Nodes without idle or releasing GPUs are not feasible where the wish is all for GPUs, save those of victims; a pod
    with GPUs fits none of them anyway.
    """
    c = snapshot.tasks.cls[t]
    if prey.counts[RESTRICTED] == 0 or snapshot.classes.cpu_only[c] == 0:
        return best_node(t, settings, snapshot, state, finder)
    verdicts = finder.verdicts[snapshot.classes.signature[c]]
    for n in range(verdicts.shape[0]):
        feasible = prey.node[n, FEASIBLE] == 1 or prey.node[n, SCENE_NODE] == prey.counts[SCENE_CLOCK]
        prey.offered[n] = verdicts[n] if feasible else NOT_OFFERED
    return score_nodes(c, snapshot.tasks.nominated[t], settings, snapshot, state, prey.offered)
