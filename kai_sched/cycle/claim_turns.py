"""When groups whose claims for devices are too hard to decide have their next full search; in the cycles between they
search briefly, so that the steps of a cycle go to others (semantics 8.6).

A group whose search was cut waits one cycle, then two, four, and so on up to ``WAIT_MAX``. Invariant: if the cluster
has changed since its last full search, it has another one within ``WAIT_MAX`` cycles, which follow although nothing
changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult

WAIT_MAX = 8

View = tuple[object, int]


@dataclass(frozen=True, slots=True)
class _Turn:
    """How often the search of a group was cut, how many cycles it waits, and the view of its last full search."""

    times: int
    wait: int
    view: View


@dataclass(slots=True)
class ClaimTurns:
    """The groups whose searches were cut. ``due`` says whether another cycle should follow although nothing changes."""

    due: bool = False
    _turns: Mapping[str, _Turn] = field(default_factory=dict)

    @property
    def brief(self) -> frozenset[str]:
        """The groups that search briefly in the next cycle."""
        return frozenset(key for key, turn in self._turns.items() if turn.wait)

    def record(self, cluster: Cluster, result: CycleResult) -> None:
        """Take over the result of a cycle on ``cluster``."""
        view, turns = (cluster.store_id, cluster.serial), {}
        for key in sorted(result.hard_claims):
            before = self._turns.get(key, _Turn(0, 0, view))
            if before.wait:
                turns[key] = _Turn(before.times, before.wait - 1, before.view)
            else:
                turns[key] = _Turn(before.times + 1, min(2**before.times, WAIT_MAX), view)
        self._turns = turns
        self.due = any(turn.view != view for turn in turns.values())
