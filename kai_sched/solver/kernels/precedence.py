"""The proof that those who would be evicted are back, or may not stay away, when the wish has its turn (4.5, 4.7).

In a simulation victims and the wish compete in the order of queues. Where the leaf of a victim, beside that of the
wish, comes first as long as the victim waits, it is placed again before the wish is; where the shares let the wish take
nothing from a queue, whoever of it stays away makes the scenario invalid. If one or the other holds for all, nothing is
left for the wish. What is shown is for its first task and without recorded victims: without it there is no second.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Longs, Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    ALIKE,
    ALIVE,
    ASK,
    AWAY,
    BASE,
    CLOCK,
    FEWEST,
    FIRST_SCENE,
    HERD_AWAY,
    HERD_FEWEST,
    HERD_KNOWN,
    HERD_LAST,
    HERD_LIKE,
    HERD_MOVED,
    HERD_SMALLEST,
    IN_SCENE,
    KIND_NOW,
    LACKING,
    LAST,
    LEFT_NODE,
    LIST,
    LISTED,
    LOCAL,
    N_SCENE,
    OPEN,
    RUN_END,
    RUNTIMES,
    SCENE,
    SCENE_CLOCK,
    SCENE_NODE,
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
from kai_sched.solver.kernels.accumulate import is_overcommitted, slots_now
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
    queue, herd, parent = prey.queue, prey.herd, snapshot.queues.parent
    clear(prey)
    like, moved = NULL, False
    alike = prey.kind[0, KIND_NOW] == 0
    for q in range(parent.shape[0]):
        if queue[q, OPEN] == 0.0:
            continue
        if herd[q, HERD_KNOWN] == 0.0 or prey.counts[RUNTIMES] == 1:
            survey(q, settings, snapshot, state, finder, victims, prey)
        if herd[q, HERD_LAST] == 0.0:
            continue
        queue[q, AWAY], queue[q, LAST] = herd[q, HERD_AWAY], herd[q, HERD_LAST]
        moved = moved or herd[q, HERD_MOVED] > 0.0
        queue[q, SMALLEST], queue[q, FEWEST] = herd[q, HERD_SMALLEST], herd[q, HERD_FEWEST]
        kind = int(herd[q, HERD_LIKE]) - 1
        alike = alike and kind != NULL and keeps_limits(q, snapshot, state.book)
        alike = alike and (like == NULL or are_alike(kind, like, snapshot))
        like = kind
    alike = alike and like != NULL and is_full(like, snapshot, state, finder)
    prey.counts[ALIKE] = like + 1 if alike else 0
    prey.counts[WEIGHED] = 1
    nobody = all_stay(p, settings, snapshot, state, waiting, prey)
    for q in range(parent.shape[0]):
        if queue[q, OPEN] == 1.0 and queue[q, LAST] > 0.0:
            _, side = diverge(snapshot.jobs.queue[p], q, parent)
            queue[q, SHIELDED] = queue[side, STAYS]
    return nobody and not moved


@inner
def survey(
    q: int, settings: Settings, snapshot: Snapshot, state: State, finder: Finder, victims: Lineup, prey: Prey
) -> None:
    """Note in ``prey.herd`` what the possible victims of leaf ``q`` hold and whether they are alike."""
    jobs, herd = snapshot.jobs, prey.herd[q]
    base, like, anybody = victims.slot[q, BASE], NULL, False
    herd[HERD_MOVED] = 0.0
    for at in range(victims.slot[q, ALIVE], victims.slot[q, LISTED]):
        v = victims.job[base + at, LIST]
        if victims.job[v, SKIP] == prey.counts[CLOCK]:
            continue
        if like != NULL or not anybody:
            like = likeness_of(v, like, snapshot, state, finder, prey)
        anybody = True
        pods = 0
        for t in range(jobs.task_ptr[v], jobs.task_ptr[v + 1]):
            if IS_PIPELINED <= state.task[t, STATUS] <= IS_RUNNING:
                pods += 1
                enlist(t, q, snapshot, prey)
                herd[HERD_MOVED] += prey.task[t, LEFT_NODE] != 0
        enter(v, q, pods, settings, jobs.priority, prey.queue)
    herd[HERD_AWAY], herd[HERD_LAST] = prey.queue[q, AWAY], prey.queue[q, LAST]
    herd[HERD_SMALLEST], herd[HERD_FEWEST] = prey.queue[q, SMALLEST], prey.queue[q, FEWEST]
    herd[HERD_LIKE], herd[HERD_KNOWN] = like + 1.0, 1.0


@inner
def may_leave(p: int, settings: Settings, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey) -> bool:
    """Whether some victim of the scenario, in which nobody is recorded, may stay away for good."""
    jobs, tasks = snapshot.jobs, snapshot.tasks
    exposed = False
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        if prey.counts[LOCAL] == 1 and has_two_homes(t, snapshot, state, prey):
            return True
        exposed = exposed or prey.queue[jobs.queue[tasks.job[t]], SHIELDED] == 0.0
    if not exposed:
        return False
    clear(prey)
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        j = tasks.job[t]
        q = jobs.queue[j]
        enlist(t, q, snapshot, prey)
        if prey.job[j, FIRST_SCENE] == t + 1:
            enter(j, q, count_scene(j, prey), settings, jobs.priority, prey.queue)
    return not all_stay(p, settings, snapshot, state, waiting, prey)


@inner
def count_scene(j: int, prey: Prey) -> int:
    """How many tasks of job ``j`` the scenario has."""
    length, t = 0, prey.job[j, FIRST_SCENE]
    while t != 0:
        length, t = length + 1, prey.task[t - 1, IN_SCENE]
    return length


@inner
def has_two_homes(t: int, snapshot: Snapshot, state: State, prey: Prey) -> bool:
    """Whether task ``t`` may go back to the node that it left before, so that it takes no room at all (``evict.lay``).

    There is room on that node if there is now, or where somebody leaves it in this scenario.
    """
    left = prey.task[t, LEFT_NODE] - 1
    if left == NULL:
        return False
    if prey.node[left, SCENE_NODE] == prey.counts[SCENE_CLOCK]:
        return True
    request = snapshot.classes.request[snapshot.tasks.cls[t]]
    return slots_now(request, state.idle[left], state.releasing[left]) > 0


@inner
def clear(prey: Prey) -> None:
    """Nobody is away."""
    for q in range(prey.queue.shape[0]):
        prey.queue[q, LAST] = 0.0
        prey.queue[q, AWAY] = 0.0
        prey.queue[q, SMALLEST] = np.inf
        prey.queue[q, FEWEST] = np.inf


@inner
def enlist(t: int, q: int, snapshot: Snapshot, prey: Prey) -> None:
    """Note that task ``t`` of leaf ``q`` may be away."""
    gpus = snapshot.classes.quota[snapshot.tasks.cls[t], GPU]
    prey.queue[q, AWAY] += gpus
    if gpus > 0.0:
        prey.queue[q, SMALLEST] = min(prey.queue[q, SMALLEST], gpus)


@inner
def enter(v: int, q: int, pods: int, settings: Settings, priority: Longs, queue: Floats) -> None:
    """Note that job ``v`` of leaf ``q`` may be away, with so many ``pods``, and whether it is the last of its leaf."""
    queue[q, FEWEST] = min(queue[q, FEWEST], pods)
    last = int(queue[q, LAST]) - 1
    if last == NULL:
        later = True
    elif settings.priority_order == 1 and priority[v] != priority[last]:
        later = priority[v] < priority[last]
    else:
        later = v > last
    if later:
        queue[q, LAST] = v + 1.0


@inner
def all_stay(p: int, settings: Settings, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey) -> bool:
    """Whether of all that are enlisted nobody can stay away for good. Sets STAYS beside the path of ``p``.

    From the leaf upwards, as whoever stays away below a queue makes it hold less.
    """
    queue, queues, parent = prey.queue, snapshot.queues, snapshot.queues.parent
    for q in range(parent.shape[0] - 1, -1, -1):
        if queue[q, LAST] > 0.0 and parent[q] != NULL:
            queue[parent[q], LAST] = 1.0
            queue[parent[q], SMALLEST] = min(queue[parent[q], SMALLEST], queue[q, SMALLEST])
            queue[parent[q], AWAY] += queue[q, AWAY]
    own = snapshot.jobs.queue[p]
    a, gone, nobody = own, 0.0, True
    if prey.counts[ALIKE] > 0:
        ask_before(p, settings, snapshot, waiting, prey)
    while a != NULL:
        row = parent[a] if parent[a] != NULL else parent.shape[0]
        lost = gone
        for child in range(queues.child_ptr[row], queues.child_ptr[row + 1]):
            b = queues.child[child]
            if b == a or queue[b, LAST] == 0.0:
                continue
            beside = a == own and queues.child_ptr[b] == queues.child_ptr[b + 1]
            stays = beside and prey.counts[ALIKE] > 0 and come_first(b, a, settings, snapshot, state, waiting, prey)
            if not stays and prey.counts[LACKING] == 1:
                stays = not may_lose_one(a, b, lost, queue[b, SMALLEST], settings, snapshot, state.book, prey)
            queue[b, STAYS] = 1.0 if stays else 0.0
            nobody = nobody and stays
            if settings.consolidating_reclaim == 0 or not stays:
                gone += queue[b, AWAY]
        a = parent[a]
    return nobody


@inner
def come_first(
    b: int, own: int, settings: Settings, snapshot: Snapshot, state: State, waiting: Lineup, prey: Prey
) -> bool:
    """Whether all victims of leaf ``b`` come before the wish of its sibling ``own``, which ``ask_before`` was for.

    What ``b`` asks for on the way to its last victim counts; it holds less as long as one of them is away.
    """
    priority, amount = snapshot.jobs.priority, waiting.amount
    base, at, v = waiting.slot[b, BASE], waiting.slot[b, ALIVE], int(prey.queue[b, LAST]) - 1
    price = snapshot.classes.quota[prey.counts[ALIKE] - 1]
    for r in range(3):
        amount[b, ASK + r] = 0.0
    while at < waiting.slot[b, LISTED]:
        j = waiting.job[base + at, LIST]
        if not waits_before(j, v, settings, priority, waiting):
            break
        for r in range(3):
            amount[b, ASK + r] = max(amount[b, ASK + r], waiting.held[j, r] - prey.queue[b, FEWEST] * price[r])
        at = waiting.job[base + at, RUN_END]
    return goes_first(b, own, state.book, amount, ASK)


@inner
def ask_before(p: int, settings: Settings, snapshot: Snapshot, waiting: Lineup, prey: Prey) -> None:
    """Let the queue of job ``p`` ask for what it asks for at some time before the turn of ``p``, if not in it."""
    priority, own = snapshot.jobs.priority, snapshot.jobs.queue[p]
    amount, price = waiting.amount, snapshot.classes.quota[snapshot.tasks.cls[prey.wish[0]]]
    for r in range(3):
        amount[own, ASK + r] = price[r]
    for at in range(waiting.slot[own, ALIVE], waiting.slot[own, LISTED]):
        j = waiting.job[waiting.slot[own, BASE] + at, LIST]
        if waits_before(j, p, settings, priority, waiting):
            more = True
            for r in range(3):
                more = more and waiting.held[j, r] >= amount[own, ASK + r]
            if more:
                for r in range(3):
                    amount[own, ASK + r] = waiting.held[j, r]


@inner
def waits_before(j: int, other: int, settings: Settings, priority: Longs, waiting: Lineup) -> bool:
    """Whether job ``j`` comes before job ``other`` where that is below its minimum (1.3), and so at any stage of it."""
    if settings.priority_order == 1 and priority[j] != priority[other]:
        return bool(priority[j] > priority[other])
    return j < other and (settings.elastic_order == 0 or waiting.job[j, STAGE] == BELOW_MINIMUM)


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
        if not are_alike(c, like, snapshot) or finder.verdicts[classes.signature[c], n] != OK:
            return NULL
        for r in range(classes.request.shape[1]):
            if classes.request[c, r] > snapshot.nodes.allocatable[n, r]:
                return NULL
    return like


@inner
def are_alike(c: int, like: int, snapshot: Snapshot) -> bool:
    """Whether pods of the two classes take the same room on the same nodes."""
    classes = snapshot.classes
    if classes.signature[c] != classes.signature[like]:
        return False
    for r in range(classes.request.shape[1]):  # noqa: SIM110 -- numba compiles no generators
        if classes.request[c, r] != classes.request[like, r]:
            return False
    return True


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
        idle, releasing = state.idle[n], state.releasing[n]
        if slots_now(classes.request[like], idle, releasing) > 0 or is_overcommitted(idle, releasing):
            return False
    return True
