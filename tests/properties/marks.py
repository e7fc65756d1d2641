"""Labels and annotations of pods by which the scheduler spares or ignores them, given to the pods of a random cluster.

They follow from uids, so that a cluster with them is otherwise the one that its seed makes without them.
"""

from __future__ import annotations

import random
from dataclasses import replace

from kai_sched.api import names
from kai_sched.model import objects as o


def luck(text: str) -> float:
    """A number from 0 to 1, always the same for a text."""
    return random.Random(text).random()


def with_unsafe_pods(objects: list[o.Object]) -> list[o.Object]:
    """Some pods are not safe to consolidate."""
    return [
        replace(each, safe_to_consolidate=False)
        if isinstance(each, o.Pod) and luck(f"safe {each.uid}") < 0.05
        else each
        for each in objects
    ]


def with_background(objects: list[o.Object]) -> list[o.Object]:
    """All pods of some groups are background pods, and a few of others."""
    found: list[o.Object] = []
    for each in objects:
        chosen = isinstance(each, o.Pod) and (
            luck(f"background {each.group or each.uid}{len(objects)}") < 0.4 or luck(f"background {each.uid}") < 0.03
        )
        if isinstance(each, o.Pod) and chosen:
            found.append(replace(each, labels={**each.labels, names.BACKGROUND_LABEL: "true"}))
        else:
            found.append(each)
    return found
