"""The table of topology domains, and the constraint of each set in numbers: which topology, which levels, and what is
wrong with it (semantics 10.1, 10.2).

Only topologies that some constraint names are lowered. A node belongs to a topology if it has all labels of its levels.

Invariant: the domains of a topology are in one piece, its root first, then level by level, and in a level by their
values; so the domains below a domain are neighbours in their level, and so are the nodes of a domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kai_sched.lowering.cache import Cache
from kai_sched.model.objects import Node, Topology, TopologyConstraint
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Longs, Topologies
from kai_sched.snapshot.verdicts import Verdict

OK = int(Verdict.OK)


@dataclass(frozen=True, slots=True)
class TopologyRows:
    """The table of domains, and the constraints of the sets of all layouts.

    Attributes
    ----------
    table
        The domains of all topologies that are in use.
    topologies
        The topology of each name; the table has rows of those that a constraint names, by name.
    domains
        (H,) the values of the labels that lead to each domain, from the top; none for a root.
    constraints
        (all sets of the cache's layouts, 4) the columns of ``Sets``: topology, required, preferred and fault.
    any
        Whether a layout that is in use has a constraint.
    """

    table: Topologies
    topologies: Mapping[str, Topology]
    domains: list[tuple[str, ...]]
    constraints: Ints
    any: bool


NO_CONSTRAINT = np.array([NULL, 0, 0, OK], np.int32)


def lower_topologies(cache: Cache, used: Longs, topologies: Mapping[str, Topology], nodes: list[Node]) -> TopologyRows:
    """The domains of the topologies that the layouts with the numbers ``used`` name, and the constraints of sets."""
    first = np.cumsum([0, *(len(each.parent) for each in cache.layouts)])
    constraints = np.tile(NO_CONSTRAINT, (int(first[-1]), 1))
    constrained = [number for number in used.tolist() if any(cache.layouts[number].constraints)]
    named = {each.topology for number in constrained for each in cache.layouts[number].constraints if each is not None}
    names = sorted(named & topologies.keys())
    in_use = tuple(topologies[name] for name in names)
    known = cache.columns.get("topologies")
    if known is None or known[0] != in_use:
        known = cache.columns["topologies"] = (in_use, *domain_table(in_use, nodes))
    _, table, domains = known
    rows = {name: row for row, name in enumerate(names)}
    for number in constrained:
        for s, constraint in enumerate(cache.layouts[number].constraints, int(first[number])):
            if constraint is not None:
                constraints[s] = _columns(constraint, topologies, rows)
    return TopologyRows(table, topologies, domains, constraints, bool(constrained))


def _columns(constraint: TopologyConstraint, topologies: Mapping[str, Topology], rows: Mapping[str, int]) -> Ints:
    """(4,) row of the topology, numbers of the required and the preferred level (0: none), and the verdict on it.

    A constraint with a fault keeps the set from being placed, so its other numbers do not matter then.
    """
    found = topologies.get(constraint.topology)
    if found is None:
        return np.array([NULL, 0, 0, Verdict.NO_TOPOLOGY], np.int32)
    named = (constraint.required_level, constraint.preferred_level)
    required, preferred = (found.level(name) for name in named)
    missing = any(name and not level for name, level in zip(named, (required, preferred), strict=True))
    above = 0 < preferred < required
    fault = Verdict.NO_LEVEL if missing or above or not any(named) else Verdict.OK
    return np.array([rows[found.name], required, preferred, fault], np.int32)


def domain_table(topologies: Sequence[Topology], nodes: list[Node]) -> tuple[Topologies, list[tuple[str, ...]]]:
    """The domains of these topologies, and the values of the labels that lead to each."""
    ptr, domains = [0], list[tuple[str, ...]]()
    level, parent, child_ptr, child_end = list[int](), list[int](), list[int](), list[int]()
    first, end, members = list[int](), list[int](), list[int]()
    leaf = np.full((len(topologies), len(nodes)), NULL, np.int32)
    for w, topology in enumerate(topologies):
        path_of = {}
        for n, node in enumerate(nodes):
            path = tuple(node.labels.get(label, "") for label in topology.levels)
            if all(path):
                path_of[n] = path
        base, order = len(members), sorted(path_of, key=lambda n: (path_of[n], n))
        members.extend(order)
        row_of: dict[tuple[str, ...], int] = {}
        for depth in range(len(topology.levels) + 1):
            for place, path in enumerate([path_of[n][:depth] for n in order] or [()][depth:]):
                row = row_of.get(path)
                if row is None:
                    row = row_of[path] = len(domains)
                    above = row_of[path[:-1]] if depth else NULL
                    domains.append(path)
                    level.append(depth)
                    parent.append(above)
                    child_ptr.append(0)
                    child_end.append(0)
                    first.append(base + place)
                    end.append(base + place)
                    if above != NULL:
                        child_ptr[above] = child_ptr[above] or row
                        child_end[above] = row + 1
                end[row] = base + min(place + 1, len(order))
        for n in order:
            leaf[w, n] = row_of[path_of[n]]
        ptr.append(len(domains))
    table = Topologies(
        ptr=np.array(ptr, np.int32),
        level=np.array(level, np.int32),
        parent=np.array(parent, np.int32),
        child_ptr=np.array(child_ptr, np.int32),
        child_end=np.array(child_end, np.int32),
        first=np.array(first, np.int32),
        end=np.array(end, np.int32),
        node=np.array(members, np.int32),
        leaf=leaf,
    )
    return table, domains
