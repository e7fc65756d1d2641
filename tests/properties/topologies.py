"""Topologies for random clusters: one or two of up to three levels, and constraints of groups and sub-groups.

They are added to objects that are drawn already, so that the same draw without them gives the same cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from kai_sched.model import objects as o

LEVELS = ("example.com/region", "example.com/row", "example.com/rack")
ALIASES = ("Region", "", "Rack")
MISSING = ("nowhere", "nothing")


def with_topologies(rng: random.Random, objects: list[o.Object]) -> list[o.Object]:
    """The objects with labels on most nodes, with topologies, and with constraints on many groups."""
    found = [_labelled(rng, item) if isinstance(item, o.Node) else item for item in objects]
    depth = rng.choice((1, 2, 2, 3))
    topologies = [o.Topology("rooms", "rooms", LEVELS[3 - depth :], ALIASES[3 - depth :])]
    if rng.random() < 0.2:
        topologies.append(o.Topology("racks", "racks", LEVELS[2:], ("",)))
    nodes = {item.name: item for item in found if isinstance(item, o.Node)}
    pods = [item for item in found if isinstance(item, o.Pod) and item.node in nodes]
    uneven = {item.name for item in found if isinstance(item, o.PodGroup) and rng.random() < 0.2}
    found = [
        _resized(rng, item) if isinstance(item, o.Pod) and item.group in uneven and not item.node else item
        for item in found
    ]
    return [
        *topologies,
        *(_constrained(rng, item, topologies, pods, nodes) if isinstance(item, o.PodGroup) else item for item in found),
    ]


def _labelled(rng: random.Random, node: o.Node) -> o.Node:
    """Seldom without one of the labels."""
    labels = {LEVELS[0]: rng.choice("ab"), LEVELS[1]: rng.choice("xy"), LEVELS[2]: rng.choice("123")}
    if rng.random() < 0.1:
        labels.pop(rng.choice(LEVELS))
    return replace(node, labels={**node.labels, **labels})


def _resized(rng: random.Random, pod: o.Pod) -> o.Pod:
    """The pod with another number of GPUs: what domains can hold is counted differently where pods of a set differ."""
    request = {**dict(pod.shape.request), "gpu": float(rng.choice((0, 1, 1, 2, 3)))}
    shape = replace(pod.shape, request=tuple(sorted((name, amount) for name, amount in request.items() if amount)))
    return replace(pod, shape=shape) if pod.shape.share is None else pod


def _constrained(
    rng: random.Random,
    group: o.PodGroup,
    topologies: list[o.Topology],
    pods: list[o.Pod],
    nodes: dict[str, o.Node],
) -> o.PodGroup:
    """The group with constraints that its pods mostly keep."""
    if rng.random() < 0.3:
        return group
    group_pods = [pod for pod in pods if pod.group == group.name]

    def drawn(names: set[str], chance: float) -> o.TopologyConstraint | None:
        inside = [nodes[pod.node] for pod in group_pods if not names or (pod.sub_group or "default") in names]
        for _ in range(3):
            found = _constraint(rng, topologies) if rng.random() < chance else None
            if found is None or is_kept(found, topologies, inside) or rng.random() < 0.1:
                return found
        return None

    subs = tuple(replace(sub, topology=drawn(below(group, sub.name), 0.4)) for sub in group.sub_groups)
    return replace(group, topology=drawn(set(), 0.6 if subs else 1.0), sub_groups=subs)


def below(group: o.PodGroup, name: str) -> set[str]:
    """The sub-group and all below it."""
    found = {name}
    for _ in group.sub_groups:
        found |= {sub.name for sub in group.sub_groups if sub.parent in found}
    return found


def _constraint(rng: random.Random, topologies: list[o.Topology]) -> o.TopologyConstraint:
    """A required level, a preferred one, or both; seldom one that cannot be used."""
    topology = rng.choice(topologies)
    if rng.random() < 0.05:
        return rng.choice(
            (
                o.TopologyConstraint(MISSING[0], topology.levels[0]),
                o.TopologyConstraint(topology.name, MISSING[1]),
                o.TopologyConstraint(topology.name, topology.levels[0], MISSING[1]),
                o.TopologyConstraint(topology.name, topology.levels[-1], topology.levels[0]),
                o.TopologyConstraint(topology.name),
            )
        )
    n = len(topology.levels)
    required = rng.choice((-1, rng.randrange(n), rng.randrange(n)))
    preferred = rng.choice((-1, rng.randrange(max(required, 0), n))) if required >= 0 else rng.randrange(n)
    names = [rng.choice((topology.levels[k], topology.aliases[k] or topology.levels[k])) for k in range(n)]
    required_name, preferred_name = (names[k] if k >= 0 else "" for k in (required, preferred))
    return o.TopologyConstraint(topology.name, required_name, preferred_name)


def is_kept(constraint: o.TopologyConstraint, topologies: Iterable[o.Topology], nodes: list[o.Node]) -> bool:
    """Whether the nodes of pods share one domain of the required level, if there is one."""
    for topology in topologies:
        level = topology.level(constraint.required_level)
        if topology.name == constraint.topology and level:
            return len({tuple(node.labels.get(key, "") for key in topology.levels[:level]) for node in nodes}) <= 1
    return True
