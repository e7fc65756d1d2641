"""Where queues stand, for the tests of their order: as plain records, as the kernels' book, and compared by a twin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Floats
from kai_sched.solver.state import Book
from tests.unit.solver.tables import UNLIMITED, empty_book

AMOUNTS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0])
SHARES = st.sampled_from([0.0, 1.0, 2.0, 4.0, UNLIMITED])


@dataclass
class Stand:
    """Where a queue stands, one number a resource; ``head``: what its next job asks for."""

    quota: list[float]
    fair: list[float]
    share: list[float]
    held: list[float]
    head: list[float]
    priority: int = 100


def book_of(stands: list[Stand], total: list[float]) -> tuple[Book, Floats]:
    """The book and the heads' requests."""
    book = empty_book(len(stands))
    for q, stand in enumerate(stands):
        book.quota[q], book.fair[q], book.share[q], book.held[q] = stand.quota, stand.fair, stand.share, stand.held
        book.priority[q] = stand.priority
    book.share[-1] = total
    return book, np.array([stand.head for stand in stands]).reshape(-1, 3)


def dominant(stand: Stand, request: list[float], total: list[float]) -> float:
    """The largest part of its share that the queue would hold (2.5)."""
    parts = []
    for held, asked, share, whole in zip(stand.held, request, stand.share, total, strict=True):
        amount = held + asked
        if share == 0.0:
            parts.append(amount * 1000)
        elif share == UNLIMITED:
            parts.append(amount / whole if whole else UNLIMITED if amount > 0 else 0.0)
        else:
            parts.append(amount / share)
    return max(parts)


def twin_before(stands: list[Stand], a: int, b: int, total: list[float]) -> bool:
    """The eight steps of queue order (2.6), each as one line of a table: the smaller goes first."""
    one, other = stands[a], stands[b]

    def steps(x: Stand) -> list[float]:
        wanted = [held + head for held, head in zip(x.held, x.head, strict=True)]
        return [
            all(fair < held for fair, held in zip(x.fair, x.held, strict=True)),
            not all(amount <= quota for amount, quota in zip(wanted, x.quota, strict=True)),
            -x.priority,
            any(share == 0 and amount > 0 for share, amount in zip(x.share, wanted, strict=True)),
            dominant(x, x.head, total),
            dominant(x, [0.0] * 3, total),
        ]

    if steps(one) != steps(other):
        return steps(one) < steps(other)
    if one.share != other.share:
        if all(x <= y for x, y in zip(one.share, other.share, strict=True)):
            return True
        if all(x >= y for x, y in zip(one.share, other.share, strict=True)):
            return False
    return a < b
