"""Changes that the owner of a queue can make: quota, limit and weight, at every level that stops the group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from kai_sched.answers.changes import SHARES, SetQueue
from kai_sched.answers.explain.search import Changes, TrialSearch
from kai_sched.answers.explain.suggestion import OWNER, Finding, NothingHelps, Suggestion
from kai_sched.model.objects import UNLIMITED, Queue
from kai_sched.model.queue_tree import path_to_root
from kai_sched.plan.amounts import show_amount, show_number
from kai_sched.plan.result import QUEUE_RESOURCES, QueueState

# What amounts are raised by, in scheduler units.
UNITS = {"gpu": 1.0, "cpu": 1000.0, "memory": 2.0**30}
UNIT_NAMES = {"gpu": "GPU", "cpu": "CPU core", "memory": "Gi"}
WEIGHT_MAX = 100
ROUNDS_MAX = 3
STEPS_MAX = 2**20


@dataclass(frozen=True, slots=True)
class _Level:
    """An amount of one queue that can be raised in whole units, from ``now`` to ``most``."""

    queue: str
    share: str
    field: str
    now: float
    most: float

    @property
    def unit(self) -> float:
        """What it is raised by, in scheduler units."""
        return 1.0 if self.field == "weight" else UNITS[self.share]

    @property
    def _whole(self) -> int:
        """Whole units now."""
        return math.floor(self.now / self.unit + 1e-9)

    def raised(self, steps: int) -> float:
        """The amount after so many steps."""
        return min((self._whole + steps) * self.unit, self.most)

    @property
    def steps(self) -> int:
        """How many steps there are, and STEPS_MAX at most: pods may ask for any amount."""
        return max(0, min(math.ceil(self.most / self.unit - self._whole - 1e-9), STEPS_MAX))

    def text(self, value: float) -> str:
        """The change to this value in words."""
        if self.field == "weight":
            return f"weight of {self.queue} {self.now:g} -> {value:g}"
        now = show_number(self.share, self.now)
        return f"{self.field} of {self.queue} {now} -> {show_amount(self.share, value)}"


# By level the number of steps by which it is raised, from 1 on; levels that stay are missing.
Steps = dict[_Level, int]


def queue_findings(search: TrialSearch) -> Iterator[Finding]:
    """What the owner of the queue can change."""
    state = search.base.first.groups.get(search.group)
    queues = search.trials.cluster.queues
    if state is None or state.queue not in queues:
        return
    path = [queues[name] for name in path_to_root(queues, state.queue)]
    states = {each.name: each for each in search.base.first.queues}
    quotas, limits = (_levels(path, states, field) for field in ("quota", "limit"))
    helped = False
    for field, levels in (("quota", quotas), ("limit", limits)):
        found = _raised(search, field, levels)
        helped = helped or isinstance(found, Suggestion)
        if found is not None:
            yield found
    if quotas and limits and not helped and (found := _raised(search, "quota and limit", [*quotas, *limits])):
        yield found
    if found := _raised(search, "weight", _weights(path, states)):
        yield found


def unlimited_changes(search: TrialSearch, field: str) -> Changes:
    """An unlimited quota, or limit, at every level of the group's queue."""
    state = search.base.first.groups.get(search.group)
    queues = search.trials.cluster.queues
    if state is None or state.queue not in queues:
        return ()
    path = [queues[name] for name in path_to_root(queues, state.queue)]
    return tuple(
        SetQueue(queue.name, share, field, UNLIMITED)
        for queue in path
        for share in SHARES
        if getattr(getattr(queue, share), field) != UNLIMITED
    )


def _levels(path: Sequence[Queue], states: Mapping[str, QueueState], field: str) -> list[_Level]:
    """The amounts of that field that are below what is requested; GPUs first, from the leaf to the root."""
    found = []
    for share in SHARES:
        place = QUEUE_RESOURCES.index(share)
        for queue in path:
            now = getattr(getattr(queue, share), field)
            if now == UNLIMITED or queue.name not in states:
                continue
            unit = UNITS[share]
            most = math.ceil(states[queue.name].requested[place] / unit - 1e-9) * unit
            if most > now:
                found.append(_Level(queue.name, share, field, now, most))
    return found


