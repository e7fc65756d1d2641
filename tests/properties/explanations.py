"""A judge of explanations that shares nothing with the search: it applies changes to a new store, runs cycles without a
cache until nothing changes, and lists for each proposal all smaller changes of its kind (docs/explain.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product

from kai_sched import Cluster, Config, Store, run_cycle
from kai_sched.answers.changes import AddNodes, Change, Remove, SetQueue, Uncordon, changed
from kai_sched.answers.explain.suggestion import Suggestion
from kai_sched.answers.trial import decide_unasked
from kai_sched.answers.workload_changes import (
    InClass,
    InPool,
    InQueue,
    Minimum,
    PodCount,
    PodGpus,
    Preemptible,
    RequiredLevel,
    Tolerate,
    WithoutDemand,
)
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.shards import AllShards
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model import objects as o
from kai_sched.model.config import in_pool
from tests.properties.clusters import NOW_NS

SECOND_NS = 10**9
CYCLES_MAX = 16
UNITS = {"gpu": 1.0, "cpu": 1000.0, "memory": 2.0**30}
# Of the ways in which several amounts can be smaller, this many are tried at most.
WAYS_MAX = 300
WORLD = World(SECOND_NS, revives=False, restarts_clocks=False, keeps_devices=False)

Changes = tuple[Change, ...]


def settled(cluster: Cluster, shards: Sequence[Config], changes: Sequence[Change] = ()) -> Cluster:
    """The cluster once it has been left alone after the changes, with the cycles of these shards."""
    store: Store = changed(cluster, changes)
    return _alone(store, shards[0]) if len(shards) == 1 else _together(store, shards)


def _together(store: Store, shards: Sequence[Config]) -> Cluster:
    cycles, now_ns = AllShards(shards, decide_unasked).begin(), NOW_NS
    for _ in range(CYCLES_MAX):
        view, serial = store.cluster(), store.serial
        result = cycles.decide(view, now_ns)
        advance(store, view, result, now_ns, WORLD)
        if store.serial == serial and not cycles.changed:
            break
        now_ns += SECOND_NS
    return store.cluster()


def _alone(store: Store, config: Config) -> Cluster:
    now_ns, tracker, before = NOW_NS, HintTracker(), None
    for _ in range(CYCLES_MAX):
        view, hints = store.cluster(), tracker.next_hints()
        result = run_cycle(view, config, now_ns, hints=hints)
        again = tracker.record(view, result, config) or tracker.due
        serial = store.serial
        advance(store, view, result, now_ns, WORLD)
        if store.serial == serial and not again and hints == before:
            break
        before = hints if store.serial == serial else None
        now_ns += SECOND_NS
    return store.cluster()


def members(cluster: Cluster, group: str) -> list[o.Pod]:
    """The pods of a group; of a bare pod's, that pod."""
    if group.startswith("pod:"):
        return [cluster.pods[group.removeprefix("pod:")]]
    inside = [pod for pod in cluster.pods.values() if pod.group and f"{pod.namespace}/{pod.group}" == group]
    if inside or group in cluster.pod_groups:
        return inside
    return [cluster.pods[group]] if group in cluster.pods else []


def holders(pods: Sequence[o.Pod]) -> list[o.Pod]:
    return [pod for pod in pods if pod.node and not pod.deleted_ns and pod.phase in (o.Phase.PENDING, o.Phase.RUNNING)]


def runs(cluster: Cluster, group: str) -> bool:
    """Whether the group holds its minimum."""
    held = holders(members(cluster, group))
    known = cluster.pod_groups.get(group)
    if known is None or not known.sub_groups or broken_tree(known):
        least = 1 if known is None or known.min_member is None or known.sub_groups else known.min_member
        return len(held) >= max(1, least)
    return bool(held) and met("", known, held)


def broken_tree(group: o.PodGroup) -> bool:
    names = [each.name for each in group.sub_groups]
    parents = {each.parent for each in group.sub_groups} - {""}
    return len(set(names)) < len(names) or not parents <= set(names)


def met(name: str, group: o.PodGroup, held: Sequence[o.Pod]) -> bool:
    """Whether a sub-group, or the group itself for "", has what it needs."""
    children = [each for each in group.sub_groups if each.parent == name]
    if not children:
        own = next(each for each in group.sub_groups if each.name == name)
        return sum(pod.sub_group == name for pod in held) >= (own.min_member or 0)
    wanted = group.min_sub_group
    if name:
        wanted = next(each for each in group.sub_groups if each.name == name).min_sub_group
    ready = sum(met(each.name, group, held) for each in children)
    return ready >= (len(children) if wanted is None else wanted)


