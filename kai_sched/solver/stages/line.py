"""The line of the jobs that still wait, in the order in which they are tried next (semantics 1.3, 2.6).

Nothing that waits got anything, so taking one job after the other out of the tree changes no books: the line is the one
in which an action would try them. It is made when somebody asks for it, from the state at the end of the cycle.

Cost: O(J + Q log Q) to build the tree, O(L log Q + log J) for each job. Invariant: no decision and no book is written;
beside ``order`` and the tree, cursors of sets move on, which the log has room for, and scratch space is used.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import kernel
from kai_sched.solver.kernels.attempt import append_job, count_pending, note_next_request
from kai_sched.solver.kernels.order import build_job_tree, pop_job
from kai_sched.solver.state import Context, Tree

OK = int(Verdict.OK)


@kernel
def list_line(ctx: Context, tree: Tree, order: Ints) -> int:
    """Write the rows of jobs that wait into ``order`` (J,), and return how many there are.

    Left out are jobs that no action tries: those that are refused, and those without a next chunk.

    Parameters
    ----------
    tree : empty heaps (``allocation.make_tree``)
    """
    jobs, sets = ctx.snapshot.jobs, ctx.state.sets
    for j in range(jobs.queue.shape[0]):
        if jobs.refused[j] != OK or count_pending(jobs.set_ptr[j], jobs.set_ptr[j + 1], sets) == 0:
            continue
        # As ``has_next_chunk``, which would give a job without one its verdict: the outcome is final here.
        note_next_request(j, ctx, tree)
        if ctx.scratch.survey.able[jobs.set_ptr[j]] != 0:
            append_job(j, jobs.queue[j], tree)
    build_job_tree(jobs.queue.shape[0] + 1, ctx, tree)
    length = 0
    while True:  # Bound: each turn takes one job out of the tree, for good.
        j = pop_job(ctx, tree)
        if j == NULL:
            return length
        order[length] = j
        length += 1
