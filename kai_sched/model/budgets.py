"""A budget of work whose size tenants choose: what one namespace asks for leaves most of it to the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

OF_NAMESPACE = 4  # a namespace gets this part of the budget at most


@dataclass(slots=True)
class Budget:
    """The work of one cycle, in steps of which there are ``most``."""

    most: int
    _spent: Counter[str] = field(default_factory=Counter)
    _total: int = 0

    def has(self, namespace: str, steps: int) -> bool:
        """Whether there is enough left for this namespace."""
        fits = self._total + steps <= self.most
        return fits and OF_NAMESPACE * (self._spent[namespace] + steps) <= self.most

    def spend(self, namespace: str, steps: int) -> None:
        """Count the steps, whether or not there is enough left."""
        self._spent[namespace] += steps
        self._total += steps
