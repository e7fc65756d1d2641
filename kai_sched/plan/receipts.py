"""The texts about evictions: which pod is evicted, for which group, by which rule, and what that frees.

Used for events, conditions, logs and reports. All texts are made from effects alone.
"""

from __future__ import annotations

from kai_sched.model.resources import PODS
from kai_sched.plan.amounts import show_amount
from kai_sched.plan.effects import Evict, Plan, Side
from kai_sched.plan.reasons import some_of

STALE = "stalegangeviction"
BACKGROUND = "backgroundpods"
CONSOLIDATION = "consolidation"
_RULES = {
    "reclaim": "reclaims the share of its queue",
    "preempt": "has the higher priority in the same queue",
    CONSOLIDATION: "needs room that is scattered over several nodes",
}
_CODES = {"preempt": "Priority", STALE: "BelowMinimum", BACKGROUND: "Background", CONSOLIDATION: "Consolidated"}
_RESOURCES = ("cpu", "memory", "gpu")


def freed(eviction: Evict) -> tuple[tuple[str, float], ...]:
    """(resource, amount) that the eviction frees, without the pod slot."""
    return tuple((name, amount) for name, amount in eviction.freed if name != PODS)


def rule(eviction: Evict) -> str:
    """The rule by which the pod is evicted; it is said of the group that gets room, or of the pod if there is none."""
    if eviction.action == STALE:
        return "its gang was below its minimum for longer than its staleness grace period"
    if eviction.action == BACKGROUND:
        return "it is a background pod, and others are placed on its node"
    return _RULES[eviction.action]


def reason_code(eviction: Evict) -> str:
    """What the eviction does to the victim, in a word for metrics.

    Moved: it has another node. Priority: a group of its queue has a higher priority. OverQuota: another queue reclaims
    what the victim's queue holds beyond its quota; WithinQuota: what it holds within it. BelowMinimum: its gang was
    stale. Background: others take the room of a background pod. Consolidated: its room is needed in one piece.
    """
    if eviction.moved:
        return "Moved"
    if eviction.action != "reclaim":
        return _CODES[eviction.action]
    taken = dict(eviction.freed)
    victim = eviction.sides[0] if eviction.sides else None
    over = victim is not None and any(
        victim.allocated[place] > victim.quota[place]
        for place, resource in enumerate(_RESOURCES)
        if taken.get(resource)
    )
    return "OverQuota" if over else "WithinQuota"


def notice(eviction: Evict) -> str:
    """One eviction in a line: the pod, the group that gets the room, the rule, and what is freed."""
    amounts = ", ".join(show_amount(name, amount) for name, amount in freed(eviction))
    room = f"frees {amounts or 'a pod slot'} on {eviction.node}"
    if not eviction.cause:
        return f"pod {eviction.pod} is evicted, as {rule(eviction)} ({room})"
    verb, place = "evicted", ""
    if eviction.moves_to:
        verb, place = "moved", f": it has a place on {eviction.moves_to}"
    who = f"pod {eviction.pod} is {verb} by {eviction.action} for {eviction.cause}"
    return f"{who}, which {rule(eviction)}{place} ({room})"


def receipt(eviction: Evict) -> str:
    """As ``notice``, and a line for each queue that was compared."""
    return "\n".join([notice(eviction), *(_side(side) for side in eviction.sides)])


def gains(plan: Plan) -> str:
    """What a plan's evictions free for the group that gets the room. ``plan`` must have an eviction with a cause."""
    total: dict[str, float] = {}
    for eviction in plan.evictions:
        for name, amount in freed(eviction):
            total[name] = total.get(name, 0.0) + amount
    victims = some_of(sorted({eviction.group for eviction in plan.evictions}))
    room = ", ".join(show_amount(name, amount) for name, amount in sorted(total.items())) or "pod slots"
    count = f"{len(plan.evictions)} pod{'' if len(plan.evictions) == 1 else 's'}"
    where = some_of(sorted({eviction.node for eviction in plan.evictions}))
    first = plan.evictions[0]
    verb = "moves" if first.action == CONSOLIDATION else "evicts"
    text = f"{first.action} {verb} {count} of {victims} for {first.cause}, which {_RULES[first.action]}"
    return f"{text}; this frees {room} on {where}, and {first.cause} starts once the pods are gone"


def _side(side: Side) -> str:
    parts = []
    for place, resource in enumerate(_RESOURCES):
        if side.allocated[place] or side.quota[place]:
            held, quota, fair = (
                show_amount(resource, each[place]) for each in (side.allocated, side.quota, side.fair_share)
            )
            parts.append(f"holds {held}, quota {quota}, fair share {fair}")
    return f"queue {side.queue} (priority {side.priority}): {'; '.join(parts) or 'holds nothing'}"
