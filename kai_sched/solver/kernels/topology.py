"""How a chunk is placed within topology domains: a frame for each set with a constraint, what is tried next after a
failure, and the nodes that the frames allow (semantics 3.3, 10.2, 10.4).

Who places a chunk calls ``begin_domains``, for each task ``enter_domains`` before it looks for a node, and after a
failure ``retreat``, which says from which task on to go on. The tasks of a set lie side by side in a chunk, so the sets
on the path to a task form a stack of frames, the outermost first. A set tries its domains one after another; each try
begins at the checkpoint of its frame. A set whose tasks are all placed is left as it is: if a later one fails, a set
above both tries its next domain.

Cost: for each domain that is tried the nodes in it, once for each task; at most VISITS_MAX nodes for an attempt.
Invariant: without frames nothing is restricted. They are closed when the chunk is placed or has failed.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.domain_sizes import ancestor
from kai_sched.solver.kernels.domains import domain_of, end_of_set, is_in_set, is_offered, list_domains
from kai_sched.solver.kernels.undo import rollback
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
NO_ROOM = int(Verdict.NO_ROOM)
NO_DOMAIN = int(Verdict.NO_DOMAIN)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
VISITS_MAX = 20_000_000


@inner
def begin_domains(ctx: Context) -> None:
    """Close all frames that are not suspended, before the first task of a chunk and after the last."""
    ctx.scratch.topology.size[0], ctx.scratch.topology.counts[0] = ctx.scratch.topology.size[1], 0


@inner
def suspend_domains(ctx: Context) -> int:
    """Let the open frames restrict nothing until ``resume_domains``, which gets the result."""
    topo = ctx.scratch.topology
    suspended = int(topo.size[1])
    topo.size[1] = topo.size[0]
    return suspended


@inner
def resume_domains(suspended: int, ctx: Context) -> None:
    """Let the frames count again that ``suspend_domains`` suspended."""
    topo = ctx.scratch.topology
    topo.size[0], topo.size[1] = topo.size[1], suspended


@inner
def has_frames(ctx: Context) -> bool:
    """Return whether topology constraints restrict the next task."""
    return bool(ctx.scratch.topology.size[0] > ctx.scratch.topology.size[1])


@inner
def enter_domains(entry: int, length: int, ctx: Context) -> int:
    """Open a frame for each set with a constraint that begins with the task at ``entry`` of the chunk.

    Frames of sets whose tasks are all placed are closed. ``scratch.chunk`` (L,) has ``length`` tasks.

    Returns
    -------
    int : a ``Verdict``: OK; what is wrong with a constraint, or NO_DOMAIN: ``blocked`` (3,) then has the set
    """
    topo, sets = ctx.scratch.topology, ctx.snapshot.sets
    if topo.set.shape[0] == 0:
        return OK
    leave_placed_sets(entry, ctx)
    while True:  # Bound: each turn opens a frame of a set on the path to the task.
        f = topo.size[0]
        found = set_to_enter(ctx.scratch.chunk[entry], ctx)
        if found == NULL:
            return OK
        if sets.fault[found] != OK:
            topo.blocked[0] = found
            return int(sets.fault[found])
        topo.end[f] = end_of_set(found, entry, length, ctx.scratch.chunk, ctx)
        begin_frame(f, found, entry, ctx)
        list_domains(f, ctx)
        if topo.n_candidates[f] == 0:
            return NO_DOMAIN
        topo.size[0] = f + 1


@inner
def leave_placed_sets(entry: int, ctx: Context) -> None:
    """Close the frames of sets of which all tasks are before ``entry``; ``end`` is by frame."""
    topo = ctx.scratch.topology
    while has_frames(ctx) and topo.end[topo.size[0] - 1] <= entry:  # Bound: the frames.
        topo.size[0] -= 1


@inner
def begin_frame(f: int, s: int, entry: int, ctx: Context) -> None:
    """Let frame ``f`` stand for set ``s``, whose tasks begin at ``entry``, from the present length of the log on."""
    topo = ctx.scratch.topology
    topo.set[f], topo.first[f] = s, entry
    topo.floats[f], topo.integers[f] = ctx.log.size[0], ctx.log.size[1]


@inner
def set_to_enter(t: int, ctx: Context) -> int:
    """Return the outermost set with a constraint above task ``t`` that has no frame yet, or NULL; ``sets`` are (S,)."""
    sets, topo, found = ctx.snapshot.sets, ctx.scratch.topology, NULL
    s, open_set = ctx.snapshot.tasks.set[t], topo.set[topo.size[0] - 1] if has_frames(ctx) else NULL
    while s != NULL and s != open_set:  # Bound: the depth of the tree.
        if sets.topology[s] != NULL or sets.fault[s] != OK:
            found = s
        s = sets.parent[s]
    return int(found)


@inner
def joins_others(t: int, n: int, ctx: Context) -> bool:
    """Return whether task ``t``, which ran on node ``n``, may stay there with what others of its sets were promised.

    It may not where that would spread a set over domains of a required level that it was not spread over before: where
    another pod got a place in a domain with no pod that stays, and no other pod is in the domain of ``n``.
    Cost: the tasks of the job, twice for each set above the task with a required level.
    """
    s, sets = ctx.snapshot.tasks.set[t], ctx.snapshot.sets
    if ctx.scratch.topology.set.shape[0] == 0:
        return True
    while s != NULL:  # Bound: the depth of the tree.
        if sets.topology[s] != NULL and sets.required[s] > 0 and spreads(s, t, n, ctx):
            return False
        s = sets.parent[s]
    return True


@inner
def spreads(s: int, t: int, n: int, ctx: Context) -> bool:
    """Return whether set ``s`` would be spread over more domains if task ``t`` stayed on node ``n``.

    Overwrites ``scratch.topology.holder`` (H,): the new ``counts[1]`` where a pod stays.
    """
    topo, snapshot, node = ctx.scratch.topology, ctx.snapshot, ctx.state.task.node
    j, own = snapshot.tasks.job[t], domain_of(s, n, ctx)
    topo.counts[1] += 1
    for other in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if other != t and is_active_in(other, s, ctx):
            h = domain_of(s, node[other], ctx)
            if h == own:
                return False
            if node[other] == snapshot.tasks.node[other] and h != NULL:
                topo.holder[h] = topo.counts[1]
    for other in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if other != t and is_active_in(other, s, ctx) and node[other] != snapshot.tasks.node[other]:
            h = domain_of(s, node[other], ctx)
            if h != NULL and topo.holder[h] != topo.counts[1]:
                return True
    return False


@inner
def is_active_in(t: int, s: int, ctx: Context) -> bool:
    """Return whether task ``t`` has a place and is in set ``s`` or one below it; ``state.task`` is (T,)."""
    if not IS_PIPELINED <= ctx.state.task.status[t] <= IS_RUNNING or ctx.state.task.node[t] == NULL:
        return False
    return is_in_set(ctx.snapshot.tasks.set[t], s, ctx)


@inner
def retreat(ctx: Context) -> int:
    """Go back to the innermost set that has another domain to try; return the entry of its first task in the chunk.

    What was placed since then is undone, by the undo log. NULL: no set has one; the caller undoes the rest.
    """
    topo = ctx.scratch.topology
    while has_frames(ctx):  # Bound: the frames.
        f = topo.size[0] - 1
        rollback(topo.floats[f], topo.integers[f], ctx)
        topo.tried[f] += 1
        if topo.tried[f] < topo.n_candidates[f] and topo.counts[0] < VISITS_MAX:
            return int(topo.first[f])
        topo.size[0] = f
    return NULL


@inner
def allows(n: int, ctx: Context) -> bool:
    """Return whether the open frames allow node ``n``."""
    return is_offered(n, ctx.scratch.topology.size[0], ctx)


@inner
def preferred_points(n: int, ctx: Context) -> float:
    """Return the points of node ``n``, which the frames allow, by the innermost set that prefers a level (10.3)."""
    topo, sets = ctx.scratch.topology, ctx.snapshot.sets
    for f in range(topo.size[0] - 1, topo.size[1] - 1, -1):
        s = topo.set[f]
        if sets.preferred[s] > 0:
            leaf = ctx.snapshot.topologies.leaf[sets.topology[s], n]
            return float(topo.points[f, ancestor(leaf, sets.preferred[s], ctx)])
    return 0.0


@inner
def restrict(verdicts: Flags, ctx: Context) -> None:
    """Write ``verdicts`` (N,) to ``scratch.topology.verdicts`` (N,), and NO_ROOM where frames do not allow the node."""
    for n in range(verdicts.shape[0]):
        ctx.scratch.topology.verdicts[n] = verdicts[n] if allows(n, ctx) else NO_ROOM
