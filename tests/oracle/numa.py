"""How a request is placed in the NUMA zones of a node, slowly and by the letter (semantics 12.4)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from kai_sched.model.numa import Alignment

Amounts = dict[str, int]
Zones = Sequence[Amounts]


def fit(policy: Alignment, need: Amounts, free: Zones, allocatable: Zones) -> list[int] | None:
    """The zones that are drawn from, in order; None: they cannot hold the request."""
    need = {name: amount for name, amount in need.items() if amount > 0}
    if policy == Alignment.SINGLE:
        return next(([z] for z, zone in enumerate(free) if covers(zone, need)), None)
    if policy == Alignment.RESTRICTED:
        least = {least_zones(amount, [zone[name] for zone in allocatable]) for name, amount in need.items()}
        if None in least or len(least) > 1:
            return None
        tries = combinations(range(len(free)), least.pop() or 0 if least else 0)
        return next((list(zones) for zones in tries if covers(together(zones, free, need), need)), None)
    chosen: list[int] = []
    while any(need.values()):
        covered = [
            sum((Fraction(min(zone[name], left), left) for name, left in need.items() if left), Fraction(0))
            for zone in free
        ]
        others = [z for z in range(len(free)) if z not in chosen and covered[z] > 0]
        if not others:
            return None
        best = max(others, key=lambda z: (covered[z], -z))
        chosen.append(best)
        need = {name: left - min(left, free[best][name]) for name, left in need.items()}
    return chosen


def covers(zone: Amounts, need: Amounts) -> bool:
    return all(amount <= zone[name] for name, amount in need.items())


def together(zones: Sequence[int], free: Zones, need: Amounts) -> Amounts:
    return {name: sum(free[z][name] for z in zones) for name in need}


def least_zones(amount: int, sizes: list[int]) -> int | None:
    """How many zones it takes, the largest first; None: all of them are not enough."""
    total = 0
    for count, size in enumerate(sorted(sizes, reverse=True), 1):
        total += size
        if total >= amount:
            return count
    return None


def draw(need: Amounts, chosen: Sequence[int], free: Zones) -> list[Amounts]:
    """What is taken of each zone: of the chosen ones in their order, as much as each has."""
    taken: list[Amounts] = [dict.fromkeys(need, 0) for _ in free]
    for name, left in need.items():
        for z in chosen:
            taken[z][name] = min(left, free[z][name])
            left -= taken[z][name]
    return taken


def place_pod(
    policy: Alignment, requests: Sequence[tuple[bool, Amounts]], free: Zones, allocatable: Zones
) -> list[Amounts] | None:
    """What a pod takes of each zone, request after request; those that run alone (True) only have to fit."""
    left, taken = [dict(zone) for zone in free], [dict.fromkeys(zone, 0) for zone in free]
    for alone, need in requests:
        offered = free if alone else left
        chosen = fit(policy, need, offered, allocatable)
        if chosen is None:
            return None
        if alone:
            continue
        for z, amounts in enumerate(draw(need, chosen, left)):
            for name, amount in amounts.items():
                left[z][name] -= amount
                taken[z][name] += amount
    return taken
