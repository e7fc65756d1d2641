"""Searches that were cut: who had no turn, as the searches of an action took too long together, goes on next cycle.

A *round* begins with a cycle in which some group was cut. In the cycles that follow, those that had their turn have
nobody evicted for them, until each of the others had its turn. Free room is given to all groups all the while.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult
from kai_sched.snapshot.tables import Help


@dataclass(slots=True)
class Round:
    """``owed``: the groups that wait for their turn, the oldest first; ``had``: what each action found for the others.

    ``only``: those that may search in the next cycle, where not all of ``owed`` and newcomers may.
    """

    owed: tuple[str, ...] = ()
    had: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    due: bool = False  # whether the next cycle is due at once
    _size: int = 0  # how many of ``owed`` may search in the next cycle
    _began: tuple[object, int] = field(default=(None, 0))  # the view with which the round began

    def note(self, cluster: Cluster, result: CycleResult) -> None:
        """Take over what a cycle on ``cluster`` decided."""
        view = (cluster.store_id, cluster.serial)
        cut = tuple(key for key, found in result.searches.items() if Help.TOO_LONG in found)
        if not self.owed:
            self._began, self.due, self._size = view, bool(cut), len(cut)
            self.owed, self.had = cut, _without(result.searches, cut)
            return
        tried = tuple(key for key in self.owed if key in self.only) if self.only else self.owed
        # A group that is alone had all the time there is.
        served = frozenset(tried) if len(self.only) == 1 else frozenset(tried).difference(cut)
        # Where somebody took all the time and was cut again, fewer come next, so that it is left out, or alone.
        self._size = 2 * self._size if served else (len(tried) + 1) // 2
        self.owed = tuple(key for key in self.owed if key not in served)
        self.had = {**self.had, **_without(result.searches, self.owed)}
        all_at_once = len(self.owed) <= self._size != 1
        self.only = frozenset(() if all_at_once else self.owed[: self._size])
        if not self.owed:
            # What changed meanwhile was only seen by those who were owed a turn.
            self.had, self.due = {}, view != self._began


def _without(searches: Mapping[str, tuple[int, ...]], keys: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    left_out = frozenset(keys)
    return {key: found for key, found in searches.items() if key not in left_out}
