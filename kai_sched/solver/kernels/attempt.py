"""One attempt for a job in any action: what it asks for, whether each pod is bound or pipelined, and what goes to the
decision log (semantics 3.2, 3.3, 3.5).

An attempt goes through these steps: ``next_chunk`` writes the chunk, ``place_task`` places its tasks one by one through
the undo log, and the caller either takes all of it back (``undo.undo_all``) or makes it final (``commit``). After a
commit the caller empties the log, so that no later rollback reaches it.

Cost: for each task the cost of finding a node (``find``, ``score``) plus R resources, L levels of the queue tree and
the term roles of its class.
Invariant: between two calls the room of nodes and the counters of sets agree with the status and node of each task.
``Decisions.placements`` is written only by ``commit`` and ``record_placement``, which are never undone.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Flags, Ints, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.decisions import Placements
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.holders import take_claimed
from kai_sched.solver.kernels.claims.search import choose_claimed, has_claims
from kai_sched.solver.kernels.devices import LATER, choose_devices, take_devices
from kai_sched.solver.kernels.domains import LEVEL_POINTS, STEPS
from kai_sched.solver.kernels.find import find_in_domains, find_node
from kai_sched.solver.kernels.fit import has_room, has_room_now
from kai_sched.solver.kernels.gang import next_chunk, stage_of
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.numa import choose_placement, has_zones, take_zones
from kai_sched.solver.kernels.place import charge_task, count_term_roles, place
from kai_sched.solver.kernels.score import PLACEMENT_POINTS, is_affordable, score_nodes, waits_for_leaving
from kai_sched.solver.kernels.together import best_node_for_all
from kai_sched.solver.kernels.topology import allows, has_frames, restrict
from kai_sched.solver.kernels.undo import touch
from kai_sched.solver.state import Context, SetState, State, TaskState, Tree

OK = int(Verdict.OK)
NO_FIT = int(Verdict.NO_FIT)
NO_CHUNK = int(Verdict.NO_CHUNK)
GANG_NOT_READY = int(Verdict.GANG_NOT_READY)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def count_pending(first: int, end: int, set_state: SetState) -> int:
    """Return how many tasks of the sets [first, end) of a job are pending: the sum of ``set_state.pending`` (S,)."""
    pending = 0
    for s in range(first, end):
        pending += set_state.pending[s]
    return pending


@inner
def note_next_request(j: int, ctx: Context, tree: Tree) -> None:
    """Note what job ``j`` asks of the queues next, and its stage in job order.

    Writes ``tree.request[j]`` (J, 3), the CPU (millicores), memory (bytes) and GPUs of its next chunk, and
    ``tree.stage[j]`` (J,), directly. The job does not move in its heap: the caller puts it there. ``scratch.survey``
    and ``scratch.chunk`` hold the chunk afterwards.
    """
    first, end = ctx.snapshot.jobs.set_ptr[j], ctx.snapshot.jobs.set_ptr[j + 1]
    length = next_chunk(j, ctx)
    # ``next_chunk`` logs the cursors that it moves. They are true now and need not be undone.
    ctx.log.size[:] = 0
    for r in range(3):
        tree.request[j, r] = 0.0
    for entry in range(length):
        c = ctx.snapshot.tasks.cls[ctx.scratch.chunk[entry]]
        for r in range(3):
            tree.request[j, r] += ctx.snapshot.classes.quota[c, r]
    tree.stage[j] = stage_of(first, end, ctx.snapshot.sets, ctx.state.sets)


@inner
def has_next_chunk(j: int, ctx: Context, tree: Tree) -> bool:
    """Return whether job ``j`` has a next chunk, and note in ``tree`` what it asks for (``note_next_request``).

    If it has none, ``decisions.verdict`` (J,) is NO_CHUNK where its minimums are met and nothing can be added, else
    GANG_NOT_READY.
    """
    note_next_request(j, ctx, tree)
    survey, first = ctx.scratch.survey, ctx.snapshot.jobs.set_ptr[j]
    if survey.able[first] != 0:
        return True
    met = survey.met[first] >= ctx.snapshot.sets.minimum[first]
    ctx.decisions.verdict[j] = NO_CHUNK if met else GANG_NOT_READY
    return False


@inner
def append_job(j: int, q: int, tree: Tree) -> None:
    """Append job ``j`` to the jobs of leaf ``q`` in ``tree.job_heap`` (J,), before ``build_job_tree`` sorts them."""
    tree.job_heap[tree.job_ptr[q] + tree.job_size[q]] = j
    tree.job_size[q] += 1


@inner
def waits_for_minimum(j: int, snapshot: Snapshot, state: State) -> bool:
    """Return whether some set of job ``j`` lacks its minimum without its pipelined tasks (3.3, step 4).

    Such a gang must wait as a whole. Reads ``waiting`` and ``active`` of ``state.sets``, (S,) each.
    """
    for s in range(snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]):
        waiting = state.sets.waiting[s]
        if waiting > 0 and state.sets.active[s] - waiting < snapshot.sets.minimum[s]:
            return True
    return False


@inner
def gate_chunk(j: int, length: int, ctx: Context) -> tuple[int, int, int]:
    """Return which gate stops the first ``length`` tasks of ``scratch.chunk`` (L,), if any, as ``pass_gates`` (3.4).

    Overwrites ``scratch.need`` (3,) with what they request, in the units of queues.
    """
    snapshot, need = ctx.snapshot, ctx.scratch.need
    for r in range(3):
        need[r] = 0.0
        for entry in range(length):
            c = snapshot.tasks.cls[ctx.scratch.chunk[entry]]
            need[r] += snapshot.classes.gate[c] if r == GPU else snapshot.classes.quota[c, r]
    fixed = snapshot.jobs.preemptible[j] == 0
    return pass_gates(snapshot.jobs.queue[j], need, fixed, snapshot.queues.parent, ctx.state.book)


@inner
def place_task(j: int, t: int, ctx: Context) -> int:
    """Place task ``t`` of job ``j`` on its best node, through the undo log (3.5).

    The task is bound if its request fits the idle room now and no leaving pod has to be gone first, else it is
    pipelined.

    Returns
    -------
    int : a ``Verdict``: OK; the reason why no node can take the class (``finder.refused`` (C,)); or NO_FIT if no node
        takes it at present
    """
    snapshot, finder = ctx.snapshot, ctx.finder
    c = snapshot.tasks.cls[t]
    if finder.refused[c] != OK:
        return int(finder.refused[c])
    n = best_node(t, ctx)
    if n == NULL:
        return NO_FIT
    if not is_affordable(t, n, ctx):
        return NO_FIT
    waits = finder.dynamic[c] == 1 and waits_for_leaving(c, n, ctx)
    place_on_node(j, t, n, waits or not has_room_now(c, n, ctx), ctx)
    return OK


@inner
def best_node(t: int, ctx: Context) -> int:
    """Return the best node for task ``t``, on room that is idle or will be; NULL if no node takes it (3.5).

    Both ways choose by the scores of 9. The short one (``find_node``) is for classes whose order of nodes depends on
    each node alone; it may update ``finder`` (C, B), which holds no decisions and is never undone.
    """
    snapshot, finder = ctx.snapshot, ctx.finder
    c, nominated = snapshot.tasks.cls[t], snapshot.tasks.nominated[t]
    verdicts = finder.verdicts[snapshot.classes.signature[c]]
    scored = finder.dynamic[c] == 1 or (nominated != NULL and not is_nomination_decisive(ctx))
    together = has_claims(c, ctx) or finder.dynamic[c] == 1
    if scored or together:
        if has_frames(ctx):
            restrict(verdicts, ctx)
            n = best_scored_node(t, together, scored, ctx, ctx.scratch.topology.verdicts)
        else:
            n = best_scored_node(t, together, scored, ctx, verdicts)
        if n != NULL or scored:
            return n
    if nominated != NULL and verdicts[nominated] == OK and has_room(c, nominated, ctx) and allows(nominated, ctx):
        return int(nominated)
    return find_in_domains(c, ctx) if has_frames(ctx) else find_node(c, ctx)


@inner
def best_scored_node(t: int, together: bool, scored: bool, ctx: Context, verdicts: Flags) -> int:
    """Return the best node for task ``t`` for all that share a claim with it, or else by its points; or NULL.

    ``verdicts`` (N,) are those on nodes; ``together`` and ``scored`` say which of both are asked.
    """
    n = best_node_for_all(t, ctx, verdicts) if together else NULL
    return score_nodes(t, ctx, verdicts) if n == NULL and scored else n


@inner
def is_nomination_decisive(ctx: Context) -> bool:
    """Return whether the points of a nomination outweigh all others but those of inter-pod terms (9)."""
    settings = ctx.settings
    others = settings.sharing_points + settings.available_points + settings.cpu_node_points + PLACEMENT_POINTS
    others += STEPS * LEVEL_POINTS + settings.numa_points
    return bool(settings.nominated_points > others)


@inner
def place_on_node(j: int, t: int, n: int, wait: bool, ctx: Context) -> None:
    """Place task ``t`` of job ``j`` on node ``n``, on the devices (G,) that it prefers there, by the undo log (8.4).

    Parameters
    ----------
    j, t : rows of the job and its task, which is pending or was evicted by a search
    n : row of a node on which the task fits, now or later; this is not checked
    wait : True: the task is pipelined; False: it is bound, unless its devices have no room yet
    """
    c = ctx.snapshot.tasks.cls[t]
    if ctx.snapshot.classes.shares[c] > 0:
        wait = choose_devices(c, n, ctx) == LATER or wait
    if has_claims(c, ctx):
        wait = choose_claimed(c, n, ctx) == LATER or wait
    if has_zones(t, ctx):
        wait = choose_placement(c, n, wait, ctx) == LATER
    put_on_devices(j, t, n, wait, ctx)


@inner
def put_on_devices(j: int, t: int, n: int, wait: bool, ctx: Context) -> None:
    """Place task ``t`` of job ``j`` on node ``n`` and update everything that follows from it, through the undo log.

    That is the room of the node (N, R), the devices that the pod shares (G,), the counters of the set, what the queue
    and its ancestors hold (Q + 1, 3), and inter-pod terms and host ports. The block of the node is marked for the
    finder, which is not undone: a rollback marks it again.

    Parameters
    ----------
    j, t, n : rows of the job, its task and the node; the devices of a share are in ``scratch.devices``,
        those of claims in ``scratch.picks``, what it takes of NUMA zones in ``scratch.zones.draw``
    wait : True: the task is pipelined; False: it is bound
    """
    snapshot, finder = ctx.snapshot, ctx.finder
    c = snapshot.tasks.cls[t]
    take_devices(t, n, wait, ctx)
    take_claimed(t, wait, ctx)
    take_zones(t, n, ctx)
    place(t, n, wait, ctx)
    charge_task(j, t, n, 1.0, ctx)
    if finder.dynamic[c] == 1:
        count_term_roles(c, n, 1, ctx)
    touch(finder.block, finder.stamp, n)


@inner
def commit(length: int, state: State, chunk: Ints, placements: Placements) -> None:
    """Write the placements of the first ``length`` tasks of ``chunk`` to the decision log, in their order.

    ``chunk`` is ``scratch.chunk``, rows of tasks; node and status come from ``state.task`` (T,). The caller empties the
    undo log.
    """
    for entry in range(length):
        record_placement(chunk[entry], state.task, placements)


@inner
def record_placement(t: int, task_state: TaskState, placements: Placements) -> None:
    """Append the placement of task ``t`` to the decision log, directly; an earlier one of the same task is cancelled.

    Writes ``task``, ``node`` and ``waits`` of ``placements``, (2 T,) each, and ``row`` (T,). A cancelled row
    has NULL as its task, so the order of the others does not change.
    """
    if placements.length[0] == placements.task.shape[0]:
        close_gaps(placements)
    if placements.row[t] != NULL:
        placements.task[placements.row[t]] = NULL
    row = placements.length[0]
    placements.task[row] = t
    placements.node[row] = task_state.node[t]
    placements.waits[row] = 1 if task_state.status[t] == IS_PIPELINED else 0
    placements.row[t] = row
    placements.length[0] = row + 1


@inner
def close_gaps(placements: Placements) -> None:
    """Remove cancelled placements from the decision log in place, without changing the order of the others.

    The log has 2 T rows and at most T tasks have a placement, so this is needed at most once in T placements. The rows
    of the tasks, ``placements.row`` (T,), follow.
    """
    kept = 0
    for row in range(placements.length[0]):
        t = placements.task[row]
        if t != NULL:
            placements.task[kept] = t
            placements.node[kept] = placements.node[row]
            placements.waits[kept] = placements.waits[row]
            placements.row[t] = kept
            kept += 1
    placements.length[0] = kept
