"""May these victims go? Shares (reclaim), places (consolidation), minimum runtimes (semantics 4.7, 6, 11.1)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Floats, Ints, Longs, Queues, Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    CAST,
    CORE,
    FIRST_SCENE,
    HOME,
    IN_SCENE,
    INVOLVED,
    N_CAST,
    N_SCENE,
    OLD_FIXED,
    OLD_HELD,
    PLAYS,
    PRESENCE,
    PRESENT,
    PRIOR,
    REMAINS,
    RUNTIMES,
    SCENE,
    SHORT,
    TIMES,
    Prey,
)
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.state import FAIR, HELD, HELD_FIXED, NODE, QUOTA, SHARE, STATUS, State

OK = int(Verdict.OK)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
IS_EVICTED = int(Status.EVICTED)
IS_PIPELINED = int(Status.PIPELINED)
IS_STUCK = int(Status.STUCK_IN_RELEASING)


@inner
def keep_books(book: Floats, queue: Floats) -> None:
    """Copy what queues hold: the validator weighs the shares from before the simulation."""
    for q in range(queue.shape[0]):
        for r in range(3):
            queue[q, OLD_HELD + r] = book[q, HELD + r]
            queue[q, OLD_FIXED + r] = book[q, HELD_FIXED + r]


@inner
def is_valid(action: int, p: int, k: int, settings: Settings, snapshot: Snapshot, state: State, prey: Prey) -> bool:
    """Whether the scenario that was rehearsed with success may be carried out."""
    if action == CONSOLIDATION:
        for entry in range(prey.counts[N_SCENE]):
            if state.task[prey.lists[SCENE, entry], STATUS] == IS_EVICTED:
                return False
        return bool(moved_jobs(prey, state) <= settings.most_moved)
    if not keeps_runtimes(action, p, settings, snapshot, state, prey):
        return False
    return action != RECLAIM or keeps_shares(p, k, settings, snapshot, state, prey)


@inner
def moved_jobs(prey: Prey, state: State) -> int:
    """How many jobs lose or move a pod."""
    moved = 0
    for entry in range(prey.counts[N_CAST] - 1):
        t = prey.job[prey.lists[CAST, entry], FIRST_SCENE]
        while t != 0 and not has_gone(t - 1, state, prey):
            t = prey.task[t - 1, IN_SCENE]
        moved += t != 0
    return moved


@inner
def has_gone(t: int, state: State, prey: Prey) -> bool:
    """Whether a victim is not where it was before the simulation."""
    return bool(state.task[t, STATUS] != prey.task[t, PRIOR] or state.task[t, NODE] != prey.task[t, HOME])


@kernel
def diverge(a: int, b: int, parent: Ints) -> tuple[int, int]:
    """The ancestors-or-selves of leaves ``a`` and ``b`` at the first level where their paths from the root differ."""
    depth_a, depth_b = depth_of(a, parent), depth_of(b, parent)
    while depth_a > depth_b:
        a, depth_a = parent[a], depth_a - 1
    while depth_b > depth_a:
        b, depth_b = parent[b], depth_b - 1
    while parent[a] != parent[b]:
        a, b = parent[a], parent[b]
    return a, b


@inner
def has_quota_for(q: int, need: Floats, book: Floats) -> bool:
    """Whether the queue with ``need`` (3,) more is within its quota in every resource."""
    for r in range(3):  # noqa: SIM110 -- numba compiles no generators
        if book[q, HELD + r] + need[r] > book[q, QUOTA + r]:
            return False
    return True


@inner
def depth_of(q: int, parent: Ints) -> int:
    """How many queues stand above ``q``."""
    depth = 0
    while parent[q] != NULL:
        q, depth = parent[q], depth + 1
    return depth


@inner
def keeps_shares(p: int, k: int, settings: Settings, snapshot: Snapshot, state: State, prey: Prey) -> bool:
    """The reclaim validator (4.7). The last task or gang taken may push its queue below its share, none after it."""
    queue, parent = prey.queue, snapshot.queues.parent
    n_queues = parent.shape[0]
    need = wished_amount(k, snapshot, prey)
    prey.counts[PRESENCE] += 1
    now = prey.counts[PRESENCE]
    for entry in range(prey.counts[N_CAST] - 1):
        queue[snapshot.jobs.queue[prey.lists[CAST, entry]], PLAYS] = now
    for place in range(n_queues):
        # each leaf takes all its jobs of the scenario
        q = int(snapshot.queues.by_uid[place])
        if queue[q, PLAYS] != now:
            continue
        for entry in range(prey.counts[N_CAST] - 1):
            j = prey.lists[CAST, entry]
            if snapshot.jobs.queue[j] == q and not take_job(p, need, j, q, settings, snapshot, state, prey):
                return False
    u = snapshot.jobs.queue[p]
    while u != NULL:
        if not stays_behind(p, k, u, settings, snapshot, state.book, prey):
            return False
        u = parent[u]
    return True


@inner
def may_lose_one(
    a: int, b: int, lost: float, smallest: float, settings: Settings, snapshot: Snapshot, book: Floats, prey: Prey
) -> bool:
    """Whether the validator could let queue ``b`` lose a task with GPUs for the first of the wish, below its sibling.

    At best it is one with the ``smallest`` number of them, and the sibling, ``a``, has ``lost`` as many.
    """
    mine = ratio(book[a, HELD + GPU] - lost + wished(1, GPU, snapshot, prey), book[a, FAIR + GPU])
    theirs = ratio(book[b, HELD + GPU] - smallest, book[b, FAIR + GPU])
    return bool(mine <= 1.0 or book[b, FAIR + GPU] <= 0.0 or mine * settings.saturation < theirs)


@inner
def take_job(
    p: int,
    need: tuple[float, float, float],
    j: int,
    q: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    prey: Prey,
) -> bool:
    """Take what job ``j`` of leaf ``q`` loses, surplus tasks one by one, then the rest together; False: not allowed.

    A task counts as often as the scenario names it.
    """
    sets, cls = snapshot.sets, snapshot.tasks.cls
    for s in range(snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]):
        prey.set[s, CORE] = 0
    core = (0.0, 0.0, 0.0)
    has_core = False
    t = prey.job[j, FIRST_SCENE] - 1
    while t >= 0:
        leaves = state.task[t, STATUS] == IS_EVICTED or settings.consolidating_reclaim == 0
        if leaves and (settings.minimal == 0 or has_gone(t, state, prey)):
            s = snapshot.tasks.set[t]
            price = snapshot.classes.quota[cls[t]]
            for _ in range(prey.task[t, TIMES]):
                if prey.set[s, CORE] < sets.minimum[s]:
                    prey.set[s, CORE] += 1
                    core = (core[0] + price[0], core[1] + price[1], core[2] + price[2])
                    has_core = True
                elif not take_amount(p, need, q, (price[0], price[1], price[2]), snapshot, state.book, prey):
                    return False
        t = prey.task[t, IN_SCENE] - 1
    return not has_core or take_amount(p, need, q, core, snapshot, state.book, prey)


@inner
def may_lose_more(
    p: int, need: tuple[float, float, float], v: int, snapshot: Snapshot, book: Floats, prey: Prey
) -> bool:
    """Whether one more chunk may be taken from leaf ``v``, however much it holds."""
    queue = prey.queue
    reclaimer, victim = diverge(snapshot.jobs.queue[p], v, snapshot.queues.parent)
    over_share, over_quota, deserved = False, False, True
    for r in range(3):
        left = queue[victim, REMAINS + r if queue[victim, PRESENT] == prey.counts[PRESENCE] else OLD_HELD + r]
        over_share = over_share or left > book[victim, SHARE + r]
        over_quota = over_quota or (prey.counts[SHORT + r] == 1 and left > book[victim, QUOTA + r])
        deserved = deserved and queue[reclaimer, OLD_HELD + r] + need[r] <= book[reclaimer, QUOTA + r]
    return bool(over_share or (deserved and over_quota))


@inner
def take_amount(
    p: int,
    need: tuple[float, float, float],
    v: int,
    amount: tuple[float, float, float],
    snapshot: Snapshot,
    book: Floats,
    prey: Prey,
) -> bool:
    """Take one chunk from leaf ``v`` and all above it, if the queue where the paths part is still above its share."""
    queue, parent = prey.queue, snapshot.queues.parent
    if not may_lose_more(p, need, v, snapshot, book, prey):
        return False
    while v != NULL:
        if queue[v, PRESENT] != prey.counts[PRESENCE]:
            queue[v, PRESENT] = prey.counts[PRESENCE]
            for r in range(3):
                queue[v, REMAINS + r] = queue[v, OLD_HELD + r]
                queue[v, INVOLVED + r] = 0.0
        for r in range(3):
            queue[v, REMAINS + r] -= amount[r]
            if amount[r] > 0.0:
                queue[v, INVOLVED + r] = 1.0
        v = parent[v]
    return True


@inner
def note_short(k: int, settings: Settings, snapshot: Snapshot, state: State, prey: Prey) -> None:
    """Note the resources of which a queue that is within its quotas may take from one above (4.7, the second rule).

    All, or, with minimal victims, those that the first ``k`` tasks of the wish ask for and some node lacks: who is
    above a quota of what there is plenty of has nothing that others need, and they would take from each other in turn.
    """
    for r in range(3):
        need = wished(k, r, snapshot, prey)
        short = settings.minimal == 0
        for n in range(state.idle.shape[0]):
            if short or need == 0.0:
                break
            short = snapshot.nodes.condition[n] == OK and state.idle[n, r] + state.releasing[n, r] < need
        prey.counts[SHORT + r] = short


@inner
def wished(k: int, r: int, snapshot: Snapshot, prey: Prey) -> float:
    """How much of resource ``r`` the first ``k`` tasks of the wish ask for."""
    amount = 0.0
    for entry in range(k):
        amount += snapshot.classes.quota[snapshot.tasks.cls[prey.wish[entry]], r]
    return amount


@inner
def wished_amount(k: int, snapshot: Snapshot, prey: Prey) -> tuple[float, float, float]:
    """What the first ``k`` tasks of the wish ask for."""
    return wished(k, 0, snapshot, prey), wished(k, 1, snapshot, prey), wished(k, 2, snapshot, prey)


@inner
def ratio(amount: float, share: float) -> float:
    """How far a share is used."""
    if share == np.inf:
        return 0.0
    if share == 0.0:
        return np.inf if amount > 0.0 else 0.0
    return amount / share


@inner
def stays_behind(p: int, k: int, u: int, settings: Settings, snapshot: Snapshot, book: Floats, prey: Prey) -> bool:
    """Whether queue ``u``, the reclaimer's or one above, may grow: not past a sibling that it takes from (4.7, 2)."""
    queue, parent = prey.queue, snapshot.queues.parent
    fixed = snapshot.jobs.preemptible[p] == 0
    for r in range(3):
        req = wished(k, r, snapshot, prey)
        if fixed and queue[u, OLD_FIXED + r] + req > book[u, QUOTA + r]:
            return False
        after = queue[u, REMAINS + r if queue[u, PRESENT] == prey.counts[PRESENCE] else OLD_HELD + r] + req
        mine = ratio(after, book[u, FAIR + r])
        if mine <= 1.0:
            continue
        for s in range(parent.shape[0]):
            if s == u or parent[s] != parent[u] or queue[s, PRESENT] != prey.counts[PRESENCE]:
                continue
            if not (req > 0.0 or queue[s, INVOLVED + r] == 1.0):
                continue
            # Two queues without any share could take the same room from each other in turn, for ever.
            if book[s, FAIR + r] <= 0.0 and (settings.minimal == 0 or book[u, FAIR + r] > 0.0):
                continue
            if mine * settings.saturation >= ratio(queue[s, REMAINS + r], book[s, FAIR + r]):
                return False
    return True


