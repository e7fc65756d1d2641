"""The proof that those who would be evicted are back, or may not stay away, when the wish has its turn (4.5, 4.7).

In a simulation victims and the wish compete in the order of queues. Where those of a queue come first as long as any of
them waits, they are placed again before the wish is; where the shares let the wish take nothing from a queue, whoever
of it stays away makes the scenario invalid. If one or the other holds for all, nothing is left for the wish.

The order of two jobs is that of the queues below their common ancestor, each weighed by what its next job asks for: the
later one is whose queue once asks for so much on the way to it that it stands behind the worst of the other's way.
What is shown here is for the first task of the wish and without recorded victims: without it there is no second.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    ALIKE,
    ALIVE,
    ASK,
    AWAY,
    BASE,
    CLOCK,
    KIND_NOW,
    LACKING,
    LAST,
    LIST,
    LISTED,
    MOST,
    N_SCENE,
    OPEN,
    RUN_END,
    SCENE,
    SHIELDED,
    SKIP,
    SMALLEST,
    STAGE,
    STAGE_NOW,
    STAYS,
    WEIGHED,
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
    """Whether no scenario can leave room for job ``p``; False: who knows.

    Sets WEIGHED, ALIKE and, for each leaf, SHIELDED, by which ``may_leave`` judges single scenarios.
    """
    queue, parent, tasks = prey.queue, snapshot.queues.parent, snapshot.tasks
    clear(prey)
    like = NULL
    alike = prey.kind[0, KIND_NOW] == 0
    for q in range(parent.shape[0]):
        if queue[q, OPEN] == 0.0:
            continue
        base, anybody = victims.slot[q, BASE], False
        for at in range(victims.slot[q, ALIVE], victims.slot[q, LISTED]):
            v = victims.job[base + at, LIST]
            if victims.job[v, SKIP] == prey.counts[CLOCK] or snapshot.jobs.priority[v] >= ceiling:
                continue
            anybody = True
            if alike:
                like = likeness_of(v, like, snapshot, state, finder, prey)
                alike = like != NULL
            for t in range(snapshot.jobs.task_ptr[v], snapshot.jobs.task_ptr[v + 1]):
                if IS_PIPELINED <= state.task[t, STATUS] <= IS_RUNNING:
                    enlist(v, q, snapshot.classes.quota[tasks.cls[t]], settings, snapshot, prey)
        alike = alike and (not anybody or keeps_limits(q, snapshot, state.book))
    alike = alike and like != NULL and is_full(like, snapshot, state, finder)
    prey.counts[ALIKE] = like + 1 if alike else 0
    prey.counts[WEIGHED] = 1
    nobody = all_stay(p, settings, snapshot, state, waiting, prey)
    own = snapshot.jobs.queue[p]
    for q in range(parent.shape[0]):
        if queue[q, LAST] > 0.0:
            _, side = diverge(own, q, parent)
            queue[q, SHIELDED] = queue[side, STAYS]
    return nobody


@inner
def may_leave(p: int, settings: Settings, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey) -> bool:
    """Whether some victim of the scenario, in which nobody is recorded, may stay away for good."""
    jobs, tasks = snapshot.jobs, snapshot.tasks
    exposed = False
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        exposed = exposed or prey.queue[jobs.queue[tasks.job[t]], SHIELDED] == 0.0
    if not exposed:
        return False
    clear(prey)
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        j = tasks.job[t]
        enlist(j, jobs.queue[j], snapshot.classes.quota[tasks.cls[t]], settings, snapshot, prey)
    return not all_stay(p, settings, snapshot, state, waiting, prey)


@inner
def clear(prey: Prey) -> None:
    """Nobody is away."""
    for q in range(prey.queue.shape[0]):
        prey.queue[q, LAST] = 0.0
        prey.queue[q, SMALLEST] = np.inf
        for r in range(3):
            prey.queue[q, AWAY + r] = 0.0
            prey.queue[q, MOST + r] = 0.0


@inner
def enlist(v: int, q: int, price: Floats, settings: Settings, snapshot: Snapshot, prey: Prey) -> None:
    """Note that a task of job ``v`` of leaf ``q`` may be away: what it holds, and the last such job of the leaf."""
    queue, priority = prey.queue, snapshot.jobs.priority
    for r in range(3):
        queue[q, AWAY + r] += price[r]
    if price[GPU] > 0.0:
        queue[q, SMALLEST] = min(queue[q, SMALLEST], price[GPU])
    last = int(queue[q, LAST]) - 1
    if last == NULL or (
        priority[v] < priority[last] if settings.priority_order == 1 and priority[v] != priority[last] else v > last
    ):
        queue[q, LAST] = v + 1.0


@inner
def all_stay(p: int, settings: Settings, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey) -> bool:
    """Whether of all that are enlisted nobody can stay away for good. Sets STAYS beside the path of ``p``.

    From the leaf upwards: who below ``a`` may be away makes it come earlier, who stays away makes it hold less.
    """
    queue, queues, parent = prey.queue, snapshot.queues, snapshot.queues.parent
    for q in range(parent.shape[0] - 1, -1, -1):
        if queue[q, LAST] > 0.0 and parent[q] != NULL:
            queue[parent[q], LAST] = 1.0
            queue[parent[q], SMALLEST] = min(queue[parent[q], SMALLEST], queue[q, SMALLEST])
            for r in range(3):
                queue[parent[q], AWAY + r] += queue[q, AWAY + r]
    a = snapshot.jobs.queue[p]
    above = parent[a]
    while above != NULL:
        queue[above, LAST] = 0.0
        above = parent[above]
    if prey.counts[ALIKE] > 0:
        ask_most(a, settings, snapshot, state, waiting, prey)
        ask_before(p, settings, snapshot, waiting, prey)
    ask = (queue[a, MOST], queue[a, MOST + 1], queue[a, MOST + 2])
    away, gone, nobody = (0.0, 0.0, 0.0), 0.0, True
    while a != NULL:
        row = parent[a] if parent[a] != NULL else parent.shape[0]
        absent, lost = away, gone
        for child in range(queues.child_ptr[row], queues.child_ptr[row + 1]):
            b = queues.child[child]
            if b == a or queue[b, LAST] == 0.0:
                continue
            back = prey.counts[ALIKE] > 0 and come_first(b, a, ask, absent, snapshot, state, waiting, prey)
            held = prey.counts[LACKING] == 1 and not may_lose_one(
                a, b, lost, queue[b, SMALLEST], settings, snapshot, state.book, prey
            )
            queue[b, STAYS] = 1.0 if back or held else 0.0
            if not back:
                away = (away[0] + queue[b, AWAY], away[1] + queue[b, AWAY + 1], away[2] + queue[b, AWAY + 2])
            if not (back or held):
                nobody = False
            if settings.consolidating_reclaim == 0 or not (back or held):
                gone += queue[b, AWAY + GPU]
        a = parent[a]
    return nobody


@inner
def come_first(
    b: int,
    a: int,
    ask: tuple[float, float, float],
    absent: tuple[float, float, float],
    snapshot: Snapshot,
    state: State,
    waiting: Lineup,
    prey: Prey,
) -> bool:
    """Whether all victims below ``b`` come before a job below its sibling ``a`` on whose way there is this ``ask``.

    Below ``a`` so much may be ``absent``.
    """
    book, amount = state.book, waiting.amount
    held = (book[a, HELD], book[a, HELD + 1], book[a, HELD + 2])
    for r in range(3):
        amount[a, ASK + r] = ask[r]
        book[a, HELD + r] = held[r] - absent[r]
    overdraw(b, snapshot, waiting, prey)
    first = goes_first(b, a, book, amount, ASK)
    for r in range(3):
        book[a, HELD + r] = held[r]
    return first


@inner
def overdraw(b: int, snapshot: Snapshot, waiting: Lineup, prey: Prey) -> None:
    """Let ``b`` ask for the most by which it can pass what it holds now on the way to its last victim.

    While one is away, ``b`` holds less by a pod at least.
    """
    price = snapshot.classes.quota[prey.counts[ALIKE] - 1]
    for r in range(3):
        waiting.amount[b, ASK + r] = max(0.0, prey.queue[b, MOST + r] - price[r])


@inner
def ask_most(own: int, settings: Settings, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey) -> None:
    """Set MOST of each queue with victims: the most that one who waits asks for before the last victim below."""
    queue, queues, parent = prey.queue, snapshot.queues, snapshot.queues.parent
    for q in range(parent.shape[0] - 1, -1, -1):
        if queue[q, LAST] == 0.0:
            continue
        if queues.child_ptr[q] == queues.child_ptr[q + 1]:
            ask_in_leaf(q, settings, snapshot, waiting, prey)
            continue
        worst = NULL
        for child in range(queues.child_ptr[q], queues.child_ptr[q + 1]):
            c = queues.child[child]
            if queue[c, LAST] > 0.0:
                overdraw(c, snapshot, waiting, prey)
                if worst == NULL or goes_first(worst, c, state.book, waiting.amount, ASK):
                    worst = c
                for r in range(3):
                    queue[q, MOST + r] = max(queue[q, MOST + r], queue[c, MOST + r])
        for leaf in range(parent.shape[0]):
            if queues.child_ptr[leaf] != queues.child_ptr[leaf + 1] or leaf == own:
                continue
            c = leaf
            while c != NULL and parent[c] != q:
                c = parent[c]
            if c != NULL:
                ask_until(leaf, c, worst, q, snapshot, state, waiting, prey)


@inner
def ask_in_leaf(q: int, settings: Settings, snapshot: Snapshot, waiting: Lineup, prey: Prey) -> None:
    """Set MOST of leaf ``q`` to the most that one asks for who waits before its last victim."""
    priority = snapshot.jobs.priority
    base, at, v = waiting.slot[q, BASE], waiting.slot[q, ALIVE], int(prey.queue[q, LAST]) - 1
    while at < waiting.slot[q, LISTED]:
        j = waiting.job[base + at, LIST]
        if settings.priority_order == 1 and priority[j] != priority[v]:
            before = priority[j] > priority[v]
        else:
            before = j < v and (settings.elastic_order == 0 or waiting.job[j, STAGE] == BELOW_MINIMUM)
        if not before:
            break
        for r in range(3):
            prey.queue[q, MOST + r] = max(prey.queue[q, MOST + r], waiting.held[j, r])
        at = waiting.job[base + at, RUN_END]


@inner
def ask_until(
    leaf: int, c: int, worst: int, q: int, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey
) -> None:
    """Raise MOST of ``q`` by what those ask for who wait in a leaf below its child ``c`` and come before ``worst``."""
    amount = waiting.amount
    base, at = waiting.slot[leaf, BASE], waiting.slot[leaf, ALIVE]
    if c != worst:
        overdraw(worst, snapshot, waiting, prey)
    while at < waiting.slot[leaf, LISTED]:
        j = waiting.job[base + at, LIST]
        at = waiting.job[base + at, RUN_END]
        if c == worst:
            # its own way was the worst with what it asks for there: with as much of everything it comes later
            later = True
            for r in range(3):
                most = prey.queue[c, MOST + r] - snapshot.classes.quota[prey.counts[ALIKE] - 1, r]
                later = later and waiting.held[j, r] >= most
        else:
            for r in range(3):
                amount[c, ASK + r] = waiting.held[j, r]
            later = goes_first(worst, c, state.book, amount, ASK)
        if later:
            break
        for r in range(3):
            prey.queue[q, MOST + r] = max(prey.queue[q, MOST + r], waiting.held[j, r])


@inner
def ask_before(p: int, settings: Settings, snapshot: Snapshot, waiting: Lineup, prey: Prey) -> None:
    """Set MOST of the queue of job ``p`` to what it asks for at some time before the turn of ``p``, if not in it."""
    priority, own = snapshot.jobs.priority, snapshot.jobs.queue[p]
    queue, price = prey.queue, snapshot.classes.quota[snapshot.tasks.cls[prey.wish[0]]]
    for r in range(3):
        queue[own, MOST + r] = price[r]
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
