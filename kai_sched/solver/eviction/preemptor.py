"""What the preemptor asks for, for rules and bounds: sums over its pending tasks, ``search.pending`` (L,), and how many
GPUs are lacking.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import GPU, Amounts, Snapshot
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context, State


@inner
def requested(k: int, r: int, snapshot: Snapshot, search: Search) -> float:
    """Return how much of resource ``r`` the first ``k`` pending tasks ask of their queues: (C, 3) prices added up."""
    amount = 0.0
    for entry in range(k):
        amount += snapshot.classes.quota[snapshot.tasks.cls[search.pending[entry]], r]
    return amount


@inner
def requested_amounts(k: int, snapshot: Snapshot, search: Search) -> Amounts:
    """Return what the first ``k`` pending tasks ask of their queues, (3,): CPU, memory, GPUs."""
    return requested(k, 0, snapshot, search), requested(k, 1, snapshot, search), requested(k, 2, snapshot, search)


@inner
def requested_gpus(k: int, snapshot: Snapshot, search: Search) -> float:
    """Return how many GPUs of nodes the first ``k`` pending tasks request, parts included; reads (C, R)."""
    gpus = 0.0
    for entry in range(k):
        gpus += snapshot.classes.request[snapshot.tasks.cls[search.pending[entry]], GPU]
    return gpus


@inner
def free_gpus(state: State) -> float:
    """Return the GPUs that are idle or releasing on all nodes together; overcommitted nodes count as 0."""
    free = 0.0
    for n in range(state.idle.shape[0]):
        free += max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    return free


@inner
def lacking_gpus(k: int, ctx: Context, search: Search) -> float:
    """Return how many GPUs the first ``k`` pending tasks request beyond what nodes have free; 0 or less: enough are.

    Reads ``state.idle`` and ``releasing`` (N, R). Where they are free does not matter.
    """
    return requested_gpus(k, ctx.snapshot, search) - free_gpus(ctx.state)


@inner
def with_moves(preemptor: Preemptor, moves: bool) -> Preemptor:
    """Return the same preemptor with ``moves`` set; ``need`` is (3,)."""
    return Preemptor(
        preemptor.action,
        preemptor.job,
        preemptor.n_tasks,
        preemptor.ceiling,
        preemptor.need,
        preemptor.lacking,
        moves,
    )
