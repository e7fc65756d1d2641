"""The columns of the decision log: placements and evictions in the order of deciding, and by job why something is still
pending.

Kernels write it directly, not through the undo log: only what is final is written. ``solver.solution`` reads it.

Shapes use the axes of docs/data-model.md in upper case: T tasks, J jobs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Floats, Ints, Longs, Snapshot


class Placements(NamedTuple):
    """The placements of a cycle in the order of deciding, (2 T,) each, of which the first ``length`` count."""

    length: Longs  # (1,) rows in use
    task: Ints  # NULL where the task got another place later, or lost it
    node: Ints  # where it is placed
    waits: Flags  # 1: pipelined, 0: to be bound
    row: Ints  # (T,) by task: the row of its placement, or NULL


class Evictions(NamedTuple):
    """The evictions of a cycle in the order of deciding, (T,) each, of which the first ``length`` count.

    The last two are what the two queues that were compared held before: CPU, memory, GPUs.
    """

    length: Longs  # (1,) rows in use
    task: Ints
    action: Ints  # an ``Action``
    preemptor: Ints  # the job for which it is evicted; NULL for stale gangs
    node: Ints  # where it ran
    moved: Flags  # 1: it had a place elsewhere when it was evicted
    is_evicted: Flags  # (T,) by task, 1: there is an eviction of it
    victim_held: Floats  # (T, 3) by the queue of the victim, or an ancestor
    preemptor_held: Floats  # (T, 3) by the queue of the preemptor, or an ancestor


class Decisions(NamedTuple):
    """The decision log, and by job why something of it is still pending (a ``Verdict``). Nothing here is undone."""

    placements: Placements
    evictions: Evictions
    help: Flags  # (J, 4) by Action, a Help
    simulated: Longs  # (4,) by Action: scenarios that were simulated
    verdict: Flags  # (J,) a Verdict
    free: Flags  # (J,) a RoomState (``solver.pipelined_room``)
    blocking_row: Ints  # (J,) queue of a gate, the task that found no node, or the set without a domain
    resource: Ints  # (J,) resource of a gate
    asked: Ints  # (J,) tasks in the chunk that failed; of the set without a domain
    placed: Ints  # (J,) how many of them had a place before the failure, or the roomiest domain can hold
    need: Floats  # (J,) how much of the resource the chunk requests, where a gate stopped it


def make_decisions(snapshot: Snapshot) -> Decisions:
    """Return an empty decision log."""
    n_tasks, n_jobs = snapshot.tasks.job.size, snapshot.jobs.queue.size
    return Decisions(
        placements=Placements(
            length=np.zeros(1, np.int64),
            task=np.zeros(2 * n_tasks, np.int32),
            node=np.zeros(2 * n_tasks, np.int32),
            waits=np.zeros(2 * n_tasks, np.uint8),
            row=np.full(n_tasks, NULL, np.int32),
        ),
        evictions=Evictions(
            length=np.zeros(1, np.int64),
            task=np.zeros(n_tasks, np.int32),
            action=np.zeros(n_tasks, np.int32),
            preemptor=np.zeros(n_tasks, np.int32),
            node=np.zeros(n_tasks, np.int32),
            moved=np.zeros(n_tasks, np.uint8),
            is_evicted=np.zeros(n_tasks, np.uint8),
            victim_held=np.zeros((n_tasks, 3)),
            preemptor_held=np.zeros((n_tasks, 3)),
        ),
        help=np.zeros((n_jobs, 4), np.uint8),
        simulated=np.zeros(4, np.int64),
        verdict=np.zeros(n_jobs, np.uint8),
        free=np.zeros(n_jobs, np.uint8),
        blocking_row=np.full(n_jobs, NULL, np.int32),
        resource=np.full(n_jobs, NULL, np.int32),
        asked=np.zeros(n_jobs, np.int32),
        placed=np.zeros(n_jobs, np.int32),
        need=np.zeros(n_jobs),
    )
