"""The end of a cycle with evictions: pipelined tasks without room, and what queues were paid back too often."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Status
from kai_sched.solver.eviction.commit import leave
from kai_sched.solver.eviction.evict import evict
from kai_sched.solver.eviction.minimal_return import keep_victims
from kai_sched.solver.eviction.pipelined_room import bind_pipelined_jobs, pipeline_incomplete_gangs
from kai_sched.solver.eviction.potential_victims import is_overcommitted
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import kernel
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)


@kernel
def settle(ctx: Context, search: Search, room: Floats, leaving: Floats) -> None:
    """Put the books right, evict moved pods again where there is no room for them, and keep what can be.

    Searches leave both as the original does (semantics 3.6, 4.5); nothing is decided on them any more. ``room`` and
    ``leaving`` are (N, R) zeros to work in.
    """
    settings, snapshot, state = ctx.settings, ctx.snapshot, ctx.state
    for q in range(snapshot.queues.parent.shape[0]):
        overpaid = search.queues.overpaid[q]
        is_overpaid = overpaid[0] != 0.0 or overpaid[1] != 0.0 or overpaid[2] != 0.0
        above = q if is_overpaid else NULL
        while above != NULL:
            for r in range(3):
                state.book.held[above, r] += search.queues.overpaid[q, r]
            above = snapshot.queues.parent[above]
    for t in range(snapshot.tasks.job.shape[0]):
        n = state.task.node[t]
        if search.tasks.left_node[t] == 0 or state.task.status[t] != IS_PIPELINED:
            continue
        if not is_overcommitted(state.idle[n], state.releasing[n]):
            continue
        evict(snapshot.tasks.job[t], t, 1, ctx, search)
        ctx.log.size[:] = 0
        # not dismissed: that it is evicted was written down when it moved, or never, as it did not run
        leave(t, ctx)
        if snapshot.tasks.node[t] != NULL:
            state.task.node[t] = snapshot.tasks.node[t]  # where it leaves
    if settings.minimal == 1:
        keep_victims(ctx, search)
        pipeline_incomplete_gangs(ctx)
    bind_pipelined_jobs(settings.minimal == 1, ctx, room, leaving)
