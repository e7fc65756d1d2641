"""Snapshots whose nodes are in racks of zones, and whose sets have constraints."""

from __future__ import annotations

import numpy as np

from kai_sched.lowering.topologies import domain_table
from kai_sched.model.objects import Node, Topology
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Snapshot, freeze
from tests.unit.solver.tables import Member, assemble, node_table

ZONE, RACK = 1, 2
LEVELS = Topology("t", levels=("zone", "rack"), aliases=("", ""))


def in_racks(
    places: list[str], roots: list[Member], gpus: list[float], constraints: dict[int, tuple[int, int]]
) -> Snapshot:
    """Nodes in places such as "a1", zone a and rack 1 of it ("": nowhere), with so many GPUs each.

    ``constraints``: required and preferred level by set. Each pod asks for one GPU.
    """
    nodes = [Node(f"n{n}", labels=dict(zip(("zone", "rack"), place, strict=False))) for n, place in enumerate(places)]
    topologies, _ = domain_table([LEVELS], nodes)
    rooms = [[9.0, 9.0, size, 9.0, 0.0] for size in gpus]
    snapshot = assemble(roots, nodes=node_table(rooms), request=[[0.0, 0.0, 1.0, 1.0, 0.0]])
    columns = np.tile(np.array([NULL, 0, 0], np.int32), (snapshot.sets.parent.size, 1))
    for s, (required, preferred) in constraints.items():
        columns[s] = 0, required, preferred
    topology, required_, preferred_ = (np.ascontiguousarray(column) for column in columns.T)
    sets = snapshot.sets._replace(topology=topology, required=required_, preferred=preferred_)
    return snapshot._replace(topologies=freeze(topologies), sets=freeze(sets))


def nodes_in(snapshot: Snapshot, h: int) -> list[int]:
    """The nodes of a domain."""
    table = snapshot.topologies
    rows: Ints = table.node[table.first[h] : table.end[h]]
    return [int(n) for n in rows]
