"""Which chunks of victims make room for a wish: for each task the node that costs least to clear (minimal search).

Victims come in the order of ``accumulate``, the least deserving first. A node costs the last of them that it needs, so
that nobody goes as long as somebody less deserving would do; where all are moved, it costs the number of pods.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Bond, Settings, Snapshot, Verdict
from kai_sched.solver.hunt import (
    BARRED,
    CHOICE_CLOCK,
    CHOSEN,
    CHUNK_START,
    COST,
    COST_MARK,
    FIRST_TASK,
    GROUP,
    HOME,
    IS_CHOSEN,
    N_CHOSEN,
    N_GROUPS,
    N_NODES,
    N_PLACED,
    NODE_ORDER,
    ON_NODE,
    POTENTIAL,
    PRESENT,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node, undo_all, undo_to
from kai_sched.solver.kernels.fairness import wished_amount
from kai_sched.solver.kernels.fit import fits_later
from kai_sched.solver.kernels.minimal_scenario import chunk_end, come_home, give_place, may_stand
from kai_sched.solver.kernels.minimal_taking import may_be_taken, relieve_limits, take_back, take_chunk, unbar
from kai_sched.solver.kernels.score import nobody_matches
from kai_sched.solver.kernels.undo import touch
from kai_sched.solver.state import MATCHED, Finder, Log, Scratch, State

OK = int(Verdict.OK)
NOT_OFFERED = int(Verdict.NO_ROOM)
NEED = int(Bond.NEED)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
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

    Nodes to be cleared are the ``n_spots`` of ``prey.spot`` or, where that is 0, all with potential victims. With
    ``moves`` victims that may not leave for good are given other places.
    """
    begin_choice(snapshot, log, prey)
    need = wished_amount(k, snapshot, prey)
    found = relieve_limits(action, p, need, snapshot, state, log, finder, scratch, prey)
    c = NULL
    for entry in range(k):
        if not found:
            break
        t = int(prey.wish[entry])
        if snapshot.tasks.cls[t] != c:
            c = int(snapshot.tasks.cls[t])
            prey.counts[CHOICE_CLOCK] += 1
        n = best_node(t, settings, snapshot, state, finder)
        if n == NULL:
            n = clear_some_node(action, p, t, need, n_spots, moves, settings, snapshot, state, log, finder, prey)
        found = n != NULL
        if found:
            give_place(p, t, n, snapshot, state, log, finder, prey)
            prey.node[n, COST_MARK] = 0
    undo_all(state, log, finder)
    return found


@inner
def begin_choice(snapshot: Snapshot, log: Log, prey: Prey) -> None:
    """Forget the last choice."""
    log.size[:] = 0
    prey.counts[CHOICE_CLOCK] += 1
    prey.counts[N_CHOSEN] = 0
    prey.counts[N_PLACED] = 0
    for g in range(prey.counts[N_GROUPS]):
        prey.lists[IS_CHOSEN, g] = 0
    for q in range(snapshot.queues.parent.shape[0]):
        prey.queue[q, PRESENT] = 0.0


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
    """Let chunks go until task ``t`` fits the node for which that costs least; NULL: it fits none."""
    while True:
        n = cheapest_node(t, n_spots, action == CONSOLIDATION, snapshot, state, finder, prey)
        if n == NULL:
            return NULL
        floats, integers = log.size[0], log.size[1]
        chosen, placed = prey.counts[N_CHOSEN], prey.counts[N_PLACED]
        if clear_node(action, p, t, need, n, moves, settings, snapshot, state, log, finder, prey):
            for entry in range(chosen, prey.counts[N_CHOSEN]):
                unbar(entry, prey)
            return n
        undo_to(floats, integers, state, log, finder)
        for entry in range(chosen, prey.counts[N_CHOSEN]):
            take_back(prey.lists[CHOSEN, entry], snapshot, prey)
        prey.counts[N_CHOSEN], prey.counts[N_PLACED] = chosen, placed
        prey.node[n, BARRED] = prey.counts[CHOICE_CLOCK]


@inner
def cheapest_node(
    t: int, n_spots: int, by_number: bool, snapshot: Snapshot, state: State, finder: Finder, prey: Prey
) -> int:
    """The node that costs least to clear for task ``t``, the one touched first of two; NULL where none can be."""
    clock = prey.counts[CHOICE_CLOCK]
    total = n_spots if n_spots > 0 else prey.counts[N_NODES]
    best, least = NULL, NEVER
    for place in range(total):
        n = prey.spot[place] if n_spots > 0 else prey.node[place, NODE_ORDER]
        if prey.node[n, BARRED] == clock:
            continue
        if prey.node[n, COST_MARK] != clock:
            prey.node[n, COST] = cost_of(t, n, by_number, snapshot, state, finder, prey)
            prey.node[n, COST_MARK] = clock
        if prey.node[n, COST] < least:
            best, least = int(n), prey.node[n, COST]
    return best


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
    moves: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    prey: Prey,
) -> bool:
    """Let chunks with tasks on node ``n`` go, in their order, until task ``t`` fits there."""
    c = snapshot.tasks.cls[t]
    request, dynamic = snapshot.classes.request[c], finder.dynamic[c] == 1
    here = prey.node[n, FIRST_TASK]
    while here != 0:
        g = int(prey.task[here - 1, GROUP])
        here = prey.task[here - 1, ON_NODE]
        if prey.lists[IS_CHOSEN, g] != 0:
            continue
        counted = action == RECLAIM and may_be_taken(p, need, g, snapshot, state, prey)
        leaves = action != CONSOLIDATION and (action != RECLAIM or counted)
        if not leaves and not moves:
            continue
        floats, integers = log.size[0], log.size[1]
        placed = prey.counts[N_PLACED]
        take_chunk(g, snapshot, state, log, finder, prey)
        prey.lists[IS_CHOSEN, g] = 2 if counted else 1
        useful = not dynamic or is_near_required(c, n, snapshot, state)
        if not useful or (not leaves and not move_chunk(g, n, settings, snapshot, state, log, finder, prey)):
            undo_to(floats, integers, state, log, finder)
            take_back(g, snapshot, prey)
            prey.counts[N_CHOSEN] -= 1
            prey.counts[N_PLACED] = placed
            continue
        if fits_later(request, state.idle[n], state.releasing[n]):
            return not dynamic or may_stand(c, n, snapshot, state)
    return False


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


@inner
def move_chunk(
    g: int,
    cleared: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    prey: Prey,
) -> bool:
    """Give the tasks of chunk ``g``, which are evicted, places on other nodes than ``cleared``; False: not all."""
    for at in range(prey.lists[CHUNK_START, g], chunk_end(g, prey)):
        t = prey.lists[POTENTIAL, at]
        c = snapshot.tasks.cls[t]
        if finder.refused[c] != OK:
            return False
        home = prey.task[t, HOME]
        if home != NULL and home != cleared:
            come_home(t, snapshot, state, log, finder, prey)
            continue
        signature = snapshot.classes.signature[c]
        verdict = finder.verdicts[signature, cleared]
        finder.verdicts[signature, cleared] = NOT_OFFERED
        touch(finder.block, finder.stamp, cleared)
        n = best_node(t, settings, snapshot, state, finder)
        finder.verdicts[signature, cleared] = verdict
        touch(finder.block, finder.stamp, cleared)
        if n == NULL:
            return False
        give_place(snapshot.tasks.job[t], t, n, snapshot, state, log, finder, prey)
        prey.node[n, COST_MARK] = 0
    return True
