"""Chunks of victims that are chosen one by one: their evictions, what shares allow, and limits that are in the way."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Snapshot, Verdict
from kai_sched.solver.hunt import (
    BARRED,
    CHOSEN,
    CHUNK_START,
    COST_MARK,
    HOME,
    IS_CHOSEN,
    N_CHOSEN,
    N_GROUPS,
    POTENTIAL,
    REMAINS,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.fairness import take_amount
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.minimal_scenario import chunk_end, send_away
from kai_sched.solver.state import NODE, Finder, Log, Scratch, State

OK = int(Verdict.OK)
OVER_LIMIT = int(Verdict.OVER_LIMIT)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)


@inner
def relieve_limits(
    action: int,
    p: int,
    need: tuple[float, float, float],
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
            first = prey.lists[POTENTIAL, prey.lists[CHUNK_START, g]]
            helps = False
            if is_below(jobs.queue[snapshot.tasks.job[first]], q, snapshot):
                for at in range(prey.lists[CHUNK_START, g], chunk_end(g, prey)):
                    helps = helps or prices[snapshot.tasks.cls[prey.lists[POTENTIAL, at]], r] > 0.0
            g += 1
            if helps and (action != RECLAIM or may_be_taken(p, need, g - 1, snapshot, state, prey)):
                take_chunk(g - 1, snapshot, state, log, finder, prey)
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
            prey.node[n, COST_MARK] = 0


@inner
def unbar(entry: int, prey: Prey) -> None:
    """Let the nodes of a chosen chunk be tried again: there is more room on them."""
    g = prey.lists[CHOSEN, entry]
    for at in range(prey.lists[CHUNK_START, g], chunk_end(g, prey)):
        home = prey.task[prey.lists[POTENTIAL, at], HOME]
        if home != NULL:
            prey.node[home, BARRED] = 0


@inner
def may_be_taken(
    p: int, need: tuple[float, float, float], g: int, snapshot: Snapshot, state: State, prey: Prey
) -> bool:
    """Whether shares let chunk ``g`` go after those chosen before; if so it is counted (``fairness.keeps_shares``)."""
    amount = amount_of(g, snapshot, prey)
    q = snapshot.jobs.queue[snapshot.tasks.job[prey.lists[POTENTIAL, prey.lists[CHUNK_START, g]]]]
    return take_amount(p, need, int(q), amount, snapshot, state.book, prey)


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
    amount = amount_of(g, snapshot, prey)
    q = snapshot.jobs.queue[snapshot.tasks.job[prey.lists[POTENTIAL, prey.lists[CHUNK_START, g]]]]
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
