"""Which owner decides about a group that pods of several owners share: of those that name a queue the first by name,
whatever the order in which the pods come; and what another one would have otherwise (API 4.13).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from kai_sched.api import names
from kai_sched.model.field_errors import shown

FIELD = "metadata.labels"  # of the PodGroup, where a difference is settled

UNTRUE_MAX = 16  # ranks that are no longer true and are kept, beside as many as there are owners


class Deciders:
    """The owners of the pods of one group, each by its subject, with the spec that the group would have of it alone.

    A gang may have thousands of pods without owners that come and go one by one, so not all are compared for each.
    """

    __slots__ = ("_known", "_other", "_specs")

    def __init__(self) -> None:
        self._specs: dict[str, Mapping[str, Any]] = {}
        self._known: list[tuple[bool, str]] = []  # a heap of ranks, with those that are no longer true
        self._other: str | None = ""  # None: has to be looked for

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
            ours = self._specs[self.first]
            self._other = min((by for by, spec in self._specs.items() if spec != ours), default="", key=self._rank)
        return self._other

    def put(self, by: str, spec: Mapping[str, Any]) -> bool:
        """Take what follows from this owner; return whether it decides."""
        before = self.first
        if not by or self._specs.get(by) == spec:
            return by == before
        is_new = by not in self._specs
        self._specs[by] = spec
        heapq.heappush(self._known, self._rank(by))
        if len(self._known) > 2 * len(self._specs) + UNTRUE_MAX:
            self._known = sorted(map(self._rank, self._specs))
        first = self.first
        if not before or not is_new:
            self._other = None
        elif first == before:
            if spec != self._specs[first] and self._other is not None:
                self._other = min(self._other or by, by, key=self._rank)
        elif spec != self._specs[before]:
            self._other = before
        return by == first

    def drop(self, by: str) -> None:
        """The owner has no pod in the group any more."""
        if by in (self.first, self._other):
            self._other = None
        self._specs.pop(by, None)
        if not self._specs:
            self._other = ""

    def _rank(self, by: str) -> tuple[bool, str]:
        """A pod without any label does not take the queue from those that name one."""
        return self._specs[by]["queue"] == names.DEFAULT_QUEUE, by

    def _is_true(self, rank: tuple[bool, str]) -> bool:
        return rank[1] in self._specs and self._rank(rank[1]) == rank

    def difference(self) -> str:
        """What the other one would have otherwise, and the remedy; "" where all say the same."""
        if not self.other:
            return ""
        ours, theirs = self._specs[self.first], self._specs[self.other]
        fields = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
        terms = "; ".join(f"{key}: {_text(ours.get(key))}, not {_text(theirs.get(key))}" for key in fields)
        what = f"{self.first} and {self.other} have pods in it, and the former decides ({terms})"
        return f"{what}: put the label or annotation that is to count on the PodGroup"


def _text(value: object) -> str:
    return "none" if value is None else shown(value) if isinstance(value, str) else str(value)
