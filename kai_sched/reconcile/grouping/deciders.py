"""Which owner decides about a group that pods of several owners share: of those that name a queue the first by name,
whatever the order in which the pods come; and what another one would have otherwise (API 4.13).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, NamedTuple

from kai_sched.model.field_errors import shown
from kai_sched.reconcile.grouping.manifest import Decider

FIELD = "metadata.labels"  # of the PodGroup, where a difference is settled

UNTRUE_MAX = 16  # ranks that are no longer true and are kept, beside as many as there are owners


class _Terms(NamedTuple):
    """What the group would have of one owner, by what it said itself at that time (``Deciders._time``)."""

    names_queue: bool
    spec: Mapping[str, Any]
    time: int


class Deciders:
    """The owners of the pods of one group, each by its subject, with the spec that the group would have of it alone.

    A gang may have thousands of pods without owners that come and go one by one, so not all are compared for each. Nor
    are all decided again where the group itself says something else: those that were not are not compared.
    """

    __slots__ = ("_known", "_other", "_source", "_terms", "_time")

    def __init__(self) -> None:
        self._terms: dict[str, _Terms] = {}
        self._known: list[tuple[bool, str]] = []  # a heap of ranks, with those that are no longer true
        self._other: str | None = ""  # None: has to be looked for
        self._source: object = None
        self._time = 0

    @property
    def first(self) -> str:
        """The owner that decides; "" where pods of one owner alone can be in the group."""
        while self._known and not self._is_true(self._known[0]):
            heapq.heappop(self._known)
        return self._known[0][1] if self._known else ""

    @property
    def other(self) -> str:
        """The first of the others that would have another spec; "" for none."""
        if self._other is None:
            self._other = min(filter(self._differs, self._terms), default="", key=self._rank)
        return self._other

    def put(self, by: Decider, spec: Mapping[str, Any]) -> bool:
        """Take what follows from this owner; return whether it decides."""
        if by.source != self._source:
            self._source, self._other = by.source, None
            self._time += 1
        before, known = self.first, self._terms.get(by.subject)
        terms = _Terms(by.names_queue, spec, self._time)
        if terms == known:
            return by.subject == before
        self._terms[by.subject] = terms
        if known is None or known.names_queue != by.names_queue:
            heapq.heappush(self._known, self._rank(by.subject))
            if len(self._known) > 2 * len(self._terms) + UNTRUE_MAX:
                self._known = sorted(map(self._rank, self._terms))
        first = self.first
        if known is not None or first != before:
            self._other = None if known is not None or not self._differs(before) else before
        elif self._other is not None and self._differs(by.subject):
            self._other = min(self._other or by.subject, by.subject, key=self._rank)
        return by.subject == first

    def drop(self, by: str) -> None:
        """The owner has no pod in the group any more."""
        if by in (self.first, self._other):
            self._other = None
        self._terms.pop(by, None)

    def _differs(self, by: str) -> bool:
        """Whether the owner would have another spec than the one that decides, as far as that is known."""
        ours, theirs = self._terms[self.first], self._terms.get(by)
        return theirs is not None and ours.time == theirs.time == self._time and ours.spec != theirs.spec

    def _rank(self, by: str) -> tuple[bool, str]:
        """A pod without any label does not take the queue from those that name one."""
        return not self._terms[by].names_queue, by

    def _is_true(self, rank: tuple[bool, str]) -> bool:
        return rank[1] in self._terms and self._rank(rank[1]) == rank

    def difference(self) -> str:
        """What the other one would have otherwise, and the remedy; "" where all say the same."""
        if not self.other:
            return ""
        ours, theirs = self._terms[self.first].spec, self._terms[self.other].spec
        fields = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
        terms = "; ".join(f"{key}: {_text(ours.get(key))}, not {_text(theirs.get(key))}" for key in fields)
        what = f"{self.first} and {self.other} have pods in it, and the former decides ({terms})"
        return f"{what}: put the label or annotation that is to count on the PodGroup"


def _text(value: object) -> str:
    return "none" if value is None else shown(value) if isinstance(value, str) else str(value)
