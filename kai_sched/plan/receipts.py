"""Receipts of evictions: who goes, for whom, by which rule, and what it frees. Texts from facts, for people."""

from __future__ import annotations

from collections.abc import Sequence

from kai_sched.plan.effects import Evict, Side
from kai_sched.plan.reasons import show_amount, some_of

STALE = "stalegangeviction"
CONSOLIDATION = "consolidation"
_RULES = {
    "reclaim": "takes its queue's share back",
    "preempt": "has the higher priority in the same queue",
    CONSOLIDATION: "needs room in one piece",
}
_RESOURCES = ("cpu", "memory", "gpu")


def receipt(eviction: Evict) -> str:
    """One eviction in a sentence, and a line for each queue that was weighed."""
    freed = ", ".join(show_amount(name, amount) for name, amount in eviction.freed if name != "pods")
    room = f"frees {freed or 'a pod slot'} on {eviction.node}"
    if eviction.action == STALE:
        return f"pod {eviction.pod} is evicted, as its gang has been incomplete for longer than its grace ({room})"
    rule = _RULES[eviction.action]
    text = f"pod {eviction.pod} is evicted by {eviction.action} for {eviction.cause}, which {rule} ({room})"
    if eviction.moves_to:
        text = (
            f"pod {eviction.pod} is moved by {eviction.action} for {eviction.cause}, which {rule}: "
            f"it has a place on {eviction.moves_to} ({room})"
        )
    return "\n".join([text, *(_side(side) for side in eviction.sides)])


def gains(evictions: Sequence[Evict]) -> str:
    """What the evictions for one group give it, told to that group. Not empty."""
    freed: dict[str, float] = {}
    for eviction in evictions:
        for name, amount in eviction.freed:
            if name != "pods":
                freed[name] = freed.get(name, 0.0) + amount
    victims = some_of(sorted({eviction.group for eviction in evictions}))
    room = ", ".join(show_amount(name, amount) for name, amount in sorted(freed.items()))
    count = f"{len(evictions)} pod{'' if len(evictions) == 1 else 's'}"
    action, where = evictions[0].action, some_of(sorted({eviction.node for eviction in evictions}))
    text = f"{action} evicts {count} of {victims} for this group, which frees {room} on {where}"
    return f"{text}: it starts once they are gone"


def _side(side: Side) -> str:
    parts = []
    for place, resource in enumerate(_RESOURCES):
        if side.allocated[place] or side.quota[place]:
            held, quota, fair = (
                show_amount(resource, each[place]) for each in (side.allocated, side.quota, side.fair_share)
            )
            parts.append(f"holds {held}, quota {quota}, fair share {fair}")
    return f"queue {side.queue} (priority {side.priority}): {'; '.join(parts) or 'holds nothing'}"
