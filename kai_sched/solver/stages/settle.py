"""The end of a cycle with evictions: promises for which there is no room, and what queues were paid back too often."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Settings, Snapshot, Status
from kai_sched.solver.hunt import LEFT_NODE, OWED, Prey
from kai_sched.solver.jit import kernel
from kai_sched.solver.kernels.accumulate import is_overcommitted
from kai_sched.solver.kernels.carry_out import leave
from kai_sched.solver.kernels.evict import evict
from kai_sched.solver.kernels.minimal_return import let_stay
from kai_sched.solver.kernels.promises import keep_promises, mend_torn
from kai_sched.solver.state import HELD, NODE, STATUS, Decisions, Finder, Log, Scratch, State

IS_PIPELINED = int(Status.PIPELINED)


@kernel
def settle(
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
    room: Floats,
    leaving: Floats,
    decisions: Decisions,
) -> None:
    """Put the books right, take back what moved pods were promised on nodes that cannot keep it, and keep what can be.

    Searches leave both as the original does (semantics 3.6, 4.5); nothing is decided on them any more. ``room`` and
    ``leaving`` are (N, R) zeros to work in.
    """
    for q in range(snapshot.queues.parent.shape[0]):
        owed = prey.queue[q, OWED] != 0.0 or prey.queue[q, OWED + 1] != 0.0 or prey.queue[q, OWED + 2] != 0.0
        above = q if owed else NULL
        while above != NULL:
            for r in range(3):
                state.book[above, HELD + r] += prey.queue[q, OWED + r]
            above = snapshot.queues.parent[above]
    for t in range(snapshot.tasks.job.shape[0]):
        n = state.task[t, NODE]
        if prey.task[t, LEFT_NODE] == 0 or state.task[t, STATUS] != IS_PIPELINED:
            continue
        if not is_overcommitted(state.idle[n], state.releasing[n]):
            continue
        evict(snapshot.tasks.job[t], t, 1, snapshot, state, log, finder, prey)
        log.size[:] = 0
        # not dismissed: that it is evicted was written down when it moved, or never, as it did not run
        leave(t, snapshot, state, decisions)
        if snapshot.tasks.node[t] != NULL:
            state.task[t, NODE] = snapshot.tasks.node[t]  # where it leaves
    if settings.minimal == 1:
        let_stay(settings, snapshot, state, log, finder, scratch, prey, decisions)
        mend_torn(snapshot, state, decisions)
    keep_promises(settings.minimal == 1, snapshot, state, room, leaving, decisions)
