"""What the preemptor asks for: sums over its pending tasks, ``search.pending`` (L,), for rules and bounds."""

from __future__ import annotations

from kai_sched.snapshot.tables import GPU, Amounts, Snapshot
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.jit import inner


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
