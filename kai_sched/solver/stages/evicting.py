"""Consolidation, reclaim and preempt: jobs that wait look for others that make room (semantics 4 to 6)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Help, Settings, Snapshot, Turn, Verdict
from kai_sched.solver.hunt import (
    ALIVE,
    BASE,
    CAST,
    CLOCK,
    DEAD,
    FEASIBLE,
    LIST,
    LISTED,
    N_CAST,
    OPEN,
    RESTRICTED,
    RUNTIMES,
    SKIP,
    WORK,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.attempt import count_pending, foresee
from kai_sched.solver.kernels.carry_out import carry_out
from kai_sched.solver.kernels.fairness import (
    any_runtime,
    diverge,
    has_quota_for,
    is_elastic,
    is_protected,
    keep_books,
    note_short,
)
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.kernels.gates import keeps_quota
from kai_sched.solver.kernels.likeness import is_easier, remember_failure
from kai_sched.solver.kernels.minimal_search import find_few
from kai_sched.solver.kernels.order import plant, pop_job, show_job
from kai_sched.solver.kernels.pool import fill_pool, in_leaf
from kai_sched.solver.kernels.search import search
from kai_sched.solver.state import (
    ABLE,
    COUNT,
    FAIR,
    HELD,
    HELD_FIXED,
    QUOTA,
    SHARE,
    Decisions,
    Finder,
    Log,
    Scratch,
    State,
    Tree,
)

OK = int(Verdict.OK)
NO_CHUNK = int(Verdict.NO_CHUNK)
NO_HELP = int(Verdict.NO_HELP)
GANG_NOT_READY = int(Verdict.GANG_NOT_READY)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
PREEMPT = int(Action.PREEMPT)
LATER = int(Turn.LATER)
HELPED = int(Help.HELPED)
DELAYED = int(Help.DELAYED)
NOT_PREEMPTIBLE = int(Help.NOT_PREEMPTIBLE)
OVER_SHARE = int(Help.OVER_SHARE)
OVER_QUOTA = int(Help.OVER_QUOTA)
LIKE_ANOTHER = int(Help.LIKE_ANOTHER)
NO_ROOM = int(Help.NO_ROOM)
NOBODY = int(Help.NOBODY)
TOO_LONG = int(Help.TOO_LONG)
EVERYBODY = 2**62


@kernel
def make_room(
    action: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    tree: Tree,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
    decisions: Decisions,
) -> None:
    """Run one action: each job that waits is looked at once, the fairest queue first."""
    if not enlist_seekers(action, settings, snapshot, state, log, tree, scratch, decisions):
        return
    fill_pool(settings, snapshot, state, log, finder, scratch, waiting, victims, prey)
    prey.failed[:] = NULL
    prey.counts[WORK] = 0
    prey.counts[RUNTIMES] = any_runtime(settings, snapshot.queues)
    jobs, idle = snapshot.jobs, idle_gpus(action, snapshot, state)
    while True:
        p = pop_job(settings, snapshot.queues, jobs.priority, tree, state.book)
        if p == NULL:
            break
        length = next_chunk(jobs.set_ptr[p], jobs.set_ptr[p + 1], snapshot.sets, state, log, scratch)
        log.size[:] = 0
        if length == 0:
            continue  # a search for another job took it along and gave it what it asked for
        help_code = look_first(action, p, length, idle, settings, snapshot, state, log, finder, scratch, victims, prey)
        if help_code == OK and prey.counts[WORK] > settings.most_work:
            help_code = TOO_LONG
        elif help_code == OK:
            help_code = hunt(
                action, p, length, settings, snapshot, state, log, finder, scratch, waiting, victims, prey, decisions
            )
            if help_code == HELPED:
                look_again(snapshot, state, log, tree, scratch, prey)
                idle = idle_gpus(action, snapshot, state)
            elif help_code != TOO_LONG:
                remember_failure(p, action == CONSOLIDATION, settings, snapshot, state, log, scratch, prey)
        decisions.help[p, action] = help_code
        if help_code == HELPED:
            decisions.verdict[p] = OK
        elif decisions.verdict[p] == OK:
            decisions.verdict[p] = NO_HELP


@inner
def enlist_seekers(
    action: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    tree: Tree,
    scratch: Scratch,
    decisions: Decisions,
) -> bool:
    """Put the jobs that the action may help into the tree; the others are told why not. False where there are none."""
    jobs, queues, sets = snapshot.jobs, snapshot.queues, snapshot.sets
    any_seeker = False
    for j in range(jobs.queue.shape[0]):
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        if jobs.turn[j] == LATER or count_pending(first, end, state.sets) == 0:
            continue
        if jobs.refused[j] != OK or not in_leaf(j, snapshot):
            decisions.verdict[j] = jobs.refused[j]
            continue
        foresee(j, first, end, sets, snapshot.classes.quota, snapshot.tasks.cls, state, log, tree, scratch)
        if scratch.survey[first, ABLE] == 0:
            decisions.verdict[j] = NO_CHUNK if scratch.survey[first, COUNT] >= sets.minimum[first] else GANG_NOT_READY
            continue
        if action == CONSOLIDATION and jobs.preemptible[j] == 0:
            decisions.help[j, action] = NOT_PREEMPTIBLE
        elif settings.now < jobs.waits_until[j]:
            decisions.help[j, action] = DELAYED
        if decisions.help[j, action] != OK:
            if decisions.verdict[j] == OK:
                decisions.verdict[j] = NO_HELP
            continue
        q = jobs.queue[j]
        tree.job_heap[tree.job_ptr[q] + tree.job_size[q]] = j
        tree.job_size[q] += 1
        any_seeker = True
    depth = settings.preempt_depth
    if action == CONSOLIDATION:
        depth = settings.consolidation_depth
    elif action == RECLAIM:
        depth = settings.reclaim_depth
    if any_seeker:
        plant(depth, settings, queues, jobs, tree, state.book)
    return any_seeker


@inner
def look_first(
    action: int,
    p: int,
    length: int,
    idle: float,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    victims: Lineup,
    prey: Prey,
) -> int:
    """What can be told before any search; OK where a search is due. The chunk goes to ``prey.wish``.

    ``idle``: the GPUs that are free or will be (``idle_gpus``).
    """
    jobs, tasks, book = snapshot.jobs, snapshot.tasks, state.book
    q = jobs.queue[p]
    fixed = jobs.preemptible[p] == 0
    for r in range(3):
        scratch.need[r] = 0.0
    for entry in range(length):
        t = scratch.chunk[entry]
        prey.wish[entry] = t
        for r in range(3):
            scratch.need[r] += snapshot.classes.quota[tasks.cls[t], r]
    if action == RECLAIM:
        for r in range(3):
            if book[q, HELD + r] + scratch.need[r] > book[q, FAIR + r]:
                return OVER_SHARE
            if fixed and book[q, HELD_FIXED + r] + scratch.need[r] > book[q, QUOTA + r]:
                return OVER_QUOTA
    everywhere = action == CONSOLIDATION
    if settings.signatures == 1 and not is_easier(p, everywhere, settings, snapshot, state, log, scratch, prey):
        return LIKE_ANOTHER
    for entry in range(length):
        if finder.refused[tasks.cls[prey.wish[entry]]] != OK:
            return NO_ROOM
    if action == PREEMPT and fixed and not keeps_quota(q, scratch.need, snapshot.queues.parent, book):
        return OVER_QUOTA
    if action == PREEMPT and settings.priority_order == 1:
        slot = victims.slot[q]
        # listed the lowest priority first
        least = victims.job[slot[BASE] + slot[ALIVE], LIST] if slot[ALIVE] < slot[LISTED] else NULL
        if least == NULL or jobs.priority[least] >= jobs.priority[p]:
            return NOBODY
    if scratch.need[GPU] > 0.0 and idle < scratch.need[GPU]:
        return NO_ROOM
    return OK


@inner
def idle_gpus(action: int, snapshot: Snapshot, state: State) -> float:
    """How many GPUs are free on the nodes that may be used, or will be once others have left.

    Infinity for other actions than consolidation, whose victims leave for good: what is free does not bound the wish.
    """
    if action != CONSOLIDATION:
        return np.inf
    idle = 0.0
    for n in range(state.idle.shape[0]):
        if snapshot.nodes.condition[n] == OK:
            idle += state.idle[n, GPU] + state.releasing[n, GPU]
    return idle


@inner
def hunt(
    action: int,
    p: int,
    length: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    waiting: Lineup,
    victims: Lineup,
    prey: Prey,
    decisions: Decisions,
) -> int:
    """Search for victims for job ``p``, and carry out what was found; returns a Help."""
    prey.counts[CLOCK] += 1
    ceiling = choose_victims(action, p, settings, snapshot, state, scratch, victims, prey)
    if settings.minimal == 0:
        bound_nodes(p, snapshot, state, prey)
    keep_books(state.book, prey.queue)
    note_short(length, settings, snapshot, state, prey)
    if settings.minimal == 1:
        help_code = find_few(action, p, length, ceiling, settings, snapshot, state, log, finder, scratch, victims, prey)
    else:
        help_code = search(
            action, p, length, ceiling, settings, snapshot, state, log, finder, scratch, waiting, victims, prey
        )
    if help_code == HELPED:
        carry_out(action, p, settings, snapshot, state, log, finder, scratch, waiting, victims, prey, decisions)
    return help_code


@inner
def look_again(snapshot: Snapshot, state: State, log: Log, tree: Tree, scratch: Scratch, prey: Prey) -> None:
    """Note what those that took part in the last search ask for now, as far as they still wait for their turn."""
    jobs, sets, classes = snapshot.jobs, snapshot.sets, snapshot.classes
    for entry in range(prey.counts[N_CAST]):
        j = prey.lists[CAST, entry]
        q = jobs.queue[j]
        if tree.job_size[q] > 0:
            first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
            foresee(j, first, end, sets, classes.quota, snapshot.tasks.cls, state, log, tree, scratch)
            show_job(q, snapshot.queues, tree)


@inner
def choose_victims(
    action: int,
    p: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    scratch: Scratch,
    victims: Lineup,
    prey: Prey,
) -> int:
    """Open the queues of possible victims and mark jobs that are protected; returns the priority to be below."""
    jobs, queues = snapshot.jobs, snapshot.queues
    clock, own = prey.counts[CLOCK], jobs.queue[p]
    for q in range(queues.parent.shape[0]):
        is_open = True
        if action == PREEMPT:
            is_open = q == own
        elif action == RECLAIM:
            is_leaf = queues.child_ptr[q] == queues.child_ptr[q + 1]
            is_open = q != own and is_leaf and may_lose(own, q, snapshot, state, scratch)
        prey.queue[q, OPEN] = 1.0 if is_open else 0.0
    if victims.job[p, SKIP] != DEAD:
        victims.job[p, SKIP] = clock
    by_priority = action == PREEMPT and settings.priority_order == 0
    by_runtime = action != CONSOLIDATION and prey.counts[RUNTIMES] == 1
    if by_priority or by_runtime:
        for j in range(jobs.queue.shape[0]):
            if victims.job[j, SKIP] == DEAD:
                continue
            protected = by_runtime and is_protected(action, p, j, settings, snapshot, prey)
            if (protected and not is_elastic(j, snapshot)) or (by_priority and jobs.priority[j] >= jobs.priority[p]):
                victims.job[j, SKIP] = clock
    return int(jobs.priority[p]) if action == PREEMPT and settings.priority_order == 1 else EVERYBODY


@inner
def may_lose(own: int, q: int, snapshot: Snapshot, state: State, scratch: Scratch) -> bool:
    """Whether something may be taken from leaf ``q`` for leaf ``own``, which needs ``scratch.need`` (4.2)."""
    reclaimer, victim = diverge(own, q, snapshot.queues.parent)
    book = state.book
    deserved = has_quota_for(reclaimer, scratch.need, book)
    over_share, above, below = False, False, False
    for r in range(3):
        over_share = over_share or book[victim, HELD + r] > book[victim, SHARE + r]
        if scratch.need[r] > 0.0 and book[victim, QUOTA + r] < np.inf:
            above = above or book[victim, HELD + r] > book[victim, QUOTA + r]
            below = below or book[victim, HELD + r] < book[victim, QUOTA + r]
    return (above or not below) if deserved else over_share


@inner
def bound_nodes(p: int, snapshot: Snapshot, state: State, prey: Prey) -> None:
    """Note whether the search is for GPUs only, and then which nodes have any."""
    jobs, tasks = snapshot.jobs, snapshot.tasks
    restricted = 1
    for t in range(jobs.task_ptr[p], jobs.task_ptr[p + 1]):
        if snapshot.classes.cpu_only[tasks.cls[t]] == 1:
            restricted = 0
    prey.counts[RESTRICTED] = restricted
    if restricted == 1:
        for n in range(state.idle.shape[0]):
            prey.node[n, FEASIBLE] = state.idle[n, GPU] > 0.0 or state.releasing[n, GPU] > 0.0
