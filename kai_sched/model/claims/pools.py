"""Which ResourceSlices of a pool count, and what keeps the devices of a pool from being used (semantics 8.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kai_sched.model.claims.objects import ResourceSlice


def newest_slices(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], list[ResourceSlice]]:
    """By driver and pool the slices of the newest generation, in the order of their names."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in sorted(slices, key=lambda each: each.name):
        known = pools.setdefault((each.driver, each.pool), [])
        if known and known[0].generation < each.generation:
            known.clear()
        if not known or known[0].generation == each.generation:
            known.append(each)
    return pools


def pool_fault(slices: list[ResourceSlice]) -> tuple[str, str] | None:
    """(field, text) of what keeps all devices of a pool from being used; None if nothing does.

    ``slices`` are those of its newest generation.
    """
    first = slices[0]
    if len(slices) != first.count:
        there = f"{len(slices)} of its slices {'is' if len(slices) == 1 else 'are'} there"
        remedy = "add the missing ones" if len(slices) < first.count else "delete those that are too many"
        what = f"{first.count} at generation {first.generation} of pool {first.pool} of {first.driver}, and {there}"
        return "spec.pool.resourceSliceCount", f"{what}, so no device of it is used: {remedy}, or correct the number"
    counts = Counter(device.name for each in slices for device in each.devices)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        what = f"{twice[0]!r} occurs {counts[twice[0]]} times in pool {first.pool} of {first.driver}"
        return "spec.devices.name", f"{what}, so no device of it is used: give each device its own name"
    return None
