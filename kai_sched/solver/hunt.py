"""What the evicting actions need beside the working state: who waits, who may have to go, and the scene of a search.

All of it is scratch of one action. Columns of one kind of row lie in one array.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Floats, Longs, Snapshot
from kai_sched.solver.state import longest_job

# Columns of Lineup.slot: the heap entry at this place, the size of the heap below the row, whether the queue was
# touched; for a leaf where its jobs begin in Lineup.job, where its list ends and where it begins, the next entry, the
# size of its heap, and where the first of its gangs by size is that is in the list.
ENTRY, BELOW, DIRTY, BASE, LISTED, ALIVE, CURSOR, HEAPED, GANG = range(9)
# Columns of Lineup.amount, three wide each; then, among victims, what queues are compared by (``lineup.weigh``).
ASK, LEAN, PAST = 0, 3, 6
TIER, WITH_LEAN, ALONE = 9, 12, 13
N_AMOUNTS = 14
# Columns of Lineup.job: the list, where a run of equal asks ends, the heap, and all jobs by priority and number of pods
# lie at the places of the job's leaf; the rest goes by job. PLACE: that in BY_SIZE.
LIST, RUN_END, HEAP, BY_SIZE, STAGE, SKIP, PLACE = range(7)
DEAD = -7  # SKIP: not in the list

# Columns of Prey.task. Links hold the next task plus 1, so that 0 ends a chain. GROUP: the batch within the
# accumulation; MEMBER_OF: what is recorded together; TIMES: how often the scenario names it; LEFT_NODE: the node that
# it left in an earlier search of this cycle, plus 1.
PRIOR, HOME, TAKEN, RECORDED, ON_NODE, IN_JOB, IN_SCENE, GROUP, MEMBER_OF, TIMES, LEFT_NODE = range(11)
# Rows of Prey.lists: tasks, jobs, and, by batch, whether it was chosen. SCENE is what the scenario evicts, KNOWN are
# recorded victims.
# CHUNK_START: by chunk its first entry in POTENTIAL; EMPTIED: the set of which nobody is left without it, or NULL;
# CHOSEN: the chunks of a minimal scenario; IS_CHOSEN by chunk; KEPT: 1 for a chunk whose queue would take it back.
POTENTIAL, SCENE, KNOWN, PLACED, CAST, TOUCHED_JOBS, GROUP_MARK, CHUNK_START, CHOSEN, IS_CHOSEN, EMPTIED = range(11)
KEPT = 11
N_LISTS = 12
# Columns of Prey.job. IS_SETTLED: it has got a place by a search of this cycle, and keeps it.
TOUCHED, FIRST_POTENTIAL, LAST_POTENTIAL, FIRST_SCENE, LAST_SCENE, SCENE_MARK, STAGE_NOW, STAGE_WAITING, IS_SETTLED = (
    range(9)
)
# Columns of Prey.node. TOUCH_ORDER and NODE_ORDER are lists.
# COST: what clearing the node for one task would cost, as long as COST_MARK is current; BARRED: it cannot be cleared.
FIRST_TASK, LAST_TASK, NODE_MARK, TOUCH_ORDER, NODE_ORDER, FEASIBLE, SCENE_NODE, COUNTED, RANK = range(9)
# PLACE_OF: a node in NODE_ORDER; BEST: by block of places the one with the least cost, as long as BEST_MARK is current.
COST, COST_MARK, BARRED, PLACE_OF, BEST, BEST_MARK = range(9, 15)
N_NODE_COLUMNS = 15
# Columns of Prey.set.
LEFT, CORE, GIVES, OVER = range(4)
# Columns of Prey.queue, three wide each up to PRESENT, which is counts[PRESENCE] where REMAINS holds. OWED, three wide,
# too, is what was paid back too often (4.5).
OLD_HELD, OLD_FIXED, REMAINS, INVOLVED, PRESENT, OPEN, LARGEST, PLAYS, OWED = 0, 3, 6, 9, 12, 13, 14, 15, 16
# More, for ``kernels.precedence``: the GPUs that victims hold; their last job plus 1; the fewest GPUs of a task of
# theirs, and pods of a job; whether they cannot stay away, in what was looked at last, or ever.
AWAY, LAST, SMALLEST, FEWEST, STAYS, SHIELDED = range(19, 25)
# For ``kernels.minimal_search``: 1 for a leaf of which shares let somebody go, by itself; the GPUs of those who came
# from below a sibling of a reclaimer's queue and may go, and the most of one chunk of theirs.
GIVES_UP, GIVEN, MOST_GIVEN = 25, 26, 27
N_QUEUE_COLUMNS = 28
# Columns of Prey.herd: AWAY, LAST, SMALLEST and FEWEST of all possible victims of a leaf, their class plus 1 if they
# are all alike, how many tasks were moved before in this cycle, and whether all of this is known.
HERD_AWAY, HERD_LAST, HERD_SMALLEST, HERD_FEWEST, HERD_LIKE, HERD_MOVED, HERD_KNOWN = range(7)
# Columns of Prey.room: whole GPUs of potential and of recorded victims on the node, what it could have free, and, from
# REQUESTS on, all that potential and recorded victims hold there.
POTENTIAL_GPUS, KNOWN_GPUS, CAPACITY, REQUESTS = range(4)
# Columns of Prey.kind: a class of the wish, how many tasks of it, and for how many there is room now, with the
# recorded victims gone, and with the potential ones gone, too. An upper bound: each class by itself.
# LEFT: with the victims gone that are looked at in ``kernels.minimal_search``.
KIND_CLASS, KIND_WANTED, KIND_NOW, KIND_KNOWN, KIND_ROOM, KIND_LEFT = range(6)
# Entries of Prey.count.
N_POTENTIAL, N_GROUPS, N_SCENE, N_KNOWN, N_PLACED, N_NODES, N_TOUCHED_NODES, N_TOUCHED, N_CAST, N_KINDS = range(10)
CLOCK, SCENE_CLOCK, LAST_JOB, RESTRICTED, PROBE, RUNTIMES, REFUTED, WISHED, LACKING, ALIKE, WORK = range(10, 21)
WEIGHED, LOCAL, N_CHOSEN, CHOICE_CLOCK, PRESENCE = range(21, 26)
# Three wide: by resource, whether quotas of it say who may be taken from (``kernels.fairness.take_amount``).
SHORT = 26
RETAKEN = 29  # whether the last scenario failed as somebody would take the room back (``kernels.retake``)
N_COUNTS = 30

MOST_KINDS = 4  # classes of one wish whose room is counted
MOST_TRIED = 65536  # failed scenarios that are remembered


class Lineup(NamedTuple):
    """Jobs by queue in a given order: a list for each leaf that stays, a heap for those that stand differently now.

    One lineup holds those who compete for room (the fairest first), another the victims (the least fair first).
    """

    slot: Longs  # (Q + 1, 9)
    amount: Floats  # (Q, 14)
    job: Longs  # (J, 7)
    held: Floats  # (J, 3) what the job asks for next, or, of a victim, what it has left


class Prey(NamedTuple):
    """The scene of a search: potential victims in the order of accumulation, recorded ones, and the scenario."""

    counts: Longs  # (30,)
    task: Longs  # (T, 11)
    lists: Longs  # (12, T + 1)
    job: Longs  # (J, 9)
    node: Longs  # (N, 15)
    set: Longs  # (S, 4)
    queue: Floats  # (Q, 28)
    herd: Floats  # (Q, 7)
    room: Floats  # (N, 3 + R)
    freed: Floats  # (N, R) what all possible victims hold
    domain: Longs  # (D,) scratch
    offered: Flags  # (N,) scratch: the verdicts on the nodes for one pod
    held: Floats  # (J, 3) what each job holds, pipelined tasks apart
    ask: Floats  # (J, 3) what each job asks for next
    wish: Longs  # (longest job,) the chunk for which room is made
    asked: Longs  # (longest job,) the same, in the order of the job
    kind: Longs  # (4, 6) by class of the wish
    failed: Longs  # (J,) by likeness or kin, the job that failed last
    tried: Longs  # (65536, 2) scenarios that failed, by fingerprint; 0: none
    chunk: Longs  # (longest job,) scratch
    spot: Longs  # (longest job,) scratch
    place: Longs  # (longest job,) the nodes that were chosen for the tasks of the wish


def make_lineup(snapshot: Snapshot) -> Lineup:
    """Empty lists."""
    n_queues, jobs = snapshot.queues.parent.size, snapshot.jobs
    n_jobs = jobs.queue.size
    slot, job = np.zeros((n_queues + 1, 9), np.int64), np.zeros((n_jobs, 7), np.int64)
    known = np.flatnonzero(jobs.queue != NULL)
    np.cumsum(np.bincount(jobs.queue[known], minlength=n_queues), out=slot[1:, BASE])
    by_size = known[np.lexsort((-np.diff(jobs.task_ptr)[known], -jobs.priority[known], jobs.queue[known]))]
    job[: by_size.size, BY_SIZE] = by_size
    job[by_size, PLACE] = np.arange(by_size.size)
    return Lineup(slot, np.zeros((n_queues, N_AMOUNTS)), job, np.zeros((n_jobs, 3)))


def make_prey(snapshot: Snapshot) -> Prey:
    """Nobody yet."""
    n_tasks, n_jobs = snapshot.tasks.job.size, snapshot.jobs.queue.size
    n_nodes, n_resources = snapshot.nodes.allocatable.shape
    longest = longest_job(snapshot)
    return Prey(
        np.zeros(N_COUNTS, np.int64),
        np.zeros((n_tasks, 11), np.int64),
        np.zeros((N_LISTS, n_tasks + 1), np.int64),
        np.zeros((n_jobs, 9), np.int64),
        np.zeros((n_nodes, N_NODE_COLUMNS), np.int64),
        np.zeros((snapshot.sets.parent.size, 4), np.int64),
        np.zeros((snapshot.queues.parent.size, N_QUEUE_COLUMNS)),
        np.zeros((snapshot.queues.parent.size, 7)),
        np.zeros((n_nodes, 3 + n_resources)),
        np.zeros((n_nodes, n_resources)),
        np.zeros(snapshot.n_domains, np.int64),
        np.zeros(n_nodes, np.uint8),
        np.zeros((n_jobs, 3)),
        np.zeros((n_jobs, 3)),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
        np.zeros((MOST_KINDS, 6), np.int64),
        np.full(n_jobs, NULL, np.int64),
        np.zeros((MOST_TRIED, 2), np.int64),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
    )
