"""Which chunks of victims make room for a wish: for each task the node that costs least to clear (minimal search).

Victims come in the order of ``accumulate``, the least deserving first. A node costs the last of them that it needs, so
that nobody goes as long as somebody less deserving would do; where all are moved, it costs the number of pods.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Bond, Settings, Snapshot, Verdict
from kai_sched.solver.hunt import (
    BARRED,
    BEST,
    BEST_MARK,
    CHOICE_CLOCK,
    CHOSEN,
    CHUNK_START,
    COST,
    COST_MARK,
    FIRST_TASK,
    GROUP,
    IS_CHOSEN,
    MOST_KINDS,
    N_CHOSEN,
    N_NODES,
    N_PLACED,
    NODE_ORDER,
    ON_NODE,
    PRESENCE,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node, undo_all
from kai_sched.solver.kernels.fairness import may_lose_more, wished_amount
from kai_sched.solver.kernels.fit import fits_later
from kai_sched.solver.kernels.minimal_scenario import chunk_end, give_place, may_stand
from kai_sched.solver.kernels.minimal_taking import (
    BLOCK,
    abandon,
    forget_cost,
    queue_of,
    relieve_limits,
    take_together,
    unbar,
)
from kai_sched.solver.kernels.score import nobody_matches
from kai_sched.solver.state import MATCHED, Finder, Log, Scratch, State

OK = int(Verdict.OK)
NOT_OFFERED = int(Verdict.NO_ROOM)
NEED = int(Bond.NEED)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
CLEARED, NOT_CLEARED, REFUSED = range(3)
NEVER = 2**62  # a node that cannot be cleared


@inner
def choose(
    action: int,
    p: int,
    k: int,
    n_spots: int,
    moves: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> bool:
    """Choose chunks (the list CHOSEN) that make room for the first ``k`` tasks of the wish; False: none do.

    The nodes are noted in ``prey.place``; where one task finds none, those like it choose first the next time. Nodes to
    be cleared are the ``n_spots`` of ``prey.spot`` or, where that is 0, all with potential victims. With
    ``moves`` victims that may not leave for good are given other places.
    """
    for entry in range(k):
        prey.wish[entry] = prey.asked[entry]
    for _ in range(MOST_KINDS):
        failed = choose_in_turn(action, p, k, n_spots, moves, settings, snapshot, state, log, finder, scratch, prey)
        undo_all(state, log, finder)
        if failed == k:
            return True
        if failed == NULL or not bring_forward(failed, k, snapshot, prey):
            break
    return False


@inner
def bring_forward(failed: int, k: int, snapshot: Snapshot, prey: Prey) -> bool:
    """Let the tasks like that at place ``failed`` of the wish, which found no node, choose first; False: they did."""
    wish, cls = prey.wish, snapshot.tasks.cls
    c = cls[wish[failed]]
    if cls[wish[0]] == c:
        return False
    front = 0
    for entry in range(k):
        t = wish[entry]
        if cls[t] != c:
            continue
        for at in range(entry, front, -1):
            wish[at] = wish[at - 1]
        wish[front] = t
        front += 1
    return True


@inner
def choose_in_turn(
    action: int,
    p: int,
    k: int,
    n_spots: int,
    moves: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> int:
    """Choose for one task of the wish after the other; returns which one finds no node, or ``k`` where each does.

    NULL where limits or quotas forbid all of it.
    """
    begin_choice(log, prey)
    need = wished_amount(k, snapshot, prey)
    if not relieve_limits(action, p, need, settings, snapshot, state, log, finder, scratch, prey):
        return NULL
    c = NULL
    for entry in range(k):
        t = int(prey.wish[entry])
        if snapshot.tasks.cls[t] != c:
            c = int(snapshot.tasks.cls[t])
            prey.counts[CHOICE_CLOCK] += 1
        n = best_node(t, settings, snapshot, state, finder)
        if n == NULL:
            n = clear_some_node(action, p, t, need, n_spots, moves, settings, snapshot, state, log, finder, prey)
        if n == NULL:
            return entry
        give_place(p, t, n, snapshot, state, log, finder, prey)
        prey.place[entry] = n
        forget_cost(n, prey)
    return k


@inner
def begin_choice(log: Log, prey: Prey) -> None:
    """Forget the last choice."""
    log.size[:] = 0
    prey.counts[CHOICE_CLOCK] += 1
    for entry in range(prey.counts[N_CHOSEN]):
        prey.lists[IS_CHOSEN, prey.lists[CHOSEN, entry]] = 0
    prey.counts[N_CHOSEN] = 0
    prey.counts[N_PLACED] = 0
    prey.counts[PRESENCE] += 1


@inner
def clear_some_node(
    action: int,
    p: int,
    t: int,
    need: tuple[float, float, float],
    n_spots: int,
    moves: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    prey: Prey,
) -> int:
    """Let chunks go until task ``t`` fits the node for which that costs least; NULL: it fits none.

    What a node's first chunks are refused without anybody gone is not asked again without them: it would end the same.
    """
    while True:
        n = cheapest_node(action, p, t, need, n_spots, moves, snapshot, state, finder, prey)
        if n == NULL:
            return NULL
        floats, integers = log.size[0], log.size[1]
        chosen, placed = prey.counts[N_CHOSEN], prey.counts[N_PLACED]
        outcome, skipped, going = REFUSED, 0, True
        while outcome == REFUSED and going:
            outcome, first = clear_node(
                action, p, t, need, n, skipped, moves, settings, snapshot, state, log, finder, prey
            )
            skipped, going = first, first > 0
            if outcome != CLEARED:
                abandon(floats, integers, chosen, placed, snapshot, state, log, finder, prey)
        if outcome == CLEARED:
            for entry in range(chosen, prey.counts[N_CHOSEN]):
                unbar(entry, prey)
            return n
        prey.node[n, BARRED] = prey.counts[CHOICE_CLOCK]
        forget_cost(n, prey)


@inner
def can_be_cleared(
    p: int, t: int, n: int, need: tuple[float, float, float], snapshot: Snapshot, state: State, prey: Prey
) -> bool:
    """Whether task ``t`` would fit node ``n`` with all gone whom shares let go now, each by itself.

    The more have been taken the fewer shares let go, so that where it would not, no order of them will do.
    """
    classes, freed, allocatable = snapshot.classes, prey.freed[n], snapshot.nodes.allocatable[n]
    for r in range(freed.shape[0]):
        freed[r] = 0.0
    last, open_ = NULL, False
    here = prey.node[n, FIRST_TASK]
    while here != 0:
        other = here - 1
        here = prey.task[other, ON_NODE]
        g = int(prey.task[other, GROUP])
        if g != last:
            last, open_ = g, may_lose_more(p, need, queue_of(g, snapshot, prey), snapshot, state.book, prey)
        if prey.lists[IS_CHOSEN, g] != 0 or not open_:
            continue
        for r in range(freed.shape[0]):
            if allocatable[r] > 0.0:
                freed[r] += classes.request[snapshot.tasks.cls[other], r]
    request = classes.request[snapshot.tasks.cls[t]]
    for r in range(freed.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > state.idle[n, r] + state.releasing[n, r] + freed[r]:
            return False
    return True


@inner
def cheapest_node(
    action: int,
    p: int,
    t: int,
    need: tuple[float, float, float],
    n_spots: int,
    moves: bool,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    prey: Prey,
) -> int:
    """The node that costs least to clear for task ``t``, the one touched first of two; NULL where none can be."""
    clock = prey.counts[CHOICE_CLOCK]
    best, least = NULL, NEVER
    if n_spots > 0:
        for place in range(n_spots):
            n = int(prey.spot[place])
            cost = known_cost(action, p, t, n, need, moves, snapshot, state, finder, prey)
            if cost < least:
                best, least = n, cost
        return best
    total = prey.counts[N_NODES]
    for block in range((total + BLOCK - 1) // BLOCK):
        if prey.node[block, BEST_MARK] != clock:
            prey.node[block, BEST_MARK] = clock
            prey.node[block, BEST] = NULL
            lowest = NEVER
            for place in range(block * BLOCK, min(total, (block + 1) * BLOCK)):
                n = int(prey.node[place, NODE_ORDER])
                cost = known_cost(action, p, t, n, need, moves, snapshot, state, finder, prey)
                if cost < lowest:
                    prey.node[block, BEST], lowest = n, cost
        n = int(prey.node[block, BEST])
        if n != NULL and prey.node[n, COST] < least:
            best, least = n, int(prey.node[n, COST])
    return best


@inner
def known_cost(
    action: int,
    p: int,
    t: int,
    n: int,
    need: tuple[float, float, float],
    moves: bool,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    prey: Prey,
) -> int:
    """What it costs to clear node ``n`` for task ``t``, which is kept until something changes there."""
    clock = prey.counts[CHOICE_CLOCK]
    if prey.node[n, BARRED] == clock:
        return NEVER
    if prey.node[n, COST_MARK] != clock:
        cost = cost_of(t, n, action == CONSOLIDATION, snapshot, state, finder, prey)
        if cost != NEVER and action == RECLAIM and not moves:
            cost = cost if can_be_cleared(p, t, n, need, snapshot, state, prey) else NEVER
        prey.node[n, COST] = cost
        prey.node[n, COST_MARK] = clock
    return int(prey.node[n, COST])


@inner
def cost_of(t: int, n: int, by_number: bool, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> int:
    """What it costs to clear node ``n`` for task ``t``: the last chunk needed, or the number of pods; or NEVER."""
    classes = snapshot.classes
    c = snapshot.tasks.cls[t]
    if finder.verdicts[classes.signature[c], n] != OK:
        return NEVER
    request, idle, releasing, freed = classes.request[c], state.idle[n], state.releasing[n], prey.freed[n]
    allocatable = snapshot.nodes.allocatable[n]
    for r in range(freed.shape[0]):
        freed[r] = 0.0
    number, last = 0, NULL
    here = prey.node[n, FIRST_TASK]
    while here != 0:
        other = here - 1
        here = prey.task[other, ON_NODE]
        g = int(prey.task[other, GROUP])
        if prey.lists[IS_CHOSEN, g] != 0:
            continue
        if g != last:
            last = g
            number += chunk_end(g, prey) - prey.lists[CHUNK_START, g]
        enough = True
        for r in range(freed.shape[0]):
            if allocatable[r] > 0.0:
                freed[r] += classes.request[snapshot.tasks.cls[other], r]
            enough = enough and request[r] <= idle[r] + releasing[r] + freed[r]
        if enough:
            return number if by_number else g
    return NEVER


@inner
def clear_node(
    action: int,
    p: int,
    t: int,
    need: tuple[float, float, float],
    n: int,
    skipped: int,
    moves: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    prey: Prey,
) -> tuple[int, int]:
    """Let chunks with tasks on node ``n`` go, in their order, until task ``t`` fits there.

    REFUSED where it does not and shares kept somebody. The last to go may leave its queue with less than its share,
    none after it: with the first few ``skipped`` a larger one may be the last. Also which one, from 1 on, went first.
    """
    c = snapshot.tasks.cls[t]
    request, dynamic = snapshot.classes.request[c], finder.dynamic[c] == 1
    here = prey.node[n, FIRST_TASK]
    outcome, last, number, went_first = NOT_CLEARED, NULL, 0, 0
    while here != 0:
        g = int(prey.task[here - 1, GROUP])
        here = prey.task[here - 1, ON_NODE]
        if prey.lists[IS_CHOSEN, g] != 0 or g == last:
            continue
        last = g
        number += 1
        if number <= skipped:
            continue
        floats, integers = log.size[0], log.size[1]
        chosen, placed = prey.counts[N_CHOSEN], prey.counts[N_PLACED]
        taken, refused = take_together(action, p, need, g, n, moves, settings, snapshot, state, log, finder, prey)
        outcome = REFUSED if refused and not moves else outcome
        if taken and dynamic and not is_near_required(c, n, snapshot, state):
            abandon(floats, integers, chosen, placed, snapshot, state, log, finder, prey)
            taken = False
        if not taken:
            continue
        went_first = number if went_first == 0 else went_first
        if fits_later(request, state.idle[n], state.releasing[n]):
            return (CLEARED if not dynamic or may_stand(c, n, snapshot, state) else NOT_CLEARED), went_first
    return outcome, went_first


@inner
def is_near_required(c: int, n: int, snapshot: Snapshot, state: State) -> bool:
    """Whether those that a pod of class ``c`` must be near are near node ``n``, and stay."""
    terms, bonds = snapshot.terms, snapshot.bonds
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        if bonds.entry[entry, 0] != NEED:
            continue
        domain = terms.domain[bonds.entry[entry, 1], n]
        if domain == NULL:
            return False
        if state.domains[domain, MATCHED] == 0 and not nobody_matches(c, terms, bonds, state.domains):
            return False
    return True
