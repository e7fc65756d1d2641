"""NUMA zones in the twin: what pods hold of them, counted afresh each time, and what they get (semantics 12.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kai_sched import Cluster, Config
from kai_sched.model.numa import Alignment, NodeZones, Placement, ZoneAmounts
from tests.oracle.devices import holds
from tests.oracle.numa import Amounts, place_pod
from tests.oracle.records import Machine, Task

POINTS = 100.0
Held = list[Amounts]


def known_zones(cluster: Cluster, name: str, config: Config) -> NodeZones | None:
    """The zones of the node, without resources that are ignored; a node with more than 16 counts as one without."""
    zones = cluster.node_zones.get(name)
    if "numa" not in config.plugins or zones is None or not 0 < len(zones.zones) <= 16:
        return None
    ignored = set(str(config.plugins["numa"].get("ignoreList", "")).split(","))

    def counted(amounts: Mapping[str, float]) -> dict[str, float]:
        return {name: amount for name, amount in amounts.items() if name not in ignored}

    each = [
        replace(zone, allocatable=counted(zone.allocatable), available=counted(zone.available)) for zone in zones.zones
    ]
    return replace(zones, zones=tuple(each))


def give_records(machine: Machine, tasks: Sequence[Task], config: Config) -> None:
    """Let the pods of a node hold what their records say. Without reconstruction what is available is without them."""
    if machine.zones is None:
        return
    for task in tasks:
        task.zones = task.first_zones = record_of(task, machine.zones)
    machine.offered = sizes(machine.zones)
    if config.plugins["numa"].get("reconstructAvailable") == "false":
        names = reported(machine.zones)
        machine.offered = [
            whole((name, zone.available.get(name, 0.0)) for name in names) for zone in machine.zones.zones
        ]
        for task in tasks:
            for z, name, amount in entries(task.zones):
                machine.offered[z][name] += amount


def record_of(task: Task, zones: NodeZones) -> Held:
    """What the pod's record says of each zone, and no more than the pod requests, in the order of the zones; nothing,
    if it names one that the node does not have.
    """
    places = {zone.name: z for z, zone in enumerate(zones.zones)}
    found: Held = [{} for _ in zones.zones]
    if any(each.zone not in places for each in task.pod.zones) or task.pod.shape.numa is None:
        return found
    left = whole(task.pod.shape.numa.pod)
    for each in sorted(task.pod.zones, key=lambda each: places[each.zone]):
        for name, amount in whole(each.amounts).items():
            if name in reported(zones):
                found[places[each.zone]][name] = min(amount, left.get(name, 0))
                left[name] = left.get(name, 0) - min(amount, left.get(name, 0))
    return found


def whole(amounts: Iterable[tuple[str, float]]) -> Amounts:
    """Millicores, bytes and devices."""
    return {name: round(amount) for name, amount in amounts}


def reported(zones: NodeZones) -> list[str]:
    return sorted({name for zone in zones.zones for name in zone.allocatable})


def sizes(zones: NodeZones) -> Held:
    return [whole((name, zone.allocatable.get(name, 0.0)) for name in reported(zones)) for zone in zones.zones]


def entries(held: Held) -> list[tuple[int, str, int]]:
    """(zone, resource, amount) of all that is held."""
    return [(z, name, amount) for z, each in enumerate(held) for name, amount in sorted(each.items()) if amount]


def free(machine: Machine, later: bool) -> Held:
    """What can be taken of each zone: once those that leave have left, or now, when all hold what they ever do."""
    left = [dict(each) for each in machine.offered]
    for task in machine.tasks:
        if holds(task, True) or (not later and holds(task, False)):
            for z, name, amount in entries(task.zones):
                if name in left[z]:
                    left[z][name] -= amount
    return left


def requests(task: Task, zones: NodeZones) -> list[tuple[bool, Amounts]]:
    """What is placed one after the other, of the resources that count here; True: it runs alone."""
    asked = task.pod.shape.numa
    assert asked is not None
    parts: Sequence[tuple[bool, Sequence[tuple[str, float]]]] = (
        [(False, asked.pod)] if zones.pod_scope else [(each.first, each.amounts) for each in asked.containers]
    )
    names = set(reported(zones))
    return [(alone, whole(each for each in need if each[0] in names)) for alone, need in parts]


def is_aligned(task: Task) -> bool:
    asked = task.pod.shape.numa
    return asked is not None and bool(asked.pod)


def placed(task: Task, machine: Machine, later: bool) -> Held | None:
    """What the pod would take of each zone; None: they cannot hold it."""
    zones = machine.zones
    assert zones
    offered = [{name: max(0, amount) for name, amount in each.items()} for each in free(machine, later)]
    return place_pod(zones.policy, requests(task, zones), offered, sizes(zones))


def may_refuse(task: Task, machine: Machine) -> bool:
    return is_aligned(task) and machine.zones is not None and machine.zones.policy >= Alignment.RESTRICTED


def fits_zones(task: Task, machine: Machine, later: bool) -> bool:
    """Whether the kubelet would take the pod, now or later."""
    if not may_refuse(task, machine) or placed(task, machine, later=False) is not None:
        return True
    return later and placed(task, machine, later=True) is not None


def taken(task: Task, machine: Machine, waits: bool) -> Held:
    """What the pod holds from now on; nothing where its kubelet takes it all the same."""
    if not is_aligned(task) or machine.zones is None or machine.zones.policy == Alignment.NONE:
        return []
    return placed(task, machine, waits) or []


def home_is_free(task: Task, machine: Machine) -> bool:
    """Whether what an evicted pod held of its node is still free."""
    if not task.zones or machine.zones is None:
        return True
    left = free(machine, True)
    return all(amount <= left[z].get(name, amount) for z, name, amount in entries(task.zones))


def meets_leaving(task: Task, leaving: Sequence[Task]) -> bool:
    """Whether one that leaves holds some of what the pod takes of a zone, also where there is enough for both."""
    mine = {(z, name) for z, name, _ in entries(task.zones)}
    return any((z, name) in mine for other in leaving for z, name, _ in entries(other.zones))


def placement_of(task: Task, machine: Machine) -> Placement:
    """What the pod holds, as it is written into its annotation."""
    names = [zone.name for zone in machine.zones.zones] if machine.zones else []
    held = [tuple((name, float(amount)) for name, amount in sorted(each.items()) if amount) for each in task.zones]
    return tuple(ZoneAmounts(name, amounts) for name, amounts in zip(names, held, strict=False) if amounts)


def zones_to_clear(task: Task, machine: Machine) -> range:
    """The zones of which the pod may need one."""
    return range(len(machine.zones.zones) if machine.zones and may_refuse(task, machine) else 0)


def holds_of(task: Task, node: str, zone: int) -> bool:
    """Whether the pod is on the node, and holds something of the zone."""
    return task.node == node and bool(task.zones) and any(task.zones[zone].values())


def gets_home(task: Task, machine: Machine) -> bool:
    """Whether an evicted pod would get just what it held."""
    if not is_aligned(task) or machine.zones is None:
        return True
    return home_is_free(task, machine) and entries(taken(task, machine, True)) == entries(task.zones)


def zone_points(task: Task, machine: Machine, most: int) -> float:
    """Fewer the more zones the pod would draw from; ``most``: those of the largest node."""
    if not is_aligned(task):
        return 0.0
    zones = machine.zones
    if zones is None:
        return POINTS / most
    if zones.policy == Alignment.NONE or not any(need for _, need in requests(task, zones)):
        return POINTS / len(zones.zones)
    found = placed(task, machine, later=False)
    if found is None:
        found = placed(task, machine, later=True)
    return POINTS / max(1, sum(any(each.values()) for each in found)) if found is not None else 0.0
