"""What a chunk of potential victims is: its tasks, its queue, what it holds, and which set it takes the last pods of.

Chunks have numbers in the order of accumulation; ``lists.chunk_start`` says where the tasks of each begin in
``lists.potential``, (T + 1,) both. Cost: the tasks of the chunk. Nothing is written.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Amounts, Snapshot
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner


@inner
def chunk_end(g: int, search: Search) -> int:
    """Return where chunk ``g`` ends in ``search.lists.potential`` (T + 1,): one past its last entry."""
    last = g + 1 == search.counts.n_chunks[0]
    return int(search.counts.potential[0] if last else search.lists.chunk_start[g + 1])


@inner
def first_of(g: int, search: Search) -> int:
    """Return the first task of chunk ``g``, from ``search.lists.potential`` (T + 1,)."""
    return int(search.lists.potential[search.lists.chunk_start[g]])


@inner
def queue_of(g: int, snapshot: Snapshot, search: Search) -> int:
    """Return the leaf queue of chunk ``g``: row of a queue."""
    return int(snapshot.jobs.queue[snapshot.tasks.job[first_of(g, search)]])


@inner
def amount_of(g: int, snapshot: Snapshot, search: Search) -> Amounts:
    """Return what the tasks of chunk ``g`` hold: CPU in millicores, memory in bytes, GPUs."""
    amount = (0.0, 0.0, 0.0)
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        price = snapshot.classes.quota[snapshot.tasks.cls[search.lists.potential[at]]]
        amount = (amount[0] + price[0], amount[1] + price[1], amount[2] + price[2])
    return amount


@inner
def blocked_of(g: int, search: Search) -> float:
    """Return the sum of ``tasks.blocked`` (T,) of the tasks of chunk ``g``, in GPUs."""
    blocked = 0.0
    for at in range(search.lists.chunk_start[g], chunk_end(g, search)):
        blocked += search.tasks.blocked[search.lists.potential[at]]
    return blocked


@inner
def empties(g: int, h: int, snapshot: Snapshot, search: Search) -> bool:
    """Return whether chunk ``g`` takes the last pods of the set of chunk ``h``, an earlier one of its job.

    ``lists.emptied`` (T + 1,) has the set that a chunk empties, or NULL for a surplus pod. Sets have lower rows
    than those below them, so climbing from the set of ``h`` ends at that set or passes it.
    """
    s, emptied = snapshot.tasks.set[first_of(h, search)], search.lists.emptied[g]
    while s > emptied:  # Bound: parents have lower rows.
        s = snapshot.sets.parent[s]
    return bool(emptied != NULL and s == emptied)
