"""What all actions do with a job: see what it asks for next, and put its tasks on nodes (semantics 3.3, 3.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Snapshot, Status, Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.find import find_node
from kai_sched.solver.kernels.fit import fits_now
from kai_sched.solver.kernels.gang import next_chunk, stage_of
from kai_sched.solver.kernels.place import charge, count_bonds, place
from kai_sched.solver.kernels.score import score_nodes
from kai_sched.solver.kernels.undo import touch
from kai_sched.solver.state import Context, Decisions, SetState, State, TaskState, Tree

OK = int(Verdict.OK)
NO_FIT = int(Verdict.NO_FIT)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def count_pending(first: int, end: int, set_state: SetState) -> int:
    """How many tasks of a job with the sets [first, end) are pending."""
    pending = 0
    for s in range(first, end):
        pending += set_state.pending[s]
    return pending


@inner
def note_next_request(j: int, ctx: Context, tree: Tree) -> None:
    """Note the job's stage and what its next chunk will ask of the queues (``tree.request``)."""
    first, end = ctx.snapshot.jobs.set_ptr[j], ctx.snapshot.jobs.set_ptr[j + 1]
    length = next_chunk(j, ctx)
    ctx.log.size[:] = 0
    for r in range(3):
        tree.request[j, r] = 0.0
    for entry in range(length):
        c = ctx.snapshot.tasks.cls[ctx.scratch.chunk[entry]]
        for r in range(3):
            tree.request[j, r] += ctx.snapshot.classes.quota[c, r]
    tree.stage[j] = stage_of(first, end, ctx.snapshot.sets, ctx.state.sets)


@inner
def waits_for_minimum(j: int, snapshot: Snapshot, state: State) -> bool:
    """Whether some pod that a set of the job needs for its minimum has to wait for its room."""
    for s in range(snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]):
        waiting = state.sets.waiting[s]
        if waiting > 0 and state.sets.active[s] - waiting < snapshot.sets.minimum[s]:
            return True
    return False


@inner
def settle(j: int, t: int, ctx: Context) -> int:
    """Place one task on the best node, bound where the room is idle, else pipelined; returns the verdict (3.5)."""
    snapshot, finder = ctx.snapshot, ctx.finder
    c = snapshot.tasks.cls[t]
    if finder.refused[c] != OK:
        return int(finder.refused[c])
    n = best_node(t, ctx)
    if n == NULL:
        return NO_FIT
    put(j, t, n, not fits_now(snapshot.classes.request[c], ctx.state.idle[n]), ctx)
    return OK


@inner
def best_node(t: int, ctx: Context) -> int:
    """The best node for a task, now or later; NULL where none will do."""
    snapshot, finder = ctx.snapshot, ctx.finder
    classes = snapshot.classes
    c = snapshot.tasks.cls[t]
    verdicts = finder.verdicts[classes.signature[c]]
    nominated = snapshot.tasks.nominated[t]
    if finder.dynamic[c] == 1 or nominated != NULL:
        n = score_nodes(c, nominated, ctx, verdicts)
    else:
        n = find_node(c, ctx)
    return n


@inner
def put(j: int, t: int, n: int, wait: bool, ctx: Context) -> None:
    """Place task ``t`` on node ``n`` with all that follows from it."""
    snapshot, finder = ctx.snapshot, ctx.finder
    c = snapshot.tasks.cls[t]
    place(t, n, wait, ctx)
    jobs = snapshot.jobs
    charge(jobs.queue[j], snapshot.classes.quota[c], 1.0, jobs.preemptible[j] == 0, ctx)
    if finder.dynamic[c] == 1:
        count_bonds(c, n, 1, ctx)
    touch(finder.block, finder.stamp, n)


@inner
def commit(length: int, state: State, chunk: Ints, decisions: Decisions) -> None:
    """Write the placements of the tasks in ``chunk`` down; from here on they are not undone."""
    for entry in range(length):
        record_placement(chunk[entry], state.task, decisions)


@inner
def record_placement(t: int, task_state: TaskState, decisions: Decisions) -> None:
    """Append a placement; the one that the task had before, if any, no longer counts."""
    if decisions.length[0] == decisions.task.shape[0]:
        close_gaps(decisions)
    if decisions.row[t] != NULL:
        decisions.task[decisions.row[t]] = NULL
    row = decisions.length[0]
    decisions.task[row] = t
    decisions.node[row] = task_state.node[t]
    decisions.waits[row] = 1 if task_state.status[t] == IS_PIPELINED else 0
    decisions.row[t] = row
    decisions.length[0] = row + 1


@inner
def close_gaps(decisions: Decisions) -> None:
    """Take the placements that no longer count out of the log, which has twice the rows that can count."""
    kept = 0
    for row in range(decisions.length[0]):
        t = decisions.task[row]
        if t != NULL:
            decisions.task[kept] = t
            decisions.node[kept] = decisions.node[row]
            decisions.waits[kept] = decisions.waits[row]
            decisions.row[t] = kept
            kept += 1
    decisions.length[0] = kept