def starts(cluster: Cluster, shards: Sequence[Config], group: str, changes: Sequence[Change] = ()) -> bool:
    """Whether the changes start the group: it runs, and where it ran before, with more pods.

    Of several shards only that of the group is decided, unless the changes put it into another one.
    """
    now = members(cluster, group)
    before = len(holders(now)) if runs(cluster, group) else 0
    if not any(isinstance(each, InPool) for each in changes):
        known = cluster.pod_groups.get(group)
        labels = known.labels if known is not None else now[0].labels
        shards = [each for each in shards if in_pool(labels, each)]
    after = settled(cluster, shards, changes)
    return runs(after, group) and len(holders(members(after, group))) > before


def smaller(found: Suggestion, cluster: Cluster, group: str, priority: int) -> Iterator[Changes]:
    """All changes of the kind that are smaller, in the unit that the suggestion names."""
    first = found.changes[0]
    waiting = [pod for pod in members(cluster, group) if not pod.node and not pod.deleted_ns]
    match first:
        case PodGpus():
            most = max(dict(pod.shape.request).get("gpu", 0.0) for pod in waiting)
            yield from ((PodGpus(group, float(gpus)),) for gpus in range(int(first.gpus) + 1, int(most)))
        case PodCount():
            alive = sum(pod.phase in (o.Phase.PENDING, o.Phase.RUNNING) for pod in members(cluster, group))
            yield from ((PodCount(group, number),) for number in range(first.pods + 1, alive))
        case Minimum():
            known = cluster.pod_groups[group]
            subs = {each.name: each.min_member for each in known.sub_groups} | {"": known.min_member}
            now = subs[first.sub_group] or 0
            yield from ((Minimum(group, number, first.sub_group),) for number in range(first.minimum + 1, now))
        case InClass():
            far = abs(cluster.priority_classes[first.priority_class].value - priority)
            for name, each in cluster.priority_classes.items():
                if 0 < abs(each.value - priority) < far and not name.startswith("system-"):
                    yield (InClass(group, name),)
        case AddNodes():
            yield from ((AddNodes(count, first.like),) for count in range(1, first.count))
        case SetQueue():
            yield from smaller_amounts([each for each in found.changes if isinstance(each, SetQueue)], cluster)
        case WithoutDemand() | Tolerate() | Uncordon():
            for size in range(1, len(found.changes)):
                yield from combinations(found.changes, size)
        case RequiredLevel():
            (topology,) = {cluster.topologies[each.topology] for each in _required(cluster, group)}
            now = min(topology.level(each.required_level) for each in _required(cluster, group))
            found_at = topology.level(first.level) if first.level else now  # preferred: made or not
            yield from ((RequiredLevel(group, topology.levels[level - 1]),) for level in range(found_at + 1, now))
        case Preemptible() | InQueue() | Remove() | InPool():
            return
        case _:
            raise AssertionError(f"no measure for {first}")


def _required(cluster: Cluster, group: str) -> list[o.TopologyConstraint]:
    known = cluster.pod_groups[group]
    constraints = [known.topology, *(each.topology for each in known.sub_groups)]
    return [each for each in constraints if each is not None and each.required_level]


def smaller_amounts(changes: Sequence[SetQueue], cluster: Cluster) -> Iterator[Changes]:
    """Each of the amounts at its value or at a smaller one, also as it is now; not all of them at their values."""
    ranges: list[list[SetQueue | None]] = []
    for each in changes:
        share: o.Share = getattr(cluster.queues[each.queue], each.share)
        now, unit = getattr(share, each.field), 1.0 if each.field == "weight" else UNITS[each.share]
        steps = range(1, math.ceil((each.value - math.floor(now / unit) * unit) / unit - 1e-9))
        values = [math.floor(now / unit) * unit + step * unit for step in steps]
        lower: list[SetQueue | None] = [SetQueue(each.queue, each.share, each.field, value) for value in values]
        ranges.append([None, *lower, each])
    ways = math.prod(len(choices) for choices in ranges)
    if ways <= WAYS_MAX:
        whole = [tuple(each for each in way if each is not None) for way in product(*ranges)]
        yield from (way for way in whole if way and way != tuple(changes))
        return
    for place, choices in enumerate(ranges):
        for choice in choices[:-1]:
            way = [each for other, each in enumerate(changes) if other != place]
            if picked := (*way, *([choice] if choice else [])):
                yield picked
