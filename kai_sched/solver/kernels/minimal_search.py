"""The search for as few victims as possible: those that are carried out cannot be fewer, each being needed.

Victims come one chunk after the other, the least deserving first (``accumulate``), until there could be room for all of
the wish. Then chunks are chosen that make the room (``minimal_choice``), the scenario is simulated and judged
(``minimal_scenario``), and each chunk in turn, the most deserving first, is left out if the rest will do. Where no
choice is good the stream goes on. A wish of several tasks is not tried after each chunk, but after 1, 2, 4, ... more.

Victims of a reclaim are looked for three times at the most (``first_circle`` to ``last_circle``): among those who may
leave by themselves, among those who may leave with others, and among all, who may move.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Floats, Help, Settings, Snapshot, Verdict
from kai_sched.solver.hunt import (
    CHOSEN,
    CHUNK_START,
    KIND_CLASS,
    KIND_LEFT,
    KIND_NOW,
    KIND_ROOM,
    LAST_JOB,
    LOCAL,
    N_CHOSEN,
    N_GROUPS,
    N_KINDS,
    N_TOUCHED_NODES,
    POTENTIAL,
    REFUTED,
    RETAKEN,
    TOUCH_ORDER,
    WEIGHED,
    WISHED,
    WORK,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.accumulate import accumulate, begin, count_kinds, forget, may_suffice, slots
from kai_sched.solver.kernels.attempt import undo_all
from kai_sched.solver.kernels.bounds import refute
from kai_sched.solver.kernels.fairness import wished_amount
from kai_sched.solver.kernels.minimal_bounds import (
    EVERYBODY,
    first_circle,
    free_gpus,
    lacks_relief,
    last_chunk,
    last_circle,
    makes_up,
    note_who_gives,
    spares_all,
    spots_suffice,
)
from kai_sched.solver.kernels.minimal_choice import choose
from kai_sched.solver.kernels.minimal_scenario import chunk_end, simulate
from kai_sched.solver.kernels.minimal_taking import empties, first_of
from kai_sched.solver.kernels.scene import hosts
from kai_sched.solver.state import NODE, Finder, Log, Scratch, State

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
HELPED = int(Help.HELPED)
NOT_FOUND = int(Help.NOT_FOUND)
SHARES = int(Help.SHARES)
TOO_LONG = int(Help.TOO_LONG)
PATIENCE = 64  # as many chunks, or one for so many pods, cost about what it costs to ask whether any victims could help


@inner
def find_few(
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
    victims: Lineup,
    prey: Prey,
) -> int:
    """Make room for the ``length`` tasks of ``prey.wish``: HELPED, and the solution is left simulated, or why not."""
    count = prey.counts
    count[REFUTED], count[WEIGHED], count[LOCAL], count[WISHED] = OK, 0, 0, length
    for entry in range(length):
        prey.asked[entry] = prey.wish[entry]
    count_kinds(length, settings, snapshot, state, finder, prey)
    need = wished_amount(length, snapshot, prey)
    lacking = need[GPU] - free_gpus(state)
    if action == RECLAIM and spares_all(p, need, lacking, settings, snapshot, state, prey):
        return SHARES
    outcome = NOT_FOUND
    circle = first_circle(action, length, lacking)
    while circle <= last_circle(action, need, lacking, settings) and outcome == NOT_FOUND:
        note_who_gives(action, p, circle, need, settings, snapshot, state, prey)
        begin(ceiling, circle != EVERYBODY, settings, snapshot, state, finder, victims, prey)
        moving = action == CONSOLIDATION
        moving = moving or (action == RECLAIM and circle == EVERYBODY and settings.consolidating_reclaim == 1)
        outcome = try_as_they_come(
            action,
            p,
            length,
            ceiling,
            need,
            lacking,
            moving,
            settings,
            snapshot,
            state,
            log,
            finder,
            scratch,
            victims,
            prey,
        )
        circle += 1
    if outcome == NOT_FOUND and count[N_GROUPS] < patience(snapshot):
        why = refute(action, p, ceiling, snapshot, state, finder, scratch, victims, prey)
        outcome = why if why != OK else NOT_FOUND
    if outcome != HELPED:
        log.size[:] = 0
    forget(victims, prey)
    return outcome


@inner
def patience(snapshot: Snapshot) -> int:
    """After how many chunks it is asked whether any victims could help."""
    return int(max(PATIENCE, snapshot.tasks.job.shape[0] // PATIENCE))


@inner
def try_as_they_come(
    action: int,
    p: int,
    length: int,
    ceiling: int,
    need: tuple[float, float, float],
    lacking: float,
    moving: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    victims: Lineup,
    prey: Prey,
) -> int:
    """Try to make room with the victims that came so far, again and again; returns a Help.

    ``need``: what the wish asks for; ``lacking``: the GPUs of it that are not free.
    """
    count = prey.counts
    count[N_CHOSEN] = 0
    gone, gone_alone = 0.0, 0.0
    steps, due, pause, tried = 0, 0, 1, False
    at_once = length == 1 and action != CONSOLIDATION
    in_place = at_once and prey.kind[0, KIND_NOW] == 0 and not lacks_relief(p, need, snapshot, state, scratch)
    while accumulate(ceiling, settings, snapshot, state, finder, scratch, victims, prey):
        steps, tried = steps + 1, False
        count[WORK] += 1
        if count[WORK] > settings.most_work:
            return TOO_LONG
        if steps == patience(snapshot):
            why = refute(action, p, ceiling, snapshot, state, finder, scratch, victims, prey)
            if why != OK:
                return why
        amount, gives, alone = last_chunk(action, p, need, settings, snapshot, state, prey)
        gone += amount if gives else 0.0
        gone_alone += amount if alone else 0.0
        if action == CONSOLIDATION or not may_suffice(KIND_ROOM, prey) or steps < due:
            continue
        n_spots = hosts(count[LAST_JOB], snapshot, state, prey) if at_once else 0
        if at_once:
            useful = not in_place or spots_suffice(n_spots, snapshot, state, prey)
            leaves, moves = useful and alone, useful and moving and gone_alone >= lacking
        else:
            tried = True
            due, pause = steps + pause, 2 * pause
            leaves = makes_up(action, p, need, lacking, gone, settings, snapshot, state, prey)
            moves = leaves and moving
        if attempt_few(
            action, p, length, n_spots, leaves, moves, settings, snapshot, state, log, finder, scratch, prey
        ):
            return HELPED
    if steps > 0 and not tried and may_suffice(KIND_ROOM, prey):
        moves = makes_up(action, p, need, lacking, gone, settings, snapshot, state, prey)
        leaves, moves = moves and action != CONSOLIDATION, moves and moving
        if attempt_few(action, p, length, 0, leaves, moves, settings, snapshot, state, log, finder, scratch, prey):
            return HELPED
    return NOT_FOUND


@inner
def attempt_few(
    action: int,
    p: int,
    k: int,
    n_spots: int,
    leaves: bool,
    moves: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> bool:
    """Whether some of the chunks so far make room for the wish, and may go; if so, as few as will do are simulated.

    Tried are choices of those that leave for good (``leaves``), and of those that move where they may not (``moves``);
    where the queue of one of them would take the room straight back, others without that one.
    """
    for moving in (False, True):
        if not (moves if moving else leaves):
            continue
        again = True
        while again and choose(action, p, k, n_spots, moving, settings, snapshot, state, log, finder, scratch, prey):
            too_many = some_may_stay(snapshot, state, finder, prey)
            if simulate(action, p, k, settings, snapshot, state, log, finder, scratch, prey):
                if too_many:
                    spare(action, p, k, settings, snapshot, state, log, finder, scratch, prey)
                return True
            again = prey.counts[RETAKEN] == 1
    return False


@inner
def some_may_stay(snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> bool:
    """Whether there could be room for the wish without one of the chosen chunks; nothing is simulated."""
    sum_up(snapshot, state, finder, prey)
    for entry in range(prey.counts[N_CHOSEN]):
        g = int(prey.lists[CHOSEN, entry])
        if prey.counts[N_CHOSEN] > 1 and is_held(g, snapshot, prey):
            continue
        close_room(g, 1.0, snapshot, state, finder, prey)
        if may_suffice(KIND_LEFT, prey):
            return True
        close_room(g, -1.0, snapshot, state, finder, prey)
    return False


@inner
def spare(
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
) -> None:
    """Leave out each chunk without which the simulated scenario is still good, and simulate what remains."""
    lists, count = prey.lists, prey.counts
    anybody = True
    undo_all(state, log, finder)
    while anybody:
        anybody = False
        sum_up(snapshot, state, finder, prey)
        at = next_chosen(count[N_GROUPS], prey)
        while at != NULL:
            g = int(lists[CHOSEN, at])
            if is_held(g, snapshot, prey):
                at = next_chosen(g, prey)
                continue
            close_room(g, 1.0, snapshot, state, finder, prey)
            if may_suffice(KIND_LEFT, prey):
                leave_out(at, prey)
                if simulate(action, p, k, settings, snapshot, state, log, finder, scratch, prey):
                    undo_all(state, log, finder)
                    anybody = True
                else:
                    put_in(at, g, prey)
                    close_room(g, -1.0, snapshot, state, finder, prey)
            else:
                close_room(g, -1.0, snapshot, state, finder, prey)
            at = next_chosen(g, prey)
    simulate(action, p, k, settings, snapshot, state, log, finder, scratch, prey)


@inner
def is_held(h: int, snapshot: Snapshot, prey: Prey) -> bool:
    """Whether chunk ``h`` has to go with a later one of its job, which would leave a part of a gang behind."""
    j = snapshot.tasks.job[first_of(h, prey)]
    for entry in range(prey.counts[N_CHOSEN]):
        g = int(prey.lists[CHOSEN, entry])
        if g > h and snapshot.tasks.job[first_of(g, prey)] == j and empties(g, h, snapshot, prey):
            return True
    return False


@inner
def sum_up(snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> None:
    """Count for how many tasks of each class of the wish there is room with all chosen chunks gone, at the most."""
    for place in range(prey.counts[N_TOUCHED_NODES]):
        n = prey.node[place, TOUCH_ORDER]
        for r in range(prey.freed.shape[1]):
            prey.freed[n, r] = 0.0
    for kind in range(prey.counts[N_KINDS]):
        prey.kind[kind, KIND_LEFT] = prey.kind[kind, KIND_NOW]
    for entry in range(prey.counts[N_CHOSEN]):
        close_room(int(prey.lists[CHOSEN, entry]), -1.0, snapshot, state, finder, prey)


@inner
def close_room(g: int, sign: float, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> None:
    """Take what chunk ``g`` leaves off the room (``sum_up``); ``sign`` -1: add it."""
    classes, lists = snapshot.classes, prey.lists
    for at in range(lists[CHUNK_START, g], chunk_end(g, prey)):
        t = lists[POTENTIAL, at]
        n = state.task[t, NODE]
        if n == NULL:
            continue
        freed = prey.freed[n]
        for kind in range(prey.counts[N_KINDS]):
            prey.kind[kind, KIND_LEFT] -= slots_of(kind, n, freed, snapshot, state, finder, prey)
        for r in range(freed.shape[0]):
            if snapshot.nodes.allocatable[n, r] > 0.0:
                freed[r] -= sign * classes.request[snapshot.tasks.cls[t], r]
        for kind in range(prey.counts[N_KINDS]):
            prey.kind[kind, KIND_LEFT] += slots_of(kind, n, freed, snapshot, state, finder, prey)


@inner
def slots_of(kind: int, n: int, freed: Floats, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> int:
    """How many tasks of a class of the wish node ``n`` takes once what is ``freed`` (R,) is free."""
    classes = snapshot.classes
    c = prey.kind[kind, KIND_CLASS]
    if finder.verdicts[classes.signature[c], n] != OK:
        return 0
    return slots(classes.request[c], state.idle[n], state.releasing[n], freed)


@inner
def next_chosen(before: int, prey: Prey) -> int:
    """The place in the list of the most deserving chosen chunk that is less so than chunk ``before``; NULL: none."""
    found = NULL
    for at in range(prey.counts[N_CHOSEN]):
        g = prey.lists[CHOSEN, at]
        if g < before and (found == NULL or g > prey.lists[CHOSEN, found]):
            found = at
    return found


@inner
def leave_out(at: int, prey: Prey) -> None:
    """Take the chosen chunk at a place out of the list."""
    chosen = prey.lists[CHOSEN]
    prey.counts[N_CHOSEN] -= 1
    for place in range(at, prey.counts[N_CHOSEN]):
        chosen[place] = chosen[place + 1]


@inner
def put_in(at: int, g: int, prey: Prey) -> None:
    """Put chunk ``g`` back at its place."""
    chosen = prey.lists[CHOSEN]
    for place in range(prey.counts[N_CHOSEN], at, -1):
        chosen[place] = chosen[place - 1]
    chosen[at] = g
    prey.counts[N_CHOSEN] += 1
