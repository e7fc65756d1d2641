"""Shapes with topology constraints: racks in zones."""

from __future__ import annotations

from dataclasses import replace

from kai_sched.model.objects import Node, Object, PodGroup, Topology, TopologyConstraint
from tests.perf.builder import GPUS_PER_NODE, Builder

TOPOLOGY = Topology("data-center", "data-center-uid", ("zone", "rack"), ("", ""))


def gangs_in_zones(prefix: str, zones: int, racks: int, nodes: int, gangs: int) -> list[Object]:
    """Gangs of 16 pods with 4 GPUs wait, which need one zone and prefer one rack; ``nodes`` are those of a rack."""
    build = Builder(prefix)
    build.nodes(zones * racks * nodes)
    queue = build.queue("queue", "", zones * racks * nodes * GPUS_PER_NODE, 0)
    for j in range(gangs):
        build.job(j, queue, gpus=4, pods=16)
    constraint = TopologyConstraint(TOPOLOGY.name, "zone", "rack")
    return _constrained(build.objects, constraint, nodes, racks)


def gang_in_a_rack(prefix: str, n_nodes: int, racks: int, pods: int, quota: float) -> list[Object]:
    """All nodes are full of single pods of a queue without quota; a gang with whole nodes needs one rack.

    Node i is in rack i mod ``racks``, all racks in one zone. ``quota`` is that of the gang's queue.
    """
    build = Builder(prefix)
    build.nodes(n_nodes)
    borrower, owner = build.queue("borrower", "", 0.0, 0, weight=0.0), build.queue("owner", "", quota, 1)
    for j in range(n_nodes * GPUS_PER_NODE):
        build.job(j, borrower, node=build.node(j % n_nodes))
    build.job(n_nodes * GPUS_PER_NODE, owner, GPUS_PER_NODE, pods)
    return _constrained(build.objects, TopologyConstraint(TOPOLOGY.name, "rack"), 0, racks)


def _constrained(objects: list[Object], constraint: TopologyConstraint, per_rack: int, racks: int) -> list[Object]:
    """The objects with a rack and a zone for each node, and the constraint for each gang.

    ``per_rack`` neighbours share a rack, and ``racks`` racks a zone; 0: node i is in rack i mod ``racks`` of one zone.
    """
    found: list[Object] = [TOPOLOGY]
    n = 0
    for each in objects:
        if isinstance(each, Node):
            rack, zone = (n // per_rack, n // per_rack // racks) if per_rack else (n % racks, 0)
            each = replace(each, labels={**each.labels, "rack": f"rack-{rack:03}", "zone": f"zone-{zone}"})
            n += 1
        elif isinstance(each, PodGroup) and each.min_member != 1:
            each = replace(each, topology=constraint)
        found.append(each)
    return found
