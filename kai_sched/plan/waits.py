"""The texts about pipelined pods: which leaving pods, or which other pods of its group, each waits for.

Used for events of pods and for reports. ``Leaving`` maps a node to the pods that are leaving it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.objects import Pod
from kai_sched.plan.effects import Effect, Evict, Pipeline
from kai_sched.plan.reasons import some_of

Leaving = Mapping[str, Sequence[str]]  # ``CycleResult.leaving``


def by_group(effects: Sequence[Effect], pods: Mapping[str, Pod]) -> dict[str, list[Pipeline]]:
    """The pipelined pods by the key that their group has in ``CycleResult.groups``."""
    found: dict[str, list[Pipeline]] = {}
    for effect in effects:
        if isinstance(effect, Pipeline):
            pod = pods[effect.pod]
            # In a result, the key of a bare pod's group is marked where a PodGroup has the same key.
            keys = (pod.group_key,) if pod.group else (pod.group_key, bare_pod_group_key(pod.key))
            for key in keys:
                found.setdefault(key, []).append(effect)
    return found


def moves(effects: Sequence[Effect]) -> dict[str, str]:
    """The node that each moved pod leaves, by key of the pod."""
    return {each.pod: each.node for each in effects if isinstance(each, Evict) and each.moves_to}


def of_pod(place: Pipeline, mates: Sequence[Pipeline], leaving: Leaving, moved: Mapping[str, str]) -> str:
    """What a pipelined pod waits for. ``mates`` are all pipelined pods of its group, ``moved`` is from ``moves``."""
    text = f"has a place on node {place.node}"
    if place.pod in moved:
        text = f"is moved from node {moved[place.pod]} to node {place.node}"
    if others := [key for key in leaving.get(place.node, ()) if key != place.pod]:
        return f"{text} and waits until {_have_left(others)} it"
    if place.pod in moved:
        return text
    if busy := _busy(mates, leaving):
        return f"{text} and starts together with its group, which waits for {busy}"
    return f"{text}, which no pod is leaving; the next cycle decides whether it is bound"


def of_group(places: Sequence[Pipeline], leaving: Leaving, moved: Mapping[str, str]) -> str:
    """What the pipelined pods of a group wait for, in one line."""
    parts = []
    if moving := [each for each in places if each.pod in moved]:
        where = some_of(list(dict.fromkeys(each.node for each in moving)))
        parts.append(f"{len(moving)} pod{' is' if len(moving) == 1 else 's are'} moved to {where}")
    if busy := _busy(places, leaving):
        parts.append(f"waits for {busy}")
    elif not moving:
        where = some_of(list(dict.fromkeys(each.node for each in places)))
        parts.append(f"no pod is leaving {where}; the next cycle decides whether it is bound")
    return "; ".join(parts)


def _busy(places: Sequence[Pipeline], leaving: Leaving) -> str:
    nodes = dict.fromkeys(each.node for each in places if each.node in leaving)
    return some_of([f"node {node} ({_are_leaving(leaving[node])})" for node in nodes])


def _have_left(pods: Sequence[str]) -> str:
    return f"{some_of(pods)} {'has' if len(pods) == 1 else 'have'} left"


def _are_leaving(pods: Sequence[str]) -> str:
    return f"{some_of(pods)} {'is' if len(pods) == 1 else 'are'} leaving"
