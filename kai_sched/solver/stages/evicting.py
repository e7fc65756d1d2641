"""The actions consolidation, reclaim and preempt: which pending jobs get a search, in which order, and which queues and
jobs may lose pods to each (semantics 4 to 6).

The search for victims is the package ``solver.eviction``, whose front page says how it goes. The three actions differ
in

- the pending job: reclaim asks that its queue stays within the fair share (4.1), preempt that a non-preemptible job
  stays within the quota (5), consolidation that the job is preemptible and enough GPUs are free somewhere (6);
- the victims: jobs of other queues that have more than they are due (4.2), jobs of the same queue with a lower priority
  (5), or jobs of all queues, which must get another place (6).

Cost: one search for each job that ``reason_not_to_search`` lets pass; its own checks cost no more than the chunks of
two jobs and a path of queues. The searches of an action together end after ``settings.search_work`` (4.8). Invariant:
after each job the undo log is empty. A job for which no search succeeded has changed nothing but ``decisions`` and the
memory of failures.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Amounts, Help, Snapshot, Turn
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.commit import commit_scenario
from kai_sched.solver.eviction.minimal.search import find_minimal_victims
from kai_sched.solver.eviction.original.search import find_original_victims
from kai_sched.solver.eviction.preemptor import lacking_gpus, requested_amounts, requested_gpus
from kai_sched.solver.eviction.rules.blocked_devices import is_entitled, note_blocked
from kai_sched.solver.eviction.rules.losses import begin_losses, keep_old_shares, sides_of
from kai_sched.solver.eviction.rules.runtimes import any_runtime, is_elastic, is_protected
from kai_sched.solver.eviction.rules.shares import is_above, is_above_share, is_short, note_scarce, stays_within_quota
from kai_sched.solver.eviction.similar_jobs import is_easier, remember_failure
from kai_sched.solver.eviction.tables import DEAD, Preemptor, Search
from kai_sched.solver.eviction.victims.candidates import in_leaf, list_once
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.attempt import append_job, count_pending, has_next_chunk, note_next_request
from kai_sched.solver.kernels.claims.search import has_claims, may_have_devices
from kai_sched.solver.kernels.gang import next_chunk
from kai_sched.solver.kernels.gates import ROUNDING, keeps_quota
from kai_sched.solver.kernels.order import build_job_tree, pop_job, update_leaf
from kai_sched.solver.kernels.share import lacks_steady_share
from kai_sched.solver.state import Context, State, Tree

OK = int(Verdict.OK)
NO_HELP = int(Verdict.NO_HELP)
CONSOLIDATION = int(Action.CONSOLIDATION)
RECLAIM = int(Action.RECLAIM)
PREEMPT = int(Action.PREEMPT)
LATER = int(Turn.LATER)
BACKGROUND = int(Turn.BACKGROUND)
HELPED = int(Help.HELPED)
DELAYED = int(Help.DELAYED)
NOT_PREEMPTIBLE = int(Help.NOT_PREEMPTIBLE)
OVER_SHARE = int(Help.OVER_SHARE)
OVER_QUOTA = int(Help.OVER_QUOTA)
LIKE_ANOTHER = int(Help.LIKE_ANOTHER)
NO_ROOM = int(Help.NO_ROOM)
NO_VICTIMS = int(Help.NO_VICTIMS)
TOO_LONG = int(Help.TOO_LONG)
NO_CEILING = 2**62
STEPS_OF_WORK = 256  # a loop over devices takes so many steps in the time of a unit of ``search_work``


@kernel
def make_room(action: int, ctx: Context, tree: Tree, search: Search) -> None:
    """Run one action: each pending job is tried once, the fairest queue first (4.1, 5, 6).

    Writes ``decisions.help`` (J, 4), a ``Help`` for each job that was tried, and ``decisions.verdict`` (J,): OK if the
    job got room, NO_HELP if no other reason stands there. ``eviction.commit`` writes evictions and placements.

    Parameters
    ----------
    action : CONSOLIDATION, RECLAIM or PREEMPT
    tree : empty heaps (``allocation.make_tree``) for the pending jobs
    search : tables of the search; what concerns the cycle (``settled``, ``left_node``, ``overpaid``) is kept between
        actions, the rest is overwritten
    """
    settings, snapshot, state, decisions = ctx.settings, ctx.snapshot, ctx.state, ctx.decisions
    if not enqueue_pending_jobs(action, ctx, tree):
        return
    counts = search.counts
    counts.action[0], counts.work[0], counts.listed[0] = action, 0, 0
    search.failed[:] = NULL
    search.counts.runtimes[0] = any_runtime(settings, snapshot.queues)
    idle = idle_gpus(action, snapshot, state)
    while True:  # Bound: each turn takes one job out of the tree, for good.
        p = pop_job(ctx, tree)
        if p == NULL:
            break
        length = next_chunk(p, ctx)
        ctx.log.size[:] = 0
        # A search for another job placed this one as well, so it asks for nothing any more.
        if length == 0:
            continue
        help_code = reason_not_to_search(action, p, length, idle, ctx, search)
        if help_code == OK:
            list_once(ctx, search)
            # Jobs after the one that used up the budget get their turn in the next cycle (4.8): they have not failed.
            help_code = TOO_LONG if counts.work[0] > settings.search_work else OK
        if help_code == OK:
            help_code = search_for_victims(action, p, length, ctx, search)
            if help_code == HELPED:
                # The search may have placed or moved pods of other jobs, which ask for something else now.
                refresh_contenders(ctx, tree, search)
                idle = idle_gpus(action, snapshot, state)
            elif help_code != TOO_LONG:
                remember_failure(p, action == CONSOLIDATION, ctx, search)
        decisions.help[p, action] = help_code
        if help_code == HELPED:
            decisions.verdict[p] = OK
        elif decisions.verdict[p] == OK:
            decisions.verdict[p] = NO_HELP


@inner
def enqueue_pending_jobs(action: int, ctx: Context, tree: Tree) -> bool:
    """Put the jobs that the action may help into ``tree``, and build it.

    The others get their reason now, in ``decisions.verdict`` (J,) or ``decisions.help`` (J, 4): no usable queue, no
    chunk, NOT_PREEMPTIBLE (consolidation moves pods only for preemptible jobs), or DELAYED (11.4, or others have their
    turn in a search round). Each leaf keeps as many jobs as the queue depth of the action allows (3.1).

    Returns
    -------
    bool : whether any job is in the tree; if not, the action is done
    """
    settings, snapshot, state, decisions = ctx.settings, ctx.snapshot, ctx.state, ctx.decisions
    jobs = snapshot.jobs
    found = False
    for j in range(jobs.queue.shape[0]):
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        if jobs.turn[j] == LATER or jobs.turn[j] == BACKGROUND or count_pending(first, end, state.sets) == 0:
            continue
        if jobs.refused[j] != OK or not in_leaf(j, snapshot):
            decisions.verdict[j] = jobs.refused[j]
            continue
        if not has_next_chunk(j, ctx, tree):
            continue
        if action == CONSOLIDATION and jobs.preemptible[j] == 0:
            decisions.help[j, action] = NOT_PREEMPTIBLE
        elif settings.now < jobs.waits_until[j]:
            decisions.help[j, action] = DELAYED
        if decisions.help[j, action] != OK:
            if decisions.verdict[j] == OK:
                decisions.verdict[j] = NO_HELP
            continue
        append_job(j, jobs.queue[j], tree)
        found = True
    depth = settings.preempt_depth
    if action == CONSOLIDATION:
        depth = settings.consolidation_depth
    elif action == RECLAIM:
        depth = settings.reclaim_depth
    if found:
        build_job_tree(depth, ctx, tree)
    return found


@inner
def reason_not_to_search(action: int, p: int, length: int, idle: float, ctx: Context, search: Search) -> int:
    """Return why no search for job ``p`` is due, as a ``Help``; OK (0) if one is due (4.1, 5, 6).

    In order: the gate of reclaim (OVER_SHARE, OVER_QUOTA), a similar job that failed (LIKE_ANOTHER), a task that no
    node can take (NO_ROOM), the quota gate of preempt (OVER_QUOTA), no victim of lower priority, too few GPUs
    (NO_ROOM).

    Parameters
    ----------
    action : CONSOLIDATION, RECLAIM or PREEMPT
    p : row of the job
    length : tasks of its chunk. The chunk is copied from ``scratch.chunk`` to ``search.pending``, as later checks
        overwrite the former; ``scratch.need`` gets the sum of its ``classes.quota`` (C, 3)
    idle : GPUs that are free or will be, inf if that is no bound (``idle_gpus``)
    """
    settings, snapshot, scratch = ctx.settings, ctx.snapshot, ctx.scratch
    jobs, tasks, book = snapshot.jobs, snapshot.tasks, ctx.state.book
    q = jobs.queue[p]
    fixed = jobs.preemptible[p] == 0
    for r in range(3):
        scratch.need[r] = 0.0
    for entry in range(length):
        t = scratch.chunk[entry]
        search.pending[entry] = t
        for r in range(3):
            scratch.need[r] += snapshot.classes.quota[tasks.cls[t], r]
    if action == RECLAIM:
        if not is_within_share(q, ctx) and not is_below_steady_share(q, ctx):
            return OVER_SHARE
        for r in range(3):
            if fixed and book.held_fixed[q, r] + scratch.need[r] - ROUNDING > book.quota[q, r]:
                return OVER_QUOTA
    everywhere = action == CONSOLIDATION
    if settings.signatures == 1 and not is_easier(p, everywhere, ctx, search):
        return LIKE_ANOTHER
    for entry in range(length):
        c = int(tasks.cls[search.pending[entry]])
        if ctx.finder.refused[c] != OK or not some_node_has_devices(c, ctx, search):
            return NO_ROOM
    if action == PREEMPT and fixed and not keeps_quota(q, scratch.need, snapshot.queues.parent, book):
        return OVER_QUOTA
    if action == PREEMPT and settings.priority_order == 1:
        list_once(ctx, search)
        slot = search.victims.heap
        # The list of a leaf has the lowest priority first. If that is not below the priority of ``p``, none is.
        least = search.victims.jobs.listed[slot.base[q] + slot.begin[q]] if slot.begin[q] < slot.end[q] else NULL
        if least == NULL or jobs.priority[least] >= jobs.priority[p]:
            return NO_VICTIMS
    gpus = requested_gpus(length, snapshot, search)
    return NO_ROOM if gpus > 0.0 and idle < gpus else OK


@inner
def is_within_share(q: int, ctx: Context) -> bool:
    """Return whether queue ``q`` stays within its fair share with ``scratch.need`` (3,): the gate of reclaim (4.1).

    All three resources are checked, also those that the chunk does not request.
    """
    book, need = ctx.state.book, ctx.scratch.need
    for r in range(3):  # noqa: SIM110 -- numba compiles no generators
        if book.held[q, r] + need[r] - ROUNDING > book.fair[q, r]:
            return False
    return True


@inner
def is_below_steady_share(q: int, ctx: Context) -> bool:
    """Return whether queue ``q`` may reclaim ``scratch.need`` (3,), if GPUs are in it, by its steady share (4.9)."""
    return lacks_steady_share(q, ctx.state.book.held, ctx.scratch.need[GPU], ctx.state.book)


@inner
def some_node_has_devices(c: int, ctx: Context, search: Search) -> bool:
    """Return whether some node has the devices that claims of class ``c`` ask for, whoever has them now; True without
    claims.

    Reads ``finder.verdicts`` (K, N). The steps count as work, ``search.counts.work``.
    """
    if not has_claims(c, ctx):
        return True
    verdicts, found, steps = ctx.finder.verdicts[ctx.snapshot.classes.signature[c]], False, 0
    for n in range(verdicts.shape[0]):
        if verdicts[n] == OK and not found:
            found = may_have_devices(c, n, ctx)
            steps += ctx.scratch.picks.length[2]
    search.counts.work[0] += steps // STEPS_OF_WORK
    return found


@inner
def idle_gpus(action: int, snapshot: Snapshot, state: State) -> float:
    """Return how many GPUs are free on ready nodes, or will be; inf for other actions than consolidation (6).

    Sums idle and releasing, (N, R); an overcommitted node counts negative. Consolidation needs as many as the chunk
    requests, as moves do not add to the sum: each victim takes as many GPUs of a ready node as it leaves. The victims
    of other actions leave for good, so what is free is no bound for them.
    """
    if action != CONSOLIDATION:
        return np.inf
    idle = 0.0
    for n in range(state.idle.shape[0]):
        if snapshot.nodes.condition[n] == OK:
            idle += state.idle[n, GPU] + state.releasing[n, GPU]
    return idle


@inner
def search_for_victims(action: int, p: int, length: int, ctx: Context, search: Search) -> int:
    """Search for victims for job ``p`` (4.5), and commit what was found.

    Queues are judged by what they held before the simulation, which is copied to ``search.queues.old_held`` (Q, 3).
    ``settings.minimal`` selects the search. If none is found, everything has been undone.

    Parameters
    ----------
    action : CONSOLIDATION, RECLAIM or PREEMPT
    p : row of the job
    length : tasks of its chunk, the first entries of ``search.pending``

    Returns
    -------
    int : a ``Help``: HELPED, TOO_LONG (the budget of 4.8 ended the search), or why nothing was found
    """
    need, q, help_code = requested_amounts(length, ctx.snapshot, search), ctx.snapshot.jobs.queue[p], OVER_SHARE
    for r in range(3):
        ctx.scratch.need[r] = need[r]
    by_steady_share = action == RECLAIM and is_below_steady_share(q, ctx)
    if action != RECLAIM or is_within_share(q, ctx):
        help_code = search_once(action, p, length, need, ctx, search)
    if by_steady_share and help_code != HELPED and help_code != TOO_LONG:
        ctx.scratch.steady[0] = 1
        found = search_once(action, p, length, need, ctx, search)
        ctx.scratch.steady[0] = 0
        help_code = found if found in (HELPED, TOO_LONG) else help_code
    if help_code == HELPED:
        commit_scenario(action, p, ctx, search)
    return help_code


@inner
def search_once(action: int, p: int, length: int, need: Amounts, ctx: Context, search: Search) -> int:
    """Search once for victims for job ``p``, by the shares that ``scratch.steady`` says; return a ``Help``.

    Parameters as in ``search_for_victims``; ``need`` (3,) is what the tasks request. On HELPED the solution is
    simulated, else all is undone.
    """
    search.counts.clock[0] += 1
    keep_old_shares(ctx.state.book, search.queues)
    if action == RECLAIM:
        note_blocked(length, ctx, search)
    begin_losses(search)
    ceiling = choose_victims(action, p, need, ctx, search)
    note_scarce(length, ctx, search)
    lacking = lacking_gpus(length, ctx, search)
    preemptor = Preemptor(action, p, length, ceiling, need, lacking, False)
    if ctx.settings.minimal == 1:
        return find_minimal_victims(preemptor, ctx, search)
    return find_original_victims(preemptor, ctx, search)


@inner
def refresh_contenders(ctx: Context, tree: Tree, search: Search) -> None:
    """Update ``tree.request`` (J, 3) of the jobs that took part in the last search and are still in the tree.

    Their position in the heap of their leaf does not change (lazy sorting, 3.1).
    """
    snapshot = ctx.snapshot
    jobs = snapshot.jobs
    for entry in range(search.counts.jobs[0]):
        j = search.lists.jobs[entry]
        q = jobs.queue[j]
        if tree.job_size[q] > 0:
            note_next_request(j, ctx, tree)
            update_leaf(q, ctx, tree)


@inner
def choose_victims(action: int, p: int, need: Amounts, ctx: Context, search: Search) -> int:
    """Mark which queues and jobs may lose pods to job ``p`` (4.2, 5, 6).

    Writes ``search.queues.is_open`` (Q,): reclaim opens other leaves from which shares allow to take, preempt the leaf
    of ``p`` alone, consolidation all. Jobs that are excluded from this search alone, ``p`` among them, get the number
    of the search in ``search.victims.jobs.skip`` (J,). DEAD entries, jobs that are no victims in this action, stay.

    Returns
    -------
    int : victims have a lower priority than this: that of ``p`` for preempt, whose lists are sorted by priority; else
        NO_CEILING, which excludes no job
    """
    settings, snapshot = ctx.settings, ctx.snapshot
    jobs, queues = snapshot.jobs, snapshot.queues
    clock, own = search.counts.clock[0], jobs.queue[p]
    for q in range(queues.parent.shape[0]):
        is_open = True
        if action == PREEMPT:
            is_open = q == own
        elif action == RECLAIM:
            is_leaf = queues.child_ptr[q] == queues.child_ptr[q + 1]
            is_open = q != own and is_leaf and has_something_to_give(own, q, need, ctx, search)
        search.queues.is_open[q] = 1 if is_open else 0
    if search.victims.jobs.skip[p] != DEAD:
        search.victims.jobs.skip[p] = clock
    # Without the plugin priority the lists are not sorted by priority, so each job is compared by itself.
    by_priority = action == PREEMPT and settings.priority_order == 0
    by_runtime = action != CONSOLIDATION and search.counts.runtimes[0] == 1
    if by_priority or by_runtime:
        for j in range(jobs.queue.shape[0]):
            if search.victims.jobs.skip[j] == DEAD:
                continue
            protected = by_runtime and is_protected(action, p, j, ctx, search)
            # A protected elastic job may give its surplus (11.1); the validator checks that it keeps its minimums.
            if (protected and not is_elastic(j, snapshot)) or (by_priority and jobs.priority[j] >= jobs.priority[p]):
                search.victims.jobs.skip[j] = clock
    return int(jobs.priority[p]) if action == PREEMPT and settings.priority_order == 1 else NO_CEILING


@inner
def has_something_to_give(own: int, q: int, need: Amounts, ctx: Context, search: Search) -> bool:
    """Return whether victims may come from leaf ``q`` for leaf ``own`` in reclaim, by what their queues hold (4.2).

    Compared are the sides, where the paths from the root to the leaves part. If the side of ``own`` has quota for the
    chunk, ``need``, the other must be above its quota in a resource of the chunk, or below it in none. If not, the
    other must hold more than its allocatable share of some resource. By steady shares (4.9) the side of ``own`` must
    hold fewer GPUs than it may keep, and the other more.

    Reads ``queues.old_held`` (Q, 3), ``queues.blocked`` (Q,) and ``book.quota`` (Q + 1, 3).
    """
    u, v = sides_of(own, q, ctx.snapshot.queues.parent)
    if ctx.scratch.steady[0] == 1:
        return is_short(u, need, ctx, search) and is_above(search.queues.old_held[v, GPU], ctx.state.book.keep[v, GPU])
    if not stays_within_quota(u, need, ctx, search):
        return is_above_share(v, ctx, search)
    held, quota, above, below = search.queues.old_held, ctx.state.book.quota, False, False
    for r in range(3):
        if need[r] > 0.0 and quota[v, r] < np.inf:
            above = above or is_above(held[v, r], quota[v, r])
            below = below or held[v, r] < quota[v, r]
    if need[GPU] > 0.0 and is_entitled(u, ctx, search):
        above = above or is_above(held[v, GPU] + search.queues.blocked[v], quota[v, GPU] + ROUNDING)
    return above or not below
