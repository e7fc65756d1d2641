"""The search for changes that start a group: each is tried by a whole simulation, and what was tried is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kai_sched.answers.changes import Change
from kai_sched.answers.goal import Goal, goal_of
from kai_sched.answers.trial import TrialOutcome, Trials
from kai_sched.plan.effects import Evict

Changes = tuple[Change, ...]

# Objects that the cycles of one scan may look at; a scan that would cost more halves its way instead.
SCAN_WORK = 62_000
# The same for all trials of one explanation. Kinds that come last are looked at less closely once it is used up.
ALL_WORK = 1_800_000
CYCLES_OF_A_TRIAL = 3


@dataclass(frozen=True, slots=True)
class Tried:
    """What a change comes to: whether the group starts, and all evictions, those without the change included."""

    starts: bool
    settled: bool
    evicted: tuple[Evict, ...]
    bound: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class First:
    """The first of some candidates that starts the group.

    ``place`` is its place among them, None where none was found; ``tried`` how many were, ``exact`` whether all before
    the first one are known not to start it (else only the one right before it).
    """

    place: int | None
    tried: int
    exact: bool


class TrialSearch:
    """Tries changes for one group that waits.

    Attributes
    ----------
    goal
        When the group counts as started.
    base
        What becomes of the cluster without a change.
    """

    def __init__(self, trials: Trials, group: str) -> None:
        self.trials = trials
        self.group = group
        self.goal: Goal = goal_of(trials.cluster, group)
        self.base: TrialOutcome = trials.outcome()
        self._tried: dict[Changes, Tried] = {(): self._judged(self.base)}

    def tried(self, changes: Changes) -> Tried:
        """What the changes come to."""
        found = self._tried.get(changes)
        if found is None:
            found = self._tried[changes] = self._judged(self.trials.outcome(changes))
        return found

    def starts(self, changes: Changes) -> bool:
        """Whether the group starts with the changes."""
        return self.tried(changes).starts

    def affordable(self, count: int) -> int:
        """How many of so many trials there is work for in one scan."""
        one = CYCLES_OF_A_TRIAL * self.trials.cycle_cost
        left = max(0, min(SCAN_WORK, ALL_WORK - self.trials.work))
        return min(count, max(4, left // max(1, one)))

    def first(self, candidates: Sequence[Changes]) -> First:
        """The first candidate that starts the group; they come from the smallest change to the largest.

        All are tried in turn. Where that is too much work, the largest one is tried, and then by halves.
        """
        if self.affordable(len(candidates)) == len(candidates):
            place = next((place for place, each in enumerate(candidates) if self.starts(each)), None)
            return First(place, len(candidates) if place is None else place + 1, True)
        low, high = -1, len(candidates) - 1
        if not self.starts(candidates[high]):
            return First(None, 1, False)
        tried = 1
        while high - low > 1:
            middle = (low + high) // 2
            tried += 1
            if self.starts(candidates[middle]):
                high = middle
            else:
                low = middle
        return First(high, tried, False)

    def _judged(self, outcome: TrialOutcome) -> Tried:
        return Tried(self.goal.met(outcome.end), outcome.settled, outcome.evicted, outcome.bound)
