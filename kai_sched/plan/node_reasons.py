"""The texts of ``detailedFitErrors``: what each node lacks for a pod, and how long the list of them gets at most."""

from __future__ import annotations

from collections.abc import Iterable

from kai_sched.plan.amounts import KINDS, show_amount, show_number

# Bytes of the list. A PodGroup has it twice, beside those of other pools, and an object may have 1.5 MB in all.
LIST_MAX = 24 * 1024


def lacks(resource: str, asked: float, free: float) -> str:
    """The node lacks what the pod asks for of the resource; or the pod asks for none, and less than nothing is left."""
    if asked <= 0:
        return f"its pods hold more {KINDS.get(resource, resource)} than it has"
    wanted, there = show_amount(resource, asked), show_number(resource, max(0.0, free))
    return f"lacks the {wanted} that the pod asks for ({there} free)"


def any_of(texts: Iterable[str], has_room: bool) -> str:
    """One of these is in the way, and which one is not known node by node; ``has_room``: or nothing is."""
    text = " or ".join(texts)
    return f"{text}, unless it has room" if has_room else text


def listed(nodes: Iterable[tuple[str, str]], count: int) -> str:
    """The nodes with what each of them lacks, as far as LIST_MAX goes; how many more there are is told.

    Parameters
    ----------
    nodes
        Name and text of each. They are only read as far as they are shown.
    count
        How many there are.
    """
    shown: list[str] = []
    room = LIST_MAX
    for name, text in nodes:
        entry = f"{name}: {text}"
        room -= len(entry.encode()) + 2
        if room < 0:
            shown.append(f"and {count - len(shown)} more of {count} nodes that refuse it")
            break
        shown.append(entry)
    return "; ".join(shown)
