"""The depth of each sub-group in the tree of a PodGroup, and circles of parents; for readers and admission."""

from __future__ import annotations

from collections.abc import Mapping


def survey(parents: Mapping[str, str]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """The depth of each sub-group, and the cycle that it is in.

    Parameters
    ----------
    parents
        Name of the parent by name; "" stands for the root.

    Returns
    -------
    tuple
        Depth by name: 1 below the root and below a parent that does not exist, 0 in a cycle and below one. And, for
        the names in a cycle, the cycle from parent to parent, beginning at any of its names.
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
