"""Changes that the owner of a queue can make: quota, limit and weight, at every level that stops the group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kai_sched.answers.changes import SHARES, SetQueue
from kai_sched.answers.explain.search import Changes, TrialSearch
from kai_sched.answers.explain.suggestion import OWNER, Finding, NothingHelps, Suggestion
from kai_sched.model.objects import UNLIMITED, Queue
from kai_sched.model.queue_tree import path_to_root
from kai_sched.plan.reasons import show_amount
from kai_sched.plan.result import QUEUE_RESOURCES, QueueState

# What amounts are raised by, in scheduler units.
UNITS = {"gpu": 1.0, "cpu": 1000.0, "memory": 2.0**30}
UNIT_NAMES = {"gpu": "GPU", "cpu": "CPU core", "memory": "Gi"}
WEIGHT_MAX = 100
ROUNDS_MAX = 3


@dataclass(frozen=True, slots=True)
class _Level:
    """An amount that can be raised: that of one queue on the way to the root, up to ``most``; more is of no use."""

    queue: Queue
    share: str
    field: str
    now: float
    most: float

    def raised(self, steps: int) -> float:
        """The amount after so many steps."""
        unit = UNITS[self.share]
        return min(math.floor(self.now / unit + 1e-9) * unit + steps * unit, self.most)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        unit = UNITS[self.share]
        return max(0, math.ceil(self.most / unit - math.floor(self.now / unit + 1e-9) - 1e-9))


def queue_findings(search: TrialSearch) -> Iterator[Finding]:
    """What the owner of the queue can change."""
    state = search.base.first.groups.get(search.group)
    queues = search.trials.cluster.queues
    if state is None or state.queue not in queues:
        return
    path = [queues[name] for name in path_to_root(queues, state.queue)]
    states = {each.name: each for each in search.base.first.queues}
    quotas, limits = (_levels(path, states, field) for field in ("quota", "limit"))
    kinds: list[tuple[str, list[_Level]]] = [("quota", quotas), ("limit", limits)]
    helped = False
    for field, levels in kinds:
        found = _raised(search, field, levels)
        helped = helped or isinstance(found, Suggestion)
        if found is not None:
            yield found
    if quotas and limits and not helped and (both := _raised(search, "quota and limit", [*quotas, *limits])):
        yield both
    if (found := _heavier(search, path)) is not None:
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


def _levels(path: Sequence[Queue], states: dict[str, QueueState], field: str) -> list[_Level]:
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
                found.append(_Level(queue, share, field, now, most))
    return found


def _raised(search: TrialSearch, field: str, levels: Sequence[_Level]) -> Finding | None:
    """The smallest amounts that are enough: all levels are raised alike, and then each lowered as far as it can be."""
    if not levels:
        return None
    first = levels[0].share
    main, others = [each for each in levels if each.share == first], [each for each in levels if each.share != first]
    steps = range(1, max(each.steps for each in main) + 1)
    for more in ([], others) if others else ([],):
        fixed = [(level, level.most) for level in more]
        found = search.first([_changes([*((level, level.raised(n)) for level in main), *fixed]) for n in steps])
        if found.place is not None:
            amounts = [*((level, level.raised(steps[found.place])) for level in main), *fixed]
            amounts, exact = _lowered(search, amounts)
            return Suggestion(field, OWNER, _text(amounts), UNIT_NAMES[first], _changes(amounts), exact and found.exact)
    top = ", ".join(f"{level.queue.name} {show_amount(level.share, level.most)}" for level in main)
    return NothingHelps(field, OWNER, f"a higher {field} (up to all that is asked for: {top})")


Amounts = list[tuple[_Level, float]]


def _lowered(search: TrialSearch, amounts: Amounts) -> tuple[Amounts, bool]:
    """The amounts, of which none can be smaller while the others stay; and whether all smaller ones were tried."""
    exact = True
    for _ in range(ROUNDS_MAX):
        before = list(amounts)
        for level, _ in before:
            others = [each for each in amounts if each[0] is not level]
            rest = len(amounts) - len(others)
            if not rest:
                continue
            value = next(value for each, value in amounts if each is level)
            smaller = [raised for n in range(1, level.steps + 1) if (raised := level.raised(n)) < value]
            trials = [
                *([_changes(others)] if others else []),
                *(_changes([*others, (level, each)]) for each in smaller),
            ]
            found = search.first([*trials, _changes([*others, (level, value)])])
            exact = exact and found.exact
            place = (found.place or 0) - bool(others)
            if place < 0:
                amounts = others
            elif place < len(smaller):
                amounts = [(each, smaller[place] if each is level else old) for each, old in amounts]
        if amounts == before:
            break
    return amounts, exact


def _changes(amounts: Sequence[tuple[_Level, float]]) -> Changes:
    found = [SetQueue(level.queue.name, level.share, level.field, value) for level, value in amounts]
    return tuple(sorted(found, key=lambda each: (each.queue, each.share, each.field)))


def _text(amounts: Sequence[tuple[_Level, float]]) -> str:
    parts = []
    for level, value in amounts:
        now = show_amount(level.share, level.now).split(" ", 1)[0]
        parts.append(f"{level.field} of {level.queue.name} {now} -> {show_amount(level.share, value)}")
    return " and ".join(parts)


def _heavier(search: TrialSearch, path: Sequence[Queue]) -> Finding | None:
    """A larger weight for the leaf and the queues above it, each no larger than it has to be."""
    share = next((each for each in SHARES if _asks(search, each)), "")
    weights = {queue.name: getattr(queue, share).weight for queue in path} if share else {}
    steps = [value for value in range(1, WEIGHT_MAX + 1) if value > min(weights.values(), default=WEIGHT_MAX)]
    if not steps:
        return None

    def changes(values: dict[str, float]) -> Changes:
        return tuple(SetQueue(name, share, "weight", value) for name, value in sorted(values.items()))

    def at(value: int) -> dict[str, float]:
        return {name: float(value) for name, now in weights.items() if now < value}

    found = search.first([changes(at(value)) for value in steps])
    if found.place is None:
        return NothingHelps("weight", OWNER, f"a larger weight (up to {WEIGHT_MAX})")
    values, exact = at(steps[found.place]), found.exact
    for name in list(values):
        others = {each: value for each, value in values.items() if each != name}
        smaller = [value for value in steps if weights[name] < value < values[name]]
        trials = [*([changes(others)] if others else []), *(changes({**others, name: float(v)}) for v in smaller)]
        lowest = search.first([*trials, changes(values)])
        exact = exact and lowest.exact
        place = (lowest.place or 0) - bool(others)
        if place < 0:
            values = others
        elif place < len(smaller):
            values[name] = float(smaller[place])
    text = " and ".join(f"weight of {name} {weights[name]:g} -> {value:g}" for name, value in values.items())
    return Suggestion("weight", OWNER, text, "unit of overQuotaWeight", changes(values), exact)


def _asks(search: TrialSearch, share: str) -> bool:
    place = QUEUE_RESOURCES.index(share)
    state = search.base.first.groups[search.group]
    return any(each.requested[place] > 0 for each in search.base.first.queues if each.name == state.queue)
