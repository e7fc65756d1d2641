"""Which owner decides about a group that pods of several owners share: of those that name a queue the first by name,
whatever the order in which the pods come; and what another one would have otherwise (API 4.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kai_sched.api import names
from kai_sched.model.field_errors import shown

FIELD = "metadata.labels"  # of the PodGroup, where a difference is settled


class Deciders:
    """The owners of the pods of one group, each by its subject, with the spec that the group would have of it alone.

    Attributes
    ----------
    first
        The owner that decides; "" where pods of one owner alone can be in the group.
    other
        The first of the others that would have another spec; "" for none.
    """

    __slots__ = ("_specs", "first", "other")

    def __init__(self) -> None:
        self._specs: dict[str, Mapping[str, Any]] = {}
        self.first = ""
        self.other = ""

    def put(self, by: str, spec: Mapping[str, Any]) -> bool:
        """Take what follows from this owner; return whether it decides."""
        if not by or self._specs.get(by) == spec:
            return by == self.first
        self._specs[by] = spec
        # A gang may have thousands of pods without owners, so not all are compared for each.
        if not self.first or by in (self.first, self.other) or self._rank(by) < self._rank(self.first):
            self._find()
        elif spec != self._specs[self.first]:
            self.other = min(self.other or by, by, key=self._rank)
        return by == self.first

    def drop(self, by: str) -> None:
        """The owner has no pod in the group any more."""
        self._specs.pop(by, None)
        if by in (self.first, self.other):
            self._find()

    def _rank(self, by: str) -> tuple[bool, str]:
        """A pod without any label does not take the queue from those that name one."""
        return self._specs[by]["queue"] == names.DEFAULT_QUEUE, by

    def _find(self) -> None:
        self.first = min(self._specs, default="", key=self._rank)
        others = (by for by, spec in self._specs.items() if spec != self._specs[self.first])
        self.other = min(others, default="", key=self._rank)

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
