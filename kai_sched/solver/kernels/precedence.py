"""The proof that whoever would be evicted takes the room back before the wish comes to its turn (semantics 4.5).

In a simulation victims and the wish compete in the order of queues. Where the queues of all possible victims come first
as long as any of their victims waits, all victims are placed again before the wish is. Where in addition their pods are
all alike, and no other room is there for one of them, every node is then as full as before.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    ALIVE,
    ASK,
    BASE,
    CLOCK,
    KIND_NOW,
    KIND_WANTED,
    LIST,
    LISTED,
    N_KINDS,
    OPEN,
    SKIP,
    STAGE,
    STAGE_NOW,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.accumulate import slots_now
from kai_sched.solver.kernels.attempt import count_pending
from kai_sched.solver.kernels.gang import AT_MINIMUM, BELOW_MINIMUM
from kai_sched.solver.kernels.order import goes_first
from kai_sched.solver.state import ACTIVE, HELD, LIMIT, NODE, STATUS, Finder, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def all_return(
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
    """Whether no scenario can leave room for job ``p``, whose whole wish ``prey.kind`` counts; False: who knows."""
    has_room = True
    for kind in range(prey.counts[N_KINDS]):
        has_room = has_room and prey.kind[kind, KIND_NOW] >= prey.kind[kind, KIND_WANTED]
    if has_room:
        return False
    own, parent = snapshot.jobs.queue[p], snapshot.queues.parent
    ask_before(p, settings, snapshot, waiting, prey)
    like = NULL
    for q in range(parent.shape[0]):
        if prey.queue[q, OPEN] == 0.0 or victims.slot[q, ALIVE] == victims.slot[q, LISTED]:
            continue
        if parent[q] != parent[own] or not keeps_limits(q, snapshot, state.book):
            return False
        like = come_first(q, own, like, ceiling, settings, snapshot, state, finder, waiting, victims, prey)
        if like == NULL:
            return False
    return like != NULL and is_full(like, snapshot, state, finder)


@inner
def ask_before(p: int, settings: Settings, snapshot: Snapshot, waiting: Lineup, prey: Prey) -> None:
    """Set what the queue of job ``p`` asks for at some time before the turn of ``p``: the most that can be told."""
    priority, own = snapshot.jobs.priority, snapshot.jobs.queue[p]
    amount = waiting.amount
    for r in range(3):
        amount[own, ASK + r] = prey.ask[p, r]
    for at in range(waiting.slot[own, ALIVE], waiting.slot[own, LISTED]):
        j = waiting.job[waiting.slot[own, BASE] + at, LIST]
        if settings.priority_order == 1 and priority[j] != priority[p]:
            before = priority[j] > priority[p]
        else:
            before = j < p and (settings.elastic_order == 0 or waiting.job[j, STAGE] == BELOW_MINIMUM)
        if before:
            more = True
            for r in range(3):
                more = more and waiting.held[j, r] >= amount[own, ASK + r]
            if more:
                for r in range(3):
                    amount[own, ASK + r] = waiting.held[j, r]


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
) -> int:
    """The class of the victims of leaf ``q`` if each of them comes before queue ``own``, and is like class ``like``.

    ``like`` NULL: any class will do. NULL where that is not so, or cannot be told.
    """
    priority, amount = snapshot.jobs.priority, waiting.amount
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
            return NULL
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
        if not goes_first(q, own, state.book, amount, ASK):
            return NULL
    return like


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
        if n == NULL or finder.refused[c] != OK or finder.dynamic[c] == 1:
            return NULL
        if like == NULL:
            like = c
        if classes.signature[c] != classes.signature[like] or finder.verdicts[classes.signature[c], n] != OK:
            return NULL
        for r in range(classes.request.shape[1]):
            if classes.request[c, r] != classes.request[like, r]:
                return NULL
    return like


@inner
def is_full(like: int, snapshot: Snapshot, state: State, finder: Finder) -> bool:
    """Whether no node has room for a pod of class ``like``, now or once others have left."""
    classes = snapshot.classes
    verdicts = finder.verdicts[classes.signature[like]]
    for n in range(verdicts.shape[0]):
        if verdicts[n] == OK and slots_now(classes.request[like], state.idle[n], state.releasing[n]) > 0:
            return False
    return True
