"""Pods that keep each other off a node (semantics 12.2), one by one: host ports, and anti-affinity both ways."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, TermKind, TermRole

Placed = list[tuple[int, int]]  # classes of pods, and the nodes they are on


def entries_of(snapshot: Snapshot, c: int) -> list[tuple[int, int, int]]:
    """The term roles of a class: (role, term or port, weight)."""
    ptr = snapshot.term_roles.ptr
    return [tuple(entry) for entry in snapshot.term_roles.entry[ptr[c] : ptr[c + 1]].tolist()]


def near(snapshot: Snapshot, a: int, n: int, pods: Placed) -> list[int]:
    """Classes of those pods that are in the same domain of term ``a`` as node ``n``."""
    domain = snapshot.terms.domain[a]
    return [c for c, at in pods if domain[n] != NULL and domain[at] == domain[n]]


def matching(snapshot: Snapshot, a: int, n: int, pods: Placed) -> int:
    """How many pods near node ``n`` match term ``a``."""
    return sum((TermRole.MATCH, a, 1) in entries_of(snapshot, c) for c in near(snapshot, a, n, pods))


def carried(snapshot: Snapshot, a: int, n: int, pods: Placed) -> int:
    """The weights of term ``a`` of pods near node ``n``."""
    entries = (entry for c in near(snapshot, a, n, pods) for entry in entries_of(snapshot, c))
    return sum(weight for role, row, weight in entries if (role, row) == (TermRole.CARRY, a))


def refused(snapshot: Snapshot, c: int, n: int, pods: Placed) -> bool:
    """Whether a pod of class ``c`` may not be on node ``n`` beside one of those pods."""
    for role, row, _ in entries_of(snapshot, c):
        if role == TermRole.PORT:
            if any(at == n and (TermRole.PORT, row, 1) in entries_of(snapshot, other) for other, at in pods):
                return True
        elif role in (TermRole.CARRY, TermRole.MATCH) and snapshot.terms.kind[row] == TermKind.ANTI:
            there = matching if role == TermRole.CARRY else carried
            if there(snapshot, row, n, pods):
                return True
    return False
