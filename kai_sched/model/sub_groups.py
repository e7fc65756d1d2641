"""The tree that the sub-groups of a PodGroup should be, walked once whatever they are."""

from __future__ import annotations

from collections.abc import Mapping


def survey(parents: Mapping[str, str]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """How deep each sub-group stands, and the circle that it is in, if it is in one.

    ``parents`` are names by name, "" for the root. Depth is 1 below the root and below a parent that is not there, and
    0 in a circle and below one. A circle begins anywhere and goes from parent to parent.
    """
    depths: dict[str, int] = {}
    circles: dict[str, list[str]] = {}
    for start in parents:
        path: dict[str, int] = {}
        name = start
        while name in parents and name not in depths and name not in path:
            path[name] = len(path)
            name = parents[name]
        below = list(path)
        if name in path:
            circle = below[path[name] :]
            circles.update(dict.fromkeys(circle, circle))
            depths.update(dict.fromkeys(below, 0))
            continue
        base = depths.get(name)
        for step, each in enumerate(reversed(below), 1):
            depths[each] = 0 if base == 0 else (base or 0) + step
    return depths, circles