def _weights(path: Sequence[Queue], states: Mapping[str, QueueState]) -> list[_Level]:
    """The weights for the first resource of which the queue requests something."""
    leaf = states.get(path[0].name)
    for share in SHARES:
        if leaf is not None and leaf.requested[QUEUE_RESOURCES.index(share)] > 0:
            weights = [(queue, getattr(queue, share).weight) for queue in path]
            return [_Level(queue.name, share, "weight", now, WEIGHT_MAX) for queue, now in weights if now < WEIGHT_MAX]
    return []


def _raised(search: TrialSearch, field: str, levels: Sequence[_Level]) -> Finding | None:
    """The smallest amounts that are enough: all levels are raised alike, and then each lowered as far as it can be.

    Amounts of the first resource come first; the others are raised to all that is asked for, if that is not enough.
    """
    if not levels:
        return None
    first = levels[0].share
    main, others = [each for each in levels if each.share == first], [each for each in levels if each.share != first]
    ladder = range(1, max(each.steps for each in main) + 1)
    for more in ([], others) if others else ([],):
        fixed = {level: level.steps for level in more}
        found = search.first(ladder, partial(_changes_alike, main, fixed))
        if found.place is not None:
            least, exact = _least(search, _lowered(search, _alike(main, ladder[found.place]) | fixed))
            text = " and ".join(level.text(level.raised(steps)) for level, steps in least.items())
            unit = "unit of weight" if field == "weight" else UNIT_NAMES[first]
            return Suggestion(field, OWNER, text, unit, _changes(least), exact)
    if field == "weight":
        return NothingHelps(field, OWNER, f"a larger weight (up to {WEIGHT_MAX})")
    tops = (f"{level.queue} {show_amount(level.share, level.raised(level.steps))}" for level in main)
    top = ", ".join(dict.fromkeys(tops))  # a quota and a limit of one queue are raised to the same
    return NothingHelps(field, OWNER, f"a higher {field} (up to all that is asked for: {top})")


def _alike(levels: Sequence[_Level], steps: int) -> Steps:
    return {level: min(steps, level.steps) for level in levels}


def _changes_alike(levels: Sequence[_Level], fixed: Steps, steps: int) -> Changes:
    return _changes(_alike(levels, steps) | fixed)


def _lowered(search: TrialSearch, steps: Steps) -> Steps:
    """The steps, of which none can be smaller while the others stay."""
    for _ in range(ROUNDS_MAX):
        before = steps
        for level, now in before.items():
            numbers = range(0 if len(steps) > 1 else 1, now + 1)
            found = search.first(numbers, partial(_changes_with, steps, level))
            if found.place is not None:
                steps = _with(steps, level, numbers[found.place])
        if steps == before:
            break
    return steps


def _with(steps: Steps, level: _Level, number: int) -> Steps:
    """Steps with so many of the level; with none the level stays as it is."""
    return {each: n for each, n in (steps | {level: number}).items() if n}


def _changes_with(steps: Steps, level: _Level, number: int) -> Changes:
    return _changes(_with(steps, level, number))


def _least(search: TrialSearch, steps: Steps) -> tuple[Steps, bool]:
    """The smallest steps at or below these, by their sum, and whether all of them could be tried.

    Amounts that stop each other (a higher limit above lets others in first) may do with less together than one by one.
    """
    ways = math.prod(n + 1 for n in steps.values()) - 2
    if search.affordable(ways) < ways:
        return steps, False
    choices = product(*(range(n + 1) for n in steps.values()))
    lower = [{level: n for level, n in zip(steps, way, strict=True) if n} for way in choices]
    for each in sorted(lower, key=lambda each: sum(each.values())):
        if each and search.starts(_changes(each)):
            return each, True
    return steps, True


def _changes(steps: Steps) -> Changes:
    found = [SetQueue(level.queue, level.share, level.field, level.raised(n)) for level, n in steps.items()]
    return tuple(sorted(found, key=lambda each: (each.queue, each.share, each.field)))
