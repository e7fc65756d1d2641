"""How large the undo log is: the writes of the longest statement (semantics 3.6)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Snapshot
from kai_sched.solver.allocation import longest_job
from kai_sched.solver.claim_state import booking_writes, claim_writes
from kai_sched.solver.state import Log


def make_log(snapshot: Snapshot, evicting: bool = False) -> Log:
    """Return a log with room for the longest statement: placing the largest job once, and moving every cursor.

    With ``evicting`` it has room for a search, which may evict every task and place it again, and place every job.
    """
    # At least one move: the books of devices are opened through the log, also where no pod is in a job.
    n_moves, n_sets = max(1, longest_job(snapshot)), snapshot.sets.parent.size
    # A move writes R rooms; held and held_fixed of three resources, 6 floats, on each level of the queue tree; five
    # counters and a cursor; and the term roles of the class.
    n_charges = 6 * _depth(snapshot)
    if evicting:
        # A task leaves and comes back; a victim's attempt may place tasks that were pending before.
        n_moves = 2 * snapshot.tasks.job.size + n_moves
    # What the classes of the tasks add up to: one class with many term roles must not count for every task.
    counters = (3 if evicting else 1) * _entries_of_tasks(snapshot.term_roles.ptr, snapshot)
    # A claim that waits for a volume writes its users, its volume, the node for which that is made, and the holder.
    counters += (3 if evicting else 1) * _entries_of_tasks(snapshot.volumes.ptr, snapshot)
    # A share writes its device, what is held of it now and later, what is left of it, and three pod slots.
    shares = int(snapshot.classes.shares.max(initial=0))
    n_floats = n_moves * (snapshot.nodes.allocatable.shape[1] + n_charges + 5 * shares) + 1
    # Of each zone a task that is placed writes what it holds and what is left; leaving and staying write two amounts.
    n_floats += (9 if evicting else 2) * snapshot.numa.held.size
    # Coming back, a task is counted out and in, where it was and where it ran; leaving and staying, too.
    n_integers = n_moves * (6 + 3 * shares + claim_writes(snapshot)) + 12 * counters + 2 * n_sets + 1
    # Claims are booked through the log at the start, one by one, and a search for devices books its picks.
    n_integers += booking_writes(snapshot) + 2 * claim_writes(snapshot)
    if evicting:
        # For each device that a returning task gets back another task may give it up and get others.
        n_integers += (2 * snapshot.dra_claims.device.size + n_moves) * claim_writes(snapshot)
    return Log(
        float_at=np.empty(n_floats, np.int64),
        float_was=np.empty(n_floats),
        integer_at=np.empty(n_integers, np.int64),
        integer_was=np.empty(n_integers, np.int64),
        size=np.zeros(2, np.int64),
    )


def _entries_of_tasks(ptr: Ints, snapshot: Snapshot) -> int:
    """Return how many entries all tasks have together, if those of class c are ptr[c]:ptr[c + 1]; ptr is (C + 1,)."""
    return int(np.diff(ptr)[snapshot.tasks.cls].sum()) if ptr[-1] else 0


def _depth(snapshot: Snapshot) -> int:
    depth = [1] * snapshot.queues.parent.size
    for q, parent in enumerate(snapshot.queues.parent.tolist()):
        if parent != NULL:
            depth[q] = depth[parent] + 1
    return max(depth, default=1)
