"""Simulate a minimal scenario: evict the chosen chunks, place the preemptor, and let victims return that can."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Bond, Snapshot, TermKind, Verdict
from kai_sched.solver.eviction.evict import evict, place_in_search
from kai_sched.solver.eviction.retake import keep_last, who_retakes
from kai_sched.solver.eviction.scenarios import add_to_scenario
from kai_sched.solver.eviction.simulation import count_at_home, within_limits
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.validate import is_valid
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node, put
from kai_sched.solver.kernels.fit import fits_later
from kai_sched.solver.kernels.gang import count_returning, next_return, take_off
from kai_sched.solver.kernels.score import judge_placed, nobody_matches
from kai_sched.solver.kernels.undo import add_integer, rollback, undo_all
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
RECLAIM = int(Action.RECLAIM)
MATCH = int(Bond.MATCH)
REQUIRED = int(TermKind.REQUIRED)


@inner
def chunk_end(g: int, search: Search) -> int:
    """Where chunk ``g`` ends in the list of potential victims."""
    last = g + 1 == search.counts.batches[0]
    return int(search.counts.potential[0] if last else search.lists.chunk_start[g + 1])


@inner
def simulate(action: int, p: int, k: int, ctx: Context, search: Search) -> bool:
    """Whether the chosen chunks make room for the ``k`` pending tasks and may leave; if so it stays simulated."""
    snapshot = ctx.snapshot
    ctx.log.size[:] = 0
    search.counts.retaken[0] = 0
    gather(p, snapshot, ctx.state, search)
    search.counts.work[0] += search.counts.scenario[0] + k
    for entry in range(search.counts.scenario[0]):
        evict_victim(search.lists.scenario[entry], ctx, search)
    search.counts.placed[0] = 0
    good = place_preemptor(p, k, ctx, search)
    if good:
        for moving in (False, True):
            for entry in range(search.counts.jobs[0] - 2, -1, -1):
                return_job(search.lists.jobs[entry], moving, ctx, search)
        good = is_valid(action, p, k, ctx, search)
        if good and action == RECLAIM:
            q = who_retakes(p, k, ctx, search)
            good = q == NULL
            if not good:
                search.counts.retaken[0] = keep_last(q, snapshot, search)
    if not good:
        undo_all(ctx)
    return good


@inner
def gather(p: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Make the scenario of the chosen chunks, and list the jobs that take part, ``p`` last."""
    count, lists = search.counts, search.lists
    count.scenario_clock[0] += 1
    count.scenario[0] = 0
    count.jobs[0] = 0
    for entry in range(count.chosen[0]):
        g = lists.chosen[entry]
        for at in range(lists.chunk_start[g], chunk_end(g, search)):
            t = lists.potential[at]
            j = snapshot.tasks.job[t]
            if search.jobs.scenario_mark[j] != count.scenario_clock[0]:
                lists.jobs[count.jobs[0]] = j
                count.jobs[0] += 1
            add_to_scenario(t, g, 1, snapshot, state, search)
    lists.jobs[count.jobs[0]] = p
    count.jobs[0] += 1


@inner
def evict_victim(t: int, ctx: Context, search: Search) -> None:
    """Evict a task. Nobody can be near it any more, but it is in the way of those that must not be near it."""
    evict(ctx.snapshot.tasks.job[t], t, 1, ctx, search)
    count_as_near(t, -1, ctx, search)


@inner
def restore_victim(t: int, ctx: Context, search: Search) -> None:
    """Take back that a task was sent away."""
    place_in_search(ctx.snapshot.tasks.job[t], t, search.tasks.home[t], ctx, search)
    count_as_near(t, 1, ctx, search)


@inner
def count_as_near(t: int, sign: int, ctx: Context, search: Search) -> None:
    """Count a task at its home for those that require to be near it; ``sign`` -1: no longer."""
    snapshot, state = ctx.snapshot, ctx.state
    c, n = snapshot.tasks.cls[t], search.tasks.home[t]
    if n == NULL or ctx.finder.dynamic[c] == 0:
        return
    bonds, terms = snapshot.bonds, snapshot.terms
    for entry in range(bonds.ptr[c], bonds.ptr[c + 1]):
        row = bonds.entry[entry, 1]
        if bonds.entry[entry, 0] != MATCH or terms.kind[row] != REQUIRED or terms.domain[row, n] == NULL:
            continue
        add_integer(state.at.matched + terms.domain[row, n], sign * bonds.entry[entry, 2], ctx)


@inner
def place_preemptor(p: int, k: int, ctx: Context, search: Search) -> bool:
    """Give the first ``k`` pending tasks of job ``p`` places: those chosen, where they are free, else others.

    False where one finds none, and some may have one.
    """
    for entry in range(k):
        ctx.scratch.chunk[entry] = search.pending[entry]
    if not within_limits(p, k, ctx):
        return False
    for entry in range(k):
        t = int(search.pending[entry])
        n = int(search.place[entry])
        if not takes(n, ctx.snapshot.tasks.cls[t], ctx):
            n = best_node(t, ctx)
        if n == NULL:
            return False
        pipeline_task(p, t, n, ctx, search)
    return True


