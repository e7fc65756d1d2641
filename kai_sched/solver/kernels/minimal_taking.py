"""Chunks of victims that are chosen one by one: their evictions, what shares allow, and limits that are in the way."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Settings, Snapshot, Verdict
from kai_sched.solver.hunt import (
    BARRED,
    BEST_MARK,
    CHOSEN,
    CHUNK_START,
    COST_MARK,
    EMPTIED,
    FIRST_POTENTIAL,
    GROUP,
    HOME,
    IN_JOB,
    IS_CHOSEN,
    KEPT,
    N_CHOSEN,
    N_GROUPS,
    N_PLACED,
    OLD_HELD,
    PLACE_OF,
    POTENTIAL,
    PRESENCE,
    PRESENT,
    REMAINS,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node, undo_to
from kai_sched.solver.kernels.fairness import diverge, ratio, take_amount
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.minimal_scenario import chunk_end, come_home, give_place, send_away
from kai_sched.solver.kernels.undo import touch
from kai_sched.solver.state import FAIR, NODE, Finder, Log, Scratch, State

OK = int(Verdict.OK)
BLOCK = 32  # places of nodes
NOT_OFFERED = int(Verdict.NO_ROOM)
OVER_LIMIT = int(Verdict.OVER_LIMIT)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)


@inner
def relieve_limits(
    action: int,
    p: int,
    need: tuple[float, float, float],
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
) -> bool:
    """Let victims leave the queues whose limits the wish would exceed, until it does not; False: it always would."""
    jobs, parent, prices = snapshot.jobs, snapshot.queues.parent, snapshot.classes.quota
    for r in range(3):
        scratch.need[r] = need[r]
    fixed, g = jobs.preemptible[p] == 0, 0
    verdict, q, r = pass_gates(jobs.queue[p], scratch.need, fixed, parent, state.book)
    while verdict != OK:
        if verdict != OVER_LIMIT or action == CONSOLIDATION:
            return False
        while True:
            if g == prey.counts[N_GROUPS]:
                return False
            first = first_of(g, prey)
            helps = False
            if is_below(jobs.queue[snapshot.tasks.job[first]], q, snapshot):
                for at in range(prey.lists[CHUNK_START, g], chunk_end(g, prey)):
                    helps = helps or prices[snapshot.tasks.cls[prey.lists[POTENTIAL, at]], r] > 0.0
            g += 1
            if helps and prey.lists[IS_CHOSEN, g - 1] == 0:
                taken, _ = take_together(
                    action, p, need, g - 1, NULL, False, settings, snapshot, state, log, finder, prey
                )
                if taken:
                    break
        verdict, q, r = pass_gates(jobs.queue[p], scratch.need, fixed, parent, state.book)
    return True


@inner
def is_below(q: int, above: int, snapshot: Snapshot) -> bool:
    """Whether queue ``q`` is ``above`` or somewhere below it."""
    while q != NULL and q != above:
        q = snapshot.queues.parent[q]
    return bool(q == above)


@inner
def take_together(
    action: int,
    p: int,
    need: tuple[float, float, float],
    g: int,
    cleared: int,
    moves: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    prey: Prey,
) -> tuple[bool, bool]:
    """Choose chunk ``g``, and those of its job without which it would leave a part of a gang behind.

    With ``moves`` those that may not leave for good go to other nodes than the ``cleared`` one. Returns whether it was
    done, and whether shares kept somebody.
    """
    floats, integers = log.size[0], log.size[1]
    chosen, placed = prey.counts[N_CHOSEN], prey.counts[N_PLACED]
    refused, here = False, prey.job[snapshot.tasks.job[first_of(g, prey)], FIRST_POTENTIAL]
    while True:
        h = int(prey.task[here - 1, GROUP])
        here = prey.task[here - 1, IN_JOB]
        if prey.lists[IS_CHOSEN, h] == 0 and (h == g or empties(g, h, snapshot, prey)):
            counted = action == RECLAIM and may_be_taken(p, need, h, settings, snapshot, state, prey)
            leaves = action != CONSOLIDATION and (action != RECLAIM or counted)
            refused = refused or (action == RECLAIM and not counted)
            gone = leaves or moves
            if gone:
                take_chunk(h, snapshot, state, log, finder, prey)
                prey.lists[IS_CHOSEN, h] = 2 if counted else 1
                gone = leaves or move_chunk(h, cleared, settings, snapshot, state, log, finder, prey)
            if not gone:
                abandon(floats, integers, chosen, placed, snapshot, state, log, finder, prey)
                return False, refused
        if h == g:
            return True, refused


@inner
def abandon(
    floats: int,
    integers: int,
    chosen: int,
    placed: int,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    prey: Prey,
) -> None:
    """Take back all that was chosen since the log and the lists had these sizes."""
    undo_to(floats, integers, state, log, finder)
    for entry in range(chosen, prey.counts[N_CHOSEN]):
        take_back(prey.lists[CHOSEN, entry], snapshot, prey)
    prey.counts[N_CHOSEN], prey.counts[N_PLACED] = chosen, placed


@inner
def first_of(g: int, prey: Prey) -> int:
    """The first task of chunk ``g``."""
    return int(prey.lists[POTENTIAL, prey.lists[CHUNK_START, g]])


@inner
def empties(g: int, h: int, snapshot: Snapshot, prey: Prey) -> bool:
    """Whether chunk ``g`` is all that is left of a set once chunk ``h`` of the same job, an earlier one, has gone."""
    s, emptied = snapshot.tasks.set[first_of(h, prey)], prey.lists[EMPTIED, g]
    while s > emptied:
        s = snapshot.sets.parent[s]
    return bool(emptied != NULL and s == emptied)


@inner
def take_chunk(g: int, snapshot: Snapshot, state: State, log: Log, finder: Finder, prey: Prey) -> None:
    """Evict chunk ``g`` in the simulation, and note that it is chosen."""
    lists = prey.lists
    lists[IS_CHOSEN, g] = 1
    lists[CHOSEN, prey.counts[N_CHOSEN]] = g
    prey.counts[N_CHOSEN] += 1
    for at in range(lists[CHUNK_START, g], chunk_end(g, prey)):
        t = lists[POTENTIAL, at]
        n = state.task[t, NODE]
        send_away(t, snapshot, state, log, finder, prey)
        if n != NULL:
            forget_cost(n, prey)


@inner
def forget_cost(n: int, prey: Prey) -> None:
    """Something has changed on node ``n``: what it costs to clear it is not known any more."""
    prey.node[n, COST_MARK] = 0
    prey.node[prey.node[n, PLACE_OF] // BLOCK, BEST_MARK] = 0


@inner
def unbar(entry: int, prey: Prey) -> None:
    """Let the nodes of a chosen chunk be tried again: there is more room on them."""
    g = prey.lists[CHOSEN, entry]
    for at in range(prey.lists[CHUNK_START, g], chunk_end(g, prey)):
        home = prey.task[prey.lists[POTENTIAL, at], HOME]
        if home != NULL:
            prey.node[home, BARRED] = 0
            forget_cost(home, prey)


@inner
def may_be_taken(
    p: int,
    need: tuple[float, float, float],
    g: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> bool:
    """Whether shares let chunk ``g`` go after those chosen before; if so it is counted (``fairness.keeps_shares``)."""
    amount, q = amount_of(g, snapshot, prey), queue_of(g, snapshot, prey)
    if prey.lists[KEPT, g] == 1 or not take_amount(p, need, q, amount, snapshot, state.book, prey):
        return False
    if stays_behind_it(p, need, q, amount, settings, snapshot, state, prey):
        return True
    give_back_shares(g, snapshot, prey)
    return False


@inner
def stays_behind_it(
    p: int,
    need: tuple[float, float, float],
    v: int,
    amount: tuple[float, float, float],
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> bool:
    """Whether the wish leaves the reclaimer's side with less of its share than leaf ``v``'s, which lost ``amount``.

    What ``fairness.stays_behind`` asks at the end. More that is taken from the reclaimer's own side only helps, so
    nobody is chosen here whom the end would refuse.
    """
    book = state.book
    mine, theirs = diverge(snapshot.jobs.queue[p], v, snapshot.queues.parent)
    for r in range(3):
        present = prey.queue[mine, PRESENT] == prey.counts[PRESENCE]
        held = prey.queue[mine, REMAINS + r if present else OLD_HELD + r]
        used = ratio(held + need[r], book[mine, FAIR + r])
        if used <= 1.0 or (need[r] == 0.0 and amount[r] == 0.0):
            continue
        if book[theirs, FAIR + r] <= 0.0 and book[mine, FAIR + r] > 0.0:
            continue
        if used * settings.saturation >= ratio(prey.queue[theirs, REMAINS + r], book[theirs, FAIR + r]):
            return False
    return True


@inner
def queue_of(g: int, snapshot: Snapshot, prey: Prey) -> int:
    """The leaf of chunk ``g``."""
    return int(snapshot.jobs.queue[snapshot.tasks.job[first_of(g, prey)]])


@inner
def amount_of(g: int, snapshot: Snapshot, prey: Prey) -> tuple[float, float, float]:
    """What the tasks of chunk ``g`` hold."""
    amount = (0.0, 0.0, 0.0)
    for at in range(prey.lists[CHUNK_START, g], chunk_end(g, prey)):
        price = snapshot.classes.quota[snapshot.tasks.cls[prey.lists[POTENTIAL, at]]]
        amount = (amount[0] + price[0], amount[1] + price[1], amount[2] + price[2])
    return amount


@inner
def give_back_shares(g: int, snapshot: Snapshot, prey: Prey) -> None:
    """Chunk ``g`` does not go after all."""
    amount, q = amount_of(g, snapshot, prey), queue_of(g, snapshot, prey)
    while q != NULL:
        for r in range(3):
            prey.queue[q, REMAINS + r] += amount[r]
        q = snapshot.queues.parent[q]


@inner
def take_back(g: int, snapshot: Snapshot, prey: Prey) -> None:
    """Chunk ``g`` is not chosen; 2 says that its shares were counted."""
    if prey.lists[IS_CHOSEN, g] == 2:
        give_back_shares(g, snapshot, prey)
    prey.lists[IS_CHOSEN, g] = 0


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
        forget_cost(n, prey)
    return True
