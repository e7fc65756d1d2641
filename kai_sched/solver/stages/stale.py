"""Stale gang eviction: what is left of a gang that lost pods goes after its grace (semantics 7)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Settings, Snapshot, Status
from kai_sched.solver.hunt import Prey
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.carry_out import dismiss
from kai_sched.solver.kernels.evict import evict
from kai_sched.solver.state import COUNT, NODE, STATUS, Decisions, Finder, Log, Scratch, State

STALE_GANG = int(Action.STALE_GANG)
IS_SUCCEEDED = int(Status.SUCCEEDED)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
IS_STUCK = int(Status.STUCK_IN_RELEASING)


@kernel
def evict_stale(
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    log: Log,
    finder: Finder,
    scratch: Scratch,
    prey: Prey,
    decisions: Decisions,
) -> None:
    """Evict what still runs of every gang that lacks pods for longer than its grace."""
    jobs = snapshot.jobs
    for j in range(jobs.queue.shape[0]):
        if jobs.grace[j] == NULL or not is_torn(j, snapshot, state, scratch):
            continue
        since = jobs.stale_since[j] if jobs.stale_since[j] != 0 else settings.now
        if settings.now - since < jobs.grace[j]:
            continue
        for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
            if IS_PIPELINED <= state.task[t, STATUS] <= IS_RUNNING:
                home = state.task[t, NODE]
                evict(j, t, 1, snapshot, state, log, finder, prey)
                log.size[:] = 0
                dismiss(t, STALE_GANG, NULL, home, snapshot, state, decisions)


@inner
def is_torn(j: int, snapshot: Snapshot, state: State, scratch: Scratch) -> bool:
    """Whether the job runs with fewer pods than it needs; a job of which a pod succeeded is on its way out."""
    used = False
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        status = state.task[t, STATUS]
        if status == IS_SUCCEEDED:
            return False
        used = used or IS_PIPELINED <= status <= IS_STUCK
    return used and not is_whole(j, snapshot, state, scratch)


@inner
def is_whole(j: int, snapshot: Snapshot, state: State, scratch: Scratch) -> bool:
    """Whether the job's tree of sets is satisfied, pods on their way out included."""
    sets = snapshot.sets
    first, end = snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1]
    survey = scratch.survey
    for s in range(end - 1, first - 1, -1):
        count = 0
        if sets.child_ptr[s] == sets.child_end[s]:
            for t in range(sets.task_ptr[s], sets.task_ptr[s + 1]):
                count += IS_PIPELINED <= state.task[t, STATUS] <= IS_STUCK
        else:
            for member in range(sets.child_ptr[s], sets.child_end[s]):
                count += survey[member, COUNT] >= sets.minimum[member]
        survey[s, COUNT] = count
    return bool(survey[first, COUNT] >= sets.minimum[first])
