"""A scenario of the minimal search: the chosen chunks leave, the wish gets its places, and who can come back does."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Bond, Settings, Snapshot, TermKind, Verdict
from kai_sched.solver.hunt import (
    CAST,
    CHOSEN,
    CHUNK_START,
    HOME,
    N_CAST,
    N_CHOSEN,
    N_GROUPS,
    N_PLACED,
    N_POTENTIAL,
    N_SCENE,
    PLACED,
    POTENTIAL,
    RETAKEN,
    SCENE,
    SCENE_CLOCK,
    SCENE_MARK,
    WORK,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node, put, undo_all, undo_to
from kai_sched.solver.kernels.evict import evict, lay
from kai_sched.solver.kernels.fairness import is_valid
from kai_sched.solver.kernels.fit import fits_later
from kai_sched.solver.kernels.gang import count_returning, next_return, take_off
from kai_sched.solver.kernels.rehearse import count_at_home, within_limits
from kai_sched.solver.kernels.retake import keep_last, who_retakes
from kai_sched.solver.kernels.scene import join_scene
from kai_sched.solver.kernels.score import judge_placed, nobody_matches
from kai_sched.solver.kernels.undo import set_integer
from kai_sched.solver.state import AT_DOMAINS, MATCHED, Finder, Log, Scratch, State

OK = int(Verdict.OK)
RECLAIM = int(Action.RECLAIM)
MATCH = int(Bond.MATCH)
REQUIRED = int(TermKind.REQUIRED)


@inner
def chunk_end(g: int, prey: Prey) -> int:
    """Where chunk ``g`` ends in the list of potential victims."""
    last = g + 1 == prey.counts[N_GROUPS]
    return int(prey.counts[N_POTENTIAL] if last else prey.lists[CHUNK_START, g + 1])


@inner
def simulate(
    action: int,
    p: int,
    k: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> bool:
    """Whether the chosen chunks make room for the ``k`` tasks of the wish and may leave; if so it stays simulated."""
    log.size[:] = 0
    prey.counts[RETAKEN] = 0
    gather(p, snapshot, state, prey)
    prey.counts[WORK] += prey.counts[N_SCENE] + k
    for entry in range(prey.counts[N_SCENE]):
        send_away(prey.lists[SCENE, entry], snapshot, state, log, finder, prey)
    prey.counts[N_PLACED] = 0
    good = place_wish(p, k, settings, snapshot, state, log, finder, scratch, prey)
    if good:
        for moving in (False, True):
            for entry in range(prey.counts[N_CAST] - 2, -1, -1):
                return_job(prey.lists[CAST, entry], moving, settings, snapshot, state, log, finder, scratch, prey)
        good = is_valid(action, p, k, settings, snapshot, state, prey)
        if good and action == RECLAIM:
            q = who_retakes(p, k, snapshot, state, log, finder, scratch, prey)
            good = q == NULL
            if not good:
                prey.counts[RETAKEN] = keep_last(q, snapshot, prey)
    if not good:
        undo_all(state, log, finder)
    return good


@inner
def gather(p: int, snapshot: Snapshot, state: State, prey: Prey) -> None:
    """Make the scenario of the chosen chunks, and list the jobs that take part, ``p`` last."""
    count, lists = prey.counts, prey.lists
    count[SCENE_CLOCK] += 1
    count[N_SCENE] = 0
    count[N_CAST] = 0
    for entry in range(count[N_CHOSEN]):
        g = lists[CHOSEN, entry]
        for at in range(lists[CHUNK_START, g], chunk_end(g, prey)):
            t = lists[POTENTIAL, at]
            j = snapshot.tasks.job[t]
            if prey.job[j, SCENE_MARK] != count[SCENE_CLOCK]:
                lists[CAST, count[N_CAST]] = j
                count[N_CAST] += 1
            join_scene(t, g, 1, snapshot, state, prey)
    lists[CAST, count[N_CAST]] = p
    count[N_CAST] += 1


@inner
def send_away(t: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey) -> None:
    """Evict a task. Nobody can be near it any more, but it is in the way of those that must not be near it."""
    evict(snapshot.tasks.job[t], t, 1, snapshot, state, log, finder, prey)
    count_as_near(t, -1, snapshot, state, log, finder, prey)


@inner
def come_home(t: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey) -> None:
    """Take back that a task was sent away."""
    lay(snapshot.tasks.job[t], t, prey.task[t, HOME], snapshot, state, log, finder, prey)
    count_as_near(t, 1, snapshot, state, log, finder, prey)


@inner
def count_as_near(t: int, sign: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey) -> None:
    """Count a task at its home for those that require to be near it; ``sign`` -1: no longer."""
    c, n = snapshot.tasks.cls[t], prey.task[t, HOME]
    if n == NULL or finder.dynamic[c] == 0:
        return
    bonds, terms = snapshot.bonds, snapshot.terms
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        row = bonds.entry[entry, 1]
        if bonds.entry[entry, 0] != MATCH or terms.kind[row] != REQUIRED or terms.domain[row, n] == NULL:
            continue
        at = state.offset[AT_DOMAINS] + 2 * terms.domain[row, n] + MATCHED
        set_integer(log, state.integers, at, state.integers[at] + sign * bonds.entry[entry, 2])


@inner
def place_wish(
    p: int,
    k: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> bool:
    """Give the first ``k`` tasks of the wish of job ``p`` places: those chosen, where they are free, else others.

    False where one finds none, and some may have one.
    """
    for entry in range(k):
        scratch.chunk[entry] = prey.wish[entry]
    if not within_limits(p, k, snapshot, state, scratch):
        return False
    for entry in range(k):
        t = int(prey.wish[entry])
        n = int(prey.place[entry])
        if not takes(n, snapshot.tasks.cls[t], snapshot, state, finder):
            n = best_node(t, settings, snapshot, state, finder)
        if n == NULL:
            return False
        give_place(p, t, n, snapshot, state, log, finder, prey)
    return True


@inner
def takes(n: int, c: int, snapshot: Snapshot, state: State, finder: Finder) -> bool:
    """Whether node ``n`` takes a pod of class ``c``, now or later."""
    classes = snapshot.classes
    if finder.verdicts[classes.signature[c], n] != OK or finder.refused[c] != OK:
        return False
    if not fits_later(classes.request[c], state.idle[n], state.releasing[n]):
        return False
    return finder.dynamic[c] == 0 or may_stand(c, n, snapshot, state)


@inner
def give_place(j: int, t: int, n: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey) -> None:
    """Put a task on node ``n``, where it waits."""
    put(j, t, n, True, snapshot, state, log, finder)
    prey.lists[PLACED, prey.counts[N_PLACED]] = t
    prey.counts[N_PLACED] += 1


@inner
def return_job(
    j: int,
    moving: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> None:
    """Let what job ``j`` has lost come back, chunk by chunk: to where it was, or, ``moving``, elsewhere, too.

    A chunk for one of which there is no room is made up of others then. What waited before gets nothing: that others
    leave is not for it.
    """
    first, end, task_ptr = snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1], snapshot.sets.task_ptr
    count_returning(first, end, snapshot.sets, state, scratch)
    give_up_those_without_room(j, moving, settings, snapshot, state, finder, scratch, prey)
    while True:
        length = next_return(first, end, snapshot.sets, state, log, scratch)
        if length == 0:
            return
        t = return_chunk(j, length, moving, settings, snapshot, state, log, finder, scratch, prey)
        if t == NULL:
            for entry in range(length):
                take_off(scratch.chunk[entry], first, snapshot.tasks.set[scratch.chunk[entry]], task_ptr, scratch)
            continue
        take_off(t, first, snapshot.tasks.set[t], task_ptr, scratch)
        if moving and t == scratch.chunk[0] and lacks_room(t, moving, settings, snapshot, state, finder, prey):
            give_up_those_without_room(j, moving, settings, snapshot, state, finder, scratch, prey)


@inner
def give_up_those_without_room(
    j: int,
    moving: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> None:
    """Ask no more for those of job ``j`` that find no room now: while others return there will not be more.

    Else each of them would be tried by itself. Most are of the same class as the one before.
    """
    sets, tasks = snapshot.sets, snapshot.tasks
    first, base, last, nowhere = snapshot.jobs.set_ptr[j], snapshot.jobs.task_ptr[j], NULL, False
    for t in range(base, snapshot.jobs.task_ptr[j + 1]):
        if scratch.away[t - base] == 1:
            continue
        if finder.refused[tasks.cls[t]] == OK and fits_at_home(t, snapshot, state, prey):
            continue
        if tasks.cls[t] != last:
            last = tasks.cls[t]
            nowhere = lacks_room(t, moving, settings, snapshot, state, finder, prey)
        if nowhere:
            take_off(t, first, tasks.set[t], sets.task_ptr, scratch)


@inner
def fits_at_home(t: int, snapshot: Snapshot, state: State, prey: Prey) -> bool:
    """Whether there is room for a task where it ran, as far as inter-pod terms and ports do not matter."""
    request, home = snapshot.classes.request[snapshot.tasks.cls[t]], prey.task[t, HOME]
    return bool(home != NULL and fits_later(request, state.idle[home], state.releasing[home]))


@inner
def lacks_room(
    t: int, moving: bool, settings: Settings, snapshot: Snapshot, state: State, finder: Finder, prey: Prey
) -> bool:
    """Whether an evicted task has no room, nor will have while others return; not sure of one with bonds or ports."""
    c = snapshot.tasks.cls[t]
    if finder.refused[c] != OK:
        return True
    if fits_at_home(t, snapshot, state, prey):
        return False
    if not moving:
        return True
    alone = snapshot.bonds.ptr[c + 1] == snapshot.bonds.ptr[c]
    return bool(alone and best_node(t, settings, snapshot, state, finder) == NULL)


@inner
def return_chunk(
    j: int,
    length: int,
    moving: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> int:
    """Let all of a chunk that was evicted come back; returns a task for which there is no room, then nothing does."""
    if not within_limits(j, length, snapshot, state, scratch):
        return int(scratch.chunk[0])
    floats, integers, placed = log.size[0], log.size[1], prey.counts[N_PLACED]
    for entry in range(length):
        t = int(scratch.chunk[entry])
        n = place_to_return(t, moving, settings, snapshot, state, log, finder, prey)
        if n == NULL:
            undo_to(floats, integers, state, log, finder)
            prey.counts[N_PLACED] = placed
            return t
        if n == prey.task[t, HOME]:
            come_home(t, snapshot, state, log, finder, prey)
        else:
            give_place(j, t, n, snapshot, state, log, finder, prey)
    return NULL


@inner
def place_to_return(
    t: int, moving: bool, settings: Settings, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey
) -> int:
    """Where an evicted task finds room: where it was, else, if it is ``moving``, the best node. NULL: nowhere."""
    c, home = snapshot.tasks.cls[t], prey.task[t, HOME]
    if finder.refused[c] != OK:
        return NULL
    apart = finder.dynamic[c] == 1
    if apart:
        count_at_home(t, -1, snapshot, state, log, prey)
        count_as_near(t, 1, snapshot, state, log, finder, prey)
    n = NULL
    if fits_at_home(t, snapshot, state, prey):
        if not apart or may_stand(c, home, snapshot, state):
            n = int(home)
    if n == NULL and moving:
        n = best_node(t, settings, snapshot, state, finder)
    if apart:
        count_as_near(t, -1, snapshot, state, log, finder, prey)
        count_at_home(t, 1, snapshot, state, log, prey)
    return n


@inner
def may_stand(c: int, n: int, snapshot: Snapshot, state: State) -> bool:
    """Whether inter-pod terms and host ports let a pod of class ``c`` be on node ``n``."""
    terms, bonds = snapshot.terms, snapshot.bonds
    first = nobody_matches(c, terms, bonds, state.domains)
    return bool(judge_placed(c, n, first, terms, bonds, snapshot.ports, state.domains, state.ports) == OK)
