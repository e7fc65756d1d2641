"""The end of a cycle with evictions: which places are taken back, and that ``minimal.returning`` and
``solver.pipelined_room`` run (semantics 3.6, 3.7, 4.5).

Several searches of one cycle do not know of each other: a later one may evict a larger pod beside the victims of an
earlier one, so that these are no longer needed, or promised room may turn out to be free. Only the end of the cycle can
tell, as until then any room may still be given away.

Cost: one pass over Q queues and T tasks, then the cost of ``eviction.minimal.returning`` and ``solver.pipelined_room``.
Invariant: both kernels run after all actions, and what they change is final. Between them the background returns
(``stages.background``); after ``settle`` nothing is decided on the state.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Status
from kai_sched.solver.eviction.commit import finish_eviction
from kai_sched.solver.eviction.evict import evict
from kai_sched.solver.eviction.minimal.returning import keep_victims
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims.potential import is_overcommitted
from kai_sched.solver.jit import kernel
from kai_sched.solver.kernels.devices import whole_later
from kai_sched.solver.pipelined_room import bind_pipelined_jobs, pipeline_incomplete_gangs
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)


@kernel
def settle_evictions(ctx: Context, search: Search) -> None:
    """Correct the books, take back promises that nodes cannot keep, and evictions of victims that have room.

    The searches of ``victims: original`` leave queues that were paid back too often and moved pods on overcommitted
    nodes, as v0.17.0 does (3.6, 4.5). With ``victims: minimal`` evictions without need are taken back.

    Parameters
    ----------
    search : reads ``search.queues.overpaid`` (Q, 3) and ``search.tasks.left_node`` (T,)
    """
    snapshot, state = ctx.snapshot, ctx.state
    for q in range(snapshot.queues.parent.shape[0]):
        overpaid = search.queues.overpaid[q]
        is_overpaid = overpaid[0] != 0.0 or overpaid[1] != 0.0 or overpaid[2] != 0.0
        above = q if is_overpaid else NULL
        while above != NULL:  # Bound: the depth of the queue tree.
            for r in range(3):
                state.book.held[above, r] += search.queues.overpaid[q, r]
            above = snapshot.queues.parent[above]
    for t in range(snapshot.tasks.job.shape[0]):
        n = state.task.node[t]
        if search.tasks.left_node[t] == 0 or state.task.status[t] != IS_PIPELINED:
            continue
        # Parts of GPUs may fit where their devices leave too few whole ones.
        if not is_overcommitted(state.idle[n], state.releasing[n]) and whole_later(n, ctx) >= 0.0:
            continue
        # The pod moved within this cycle. Its eviction was recorded at the first move, or never if it did not run, so
        # only the promised place is taken back here.
        evict(snapshot.tasks.job[t], t, 1, ctx, search)
        ctx.log.size[:] = 0
        finish_eviction(t, ctx)
        if snapshot.tasks.node[t] != NULL:
            state.task.node[t] = snapshot.tasks.node[t]  # where it leaves
    if ctx.settings.minimal == 1:
        keep_victims(ctx, search)


@kernel
def settle(ctx: Context, room: Floats, leaving: Floats) -> None:
    """Let torn gangs wait (``victims: minimal``), and bind what waits for free room. Nothing is decided afterwards.

    Parameters
    ----------
    room, leaving : (N, R), zeros to work in
    """
    minimal = ctx.settings.minimal == 1
    if minimal:
        pipeline_incomplete_gangs(ctx)
    bind_pipelined_jobs(minimal, ctx, room, leaving)
