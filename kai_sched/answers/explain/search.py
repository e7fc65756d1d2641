"""The search for changes that start a group: each is tried by a whole simulation, and what was tried is remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kai_sched.answers.changes import Change
from kai_sched.answers.goal import Goal, goal_of, group_labels, group_pods
from kai_sched.answers.trial import TrialOutcome, Trials
from kai_sched.answers.workload_changes import waits
from kai_sched.model.config import pool_in_force
from kai_sched.model.objects import Pod
from kai_sched.plan.effects import Evict

Changes = tuple[Change, ...]
Amount = TypeVar("Amount")

# What one scan may cost (``Trials.work``); a scan that would cost more halves its way instead.
SCAN_WORK = 70_000
# The same for clusters whose cycles cost no more than this: what is found there is looked for in whole.
SMALL, SCAN_WORK_OF_SMALL = 1_200, 400_000
# Where a cycle costs more than this, the largest change is tried first.
LARGE = 5_000
# The same for all trials of one explanation. Kinds that come last are looked at less closely once it is used up.
ALL_WORK = 1_500_000
CYCLES_OF_A_TRIAL = 3
LEAST_TRIALS = 4


@dataclass(frozen=True, slots=True)
class Tried:
    """What a change comes to: whether the group starts, and all evictions, those without the change included."""

    starts: bool
    settled: bool
    evicted: tuple[Evict, ...]
    bound: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class First:
    """The first of some amounts whose change starts the group.

    ``place`` is its place among them, None where none was found. ``exact``: all before it were tried and do not start
    the group; else only the one right before it, and some others.
    """

    place: int | None
    exact: bool


class TrialSearch:
    """Tries changes for one group that waits.

    Attributes
    ----------
    goal
        When the group counts as started.
    base
        What becomes of the cluster without a change.
    config
        The settings with the node pool of the group, also where all shards are decided.
    waiting
        The pods of the group that have no node yet.
    """

    def __init__(self, trials: Trials, group: str) -> None:
        self.trials = trials
        self.group = group
        self.goal: Goal = goal_of(trials.cluster, group)
        self.base: TrialOutcome = trials.base
        self.config = trials.config
        if trials.config.node_pools:
            pool = pool_in_force(group_labels(trials.cluster, group), trials.config)
            self.config = replace(trials.config, node_pool=pool, node_pools=())
        pods = group_pods(trials.cluster.pods, trials.cluster.pod_groups, group)
        self.waiting: list[Pod] = [pod for pod in pods if waits(pod)]
        self._work_before = trials.work
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

    @property
    def is_small(self) -> bool:
        """Whether the cluster is so small that what is looked for is looked for in whole."""
        return self.trials.cycle_cost <= SMALL

    def affordable(self, count: int) -> int:
        """How many of so many trials there is work for in one scan."""
        one = CYCLES_OF_A_TRIAL * self.trials.cycle_cost
        left = ALL_WORK - (self.trials.work - self._work_before)
        left = max(0, min(SCAN_WORK_OF_SMALL if self.is_small else SCAN_WORK, left))
        return min(count, max(LEAST_TRIALS, left // one))

    def first(self, amounts: Sequence[Amount], change: Callable[[Amount], Changes]) -> First:
        """The first amount whose change starts the group; they come from the smallest change to the largest.

        They are tried by doubling (1, 2, 4, 8, ...), and then all that are smaller than the one that was found. Where
        that is too much work, only by halves between the last one that failed and the one that was found. On large
        clusters none is looked for where the largest change does not help. ``amounts`` may be a range as long as a
        number that a user wrote: only what is tried becomes a change.
        """
        many = len(amounts)

        def starts(place: int) -> bool:
            return self.starts(change(amounts[place]))

        if self.trials.cycle_cost > LARGE and many and not starts(many - 1):
            return First(None, many == 1)
        ladder = _doubling(many)
        found = next((place for place in ladder if starts(place)), None)
        if found is None:
            left = many - len(ladder)
            if not self.is_small or self.affordable(left) < left:
                return First(None, not left)
            # What helps only between two amounts that do not: others take the room of the larger one.
            rest = (place for place in range(many) if place not in ladder)
            return First(next((place for place in rest if starts(place)), None), True)
        smaller = found - sum(place < found for place in ladder)
        if self.affordable(smaller) == smaller:
            before = (place for place in range(found) if place not in ladder)
            return First(next((place for place in before if starts(place)), found), True)
        low = max((place for place in ladder if place < found), default=-1)
        while found - low > 1:
            middle = (low + found) // 2
            if starts(middle):
                found = middle
            else:
                low = middle
        return First(found, False)

    def _judged(self, outcome: TrialOutcome) -> Tried:
        return Tried(self.goal.met(outcome.end), outcome.settled, outcome.evicted, outcome.bound)


def _doubling(count: int) -> list[int]:
    """The places 0, 1, 3, 7, ... of so many candidates, and the last one."""
    places = {2**power - 1 for power in range(count.bit_length())} | {count - 1}
    return sorted(place for place in places if 0 <= place < count)