@inner
def takes(n: int, c: int, ctx: Context) -> bool:
    """Whether node ``n`` takes a pod of class ``c``, now or later."""
    snapshot, state, finder = ctx.snapshot, ctx.state, ctx.finder
    classes = snapshot.classes
    if finder.verdicts[classes.signature[c], n] != OK or finder.refused[c] != OK:
        return False
    if not fits_later(classes.request[c], state.idle[n], state.releasing[n]):
        return False
    return finder.dynamic[c] == 0 or terms_allow(c, n, ctx)


@inner
def pipeline_task(j: int, t: int, n: int, ctx: Context, search: Search) -> None:
    """Put a task on node ``n``, where it waits."""
    put(j, t, n, True, ctx)
    search.lists.placed[search.counts.placed[0]] = t
    search.counts.placed[0] += 1


@inner
def return_job(j: int, moving: bool, ctx: Context, search: Search) -> None:
    """Let what job ``j`` has lost come back, chunk by chunk: to where it was, or, ``moving``, elsewhere, too.

    A chunk for one of which there is no room is made up of others then. What waited before gets nothing: that others
    leave is not for it.
    """
    snapshot, scratch = ctx.snapshot, ctx.scratch
    first, end = snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]
    count_returning(first, end, ctx)
    give_up_those_without_room(j, moving, ctx, search)
    while True:
        length = next_return(j, ctx)
        if length == 0:
            return
        t = return_chunk(j, length, moving, ctx, search)
        if t == NULL:
            for entry in range(length):
                take_off(scratch.chunk[entry], ctx)
            continue
        take_off(t, ctx)
        if moving and t == scratch.chunk[0] and lacks_room(t, moving, ctx, search):
            give_up_those_without_room(j, moving, ctx, search)


@inner
def give_up_those_without_room(j: int, moving: bool, ctx: Context, search: Search) -> None:
    """Ask no more for those of job ``j`` that find no room now: while others return there will not be more.

    Else each of them would be tried by itself. Most are of the same class as the one before.
    """
    snapshot, scratch = ctx.snapshot, ctx.scratch
    tasks = snapshot.tasks
    base, last, nowhere = snapshot.jobs.task_ptr[j], NULL, False
    for t in range(base, snapshot.jobs.task_ptr[j + 1]):
        if scratch.away[t - base] == 1:
            continue
        if ctx.finder.refused[tasks.cls[t]] == OK and fits_at_home(t, ctx, search):
            continue
        if tasks.cls[t] != last:
            last = tasks.cls[t]
            nowhere = lacks_room(t, moving, ctx, search)
        if nowhere:
            take_off(t, ctx)


@inner
def fits_at_home(t: int, ctx: Context, search: Search) -> bool:
    """Whether there is room for a task where it ran, as far as inter-pod terms and ports do not matter."""
    state, home = ctx.state, search.tasks.home[t]
    request = ctx.snapshot.classes.request[ctx.snapshot.tasks.cls[t]]
    return bool(home != NULL and fits_later(request, state.idle[home], state.releasing[home]))


@inner
def lacks_room(t: int, moving: bool, ctx: Context, search: Search) -> bool:
    """Whether an evicted task has no room, nor will have while others return; not sure of one with bonds or ports."""
    snapshot = ctx.snapshot
    c = snapshot.tasks.cls[t]
    if ctx.finder.refused[c] != OK:
        return True
    if fits_at_home(t, ctx, search):
        return False
    if not moving:
        return True
    alone = snapshot.bonds.ptr[c + 1] == snapshot.bonds.ptr[c]
    return bool(alone and best_node(t, ctx) == NULL)


@inner
def return_chunk(j: int, length: int, moving: bool, ctx: Context, search: Search) -> int:
    """Let all of a chunk that was evicted come back; returns a task for which there is no room, then nothing does."""
    log, scratch = ctx.log, ctx.scratch
    if not within_limits(j, length, ctx):
        return int(scratch.chunk[0])
    floats, integers, placed = log.size[0], log.size[1], search.counts.placed[0]
    for entry in range(length):
        t = int(scratch.chunk[entry])
        n = node_to_return_to(t, moving, ctx, search)
        if n == NULL:
            rollback(floats, integers, ctx)
            search.counts.placed[0] = placed
            return t
        if n == search.tasks.home[t]:
            restore_victim(t, ctx, search)
        else:
            pipeline_task(j, t, n, ctx, search)
    return NULL


@inner
def node_to_return_to(t: int, moving: bool, ctx: Context, search: Search) -> int:
    """Where an evicted task finds room: where it was, else, if it is ``moving``, the best node. NULL: nowhere."""
    finder = ctx.finder
    c, home = ctx.snapshot.tasks.cls[t], search.tasks.home[t]
    if finder.refused[c] != OK:
        return NULL
    apart = finder.dynamic[c] == 1
    if apart:
        count_at_home(t, -1, ctx, search)
        count_as_near(t, 1, ctx, search)
    n = NULL
    if fits_at_home(t, ctx, search):
        if not apart or terms_allow(c, home, ctx):
            n = int(home)
    if n == NULL and moving:
        n = best_node(t, ctx)
    if apart:
        count_as_near(t, -1, ctx, search)
        count_at_home(t, 1, ctx, search)
    return n


@inner
def terms_allow(c: int, n: int, ctx: Context) -> bool:
    """Whether inter-pod terms and host ports let a pod of class ``c`` be on node ``n``."""
    first = nobody_matches(c, ctx)
    return bool(judge_placed(c, n, first, ctx) == OK)
