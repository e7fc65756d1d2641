"""Changes that the user of a workload can make: smaller or fewer pods, a smaller minimum, fewer demands on nodes, or
another preemptibility, priority class or queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kai_sched.answers.changes import Change, taint_keys
from kai_sched.answers.explain.search import Changes, TrialSearch
from kai_sched.answers.explain.suggestion import USER, Finding, NothingHelps, Suggestion, smallest_set
from kai_sched.answers.goal import group_pods
from kai_sched.answers.workload_changes import (
    InClass,
    InQueue,
    Minimum,
    PodCount,
    PodGpus,
    Preemptible,
    RequiredLevel,
    Tolerate,
    WithoutDemand,
    constraints_of,
)
from kai_sched.lowering.constraints import untolerated
from kai_sched.model.checks import leaf_queues
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.resources import GPU
from kai_sched.plan.reasons import some_of

MOST_QUEUES = 3
TENTHS = 10


def user_findings(search: TrialSearch) -> Iterator[Finding]:
    """What the user can change, kind by kind."""
    cluster = search.trials.cluster
    pods = group_pods(cluster.pods, cluster.pod_groups, search.group)
    waiting = search.waiting
    yield from _smaller_pods(search, waiting)
    if search.goal.least == 1:
        yield from _fewer_pods(search, pods)
        yield from _smaller_minimum(search, pods)
    yield from _fewer_demands(search, waiting)
    yield from _wider_levels(search)
    yield from _preemptible(search)
    yield from _other_class(search)
    yield from _other_queue(search)


def _smaller_pods(search: TrialSearch, waiting: Sequence[Pod]) -> Iterator[Finding]:
    most = max((dict(pod.shape.request).get(GPU, 0.0) for pod in waiting), default=0.0)
    part = max((pod.shape.share.portion for pod in waiting if pod.shape.share), default=0.0)
    if most > 1:
        largest = max((node.allocatable.get(GPU, 0.0) for node in search.trials.cluster.nodes.values()), default=0.0)
        steps, step = range(int(min(most - 1, max(largest, 1.0))), 0, -1), 1
        unit, now = "GPU of each pod", f"{most:g}"
    elif part:
        steps, step = range(int(part * TENTHS - 1e-9), 0, -1), TENTHS
        unit, now = "tenth of a GPU of each pod", f"{part:g}"
    else:
        return
    found = search.first(steps, lambda each: (PodGpus(search.group, each / step),))
    if found.place is None:
        if steps:
            yield NothingHelps("gpusPerPod", USER, f"fewer GPUs per pod (down to {steps[-1] / step:g})")
        return
    gpus = steps[found.place] / step
    text = f"{gpus:g} GPU{'' if gpus == 1 else 's'} per pod instead of {now}"
    yield Suggestion("gpusPerPod", USER, text, unit, (PodGpus(search.group, gpus),), found.exact)


def _fewer_pods(search: TrialSearch, pods: Sequence[Pod]) -> Iterator[Finding]:
    alive = sum(not pod.has_ended for pod in pods)
    numbers = range(alive - 1, 0, -1)
    if not numbers:
        return
    found = search.first(numbers, lambda each: (PodCount(search.group, each),))
    if found.place is None:
        yield NothingHelps("pods", USER, "fewer pods (down to 1)")
        return
    number = numbers[found.place]
    text = f"{number} pod{'' if number == 1 else 's'} instead of {alive}"
    yield Suggestion("pods", USER, text, "pod", (PodCount(search.group, number),), found.exact)


def _smaller_minimum(search: TrialSearch, pods: Sequence[Pod]) -> Iterator[Finding]:
    group = search.trials.cluster.pod_groups.get(search.group)
    if group is None:
        return
    minimums = _minimums(group)
    for name, minimum in minimums:
        numbers = range(min(minimum - 1, len(pods)), 0, -1)
        of = f" of sub-group {name}" if name else ""
        found = search.first(numbers, partial(_minimum, search.group, name))
        if found.place is None:
            if len(minimums) == 1:
                yield NothingHelps("minimum", USER, f"a smaller minimum{of} (down to 1)")
            continue
        number = numbers[found.place]
        text = f"a minimum{of} of {number} pod{'' if number == 1 else 's'} instead of {minimum}"
        yield Suggestion("minimum", USER, text, "pod", (Minimum(search.group, number, name),), found.exact)


def _minimum(group: str, sub_group: str, minimum: int) -> Changes:
    return (Minimum(group, minimum, sub_group),)


def _minimums(group: PodGroup) -> list[tuple[str, int]]:
    """(sub-group, minimum) of each that can be lowered; "" for the group itself."""
    if not group.sub_groups:
        return [("", group.min_member)] if group.min_member and group.min_member > 1 else []
    parents = {each.parent for each in group.sub_groups}
    leaves = [each for each in group.sub_groups if each.name not in parents]
    return [(each.name, each.min_member) for each in leaves if each.min_member and each.min_member > 1]


def demand_changes(search: TrialSearch, waiting: Sequence[Pod]) -> list[tuple[Change, str]]:
    """What the pods ask of nodes and other pods, or do not tolerate: the change that leaves it out, and its words."""
    shapes = {id(pod.shape): pod.shape for pod in waiting}.values()
    found: list[tuple[Change, str]] = []
    selectors = sorted({pair for shape in shapes for pair in shape.node_selector})
    if selectors:
        what = some_of([f"{key}={value}" for key, value in selectors])
        found.append((WithoutDemand(search.group, "nodeSelector"), f"without its node selector ({what})"))
    if any(shape.node_affinity is not None for shape in shapes):
        found.append((WithoutDemand(search.group, "nodeAffinity"), "without its required node affinity"))
    if any(shape.affinity for shape in shapes):
        found.append((WithoutDemand(search.group, "podAffinity"), "without its pod affinity"))
    if any(shape.anti_affinity for shape in shapes):
        found.append((WithoutDemand(search.group, "podAntiAffinity"), "without its pod anti-affinity"))
    group = search.trials.cluster.pod_groups.get(search.group)
    if group is not None and (constraints := constraints_of(group)):
        names = some_of(sorted({each.topology for each in constraints}))
        found.append((WithoutDemand(search.group, "topologyConstraint"), f"without its topology constraint ({names})"))
    taints = {node.taints for node in search.trials.cluster.nodes.values()}
    missing = {taint for shape in shapes for each in taints for taint in untolerated(shape.tolerations, each)}
    tolerant = [(Tolerate(search.group, key), f"with a toleration of the taint {key}") for key in taint_keys(missing)]
    return [*found, *tolerant]


def _fewer_demands(search: TrialSearch, waiting: Sequence[Pod]) -> Iterator[Finding]:
    """Each demand that is enough alone; where none is, all of them, as far as they are needed."""
    demands = demand_changes(search, waiting)
    if not demands:
        return
    alone = [(change, text) for change, text in demands if search.starts((change,))]
    for change, text in alone:
        yield Suggestion("demand", USER, text, "", (change,))
    if alone:
        return
    if len(demands) > 1 and search.starts(tuple(change for change, _ in demands)):
        kept = [demands[place] for place in smallest_set(search, [(change,) for change, _ in demands])]
        changes = tuple(change for change, _ in kept)
        yield Suggestion("demand", USER, " and ".join(text for _, text in kept), "demand", changes)
        return
    yield NothingHelps("demand", USER, "fewer demands on nodes (down to none)")


def _wider_levels(search: TrialSearch) -> Iterator[Finding]:
    """The narrowest level above the required one that is enough; and the required level as a preferred one."""
    group = search.trials.cluster.pod_groups.get(search.group)
    required = {(each.topology, each.required_level) for each in constraints_of(group)} if group else set()
    required = {(topology, level) for topology, level in required if level}
    if len(required) != 1:
        return
    ((name, level),) = required
    topology = search.trials.cluster.topologies.get(name)
    place = topology.level(level) if topology else 0
    if topology is None or not place:
        return
    wider = topology.levels[: place - 1][::-1]
    found = search.first(wider, lambda each: (RequiredLevel(search.group, each),))
    if found.place is not None:
        wide = topology.level(wider[found.place]) - 1
        text = f"{topology.aliases[wide] or topology.levels[wide]} required instead of {level}"
        change = RequiredLevel(search.group, wider[found.place])
        yield Suggestion("topologyLevel", USER, text, "level", (change,), found.exact)
    preferred = (RequiredLevel(search.group, ""),)
    if search.starts(preferred):
        yield Suggestion("topologyPreferred", USER, f"{level} preferred instead of required", "", preferred)
    elif found.place is None:
        yield NothingHelps("topologyLevel", USER, "a wider or only preferred level of the topology")


def _preemptible(search: TrialSearch) -> Iterator[Finding]:
    state = search.base.first.groups.get(search.group)
    if state is None or state.preemptible or state.queue not in search.trials.cluster.queues:
        return
    change = (Preemptible(search.group),)
    if search.starts(change):
        yield Suggestion("preemptible", USER, "preemptible (spec.preemptibility)", "", change)
    else:
        yield NothingHelps("preemptible", USER, "being preemptible")


def _other_class(search: TrialSearch) -> Iterator[Finding]:
    """The priority class whose value is nearest to that of the group."""
    state = search.base.first.groups.get(search.group)
    classes = search.trials.cluster.priority_classes
    if state is None:
        return
    values = {each.value: name for name, each in sorted(classes.items(), reverse=True) if _is_for_users(name)}
    values.pop(state.priority, None)
    order = sorted(values, key=lambda value: (abs(value - state.priority), value))
    if not order:
        return
    found = search.first(order, lambda value: (InClass(search.group, values[value]),))
    if found.place is None:
        yield NothingHelps("priorityClass", USER, f"another priority class ({len(order)} tried)")
        return
    value = order[found.place]
    text = f"priority class {values[value]} ({value}) instead of {state.priority}"
    yield Suggestion("priorityClass", USER, text, "value of a class", (InClass(search.group, values[value]),))


def _is_for_users(name: str) -> bool:
    return not name.startswith("system-")


def _other_queue(search: TrialSearch) -> Iterator[Finding]:
    state = search.base.first.groups.get(search.group)
    own = state.queue if state else ""
    leaves = [name for name in leaf_queues(search.trials.cluster, search.trials.config) if name != own]
    if not leaves:
        return
    looked = leaves[: search.affordable(len(leaves))]
    able = [name for name in looked if search.starts((InQueue(search.group, name),))]
    # Those first in which it costs others least.
    able.sort(key=lambda name: (len(search.tried((InQueue(search.group, name),)).evicted), name))
    for name in able[:MOST_QUEUES]:
        yield Suggestion("queue", USER, f"queue {name} instead of {own or 'none'}", "", (InQueue(search.group, name),))
    if not able:
        yield NothingHelps("queue", USER, f"another queue ({len(looked)} of {len(leaves)} tried)")
