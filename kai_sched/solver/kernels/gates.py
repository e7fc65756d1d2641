"""The capacity gates of a chunk: limits, and quota for non-preemptible jobs, at every level (semantics 3.4)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Ints, Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Book

OK = int(Verdict.OK)
OVER_LIMIT = int(Verdict.OVER_LIMIT)
OVER_QUOTA = int(Verdict.OVER_QUOTA)


@inner
def keeps_quota(leaf: int, need: Floats, parent: Ints, book: Book) -> bool:
    """Whether a non-preemptible job with this ``need`` (3,) stays within the quota at every level."""
    q = leaf
    while q != NULL:
        for r in range(3):
            if need[r] > 0.0 and book.quota[q, r] < book.held_fixed[q, r] + need[r]:
                return False
        q = parent[q]
    return True


@inner
def pass_gates(leaf: int, need: Floats, fixed: bool, parent: Ints, book: Book) -> tuple[int, int, int]:
    """Returns (verdict, queue, resource) of the first gate that stops ``need`` (3,); all limits come before all quotas.

    ``fixed``: the job is non-preemptible. A resource that is not asked for is not looked at.
    """
    q = leaf
    while q != NULL:
        for r in range(3):
            if need[r] > 0.0 and book.limit[q, r] < book.held[q, r] + need[r]:
                return OVER_LIMIT, q, r
        q = parent[q]
    q = leaf if fixed else NULL
    while q != NULL:
        for r in range(3):
            if need[r] > 0.0 and book.quota[q, r] < book.held_fixed[q, r] + need[r]:
                return OVER_QUOTA, q, r
        q = parent[q]
    return OK, NULL, NULL
