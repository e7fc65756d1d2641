"""Which groups, and how many, search for victims in the next cycle after a work limit has cut searches short; the
others wait for them.

An evicting action stops searching once its work limit is reached (``Config.search_work``); the groups that it did not
come to are *cut*. A round begins with a cycle in which a group was cut. In the following cycles no pod is evicted for
the groups that had their search, until each cut group had its own. Free room is given to all groups all the while.

Invariant: each cycle of a round serves at least one waiting group, or halves the number of groups that search at
once, down to one. A group that searches alone has the whole work limit. So a round ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult
from kai_sched.snapshot.tables import Help


@dataclass(slots=True)
class SearchRound:
    """The state of the current round; empty between rounds.

    Attributes
    ----------
    waiting
        The groups that were cut, the oldest first.
    searched
        What each action found for the groups that had their search in this round.
    may_search
        The groups that search in the next cycle, where not all of ``waiting`` fit into it. Empty: no restriction.
    due
        Whether the next cycle should start at once.
    """

    waiting: tuple[str, ...] = ()
    searched: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    may_search: frozenset[str] = frozenset()
    due: bool = False
    _size: int = 0  # how many of ``waiting`` may search in the next cycle
    _began: tuple[object, int] = field(default=(None, 0))  # the view with which the round began

    def record(self, cluster: Cluster, result: CycleResult) -> None:
        """Take over the result of a cycle on ``cluster``."""
        view = (cluster.store_id, cluster.serial)
        cut = tuple(key for key, found in result.searches.items() if Help.TOO_LONG in found)
        if not self.waiting:
            self._began, self.due, self._size = view, bool(cut), len(cut)
            self.waiting, self.searched = cut, _without(result.searches, cut)
            return
        tried = tuple(key for key in self.waiting if key in self.may_search) if self.may_search else self.waiting
        # A group that searches alone had the whole work limit: cut or not, it has had its search.
        served = frozenset(tried) if len(self.may_search) == 1 else frozenset(tried).difference(cut)
        # If one group used up the work limit and all were cut again, fewer search next, so that it ends up without
        # the others or alone.
        self._size = 2 * self._size if served else (len(tried) + 1) // 2
        self.waiting = tuple(key for key in self.waiting if key not in served)
        self.searched = {**self.searched, **_without(result.searches, self.waiting)}
        all_at_once = len(self.waiting) <= self._size != 1
        self.may_search = frozenset(() if all_at_once else self.waiting[: self._size])
        if not self.waiting:
            # Changes since the round began were seen only by the groups that waited: the others search again.
            self.searched, self.due = {}, view != self._began


def _without(searches: Mapping[str, tuple[int, ...]], keys: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    excluded = frozenset(keys)
    return {key: found for key, found in searches.items() if key not in excluded}