@inner
def runtime_of(q: int, own: Longs, otherwise: int, parent: Ints) -> int:
    """The nearest value that is set from queue ``q`` upwards, else ``otherwise`` (11.1)."""
    while q != NULL:
        if own[q] != NULL:
            return int(own[q])
        q = parent[q]
    return otherwise


@inner
def any_runtime(settings: Settings, queues: Queues) -> bool:
    """Whether some minimum runtime is set anywhere."""
    if settings.min_runtime == 0:
        return False
    if settings.preempt_runtime > 0 or settings.reclaim_runtime > 0:
        return True
    for q in range(queues.parent.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if queues.preempt_runtime[q] > 0 or queues.reclaim_runtime[q] > 0:
            return True
    return False


@inner
def is_protected(action: int, p: int, j: int, settings: Settings, snapshot: Snapshot, prey: Prey) -> bool:
    """Whether job ``j`` started too lately to be evicted for job ``p``."""
    queues, jobs = snapshot.queues, snapshot.jobs
    if prey.counts[RUNTIMES] == 0 or jobs.last_start[j] == 0:
        return False
    parent, q = queues.parent, jobs.queue[j]
    if action != RECLAIM:
        value = runtime_of(q, queues.preempt_runtime, settings.preempt_runtime, parent)
    else:
        if settings.reclaim_by_ancestor == 1:
            # the victim's queue just below the common ancestor; a root queue where there is none
            _, q = diverge(jobs.queue[p], q, parent)
        value = runtime_of(q, queues.reclaim_runtime, settings.reclaim_runtime, parent)
    return bool(settings.now < jobs.last_start[j] + value)


@inner
def is_elastic(j: int, snapshot: Snapshot) -> bool:
    """Whether some pod set has more pods than its minimum."""
    sets = snapshot.sets
    for s in range(snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]):
        is_pod_set = sets.child_ptr[s] == sets.child_end[s]
        if is_pod_set and sets.task_ptr[s + 1] - sets.task_ptr[s] > sets.minimum[s]:
            return True
    return False


