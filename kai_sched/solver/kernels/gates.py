"""The capacity gates of a chunk: limits, and the quota for non-preemptible jobs, of the queue and all above
(semantics 3.4).

A gate compares what a queue holds together with what the chunk requests. The gates hold for the chunk as a whole, so
they are checked once before its tasks are placed. No gate keeps a preemptible job from going beyond the fair share.
Cost: three comparisons for each level of the queue tree. Nothing is written; a verdict says which gate stopped the job.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Ints
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Book

OK = int(Verdict.OK)
OVER_LIMIT = int(Verdict.OVER_LIMIT)
OVER_QUOTA = int(Verdict.OVER_QUOTA)
ROUNDING = 1e-6  # hundredths of GPUs do not add up exactly; less than a unit of each resource


@inner
def keeps_quota(leaf: int, need: Floats, parent: Ints, book: Book) -> bool:
    """Return whether a non-preemptible job with this ``need`` stays within the quota of its queue and all above (3.4).

    ``need`` is CPU in millicores, memory in bytes and GPUs. Compares ``book.held_fixed`` with ``book.quota``,
    (Q + 1, 3) each; ``parent`` (Q,) leads from the ``leaf`` to the root.
    """
    q = leaf
    while q != NULL:  # Bound: the depth of the queue tree.
        for r in range(3):
            if need[r] > 0.0 and book.quota[q, r] < book.held_fixed[q, r] + need[r] - ROUNDING:
                return False
        q = parent[q]
    return True


@inner
def pass_gates(leaf: int, need: Floats, fixed: bool, parent: Ints, book: Book) -> tuple[int, int, int]:
    """Return which gate stops a chunk, if any (3.4): all limits from the leaf upwards, then all quotas.

    Parameters
    ----------
    leaf : row of the job's queue
    need : amounts of CPU (millicores), memory (bytes) and GPUs that the whole chunk requests; those of 0 are not
        checked
    fixed : whether the job is non-preemptible; the quota gates are only for these
    parent : (Q,), ``queues.parent``
    book : reads ``limit``, ``held``, ``quota`` and ``held_fixed``, (Q + 1, 3) each

    Returns
    -------
    verdict (OK, OVER_LIMIT or OVER_QUOTA), queue and resource of the first gate that stops the
        chunk, or NULL
    """
    q = leaf
    while q != NULL:  # Bound: the depth of the queue tree.
        for r in range(3):
            if need[r] > 0.0 and book.limit[q, r] < book.held[q, r] + need[r] - ROUNDING:
                return OVER_LIMIT, q, r
        q = parent[q]
    q = leaf if fixed else NULL
    while q != NULL:  # Bound: the depth of the queue tree.
        for r in range(3):
            if need[r] > 0.0 and book.quota[q, r] < book.held_fixed[q, r] + need[r] - ROUNDING:
                return OVER_QUOTA, q, r
        q = parent[q]
    return OK, NULL, NULL
