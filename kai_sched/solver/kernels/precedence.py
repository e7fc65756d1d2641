"""The proof that whoever would be evicted takes the room back before the wish comes to its turn (semantics 4.5).

In a simulation victims and the wish compete in the order of queues. Where the queues of all possible victims come first
as long as any of their victims waits, all victims are placed again before the wish is. Where in addition their pods are
all alike, and no other room is there for one of them, every node is then as full as before.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    ALIKE,
    ALIVE,
    ASK,
    BASE,
    CLOCK,
    INVOLVED,
    KIND_NOW,
    KIND_WANTED,
    LACKING,
    LEFT_NODE,
    LIST,
    LISTED,
    MOST,
    N_KINDS,
    N_SCENE,
    OPEN,
    REMAINS,
    RETURNS,
    SCENE,
    SKIP,
    STAGE,
    STAGE_NOW,
    TIMES,
    WISHED,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.accumulate import slots_now
from kai_sched.solver.kernels.attempt import count_pending
from kai_sched.solver.kernels.fairness import diverge, may_lose_one
from kai_sched.solver.kernels.gang import AT_MINIMUM, BELOW_MINIMUM
from kai_sched.solver.kernels.order import goes_first
from kai_sched.solver.state import ACTIVE, HELD, LIMIT, NODE, STATUS, Finder, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def weigh_up(
    p: int,
    ceiling: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> bool:
    """Whether no scenario can leave room for job ``p``, whose whole wish ``prey.kind`` counts; False: who knows.

    Sets ALIKE where scenarios may be judged one by one (``may_leave``), with RETURNS of all possible victims.
    """
    prey.counts[ALIKE] = 0
    has_room = True
    for kind in range(prey.counts[N_KINDS]):
        has_room = has_room and prey.kind[kind, KIND_NOW] >= prey.kind[kind, KIND_WANTED]
    if has_room:
        return False
    own, parent = snapshot.jobs.queue[p], snapshot.queues.parent
    prey.queue[:, MOST : MOST + 3] = 0.0
    ask_before(p, settings, snapshot, waiting, prey)
    like, nobody_stays_away = NULL, True
    for q in range(parent.shape[0]):
        if prey.queue[q, OPEN] == 0.0 or victims.slot[q, ALIVE] == victims.slot[q, LISTED]:
            continue
        if not keeps_limits(q, snapshot, state.book):
            return False
        like, all_first = come_first(q, own, like, ceiling, settings, snapshot, state, finder, waiting, victims, prey)
        if like == NULL:
            return False
        nobody_stays_away = nobody_stays_away and all_first
    if like == NULL or not is_full(like, snapshot, state, finder):
        return False
    for q in range(parent.shape[0]):
        if q != own and snapshot.queues.child_ptr[q] == snapshot.queues.child_ptr[q + 1]:
            raise_most(q, snapshot, waiting, prey)
    ask_least(own, snapshot, waiting, victims, prey)
    prey.counts[ALIKE] = 1
    return nobody_stays_away


@inner
def raise_most(q: int, snapshot: Snapshot, waiting: Lineup, prey: Prey) -> None:
    """Add what waiting jobs of leaf ``q`` ask for to MOST, where that of its victims is already, and carry it up."""
    for at in range(waiting.slot[q, ALIVE], waiting.slot[q, LISTED]):
        j = waiting.job[waiting.slot[q, BASE] + at, LIST]
        for r in range(3):
            prey.queue[q, MOST + r] = max(prey.queue[q, MOST + r], waiting.held[j, r])
    above = snapshot.queues.parent[q]
    below = q
    while above != NULL:
        for r in range(3):
            prey.queue[above, MOST + r] = max(prey.queue[above, MOST + r], prey.queue[below, MOST + r])
        below, above = above, snapshot.queues.parent[above]


@inner
def ask_least(own: int, snapshot: Snapshot, waiting: Lineup, victims: Lineup, prey: Prey) -> None:
    """Set MOST of the queues above leaf ``own`` to what they ask for at least when ``own`` has its turn.

    That is what ``own`` asks for, or less: a queue goes first for the job on top below it, and another one may come to
    the top while it does (3.1).
    """
    parent = snapshot.queues.parent
    above = parent[own]
    while above != NULL:
        for r in range(3):
            prey.queue[above, MOST + r] = prey.queue[own, MOST + r]
        above = parent[above]
    for q in range(parent.shape[0]):
        is_leaf = snapshot.queues.child_ptr[q] == snapshot.queues.child_ptr[q + 1]
        waits = waiting.slot[q, ALIVE] < waiting.slot[q, LISTED] or victims.slot[q, ALIVE] < victims.slot[q, LISTED]
        if q != own and is_leaf and waits:
            common, _ = diverge(own, q, parent)
            common = parent[common]
            while common != NULL:
                for r in range(3):
                    prey.queue[common, MOST + r] = 0.0
                common = parent[common]


@inner
def may_leave(
    p: int, k: int, settings: Settings, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey
) -> bool:
    """Whether some victim of the scenario may stay away for good: not back before the wish, nor held by the shares.

    True where a victim was moved before: it may come back without taking any room (``evict.lay``).
    """
    queue, parent, tasks = prey.queue, snapshot.queues.parent, snapshot.tasks
    own = snapshot.jobs.queue[p]
    for q in range(parent.shape[0]):
        queue[q, REMAINS] = 0.0
        queue[q, REMAINS + 1] = 0.0
        queue[q, INVOLVED] = np.inf
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        if prey.task[t, LEFT_NODE] != 0:
            return True
        amount, times = snapshot.classes.quota[tasks.cls[t], GPU], prey.task[t, TIMES]
        q = snapshot.jobs.queue[tasks.job[t]]
        while q != NULL:
            queue[q, REMAINS] += times * amount
            queue[q, REMAINS + 1] += times
            queue[q, INVOLVED] = min(queue[q, INVOLVED], amount)
            q = parent[q]
    # what was weighed is the whole wish
    alike = prey.counts[ALIKE] == 1 and k == prey.counts[WISHED]
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        j = tasks.job[t]
        if alike and prey.job[j, RETURNS] == 1:
            continue
        a, b = diverge(own, snapshot.jobs.queue[j], parent)
        price = snapshot.classes.quota[tasks.cls[t]]
        if prey.counts[LACKING] == 1 and (
            price[GPU] == 0.0 or not may_lose_one(a, b, k, settings, snapshot, state.book, prey)
        ):
            continue
        if alike and a != own:
            for r in range(3):
                waiting.amount[a, ASK + r] = queue[a, MOST + r] - queue[a, REMAINS + 1] * price[r]
                waiting.amount[b, ASK + r] = queue[b, MOST + r] - price[r]
            if goes_first(b, a, state.book, waiting.amount, ASK):
                continue
        return True
    return False


@inner
def ask_before(p: int, settings: Settings, snapshot: Snapshot, waiting: Lineup, prey: Prey) -> None:
    """Set MOST of the queue of job ``p`` to what it asks for at some time before the turn of ``p``, if not in it."""
    priority, own = snapshot.jobs.priority, snapshot.jobs.queue[p]
    queue = prey.queue
    for r in range(3):
        queue[own, MOST + r] = prey.ask[p, r]
    for at in range(waiting.slot[own, ALIVE], waiting.slot[own, LISTED]):
        j = waiting.job[waiting.slot[own, BASE] + at, LIST]
        if settings.priority_order == 1 and priority[j] != priority[p]:
            before = priority[j] > priority[p]
        else:
            before = j < p and (settings.elastic_order == 0 or waiting.job[j, STAGE] == BELOW_MINIMUM)
        if before:
            more = True
            for r in range(3):
                more = more and waiting.held[j, r] >= queue[own, MOST + r]
            if more:
                for r in range(3):
                    queue[own, MOST + r] = waiting.held[j, r]


@inner
def keeps_limits(q: int, snapshot: Snapshot, book: Floats) -> bool:
    """Whether leaf ``q`` and all queues above it hold no more than their limits, so that the gates let all return."""
    while q != NULL:
        for r in range(3):
            if book[q, HELD + r] > book[q, LIMIT + r]:
                return False
        q = snapshot.queues.parent[q]
    return True


@inner
def come_first(
    q: int,
    own: int,
    like: int,
    ceiling: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
) -> tuple[int, bool]:
    """The class of the victims of leaf ``q`` if all are like class ``like``, and whether all come before queue ``own``.

    ``like`` NULL: any class will do. The class is NULL where one is unlike. RETURNS says it of each victim; that of a
    leaf elsewhere in the tree depends on the scenario.
    """
    priority, amount = snapshot.jobs.priority, waiting.amount
    beside = snapshot.queues.parent[q] == snapshot.queues.parent[own]
    for r in range(3):
        amount[own, ASK + r] = prey.queue[own, MOST + r]
    all_first = beside
    base = victims.slot[q, BASE]
    behind, end = waiting.slot[q, ALIVE], waiting.slot[q, LISTED]
    most = (0.0, 0.0, 0.0)
    # victims are listed last one first
    for at in range(victims.slot[q, LISTED] - 1, victims.slot[q, ALIVE] - 1, -1):
        v = victims.job[base + at, LIST]
        if victims.job[v, SKIP] == prey.counts[CLOCK] or priority[v] >= ceiling:
            continue
        like = likeness_of(v, like, snapshot, state, finder, prey)
        if like == NULL:
            return NULL, False
        while behind < end:
            j = waiting.job[waiting.slot[q, BASE] + behind, LIST]
            if settings.priority_order == 1 and priority[j] != priority[v]:
                before = priority[j] > priority[v]
            else:
                before = j < v and (settings.elastic_order == 0 or waiting.job[j, STAGE] == BELOW_MINIMUM)
            if not before:
                break
            ask = waiting.held[j]
            most = (max(most[0], ask[0]), max(most[1], ask[1]), max(most[2], ask[2]))
            behind += 1
        own_amount = hold(v, like, snapshot, state)
        most = (max(most[0], own_amount[0]), max(most[1], own_amount[1]), max(most[2], own_amount[2]))
        for r in range(3):
            amount[q, ASK + r] = most[r] - own_amount[r]
            prey.queue[q, MOST + r] = max(prey.queue[q, MOST + r], own_amount[r])
        first = beside and goes_first(q, own, state.book, amount, ASK)
        prey.job[v, RETURNS] = first
        all_first = all_first and first
    return like, all_first


@inner
def hold(v: int, like: int, snapshot: Snapshot, state: State) -> tuple[float, float, float]:
    """What the pods of job ``v``, all of class ``like``, hold together, promised ones included."""
    pods = 0
    for t in range(snapshot.jobs.task_ptr[v], snapshot.jobs.task_ptr[v + 1]):
        pods += IS_PIPELINED <= state.task[t, STATUS] <= IS_RUNNING
    price = snapshot.classes.quota[like]
    return pods * price[0], pods * price[1], pods * price[2]


@inner
def likeness_of(v: int, like: int, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> int:
    """The class of all pods of job ``v`` if they go and return together and are like class ``like``; else NULL."""
    jobs, sets, classes = snapshot.jobs, snapshot.sets, snapshot.classes
    first, end = jobs.set_ptr[v], jobs.set_ptr[v + 1]
    if prey.job[v, STAGE_NOW] != AT_MINIMUM or jobs.refused[v] != OK or count_pending(first, end, state.sets) > 0:
        return NULL
    for s in range(first, end):
        if sets.child_ptr[s] != sets.child_end[s] and sets.minimum[s] < sets.child_end[s] - sets.child_ptr[s]:
            return NULL
        if sets.child_ptr[s] == sets.child_end[s] and state.sets[s, ACTIVE] != sets.minimum[s]:
            return NULL
    for t in range(jobs.task_ptr[v], jobs.task_ptr[v + 1]):
        status, n, c = state.task[t, STATUS], state.task[t, NODE], snapshot.tasks.cls[t]
        if not IS_PIPELINED <= status <= IS_RUNNING:
            continue
        if n == NULL or finder.refused[c] != OK or finder.dynamic[c] == 1 or prey.task[t, LEFT_NODE] != 0:
            return NULL
        if like == NULL:
            like = c
        if classes.signature[c] != classes.signature[like] or finder.verdicts[classes.signature[c], n] != OK:
            return NULL
        for r in range(classes.request.shape[1]):
            if classes.request[c, r] != classes.request[like, r]:
                return NULL
            if classes.request[c, r] > snapshot.nodes.allocatable[n, r]:
                return NULL
    return like


@inner
def is_full(like: int, snapshot: Snapshot, state: State, finder: Finder) -> bool:
    """Whether no node has room for a pod of class ``like``, now or once others have left, and none is overcommitted.

    On one that is, those who leave do not all find room again.
    """
    classes = snapshot.classes
    verdicts = finder.verdicts[classes.signature[like]]
    for n in range(verdicts.shape[0]):
        if verdicts[n] != OK:
            continue
        if slots_now(classes.request[like], state.idle[n], state.releasing[n]) > 0:
            return False
        for r in range(state.idle.shape[1]):
            if state.idle[n, r] + state.releasing[n, r] < 0.0:
                return False
    return True
