"""Warnings and errors about references between objects: missing queues, circles of parents, unknown priority classes,
groups short of pods.

Each object by itself is valid.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from kai_sched.api.names import DEFAULT_QUEUE
from kai_sched.model.claims.checks import slice_problems
from kai_sched.model.config import Config, in_pool
from kai_sched.model.objects import UNLIMITED, Phase, Pod, PodGroup, Queue
from kai_sched.model.problems import Problem, some_of
from kai_sched.model.queue_tree import rooted_queues
from kai_sched.model.read.custom import MEGABYTE
from kai_sched.model.store import Cluster

DEFAULT_SET = "default"
QUEUE_FIELD = "spec.queue"  # of a PodGroup
_DEFAULT_SETS = frozenset({DEFAULT_SET})

# Of findings that differ in the object only, this many are listed one by one.
ALIKE_MAX = 20
_LIVE = frozenset({Phase.PENDING, Phase.RUNNING, Phase.UNKNOWN})


def problems_of(cluster: Cluster, config: Config) -> list[Problem]:
    """All findings, fatal ones first, then by object. ``source`` is left empty, as the model knows no files."""
    cycles = list(_queue_cycles(cluster.queues))
    if cycles:
        return sorted(cycles)
    found = [
        *_lost_queues(cluster.queues),
        *_exceeded_quotas(cluster.queues),
        *_group_problems(cluster),
        *_pod_problems(cluster, config),
    ]
    found += [*_missing_kinds(cluster, config), *slice_problems(cluster)]
    return sorted(found, key=lambda each: (not each.fatal, each))


def _queue_cycles(queues: Mapping[str, Queue]) -> Iterator[Problem]:
    """Every cycle of parents once, beginning with its smallest name."""
    done: set[str] = set()
    for start in sorted(queues):
        path: list[str] = []
        on_path: dict[str, int] = {}
        name = start
        while name in queues and name not in done and name not in on_path:
            on_path[name] = len(path)
            path.append(name)
            name = queues[name].parent
        if name in on_path:
            cycle = path[on_path[name] :]
            first = cycle.index(min(cycle))
            cycle = cycle[first:] + cycle[:first]
            text = " -> ".join((*cycle, cycle[0]))
            message = f"the queue is its own ancestor ({text}): give one of them another parent"
            yield Problem("", f"Queue {cycle[0]}", "spec.parentQueue", message, fatal=True)
        done.update(path)


def _lost_queues(queues: Mapping[str, Queue]) -> Iterator[Problem]:
    present = rooted_queues(queues)
    children: dict[str, list[str]] = defaultdict(list)
    for queue in queues.values():
        children[queue.parent].append(queue.name)
    for name in sorted(queues):
        parent = queues[name].parent
        if name in present or parent in queues:
            continue
        below = []
        todo = sorted(children[name])
        while todo:
            each = todo.pop(0)
            below.append(each)
            todo.extend(sorted(children[each]))
        text = f", as are the queues below it: {some_of(below)}" if below else ""
        message = (
            f"there is no queue {parent!r}, so this queue is ignored{text}; create the parent, or correct the name"
        )
        yield Problem("", f"Queue {name}", "spec.parentQueue", message)


def _exceeded_quotas(queues: Mapping[str, Queue]) -> Iterator[Problem]:
    """Quotas of queues that the queue above them does not have."""
    children: dict[str, list[Queue]] = defaultdict(list)
    for name in sorted(queues):
        children[queues[name].parent].append(queues[name])
    for name in sorted(queues):
        for resource, unit in (("cpu", 1.0), ("memory", MEGABYTE), ("gpu", 1.0)):
            own = getattr(queues[name], resource).quota
            asked = {each.name: getattr(each, resource).quota for each in children[name]}
            below = {each: quota for each, quota in asked.items() if quota}
            total = UNLIMITED if UNLIMITED in below.values() else sum(below.values())
            if own == UNLIMITED or (total <= own * (1 + 1e-9) and total != UNLIMITED):
                continue
            texts = [
                f"{each} {'unlimited' if quota == UNLIMITED else f'{quota / unit:g}'}" for each, quota in below.items()
            ]
            much = "an unlimited quota" if total == UNLIMITED else f"quotas of {total / unit:g} in all"
            message = f"the queues below it have {much} ({some_of(texts)}), and it has {own / unit:g}, so they cannot"
            message = f"{message} all be served: raise it, or lower theirs"
            yield Problem("", f"Queue {name}", f"spec.resources.{resource}.quota", message)


def leaf_queues(cluster: Cluster, config: Config) -> list[str]:
    """Names of the leaf queues, sorted: those that accept pods."""
    present = rooted_queues(cluster.queues)
    parents = {cluster.queues[name].parent for name in present}
    roots_count = config.full_hierarchy_fairness
    return sorted(name for name in present.keys() - parents if roots_count or cluster.queues[name].parent)


class _QueueNames:
    """The queues that a group can use, and the finding for a group that names another one."""

    def __init__(self, cluster: Cluster, config: Config) -> None:
        leaves = leaf_queues(cluster, config)
        self._leaves = frozenset(leaves)
        self._all = cluster.queues
        self._present = rooted_queues(cluster.queues)
        self._there = (
            f"the queues that accept pods are {some_of(leaves)}" if leaves else "there is no queue that accepts pods"
        )

    def problem(self, subject: str, field: str, name: str) -> Problem | None:
        if name in self._leaves:
            return None
        if not name:
            fault = "names no queue"
        elif name not in self._all:
            fault = f"there is no queue {name!r}"
        elif name not in self._present:
            fault = f"queue {name!r} is ignored because a queue above it is missing"
        else:
            fault = f"queue {name!r} has child queues and accepts no pods itself"
        return Problem("", subject, field, f"{fault}, so the group stays pending: {self._there}")


def _group_problems(cluster: Cluster) -> Iterator[Problem]:
    members: dict[str, Counter[str]] = defaultdict(Counter)
    finished: set[str] = set()
    for pod in cluster.pods.values():
        if pod.group and pod.phase in _LIVE:
            members[pod.group_key][pod.sub_group or DEFAULT_SET] += 1
        elif pod.group and pod.phase == Phase.SUCCEEDED:
            finished.add(pod.group_key)
    for key, group in sorted(cluster.pod_groups.items()):
        subject = f"PodGroup {key}"
        if group.priority_class and group.priority_class not in cluster.priority_classes:
            yield _unknown_class(subject, "spec.priorityClassName", group.priority_class)
        fault = tree_fault(group)
        if fault is not None:
            yield Problem(
                "", subject, fault[0], f"{fault[1]}; until then the sub-groups are ignored and the minimum is 1 pod"
            )
        # A group with a finished pod no longer needs its minimum.
        elif key not in finished:
            short = short_of(group, members[key])
            if short:
                yield Problem("", subject, short[0], f"{short[1]}: the group waits until it has enough")


def _unknown_class(subject: str, field: str, name: str) -> Problem:
    message = (
        f"there is no priority class {name!r}, so the default priority is used: create the class, or correct the name"
    )
    return Problem("", subject, field, message)


def tree_fault(group: PodGroup) -> tuple[str, str] | None:
    """(field, text) of the first sub-group that keeps the sub-groups from being a tree; None if they are one."""
    if not group.sub_groups:
        return None
    parents = {each.name: each.parent for each in group.sub_groups}
    names = Counter(each.name for each in group.sub_groups)
    rooted: set[str] = set()  # known to be in no cycle, so that a chain is walked only once
    for i, each in enumerate(group.sub_groups):
        field = f"spec.subGroups[{i}]"
        if not each.name:
            return f"{field}.name", "empty: give the sub-group a name"
        if names[each.name] > 1:
            return f"{field}.name", f"{each.name!r} occurs {names[each.name]} times: give each sub-group its own name"
        if each.parent and each.parent not in parents:
            return f"{field}.parent", f"there is no sub-group {each.parent!r}: add it, or correct the name"
        if _circles(each.name, parents, rooted):
            return (
                f"{field}.parent",
                f"sub-group {each.name!r} is its own ancestor: give it, or one above it, another parent",
            )
    return None


def _circles(name: str, parents: Mapping[str, str], rooted: set[str]) -> bool:
    """Whether the parents of the sub-group form a cycle. If not, they are added to ``rooted``.

    A parent that does not exist ends the walk; the sub-group that names it gets a finding of its own.
    """
    path: dict[str, None] = {}
    while name and name in parents and name not in rooted:
        if name in path:
            return True
        path[name] = None
        name = parents[name]
    rooted.update(path)
    return False


def pod_sets(group: PodGroup) -> frozenset[str]:
    """Names of the pod sets of the group; only the default one if its sub-groups are no tree."""
    if not group.sub_groups or tree_fault(group) is not None:
        return _DEFAULT_SETS
    return frozenset({each.name for each in group.sub_groups} - {each.parent for each in group.sub_groups})


def short_of(group: PodGroup, members: Mapping[str, int]) -> tuple[str, str] | None:
    """(field, text) if the group cannot reach its minimum with these numbers of pods by sub-group; else None."""
    if not group.sub_groups:
        need = 1 if group.min_member is None else group.min_member
        have = members.get(DEFAULT_SET, 0)
        return ("spec.minMember", f"{have} of {need} required pods exist") if have < need else None
    children: dict[str, list[str]] = defaultdict(list)
    minimum: dict[str, int | None] = {"": group.min_sub_group}
    for each in group.sub_groups:
        children[each.parent].append(each.name)
    texts = {}
    for each in group.sub_groups:
        minimum[each.name] = each.min_sub_group if children[each.name] else each.min_member or 0
    order = [""]
    for name in order:
        order.extend(children[name])
    ready: dict[str, bool] = {}
    for name in reversed(order):
        if name and not children[name]:
            need, have = minimum[name] or 0, members.get(name, 0)
            ready[name] = have >= need
            texts[name] = f"sub-group {name} has {have} of {need} pods"
            continue
        wanted = minimum[name]
        ready[name] = sum(ready[each] for each in children[name]) >= (len(children[name]) if wanted is None else wanted)
    if ready[""]:
        return None
    missing = [texts[name] for name in sorted(texts) if not ready[name]]
    return "spec.subGroups", "; ".join(missing) or "minSubGroup is larger than the number of sub-groups"


def _pod_problems(cluster: Cluster, config: Config) -> Iterator[Problem]:
    queues = _QueueNames(cluster, config)
    for key, group in sorted(cluster.pod_groups.items()):
        problem = queues.problem(f"PodGroup {key}", QUEUE_FIELD, group.queue)
        if problem:
            yield problem
    sets = {key: pod_sets(group) for key, group in cluster.pod_groups.items() if tree_fault(group) is None}
    for key, pod in sorted(cluster.pods.items()):
        if pod.phase not in _LIVE:
            continue
        subject = f"Pod {key}"
        if pod.node and pod.node not in cluster.nodes:
            message = (
                f"there is no node {pod.node!r} in the input, so what the pod holds there is not counted: add the node"
            )
            yield Problem("", subject, "spec.nodeName", message)
        if pod.group:
            yield from _membership(subject, pod, sets, cluster)
        elif pod.scheduler == config.scheduler_name and in_pool(pod.labels, config):
            field = f"metadata.labels[{config.queue_label}]"
            problem = queues.problem(subject, field, pod.queue or DEFAULT_QUEUE)
            if problem:
                yield problem
            if pod.priority_class and pod.priority_class not in cluster.priority_classes:
                yield _unknown_class(subject, "spec.priorityClassName", pod.priority_class)


def _membership(subject: str, pod: Pod, sets: Mapping[str, frozenset[str]], cluster: Cluster) -> Iterator[Problem]:
    key = pod.group_key
    if key not in cluster.pod_groups:
        message = f"there is no PodGroup {key!r}, so the pod is never scheduled: add the group, or correct the name"
        yield Problem("", subject, "metadata.annotations[pod-group-name]", message)
        return
    name = pod.sub_group or DEFAULT_SET
    if key in sets and name not in sets[key]:
        there = some_of(sorted(sets[key]))
        message = f"there is no sub-group {name!r} in PodGroup {key}, so the pod is never scheduled: use one of {there}"
        yield Problem("", subject, "metadata.labels[kai.scheduler/subgroup-name]", message)


def _missing_kinds(cluster: Cluster, config: Config) -> Iterator[Problem]:
    """A warning for kinds that pending pods need and that the input leaves out entirely, as inputs often do."""
    waiting = [
        pod
        for pod in cluster.pods.values()
        if not pod.node and pod.phase == Phase.PENDING and (pod.group or pod.scheduler == config.scheduler_name)
    ]
    if not cluster.config_maps and (count := sum(bool(pod.shape.config_maps) for pod in waiting)):
        yield _missing_kind(count, "ConfigMap", "configmaps")
    if not cluster.volume_claims and (count := sum(bool(pod.shape.claims) for pod in waiting)):
        yield _missing_kind(count, "PersistentVolumeClaim", "persistentvolumeclaims,persistentvolumes,storageclasses")
    if not cluster.resource_slices and (count := sum(bool(pod.claims) for pod in waiting)):
        yield _missing_kind(count, "ResourceSlice", "resourceslices,deviceclasses,resourceclaims")


def _missing_kind(count: int, kind: str, resources: str) -> Problem:
    pods = "1 pending pod needs one" if count == 1 else f"{count} pending pods need one"
    return Problem("", kind, "", f"{pods} and the input has none, so they stay pending: add {resources} to it")


_INDEX = re.compile(r"\[[^\]]*\]|'[^']*'|\d+")


def limited(problems: Iterable[Problem]) -> list[Problem]:
    """The findings without duplicates; of similar ones the first twenty, and how many more there are."""
    kept: list[Problem] = []
    counts: Counter[tuple[bool, str, str, str]] = Counter()
    for problem in dict.fromkeys(problems):
        alike = (
            problem.fatal,
            problem.subject.split(" ")[0],
            _INDEX.sub("", problem.field),
            _INDEX.sub("", problem.message)[:40],
        )
        counts[alike] += 1
        if counts[alike] <= ALIKE_MAX:
            kept.append(problem)
    for (fatal, kind, field, _), count in counts.items():
        if count > ALIKE_MAX:
            kept.append(Problem("", kind, field, f"{count - ALIKE_MAX} more like this", fatal))
    return kept