@inner
def keeps_runtimes(action: int, p: int, settings: Settings, snapshot: Snapshot, state: State, prey: Prey) -> bool:
    """Whether protected jobs keep their minimums; those that are evicted already still count here."""
    sets, jobs = snapshot.sets, snapshot.jobs
    if prey.counts[RUNTIMES] == 0:
        return True
    for entry in range(prey.counts[N_CAST] - 1):
        j = prey.lists[CAST, entry]
        if not is_protected(action, p, j, settings, snapshot, prey):
            continue
        for s in range(jobs.set_ptr[j], jobs.set_ptr[j + 1]):
            prey.set[s, CORE] = 0
        t = prey.job[j, FIRST_SCENE] - 1
        while t >= 0:
            prey.set[snapshot.tasks.set[t], CORE] += settings.minimal == 0 or has_gone(t, state, prey)
            t = prey.task[t, IN_SCENE] - 1
        for s in range(jobs.set_ptr[j], jobs.set_ptr[j + 1]):
            if prey.set[s, CORE] == 0:
                continue
            used = 0
            for t in range(sets.task_ptr[s], sets.task_ptr[s + 1]):
                status = state.task[t, STATUS]
                used += IS_PIPELINED <= status <= IS_STUCK or status == IS_EVICTED
            if used - prey.set[s, CORE] < sets.minimum[s]:
                return False
    return True
